"""What surrounds the layers: embedding lookup, output head, sampling."""

from jaxroof.deployment import Deployment
from jaxroof.layers.elementwise import elementwise
from jaxroof.layers.linear import linear
from jaxroof.model import Model
from jaxroof.op import Op
from jaxroof.struct import Scalar


def embedding_op(model: Model, deployment: Deployment, tokens: Scalar) -> Op:
    """Lookup of one row of the embedding per token."""
    return elementwise(
        tokens,
        model.hidden * model.embedding.bytes / deployment.activation_bytes,
        model.hidden,
        deployment.activation_bytes,
        model.hidden,
        1.0,
    )


def head_ops(model: Model, deployment: Deployment, rows: Scalar) -> dict[str, Op]:
    """Output head on the rows that sample a token, its vocabulary split over tp, and sampling in float32.

    Sampling reads the logits twice (softmax statistics, choice) and takes one exponential for each.
    """
    vocabulary = model.vocabulary / deployment.tp
    return {
        "head": linear(rows, model.hidden, vocabulary, model.head, deployment.activation_bytes, 1.0),
        "sample": elementwise(
            rows, 2.0 * model.vocabulary, 1.0, 4.0, 3.0 * model.vocabulary, 1.0, kernels=2.0, exps=model.vocabulary
        ),
    }

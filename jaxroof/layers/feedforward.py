"""A dense feed-forward layer: fused up projections, activation, down projection."""

from collections.abc import Iterator

from jaxroof.deployment import Deployment
from jaxroof.layers.elementwise import elementwise
from jaxroof.layers.linear import Matrices, Matrix, projection, quantized_rows
from jaxroof.layers.protocol import FeedForwardKind, Sizes
from jaxroof.model import FeedForward
from jaxroof.op import Ops, with_role
from jaxroof.rule import Rule, width_rule
from jaxroof.struct import Scalar

ACTIVATION_FLOPS = 4.0
"""Vector FLOP per hidden element of SiLU or GELU times gate, beside its exponential."""


def feedforward_matrices(
    feedforward: FeedForward, hidden: Scalar, deployment: Deployment, prefix: str = ""
) -> Matrices:
    """Weight matrices of one layer on one device; its width is split over tp."""
    width = feedforward.intermediate / deployment.tp
    return {
        f"{prefix}up_proj": Matrix(hidden, feedforward.up_projections * width, feedforward.up, reads_norm=True),
        f"{prefix}down_proj": Matrix(width, hidden, feedforward.down, to_residual=True, target="down"),
    }


def feedforward_ops(
    feedforward: FeedForward,
    hidden: Scalar,
    deployment: Deployment,
    tokens: Scalar,
    count: Scalar,
    prefix: str = "",
) -> Ops:
    """Ops of one dense feed-forward layer in the order they run; names begin with `prefix`."""
    activation = deployment.activation_bytes
    up, down = feedforward_matrices(feedforward, hidden, deployment).values()
    width, kernels = down.inputs, 1.0 if deployment.activation_kernels is None else deployment.activation_kernels
    further = (kernels - 1.0) * width
    ops = {
        **projection(
            f"{prefix}up_proj", tokens, up, activation, count, quantized_rows=quantized_rows(tokens, deployment)
        ),
        f"{prefix}activation": elementwise(
            tokens,
            up.outputs + further,
            width + further,
            activation,
            ACTIVATION_FLOPS * width,
            count,
            kernels,
            exps=width,
        ),
        **projection(f"{prefix}down_proj", tokens, down, activation, count),
    }
    return with_role(ops, "feedforward")


def feedforward_width(feedforward: FeedForward, hidden: Scalar, deployment: Deployment) -> Scalar:
    """Elements per token between the matrices of a layer on one device."""
    return (feedforward.up_projections + 1.0) * feedforward.intermediate / deployment.tp


def feedforward_rules(feedforward: FeedForward, deployment: Deployment) -> Iterator[Rule]:
    """What a layer asks of a deployment."""
    yield width_rule("tp", deployment.tp, "feed-forward", feedforward.intermediate)


def adapted_sizes(feedforward: FeedForward, hidden: Scalar, deployment: Deployment) -> Sizes:
    """Inputs and outputs on one device of what low-rank adapters may change."""
    width = feedforward.intermediate / deployment.tp
    return {"up": (hidden, feedforward.up_projections * width), "down": (width, hidden)}


FEED_FORWARD = FeedForwardKind(
    matrices=feedforward_matrices,
    ops=lambda layer, hidden, deployment, tokens, group_tokens, count: feedforward_ops(
        layer, hidden, deployment, tokens, count
    ),
    width=feedforward_width,
    rules=feedforward_rules,
    adapted=adapted_sizes,
)
"""What the cost model asks of a dense feed-forward."""

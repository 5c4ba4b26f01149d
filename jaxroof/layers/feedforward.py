"""A dense feed-forward layer: fused up projections, activation, down projection."""

from jaxroof.deployment import Deployment
from jaxroof.layers.elementwise import elementwise
from jaxroof.layers.linear import Matrices, Matrix, projection
from jaxroof.model import FeedForward
from jaxroof.op import Op
from jaxroof.struct import Scalar

ACTIVATION_FLOPS = 4.0
"""Vector FLOP per hidden element of SiLU or GELU times gate, beside its exponential."""


def feedforward_matrices(
    feedforward: FeedForward, hidden: Scalar, deployment: Deployment, prefix: str = ""
) -> Matrices:
    """Weight matrices of one layer on one device; its width is split over tp."""
    width = feedforward.intermediate / deployment.tp
    return {
        f"{prefix}up_proj": Matrix(hidden, feedforward.up_projections * width, feedforward.up),
        f"{prefix}down_proj": Matrix(width, hidden, feedforward.down),
    }


def feedforward_ops(
    feedforward: FeedForward,
    hidden: Scalar,
    deployment: Deployment,
    tokens: Scalar,
    count: Scalar,
    prefix: str = "",
) -> dict[str, Op]:
    """Ops of one dense feed-forward layer in the order they run; names begin with `prefix`."""
    activation = deployment.activation_bytes
    up, down = feedforward_matrices(feedforward, hidden, deployment).values()
    width, kernels = down.inputs, 1.0 if deployment.activation_kernels is None else deployment.activation_kernels
    further = (kernels - 1.0) * width
    return {
        **projection(f"{prefix}up_proj", tokens, up, activation, count),
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

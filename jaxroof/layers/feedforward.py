"""A dense feed-forward layer: fused up projections, activation, down projection."""

from jaxroof.deployment import Deployment
from jaxroof.layers.elementwise import elementwise
from jaxroof.layers.linear import linear
from jaxroof.model import FeedForward
from jaxroof.op import Op
from jaxroof.struct import Scalar

ACTIVATION_FLOPS = 4.0
"""Vector FLOP per hidden element of SiLU or GELU times gate, beside its exponential."""


def feedforward_ops(
    feedforward: FeedForward,
    hidden: Scalar,
    deployment: Deployment,
    tokens: Scalar,
    count: Scalar,
    prefix: str = "",
) -> dict[str, Op]:
    """Ops of one dense feed-forward layer in the order they run; its width is split over tp."""
    width = feedforward.intermediate / deployment.tp
    fused = feedforward.up_projections * width
    activation = deployment.activation_bytes
    return {
        f"{prefix}up_proj": linear(tokens, hidden, fused, feedforward.up, activation, count),
        f"{prefix}activation": elementwise(
            tokens, fused, width, activation, ACTIVATION_FLOPS * width, count, exps=width
        ),
        f"{prefix}down_proj": linear(tokens, width, hidden, feedforward.down, activation, count),
    }

"""Low-rank adapters that requests run with."""

from jaxroof.field import count
from jaxroof.struct import Scalar, static, struct

ADAPTED = ("q", "k", "v", "o", "up", "down")
"""Matrices that low-rank adapters may change: of attention, its output, and the dense feed-forward's two."""


@struct
class Adapters:
    """Low-rank adapters (LoRA) beside one model: every request runs with one of them.

    Source: Hu et al., arXiv:2106.09685, section 4.1.
    """

    rank: Scalar = count("rank of the adapters")
    loaded: Scalar = count("adapters in the device's memory", "equally popular", default=1.0)
    targets: tuple[str, ...] = static(default=("q", "v"))  # of ADAPTED


@struct
class Adapted:
    """The model with adapters, or alone."""

    adapters: Adapters | None = None  # None: the model alone

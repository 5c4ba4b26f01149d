"""A rule that a deployment has to keep: whether it holds, and the sentence for when it does not."""

from collections.abc import Callable

from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.struct import Array, Scalar

Rule = tuple[Array, Callable[[], str]]
"""Whether it holds, shape (), and the sentence for when it does not; sentences need concrete numbers."""


def divides(divisor: Scalar, number: Scalar) -> Array:
    """Whether `number` is a multiple of `divisor`, shape ()."""
    return jnp.mod(number, divisor) == 0.0


def width_rule(name: str, ways: Scalar, kind: str, width: Scalar) -> Rule:
    """A width of a `kind` of feed-forward that is split `ways` ways by the degree `name`."""
    return divides(ways, width), lambda: f"{name} = {ways:g} does not divide the {kind} width {width:g}"


def heads_rule(tp: Scalar, heads: Scalar, kind: str) -> Rule:
    """Heads of a `kind` that tensor-parallel devices split, or hold copies of where there are more devices."""
    return (
        # More devices than heads: each head is replicated evenly.
        divides(tp, heads) | divides(heads, tp),
        lambda: f"tp = {tp:g} neither divides nor is a multiple of the {heads:g} {kind} heads",
    )

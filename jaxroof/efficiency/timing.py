"""Timing of one kernel: its time, and the time that each resource alone would take."""

import dataclasses
from typing import Any, NamedTuple, TypeVar

from jaxroof.hardware import Cores
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.struct import Scalar, number, struct


class Timing(NamedTuple):
    """Time of one run of an op."""

    total: Scalar  # s, fixed times included
    resources: dict[str, Scalar]  # s that each resource needs, by its name in `jaxroof.op.BOUNDS`


def joined(first: Scalar, second: Scalar) -> Scalar:
    """Fourth-power norm of two times: the longer one, and more where both are alike. In ratios, as powers of short
    times leave the range of floats.
    """
    longer = jnp.maximum(first, second)
    square = jnp.square(jnp.minimum(first, second) / jnp.where(longer > 0.0, longer, 1.0))
    return longer * jnp.sqrt(jnp.sqrt(1.0 + square * square))


# Declarations of constants by what their ranges have in common.


def reached(meaning: str, about: str = "", **facts: Any) -> Any:
    """A field with the share of a figure that kernels reach: of the datasheet, or of another class of cores."""
    return number("1", meaning, about, **({"most": 2.0} | facts))


def factor(meaning: str, about: str = "", **facts: Any) -> Any:
    """A field with an extra share of a time or of bytes, or a count of work; 0: none."""
    return number("1", meaning, about, **({"zero": True, "most": 1e4} | facts))


def clock_cycles(meaning: str, about: str = "", unit: str = "clock", **facts: Any) -> Any:
    """A field with clock cycles of the cores; 0: none."""
    return number(unit, meaning, about, **({"zero": True, "most": 1e7} | facts))


def fixed_time(meaning: str, about: str = "", **facts: Any) -> Any:
    """A field with a time in s; 0: none."""
    return number("s", meaning, about, **({"zero": True, "most": 1.0} | facts))


@struct
class Spread:
    """Standard deviation of the log ratio of measured to predicted times, on devices that were not fitted."""

    short: Scalar = factor("standard deviation of log errors of kernels of less than `SHORT` s", most=10.0)
    long: Scalar = factor("standard deviation of log errors of the other kernels", most=10.0)


SHORT = 30e-6
"""s below which a kernel's time is mostly launch, fill and drain."""

NINETY_PERCENT = 1.645
"""Standard deviations on either side of the median of a normal distribution that hold 90 % of it."""


# Constants of kernels that differ by class of cores: engines run other kernels on Hopper than on Blackwell.


Kernel = TypeVar("Kernel")

Constants = dict[str, Scalar]
"""Constants of a kernel by the name of their field."""


def on_cores(
    kernel: Kernel,
    cores: Cores,
    asynchronous: Constants | None = None,
    tensor_memory: Constants | None = None,
    wide_waves: Constants | None = None,
) -> Kernel:
    """`kernel` with the constants that it has on `cores`, linear in the switches that tell their class.

    value = general + a (1 - t) (own of asynchronous - general) + a t (own of tensor_memory - general)
      + w (1 - a) (own of wide_waves - general)

    Cores that a compiler schedules run none of these kernels: a is 0 there.

    Args:
      kernel: a struct of general constants; one that is None, no such term, counts as 0 where a class has it.
      cores: a is their `asynchronous` where they are not `compiled`, t their `tensor_memory`, w their `wide_waves`.
      asynchronous: constants in their place where matrix units fetch operands by themselves and threads hold the
        accumulators; None: none.
      tensor_memory: the same where accumulators have a memory of their own as well; None: none.
      wide_waves: the same where 64 threads run an instruction together; None: none.

    Returns:
      A struct of the same type; `kernel` itself where all are None.
    """
    # Class switches as weights: a (1 - t), a t and w (1 - a) are 0 or 1 on real devices, at most one of them 1.
    changed: Constants = {}
    ahead = cores.asynchronous * (1.0 - cores.compiled)
    held = ahead * cores.tensor_memory
    waved = cores.wide_waves * (1.0 - cores.asynchronous)
    for share, own in ((ahead - held, asynchronous), (held, tensor_memory), (waved, wide_waves)):
        for name, value in (own or {}).items():
            general = getattr(kernel, name)
            general = 0.0 if general is None else general
            # Deviations from the general value add up, so that a field may differ in several classes.
            changed[name] = changed.get(name, general) + share * (value - general)
    return dataclasses.replace(kernel, **changed) if changed else kernel  # type: ignore[type-var]

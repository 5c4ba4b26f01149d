"""Timing of one kernel: its time, and the time that each resource alone would take."""

from typing import NamedTuple

from jaxroof.struct import Scalar, struct


class Timing(NamedTuple):
    """Time of one run of an op."""

    total: Scalar  # s, fixed times included
    resources: dict[str, Scalar]  # s that each resource needs, by its name in `jaxroof.op.BOUNDS`


@struct
class Spread:
    """Standard deviation of the log ratio of measured to predicted times, on devices that were not fitted."""

    short: Scalar  # of kernels of less than `SHORT` s
    long: Scalar  # of the others


SHORT = 30e-6
"""s below which a kernel's time is mostly launch, fill and drain."""

NINETY_PERCENT = 1.645
"""Standard deviations on either side of the median of a normal distribution that hold 90 % of it."""

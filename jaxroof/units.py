"""Units and memory levels of a device: how much each does per second, and how long an amount of work keeps it busy."""

from collections.abc import Mapping

from jaxroof.hardware import Hardware, matrix_peak
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.struct import Scalar, given

LEVELS = ("hbm", "l2", "scratchpad")
"""Memory levels whose bytes take time, outermost first."""


def known(hardware: Hardware, unit: str) -> bool:
    """Whether the device has a figure for a unit or level: structure, not data. Without one it never binds."""
    if unit == "exp":
        return hardware.cores.exp_rate is not None
    return unit not in LEVELS or getattr(hardware.memory, unit) is not None


def unit_rate(hardware: Hardware, unit: str, precision: str | None = None) -> Scalar:
    """Datasheet's rate of a unit or level of all cores together, shape (): FLOP/s, exponentials/s or B/s.

    Args:
      unit: "matrix", "vector", "exp" or one of `LEVELS`.
      precision: of the matrix units.

    Raises:
      ValueError: where there is no such figure.
    """
    cores, memory = hardware.cores, hardware.memory
    if unit == "matrix":
        return matrix_peak(hardware, given(precision, "precision of matrix products"))
    if unit == "vector":
        return cores.count * cores.vector_flops
    if unit == "exp":
        return cores.count * given(cores.exp_rate, "rate of exponentials")
    level = given(getattr(memory, unit), f"figures of the memory level {unit}")
    return cores.count * level.bandwidth if unit == "scratchpad" else level.bandwidth


def unit_time(hardware: Hardware, unit: str, share: Scalar = 1.0, precision: str | None = None) -> Scalar:
    """Time in s that one FLOP, exponential or byte takes a unit or level at `share` of its rate, shape ()."""
    return 1.0 / (unit_rate(hardware, unit, precision) * share)


def busy_times(
    work: Mapping[str, Scalar | None], shares: Mapping[str, Scalar], hardware: Hardware, precision: str | None = None
) -> dict[str, Scalar]:
    """Time in s for which work keeps each unit and level busy, by name: amount / (rate x share).

    Source: Williams, Waterman & Patterson, CACM 52(4), 2009: a roof for each of them.

    Args:
      work: FLOP, exponentials and B by unit and level; None, and what the device has no figure for, are left out.
      shares: of the rates that a kernel reaches, by unit and level.
      precision: of the matrix units.
    """
    # The reciprocal is the same for all ops of a kind and is computed once for them.
    return {
        unit: amount * unit_time(hardware, unit, shares[unit], precision)
        for unit, amount in work.items()
        if amount is not None and known(hardware, unit)
    }


def cached_times(
    hardware: Hardware,
    hbm_share: Scalar,
    l2_share: Scalar,
    bytes_moved: Scalar,
    warm: Scalar,
) -> tuple[Scalar, Scalar]:
    """Time in s of bytes from device memory, and of those of them that L2 still holds, shapes ().

    L2 and device memory deliver at once, so that rates add as a hypotenuse: what is in L2 is never slower to read.

    Args:
      hbm_share, l2_share: of both bandwidths that a kernel reaches.
      warm: B of `bytes_moved` that are in L2; 0 without one.
    """
    hbm_rate = unit_rate(hardware, "hbm") * hbm_share
    if not known(hardware, "l2"):
        return bytes_moved / hbm_rate, 0.0
    l2_rate = unit_rate(hardware, "l2") * l2_share
    return (bytes_moved - warm) / hbm_rate, warm / jnp.sqrt(hbm_rate * hbm_rate + l2_rate * l2_rate)

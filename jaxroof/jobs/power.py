"""Energy, clock and binding resource of the engine steps of a job, from sums over their ops."""

from jaxroof.energy import Joules
from jaxroof.hardware import Hardware
from jaxroof.step import dominant_bound
from jaxroof.struct import Array, Scalar


def step_joules(sums: dict[str, Scalar], step: str) -> Joules | None:
    """Energy of one micro-batch of an engine step in all stages; None where it is unknown."""
    if f"{step}_core_energy" not in sums:
        return None
    return Joules(sums[f"{step}_core_energy"], sums[f"{step}_other_energy"])


def clocks(hardware: Hardware, shares: dict[str, Scalar]) -> dict[str, Scalar]:
    """Clocks in Hz from their shares of the full clock, by name; nothing where the full clock is unknown."""
    full = hardware.cores.clock
    return {} if full is None else {name: share * full for name, share in shares.items()}


def binding(sums: dict[str, Scalar], step: str, time: Scalar, unlimited: Scalar | None = None) -> Array:
    """What binds an engine step, shape (): an index into `BOUNDS`.

    Args:
      sums: over the step's ops.
      time: s of the step, or of all its micro-batches, under the limit of electrical power.
      unlimited: s of the same without it; None: those of the step.
    """
    return dominant_bound(sums[f"{step}_by_bound"], time > (sums[step] if unlimited is None else unlimited))

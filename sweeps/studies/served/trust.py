"""Certainty of predicted throughput, by how far a place is beyond what its constants were fitted to."""

import dataclasses
import math

import hwspaces
from jaxroof.efficiency.timing import NINETY_PERCENT
from sweeps.run.evidence import Beyond

INSIDE = 0.16
"""Standard deviation of the logarithm of predicted over measured throughput inside of the evidence: models that no fit
had seen, on Hopper, were 10.7 % off at the median, which is 0.6745 standard deviations."""

GROWTH = 0.2
"""The same per octave beyond it: B300, 0.9 octaves out and predicted blind, was 15 % off at the median and 23 % on
average, which is 0.25."""

VENDOR = 0.2
"""The same of a vendor none of whose accelerators was measured, whatever its figures. Of five published comparisons
(Gaudi 3 0.64, Gaudi 2 0.48, MI300X 1.31, MI325X 1.43, MI355X 1.08 of the published speed) the root mean square of
errors over their standard deviations is 1.0."""

UNKNOWN = 0.43
"""The same where nothing is known of the evidence: the root mean square of those five."""


@dataclasses.dataclass(frozen=True)
class Trust:
    """Evidence for the predictions of one place."""

    words: str
    spread: float  # standard deviation of the logarithm of predicted over measured throughput
    extrapolated: bool
    octaves: float | None  # beyond the evidence; None: none is known

    def interval(self, value: float) -> tuple[float, float]:
        """Where 90 % of the true values lie, were errors normal: of a cost or a throughput."""
        factor = math.exp(NINETY_PERCENT * self.spread)
        return value / factor, value * factor


def trust(device: hwspaces.HardwareEntry, efficiency: hwspaces.EfficiencyEntry, found: Beyond) -> Trust:
    """Certainty of a place on `device`.

    spread = sqrt(INSIDE^2 + (GROWTH octaves)^2 + VENDOR^2), the last for a vendor that was not measured

    Args:
      found: how far a step under load is beyond the evidence.
    """
    if found.octaves is None:
        return Trust(found.text, UNKNOWN, True, None)
    words, square = [found.text] if found.marked else [], INSIDE**2 + (GROWTH * found.octaves) ** 2
    foreign = device.vendor not in {hwspaces.hardware(name).vendor for name in efficiency.devices}
    if foreign:
        square += VENDOR**2
        words.append(f"no accelerator of {device.vendor} was measured")
    return Trust("; ".join(words) or found.text, math.sqrt(square), found.marked or foreign, found.octaves)

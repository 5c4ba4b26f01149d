"""Certainty of predicted throughput, by how near an accelerator is to the measured ones."""

import dataclasses
import math

import hwspaces

QUANTILE = 1.645
"""Standard deviations on either side of the middle that 90 % of a normal distribution lies within."""


@dataclasses.dataclass(frozen=True)
class Trust:
    """Evidence for the predictions of one accelerator."""

    words: str
    spread: float  # standard deviation of the logarithm of predicted over measured throughput
    extrapolated: bool

    def interval(self, value: float) -> tuple[float, float]:
        """Where 90 % of the true values lie, were errors normal: of a cost or a throughput."""
        factor = math.exp(QUANTILE * self.spread)
        return value / factor, value * factor


MEASURED = Trust("measured accelerators of this architecture", 0.16, False)
"""Models that no fit had seen, on Hopper: throughput 10.7 % off at the median, which is 0.6745 standard deviations."""

OTHER_GENERATION = Trust("another generation of a measured vendor", 0.25, True)
"""B300, predicted blind: throughput 15 % off at the median, 23 % on average."""

OTHER_VENDOR = Trust("no measured accelerator of this vendor", 0.43, True)
"""Logarithms of five published comparisons: Gaudi 3 0.64, Gaudi 2 0.48, MI300X 1.31, MI325X 1.43, MI355X 1.08 of the
published speed; their root mean square."""

NOT_SAID = Trust("the constants do not say on which accelerators they were judged", 0.43, True)


def trust(device: hwspaces.HardwareEntry, efficiency: hwspaces.EfficiencyEntry) -> Trust:
    """Evidence that the constants of `efficiency` have for `device`."""
    if not efficiency.devices:
        return NOT_SAID
    known = [hwspaces.hardware(name) for name in efficiency.devices]
    if device.name in efficiency.devices or device.architecture in {one.architecture for one in known}:
        return MEASURED
    return OTHER_GENERATION if device.vendor in {one.vendor for one in known} else OTHER_VENDOR

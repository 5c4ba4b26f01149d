"""Served runs that confirm the predictions of every engine: whose accelerators, which layouts and weights."""

import dataclasses
import math

import hwspaces
from hwspaces import engine, engine_names
from hwspaces.engines.engine import ServedRuns
from jaxroof.efficiency.hull import reach
from jaxroof.efficiency.timing import NINETY_PERCENT
from sweeps.ask.engines import engine_of
from sweeps.run.evidence import Beyond

POOLS = "pools"
"""Prefill and decode on replicas of their own, as if it were a parallelism."""

WORDS = {
    "pp": "pipeline stages",
    "tp": "tensor parallelism",
    "ep": "expert parallelism",
    "attention_dp": "data-parallel attention",
    "cp": "context parallelism",
    POOLS: "pools that only prefill or only decode",
}
"""Parallelisms in words."""


def served_runs() -> tuple[ServedRuns, ...]:
    """Runs of every engine. None has pipeline stages, and none is of two pools.

    Eight runs of Gaudi 3 are not among them: they are three times slower than predicted.
    """
    return tuple(runs for name in engine_names() for runs in engine(name).runs)


def runs_of(name: str, vendor: str | None) -> ServedRuns | None:
    """The runs of an engine on a vendor's accelerators; None where there are none."""
    return next((one for one in served_runs() if (one.engine, one.vendor) == (name, vendor)), None)


def not_confirmed(name: str, vendor: str | None, parallelism: frozenset[str], weights: str) -> list[str]:
    """What no served run of an engine on the vendor's accelerators confirms, in words; empty where all is covered.

    Args:
      parallelism: names of degrees above 1, and `POOLS`.
      weights: precision of the weights.
    """
    runs = runs_of(name, vendor)
    # Without runs on this vendor's accelerators, parallelisms count as confirmed where any engine's runs have them.
    covered = frozenset().union(*(one.parallelism for one in served_runs())) if runs is None else runs.parallelism
    said = [f"accelerators of {vendor or 'an unknown vendor'}"] if runs is None else []
    # Runs list plain names of precisions: of "fp8 (block 128x128), experts mxfp4" the first word.
    if runs is not None and weights.replace(",", " ").split()[0] not in runs.weights:
        said.append(f"{weights} weights")
    return said + [WORDS.get(name, name) for name in sorted(parallelism - covered)]


# Certainty of predicted throughput, by how far a deployment is beyond what its constants were fitted to.


INSIDE = 0.16
"""Standard deviation of the logarithm of predicted over measured throughput inside of the evidence: models that no fit
had seen, on Hopper, were 10.7 % off at the median, which is 0.6745 standard deviations."""

GROWTH = 0.29
"""The same far beyond it, `jaxroof.efficiency.hull.reach`: B300, 0.9 octaves out and predicted blind, was 15 % off at
the median and 23 % on average, which is 0.25."""

UNCONFIRMED = 0.2
"""The same for everything that no served run confirms: a vendor, a parallelism, a precision, pools. Of five published
comparisons of vendors (Gaudi 3 0.64, Gaudi 2 0.48, MI300X 1.31, MI325X 1.43, MI355X 1.08 of the published speed) the
root mean square of errors over their standard deviations is 1.0; for the others it is assumed."""

ESTIMATED = 0.15
"""The same of a load that is estimated and not simulated: 90 % of estimates are within 26 to 28 % of simulations."""

UNKNOWN = 0.43
"""The same where nothing is known of the evidence: the root mean square of those five."""


@dataclasses.dataclass(frozen=True)
class Trust:
    """Evidence for the predictions of one deployment."""

    words: str
    unconfirmed: str  # the part of the words that names what no served run confirms; "": there is none
    spread: float  # standard deviation of the logarithm of predicted over measured throughput
    extrapolated: bool
    octaves: float | None  # beyond the evidence; None: none is known

    def interval(self, value: float) -> tuple[float, float]:
        """Where 90 % of the true values lie, were errors normal: of a cost or a throughput."""
        # Errors are normal in the logarithm, so that the interval is a factor to either side.
        factor = math.exp(NINETY_PERCENT * self.spread)
        return value / factor, value * factor


def trust(
    device: hwspaces.HardwareEntry,
    efficiency: hwspaces.EfficiencyEntry,
    beyond: Beyond,
    parallelism: frozenset[str] = frozenset(),
    weights: str = "bf16",
    simulated: bool = True,
) -> Trust:
    """Certainty of a deployment on `device`.

    spread = sqrt(INSIDE^2 + (GROWTH reach)^2 + UNCONFIRMED^2 for everything unconfirmed + ESTIMATED^2)

    Args:
      beyond: how far a step under load is beyond the evidence.
      parallelism: names of the deployment's degrees above 1, and `POOLS`.
      weights: precision of the weights.
      simulated: whether its load is from simulations.
    """
    estimated = 0.0 if simulated else ESTIMATED**2
    # Constants without the shapes of their evidence: how far this step is beyond them cannot be told.
    if beyond.octaves is None:
        return Trust(beyond.text, "", math.sqrt(UNKNOWN**2 + estimated), True, None)
    name = engine_of(efficiency)
    lacking = not_confirmed(name, device.vendor, parallelism, weights)
    unconfirmed = f"no served run of {name} confirms {' or '.join(lacking)}" if lacking else ""
    words = "; ".join(filter(None, (beyond.text if beyond.marked else "", unconfirmed))) or beyond.text
    # Independent errors: their variances add.
    square = INSIDE**2 + (GROWTH * float(reach(beyond.octaves))) ** 2 + len(lacking) * UNCONFIRMED**2 + estimated
    return Trust(words, unconfirmed, math.sqrt(square), beyond.marked or bool(lacking), beyond.octaves)

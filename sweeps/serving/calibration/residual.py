"""Distance of simulated latencies from measured ones, on the requests of one part of a run."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from jaxroof.jobs import Scenario
from sweeps.serving.calibration.measured_run import METRICS, MeasuredRun
from sweeps.serving.calibration.simulator import CONSTANTS, Simulator

STALE = 0.30
"""Residual error of a run on which constants no longer hold."""

SCORED = ("ttft", "e2e")
"""Metrics whose mean error is *the* error: what a user waits for."""


@dataclasses.dataclass(frozen=True)
class Residual:
    """Mean absolute relative errors of predicted latencies."""

    ttft: float
    tpot: float
    e2e: float

    @property
    def error(self) -> float:
        """Mean of the errors of TTFT and E2E."""
        return sum(getattr(self, name) for name in SCORED) / len(SCORED)


def residual(run: MeasuredRun, serving: Scenario) -> tuple[Residual, Mapping[str, np.ndarray]]:
    """Errors of a deployment's constants, as they are, on all requests of a run; and the simulated latencies in s.

    Raises:
      ValueError: one line: an overhead of 0, or a simulation that does not end.
    """
    logarithms = np.log([positive(serving, name) for name in CONSTANTS])
    simulated = Simulator(serving).latencies(logarithms).values
    return scored(run, simulated, np.ones(len(run.stream), bool)), simulated


def scored(run: MeasuredRun, simulated: Mapping[str, np.ndarray], part: np.ndarray) -> Residual:
    """Errors of simulated latencies on the requests of `part`, NaN where none was measured.

    Args:
      simulated: s, by metric, shape [requests].
      part: True for requests that count, shape [requests].
    """
    errors = {}
    for name in METRICS:
        # Requests that were not measured, or that the simulation did not finish, have no error.
        known = part & np.isfinite(run.latencies[name]) & np.isfinite(simulated[name])
        relative = simulated[name][known] / run.latencies[name][known] - 1.0
        errors[name] = float(np.mean(np.abs(relative))) if known.any() else float("nan")
    return Residual(**errors)


def positive(serving: Scenario, name: str) -> float:
    """An overhead of the deployment's efficiency in s.

    Raises:
      ValueError: one line, where it is 0: a logarithm moves it.
    """
    value = float(getattr(serving.efficiency.host, name))
    if not value > 0.0:
        raise ValueError(f"efficiency: host.{name} is {value:g} s; a calibration starts from a positive time")
    return value

"""Fit of engine overheads to a run's measured latencies, and the overheads that the run determines."""

import dataclasses
import math
from collections.abc import Callable, Mapping

import numpy as np

from jaxroof.jobs import Scenario
from sweeps.serving.calibration.measured_run import MeasuredRun
from sweeps.serving.calibration.residual import Residual, positive, scored
from sweeps.serving.calibration.simulator import CONSTANTS, Latencies, Linearized, Simulator, least

FITTED = ("ttft", "tpot")
"""Metrics whose log ratios are made small. E2E follows from both, and counting it too would count queues twice."""

PRIOR_SPREAD = 1.0
"""Standard deviation of the logarithm of an overhead, between servers of one engine; weak on purpose."""

SHARED_SPREAD = 0.02
"""Standard deviation of the log error that all requests of a run share because kernels are predicted wrong; ours. It
decides what a run can tell: however many requests it has, their mean is known no better."""

LEAST_SPREAD = 0.01
"""Of one request's log ratio; without it, measurements without noise would outweigh the priors without bound."""

FARTHEST = math.log(30.0)
"""How far the logarithm of an overhead may move."""

CHANGE = 0.3
"""Change of an overhead's logarithm with which slopes are compared: slopes that simulations do not bear out tell
nothing. In a closed loop a request is sent when a step ends and waits for the next to end, whatever its own time."""

TOLD = 0.5
"""A run tells an overhead whose posterior is narrower than this share of its prior."""

TOLERABLE = 0.01
"""Training errors below this count as this: between smaller ones a ratio says nothing."""

REFUSED = 2.0
"""Validation error over training error beyond which a calibration is refused."""


@dataclasses.dataclass(frozen=True, eq=False)
class Calibration:
    """Overheads of one server."""

    run: MeasuredRun
    before: dict[str, float]  # s, by `CONSTANTS`
    after: dict[str, float]  # s; those that the run cannot tell as before
    spread: dict[str, float]  # standard deviation of the posterior's logarithm
    told: tuple[str, ...]  # overheads that the run tells
    errors: dict[str, dict[str, Residual]]  # "training" and "validation" -> "before" and "after"
    simulated: dict[str, Mapping[str, np.ndarray]]  # "before" and "after" -> latencies in s, by metric
    evaluations: int  # simulations, of the run and its derivatives


def calibrated(
    run: MeasuredRun, serving: Scenario, progress: Callable[[int, float], None] = lambda evaluations, error: None
) -> Calibration:
    """The overheads per step, per sequence and per request that explain a run.

    Minimises Huber losses of ln(simulated / measured) of TTFT and TPOT of the training requests, each in units of its
    spread over requests, and of ln(overhead / prior) / `PRIOR_SPREAD`. All requests are simulated at every evaluation.

    Args:
      run: what was measured.
      serving: the deployment, with the run's traffic; its efficiency's overheads are the priors' medians.
      progress: called after every simulation with their number and the training error.

    Raises:
      ValueError: one line: an overhead that starts at 0; a simulation that does not end; a validation error over
        `REFUSED` times the training error.
    """
    # Overheads are fitted by their logarithms, so that they stay positive.
    prior = np.log([positive(serving, name) for name in CONSTANTS])
    problem = _Problem(run, Simulator(serving), prior, progress)
    # Spreads depend on the fit and the fit on spreads: two rounds.
    spreads = problem.spreads(prior)
    moved = list(range(len(CONSTANTS)))
    values = problem.solved(prior, moved, spreads)
    spreads = problem.spreads(values)
    values = problem.solved(values, moved, spreads)
    real = problem.real(values)
    # Overheads that the run does not tell go back to their priors, the least known one first, and the rest is fitted
    # again.
    while True:
        posterior = problem.posterior(values, moved, spreads, real)
        worst = max(moved, key=lambda i: posterior[i], default=None)
        if worst is None or posterior[worst] <= TOLD * PRIOR_SPREAD:
            break
        moved.remove(worst)
        values = np.where(np.arange(len(CONSTANTS)) == worst, prior, values)
        values = problem.solved(values, moved, spreads)
    simulated: dict[str, Mapping[str, np.ndarray]] = {
        "before": problem.latencies(prior).values,
        "after": problem.latencies(values).values,
    }
    # Errors of both fits on both parts of the run.
    parts = {"training": ~run.held_out, "validation": run.held_out}
    errors = {name: {when: scored(run, simulated[when], part) for when in simulated} for name, part in parts.items()}
    training, validation = errors["training"]["after"].error, errors["validation"]["after"].error
    # Constants that hold on training requests alone describe the noise of one run.
    if not validation <= REFUSED * max(training, TOLERABLE):
        raise ValueError(
            f"{run.name}: the held-out requests' error is {validation:.1%}, over {REFUSED:g} times the training "
            f"requests' {training:.1%}: the run is not of one kind, or too short"
        )
    return Calibration(
        run=run,
        before=dict(zip(CONSTANTS, np.exp(prior).tolist(), strict=True)),
        after=dict(zip(CONSTANTS, np.exp(values).tolist(), strict=True)),
        spread=dict(zip(CONSTANTS, posterior.tolist(), strict=True)),
        told=tuple(CONSTANTS[i] for i in moved),
        errors=errors,
        simulated=simulated,
        evaluations=problem.simulator.evaluations,
    )


class _Problem:
    """Residuals of one run's training requests, and their derivatives."""

    def __init__(
        self, run: MeasuredRun, simulator: Simulator, prior: np.ndarray, progress: Callable[[int, float], None]
    ):
        self.run, self.simulator, self.prior, self.progress = run, simulator, prior, progress
        self.known: dict[bytes, Latencies] = {}

    def latencies(self, values: np.ndarray) -> Latencies:
        """Simulated once per set of values."""
        # Spreads, slopes and losses ask for the same values again and again.
        key = np.asarray(values, float).tobytes()
        if key not in self.known:
            self.known[key] = self.simulator.latencies(values)
            error = scored(self.run, self.known[key].values, ~self.run.held_out).error
            self.progress(self.simulator.evaluations, error)
        return self.known[key]

    def ratios(self, values: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """ln(simulated / measured), shape [requests that count], and its derivatives, shape [..., constants]."""
        simulation = self.latencies(values)
        ratios = {}
        for name in FITTED:
            measured, simulated = self.run.latencies[name], simulation.values[name]
            # d ln y = dy / y; requests without a measured or simulated time are left out below.
            with np.errstate(invalid="ignore", divide="ignore"):
                ratio, slope = np.log(simulated / measured), simulation.slopes[name] / simulated[:, None]
            counts = ~self.run.held_out & np.isfinite(ratio)
            ratios[name] = ratio[counts], slope[counts]
        return ratios

    def spreads(self, values: np.ndarray) -> dict[str, float]:
        """Standard deviation of a metric's log ratios over requests, by their median distance from their median."""
        spreads = {}
        for name, (ratio, _) in self.ratios(values).items():
            # 1.4826 times the median absolute deviation is the standard deviation of a normal distribution.
            distance = np.median(np.abs(ratio - np.median(ratio))) if ratio.size else 0.0
            spreads[name] = max(1.4826 * float(distance), LEAST_SPREAD)
        return spreads

    def solved(self, values: np.ndarray, moved: list[int], spreads: Mapping[str, float]) -> np.ndarray:
        """The values with those at `moved` where the losses are least."""
        if not moved:
            return values

        def whole(part: np.ndarray) -> np.ndarray:
            at = np.array(values)
            at[moved] = part
            return at

        def rows(part: np.ndarray) -> Linearized:
            by_metric = self.ratios(whole(part))
            # Rows are log ratios in units of their spreads, then the distances from the priors in units of theirs.
            off = [ratio / spreads[name] for name, (ratio, _) in by_metric.items()]
            slopes = [slope[:, moved] / spreads[name] for name, (_, slope) in by_metric.items()]
            return Linearized(
                np.concatenate([*off, (part - self.prior[moved]) / PRIOR_SPREAD]),
                np.concatenate([*slopes, np.eye(len(moved)) / PRIOR_SPREAD]),
            )

        return whole(least(rows, values[moved], self.prior[moved] - FARTHEST, self.prior[moved] + FARTHEST))

    def real(self, values: np.ndarray) -> dict[str, np.ndarray]:
        """Share of each metric's mean slope that simulations at changed overheads bear out, 0 to 1, shape [constants].

        A slope is of requests that arrive at any part of a step.
        """
        slopes = {name: slope.mean(axis=0) for name, (_, slope) in self.ratios(values).items()}
        shares = {name: np.ones(len(CONSTANTS)) for name in slopes}
        for i in range(len(CONSTANTS)):
            # Central difference over a wide step, compared with the mean slope of the gradients.
            step = CHANGE * np.eye(len(CONSTANTS))[i]
            above, below = self.ratios(values + step), self.ratios(values - step)
            for name, slope in slopes.items():
                secant = (above[name][0].mean() - below[name][0].mean()) / (2.0 * CHANGE)
                shares[name][i] = np.clip(secant / slope[i], 0.0, 1.0) if slope[i] else 1.0
        return shares

    def posterior(
        self, values: np.ndarray, moved: list[int], spreads: Mapping[str, float], real: Mapping[str, np.ndarray]
    ) -> np.ndarray:
        """Standard deviations of the logarithms by the Gauss-Newton Hessian; the prior's for what is not moved.

        Log ratios of a metric have independent errors of its spread, and one of `SHARED_SPREAD` that all share.
        """
        deviations = np.full(len(CONSTANTS), PRIOR_SPREAD)
        if not moved:
            return deviations
        # Precision of the priors; every metric adds that of its requests.
        hessian = np.eye(len(moved)) / PRIOR_SPREAD**2
        for name, (_, slope) in self.ratios(values).items():
            part, own = (slope * real[name])[:, moved], spreads[name] ** 2
            # Inverse of a diagonal covariance plus one error that all rows share, by the Sherman-Morrison formula.
            total = part.sum(axis=0)
            shared = SHARED_SPREAD**2 / (own + len(part) * SHARED_SPREAD**2)
            hessian += (part.T @ part - shared * np.outer(total, total)) / own
        deviations[moved] = np.sqrt(np.diag(np.linalg.inv(hessian)))
        return deviations

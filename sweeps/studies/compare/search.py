"""Search of a served comparison: estimates of all deployments, then simulations of the best of every accelerator.

What is found for one accelerator does not depend on the others: each has its own simulations, its own number of
requests, and is followed until its own best deployment is known.
"""

import dataclasses
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jaxroof.jobs import Scenario
from jaxroof.steady.steady_state import Demand
from sweeps.ask.words import ComparisonWords
from sweeps.run.simulated.policies import profiled
from sweeps.studies.compare.candidates import MemoryRoom, Options, room
from sweeps.studies.compare.estimate import Estimate, Priced, estimate, priced, sequences
from sweeps.studies.compare.figures import figures, share_of
from sweeps.studies.compare.pairs import FirstPass
from sweeps.studies.compare.question import ServedQuestion
from sweeps.studies.compare.ranking import ascending, within
from sweeps.studies.compare.simulated import Candidate, Simulated

NEAR = 1.2
"""A deployment is simulated where its estimate is at most this many times worse than the best of its accelerator."""

CONTENDING = 1.5
"""Where nobody names accelerators, those are simulated whose best estimate is at most this many times worse than the
best one of all; of those that are named, every one is."""

HEADROOM = 0.1
"""Load that replicas can take beyond the one that is asked for, as a share of it."""

MORE_ROUNDS = 3
"""Times that deployments are simulated which come first only because those before them turned out worse; more where
nothing serves yet."""

USUAL = 10
"""Simulations of a deployment, about."""

Position = tuple[int, int, int]
"""Setting, accelerator and layout of one deployment, as positions in the options."""


@dataclasses.dataclass(frozen=True, eq=False)
class SearchResult:
    """Result of both passes; arrays of shape [settings, devices, layouts]."""

    bounds: MemoryRoom
    wanted: np.ndarray  # bool: deployments that hold the model and one request
    needs: Sequence[Demand]  # by setting
    prices: Priced  # of the wanted deployments' steps
    estimate: Estimate
    arrays: Mapping[str, np.ndarray]  # figures, at the simulated load or the one that is told without a simulation
    results: Mapping[Position, Simulated]
    requests: Mapping[int, int]  # of a simulation, by accelerator; only of those that were simulated
    simulations: int
    estimate_seconds: float

    @property
    def first_pass(self) -> FirstPass:
        """What disaggregated pools are estimated from."""
        return FirstPass(self.wanted, self.needs, self.prices, self.estimate)


def search(
    question: ServedQuestion,
    metric: str,
    rate: float | None = None,
    headroom: float = HEADROOM,
    simulated: int = ComparisonWords.simulate,
    begun: Callable[[int], Callable[[int], None]] = lambda simulations: lambda done: None,
    among: np.ndarray | None = None,
) -> SearchResult:
    """Both passes; arguments as of `sweeps.compare`.

    Args:
      among: deployments that are looked at, bool of shape [settings, devices, layouts]; None: all.
    """
    start = time.perf_counter()
    options = question.options
    stream = question.requests.sample
    needs = [question.requests.demand(bool(choice.policy.prefix_caching)) for choice in options.settings]

    # First pass: every deployment that holds the model and one request.
    bounds = room(options)
    wanted = bounds.legal & (bounds.group_tokens >= question.requests.longest)
    wanted = wanted if among is None else wanted & among
    prices = priced(options, wanted, needs)
    estimates = estimate(options, bounds, wanted, needs, question.target, prices)
    output = np.full(estimates.load.shape, float(np.mean(stream.osl)))  # tokens/s that a load of one request/s makes
    fleet = rate, headroom
    seconds = time.perf_counter() - start

    # Second pass: the best deployments of every accelerator by simulation, until its best one is a simulated one.
    def ordered(load: np.ndarray) -> np.ndarray:
        """The metric at these loads, lower is better."""
        return ascending(figures(options, load, estimates, output, *fleet)[metric], metric)

    # With a rate, the last simulation of a deployment is at the load that one of its replicas gets.
    share = None if rate is None else functools.partial(share_of, rate, headroom)
    load_of, simulations = estimates.load.copy(), 0
    requests: dict[int, int] = {}
    results: dict[Position, Simulated] = {}
    # A simulated load may turn out worse than its estimate, and another deployment come first: it is simulated next.
    rounds = 0
    while simulated and (rounds < MORE_ROUNDS or not any(one.load > 0.0 for one in results.values())):
        rounds, values = rounds + 1, ordered(load_of)
        # Accelerators that somebody named are all simulated; of the whole catalogue, those near the best one.
        simulating = contending(values) if question.every_accelerator else range(len(options.devices))
        positions = [
            position
            for device in simulating
            for position in _worth_simulating(values, estimates.load, device, results, simulated)
        ]
        if not positions:
            break
        # One number of requests for an accelerator, of its largest batch: its simulations are of one size.
        for device in {device for _, device, _ in positions} - set(requests):
            batches = [float(estimates.batch[position]) for position in positions if position[1] == device]
            requests[device] = question.requests.number(max(batches))
        new, number = _simulated(question, estimates, positions, requests, load_of, results, ordered, begun, share)
        simulations += number
        for position, one in zip(positions, new, strict=True):
            # From here on the simulated load stands for the estimate in the order.
            results[position], load_of[position] = one, one.load
    # Loads that are told: simulated ones as they are, estimated ones with caution.
    told = estimates.cautious_load.copy()
    for position, one in results.items():
        told[position] = one.load
        if one.load > 0.0:
            # Tokens per request of the steady part of the simulation, at the load that it was run at.
            output[position] = one.metrics["tokens_per_second"] / (one.share or one.load)
    arrays = figures(options, told, estimates, output, *fleet)
    return SearchResult(bounds, wanted, needs, prices, estimates, arrays, results, requests, simulations, seconds)


def contending(values: np.ndarray) -> list[int]:
    """Accelerators whose best estimate is near the best one of all; `values` is the metric, lower is better."""
    # Over settings and layouts: one value for each accelerator.
    best = np.min(np.where(np.isfinite(values), values, np.inf), axis=(0, 2))
    return [int(device) for device in np.flatnonzero(best <= within(float(np.min(best)), CONTENDING))]


def _worth_simulating(
    values: np.ndarray, load: np.ndarray, device: int, results: Mapping[Position, Simulated], most: int
) -> list[Position]:
    """The best deployments of one accelerator; none where its best one is known from a simulation.

    Of deployments that are equally good, which whole replicas often are, those with more load come first.

    Args:
      values: the metric, lower is better.
      most: deployments that are simulated of every accelerator.
    """
    own = values[:, device]
    # The last key sorts first: the metric, then the load from the largest down.
    order = np.lexsort((-np.nan_to_num(load[:, device]).ravel(), own.ravel()))
    positions: list[Position] = []
    for position in order:
        setting, layout = np.unravel_index(position, own.shape)
        if np.isfinite(own[setting, layout]):
            positions.append((int(setting), device, int(layout)))
    # Nothing serves, or the first place is a simulated one already.
    if not positions or positions[0] in results:
        return []
    best = values[positions[0]]
    limit = within(best, NEAR)
    # Further deployments whose estimate is near the best one may turn out better than it.
    near = [position for position in positions if values[position] <= limit and position not in results]
    return near[: max(most - sum(position[1] == device for position in results), 0)]


def _simulated(
    question: ServedQuestion,
    estimates: Estimate,
    positions: Sequence[Position],
    requests: Mapping[int, int],
    load_of: np.ndarray,
    results: Mapping[Position, Simulated],
    ordered: Callable[[np.ndarray], np.ndarray],
    begun: Callable[[int], Callable[[int], None]],
    share: Callable[[float], float] | None,
) -> tuple[list[Simulated], int]:
    """Largest loads of the deployments by simulation, and the number of simulations."""
    from sweeps.studies.compare.simulate import largest_loads  # JAX, which an estimate does not need

    candidates = [
        candidate(question, estimates, position, float(estimates.load[position]), requests[position[1]])
        for position in positions
    ]
    # Positions as three index arrays: setting, accelerator and layout, shape [candidates] each.
    where = tuple(np.array(column) for column in zip(*positions, strict=True))
    devices = where[1]
    known = ordered(load_of)
    best = np.full(known.shape[1], np.inf)  # of every accelerator, from simulations so far
    for position in results:
        best[position[1]] = min(best[position[1]], known[position])

    def values(loads: np.ndarray) -> np.ndarray:
        # Figures are of all deployments at once: the others stay NaN. An infinite load becomes a very large one.
        every = np.full(estimates.load.shape, np.nan)
        every[where] = np.where(loads > 0.0, np.minimum(loads, 1e12), np.nan)
        return ordered(every)[where]

    def worth(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Whether a deployment may be better at its largest load than all of its accelerator are for certain."""
        certain, possible = values(low), values(high)
        # Best certain value of every accelerator: from earlier rounds, and from the loads that are kept in this one.
        least = best.copy()
        np.minimum.at(least, devices, certain)
        return possible < least[devices]

    return largest_loads(candidates, question.target, worth, begun(USUAL * len(positions)), share)


def candidate(
    question: ServedQuestion, estimates: Estimate, position: Position, load: float, requests: int
) -> Candidate:
    """A deployment that is to be simulated with so many requests, first near `load` requests/s."""
    policy, most = question.options.settings[position[0]].policy, at_once(question, estimates, position)
    scenario = scenario_at(question.options, position)
    # The engine profiles its memory with as many sequences as the flag allows.
    started = profiled(scenario.deployment, {"max_sequences": most})  # with the flag of the row
    return Candidate(
        scenario=dataclasses.replace(scenario, deployment=started),
        policy=dataclasses.replace(policy, max_sequences=most),
        load=load,
        offered=question.requests.drawn(requests),
        rate=question.requests.rate(requests),
    )


def scenario_at(options: Options, position: Position) -> Scenario:
    """The scenario of one replica of a deployment."""
    setting, device, layout = position
    return Scenario(
        hardware=options.devices[device].hardware,
        model=options.model.model,
        deployment=options.deployments[setting][layout],
        workload=None,
        efficiency=options.efficiency,
    )


def at_once(question: ServedQuestion, estimates: Estimate, position: Position) -> float:
    """Sequences that the engine of a deployment runs at once at most."""
    policy: Any = question.options.settings[position[0]].policy
    return sequences(
        policy,
        float(estimates.batch[position]),
        float(estimates.most[position]),
        bool(estimates.capped[position] > 0.0),
    )

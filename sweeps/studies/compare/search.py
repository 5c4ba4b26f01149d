"""Search of a served comparison: estimates of all places, then simulations of the best places of every accelerator.

What is found for one accelerator does not depend on the others: each has its own simulations, its own number of
requests, and is followed until its own best place is known.
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
from sweeps.studies.compare.estimate import Estimate, Priced, estimate, priced, sequences
from sweeps.studies.compare.figures import figures, share_of
from sweeps.studies.compare.pairs import FirstPass
from sweeps.studies.compare.places import MemoryRoom, Options, room
from sweeps.studies.compare.question import ServedQuestion
from sweeps.studies.compare.ranking import ascending, within
from sweeps.studies.compare.simulated import Candidate, Simulated

NEAR = 1.2
"""A place is simulated where its estimate is at most this many times worse than the best one's of its accelerator."""

CONTENDING = 1.5
"""Where nobody names accelerators, those are simulated whose best estimate is at most this many times worse than the
best one of all; of those that are named, every one is."""

HEADROOM = 0.1
"""Load that replicas can take beyond the one that is asked for, as a share of it."""

MORE_ROUNDS = 3
"""Times that places are simulated which come first only because those before them turned out worse."""

USUAL = 10
"""Simulations of a place, about."""

Place = tuple[int, int, int]
"""Setting, accelerator and layout of one place, as positions in the options."""


@dataclasses.dataclass(frozen=True, eq=False)
class SearchResult:
    """Result of both passes; arrays of shape [settings, devices, layouts]."""

    bounds: MemoryRoom
    wanted: np.ndarray  # bool: places that hold the model and one request
    needs: Sequence[Demand]  # by setting
    prices: Priced  # of the wanted places' steps
    estimate: Estimate
    arrays: Mapping[str, np.ndarray]  # figures, at the simulated load or the one that is told without a simulation
    results: Mapping[Place, Simulated]
    requests: Mapping[int, int]  # of a simulation, by accelerator; only of those that were simulated
    simulations: int
    estimate_seconds: float

    @property
    def first_pass(self) -> FirstPass:
        """What disaggregated pools are estimated from."""
        return FirstPass(self.wanted, self.needs, self.prices, self.estimate)


def search(
    asked: ServedQuestion,
    metric: str,
    rate: float | None = None,
    headroom: float = HEADROOM,
    simulated: int = ComparisonWords.simulate,
    begun: Callable[[int], Callable[[int], None]] = lambda simulations: lambda done: None,
    among: np.ndarray | None = None,
) -> SearchResult:
    """Both passes; arguments as of `sweeps.compare`.

    Args:
      among: places that are looked at, bool of shape [settings, devices, layouts]; None: all.
    """
    start = time.perf_counter()
    options = asked.options
    stream = asked.requests.sample
    needs = [asked.requests.demand(bool(choice.policy.prefix_caching)) for choice in options.settings]

    # First pass: every place that holds the model and one request.
    bounds = room(options)
    wanted = bounds.legal & (bounds.group_tokens >= asked.requests.longest)
    wanted = wanted if among is None else wanted & among
    prices = priced(options, wanted, needs)
    found = estimate(options, bounds, wanted, needs, asked.target, prices)
    output = np.full(found.load.shape, float(np.mean(stream.osl)))  # tokens/s that a load of one request/s makes
    fleet = rate, headroom
    seconds = time.perf_counter() - start

    # Second pass: the best places of every accelerator by simulation, until its best one is a simulated one.
    def ordered(load: np.ndarray) -> np.ndarray:
        """The metric at these loads, lower is better."""
        return ascending(figures(options, load, found, output, *fleet)[metric], metric)

    share = None if rate is None else functools.partial(share_of, rate, headroom)
    load_of, simulations = found.load.copy(), 0
    requests: dict[int, int] = {}
    results: dict[Place, Simulated] = {}
    simulating = contending(ordered(load_of)) if asked.every_accelerator else range(len(options.devices))
    for _ in range(MORE_ROUNDS if simulated else 0):
        values = ordered(load_of)
        places = [
            place
            for device in simulating
            for place in _worth_simulating(values, found.load, device, results, simulated)
        ]
        if not places:
            break
        for device in {device for _, device, _ in places} - set(requests):
            batches = [float(found.batch[place]) for place in places if place[1] == device]
            requests[device] = asked.requests.number(max(batches))
        made, number = _simulated(asked, found, places, requests, load_of, results, ordered, begun, share)
        simulations += number
        for place, one in zip(places, made, strict=True):
            results[place], load_of[place] = one, one.load
    told = found.cautious_load.copy()
    for place, one in results.items():
        told[place] = one.load
        if one.load > 0.0:
            output[place] = one.metrics["tokens_per_second"] / (one.share or one.load)
    arrays = figures(options, told, found, output, *fleet)
    return SearchResult(bounds, wanted, needs, prices, found, arrays, results, requests, simulations, seconds)


def contending(values: np.ndarray) -> list[int]:
    """Accelerators whose best estimate is near the best one of all; `values` is the metric, lower is better."""
    best = np.min(np.where(np.isfinite(values), values, np.inf), axis=(0, 2))
    return [int(device) for device in np.flatnonzero(best <= within(float(np.min(best)), CONTENDING))]


def _worth_simulating(
    values: np.ndarray, load: np.ndarray, device: int, results: Mapping[Place, Simulated], most: int
) -> list[Place]:
    """The best places of one accelerator; none where its best one is known from a simulation.

    Of places that are equally good, which whole replicas often are, those with more load come first.

    Args:
      values: the metric, lower is better.
      most: places that are simulated of every accelerator.
    """
    own = values[:, device]
    order = np.lexsort((-np.nan_to_num(load[:, device]).ravel(), own.ravel()))
    places: list[Place] = []
    for position in order:
        setting, layout = np.unravel_index(position, own.shape)
        if np.isfinite(own[setting, layout]):
            places.append((int(setting), device, int(layout)))
    if not places or places[0] in results:
        return []
    best = values[places[0]]
    limit = within(best, NEAR)
    near = [place for place in places if values[place] <= limit and place not in results]
    return near[: max(most - sum(place[1] == device for place in results), 0)]


def _simulated(
    asked: ServedQuestion,
    found: Estimate,
    places: Sequence[Place],
    requests: Mapping[int, int],
    load_of: np.ndarray,
    results: Mapping[Place, Simulated],
    ordered: Callable[[np.ndarray], np.ndarray],
    begun: Callable[[int], Callable[[int], None]],
    share: Callable[[float], float] | None,
) -> tuple[list[Simulated], int]:
    """Largest loads of the places by simulation, and the number of simulations."""
    from sweeps.studies.compare.simulate import largest_loads  # JAX, which an estimate does not need

    candidates = [candidate(asked, found, place, float(found.load[place]), requests[place[1]]) for place in places]
    where = tuple(np.array(column) for column in zip(*places, strict=True))
    devices = where[1]
    known = ordered(load_of)
    best = np.full(known.shape[1], np.inf)  # of every accelerator, from simulations so far
    for place in results:
        best[place[1]] = min(best[place[1]], known[place])

    def values(loads: np.ndarray) -> np.ndarray:
        every = np.full(found.load.shape, np.nan)
        every[where] = np.where(loads > 0.0, np.minimum(loads, 1e12), np.nan)
        return ordered(every)[where]

    def worth(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Whether a place may be better at its largest load than all of its accelerator are for certain."""
        certain, possible = values(low), values(high)
        least = best.copy()
        np.minimum.at(least, devices, certain)
        return possible < least[devices]

    return largest_loads(candidates, asked.target, worth, begun(USUAL * len(places)), share)


def candidate(asked: ServedQuestion, found: Estimate, place: Place, load: float, requests: int) -> Candidate:
    """A place that is to be simulated with so many requests, first near `load` requests/s."""
    policy, most = asked.options.settings[place[0]].policy, at_once(asked, found, place)
    scenario = scenario_at(asked.options, place)
    started = profiled(scenario.deployment, {"max_sequences": most})  # with the flag of the row
    return Candidate(
        scenario=dataclasses.replace(scenario, deployment=started),
        policy=dataclasses.replace(policy, max_sequences=most),
        load=load,
        offered=asked.requests.drawn(requests),
        rate=asked.requests.rate(requests),
    )


def scenario_at(options: Options, place: Place) -> Scenario:
    """The scenario of one replica at a place."""
    setting, device, layout = place
    return Scenario(
        hardware=options.devices[device].hardware,
        model=options.model.model,
        deployment=options.deployments[setting][layout],
        workload=None,
        efficiency=options.efficiency,
    )


def at_once(asked: ServedQuestion, found: Estimate, place: Place) -> float:
    """Sequences that the engine of a place runs at once at most."""
    policy: Any = asked.options.settings[place[0]].policy
    return sequences(policy, float(found.batch[place]), float(found.most[place]), bool(found.capped[place] > 0.0))

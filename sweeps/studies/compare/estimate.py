"""Largest load of every candidate deployment from its steady state, within limits on its latencies."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxroof.batch import Policy
from jaxroof.jobs.serve import GROWS
from jaxroof.numerics.arrays import eager
from jaxroof.numerics.struct import given
from jaxroof.numerics.tree import structure
from jaxroof.prices.tables import OpKinds
from jaxroof.steady.engine import SteadyEngine, cached_sequences, priced_engine
from jaxroof.steady.latencies import mean_ttft, shortfall, wanted_share
from jaxroof.steady.queue import with_classes
from jaxroof.steady.steady_state import Demand, SteadyState
from jaxroof.steady.step_costs import StepCosts, step_costs
from sweeps.run.simulated.objective import Target, limits
from sweeps.studies.compare.candidates import CandidateColumns, MemoryRoom, Options, columns
from sweeps.studies.compare.requests import LEAST

WIDTH = 128
"""Deployments that are priced together: their columns stay in a cache."""

ROWS = (
    *(2.0**octave for octave in range(6)),
    *(2.0 ** (6.0 + 0.25 * quarter) for quarter in range(24)),
    *(2.0 ** (12.0 + 0.5 * half) for half in range(18)),
)
"""Rows of a step's GEMMs: closest where a GEMM goes from reading weights to computing."""

LADDER = 12
"""Batches at which steps are priced, evenly spaced in their logarithm up to the most sequences; linear between them."""

COARSE, FINE = 64, 32
"""Batches that the search looks at, first over the ladder, then between two of these."""

QUEUE = GROWS * LEAST
"""Requests that wait on average for longer than two steps, at most, at a load that is kept: as in the shortest
simulation."""

IDLE = 1e-9
"""Load in requests/s that is none: one sequence alone finds no others."""

CAUTION = {"mean": (0.1, 0.0), "tail": (0.2, 2.5)}
"""How far a load that is told without a simulation stays below its estimate, where a mean or a share of the requests is
limited: estimate / (1 + first + second / batch^2). Chosen on 128 deployments of even numbers among the first 40
questions of `python -m tests.bench.served_search`, of which 97 % then keep their limits when they are simulated; so do
97 % of the 131 of odd numbers."""

CAUTIOUS = 64
"""Batches below the estimated one among which that of the cautious load is looked for."""


@dataclasses.dataclass(frozen=True, eq=False)
class Estimate:
    """Steady states at the largest loads within the target; arrays of shape [settings, devices, layouts].

    NaN where a deployment cannot serve the model; `load` is 0 where it meets the target at no load.
    """

    load: np.ndarray  # requests/s of one replica
    batch: np.ndarray  # sequences that decode, as one of them finds it
    under_way: np.ndarray  # sequences that decode, mean over time
    most: np.ndarray  # sequences that may run at once
    capped: np.ndarray  # bool: `most` is below what engine and cache allow, so that TPOT keeps its limit
    cache: np.ndarray  # sequences for which the cache has room
    ttft: np.ndarray  # s, mean
    tpot: np.ndarray  # s, mean
    power: np.ndarray  # W of one device, mean; NaN where it is unknown
    use: np.ndarray  # share of the room for prompts
    binding: np.ndarray  # index into `limits_of` of the limit that a larger load misses; -1: none
    cautious_load: np.ndarray  # requests/s, `CAUTION` below `load`: what is told where nothing is simulated
    cautious_under_way: np.ndarray  # and the state at it
    cautious_ttft: np.ndarray
    cautious_tpot: np.ndarray


@dataclasses.dataclass(frozen=True)
class Limit:
    """One limit of a target on a figure of a steady state."""

    name: str  # ttft, tpot, e2e, ttft_p99 ...
    value: float  # s
    share: float  # of the requests that have to keep a limit on requests
    owner: str = ""  # class of requests that has to keep it; "": all
    position: int | None = None  # of that class among all

    def shortfall(self, state: SteadyState) -> np.ndarray:
        """How far from being kept it is: > 0 where it is missed."""
        own = state if self.position is None else state.classes[self.position]
        return shortfall(own, self.name, self.value, self.share)

    @property
    def mean(self) -> bool:
        """Whether it limits a mean, not a share of the requests."""
        return wanted_share(self.name, self.share)[1] is None


def limits_of(target: Target) -> list[Limit]:
    """Limits of a target, those of every class of requests where there are some."""
    if target.classes:
        return [
            dataclasses.replace(limit, owner=name, position=position)
            for position, (name, own) in enumerate(target.classes.items())
            for limit in limits_of(own)
        ]
    values = limits(target.objective) | dict(target.limits)
    return [Limit(name, value, target.share) for name, value in values.items()]


def sequences(policy: Policy, batch: float, most: float, capped: bool) -> float:
    """Sequences that an engine should run at once at most: `most` where TPOT asks for it, else enough for its load."""
    if capped:
        return math.floor(most)
    # A power of two well above a Poisson number of this mean: a quarter more, four standard deviations and 8.
    enough = 2.0 ** math.ceil(math.log2(1.25 * batch + 4.0 * math.sqrt(batch) + 8.0))
    return min(float(policy.max_sequences), enough)


Priced = list[tuple[CandidateColumns, StepCosts]]
"""Deployments, those of one structure together, and the costs of their steps."""


def priced(options: Options, wanted: np.ndarray, demands: list[Demand]) -> Priced:
    """Costs of the steps of every wanted deployment; arguments as of `estimate`."""
    # Rows of the largest step: a full token budget or two prompts, and every sequence that may decode.
    most = max(float(setting.policy.token_budget) for setting in options.settings)
    most = max(most, 2.0 * max(needs.prompt for needs in demands))
    most += max(float(setting.policy.max_sequences) for setting in options.settings)
    rows = ROWS[: np.searchsorted(ROWS, most) + 1]
    kinds: dict[Any, list[OpKinds]] = {}  # by structure: which op depends on what is found once for each
    prices = []
    with eager():
        # Ops of one structure depend on the same columns, so that their kinds are worked out for the first group alone.
        for group in columns(options, wanted, WIDTH):
            kind = structure((group.hardware, group.deployment))
            place = group.hardware, options.model.model, group.deployment, options.efficiency
            costs = step_costs(*place, demands[0].context, demands[0].encode, rows, kinds.get(kind))
            kinds[kind] = costs.parts.kinds
            prices.append((group, costs))
    return prices


def estimate(
    options: Options, bounds: MemoryRoom, wanted: np.ndarray, demands: list[Demand], target: Target, prices: Priced
) -> Estimate:
    """The largest load within the target of every wanted deployment.

    Args:
      wanted: shape [settings, devices, layouts].
      demands: by setting.
      prices: of these deployments, `priced`.
    """
    estimates = Estimate(**{field.name: np.full(wanted.shape, np.nan) for field in dataclasses.fields(Estimate)})
    limits = limits_of(target)
    with eager():
        for group, costs in prices:
            for setting in group.settings:
                # A group is priced for all its settings; those that do not want a deployment keep NaN.
                there = wanted[setting, group.device, group.layout]
                where = (np.full(len(group.device), setting), group.device, group.layout)
                policy, needs = options.settings[setting].policy, demands[setting]
                # The engine runs at most what its flag allows and what its cache has room for.
                cache = np.asarray(cached_sequences(bounds.tokens[where], policy, needs))
                most = np.minimum(cache, float(policy.max_sequences))
                engine = _engine(options, group, costs, policy, needs, most)
                largest = _largest_load(engine, policy, most, limits) | {"cache": cache}
                for name, values in largest.items():
                    getattr(estimates, name)[where] = np.where(there, values, np.nan)
    return estimates


def _engine(
    options: Options, group: CandidateColumns, costs: StepCosts, policy: Policy, needs: Demand, most: np.ndarray
) -> SteadyEngine:
    """Engines of a group of deployments, leaves of shape [deployments, n], of which `most` sequences run at once."""
    # Evenly spaced in the logarithm: a step is flat while weights are read, and grows with the batch later.
    ladder = np.maximum(most, 1.0)[:, None] ** np.linspace(0.0, 1.0, LADDER)
    place = group.hardware, options.model.model, group.deployment, options.efficiency
    return priced_engine(costs.cost, *place, needs, policy, ladder, most[:, None])


State = Callable[[np.ndarray, np.ndarray], SteadyState]
"""States at batches, shape [deployments, n], where at most so many sequences run at once, shape [deployments]."""


def _largest_load(engine: SteadyEngine, policy: Policy, most: np.ndarray, limits: list[Limit]) -> dict[str, np.ndarray]:
    """Fields of `Estimate` but the cache, shape [deployments] each."""

    def state(batch: np.ndarray, at_once: np.ndarray) -> SteadyState:
        steady, times = engine.state_at(batch, at_once[:, None])
        return with_classes(steady, times, engine.demand, policy) if engine.demand.classes else steady

    # As many sequences as engine and cache allow, and as many as keep the limit of TPOT when the batch is full.
    top = engine.ladder[:, -1:]
    best = _search(state, top, most, limits)
    best["capped"] = np.zeros(len(most), bool)
    of_tpot = [limit for limit in limits if limit.name.startswith("tpot") and not limit.name.endswith("mean")]
    if of_tpot:
        full = _full_batch(state, top, of_tpot)
        fewer = _search(state, np.minimum(top, np.maximum(full, 1.0)[:, None]), np.minimum(full, most), limits)
        # Fewer sequences are chosen only where the load gains more than 1 % by them.
        better = fewer["load"] > 1.01 * np.nan_to_num(best["load"])
        best = {name: np.where(better, fewer[name], best[name]) for name in fewer}
        best["capped"] = better & (full < most)
    best |= _cautious(state, best, limits)
    best["power"] = np.full(len(most), np.nan)
    # W of one device: J of a mean step over its time, and static power.
    if engine.joules is not None:
        energy = engine.step_energy(best["batch"][:, None])[:, 0]
        # An engine at its largest load is never idle.
        best["power"] = energy / best["tpot"] + given(engine.static, "static power")[:, 0]
    return best


def _search(state: State, top: np.ndarray, most: np.ndarray, limits: list[Limit]) -> dict[str, np.ndarray]:
    """The largest load within limits where at most `most` sequences run, shape [deployments] each.

    The load is not always kept at every batch below the best one, nor does it always grow with the batch. So the best
    of a grid is looked for, in place of the end of an interval: of the whole range, then beside the best one.
    """
    # Batches of the whole range, from 1 to the most, shape [deployments, COARSE].
    coarse = top ** np.linspace(0.0, 1.0, COARSE)
    steady = state(coarse, most)
    last = np.argmax(np.where(_serves(steady, limits), steady.load, -1.0), axis=1)
    rows = np.arange(len(most))
    # Between the best batch and the next one, in finer steps.
    low, high = coarse[rows, last], coarse[rows, np.minimum(last + 1, COARSE - 1)]
    fine = low[:, None] * (high / low)[:, None] ** np.linspace(0.0, 1.0, FINE)
    steady = state(fine, most)
    good = _serves(steady, limits)
    load = np.where(good, steady.load, -1.0)
    best = np.argmax(load, axis=1)
    # What the next larger batch misses is what keeps the load from being larger.
    after = np.minimum(best + 1, FINE - 1)
    missed = np.stack(
        [np.broadcast_to(limit.shortfall(steady), fine.shape)[rows, after] for limit in limits] or [rows * 0.0]
    )
    some = good.any(axis=1)
    binding = np.where((missed > 0.0).any(axis=0) & some, missed.argmax(axis=0), -1)
    values = {name: getattr(steady, name)[rows, best] for name in ("batch", "under_way", "tpot", "use")}
    values["ttft"] = mean_ttft(steady)[rows, best]
    return {
        **values,
        "load": np.where(some, load[rows, best], 0.0),
        "most": most,
        "binding": binding.astype(float),
    }


def _full_batch(state: State, top: np.ndarray, limits: list[Limit]) -> np.ndarray:
    """Largest batch that keeps the limits of TPOT when it never varies, a whole number, shape [deployments]."""
    batch = top ** np.linspace(0.0, 1.0, COARSE * 4)
    # A full engine admits a sequence only when one ends, so that its batch hardly varies.
    still = _calmer(state(batch, batch[:, -1]))
    good = np.all([limit.shortfall(still) <= 0.0 for limit in limits], axis=0)
    return np.floor(np.max(np.where(good, batch, 0.0), axis=1))


def _calmer(steady: SteadyState) -> SteadyState:
    """The state with half the spread of TPOT, as of a batch that never varies."""
    classes = tuple(map(_calmer, steady.classes))
    calmer = {name: 0.5 * getattr(steady, name) for name in ("tpot_varied", "tpot_jumps")}
    return dataclasses.replace(steady, **calmer, classes=classes)


def _cautious(state: State, best: dict[str, np.ndarray], limits: list[Limit]) -> dict[str, np.ndarray]:
    """The state at the load that is told without a simulation, `CAUTION` below the estimate, shape [deployments]."""
    # Index -1, of no binding limit, takes the last entry: caution as for a mean.
    means = np.array([limit.mean for limit in limits] + [True])  # the last: no limit binds
    binds_mean = means[best["binding"].astype(int)]
    first, second = (np.where(binds_mean, *(CAUTION[kind][i] for kind in ("mean", "tail"))) for i in (0, 1))
    batch = np.maximum(best["batch"], 1.0)
    wanted = best["load"] / (1.0 + first + second / batch**2)
    # The largest batch whose load is at most the cautious one, on an even grid from one sequence up.
    batches = 1.0 + (batch - 1.0)[:, None] * np.linspace(0.0, 1.0, CAUTIOUS)
    steady = state(batches, best["most"])
    rows, last = np.arange(len(batch)), np.maximum(np.sum(steady.load <= wanted[:, None], axis=1) - 1, 0)
    values = {"load": steady.load, "under_way": steady.under_way, "ttft": mean_ttft(steady), "tpot": steady.tpot}
    told = {f"cautious_{name}": value[rows, last] for name, value in values.items()}
    return told | {"cautious_load": np.where(best["load"] > 0.0, told["cautious_load"], 0.0)}


def keeps(steady: SteadyState, limits: Sequence[Limit]) -> np.ndarray:
    """Whether all limits are kept, prompts find room, sequences end and no queue grows, shape [deployments, n]."""
    # Little's law: requests that wait = load x mean time of waiting, here what TTFT has beyond that of requests that
    # meet no other prompts, and beyond two steps.
    waiting = steady.load * (mean_ttft(steady) - steady.ttft_alone - 2.0 * steady.step)
    good = (steady.use < 1.0) & (steady.held_back < 1.0) & (waiting <= QUEUE)
    for limit in limits:
        good = good & (limit.shortfall(steady) <= 0.0)
    return good


def _serves(steady: SteadyState, limits: list[Limit]) -> np.ndarray:
    """Whether all is kept at a load that is one, shape [deployments, n]."""
    return keeps(steady, limits) & (steady.load > IDLE)

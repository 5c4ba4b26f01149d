"""Largest load of every place from the steady state: step times at a ladder of batches, and a search between them."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxroof.batch import Policy
from jaxroof.energy.energy import power_known
from jaxroof.jobs.serve import GROWS
from jaxroof.numerics.arrays import eager
from jaxroof.numerics.struct import existing
from jaxroof.numerics.tree import mapped, structure
from jaxroof.prices.prices import Price, step_energy, step_price
from jaxroof.prices.tables import OpKinds
from jaxroof.steady.queue import with_classes
from jaxroof.steady.steady_state import (
    Demand,
    SteadyState,
    StepTimes,
    e2e_share,
    mean_ttft,
    steady_state,
    step_times,
    tpot_share,
    ttft_share,
)
from sweeps.run.simulated.objective import Target
from sweeps.studies.compare.places import MemoryRoom, Options, PlaceColumns, columns
from sweeps.studies.compare.requests import LEAST
from sweeps.studies.compare.steps import Tables, micro_batch_cost, tables

WIDTH = 128
"""Places that are priced together: their columns stay in a cache."""

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
limited: estimate / (1 + first + second / batch^2). Chosen on 128 places of even numbers among the first 40 questions of
`python -m tests.bench.served_search`, of which 97 % then keep their limits when they are simulated; so do 97 % of the
131 of odd numbers."""

SURE = 64
"""Batches below the estimated one among which that of the told load is looked for."""

UNKNOWN_DEVIATION = 1e-3
"""Step of the batch, relative, over which the slope of a step is taken."""


@dataclasses.dataclass(frozen=True, eq=False)
class Estimate:
    """Steady state of every place at its largest load within the target; arrays of shape [settings, devices, layouts].

    NaN where a place cannot serve the model; `load` is 0 where it meets the target at no load.
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
    sure_load: np.ndarray  # requests/s, `CAUTION` below `load`: what is told where nothing is simulated
    sure_under_way: np.ndarray  # and the state at it
    sure_ttft: np.ndarray
    sure_tpot: np.ndarray


@dataclasses.dataclass(frozen=True)
class Limit:
    """One limit of a target: a figure, and the share of it that is reached in a steady state; at most 1 where kept."""

    name: str  # ttft, tpot, e2e, ttft_p99 ...
    value: float  # s
    short: Callable[[SteadyState], np.ndarray]  # how far from being kept: > 0 where it is missed
    owner: str = ""  # class of requests that has to keep it; "": all

    @property
    def mean(self) -> bool:
        """Whether it limits a mean, not a share of the requests."""
        latency, _, of = self.name.rpartition("_")
        return of == "mean" or latency in ("itl", "queueing")


def limits_of(target: Target) -> list[Limit]:
    """Limits of a target as a steady state knows them; percentiles of ITL and of queueing as if they were means."""
    if target.classes:
        return [
            dataclasses.replace(limit, owner=name, short=_of_class(limit.short, position))
            for position, (name, of) in enumerate(target.classes.items())
            for limit in limits_of(of)
        ]
    shares = {"ttft": ttft_share, "tpot": tpot_share, "e2e": e2e_share}
    means = {
        "ttft": mean_ttft,
        "tpot": lambda state: state.tpot,
        "itl": lambda state: state.tpot,
        "e2e": lambda state: mean_ttft(state) + state.decode_steps * state.tpot,
        "queueing": lambda state: state.held_back * state.wait,
    }
    found = []
    for name in ("ttft", "tpot", "e2e"):
        limit = float(getattr(target.objective, name))
        if np.isfinite(limit):
            found.append(Limit(name, limit, _missed(shares[name], limit, target.share)))
    for name, limit in target.limits.items():
        latency, _, of = name.rpartition("_")
        if of == "mean" or latency not in shares:
            found.append(Limit(name, limit, _above(means[latency], limit)))
        else:
            found.append(Limit(name, limit, _missed(shares[latency], limit, float(of.removeprefix("p")) / 100.0)))
    return found


def _of_class(short: Callable, position: int) -> Callable[[SteadyState], np.ndarray]:
    return lambda state: short(state.classes[position])


def _above(mean: Callable, limit: float) -> Callable[[SteadyState], np.ndarray]:
    return lambda state: mean(state) / limit - 1.0


def _missed(share: Callable, limit: float, wanted: float) -> Callable[[SteadyState], np.ndarray]:
    return lambda state: wanted - share(state, limit)


def sequences(policy: Policy, batch: float, most: float, capped: bool) -> float:
    """Sequences that an engine should run at once at most: `most` where TPOT asks for it, else enough for its load."""
    if capped:
        return math.floor(most)
    enough = 2.0 ** math.ceil(math.log2(1.25 * batch + 4.0 * math.sqrt(batch) + 8.0))
    return min(float(policy.max_sequences), enough)


Priced = list[tuple[PlaceColumns, Tables]]
"""Places, those of one structure together, and the prices of their steps."""


def priced(options: Options, wanted: np.ndarray, demands: list[Demand]) -> Priced:
    """Prices of the steps of every wanted place; arguments as of `estimate`."""
    rows = max(float(setting.policy.token_budget) for setting in options.settings)
    rows = max(rows, 2.0 * max(needs.prompt for needs in demands))
    rows += max(float(setting.policy.max_sequences) for setting in options.settings)
    kinds: dict[Any, list[OpKinds]] = {}
    found = []
    with eager():
        for group in columns(options, wanted, WIDTH):
            kind = structure((group.hardware, group.deployment))
            means, place = demands[0], (group, options.model.model, options.efficiency)
            of = tables(*place, means.context, rows, kinds.get(kind), means.encode)
            kinds[kind] = of.parts.kinds
            found.append((group, of))
    return found


def estimate(
    options: Options, bounds: MemoryRoom, wanted: np.ndarray, demands: list[Demand], target: Target, prices: Priced
) -> Estimate:
    """The largest load within the target of every wanted place.

    Args:
      wanted: shape [settings, devices, layouts].
      demands: by setting.
      prices: of these places, `priced`.
    """
    shape = wanted.shape
    blank = {field.name: np.full(shape, np.nan) for field in dataclasses.fields(Estimate)}
    found = Estimate(**blank)
    limits = limits_of(target)
    with eager():
        for group, of in prices:
            for setting in group.settings:
                there = wanted[setting, group.device, group.layout]
                where = (np.full(len(group.device), setting), group.device, group.layout)
                policy, needs = options.settings[setting].policy, demands[setting]
                cache = _sequences(bounds.tokens[where], policy, needs)
                largest = _largest(group, of, options, needs, policy, cache, limits)
                for name, values in largest.items():
                    getattr(found, name)[where] = np.where(there, values, np.nan)
    return found


def _sequences(tokens: np.ndarray, policy: Policy, needs: Demand) -> np.ndarray:
    """Sequences for which the cache has room, mean: in whole blocks, and with the whole output where it is reserved."""
    held = needs.held + 0.5 * policy.block_size
    if policy.reserve:
        held = needs.cached + needs.prompt + needs.output + 0.5 * policy.block_size
    return tokens * (1.0 - policy.watermark) / held


def _largest(
    group: PlaceColumns,
    priced_parts: Tables,
    options: Options,
    needs: Demand,
    policy: Policy,
    cache: np.ndarray,
    limits: list[Limit],
) -> dict[str, np.ndarray]:
    """Fields of `Estimate` for the places of a group, shape [places] each."""
    most = np.minimum(cache, float(policy.max_sequences))
    top = np.maximum(most, 1.0)[:, None]
    ladder = top ** np.linspace(0.0, 1.0, LADDER)  # [places, LADDER]
    cost = micro_batch_cost(priced_parts)
    place = group.hardware, options.model.model, group.deployment
    overlap = float(options.efficiency.host.step_time), float(policy.hidden_host)
    priced = _over(ladder, step_price(cost, *place, overlap, policy.acceptance), policy, needs)
    delay = float(options.efficiency.host.request_time)

    def state(batch: np.ndarray, at_once: np.ndarray) -> SteadyState:
        """At batches of shape [places, n] where at most `at_once` sequences run, shape [places]."""
        times = _between(priced, ladder, batch)
        near = _between(priced, ladder, batch * (1.0 + UNKNOWN_DEVIATION))
        slope = np.maximum(near.decode - times.decode, 0.0) / (batch * UNKNOWN_DEVIATION)
        steady = steady_state(times, slope, needs, delay, batch, at_once[:, None])
        return with_classes(steady, times, needs, policy) if needs.classes else steady

    # As many sequences as engine and cache allow, and as many as keep the limit of TPOT when the batch is full.
    found = _search(state, top, most, limits)
    tight = [limit for limit in limits if limit.name.startswith("tpot") and not limit.name.endswith("mean")]
    if tight:
        full = _full_batch(state, top, tight)
        again = _search(state, np.minimum(top, np.maximum(full, 1.0)[:, None]), np.minimum(full, most), limits)
        better = again["load"] > 1.01 * np.nan_to_num(found["load"])
        found = {name: np.where(better, again[name], found[name]) for name in found}
        found["capped"] = better & (full < most)
    else:
        found["capped"] = np.zeros(len(most), bool)
    found |= _sure(state, found, limits)
    found["power"] = np.full(len(most), np.nan)
    if power_known(group.hardware):
        device = group.hardware.power
        joules = _over(ladder, step_energy(cost, *place, overlap, policy.acceptance), policy, needs)
        batch = found["batch"][:, None]
        energy = steady_state(_between(joules, ladder, batch), 0.0, needs, delay, batch, most[:, None]).step[:, 0]
        found["power"] = energy / found["tpot"] + existing(device.static)[:, 0, 0]
    return found | {"cache": cache}


def _sure(state: Callable, found: dict[str, np.ndarray], limits: list[Limit]) -> dict[str, np.ndarray]:
    """The state at the load that is told without a simulation, shape [places] each."""
    means = np.array([limit.mean for limit in limits] + [True])  # the last: no limit binds
    binds_mean = means[found["binding"].astype(int)]
    first, second = (np.where(binds_mean, *(CAUTION[kind][i] for kind in ("mean", "tail"))) for i in (0, 1))
    batch = np.maximum(found["batch"], 1.0)
    told = found["load"] / (1.0 + first + second / batch**2)
    batches = 1.0 + (batch - 1.0)[:, None] * np.linspace(0.0, 1.0, SURE)
    steady = state(batches, found["most"])
    rows, last = np.arange(len(batch)), np.maximum(np.sum(steady.load <= told[:, None], axis=1) - 1, 0)
    values = {"load": steady.load, "under_way": steady.under_way, "ttft": mean_ttft(steady), "tpot": steady.tpot}
    made = {f"sure_{name}": value[rows, last] for name, value in values.items()}
    return made | {"sure_load": np.where(found["load"] > 0.0, made["sure_load"], 0.0)}


def _over(ladder: np.ndarray, step: Price, policy: Policy, needs: Demand) -> StepTimes:
    """What `step` gives for steps with and without prompts, at every batch of the ladder, shape [places, LADDER]."""
    shaped = mapped(lambda number: np.full((1, 1, 1), number), needs)
    found = step_times(step, policy, shaped, ladder[:, :, None])
    return mapped(lambda leaf: np.broadcast_to(leaf, (*ladder.shape, 1))[..., 0], found)


def _full_batch(state: Callable, top: np.ndarray, limits: list[Limit]) -> np.ndarray:
    """Largest batch that keeps the limits of TPOT when it never varies, a whole number, shape [places]."""
    batch = top ** np.linspace(0.0, 1.0, COARSE * 4)
    steady = state(batch, batch[:, -1])
    still = _calmer(steady)
    kept = np.all([limit.short(still) <= 0.0 for limit in limits], axis=0)
    return np.floor(np.max(np.where(kept, batch, 0.0), axis=1))


def _calmer(steady: SteadyState) -> SteadyState:
    """The state with half the spread of TPOT, as of a batch that never varies."""
    classes = tuple(map(_calmer, steady.classes))
    calmer = {name: 0.5 * getattr(steady, name) for name in ("tpot_varied", "tpot_jumps")}
    return dataclasses.replace(steady, **calmer, classes=classes)


def _search(state: Callable, top: np.ndarray, most: np.ndarray, limits: list[Limit]) -> dict[str, np.ndarray]:
    """The largest load within limits where at most `most` sequences run, shape [places] each."""
    coarse = top ** np.linspace(0.0, 1.0, COARSE)
    steady = state(coarse, most)
    last = np.argmax(np.where(_kept(steady, limits), steady.load, -1.0), axis=1)
    rows = np.arange(len(most))
    low, high = coarse[rows, last], coarse[rows, np.minimum(last + 1, COARSE - 1)]
    fine = low[:, None] * (high / low)[:, None] ** np.linspace(0.0, 1.0, FINE)
    steady = state(fine, most)
    good = _kept(steady, limits)
    load = np.where(good, steady.load, -1.0)
    best = np.argmax(load, axis=1)
    after = np.minimum(best + 1, FINE - 1)
    missed = np.stack(
        [np.broadcast_to(limit.short(steady), fine.shape)[rows, after] for limit in limits] or [rows * 0.0]
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


def kept(steady: SteadyState, limits: Sequence[Limit]) -> np.ndarray:
    """Whether all limits are kept, prompts find room, sequences end and no queue grows, shape [places, n]."""
    waiting = steady.load * (mean_ttft(steady) - steady.ttft_alone - 2.0 * steady.step)
    found = (steady.use < 1.0) & (steady.held_back < 1.0) & (waiting <= QUEUE)
    for limit in limits:
        found = found & (limit.short(steady) <= 0.0)
    return found


def _kept(steady: SteadyState, limits: list[Limit]) -> np.ndarray:
    """Whether all is kept at a load that is one, shape [places, n]."""
    return kept(steady, limits) & (steady.load > IDLE)


def between(ladder: np.ndarray, values: np.ndarray, batch: np.ndarray) -> np.ndarray:
    """Values at batches of shape [places, n], from 1 on, linear between those of the ladder, shape [places, LADDER]."""
    ratio = np.maximum(np.log(ladder[:, -1:]), 1e-9)
    place = np.clip(np.log(np.maximum(batch, 1.0)) / ratio * (LADDER - 1), 0.0, LADDER - 1.0)
    below = np.minimum(place.astype(int), LADDER - 2)
    (low, high), ends = (
        [np.take_along_axis(array, below + more, axis=1) for more in (0, 1)] for array in (ladder, values)
    )
    share = np.where(high > low, (batch - low) / np.where(high > low, high - low, 1.0), 0.0)
    return ends[0] * (1.0 - share) + ends[1] * share


def _between(priced: StepTimes, ladder: np.ndarray, batch: np.ndarray) -> StepTimes:
    """Step times at batches between those of the ladder; shape of `batch`, [places, n]."""
    return mapped(lambda values: between(ladder, values, batch), priced)

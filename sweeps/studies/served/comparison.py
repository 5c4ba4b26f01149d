"""Ranking of accelerators, their number, layout and engine settings for one model under requests over time."""

import dataclasses
import functools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hwspaces import HardwareEntry
from hwspaces.plain import plain_arguments
from jaxroof.deployment import replica_devices
from sweeps.ask.cache_notes import slower_cache
from sweeps.ask.keys import takes
from sweeps.ask.offered_load import OfferedLoad
from sweeps.run.evidence import serving_beyond
from sweeps.run.simulated.objective import SHARE
from sweeps.studies.served.disaggregated import pool_rows, with_pools
from sweeps.studies.served.figures import PRICE, RATE, SORTED_BY, ascending
from sweeps.studies.served.question import MAX_DEVICES, Question, question
from sweeps.studies.served.rows import Row, missed, ranked_row
from sweeps.studies.served.search import HEADROOM, SIMULATED, Found, at_once, scenario_at, search
from sweeps.studies.served.trust import Trust, trust


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class ServedComparison:
    """Result of a served comparison."""

    question: Question
    metric: str  # what rows are sorted by
    chosen: str  # why by that one
    rate: float | None  # requests/s that were asked for; None: what one replica takes
    headroom: float
    rows: tuple[Row, ...]  # every accelerator, devices and layout that serves, at its best setting; best first
    infeasible: tuple[Row, ...]  # the others, with their reasons, in the order of the accelerators
    requests: tuple[int, int]  # of a simulation, fewest and most; 0: there was none
    places: int  # that were estimated
    simulations: int
    estimate_seconds: float
    seconds: float
    arrays: Mapping[str, np.ndarray]  # figures of every place as estimated, shape [settings, devices, layouts]
    questions: Mapping[str | None, Question] = dataclasses.field(default_factory=dict)  # by the weights of rows
    _trusts: dict[tuple, Trust] = dataclasses.field(default_factory=dict)  # that were asked for

    def __repr__(self) -> str:
        model, best = self.question.model.name, self.rows[0] if self.rows else None
        words = "" if best is None else f", best {best.devices} x {best.hardware} as {best.layout}"
        return f"<ServedComparison of {model} by {self.metric}: {len(self.rows)} rows of {self.places:,} places{words}>"

    def question_of(self, row: Row) -> Question:
        """What was asked of a row: at the precision of its weights where several were tried."""
        return self.questions.get(row.weights, self.question)

    def device_of(self, row: Row) -> HardwareEntry:
        """The accelerator of a row."""
        return self.question_of(row).options.devices[row.place[1]]

    def trust(self, row: Row) -> Trust:
        """How far a row's figures can be trusted: of a step under its load."""
        key = row.place, row.prefill is None, row.weights, row.simulated
        if key not in self._trusts:
            sample, batch = self.question.requests.sample, max(row.metrics["batch_mean"], 1.0)
            scenario = scenario_at(self.question_of(row).options, row.place)
            found = serving_beyond(scenario, batch, float(np.mean(sample.isl)), float(np.mean(sample.osl)))
            place = self.device_of(row), self.question.efficiency, found
            self._trusts[key] = trust(*place, row.parallelism, self.question_of(row).model.precision, row.simulated)
        return self._trusts[key]

    def slower_cache(self, row: Row) -> str | None:
        """One line, where a row's cache makes decoding slower than one of 16 bits."""
        sample = self.question.requests.sample
        context = float(np.mean(sample.isl)) + 0.5 * float(np.mean(sample.osl))
        return slower_cache(
            scenario_at(self.question_of(row).options, row.place), (max(row.metrics["batch_mean"], 1.0), context)
        )

    @property
    def best_layouts(self) -> tuple[Row, ...]:
        """Of `rows`, the best of every (accelerator, devices of a replica), disaggregated pools apart from others."""
        first: dict[tuple[str, int, bool], Row] = {}
        for row in self.rows:
            first.setdefault((row.hardware, row.devices, row.prefill is None), row)
        return tuple(first.values())

    @property
    def nearest_misses(self) -> tuple[Row, ...]:
        """For every accelerator without any row, the one that came nearest to serving."""
        served, nearest = {row.hardware for row in self.rows}, {}
        for row in self.infeasible:
            before = nearest.get(row.hardware, row)
            if row.hardware not in served and (-row.stage, row.distance) <= (-before.stage, before.distance):
                nearest[row.hardware] = row
        return tuple(nearest.values())


@takes(OfferedLoad)
@plain_arguments
def compare_served(
    model: str,
    slo: str | Mapping[str, Any] | None = None,
    *,
    rate: float | None = None,
    headroom: float = HEADROOM,
    share: float | str = SHARE,
    hardware: Iterable[str] | None = None,
    devices: Iterable[int] | None = None,
    max_devices: int = MAX_DEVICES,
    weights: Sequence[str] | str | None = None,
    kv: Sequence[str] | str | None = None,
    draft: str | None = None,
    drafts: Sequence[int] | int | None = None,
    engine: str | None = None,
    policy: Mapping[str, Any] | None = None,
    efficiency: str | None = None,
    settings: Mapping[str, Any] | None = None,
    prices: str | None = None,
    node: int | None = None,
    sort: str | None = None,
    simulated: int = SIMULATED,
    disaggregated: bool = True,
    begun: Callable[[int], Callable[[int], None]] = lambda simulations: lambda done: None,
    **load: Any,
) -> ServedComparison:
    """Rank deployments by what serving a stream of requests takes, each at the largest load that keeps the target.

    In two passes. The first estimates the largest load of every accelerator, number of devices, layout and setting from
    the steady state (`jaxroof.steady_state`), all of them as arrays. The second simulates the best of every accelerator
    with the scheduler, each at loads that close in on the largest that keeps the target. What is found for one
    accelerator does not depend on the others. Simulated rows come first, then those that are estimated.

    Args:
      model: a catalogue name or a config file.
      slo: what has to be kept, as of `sweeps.serving.capacity.capacity`: "ttft=1s,tpot=30ms" by a `share` of the
        requests, "ttft_p99=1s,tpot_mean=30ms" by figures of the run. Every class of a `traffic` file keeps these limits
        by itself, or its own in their place; None where all have their own.
      rate: requests/s that have to be served; then as many replicas as it takes, with `headroom`. None: one replica.
      headroom: load that the replicas take beyond `rate`, as a share of it.
      share: of the requests that keep the limits of requests.
      hardware: names or files; None: all of the catalogue that are rented out.
      devices: of one replica; None: powers of two up to `max_devices` and to what an accelerator's links connect.
      weights: precision in place of the checkpoint's, or several, which are ranked together.
      kv: precision of the KV cache, or several that are tried.
      draft, drafts: a model that drafts, and tokens drafted per step, or several numbers that are tried.
      engine: vllm, sglang or trtllm: its constants and its policy; None: the efficiency's.
      policy: changes to the engine's policy; a list of values is tried. None: token budgets of 2,048 and 8,192.
      efficiency, settings, prices: constants, numbers by dotted path, and prices, as everywhere.
      node: devices of one server, which is rented whole; None: that of `hwspaces.servers`.
      sort: one of `SORTED_BY`; None: US dollars per million tokens where most accelerators have prices.
      simulated: places of every accelerator that are simulated at most; 0: none.
      disaggregated: whether pools that only prefill or only decode are ranked among them, as estimated; they are left
        out where classes of requests have limits of their own.
      begun: called with about as many simulations as come; returns what is called with those that are done.
      **load: of `sweeps.ask.offered_load.OfferedLoad`: isl, osl, trace, traffic, prefixes, sessions, requests ...

    Raises:
      ValueError: one line that names what is wrong, its value and what is allowed.
    """
    tried = [weights] if weights is None or isinstance(weights, str) else list(dict.fromkeys(weights))
    if not tried:
        raise ValueError("weights is empty; give at least one precision, or leave it out for the checkpoint's")
    ask = functools.partial(
        question,
        model,
        slo,
        load,
        share=share,
        hardware=hardware,
        devices=devices,
        max_devices=max_devices,
        kv=kv,
        draft=draft,
        drafts=drafts,
        engine=engine,
        policy=policy,
        efficiency=efficiency,
        settings=settings,
        prices=prices,
        node=node,
    )
    questions = {one: ask(weights=one) for one in tried}  # all of them are checked before the first is searched
    made = [_compared(asked, rate, headroom, sort, simulated, disaggregated, begun) for asked in questions.values()]
    return made[0] if len(made) == 1 else _together(questions, made)


def _compared(
    asked: Question,
    rate: float | None,
    headroom: float,
    sort: str | None,
    simulated: int,
    disaggregated: bool,
    begun: Callable[[int], Callable[[int], None]],
) -> ServedComparison:
    """The comparison of one question; arguments as of `compare_served`."""
    start = time.perf_counter()
    metric, chosen = _metric(sort, asked)
    found = search(asked, metric, rate, headroom, simulated, begun)
    rows, infeasible = _rows(asked, found, metric)
    if disaggregated and not asked.target.classes and not asked.requests.without_output:
        rows = with_pools(rows, pool_rows(asked, found.first_pass, metric, rate, headroom), metric)
    return ServedComparison(
        question=asked,
        metric=metric,
        chosen=chosen,
        rate=rate,
        headroom=headroom,
        rows=rows,
        infeasible=infeasible,
        requests=(min(found.requests.values(), default=0), max(found.requests.values(), default=0)),
        places=int(found.wanted.sum()),
        simulations=found.simulations,
        estimate_seconds=found.estimate_seconds,
        seconds=time.perf_counter() - start,
        arrays=found.arrays,
    )


def _together(questions: Mapping[str | None, Question], made: Sequence[ServedComparison]) -> ServedComparison:
    """Comparisons of one model at several precisions of its weights as one, whose rows say which is theirs."""

    def named(rows: Sequence[Row], weights: str | None) -> list[Row]:
        words = [", ".join(filter(None, (f"weights {weights}", row.setting))) for row in rows]
        return [dataclasses.replace(row, weights=weights, setting=text) for row, text in zip(rows, words, strict=True)]

    pairs = list(zip(questions, made, strict=True))
    rows = [row for weights, one in pairs for row in named(one.rows, weights)]
    missed_rows = [row for weights, one in pairs for row in named(one.infeasible, weights)]
    lacking: dict[str, str] = {}
    for weights, asked in questions.items():
        for name, reason in asked.lacking.items():
            lacking[name] = "; ".join(filter(None, (lacking.get(name), f"weights {weights}: {reason}")))
    known = [one.requests for one in made if one.requests[1]]
    return dataclasses.replace(
        made[0],
        question=dataclasses.replace(made[0].question, lacking=lacking),
        questions=questions,
        rows=with_pools(tuple(rows), (), made[0].metric),
        infeasible=tuple(missed_rows),
        requests=(min((few for few, _ in known), default=0), max((many for _, many in known), default=0)),
        **{
            name: sum(getattr(one, name) for one in made)
            for name in ("places", "simulations", "estimate_seconds", "seconds")
        },
    )


def _metric(sort: str | None, asked: Question) -> tuple[str, str]:
    if sort is not None:
        if sort not in SORTED_BY:
            raise ValueError(f"sort = {sort!r} is not known; known: {', '.join(SORTED_BY)}")
        return sort, "asked for"
    devices = asked.options.devices
    priced = sum(device.hardware.price is not None for device in devices)
    said = f"default: {priced} of {len(devices)} accelerators have a price"
    return (PRICE if 2 * priced >= len(devices) > 0 else RATE), said


def _rows(asked: Question, found: Found, metric: str) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """Every accelerator and layout at its best setting, ranked; and those that do not serve, in order."""
    values = ascending(found.arrays[metric], metric)
    known = np.zeros(values.shape, bool)
    for place, one in found.results.items():
        known[place] = one.load > 0.0
    best = np.where(known | ~known.any(axis=0), values, np.inf).argmin(axis=0)  # setting, shape [devices, layouts]
    used = [int(replica_devices(deployment)) for deployment in asked.options.deployments[0]]
    places = [(int(best[device, layout]), device, layout) for device, layout in np.ndindex(best.shape)]
    legal = [place for place in places if found.bounds.legal[place]]
    serving = sorted(
        (place for place in legal if np.isfinite(values[place])),
        key=lambda place: (not known[place], values[place], used[place[2]]),
    )
    ranked = tuple(
        ranked_row(
            asked,
            found.estimate,
            {name: float(array[place]) for name, array in found.arrays.items()},
            place,
            used[place[2]],
            found.results.get(place),
            at_once(asked, found.estimate, place),
            found.requests.get(place[1], 0),
        )
        for place in serving
    )
    possible = {device for _, device, _ in legal}
    others = [place for place in legal if not np.isfinite(values[place])]
    others += [place for place in places if place[1] not in possible]
    return ranked, tuple(
        missed(
            asked,
            found.bounds,
            found.wanted,
            found.estimate,
            place,
            used[place[2]],
            metric,
            found.results.get(place),
        )
        for place in others
    )

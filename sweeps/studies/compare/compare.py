"""Ranking of accelerators, their number, layout and engine settings for one model under requests over time."""

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hwspaces.quantities.units import plain_arguments
from jaxroof.deployment import replica_devices
from sweeps.ask.keys import takes
from sweeps.ask.offered_load import COMPARED, OfferedLoad, prompt_metric, without_output
from sweeps.ask.words import ComparisonWords
from sweeps.studies.compare.comparison import Comparison
from sweeps.studies.compare.disaggregated import pool_rows, with_pools
from sweeps.studies.compare.figures import SORTED_BY
from sweeps.studies.compare.question import ServedQuestion, question
from sweeps.studies.compare.ranking import ascending, default_metric
from sweeps.studies.compare.rows import Row, missed, ranked_row, unconfirmed
from sweeps.studies.compare.search import HEADROOM, SearchResult, at_once, search
from sweeps.studies.compare.words import AskedComparison, read


@takes(OfferedLoad, COMPARED)
@takes(ComparisonWords)
@plain_arguments
def compare(
    model: str,
    slo: str | Mapping[str, Any] | None = None,
    *,
    begun: Callable[[int], Callable[[int], None]] = lambda simulations: lambda done: None,
    **words: Any,
) -> Comparison:
    """Rank deployments by what serving a stream of requests takes, each at the largest load that keeps the target.

    What `jaxroof compare` asks, in the same words: the rows are those that it prints. Numbers are in SI units, or texts
    as the flags take them; several values are a list, or a text with commas.

    In two passes. The first estimates the largest load of every accelerator, number of devices, layout and setting from
    the steady state (`jaxroof.steady.steady_state`), all of them as arrays. The second simulates the best of every
    accelerator with the scheduler, each at loads that close in on the largest that keeps the target. What is found for
    one accelerator does not depend on the others. Simulated rows come first, then those that are estimated; where
    nothing that is simulated keeps the target there are no rows.

    Args:
      model: a catalogue name or a config file.
      slo: what has to be kept, as of `sweeps.capacity`: "ttft=1s,tpot=30ms" by a `share` of the requests,
        "ttft.p99=1s,tpot.mean=30ms" by figures of the run; or a table of them, in s. Every class of a `traffic` file
        keeps these limits by itself, or its own in their place; None where all have their own.
      share: of the requests that keep the limits of requests.
      rate: requests/s that have to be served; then as many replicas as it takes, with `headroom`. None: one replica.
      headroom: load that the replicas take beyond `rate`, as a share of it; None: a tenth.
      hardware: names or files; None: all of the catalogue that are rented out.
      devices: of one replica; None: powers of two up to `max_devices` and to what an accelerator's links connect.
      max_devices: in place of `devices`; None: 16.
      weights: precision in place of the checkpoint's, or several, which are ranked together.
      kv: precision of the KV cache, or several that are tried.
      engine: vllm, sglang or trtllm: its constants and its policy; None: the efficiency's.
      policy: changes to the engine's policy by name, each one value or several that are tried. None: token budgets of
        2,048 and 8,192.
      draft, drafts: a model that drafts, and tokens drafted per step, or several numbers that are tried.
      efficiency, prices: constants and prices, as everywhere.
      adapters: low-rank adapters that requests run with: "rank=16,loaded=32,targets=q,v".
      node: devices of one server, which is rented whole; None: that of `hwspaces.accelerators.prices`.
      set: any number of accelerators or the deployment, by dotted path.
      simulate: candidates of every accelerator that are simulated at most; 0: none.
      disaggregated: whether pools that only prefill or only decode are ranked among them; of every accelerator those
        are simulated whose estimate is better than all of it that is simulated; they are left out where classes of
        requests have limits of their own.
      sort: one of `sweeps.studies.compare.figures.SORTED_BY`; None: US dollars per million tokens where most
        accelerators have prices.
      begun: called with about as many simulations as come; returns what is called with those that are done.
      **words: the others of these, and those of `sweeps.ask.offered_load.COMPARED`: isl, osl, trace, traffic,
        prefixes, sessions, requests ...

    Returns:
      The ranking: `best_layouts` are the rows that the command prints, `rows` those of its --all, and `record()` is the
      object of its --json.

    Raises:
      ValueError: one line that names what is wrong, its value and what is allowed.

    Example:
      sweeps.compare("Llama-3.1-8B", "ttft=1s,tpot=30ms", isl=2048, osl=256, hardware=["H100-SXM", "MI300X"], rate=40)
    """
    return comparison(read({"model": model, "slo": slo, **words}), begun)


def comparison(wanted: AskedComparison, begun: Callable[[int], Callable[[int], None]]) -> Comparison:
    """The comparison that words ask for; `begun` as of `compare`."""
    # One question for every precision of the weights; None is the checkpoint's own.
    every: tuple[str | None, ...] = tuple(wanted.weights or [None])
    tried = dict.fromkeys(every)
    questions = {one: question(wanted, one) for one in tried}  # all are checked before the first is searched
    comparisons = [_compared(one, wanted, begun) for one in questions.values()]
    ranking = comparisons[0] if len(comparisons) == 1 else _together(questions, comparisons)
    # Answers of one token have no decode steps: figures are told per request and per prompt token.
    return _of_prompts(ranking) if ranking.question.requests.without_output else ranking


def _compared(
    asked: ServedQuestion, wanted: AskedComparison, begun: Callable[[int], Callable[[int], None]]
) -> Comparison:
    """The comparison of one question."""
    start = time.perf_counter()
    metric, chosen = _metric(wanted.sort, asked)
    headroom = HEADROOM if wanted.headroom is None else wanted.headroom
    # Both passes; rows are made of their arrays, which hold every deployment.
    result = search(asked, metric, wanted.rate, headroom, wanted.simulate, begun)
    rows, infeasible = _rows(asked, result, metric)
    more = 0  # simulations of pools
    # Pairs of pools are estimated without classes, and with at least one decode step.
    if wanted.disaggregated and not asked.target.classes and not asked.requests.without_output:
        if wanted.simulate:
            # Simulations need JAX, which estimates do without.
            from sweeps.studies.compare.simulated_pools import EACH, simulated_pools

            pools = pool_rows(asked, result.first_pass, metric, wanted.rate, headroom, EACH)
            pools, missing, more = simulated_pools(asked, pools, rows, metric, wanted.rate, headroom, begun)
            infeasible = (*infeasible, *missing)
        else:
            pools = pool_rows(asked, result.first_pass, metric, wanted.rate, headroom)
        rows = with_pools(rows, pools, metric)
    # What is estimated alone is not ranked where nothing that was simulated keeps the limits.
    if wanted.simulate and rows and not rows[0].simulated:
        rows, infeasible = (), (*map(unconfirmed, rows), *infeasible)
    return Comparison(
        question=asked,
        metric=metric,
        chosen=chosen,
        rate=wanted.rate,
        headroom=headroom,
        rows=rows,
        infeasible=infeasible,
        # Fewest and most requests of a simulation over the accelerators; 0 where none was simulated.
        requests=(min(result.requests.values(), default=0), max(result.requests.values(), default=0)),
        places=int(result.wanted.sum()),
        simulations=result.simulations + more,
        estimate_seconds=result.estimate_seconds,
        seconds=time.perf_counter() - start,
        arrays=result.arrays,
    )


def _together(questions: Mapping[str | None, ServedQuestion], made: Sequence[Comparison]) -> Comparison:
    """Comparisons of one model at several precisions of its weights as one, whose rows say which is theirs."""

    def named(rows: Sequence[Row], weights: str | None) -> list[Row]:
        words = [", ".join(filter(None, (f"weights {weights}", row.setting))) for row in rows]
        return [dataclasses.replace(row, weights=weights, setting=text) for row, text in zip(rows, words, strict=True)]

    pairs = list(zip(questions, made, strict=True))
    rows = [row for weights, one in pairs for row in named(one.rows, weights)]
    missed_rows = [row for weights, one in pairs for row in named(one.infeasible, weights)]
    # An accelerator may lack one precision only: reasons name the precision they are of.
    lacking: dict[str, str] = {}
    for weights, own_question in questions.items():
        for name, reason in own_question.lacking.items():
            lacking[name] = "; ".join(filter(None, (lacking.get(name), f"weights {weights}: {reason}")))
    # A comparison without simulations has (0, 0), which would hide the least of the others.
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


def _of_prompts(comparison: Comparison) -> Comparison:
    """The comparison with its figures in terms of requests and prompt tokens."""
    prompt = float(np.mean(comparison.question.requests.sample.isl))
    rows = tuple(dataclasses.replace(row, metrics=without_output(row.metrics, prompt)) for row in comparison.rows)
    return dataclasses.replace(comparison, rows=rows, metric=prompt_metric(comparison.metric))


def _metric(sort: str | None, asked: ServedQuestion) -> tuple[str, str]:
    if sort is not None:
        if sort not in SORTED_BY:
            raise ValueError(f"sort = {sort!r} is not known; known: {', '.join(SORTED_BY)}")
        return sort, "asked for"
    devices = asked.options.devices
    metric, priced = default_metric(devices)
    said = f"default: {priced} of {len(devices)} accelerators have a price"
    return metric, said


def _rows(asked: ServedQuestion, search_result: SearchResult, metric: str) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """Every accelerator and layout at its best setting, ranked; and those that do not serve, in order."""
    # Lower is better from here on, whatever the metric's own direction.
    values = ascending(search_result.arrays[metric], metric)
    # Where a simulation confirmed a setting of a place, its estimated settings do not compete with it.
    known = np.zeros(values.shape, bool)
    for place, one in search_result.results.items():
        known[place] = one.load > 0.0
    best = np.where(known | ~known.any(axis=0), values, np.inf).argmin(axis=0)  # setting, shape [devices, layouts]
    used = [int(replica_devices(deployment)) for deployment in asked.options.deployments[0]]
    places = [(int(best[device, layout]), device, layout) for device, layout in np.ndindex(best.shape)]
    legal = [place for place in places if search_result.bounds.legal[place]]
    # Simulated places first, then by the metric; of equals, the one with fewer devices.
    serving = sorted(
        (place for place in legal if np.isfinite(values[place])),
        key=lambda place: (not known[place], values[place], used[place[2]]),
    )
    ranked = tuple(
        ranked_row(
            asked,
            search_result.estimate,
            {name: float(array[place]) for name, array in search_result.arrays.items()},
            place,
            used[place[2]],
            search_result.results.get(place),
            at_once(asked, search_result.estimate, place),
            search_result.requests.get(place[1], 0),
        )
        for place in serving
    )
    # Illegal layouts are worth a row only for accelerators that have no legal one at all.
    possible = {device for _, device, _ in legal}
    others = [place for place in legal if not np.isfinite(values[place])]
    others += [place for place in places if place[1] not in possible]
    return ranked, tuple(
        missed(
            asked,
            search_result.bounds,
            search_result.wanted,
            search_result.estimate,
            place,
            used[place[2]],
            metric,
            search_result.results.get(place),
        )
        for place in others
    )

"""Ranking of accelerators, their number, layout and engine settings for one model under requests over time."""

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from jaxroof.deployment import replica_devices
from sweeps.ask.offered_load import prompt_metric, without_output
from sweeps.studies.compare.comparison import Comparison
from sweeps.studies.compare.disaggregated import pool_rows, with_pools
from sweeps.studies.compare.figures import SORTED_BY
from sweeps.studies.compare.question import ServedQuestion, question
from sweeps.studies.compare.ranking import ascending, default_metric
from sweeps.studies.compare.rows import Row, missed, ranked_row, unconfirmed
from sweeps.studies.compare.search import HEADROOM, SearchResult, at_once, search
from sweeps.studies.compare.words import AskedComparison


def comparison(
    wanted: AskedComparison,
    begun: Callable[[int], Callable[[int], None]] = lambda simulations: lambda done: None,
) -> Comparison:
    """The ranking of deployments that words ask for, each at the largest load that keeps the target.

    In two passes. The first estimates the largest load of every accelerator, number of devices, layout and setting from
    the steady state (`jaxroof.steady.steady_state`), all of them as arrays. The second simulates the best of every
    accelerator with the scheduler, each at loads that close in on the largest that keeps the target. What is found for
    one accelerator does not depend on the others. Simulated rows come first, then those that are estimated; where
    nothing that is simulated keeps the target there are no rows.

    Args:
      wanted: as of `sweeps.studies.compare.words.read`.
      begun: called with about as many simulations as come; returns what is called with those that are done.

    Raises:
      ValueError: one line that names what is wrong, its value and what is allowed.
    """
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

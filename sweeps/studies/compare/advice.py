"""Changes that would let a deployment take more load: its limits, its cache or its batch, one at a time."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from hwspaces import formatted
from jaxroof.jobs.serve import Objective
from sweeps.run.simulated.objective import Target, figure_text
from sweeps.studies.compare.candidates import MemoryRoom, Options, room
from sweeps.studies.compare.estimate import estimate, priced
from sweeps.studies.compare.question import ServedQuestion
from sweeps.studies.compare.rows import Row

MORE = 1.25
"""Factor of a change, where it has one."""

LEAST = 0.02
"""Gain from which on a change is worth words."""


def changes(question: ServedQuestion, rows: Sequence[Row]) -> list[str]:
    """For every row the change that gains most load, in words, by the steady state.

    "" where none gains any, and for disaggregated pools.
    """
    if not rows:
        return []
    options = question.options
    bounds = room(options)
    # Only the deployments of these rows are estimated again, at their positions in the options.
    wanted = np.zeros(bounds.legal.shape, bool)
    positions = tuple(np.array(column) for column in zip(*(row.place for row in rows), strict=True))
    wanted[positions] = True
    needs = [question.requests.demand(bool(choice.policy.prefix_caching)) for choice in options.settings]
    # Layouts and hardware stay as they are in every change, so that steps are priced once.
    prices = priced(options, wanted, needs)

    def loads(bounds: MemoryRoom, target: Target, options: Options = options) -> np.ndarray:
        return estimate(options, bounds, wanted, needs, target, prices).cautious_load[positions]

    # Each change is tried alone, against the load at the target as it is.
    before = loads(bounds, question.target)

    tried: dict[str, np.ndarray] = {}
    for words, target in _looser(question.target).items():
        tried[words] = loads(bounds, target)
    larger = dataclasses.replace(bounds, tokens=bounds.tokens * MORE)
    words = f"{100 * (MORE - 1):.0f} % more KV cache (a smaller KV precision, or more memory)"
    tried[words] = loads(larger, question.target)
    many = [
        dataclasses.replace(one, policy=dataclasses.replace(one.policy, max_sequences=2.0 * one.policy.max_sequences))
        for one in options.settings
    ]
    tried["twice the max_sequences"] = loads(bounds, question.target, dataclasses.replace(options, settings=many))
    return [
        # Pools have no place of one deployment among these estimates.
        "" if row.prefill else _best(before[i], {words: float(each[i]) for words, each in tried.items()})
        for i, row in enumerate(rows)
    ]


def _best(before: float, loads: Mapping[str, float]) -> str:
    words, load = max(loads.items(), key=lambda pair: pair[1])
    gain = load / before - 1.0 if before > 0.0 else 0.0
    return f"{words}: {100 * gain:+.0f} % load" if gain >= LEAST else ""


def _looser(target: Target) -> dict[str, Target]:
    """The target with one limit looser, by what that is in words."""
    targets = {}
    for owner, own in target.classes.items():
        for words, looser in _looser(own).items():
            targets[f"{words} for {owner}"] = dataclasses.replace(target, classes={**target.classes, owner: looser})
    # With classes the limits are theirs; the target has none of its own.
    if target.classes:
        return targets
    for name in ("ttft", "tpot", "e2e"):
        limit = float(getattr(target.objective, name))
        if np.isfinite(limit):
            objective: Objective = dataclasses.replace(target.objective, **{name: MORE * limit})
            words = f"{name.upper()} limit of {formatted(MORE * limit, 's')}"
            targets[words] = dataclasses.replace(target, objective=objective)
    for name, limit in target.limits.items():
        words = f"{figure_text(name)} limit of {formatted(MORE * limit, 's')}"
        targets[words] = dataclasses.replace(target, limits={**target.limits, name: MORE * limit})
    return targets

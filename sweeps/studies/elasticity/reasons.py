"""Reasons for which a gradient and the real change with a knob differ."""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from jaxroof.jobs import JOBS, Scenario
from jaxroof.numerics.smooth import BENDS, straightened
from sweeps.studies.elasticity.knobs import Knob
from sweeps.studies.elasticity.point import Sensitivities, chosen
from sweeps.studies.elasticity.turns import Turn, agree, metrics_at

WORDS = {
    "rounding": "whole tiles or waves",
    "choice": "another tile or algorithm",
    "limit": "another limit binds",
}
"""What `jaxroof.numerics.smooth.BENDS` do, in words."""

STRIDE, CURVED, EDGE = "large step", "curved", "capacity or threshold"
"""Words for a whole number that is turned by far more than a tenth, a smooth bend over the step, and all else."""

STEP = 1e-4
"""Of the logarithm, in differences that give the slope at the end of a step."""


def reasoned(
    scenario: Scenario, point: Sensitivities, checked: Mapping[str, Sequence[Turn]]
) -> dict[str, tuple[Turn, ...]]:
    """Turns with the reason of every difference between the gradient and the real change.

    The model is asked again with some of its bends straightened, as the gradient takes them. The first kind, or the
    fewest kinds, with which gradient and real change agree are the reason. Where none of them is, the step may be
    large. The metric is curved if the mean of the slopes at both ends of the step explains the change. Otherwise the
    knob passes the edge of a capacity, or the threshold of a rule.
    """
    open_turns = {(name, turn.knob): turn for name, rows in checked.items() for turn in rows if not turn.agrees}
    reasons: dict[tuple[str, Knob], str] = {}
    for kinds in _subsets():
        left = {key: turn for key, turn in open_turns.items() if key not in reasons}
        if not left:
            break
        with chosen(point.smoothing), straightened(*kinds):
            for key, changes in _changes(scenario, point, left).items():
                if agree(left[key].predicted, changes):
                    reasons[key] = ", ".join(WORDS[kind] for kind in kinds)
    left = {key: turn for key, turn in open_turns.items() if key not in reasons}
    for key, explained in _explained(scenario, point, left).items():
        turn = left[key]
        small = CURVED if agree(explained, turn.actual) else EDGE
        reasons[key] = STRIDE if turn.large else small
    return {
        name: tuple(dataclasses.replace(turn, reason=reasons.get((name, turn.knob), "")) for turn in rows)
        for name, rows in checked.items()
    }


def _subsets() -> Iterator[tuple[str, ...]]:
    """Kinds of bends: each alone, then two and all of them."""
    for size in range(1, len(BENDS) + 1):
        yield from itertools.combinations(BENDS, size)


Keyed = dict[tuple[str, Knob], Turn]


def _changes(scenario: Scenario, point: Sensitivities, left: Keyed) -> dict[tuple[str, Knob], np.ndarray]:
    """Changes of metrics at the ends of turns, by metric and knob."""
    knobs, values = _ends(left)
    found = metrics_at(JOBS[point.job], tuple(point.metrics), scenario, knobs, values)
    rows = {knob: i for i, knob in enumerate(knobs)}
    return {(name, knob): found[name][rows[knob]] / point.metrics[name] - 1.0 for name, knob in left}


def _explained(scenario: Scenario, point: Sensitivities, left: Keyed) -> dict[tuple[str, Knob], np.ndarray]:
    """Changes that the mean of the elasticities at both ends of a step predicts, by metric and knob."""
    if not left:
        return {}
    knobs, values = _ends(left)
    around = np.concatenate([values * np.exp(step) for step in (STEP, -STEP)], axis=1)
    found = metrics_at(JOBS[point.job], tuple(point.metrics), scenario, knobs, around)
    rows = {knob: i for i, knob in enumerate(knobs)}
    result = {}
    for name, knob in left:
        up, down = np.split(np.log(found[name][rows[knob]]), 2)
        here = point.elasticities[name][point.knobs.index(knob)]
        mean = 0.5 * (here + (up - down) / (2.0 * STEP))
        result[name, knob] = (values[rows[knob]] / knob.value) ** mean - 1.0
    return result


def _ends(left: Keyed) -> tuple[list[Knob], np.ndarray]:
    """Knobs of some turns, and what they are turned to; their own value where there is no such number."""
    ends = {knob: turn.values for (_, knob), turn in left.items()}
    knobs = list(ends)
    values = np.array([ends[knob] for knob in knobs])
    return knobs, np.where(np.isfinite(values), values, [[knob.value] for knob in knobs])

"""Turns of knobs: the change of every metric as the model makes it, beside the one that its gradient predicts."""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from jaxroof.jobs import JOBS, Job, Scenario
from jaxroof.jobs.job import legality
from jaxroof.numerics.smooth import BENDS, straightened
from sweeps.ask.leaves import leaf as leaf_of
from sweeps.run.evaluate import evaluate, gathered
from sweeps.run.points import Points, answers
from sweeps.studies.sensitivity.knobs import Knob
from sweeps.studies.sensitivity.point import Sensitivities, chosen

FACTORS = (0.9, 1.1)
"""What a knob is multiplied by."""

TOLERANCE = 0.2
"""Difference of the predicted and the real change, as a share of the larger one, up to which they agree."""

FLOOR = 1e-3
"""Difference below which they agree in any case: 0.1 % of the metric, a hundredth of what a knob does to which the
metric is proportional, and a fiftieth of the error of the best efficiency (5 % on served models)."""

NO_EFFECT = 5e-5
"""Change of a metric below which a knob has no effect on it: 0.00 % in a table."""

LARGE = 1.25
"""Factor beyond which a whole number is turned by far more than a tenth."""

MOST_CANDIDATES = 64
"""Whole numbers that are tried, one after the other, until one of them is legal."""


@dataclasses.dataclass(frozen=True)
class Turn:
    """Change of one metric with one knob, downwards and upwards: by its gradient, and by the model; relative.

    NaN in a direction in which there is no legal number.
    """

    knob: Knob
    values: tuple[float, ...]  # that the knob is turned to, SI unit
    predicted: tuple[float, ...]  # (value / knob.value)^elasticity - 1
    actual: tuple[float, ...]
    reason: str = ""  # of a difference between the two, in words

    @property
    def size(self) -> float:
        """The larger of the real changes, without its sign."""
        return float(np.max(np.abs(np.nan_to_num(self.actual))))

    @property
    def effect(self) -> bool:
        """Whether the metric changes, or its gradient says so."""
        return bool(np.max(np.abs(np.nan_to_num((self.actual, self.predicted)))) >= NO_EFFECT)

    @property
    def large(self) -> bool:
        """Whether the knob is turned by far more than a tenth, as a degree is that doubles."""
        return bool(np.any(np.abs(np.log(np.array(self.values) / self.knob.value)) > math.log(LARGE)))

    @property
    def agrees(self) -> bool:
        """Whether gradient and real change agree within `TOLERANCE` or `FLOOR`, in both directions."""
        return agree(self.predicted, self.actual)


def agree(predicted: Sequence[float] | np.ndarray, actual: Sequence[float] | np.ndarray) -> bool:
    """Whether changes agree within `TOLERANCE` of the larger one or within `FLOOR`; unknown ones do."""
    one, other = np.asarray(predicted), np.asarray(actual)
    allowed = np.maximum(TOLERANCE * np.maximum(np.abs(one), np.abs(other)), FLOOR)
    return not bool(np.any(np.abs(one - other) > allowed))


def turns_of(scenario: Scenario, point: Sensitivities) -> dict[str, tuple[Turn, ...]]:
    """For every metric, the turns of all knobs of `point`, computed in columns; without reasons."""
    job, names = JOBS[point.job], tuple(point.metrics)
    values = turned_values(job, scenario, point.knobs)
    # Where no value is legal, the knob keeps its own, and the metric is NaN afterwards.
    there = np.isfinite(values)
    moved = metrics_at(job, names, scenario, point.knobs, np.where(there, values, [[k.value] for k in point.knobs]))
    return turns({name: np.where(there, column, np.nan) for name, column in moved.items()}, point, point.knobs, values)


def turns(
    moved: Mapping[str, np.ndarray], point: Sensitivities, turned: Sequence[Knob], values: np.ndarray
) -> dict[str, tuple[Turn, ...]]:
    """For every metric, the turns of some knobs.

    Args:
      moved: metrics where the knobs have `values`, shapes (turned, directions).
      point: what predicts the changes.
      turned: the knobs.
      values: that they are turned to, shape (turned, directions).
    """
    places = np.array([point.knobs.index(knob) for knob in turned], int)
    # The shape is (knobs, 1) without knobs as well.
    factors = values / np.array([[knob.value] for knob in turned]).reshape(-1, 1)
    result = {}
    for name, value in point.metrics.items():
        # The elasticity as the exponent of a power law.
        predicted = factors ** point.elasticities[name][places, None] - 1.0
        actual = moved[name] / value - 1.0 if value > 0.0 else np.full_like(predicted, np.nan)
        rows = zip(turned, values.tolist(), predicted.tolist(), actual.tolist(), strict=True)
        result[name] = tuple(Turn(knob, tuple(v), tuple(p), tuple(a)) for knob, v, p, a in rows)
    return result


def ranked(checked: Mapping[str, Sequence[Turn]], names: Sequence[str] | None = None) -> tuple[Knob, ...]:
    """Knobs with an effect on any of the metrics `names`, the one with the largest real change of any of them first."""
    sizes: dict[Knob, float] = {}
    for name in checked if names is None else names:
        for turn in checked[name]:
            if turn.effect:
                sizes[turn.knob] = max(sizes.get(turn.knob, 0.0), turn.size)
    return tuple(sorted(sizes, key=lambda knob: -sizes[knob]))


def metrics_at(
    job: Job, names: tuple[str, ...], scenario: Scenario, turned: Sequence[Knob], values: np.ndarray
) -> dict[str, np.ndarray]:
    """Metrics where each of the knobs in turn has each of its `values`, shapes (turned, values of a knob).

    The scenario itself is computed first, as the first entry of every column that depends on a knob.
    """
    # Every knob has a column over all points, which differs from its own value only at its turns.
    settings = {knob.path: np.full(1 + values.size, knob.value) for knob in turned}
    for i, knob in enumerate(turned):
        # Point 0 is the scenario itself; then each knob has its values in turn.
        low = 1 + i * values.shape[1]
        settings[knob.path][low : low + values.shape[1]] = values[i]
    points = Points(np.arange(1 + values.size), (settings,))
    columns = gathered(evaluate(answers(job, names), scenario, [points]), 1 + values.size)
    return {name: column[1:].reshape(values.shape) for name, column in columns.items()}


def turned_values(job: Job, scenario: Scenario, turned: Sequence[Knob]) -> np.ndarray:
    """What knobs are turned to, downwards and upwards, shape (turned, 2); NaN where nothing there is legal.

    A tenth less and more. Counts go to the next whole number from there, at least 1 away; degrees on to the next legal
    one. A number outside of the range of its leaf is not legal.
    """
    # Candidates of all knobs are checked in one evaluation, each with all other knobs as they are.
    tried = [(i, side, value) for i, knob in enumerate(turned) for side, value in _candidates(knob)]
    settings = {knob.path: np.full(len(tried), knob.value) for knob in turned}
    for row, (i, _, value) in enumerate(tried):
        settings[turned[i].path][row] = value
    values = np.full((len(turned), len(FACTORS)), np.nan)
    if not tried:
        return values
    points = Points(np.arange(len(tried)), (settings,))
    legal = gathered(evaluate(answers(legality(job)), scenario, [points]), len(tried))["legal"]
    # In reversed order, the nearest legal number overwrites those that are further away.
    for i, side, value in (row for row, held in zip(reversed(tried), legal[::-1], strict=True) if held):
        values[i, side] = value  # the nearest one last
    return values


def _candidates(knob: Knob) -> list[tuple[int, float]]:
    """Numbers that a knob may be turned to by direction, the nearest first."""
    low, high = (knob.value * factor for factor in FACTORS)
    if not knob.count:
        candidates = [(0, low), (1, high)]
    else:
        # At least 1 away from the value, where a tenth of it is less than that.
        down = min(round(low), math.ceil(knob.value) - 1)
        up = max(round(high), math.floor(knob.value) + 1)
        downs, ups = range(down, 0, -1), range(up, 2 * math.ceil(knob.value) + 1)
        # Degrees may need several tries until one is legal; other counts take the nearest number.
        most = MOST_CANDIDATES if knob.whole else 1
        candidates = [(0, float(value)) for value in downs[:most]] + [(1, float(value)) for value in ups[:most]]
    declared = leaf_of(knob.path)
    return [(side, value) for side, value in candidates if declared is None or declared.allows(value)]


# Reasons for which a gradient and the real change with a knob differ.


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
    # Single kinds of bends come first, so that the fewest that explain a difference are its reason.
    for kinds in _subsets():
        left = {key: turn for key, turn in open_turns.items() if key not in reasons}
        if not left:
            break
        with chosen(point.smoothing), straightened(*kinds):
            for key, changes in _changes(scenario, point, left).items():
                if agree(left[key].predicted, changes):
                    reasons[key] = ", ".join(WORDS[kind] for kind in kinds)
    # What no kind explains: a large step, a curved metric, or an edge between both ends.
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
    metrics = metrics_at(JOBS[point.job], tuple(point.metrics), scenario, knobs, values)
    rows = {knob: i for i, knob in enumerate(knobs)}
    return {(name, knob): metrics[name][rows[knob]] / point.metrics[name] - 1.0 for name, knob in left}


def _explained(scenario: Scenario, point: Sensitivities, left: Keyed) -> dict[tuple[str, Knob], np.ndarray]:
    """Changes that the mean of the elasticities at both ends of a step predicts, by metric and knob."""
    if not left:
        return {}
    knobs, values = _ends(left)
    around = np.concatenate([values * np.exp(step) for step in (STEP, -STEP)], axis=1)
    metrics = metrics_at(JOBS[point.job], tuple(point.metrics), scenario, knobs, around)
    rows = {knob: i for i, knob in enumerate(knobs)}
    result = {}
    for name, knob in left:
        # Logarithms of the metric at all ends, first those just above and then those just below them.
        up, down = np.split(np.log(metrics[name][rows[knob]]), 2)
        here = point.elasticities[name][point.knobs.index(knob)]
        # The mean of the elasticities at the beginning and at the end, the latter by a central difference.
        mean = 0.5 * (here + (up - down) / (2.0 * STEP))
        # Where the metric jumps at an end, the mean is huge, and infinite a change that it predicts.
        with np.errstate(over="ignore"):
            result[name, knob] = (values[rows[knob]] / knob.value) ** mean - 1.0
    return result


def _ends(left: Keyed) -> tuple[list[Knob], np.ndarray]:
    """Knobs of some turns, and what they are turned to; their own value where there is no such number."""
    ends = {knob: turn.values for (_, knob), turn in left.items()}
    knobs = list(ends)
    values = np.array([ends[knob] for knob in knobs])
    return knobs, np.where(np.isfinite(values), values, [[knob.value] for knob in knobs])

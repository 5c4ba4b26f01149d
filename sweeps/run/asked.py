"""Questions whose deployments are possible: a specification resolved, and refused where a point is illegal."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxroof.jobs import Job, Scenario, legality
from jaxroof.memory.legality import first_broken
from sweeps.ask.axes import Axis, Choice
from sweeps.ask.cases import Case
from sweeps.ask.question import AskedSweep, Question, named
from sweeps.ask.spec import Spec
from sweeps.data.pieces import Output, Piece
from sweeps.run.evaluate import evaluate, gathered
from sweeps.run.points import answers, boxes_of, scenario_at
from sweeps.run.ways import MOST_EAGER

if TYPE_CHECKING:
    import xarray as xr

DTYPE = np.dtype("float32")
"""Of metrics over a grid."""


def answers_over(
    question: Question, axes: tuple[Axis, ...], progress: Callable[[int], None] = lambda points: None
) -> dict[str, np.ndarray]:
    """Metrics of a job over the grid of `axes`, each of the grid's shape.

    The same numbers as the engine's (a test compares them), computed in float64 and kept in float32.

    Args:
      question: its `names` are the variables, none of which may come from tables of ops (what binds a step); what
        the job does not have here is left out.
      axes: outermost first.
      progress: called with the number of points that are done.
    """
    shape = tuple(axis.size for axis in axes)
    # The grid's shape is restored at the end, since points are stored flat with the last axis fastest.
    parts = evaluate(answers(question.job, question.names), question.base, boxes_of(axes), progress=progress)
    return {name: _stored(column).reshape(shape) for name, column in gathered(parts, math.prod(shape)).items()}


def labelled(found: dict[str, np.ndarray], axes: tuple[Axis, ...], attributes: dict[str, Any]) -> "xr.Dataset":
    """Metrics over the grid of `axes` as a Dataset with these attributes, whose variables all have every dimension."""
    from sweeps.data.store import dataset, fill

    dims, everywhere = tuple(axis.name for axis in axes), (slice(None),) * len(axes)
    outputs = {name: Output(name, dims, values.shape, values.dtype) for name, values in found.items()}
    return fill(dataset(axes, outputs, attributes), (Piece(name, everywhere, found[name]) for name in found))


def _stored(column: np.ndarray) -> np.ndarray:
    return column.astype(DTYPE) if column.dtype.kind == "f" else column


def asked(spec: Spec) -> AskedSweep:
    """Resolve every name and number of `spec`, and refuse a deployment that is not possible unless it is to be masked.

    Raises:
      ValueError: one line: an unknown name, a wrong unit or value, two axes on one leaf, a combination that cannot be.
    """
    question = named(spec)
    if spec.illegal == "refuse":
        _refuse_illegal(question.computed.job, question.case, question.axes)
    return question


def _refuse_illegal(job: Job, base: Case, axes: tuple[Axis, ...]) -> None:
    """ValueError with the broken rule when any point's deployment cannot be."""
    # Legality is a job of its own: its only metric says whether the deployment breaks a rule.
    legal, dims = _verdicts(Question(legality(job), base.scenario), axes)
    if bool(legal.all()):
        return
    # The first illegal point, at position 0 along the axes that the verdict does not depend on.
    corner = dict(zip(dims, np.argwhere(~legal)[0].tolist(), strict=True))
    place = [corner.get(axis.name, 0) for axis in axes]
    scenario = scenario_at(base.scenario, [dict(values_at(axes, place))])
    raise refusal(job, scenario, names_at(base, axes, place))


def _verdicts(question: Question, axes: tuple[Axis, ...]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Whether the points are legal, and the axes that this is over: few of those that a large grid has."""
    # Small grids stay on NumPy; larger ones are computed in chunks over the axes that legality depends on.
    if math.prod(axis.size for axis in axes) <= MOST_EAGER:
        return answers_over(question, axes)["legal"], tuple(axis.name for axis in axes)
    from sweeps.data.store import dataset, fill
    from sweeps.run.engine import Plan

    plan = Plan(question, axes)
    legal = fill(dataset(axes, plan.outputs, {}), plan.pieces())["legal"]
    return legal.values, tuple(map(str, legal.dims))


def values_at(axes: tuple[Axis, ...], place: Sequence[int]) -> list[tuple[str, Any]]:
    """Values that the axes set at a position along each, by path; whole structs come before their leaves."""
    settings = [
        # A choice holds whole structs by index; any other column holds one number per position.
        (path, column.items[column.index[i]] if isinstance(column, Choice) else float(column[i]))
        for axis, i in zip(axes, place, strict=True)
        for path, column in axis.columns.items()
    ]
    # Fewer dots come first: a struct that replaces its parent would undo a leaf that was set before.
    return sorted(settings, key=lambda item: item[0].count("."))


def names_at(base: Case, axes: tuple[Axis, ...], place: Sequence[int]) -> dict[str, str]:
    """Names of model and hardware at a position along each axis."""
    names = {"model": base.model.name, "hardware": base.hardware.name}
    for axis, i in zip(axes, place, strict=True):
        names |= {label.name: label.values[i] for label in axis.coordinates if label.name in names}
    return names


def refusal(job: Job, scenario: Scenario, names: Mapping[str, str]) -> ValueError:
    """Error in one line: the rule that the point of these names breaks."""
    return ValueError(
        f"{names['model']} on {names['hardware']}: {first_broken(job.rules(scenario))} "
        '(output.illegal = "mask" keeps such points as infeasible)'
    )

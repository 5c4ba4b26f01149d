"""Questions whose deployments are possible: a specification resolved, and refused where a point is illegal."""

import math

import numpy as np
import xarray as xr

from jaxroof.jobs import Job, legality
from jaxroof.legality import first_broken
from sweeps.ask.axes import Axis, Choice
from sweeps.ask.cases import Case
from sweeps.ask.paths import replaced
from sweeps.ask.question import Asked, Question, named
from sweeps.ask.spec import Spec
from sweeps.data.dataset import dataset, fill
from sweeps.run.engine import Plan
from sweeps.run.pointwise import one_by_one

FEW = 32
"""Points whose rules are checked one by one, in less time than it takes to compile the check."""


def asked(spec: Spec) -> Asked:
    """Resolve every name and number of `spec`, and refuse a deployment that is not possible unless it is to be masked.

    Raises:
      ValueError: one line: an unknown name, a wrong unit or value, two axes on one leaf, a combination that cannot be.
    """
    question = named(spec)
    if spec.illegal == "refuse":
        _refuse_illegal(question.question.job, question.case, question.axes)
    return question


def _refuse_illegal(job: Job, base: Case, axes: tuple[Axis, ...]) -> None:
    """ValueError with the broken rule when any point's deployment cannot be."""
    legal = _verdicts(Question(legality(job), base.scenario), axes)["legal"]
    if bool(legal.all()):
        return
    corner = dict(zip(legal.dims, np.argwhere(~legal.values)[0].tolist(), strict=True))
    scenario = base.scenario
    for axis in axes:
        position = corner.get(axis.name, 0)
        for path, column in sorted(axis.columns.items(), key=lambda item: item[0].count(".")):
            value = column.items[column.index[position]] if isinstance(column, Choice) else float(column[position])
            scenario = replaced(scenario, path, value)
    names = {"hardware": base.hardware.name, "model": base.model.name}
    for axis in axes:
        for label in axis.coordinates:
            if label.name in names:
                names[label.name] = label.values[corner.get(axis.name, 0)]
    rule = first_broken(job.rules(scenario))
    raise ValueError(
        f'{names["model"]} on {names["hardware"]}: {rule} (output.illegal = "mask" keeps such points as infeasible)'
    )


def _verdicts(question: Question, axes: tuple[Axis, ...]) -> xr.Dataset:
    if math.prod(axis.size for axis in axes) <= FEW:
        return one_by_one(question, axes, {})
    plan = Plan(question, axes)
    return fill(dataset(axes, plan.outputs, {}), plan.pieces())



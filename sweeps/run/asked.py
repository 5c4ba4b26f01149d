"""Questions whose deployments are possible: a specification resolved, and refused where a point is illegal."""

import math

import numpy as np

from jaxroof.jobs import Job, legality
from jaxroof.legality import first_broken
from sweeps.ask.axes import Axis, Choice
from sweeps.ask.cases import Case
from sweeps.ask.paths import replaced
from sweeps.ask.question import Asked, Question, named
from sweeps.ask.spec import Spec
from sweeps.run.evaluate import answered
from sweeps.run.ways import AT_ONCE, FEW, ONE_BY_ONE


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
    few = math.prod(axis.size for axis in axes) <= FEW
    legal = answered(Question(legality(job), base.scenario), axes, {}, ONE_BY_ONE if few else AT_ONCE)["legal"]
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

"""Sensitivities in Python: how much each metric of a point, a sweep or a simulated service follows each number."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hwspaces.quantities.units import plain_arguments
from jaxroof.jobs import JOBS
from sweeps.answers.tables import heading, notes
from sweeps.ask.cases import Case
from sweeps.ask.keys import takes
from sweeps.ask.spec import spec
from sweeps.ask.words import SweepWords
from sweeps.entries.result import Result
from sweeps.entries.words import fields
from sweeps.run.asked import asked
from sweeps.run.simulated.spec import ServeSpec, serve_spec
from sweeps.studies.sensitivity.api import attributes_of, mapped, specification
from sweeps.studies.sensitivity.maps import labelled, point_dataset
from sweeps.studies.sensitivity.ranking import Ranking, ranking
from sweeps.studies.sensitivity.serve import sensitivity_of_serve

if TYPE_CHECKING:
    from typing import Unpack

    import matplotlib.figure
    import pandas as pd
    import xarray as xr

    from sweeps.ask.keywords import SweepKeys

SHOWN = 20
"""Knobs that are shown, as many as the command prints."""

DECISIONS = "when steps end has a gradient, what the scheduler decides has none: docs/reference/scheduler.md"
"""What a reader of a simulation's sensitivities should know."""


class SensitivityResult(Result):
    """Elasticities of metrics in numbers, at a point or over axes.

    Attributes:
      ranking: of a point; None of maps.
      dataset: `elasticity_of_<metric>` over `knob` and the axes; of a point also real changes and predicted ones.
    """

    def __init__(self, ranking: Ranking | None, dataset: "xr.Dataset"):
        self.ranking, self._dataset = ranking, dataset

    @property
    def dataset(self) -> "xr.Dataset":
        """Elasticities over knobs and axes, with the metrics."""
        return self._dataset

    def table(self) -> "pd.DataFrame":
        """Every knob with its value and elasticities, the largest first; of maps one row per point and knob."""
        import pandas as pd

        if self.ranking is None:
            return self._dataset.to_dataframe()
        point, at = self.ranking.point, self.ranking.point.order()
        columns: dict[str, Any] = {
            "knob": [point.knobs[i].path for i in at],
            "value": [point.knobs[i].value for i in at],
            "unit": [point.knobs[i].unit for i in at],
        }
        columns |= {name: point.elasticities[name][list(at)] for name in point.metrics}
        return pd.DataFrame(columns).set_index("knob")

    def plot(self) -> "matplotlib.figure.Figure":
        """A tornado of real changes; of pairs, or of maps, their maps."""
        from sweeps.show.sensitivity import elasticity_maps, pair_maps
        from sweeps.show.tornado import tornado

        found = self.ranking
        if found is None:
            return elasticity_maps(self._dataset)
        if found.curvatures:
            return pair_maps(found.point, found.curvatures, found.heading)
        return tornado(found.point, found.checks, found.heading)

    def _record(self) -> dict[str, Any]:
        if self.ranking is None:
            return self._dataset.to_dict()
        from sweeps.answers.sensitivity import record

        return record(self.ranking)

    def _say(self) -> None:
        from sweeps.answers.sensitivity import show, show_maps

        if self.ranking is None:
            return show_maps(self._dataset)
        return show(self.ranking, SHOWN, False)


@takes(SweepWords, keys=True)
@plain_arguments
def sensitivity(
    source: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    /,
    metrics: Sequence[str] | None = None,
    knobs: Sequence[str] | None = None,
    *,
    pairs: int = 0,
    smoothing: float | None = None,
    progress: Callable[[int], None] = lambda points: None,
    **keys: "Unpack[SweepKeys]",
) -> SensitivityResult:
    """Elasticities d ln y / d ln x of metrics y in every number x, as `jaxroof sensitivity` has them.

    Args:
      source: a specification: a TOML file, a dictionary, or a sweep's netCDF file; `keys` add to or replace its keys,
        which are those of `sweeps.sweep`: job, hardware, model, workload, deployment ...
      metrics: real-valued ones of the job; None: the most asked for.
      knobs: dotted paths, or parts before them ("hardware.links"); None: all of hardware, deployment and workload.
      pairs: of so many knobs, which replace or need each other; at a point.
      smoothing: exponent of gradients at ridges; 0: exact ones.
      progress: called with the number of points that every piece of a map adds.

    Returns:
      At a point the ranking of knobs by real change; of a specification with axes maps over them.

    Raises:
      ValueError: one line that names the key, its value and what is allowed.

    Example:
      found = sweeps.sensitivity(
          hardware="H100-SXM", model="Llama-3.1-8B", workload={"batch": 8, "isl": 1024, "osl": 256}, metrics=["tpot"]
      )
      found.table().head()
    """
    # A sweep's file or a specification, whose keys the others replace.
    checked = spec({**(specification(source).source if source is not None else {}), **keys})
    if JOBS[checked.job].simulated:
        # A simulation has elasticities at one point only.
        if checked.axes:
            known = ", ".join(name for name, job in JOBS.items() if not job.simulated)
            raise ValueError(f"job = {checked.job!r} has no maps of sensitivities; known: {known}")
        return _of_service(checked.source, metrics, knobs, pairs, smoothing)
    question = asked(checked)
    wanted = checked.variables if metrics is None else metrics
    if question.axes:
        return SensitivityResult(None, mapped(question, wanted, knobs, smoothing, progress))
    base = question.computed.base
    said = question_text(checked.job, question.case, checked.source.get("set", {}))
    found = ranking(checked.job, base, wanted, knobs, smoothing, pairs, said, notes(question.case))
    return SensitivityResult(found, labelled(found.point, attributes_of(question), found.checks, found.curvatures))


def question_text(job: str, case: Case, settings: Mapping[str, Any]) -> str:
    """The question of a point in words; `settings` are numbers that were set by their path."""
    from sweeps.answers import request, step, train

    if job == "train":
        return train.heading(case)
    texts = {"step": step.step_text, "request": request.batch_text}
    return heading(
        case, texts[job](case) if job in texts else job, {path: str(value) for path, value in settings.items()}
    )


def service_ranking(
    question: ServeSpec, metrics: Sequence[str] | None, knobs: Sequence[str] | None, smoothing: float | None
) -> Ranking:
    """The sensitivities of a simulation."""
    simulated, said, point, checked = sensitivity_of_serve(question, metrics, knobs, smoothing)
    words = heading(simulated.case, simulated.load.text, question.overrides)
    return Ranking(words, [*said, DECISIONS], point, checked, {})


def _of_service(
    source: Mapping[str, Any],
    metrics: Sequence[str] | None,
    knobs: Sequence[str] | None,
    pairs: int,
    smoothing: float | None,
) -> SensitivityResult:
    if pairs:
        raise ValueError(f"pairs = {pairs} is of a step or a request: a simulation's decisions have no gradient")
    words = {name: value for name, value in source.items() if name not in ("job", "workload", "output")}
    found = service_ranking(serve_spec(**fields(words), **source.get("workload", {})), metrics, knobs, smoothing)
    return SensitivityResult(found, point_dataset(found.point, found.heading, found.checks, found.curvatures))

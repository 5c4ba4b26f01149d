"""Sensitivities in one call: of a specification without axes at its point, of one with axes as maps over them."""

import json
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import xarray as xr

from hwspaces.quantities.units import plain_arguments
from jaxroof.jobs import JOBS
from sweeps.ask.spec import Spec, read, spec
from sweeps.data.opened import opened
from sweeps.run.asked import asked
from sweeps.run.precision import precision
from sweeps.studies.sensitivity.knobs import knobs as knobs_of
from sweeps.studies.sensitivity.maps import at_the_middle, labelled, maps
from sweeps.studies.sensitivity.point import chosen, sensitivity_at, wanted_metrics
from sweeps.studies.sensitivity.turns import turns_of

MAPPED = 8
"""Knobs of a map where nobody says which: those with the largest elasticities at its middle."""


@plain_arguments
def sensitivity(
    source: str | os.PathLike[str] | Mapping[str, Any],
    /,
    metrics: Sequence[str] | None = None,
    knobs: Sequence[str] | None = None,
    *,
    smoothing: float | None = None,
    progress: Callable[[int], None] = lambda points: None,
) -> xr.Dataset:
    """Elasticities d ln y / d ln x of a job's metrics as a labelled Dataset, in float64.

    Args:
      source: a specification, as `sweeps.sweep` takes it: a TOML file or a dictionary; or the netCDF file of a sweep,
        whose specification is taken.
      metrics: real-valued ones of the job; None: the most asked for.
      knobs: dotted paths, or parts before them ("hardware.links", "model"). None: every number of hardware,
        deployment and workload, or with axes the 8 with the largest elasticities at their middle.
      smoothing: as `jaxroof.numerics.smooth.smoothing`; None: its usual exponent.
      progress: called with the number of points that every piece of a map adds.

    Returns:
      `elasticity_of_<metric>` over `knob` and the axes, and the metrics. NaN where a structure lacks the knob. Without
      axes also `change_of_<metric>` and `predicted_change_of_<metric>` over `knob` and `factor`, the real change when
      a knob is turned by a tenth, or to the next whole number, and the one that the gradient predicts.

    Raises:
      ValueError: one line that names the key, its value and what is allowed.

    Example:
      sensitivity({"hardware": "H100-SXM", "model": "Llama-3.1-8B", "workload": {"isl": 1024, "osl": 256}})
    """
    checked = specification(source)
    # A simulation has elasticities at one point only: `sensitivity_of_serve`.
    if JOBS[checked.job].simulated:
        known = ", ".join(name for name, job in JOBS.items() if not job.simulated)
        raise ValueError(f"job = {checked.job!r} has no maps of sensitivities; known: {known}")
    question = asked(checked)
    axes, base = question.axes, question.computed.base
    wanted = checked.variables if metrics is None else metrics
    record = question.attributes | {"title": f"sensitivities, {question.attributes['title']}", "dtype": "float64"}
    if not axes:
        point = sensitivity_at(checked.job, base, wanted, knobs, smoothing)
        return labelled(point, record, turns_of(base, point))
    # The largest elasticities at the middle of the axes choose the knobs of the map.
    middle = at_the_middle(base, axes)
    if knobs is None:
        point = sensitivity_at(checked.job, middle, wanted, None, smoothing)
        turned, names = point.top(MAPPED), tuple(point.metrics)
        if not turned:
            raise ValueError("the metrics are flat in every knob at the middle point; name knobs")
    else:
        turned, names = knobs_of(middle, knobs), wanted_metrics(JOBS[checked.job], middle, wanted)
    with precision("float64"), chosen(smoothing):
        return maps(JOBS[checked.job], base, axes, turned, names, record, progress)


def specification(source: str | os.PathLike[str] | Mapping[str, Any]) -> Spec:
    """The specification that `source` is, or that the sweep in a netCDF file was made from."""
    if isinstance(source, Mapping):
        return spec(source)
    # Any other file is a specification; a sweep's file records its own as an attribute.
    if pathlib.Path(source).suffix.lower() != ".nc":
        return read(source)
    with opened(source) as dataset:
        text = dataset.attrs.get("spec")
    if text is None:
        raise ValueError(f"{source} is not a sweep: it has no attribute spec")
    try:
        return spec(json.loads(text))
    except ValueError as error:
        raise ValueError(f"{source}: its attribute spec cannot be read: {error}") from None

"""Sensitivities over the axes of a question as maps, and the specification that a file or a dictionary is."""

import json
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import xarray as xr

from sweeps.ask.question import AskedSweep
from sweeps.ask.spec import Spec, read, spec
from sweeps.data.opened import opened
from sweeps.run.precision import precision
from sweeps.studies.sensitivity.knobs import knobs as knobs_of
from sweeps.studies.sensitivity.maps import at_the_middle, maps
from sweeps.studies.sensitivity.point import chosen, sensitivity_at, wanted_metrics

MAPPED = 8
"""Knobs of a map where nobody says which: those with the largest elasticities at its middle."""


def mapped(
    question: AskedSweep,
    wanted: Sequence[str] | None = None,
    knobs: Sequence[str] | None = None,
    smoothing: float | None = None,
    progress: Callable[[int], None] = lambda points: None,
) -> xr.Dataset:
    """Elasticities d ln y / d ln x of metrics over the axes of a question, as a labelled Dataset in float64.

    Args:
      wanted: real-valued metrics of the job; None: the most asked for.
      knobs: dotted paths, or parts before them ("hardware.links", "model"). None: the 8 with the largest elasticities
        at the middle of the axes.
      smoothing: as `jaxroof.numerics.smooth.smoothing`; None: its usual exponent.
      progress: called with the number of points that every piece adds.

    Returns:
      `elasticity_of_<metric>` over `knob` and the axes, and the metrics. NaN where a structure lacks the knob.

    Raises:
      ValueError: one line that names what is wrong, its value and what is allowed.
    """
    job, axes, base = question.computed.job, question.axes, question.computed.base
    # The largest elasticities at the middle of the axes choose the knobs of the map.
    middle = at_the_middle(base, axes)
    if knobs is None:
        point = sensitivity_at(job.name, middle, wanted, None, smoothing)
        turned, names = point.top(MAPPED), tuple(point.metrics)
        if not turned:
            raise ValueError("the metrics are flat in every knob at the middle point; name knobs")
    else:
        turned, names = knobs_of(middle, knobs), wanted_metrics(job, middle, wanted)
    with precision("float64"), chosen(smoothing):
        return maps(job, base, axes, turned, names, attributes_of(question), progress)


def attributes_of(question: AskedSweep) -> dict[str, Any]:
    """Attributes of a dataset of sensitivities."""
    return question.attributes | {"title": f"sensitivities, {question.attributes['title']}", "dtype": "float64"}


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

"""A sweep in one call: to a Dataset in memory, or to a netCDF file of any size."""

import dataclasses
import math
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import xarray as xr

from hwspaces.files import output
from hwspaces.quantities.units import plain_arguments
from jaxroof.jobs import JOBS
from sweeps.ask.keys import takes
from sweeps.ask.question import AskedSweep
from sweeps.ask.spec import AxisRange, Spec, read, spec
from sweeps.ask.words import SweepWords
from sweeps.data.conditions import conditions
from sweeps.data.store import coordinates, dataset, fill
from sweeps.run.asked import asked
from sweeps.run.engine import Plan
from sweeps.run.precision import precision

if TYPE_CHECKING:
    from typing import Unpack

    from sweeps.ask.keywords import SweepKeys


@takes(SweepWords, keys=True)
@plain_arguments
def sweep(
    source: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    /,
    progress: Callable[[int], None] = lambda points: None,
    **keys: "Unpack[SweepKeys]",
) -> xr.Dataset:
    """Evaluate a job over a grid or a sample and return a labelled Dataset.

    Args:
      source: the path of a TOML specification, or its content as a dictionary; `keys` add to or replace its keys.
      progress: called with the number of points that were added, chunk after chunk.
      **keys: keys of the specification: job, hardware, model, workload, deployment, axes, output, ...

    Returns:
      One variable per metric. Its dimensions are the axes that it depends on, and no others.

    Raises:
      ValueError: one line that names the key, its value and what is allowed.

    Example:
      sweep(hardware="H100-SXM", model="Llama-3.1-8B", workload={"batch": [1, 8, 64], "isl": 1024, "osl": 256})
    """
    checked = _whole(_spec(source, keys))
    with precision(working(checked)):
        question, plan = planned(checked)
        return fill(dataset(plan.axes, plan.outputs, question.attributes), plan.pieces(progress))


@plain_arguments
def sweep_to_file(
    path: str | os.PathLike[str],
    source: str | os.PathLike[str] | Mapping[str, Any],
    begun: Callable[[AskedSweep, Plan], Callable[[int], None]] = lambda asked, plan: lambda points: None,
    *,
    force: bool = False,
    compiling: Callable[[int, int], None] = lambda number, total: None,
) -> None:
    """Evaluate a specification chunk after chunk into a netCDF file, which appears when it is whole.

    Args:
      path: the file.
      source: as `sweep` takes it.
      begun: called before the first chunk with what will be computed; returns the progress callback.
      force: replace a file that jaxroof did not write.
      compiling: called before each program is compiled with its number, from 1, and the number of programs.

    Raises:
      ValueError: one line that names the key, its value and what is allowed; or the file, which must end in .nc, must
        be none of those that the specification names, and must have room.
    """
    checked, inputs = _whole(_spec(source, {})), output.named(source)
    output.require([output.Wanted(os.fspath(path), ("dataset",))], inputs, force)
    with precision(working(checked)):
        from sweeps.data import store

        question, plan = planned(checked, compiling)
        progress = begun(question, plan)
        labels = xr.Dataset(coords=coordinates(plan.axes, plan.outputs), attrs=question.attributes)
        with output.replacing(path, ("dataset",), inputs, force) as name:
            store.written(name, labels, plan.outputs, plan.pieces(progress))


@plain_arguments
def linear(low: Any, high: Any, n: int | None = None) -> AxisRange:
    """An axis of `n` evenly spaced values, both ends included; in sample mode the bounds of a uniform draw."""
    return AxisRange(low, high, n, log=False)


@plain_arguments
def log(low: Any, high: Any, n: int | None = None) -> AxisRange:
    """An axis of `n` values in equal ratios, both ends included; in sample mode the bounds of a log-uniform draw."""
    return AxisRange(low, high, n, log=True)


def working(checked: Spec) -> str:
    """The precision to compute in: clocks of simulations need more than the 7 digits that may be stored of them."""
    return "float64" if JOBS[checked.job].simulated else checked.dtype


def planned(
    checked: Spec, compiling: Callable[[int, int], None] = lambda number, total: None, most: float = math.inf
) -> tuple[AskedSweep, Plan]:
    """The question with every name looked up, and its plan; to be called in its working precision.

    Args:
      checked: the specification.
      compiling: called before each program is compiled with its number, from 1, and the number of programs.
      most: points that are computed in one call at most, as `Plan` takes it.
    """
    if JOBS[checked.job].simulated:
        from sweeps.run.simulated.plan import planned

        return planned(checked)  # type: ignore[return-value]
    question = asked(checked)
    plan = Plan(question.computed, question.axes, checked.dtype, compiling=compiling, most=most)
    if checked.per is not None:  # names of axes are refused before anything is computed
        conditions(xr.Dataset(coords=coordinates(plan.axes, plan.outputs)), checked.per)
    made = " ".join(f"{name} {version}" for name, version in plan.software.items())
    return dataclasses.replace(question, attributes=question.attributes | {"computed_with": made}), plan


def _whole(checked: Spec) -> Spec:
    """The specification of a sweep that keeps every number as it is; ValueError of one line for another."""
    for key in ("keep", "prune", "compression", "digits"):
        if key in checked.output:
            raise ValueError(
                f"output.{key} = {checked.output[key]!r} is for folders: sweeps.sweep_to_folder, or -o DIR/"
            )
    return checked


def _spec(source: str | os.PathLike[str] | Mapping[str, Any] | None, keys: Mapping[str, Any]) -> Spec:
    if isinstance(source, str | os.PathLike):
        checked = read(source)
        return spec({**checked.source, **keys}) if keys else checked
    return spec({**(source or {}), **keys})

"""Grids of a function: its axes, its metrics at every point, and their elasticities."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import hwspaces
from hwspaces.quantities.units import nearest
from jaxroof.jobs.function import FUNCTION
from jaxroof.jobs.job import some_terms
from jaxroof.jobs.scenario import Scenario
from jaxroof.numerics.arrays import eager
from sweeps.ask.axes import Axis, Choice, Coordinate
from sweeps.ask.question import Question

if TYPE_CHECKING:
    import xarray as xr

EAGER_POINTS = 1 << 17
"""Points up to which NumPy answers before loops are compiled: a function's ops take it 1 to 3 us per point, and their
compilation 1 s."""


def axes(
    base: Scenario,
    devices: Sequence[hwspaces.HardwareEntry],
    sizes: Mapping[str, Sequence[float]],
    settings: Mapping[str, Iterable[Any]],
) -> tuple[Axis, ...]:
    """An axis for the accelerators where there are several, for every size, and for every leaf of the hardware."""
    leading = [_devices_axis(devices)] if len(devices) > 1 else []
    leading += [_size_axis(name, np.array(values)) for name, values in sizes.items()]
    return (*leading, *(_leaf_axis(base, path, values) for path, values in settings.items()))


def evaluated(
    base: Scenario,
    axes: tuple[Axis, ...],
    metrics: Sequence[str] | None,
    breakdown: bool,
    dtype: str,
    attributes: Mapping[str, Any],
) -> "xr.Dataset":
    """Metrics at every point, and with `breakdown` the costs of every op."""
    from sweeps.data.store import dataset, fill
    from sweeps.run.compilers import loops_known
    from sweeps.run.engine import Plan
    from sweeps.run.ways import MOST_EAGER

    question = Question(FUNCTION, base, None if metrics is None else tuple(metrics), breakdown)
    # Where loops can be compiled by LLVM, that pays from far fewer points on than a program of XLA.
    plan = Plan(question, axes, dtype, most_eager=EAGER_POINTS if loops_known() else MOST_EAGER)
    return fill(dataset(plan.axes, plan.outputs, dict(attributes)), plan.pieces())


def slopes(
    base: Scenario,
    axes: tuple[Axis, ...],
    paths: Sequence[str],
    metrics: Sequence[str],
    attributes: Mapping[str, Any],
) -> "xr.Dataset":
    """Metrics and their elasticities in the numbers of `paths` at every point."""
    from sweeps.studies.sensitivity.knobs import knobs
    from sweeps.studies.sensitivity.maps import maps

    return maps(FUNCTION, base, axes, knobs(base, paths), tuple(metrics), dict(attributes))


def require_metrics(base: Scenario, metrics: Sequence[str] | None) -> None:
    """ValueError in one line for a metric that a function does not have there."""
    if metrics is None:
        return
    # Names of metrics depend on the hardware's figures: one evaluation on NumPy gives those that there are.
    with eager():
        known = FUNCTION.metrics(base, *some_terms(FUNCTION, base))
    for name in metrics:
        if name not in known:
            raise ValueError(f"{name!r} is no metric of a function{nearest(name, known)}")


def _devices_axis(devices: Sequence[Any]) -> Axis:
    names = np.array([device.name for device in devices], object)
    # Whole structs of hardware, of which every point has one by its index.
    choice = Choice(tuple(device.hardware for device in devices), np.arange(len(devices)))
    return Axis("hardware", len(devices), {"hardware": choice}, (Coordinate("hardware", names, "", "accelerator"),))


def _size_axis(name: str, values: np.ndarray) -> Axis:
    label = Coordinate(name, values, "1", f"size {name}")
    return Axis(name, len(values), {f"workload.sizes.{name}": values}, (label,))


def _leaf_axis(base: Scenario, path: str, values: Iterable[Any]) -> Axis:
    """An axis over one number of the hardware or of the constants."""
    from sweeps.ask.axes import number
    from sweeps.ask.leaf_axes import short_name
    from sweeps.ask.leaves import leaf_long_name, leaf_number, leaf_unit

    # Only for its error, where the path leads to no number.
    number(base, path)
    # Texts with a unit become SI numbers, of the leaf's own unit.
    numbers = np.array([float(leaf_number(path, value)) for value in values])
    label = Coordinate(short_name(path), numbers, leaf_unit(path), leaf_long_name(path))
    return Axis(label.name, len(numbers), {path: numbers}, (label,))

"""The evaluation of any function of a scenario at many points: structure after structure, at once or compiled.

A grid whose terms depend on few axes each is computed faster by `sweeps.run.engine`: from a million points on.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from jaxroof.jobs import Scenario
from jaxroof.numerics.arrays import eager
from jaxroof.numerics.tree import mapped
from sweeps.data.pieces import blank
from sweeps.run.points import ALONE, Points, filled, in_dtype, scenario_at
from sweeps.run.ways import EAGERLY, Way

Function = Callable[..., Any]
"""A pure function of a scenario, and of further arguments that all points share, to a tree of arrays."""

FLOAT64 = np.dtype("float64")


def _float64(leaf: Any) -> Any:
    return np.asarray(leaf, FLOAT64)[()]


def at_base(function: Function, base: Scenario, way: Way = EAGERLY, others: tuple[Any, ...] = ()) -> Any:
    """What `function` returns at the base itself, as NumPy arrays."""
    # A single point needs no columns.
    if not way.compiled:
        with eager():
            return mapped(lambda value: np.asarray(value)[()], function(in_dtype(base, FLOAT64), *others))
    ((_, columns),) = evaluate(function, base, [ALONE], way, others)
    return mapped(lambda column: column[0], columns)


def evaluate(
    function: Function,
    base: Scenario,
    points: Iterable[Points],
    way: Way = EAGERLY,
    others: tuple[Any, ...] = (),
    progress: Callable[[int], None] = lambda points: None,
) -> Iterator[tuple[Points, Any]]:
    """What `function` returns at every point, part after part.

    On NumPy in float64, and compiled in the precision that JAX is in.

    Args:
      function: of a scenario and of `others`; the same object for the same function, so that its programs are found.
      base: the scenario that settings start from.
      points: structure after structure.
      way: how they are computed.
      others: further arguments, the same at every point.
      progress: called with the number of points that are done.

    Yields:
      Points, and what `function` returns with a leading dimension for them.
    """
    for part in points:
        if way.compiled:
            from sweeps.run.compiled import called

            yield part, called(function, base, part, way, others, progress)
        else:
            yield part, _eagerly(function, base, part, way, others, progress)


def gathered(parts: Iterable[tuple[Points, dict[str, np.ndarray]]], number: int) -> dict[str, np.ndarray]:
    """Columns of all points, shapes (number,), from those of parts; blank where a structure has no such answer."""
    gathered_columns: dict[str, np.ndarray] = {}
    for part, columns in parts:
        for name, values in columns.items():
            if name not in gathered_columns:
                # Dimensions behind those of the points, such as ops, stay as they are.
                inner = values.shape[part.index.ndim :]
                gathered_columns[name] = np.full((number, *inner), blank(values.dtype), values.dtype)
            gathered_columns[name][part.index] = values
    return gathered_columns


def _eagerly(
    function: Function, base: Scenario, part: Points, way: Way, others: tuple[Any, ...], progress: Callable[[int], None]
) -> Any:
    """On NumPy; in columns of at most as many points as `way` says, or in a box."""
    number, place = part.index.size, in_dtype(base, FLOAT64)
    # An index of more dimensions is a box of a grid, computed at once by broadcasting.
    if part.index.ndim != 1:
        with eager():
            results = function(scenario_at(place, mapped(_float64, part.settings)), *others)
        progress(number)
        return mapped(lambda value: np.broadcast_to(value, part.index.shape), results)
    chunks = []
    for low in range(0, number, way.lanes or number):
        own = min(way.lanes or number, number - low)
        settings = mapped(_float64, filled(part.settings, low, own, number))
        with eager():
            results = function(scenario_at(place, settings), *others)
        # Results that no setting changes have shape () and are repeated for every point.
        chunks.append(mapped(lambda value, own=own: np.broadcast_to(value, (own,)), results))
        progress(own)
    return chunks[0] if len(chunks) == 1 else mapped(lambda *values: np.concatenate(values), *chunks)

"""The evaluation of any function of a scenario at many points: structure after structure, at once or compiled.

A grid whose terms depend on few axes each is computed faster by `sweeps.run.engine`: from a million points on.
"""

import collections
import concurrent.futures
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import numpy as np

from jaxroof.jobs import Scenario
from jaxroof.numerics.arrays import eager
from jaxroof.numerics.tree import mapped
from sweeps.data.pieces import blank
from sweeps.run.compilers import loops_known
from sweeps.run.points import ALONE, Points, Settings, filled, in_dtype, scenario_at, taken
from sweeps.run.ways import EAGERLY, Way

MOST_KNOWN = 64
"""Programs that are kept for the next points of the same structure."""


def prepared(function: Callable[..., Any], base: Scenario, part: Points, way: Way, others: tuple = ()) -> None:
    """Compile, and call once, what the evaluation of points of this structure needs."""
    first = Points(part.index[:1], taken(part.settings, np.zeros(1, int)))
    called(function, base, first, way, others, lambda points: None)


def called(
    function: Callable[..., Any], base: Scenario, part: Points, way: Way, others: tuple, progress: Callable[[int], None]
) -> Any:
    """The program of a structure, called for as many points at a time as `way` says."""
    number, varies = len(part.index), any(np.ndim(leaf) for leaf in jax.tree.leaves(part.settings))
    lanes = way.lanes or number
    lanes = min(lanes, number) if way.at_most else lanes
    first = filled(part.settings, 0, lanes, number)
    program = _program(function, base, first, way)

    def chunk(low: int) -> Any:
        settings = first if low == 0 else filled(part.settings, low, lanes, number)
        found = jax.device_get(program(base, settings, *others))
        own = min(lanes, number - low)
        if varies:
            return own, jax.tree.map(lambda values: values[:own], found)
        return own, jax.tree.map(lambda value: np.broadcast_to(value, (own, *np.shape(value))), found)

    chunks = []
    with concurrent.futures.ThreadPoolExecutor(way.threads) as pool:
        calls = map if way.threads == 1 else pool.map
        for own, columns in calls(chunk, range(0, number, lanes)):
            chunks.append(columns)
            progress(own)
    return chunks[0] if len(chunks) == 1 else jax.tree.map(lambda *values: np.concatenate(values), *chunks)


def _program(function: Callable[..., Any], base: Scenario, settings: Settings, way: Way) -> Callable[..., Any]:
    """The compiled function of a base, settings and further arguments: one that is there already, if there is."""
    if way.loops and loops_known():
        return _looped(function, base, settings)
    leaves, structure = jax.tree.flatten(settings)
    along = structure.unflatten([0 if np.ndim(leaf) else None for leaf in leaves])  # type: ignore[attr-defined]
    varies = tuple(bool(np.ndim(leaf)) for leaf in leaves)
    own = id(base) if way.constants else jax.tree.structure(base)
    key = function, own, structure, varies, way.options, jax.config.jax_enable_x64  # type: ignore[attr-defined]
    with _LOCK:
        if key not in _KNOWN:
            _KNOWN[key] = base, _mapped(function, base, along, way)
            if len(_KNOWN) > MOST_KNOWN:
                _KNOWN.popitem(last=False)
        _KNOWN.move_to_end(key)
        return _KNOWN[key][1]


_KNOWN: collections.OrderedDict[tuple, tuple[Scenario, Callable[..., Any]]] = collections.OrderedDict()
"""Programs, each with its base: as long as that is kept, no other has its identity."""

_LOCK = threading.Lock()


def _mapped(function: Callable[..., Any], base: Scenario, along: Any, way: Way) -> Callable[..., Any]:
    """`function` over the settings that vary, compiled for each of the shapes it is called with."""

    def at_a_point(base: Scenario, settings: Settings, *others: Any) -> Any:
        return function(scenario_at(base, settings), *others)

    def over_points(base: Scenario, settings: Settings, *others: Any) -> Any:
        if not jax.tree.leaves(along):
            return at_a_point(base, settings, *others)
        return jax.vmap(at_a_point, in_axes=(None, along, *(None for _ in others)))(base, settings, *others)

    options = dict(way.options) or None
    if not way.constants:
        return jax.jit(over_points, compiler_options=options)
    program = jax.jit(lambda settings, *others: over_points(base, settings, *others), compiler_options=options)
    return lambda _, settings, *others: program(settings, *others)


def _looped(function: Callable[..., Any], base: Scenario, settings: Settings) -> Callable[..., Any]:
    """`function` as loops over columns like these; whatever all points share is a constant of them."""
    from sweeps.run.native.loops import mapped

    leaves, structure = jax.tree.flatten(settings)
    varies = [bool(np.ndim(leaf)) for leaf in leaves]

    def at_a_point(columns: list[jax.Array]) -> Any:
        own = iter(columns)
        filled = [next(own) if known else leaf for known, leaf in zip(varies, leaves, strict=True)]
        return function(scenario_at(base, structure.unflatten(filled)))  # type: ignore[attr-defined]

    def columns_of(settings: Settings) -> list[np.ndarray]:
        return [np.asarray(leaf) for known, leaf in zip(varies, jax.tree.leaves(settings), strict=True) if known]

    program = mapped(at_a_point, columns_of(settings))
    return lambda _, settings: program(columns_of(settings))


Function = Callable[..., Any]
"""A pure function of a scenario, and of further arguments that all points share, to a tree of arrays."""

FLOAT64 = np.dtype("float64")


def _float64(leaf: Any) -> Any:
    return np.asarray(leaf, FLOAT64)[()]


def at_base(function: Function, base: Scenario, way: Way = EAGERLY, others: tuple = ()) -> Any:
    """What `function` returns at the base itself, as NumPy arrays."""
    ((_, found),) = evaluate(function, base, [ALONE], way, others)
    return mapped(lambda column: column[0], found)


def evaluate(
    function: Function,
    base: Scenario,
    points: Iterable[Points],
    way: Way = EAGERLY,
    others: tuple = (),
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

            yield part, called(function, base, part, way, others, progress)
        else:
            yield part, _eagerly(function, base, part, way, others, progress)


def gathered(parts: Iterable[tuple[Points, dict[str, np.ndarray]]], number: int) -> dict[str, np.ndarray]:
    """Columns of all points, shapes (number,), from those of parts; blank where a structure has no such answer."""
    found: dict[str, np.ndarray] = {}
    for part, columns in parts:
        for name, values in columns.items():
            if name not in found:
                inner = values.shape[part.index.ndim :]
                found[name] = np.full((number, *inner), blank(values.dtype), values.dtype)
            found[name][part.index] = values
    return found


def _eagerly(
    function: Function, base: Scenario, part: Points, way: Way, others: tuple, progress: Callable[[int], None]
) -> Any:
    """On NumPy; in columns of at most as many points as `way` says, or in a box."""
    number, place = part.index.size, in_dtype(base, FLOAT64)
    if part.index.ndim != 1:
        with eager():
            found = function(scenario_at(place, mapped(_float64, part.settings)), *others)
        progress(number)
        return mapped(lambda value: np.broadcast_to(value, part.index.shape), found)
    chunks = []
    for low in range(0, number, way.lanes or number):
        own = min(way.lanes or number, number - low)
        settings = mapped(_float64, filled(part.settings, low, own, number))
        with eager():
            found = function(scenario_at(place, settings), *others)
        chunks.append(mapped(lambda value, own=own: np.broadcast_to(value, (own,)), found))
        progress(own)
    return chunks[0] if len(chunks) == 1 else mapped(lambda *values: np.concatenate(values), *chunks)

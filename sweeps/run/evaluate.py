"""The evaluation of any function of a scenario at many points: structure after structure, each compiled once.

A grid whose terms depend on few axes each is computed faster by `sweeps.run.engine`: from a million points on.
"""

import collections
import concurrent.futures
import dataclasses
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
import xarray as xr

from jaxroof.jobs import Scenario
from sweeps.ask.axes import Axis, blocks
from sweeps.ask.question import Question
from sweeps.data.dataset import dataset, fill
from sweeps.data.pieces import Output, Piece, blank
from sweeps.run import tiles
from sweeps.run.point import answers, in_dtype, scenario_at
from sweeps.run.ways import AT_ONCE, Way

Settings = Sequence[dict[str, Any]]
"""Trees by path that replace parts of a base, in the order in which they do."""

Function = Callable[..., Any]
"""A pure function of a scenario, and of further arguments that all points share, to a tree of arrays."""

DTYPE = np.dtype("float32")
"""Of metrics over a grid."""

MOST_KNOWN = 64
"""Programs that are kept for the next points of the same structure."""


@dataclasses.dataclass(frozen=True)
class Points:
    """Points of one structure: settings of a base whose leaves differ, or are shared by all of them."""

    index: np.ndarray  # places among all points, shape (n,)
    settings: Settings  # leaves of shape (n,) where the points differ, () where they do not


ALONE = Points(np.zeros(1, int), ())
"""The base itself."""


def at_base(function: Function, base: Scenario, way: Way = AT_ONCE, others: tuple = ()) -> Any:
    """What `function` returns at the base itself, as NumPy arrays."""
    ((_, found),) = evaluate(function, base, [ALONE], way, others)
    return jax.tree.map(lambda column: column[0], found)


def points_of(axes: tuple[Axis, ...], dtype: Any = float) -> Iterator[Points]:
    """Every point of a grid, structure after structure; places are those of the flat grid, the last axis fastest."""
    shape = tuple(axis.size for axis in axes)
    for combination in blocks(axes):
        sizes = [len(segment.positions) for segment in combination]
        places = np.indices(sizes).reshape(len(sizes), math.prod(sizes))
        positions = [segment.positions[place] for segment, place in zip(combination, places, strict=True)]
        index = np.ravel_multi_index(positions, shape) if shape else np.zeros(1, int)
        settings = [
            jax.tree.map(lambda leaf, place=place: np.asarray(leaf[place] if np.ndim(leaf) else leaf, dtype), s)
            for place, s in zip(places, (segment.settings for segment in combination), strict=True)
        ]
        yield Points(index, settings)


def evaluate(
    function: Function,
    base: Scenario,
    points: Iterable[Points],
    way: Way = AT_ONCE,
    others: tuple = (),
    progress: Callable[[int], None] = lambda points: None,
) -> Iterator[tuple[Points, Any]]:
    """What `function` returns at every point, part after part, in the precision that JAX is in.

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
        columns = _called(function, base, part, way, others, progress) if way.compiled else None
        yield part, _one_by_one(function, base, part, others, progress) if columns is None else columns


def gathered(parts: Iterable[tuple[Points, dict[str, np.ndarray]]], number: int) -> dict[str, np.ndarray]:
    """Columns of all points, shapes (number,), from those of parts; blank where a structure has no such answer."""
    found: dict[str, np.ndarray] = {}
    for part, columns in parts:
        for name, values in columns.items():
            if name not in found:
                found[name] = np.full((number, *values.shape[1:]), blank(values.dtype), values.dtype)
            found[name][part.index] = values
    return found


def answered(
    question: Question,
    axes: tuple[Axis, ...],
    attributes: dict[str, Any],
    way: Way = AT_ONCE,
    progress: Callable[[int], None] = lambda points: None,
) -> xr.Dataset:
    """Metrics of a job over the grid of `axes` as a labelled Dataset, whose variables all have every dimension.

    The same numbers as the engine's (a test compares them), in float32.

    Args:
      question: its `names` are the variables, none of which may come from tables of ops (what binds a step); what
        the job does not have here is left out.
      axes: outermost first.
      attributes: of the dataset.
      way: how they are computed.
      progress: called with the number of points that are done.
    """
    dims, shape = tuple(axis.name for axis in axes), tuple(axis.size for axis in axes)
    base, points = in_dtype(question.base, DTYPE), points_of(axes, DTYPE)
    parts = evaluate(answers(question.job, question.names), base, points, way, progress=progress)
    found = gathered(parts, math.prod(shape))
    outputs = {name: Output(name, dims, shape, values.dtype) for name, values in found.items()}
    everywhere = (slice(None),) * len(shape)
    pieces = (Piece(name, everywhere, values.reshape(shape)) for name, values in found.items())
    return fill(dataset(axes, outputs, attributes), pieces)


def prepared(function: Function, base: Scenario, part: Points, way: Way, others: tuple = ()) -> None:
    """Compile, and call once, what the evaluation of points of this structure needs."""
    first = Points(part.index[:1], _taken(part.settings, np.zeros(1, int)))
    _called(function, base, first, way, others, lambda points: None)


def _one_by_one(
    function: Function, base: Scenario, part: Points, others: tuple, progress: Callable[[int], None]
) -> Any:
    """Point by point, op by op."""
    found = []
    for i in range(len(part.index)):
        settings = jax.tree.map(lambda leaf, i=i: leaf[i] if np.ndim(leaf) else leaf, part.settings)
        found.append(jax.device_get(function(scenario_at(base, settings), *others)))
        progress(1)
    return jax.tree.map(lambda *values: np.stack(values), *found)


def _called(
    function: Function, base: Scenario, part: Points, way: Way, others: tuple, progress: Callable[[int], None]
) -> Any:
    """The program of a structure, called for as many points at a time as `way` says."""
    number, varies = len(part.index), any(np.ndim(leaf) for leaf in jax.tree.leaves(part.settings))
    lanes = way.lanes or number
    lanes = min(lanes, number) if way.at_most else lanes
    first = _filled(part.settings, 0, lanes, number)
    program = _program(function, base, first, way)

    def chunk(low: int) -> Any:
        settings = first if low == 0 else _filled(part.settings, low, lanes, number)
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


def _filled(settings: Settings, low: int, lanes: int, number: int) -> Settings:
    """Settings of `lanes` points from `low` on; the last point fills up what lies beyond it."""
    if lanes == number:
        return settings
    return _taken(settings, np.minimum(np.arange(low, low + lanes), number - 1))


def _taken(settings: Settings, places: np.ndarray) -> Settings:
    return jax.tree.map(lambda leaf: leaf[places] if np.ndim(leaf) else leaf, settings)


def _program(function: Function, base: Scenario, settings: Settings, way: Way) -> Callable[..., Any]:
    """The compiled function of a base, settings and further arguments: one that is there already, if there is."""
    if way.tiles:
        return _tiled(function, base, settings)
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


def _mapped(function: Function, base: Scenario, along: Any, way: Way) -> Callable[..., Any]:
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


def _tiled(function: Function, base: Scenario, settings: Settings) -> Callable[..., Any]:
    """`function` compiled for columns like these, in tiles; whatever all points share is a constant of it."""
    leaves, structure = jax.tree.flatten(settings)
    varies = [bool(np.ndim(leaf)) for leaf in leaves]

    def at_a_point(columns: list[jax.Array]) -> Any:
        own = iter(columns)
        filled = [next(own) if known else leaf for known, leaf in zip(varies, leaves, strict=True)]
        return function(scenario_at(base, structure.unflatten(filled)))  # type: ignore[attr-defined]

    def columns_of(settings: Settings) -> list[np.ndarray]:
        return [leaf for known, leaf in zip(varies, jax.tree.leaves(settings), strict=True) if known]

    program = tiles.compiled(at_a_point, columns_of(settings))
    return lambda _, settings: program(columns_of(settings))

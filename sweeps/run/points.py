"""Points of one structure: what is set at each, in columns or in boxes of a grid."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from hwspaces.quantities.laws import lawful
from jaxroof.jobs import Job, Scenario
from jaxroof.jobs.job import some_terms
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.derivatives import example, output_dependence
from jaxroof.numerics.struct import Array
from jaxroof.numerics.tree import leaves, mapped, structure
from sweeps.ask.axes import Axis, blocks, replaced
from sweeps.data.pieces import part_lengths


def scenario_at(base: Scenario, settings: Iterable[Mapping[str, Any]]) -> Scenario:
    """`base` with the trees that `settings` have by path, whole structs first, then their leaves; then by its laws."""
    paths = [(path, tree) for setting in settings for path, tree in setting.items()]
    # Fewer dots first: replacing a struct after its leaf would undo the leaf.
    for path, tree in sorted(paths, key=lambda item: item[0].count(".")):
        base = replaced(base, path, tree)
    # Laws set quantities from others, hence after everything that may change these.
    return lawful(base)


def in_dtype(base: Scenario, dtype: np.dtype) -> Scenario:
    """A scenario with its leaves as a program takes them."""
    return mapped(dtype.type, base)


def answers_at(job: Job, scenario: Scenario, names: Collection[str] | None = None) -> dict[str, Array]:
    """Metrics of `job` at `scenario`, shapes (); without tables of ops. Pure, for JAX to transform.

    Args:
      names: of the metrics that are wanted, in their order; None: all. What the job does not have here is left out.
    """
    # Of these only the names are used: computing them all would cost more than the metrics need.
    sums, tables = some_terms(job, scenario)
    wanted = terms_of(job, scenario, names)
    used_sums = {name: sum(terms().values()) for name, terms in job.sums(scenario).items() if name in wanted}
    # A sum that no wanted metric depends on may be any number.
    zeros = {name: jnp.zeros(()) for name in sums if name not in used_sums}
    zero_tables = {name: {"": jnp.zeros(())} for name in tables}
    metrics = _chosen(job.metrics(scenario, used_sums | zeros, zero_tables), names)
    return {name: jnp.asarray(value) for name, value in metrics.items()}


@functools.cache
def answers(job: Job, names: tuple[str, ...] | None = None) -> Callable[[Scenario], dict[str, Array]]:
    """`answers_at` as a function of the scenario alone: the same object for the same job and names."""
    return lambda scenario: answers_at(job, scenario, names)


def terms_of(job: Job, scenario: Scenario, names: Collection[str] | None) -> Collection[str]:
    """Names of the sums and tables that metrics need: the same in all scenarios of one structure."""
    if names is None:
        return some_terms(job, scenario)[0]
    # Neither names nor structure depend on values: one entry serves all points of a sweep.
    key = job, tuple(names), structure(scenario)
    if key not in _USED:
        _USED[key] = used_terms(job, scenario, lambda *terms: _chosen(job.metrics(*terms), names))
    return _USED[key]


_USED: dict[tuple[Any, ...], frozenset[str]] = {}
"""What `terms_of` has found, by the structure of scenarios."""


def used_terms(job: Job, scenario: Scenario, answers: Callable[..., Mapping[str, Any]]) -> frozenset[str]:
    """Names of the sums and tables of `job` that `answers(scenario, sums, tables)` depends on."""
    sums, tables = some_terms(job, scenario)
    if not (sums or tables):
        return frozenset()
    # Each sum and table marks itself; marks that reach a metric tell that it is needed.
    marks = {name: frozenset({name}) for name in sums}, {n: {"some op": frozenset({n})} for n in tables}
    unmarked = mapped(lambda _: frozenset(), scenario)
    uses = output_dependence(answers, (example(scenario), sums, tables), (unmarked, *marks))
    return frozenset().union(*leaves(uses))


def _chosen(metrics: Mapping[str, Any], names: Collection[str] | None) -> dict[str, Any]:
    return dict(metrics) if names is None else {name: metrics[name] for name in names if name in metrics}


Settings = Sequence[dict[str, Any]]
"""Trees by path that replace parts of a base, in the order in which they do."""


@dataclasses.dataclass(frozen=True)
class Points:
    """Points of one structure: settings of a base whose leaves differ, or are shared by all of them."""

    index: np.ndarray  # places among all points, shape (n,); on NumPy any
    settings: Settings  # leaves of shape (n,), or () where the points do not differ; on NumPy shapes that broadcast


BOX = 1 << 15
"""Points of a box on NumPy, whose intermediate numbers then stay in a cache."""

ALONE = Points(np.zeros(1, int), ())
"""The base itself."""


def points_of(axes: tuple[Axis, ...], dtype: Any = float) -> Iterator[Points]:
    """Every point of a grid, structure after structure; places are those of the flat grid, the last axis fastest."""
    shape = tuple(axis.size for axis in axes)
    for combination in blocks(axes):
        sizes = [len(segment.positions) for segment in combination]
        # One row per axis: the position of every point along it.
        places = np.indices(sizes).reshape(len(sizes), math.prod(sizes))
        positions = [segment.positions[place] for segment, place in zip(combination, places, strict=True)]
        # A grid without axes is one point.
        index = np.ravel_multi_index(positions, shape) if shape else np.zeros(1, int)
        settings = [
            mapped(lambda leaf, place=place: np.asarray(leaf[place] if np.ndim(leaf) else leaf, dtype), s)
            for place, s in zip(places, (segment.settings for segment in combination), strict=True)
        ]
        yield Points(index, settings)


def boxes_of(axes: tuple[Axis, ...], most: int = BOX) -> Iterator[Points]:
    """Every point of a grid in boxes with a dimension per axis, so that NumPy computes each term over its own axes.

    Args:
      most: points of a box.
    """
    shape = tuple(axis.size for axis in axes)
    for combination in blocks(axes):
        sizes = [len(segment.positions) for segment in combination]
        # Boxes of unequal length are fine here, as nothing is compiled for their shape.
        lengths = part_lengths(sizes, most, equal=False)
        for corner in itertools.product(*map(range, (0,) * len(sizes), sizes, lengths)):
            places = [np.arange(low, min(low + n, size)) for low, n, size in zip(corner, lengths, sizes, strict=True)]
            # Positions along each axis in a dimension of their own; their flat places follow by broadcasting.
            index = np.ix_(*(s.positions[place] for s, place in zip(combination, places, strict=True)))
            settings = [
                mapped(functools.partial(_placed, place, i, len(axes)), segment.settings)
                for i, (segment, place) in enumerate(zip(combination, places, strict=True))
            ]
            yield Points(np.asarray(np.ravel_multi_index(index, shape) if shape else 0), settings)


def _placed(place: np.ndarray, axis: int, dimensions: int, leaf: Any) -> Any:
    return along(leaf[place] if np.ndim(leaf) else leaf, axis, dimensions)


def along(leaf: Any, axis: int, dimensions: int) -> np.ndarray:
    """A leaf that varies along an axis in the shape that it has in a grid; one that does not as it is."""
    column = np.asarray(leaf, float)
    # Size 1 along all other axes, so that NumPy broadcasts.
    return column.reshape([-1 if i == axis else 1 for i in range(dimensions)]) if column.ndim else column[()]


def filled(settings: Settings, low: int, lanes: int, number: int) -> Settings:
    """Settings of `lanes` points from `low` on; the last point fills up what lies beyond it."""
    if lanes == number:
        return settings
    # Places beyond the end repeat the last point; the caller drops their results.
    return taken(settings, np.minimum(np.arange(low, low + lanes), number - 1))


def taken(settings: Settings, places: np.ndarray) -> Settings:
    """Settings of some points."""
    return mapped(lambda leaf: leaf[places] if np.ndim(leaf) else leaf, settings)

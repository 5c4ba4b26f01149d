"""Evaluates a job over axes: one compiled function per structure, chunk after chunk, each term over its own axes."""

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sweeps.axes import Axis, Segment, blocks
from sweeps.dependence import output_dependence
from sweeps.jobs import Job, Scenario
from sweeps.paths import replaced

CHUNK_BYTES = {"cpu": 64e6, "gpu": 16e9, "tpu": 4e9}
"""B of one compiled call's buffers by platform. On a CPU larger ones are paged in anew at every call; a GPU needs
large calls to hide their fixed cost."""

POINT_VALUES = 15
"""Numbers per point that a call holds beside the columns it reads: terms, sums and outputs, typically."""


@dataclasses.dataclass(frozen=True)
class Output:
    """Shape and type of one variable before any of it is computed."""

    name: str
    dims: tuple[str, ...]  # the axes that it depends on, in the order of the sweep, then `op` of a breakdown
    shape: tuple[int, ...]
    dtype: np.dtype
    ops: tuple[str, ...] = ()  # labels along the op dimension


@dataclasses.dataclass(frozen=True)
class Piece:
    """A computed part of one variable: `values` belongs at `index` (one slice or position array per dimension)."""

    name: str
    index: tuple[slice | np.ndarray, ...]
    values: np.ndarray


@dataclasses.dataclass(frozen=True)
class Question:
    """What a sweep computes: a job at `base`, varied along `axes`; `names` of its metrics, or all when None."""

    job: Job
    base: Scenario
    axes: tuple[Axis, ...]
    names: tuple[str, ...] | None = None
    breakdown: bool = False


class Plan:
    """A question compiled block by block. `outputs` is known at once; `pieces` computes.

    Args:
      question: what to compute.
      dtype: of floats, "float32" or "float64"; float64 needs JAX's x64 mode to be on.
      chunk_points: points per compiled call; by default what suits the platform and the columns that are read.
    """

    def __init__(self, question: Question, dtype: str = "float32", chunk_points: int | None = None):
        self.axes = question.axes
        self._blocks = [_Block(question, combination, dtype, chunk_points) for combination in blocks(question.axes)]
        self.outputs = _merged_outputs(self._blocks, question.axes)
        self.points = math.prod(axis.size for axis in question.axes)

    def pieces(self, progress: Callable[[int], None] = lambda points: None) -> Iterator[Piece]:
        """Compute every variable, chunk after chunk, in an order that does not depend on timing.

        Args:
          progress: called with the number of points that each chunk adds.
        """
        for block in self._blocks:
            yield from block.pieces(self.outputs, progress)


class _Block:
    """The part of a grid in which structs differ in numbers only: one pair of compiled functions."""

    def __init__(self, question: Question, combination: tuple[Segment, ...], dtype: str, chunk_points: int | None):
        self.axes = question.axes
        self.positions = [segment.positions for segment in combination]
        self.dtype = np.dtype(dtype)
        self.base = jax.tree.map(self.dtype.type, question.base)
        self.settings = [
            jax.tree.map(lambda leaf: np.asarray(leaf, self.dtype), segment.settings) for segment in combination
        ]
        columns = max((sum(leaf.ndim for leaf in jax.tree.leaves(setting)) for setting in self.settings), default=0)
        fitting = CHUNK_BYTES[jax.default_backend()] / (self.dtype.itemsize * (columns + POINT_VALUES))
        self.lengths = _chunk_lengths([len(positions) for positions in self.positions], chunk_points or int(fitting))
        self._compile(question)
        self.chunks = self._chunks()

    def _compile(self, question: Question) -> None:
        job = question.job
        self.ops: dict[str, tuple[str, ...]] = {}

        def scenario(base, settings):
            paths = [(path, tree) for setting in settings for path, tree in setting.items()]
            for path, tree in sorted(paths, key=lambda item: item[0].count(".")):  # whole structs before their leaves
                base = replaced(base, path, tree)
            return base

        def answers(base, settings, totals):
            point = scenario(base, settings)
            metrics = job.metrics(point, totals)
            if question.names is not None:
                metrics = {name: metrics[name] for name in question.names if name in metrics}
            if question.breakdown:
                tables = job.breakdown(point)
                self.ops = {name: tuple(terms) for name, terms in tables.items()}
                metrics |= {name: jnp.stack([*map(jnp.asarray, terms.values())]) for name, terms in tables.items()}
            self.names = tuple(metrics)  # in the job's order, which JAX does not keep
            return {name: jnp.asarray(value) for name, value in metrics.items()}

        point = jax.tree.map(lambda leaf: leaf.reshape(-1)[0] if leaf.ndim else leaf, self.settings)
        owner = [
            jax.tree.map(lambda leaf, i=i: frozenset({i} if leaf.ndim else ()), setting)
            for i, setting in enumerate(self.settings)
        ]
        nothing = jax.tree.map(lambda _: frozenset(), (self.base, point))

        # Which sums do the wanted metrics use, and over which axes does every term of them run?
        known = tuple(job.sums(question.base))
        sum_shapes = {name: jax.ShapeDtypeStruct((), self.dtype) for name in known}
        marks = {name: frozenset({name}) for name in known}
        uses = output_dependence(answers, (self.base, point, sum_shapes), (*nothing, marks))
        used = frozenset().union(*uses.values())

        def used_sums(base, settings):
            return {name: terms() for name, terms in job.sums(scenario(base, settings)).items() if name in used}

        term_dims = output_dependence(used_sums, (self.base, point), (nothing[0], owner))
        groups = {
            name: sorted(set(dims.values()), key=lambda d: (len(d), sorted(d))) for name, dims in term_dims.items()
        }

        def grouped(base, settings):
            terms = used_sums(base, settings)
            return {
                name: [
                    sum(jnp.asarray(terms[name][op], self.dtype) for op in terms[name] if term_dims[name][op] == dims)
                    for dims in groups[name]
                ]
                for name in terms
            }

        def totalled(base, settings, partial):
            unused = {name: jnp.zeros((), self.dtype) for name in known if name not in used}
            return answers(base, settings, unused | {name: sum(parts) for name, parts in partial.items()})

        partial_shapes = {name: [jax.ShapeDtypeStruct((), self.dtype) for _ in parts] for name, parts in groups.items()}
        self.dims = output_dependence(totalled, (self.base, point, partial_shapes), (nothing[0], owner, groups))
        answer_shapes = jax.eval_shape(totalled, self.base, point, partial_shapes)
        self.dtypes = {name: shape.dtype for name, shape in answer_shapes.items()}
        varies = jax.tree.map(lambda leaf: 0 if leaf.ndim else None, self.settings)
        first, second = grouped, totalled
        is_dims = lambda x: isinstance(x, frozenset)  # noqa: E731
        for i in reversed(range(len(self.axes))):
            here = [varies[j] if j == i else None for j in range(len(self.axes))]
            if not jax.tree.leaves(here):
                continue
            over = jax.tree.map(lambda dims, i=i: 0 if i in dims else None, groups, is_leaf=is_dims)
            out = {name: 0 if i in dims else None for name, dims in self.dims.items()}
            first = jax.vmap(first, in_axes=(None, here), out_axes=over)
            second = jax.vmap(second, in_axes=(None, here, over), out_axes=out)
        self._first, self._second = jax.jit(first), jax.jit(second)

    def evaluate(self, settings: list[dict[str, Any]]) -> dict[str, jax.Array]:
        """Every output over one chunk: first each group of terms over its own axes, then sums and metrics."""
        return self._second(self.base, settings, self._first(self.base, settings))

    def _chunks(self) -> list[list[tuple[int, dict[str, Any]]]]:
        """Along every axis, the start and the device-resident settings of each of its chunks.

        The last chunk ends at the axis' end, so that it computes some positions of the one before again.
        """
        chunks = []
        for setting, positions, length in zip(self.settings, self.positions, self.lengths, strict=True):
            starts = [min(low, len(positions) - length) for low in range(0, len(positions), length)]
            chunks.append([(start, _part(setting, start, length)) for start in starts])
        return chunks

    def pieces(self, outputs: dict[str, Output], progress: Callable[[int], None]) -> Iterator[Piece]:
        sizes = [len(positions) for positions in self.positions]
        for corner in np.ndindex(*map(len, self.chunks)):
            starts, settings = zip(*(chunks[part] for chunks, part in zip(self.chunks, corner, strict=True)), strict=True)
            repeated = {axis.name for axis, part in zip(self.axes, corner, strict=True) if part}
            fresh = [name for name in self.names if repeated <= set(outputs[name].dims)]  # others are written already
            if fresh:
                results = self.evaluate(list(settings))
            for name in fresh:
                yield self._piece(outputs[name], np.asarray(results[name]), starts)
            sides = zip(corner, sizes, self.lengths, strict=True)
            progress(math.prod(min((part + 1) * length, size) - part * length for part, size, length in sides))

    def _piece(self, output: Output, values: np.ndarray, starts: tuple[int, ...]) -> Piece:
        """One output of one chunk, spread over the dimensions that other blocks add to it."""
        index, spread = [], []
        for i, axis in enumerate(self.axes):
            if axis.name in output.dims:
                index.append(_as_slice(self.positions[i][starts[i] : starts[i] + self.lengths[i]]))
                spread.append(slice(None) if i in self.dims[output.name] else np.newaxis)
        values = values[tuple(spread)]
        if output.ops:
            index.append(_as_slice(np.array([output.ops.index(op) for op in self.ops[output.name]])))
        shape = [len(i) if isinstance(i, np.ndarray) else i.stop - i.start for i in index]
        return Piece(output.name, tuple(index), np.broadcast_to(values, shape))


def _merged_outputs(parts: list[_Block], axes: tuple[Axis, ...]) -> dict[str, Output]:
    """Every variable of every block: its dimensions are those of any block, and those that blocks are split along."""
    split = {i for i in range(len(axes)) if len({part.positions[i].tobytes() for part in parts}) > 1}
    outputs = {}
    for name in dict.fromkeys(name for part in parts for name in part.names):
        holders = [part for part in parts if name in part.dims]
        over = split.union(*(part.dims[name] for part in holders))
        dims = tuple(axis.name for i, axis in enumerate(axes) if i in over)
        shape = tuple(axis.size for i, axis in enumerate(axes) if i in over)
        ops = tuple(dict.fromkeys(op for part in holders for op in part.ops.get(name, ())))
        if ops:
            dims, shape = (*dims, "op"), (*shape, len(ops))
        outputs[name] = Output(name, dims, shape, np.dtype(holders[0].dtypes[name]), ops)
    return outputs


def _chunk_lengths(sizes: list[int], points: int) -> list[int]:
    """Positions per chunk along every axis: the inner axes whole, one axis in parts, those outside it one by one."""
    lengths, budget = [], points
    for size in reversed(sizes):
        length = max(1, min(size, budget))
        parts = math.ceil(size / length)
        length = math.ceil(size / parts)  # equal parts overlap least
        lengths.append(length)
        budget = budget // length if length == size else 1
    return lengths[::-1]


def _part(setting: dict[str, Any], start: int, length: int) -> dict[str, Any]:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf[start : start + length] if leaf.ndim else leaf), setting)


def _as_slice(positions: np.ndarray) -> slice | np.ndarray:
    if len(positions) == positions[-1] - positions[0] + 1:
        return slice(int(positions[0]), int(positions[-1]) + 1)
    return positions

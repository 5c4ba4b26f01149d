"""Evaluates a question over axes: one program per structure of the structs, called chunk after chunk."""

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sweeps.axes import Axis, Segment, blocks
from sweeps.program import Program, Question, Settings

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
    complete: bool = True  # False where some structures of the sweep have no answer, so that a blank is left

    @property
    def blank(self) -> float | int | bool:
        """What stands where there is no answer: NaN, False, or -1 for codes."""
        return {"f": float("nan"), "b": False}.get(self.dtype.kind, -1)


@dataclasses.dataclass(frozen=True)
class Piece:
    """A computed part of one variable: `values` belongs at `index` (one slice or position array per dimension)."""

    name: str
    index: tuple[slice | np.ndarray, ...]
    values: np.ndarray


class Plan:
    """A question compiled block by block. `outputs` is known at once; `pieces` computes.

    Args:
      question: what to compute at every point.
      axes: what varies, outermost first.
      dtype: of floats, "float32" or "float64"; float64 needs JAX's x64 mode to be on.
      chunk_points: points per compiled call; by default what suits the platform and the columns that are read.
    """

    def __init__(
        self,
        question: Question,
        axes: tuple[Axis, ...],
        dtype: str = "float32",
        chunk_points: int | None = None,
    ):
        self.axes = axes
        self._blocks = [_Block(question, axes, parts, np.dtype(dtype), chunk_points) for parts in blocks(axes)]
        self.outputs = _merged_outputs(self._blocks, axes)
        self.points = math.prod(axis.size for axis in axes)

    def pieces(self, progress: Callable[[int], None] = lambda points: None) -> Iterator[Piece]:
        """Compute every variable, chunk after chunk, in an order that does not depend on timing.

        Args:
          progress: called with the number of points that each chunk adds.
        """
        for block in self._blocks:
            yield from block.pieces(self.outputs, progress)


@dataclasses.dataclass(frozen=True)
class _Chunk:
    """A chunk that is being computed: outputs that no earlier chunk has written, and the points it adds."""

    starts: list[int]  # position along every axis
    results: dict[str, jax.Array]
    points: int


class _Block:
    """The part of a grid in which structs differ in numbers only: one program, called chunk after chunk."""

    def __init__(
        self,
        question: Question,
        axes: tuple[Axis, ...],
        combination: tuple[Segment, ...],
        dtype: np.dtype,
        chunk_points: int | None,
    ):
        self.axes = axes
        self.positions = [segment.positions for segment in combination]
        settings = [jax.tree.map(lambda leaf: np.asarray(leaf, dtype), segment.settings) for segment in combination]
        columns = max((sum(leaf.ndim for leaf in jax.tree.leaves(setting)) for setting in settings), default=0)
        fitting = CHUNK_BYTES.get(jax.default_backend(), CHUNK_BYTES["cpu"]) / (
            dtype.itemsize * (columns + POINT_VALUES)
        )
        self.lengths = _chunk_lengths([len(positions) for positions in self.positions], chunk_points or int(fitting))
        self.program = Program(question, settings, dtype)
        self.chunks = self._chunks(settings)

    def _chunks(self, settings: Settings) -> list[list[tuple[int, dict[str, Any]]]]:
        """Along every axis, the start and the device-resident settings of each of its chunks.

        The last chunk ends at the axis' end, so that it computes some positions of the one before again.
        """
        chunks = []
        for setting, positions, length in zip(settings, self.positions, self.lengths, strict=True):
            starts = [min(low, len(positions) - length) for low in range(0, len(positions), length)]
            chunks.append([(start, _part(setting, start, length)) for start in starts])
        return chunks

    def pieces(self, outputs: dict[str, Output], progress: Callable[[int], None]) -> Iterator[Piece]:
        """Every chunk's pieces. The next chunk is computed while the caller stores the one before."""
        begun = None
        for corner in np.ndindex(*map(len, self.chunks)):
            ahead, begun = begun, self._begin(corner, outputs)
            if ahead is not None:
                yield from self._finish(ahead, outputs, progress)
        yield from self._finish(begun, outputs, progress)

    def _begin(self, corner: tuple[int, ...], outputs: dict[str, Output]) -> _Chunk:
        """Start computing one chunk, without waiting for it."""
        chosen = [chunks[part] for chunks, part in zip(self.chunks, corner, strict=True)]
        repeated = {axis.name for axis, part in zip(self.axes, corner, strict=True) if part}
        fresh = [name for name in self.program.names if repeated <= set(outputs[name].dims)]
        results = self.program([settings for _, settings in chosen]) if fresh else {}
        sizes = [len(positions) for positions in self.positions]
        sides = zip(corner, sizes, self.lengths, strict=True)
        points = math.prod(min((part + 1) * length, size) - part * length for part, size, length in sides)
        return _Chunk([start for start, _ in chosen], {name: results[name] for name in fresh}, points)

    def _finish(self, chunk: _Chunk, outputs: dict[str, Output], progress: Callable[[int], None]) -> Iterator[Piece]:
        for name, values in chunk.results.items():
            yield self._piece(outputs[name], np.asarray(values), chunk.starts)
        progress(chunk.points)

    def _piece(self, output: Output, values: np.ndarray, starts: list[int]) -> Piece:
        """One output of one chunk, spread over the dimensions that other blocks add to it."""
        index, spread = [], []
        for i, axis in enumerate(self.axes):
            if axis.name in output.dims:
                index.append(_as_slice(self.positions[i][starts[i] : starts[i] + self.lengths[i]]))
                spread.append(slice(None) if i in self.program.dims[output.name] else np.newaxis)
        values = values[tuple(spread)]
        if output.ops:
            index.append(_as_slice(np.array([output.ops.index(op) for op in self.program.ops[output.name]])))
        shape = [len(i) if isinstance(i, np.ndarray) else i.stop - i.start for i in index]
        return Piece(output.name, tuple(index), np.broadcast_to(values, shape))


def _merged_outputs(parts: list[_Block], axes: tuple[Axis, ...]) -> dict[str, Output]:
    """Every variable of every block: its dimensions are those of any block, and those that blocks are split along."""
    split = {i for i in range(len(axes)) if len({part.positions[i].tobytes() for part in parts}) > 1}
    outputs = {}
    for name in dict.fromkeys(name for part in parts for name in part.program.names):
        programs = [part.program for part in parts if name in part.program.dims]
        over = split.union(*(program.dims[name] for program in programs))
        dims = tuple(axis.name for i, axis in enumerate(axes) if i in over)
        shape = tuple(axis.size for i, axis in enumerate(axes) if i in over)
        ops = tuple(dict.fromkeys(op for program in programs for op in program.ops.get(name, ())))
        if ops:
            dims, shape = (*dims, "op"), (*shape, len(ops))
        complete = len(programs) == len(parts) and all(program.ops.get(name, ()) == ops for program in programs)
        outputs[name] = Output(name, dims, shape, np.dtype(programs[0].dtypes[name]), ops, complete)
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

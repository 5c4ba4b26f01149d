"""Evaluates a question over axes, chunk after chunk: on NumPy, or one compiled program per structure of the structs."""

import collections
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from jaxroof.numerics.struct import Array
from jaxroof.numerics.tree import mapped
from sweeps.ask.axes import Axis, Segment, blocks
from sweeps.ask.question import Question
from sweeps.data.pieces import Box, Output, Piece, View, as_slice, corners, gathered
from sweeps.run.compilers import COMPILERS, Compiler, chosen, loops_known
from sweeps.run.native.graph import Unsupported
from sweeps.run.points import in_dtype
from sweeps.run.ways import MOST_EAGER, MOST_EAGER_BESIDE_LOOPS

LEAST = 1024
"""Points of a call that is made small on request: fewer take no less time."""


class Plan:
    """A question compiled block by block. `outputs` is known at once; `pieces` and `values` compute.

    What is computed in one call, a chunk, depends on the question and the platform alone. So does every bit of a
    result: not on which boxes the chunks are gathered in, nor on the number of devices, nor on what else is computed.

    Args:
      question: what to compute at every point.
      axes: what varies, outermost first.
      dtype: of floats, "float32" or "float64"; float64 needs JAX's x64 mode to be on.
      chunk_points: points per call; by default what suits the platform and the columns that are read.
      most_eager: points up to which NumPy computes them, in float64, without compiling anything; by default where that
        takes less time than compiling.
      compiler: a name in `COMPILERS`; by default what suits the number of points and the machine.
      compiling: called before each program is compiled with its number, from 1, and the number of programs.
      most: points per call at most, where that is fewer than what suits; `LEAST` or more.

    Raises:
      ValueError: `compiler` is not there, or does not know an operation of the job.
    """

    def __init__(
        self,
        question: Question,
        axes: tuple[Axis, ...],
        dtype: str = "float32",
        chunk_points: int | None = None,
        most_eager: int | None = None,
        compiler: str | None = None,
        compiling: Callable[[int, int], None] = lambda number, total: None,
        most: float = math.inf,
    ):
        self.axes = axes
        sizes = [axis.size for axis in axes]
        self.points = math.prod(sizes)
        if most_eager is None:
            # Whether there are loops is asked of large grids only: the answer needs JAX.
            loops = self.points > MOST_EAGER_BESIDE_LOOPS and loops_known()
            most_eager = MOST_EAGER_BESIDE_LOOPS if loops else MOST_EAGER
        self.compiler = COMPILERS[compiler or chosen(sizes, most_eager)]()
        chunk = (chunk_points, max(most, LEAST))
        make_blocks = functools.partial(self._made, question, list(blocks(axes)), np.dtype(dtype), chunk, compiling)
        # Machine code is tried first where it was chosen by default; XLA knows every operation of a job.
        try:
            self._blocks = make_blocks()
        except Unsupported:
            if compiler is not None:
                raise
            self.compiler = COMPILERS["xla"]()  # which `software` says
            self._blocks = make_blocks()
        self.outputs = _merged_outputs(self._blocks, axes)

    def _made(
        self,
        question: Question,
        combinations: list[tuple[Segment, ...]],
        dtype: np.dtype,
        chunk: tuple[int | None, float],
        compiling: Callable[[int, int], None],
    ) -> list["_Block"]:
        """All blocks, one for each combination of structures."""
        grid_blocks = []
        for number, parts in enumerate(combinations, start=1):
            if self.compiled:
                compiling(number, len(combinations))
            grid_blocks.append(_Block(question, self.axes, parts, dtype, self.compiler, *chunk))
        return grid_blocks

    @property
    def compiled(self) -> bool:
        """Whether programs are compiled for it."""
        return self.compiler.compiles

    @property
    def software(self) -> dict[str, str]:
        """Versions of what makes the numbers, by name."""
        return self.compiler.software

    def boxes(self, points: int = 1) -> Iterator[Box]:
        """The sweep in boxes of about `points` points, at least a chunk each, in an order of their own."""
        for number, block in enumerate(self._blocks):
            # At least one chunk per box, since a chunk is what one call computes.
            for corner, chunks in gathered(block.counts, max(1, points // block.chunk_points)):
                yield self._box(number, corner, chunks)

    def native(self) -> list[tuple[Any, list[np.ndarray]]]:
        """Of every block what computes its chunks, and its positions along every axis."""
        return [(block.chunks, block.positions) for block in self._blocks]

    def pieces(
        self, progress: Callable[[int], None] = lambda points: None, boxes: Iterable[Box] | None = None
    ) -> Iterator[Piece]:
        """Compute every variable, chunk after chunk, in an order that does not depend on timing.

        Args:
          progress: called with the number of points that each chunk adds.
          boxes: what to compute; by default all.
        """
        for chunk, results in self._computed(self.boxes() if boxes is None else boxes):
            block = self._blocks[chunk.block]
            for name in self.outputs:  # the order of the job, whatever a compiled function's is
                if name in chunk.names:
                    yield block.piece(self.outputs[name], np.asarray(results[name]), chunk)
            progress(chunk.points)

    def values(
        self, progress: Callable[[int], None] = lambda points: None, boxes: Iterable[Box] | None = None
    ) -> Iterator[tuple[Box, dict[str, View]]]:
        """Every chunk with all of its variables on the device, for whoever keeps less than everything.

        Breakdowns stay out.
        """
        for chunk, results in self._computed(self.boxes() if boxes is None else boxes, everything=True):
            block = self._blocks[chunk.block]
            yield chunk, {name: block.own(name, results[name], chunk) for name in results if not self.outputs[name].ops}
            progress(chunk.points)

    def _box(self, number: int, corner: tuple[int, ...], chunks: tuple[int, ...]) -> Box:
        block = self._blocks[number]
        # Along these axes the box is not the first, so that variables without them have been stored before.
        repeated = {axis.name for axis, low in zip(self.axes, corner, strict=True) if low}
        names = frozenset(name for name in block.program.names if repeated <= set(self.outputs[name].dims))
        return Box(number, corner, chunks, block.owned(corner, chunks), names)

    def _computed(self, boxes: Iterable[Box], everything: bool = False) -> Iterator[tuple[Box, dict[str, Array]]]:
        """Every chunk of the boxes with its results, while the next ones are computed."""
        begun: collections.deque[tuple[Box, Callable[[], dict[str, Array]]]] = collections.deque()
        chunks = (self._box(box.block, corner, (1,) * len(corner)) for box in boxes for corner in corners(box))
        with self.compiler.working() as begin:
            for chunk in chunks:
                wanted = everything or chunk.names
                # A chunk of which no variable is new needs no call: `dict` then returns an empty result.
                # The host reads nothing of what is wanted whole, which is reduced where it is.
                read = frozenset() if everything else chunk.names
                begun.append((chunk, begin(*self._blocks[chunk.block].call(chunk.corner), read) if wanted else dict))
                # Calls that run ahead keep all cores or devices busy while results are stored.
                if len(begun) > self.compiler.ahead:
                    done, results = begun.popleft()
                    yield done, results()
            for done, results in begun:
                yield done, results()


class _Block:
    """The part of a grid in which structs differ in numbers only: one program, called chunk after chunk.

    A chunk has `lengths` positions along every axis. The last one ends at the axis' end, so that it computes some
    positions of the one before again; they stay those of the one before.
    """

    def __init__(
        self,
        question: Question,
        axes: tuple[Axis, ...],
        combination: tuple[Segment, ...],
        dtype: np.dtype,
        compiler: Compiler,
        chunk_points: int | None,
        most: float,
    ):
        self.axes = axes
        self.positions = [segment.positions for segment in combination]
        stored = compiler.stored(dtype)
        settings = [mapped(lambda leaf: np.asarray(leaf, stored), segment.settings) for segment in combination]
        self._sizes = [len(positions) for positions in self.positions]
        self.program = compiler.program(question, settings, dtype)
        self._lengths = compiler.lengths(self.program, self._sizes, chunk_points, settings, stored)
        # A smaller limit on request replaces what suits, but never enlarges it.
        if math.prod(self._lengths) > most:
            self._lengths = compiler.lengths(self.program, self._sizes, int(most), settings, stored)
        self.chunk_points = math.prod(self._lengths)
        self.counts = tuple(math.ceil(n / length) for n, length in zip(self._sizes, self._lengths, strict=True))
        self.chunks = compiler.chunks(self.program, in_dtype(question.base, stored), settings, self._lengths)

    def owned(self, corner: tuple[int, ...], chunks: tuple[int, ...]) -> tuple[np.ndarray, ...]:
        """Positions along every axis of a box of chunks."""
        sides = zip(self.positions, corner, chunks, self._lengths, strict=True)
        return tuple(positions[low * length : (low + n) * length] for positions, low, n, length in sides)

    def call(self, corner: tuple[int, ...]) -> tuple[Callable[..., dict[str, Array]], list[int]]:
        """What computes one chunk: a function, and its argument."""
        return self.chunks, [self._start(axis, number) for axis, number in enumerate(corner)]

    def own(self, name: str, values: Array, chunk: Box) -> View:
        """One variable of a chunk over its own positions."""
        over = tuple(i in self.program.dims[name] for i in range(len(self.axes)))
        # Ranges inside the computed array, which may begin with positions of the chunk before.
        inside = tuple((place.start, place.stop) for place in self._inside(chunk, over))
        return View(values, inside, over)

    def piece(self, output: Output, values: np.ndarray, chunk: Box) -> Piece:
        """One output of one chunk, spread over the dimensions that other blocks add to it."""
        over = [i in self.program.dims[output.name] for i in range(len(self.axes))]
        values = values[self._inside(chunk, over)]
        # One index per dimension of the output; a new axis of size 1 where this block does not vary but others do.
        index, spread = [], []
        for i, axis in enumerate(self.axes):
            if axis.name in output.dims:
                index.append(as_slice(chunk.positions[i]))
                spread.append(slice(None) if over[i] else np.newaxis)
        values = values[tuple(spread)]
        if output.ops:
            # Blocks may have different ops: these go to their places among those of the whole variable.
            index.append(as_slice(np.array([output.ops.index(op) for op in self.program.ops[output.name]])))
        shape = [len(i) if isinstance(i, np.ndarray) else i.stop - i.start for i in index]
        return Piece(output.name, tuple(index), np.broadcast_to(values, shape))

    def _inside(self, chunk: Box, over: Sequence[bool]) -> tuple[slice, ...]:
        """Positions of a chunk in the computed part, along the axes that a variable is over."""
        starts = [part * length - self._start(i, part) for i, (part, length) in enumerate(self._corner(chunk))]
        places = [slice(low, low + len(own)) for low, own in zip(starts, chunk.positions, strict=True)]
        return tuple(place for place, known in zip(places, over, strict=True) if known)

    def _corner(self, chunk: Box) -> Iterator[tuple[int, int]]:
        return zip(chunk.corner, self._lengths, strict=True)

    def _start(self, axis: int, number: int) -> int:
        # The last chunk is moved back to end at the axis' end, since a program has one fixed shape.
        return min(number * self._lengths[axis], self._sizes[axis] - self._lengths[axis])


def _merged_outputs(parts: list[_Block], axes: tuple[Axis, ...]) -> dict[str, Output]:
    """Every variable of every block: its dimensions are those of any block, and those that blocks are split along."""
    # Along these axes blocks hold different positions, so that even constant outputs differ by block.
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
        # Incomplete where a block lacks the output or some of its ops: blanks remain there.
        complete = len(programs) == len(parts) and all(program.ops.get(name, ()) == ops for program in programs)
        outputs[name] = Output(name, dims, shape, np.dtype(programs[0].dtypes[name]), ops, complete)
    return outputs

"""Compilers of the chunks of a sweep: none but NumPy, LLVM with its machine code, or XLA with its programs."""

import abc
import concurrent.futures
import contextlib
import importlib.metadata
import importlib.util
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from hwspaces.files.extras import installing
from jaxroof.jobs import Scenario
from jaxroof.numerics.arrays import jax
from jaxroof.numerics.struct import Array
from jaxroof.numerics.tree import leaves, mapped
from sweeps.ask.question import Question
from sweeps.data.pieces import part_lengths
from sweeps.run.columns import Columns
from sweeps.run.cores import cores
from sweeps.run.ways import BESIDE_DEVICE, LONGEST_EAGER

CHUNK_BYTES = {"numpy": 4e6, "cpu": 64e6}
"""B of one call's buffers on a CPU, at most. NumPy's stay in a cache; larger ones are paged in anew at every call."""

POINT_VALUES = 15
"""Numbers per point that a call on a CPU holds beside the columns it reads: terms, sums and outputs, typically."""

LOOP_POINTS = 1 << 16, 1 << 20
"""Least and most points of one call of machine code: few calls, of which outputs stay in a cache; as many as there are
cores at least, whose number must not matter for where a sweep is cut."""

PARTS = 16
"""Calls of machine code into which a sweep between these limits is cut."""

Results = dict[str, Array]


class Compiler(abc.ABC):
    """How the chunks of a sweep are computed.

    Attributes:
      name: in `COMPILERS`.
      compiles: whether it makes programs.
      ahead: chunks that are begun before the results of the first are asked for.
    """

    name = "numpy"
    compiles = False
    ahead = 0

    @property
    def software(self) -> dict[str, str]:
        """Versions of what makes the numbers, by name."""
        return {"numpy": np.__version__}

    def stored(self, dtype: np.dtype) -> np.dtype:
        """Type of the columns that are read."""
        return dtype

    def lengths(
        self, program: Any, sizes: list[int], points: int | None, settings: list[dict[str, Any]], dtype: np.dtype
    ) -> list[int]:
        """Positions along every axis of one call.

        Args:
          program: of the question.
          sizes: positions along every axis.
          points: of one call; None: what suits the platform and the columns that are read.
          settings: of every axis.
          dtype: of the columns.
        """
        columns = max((sum(leaf.ndim for leaf in leaves(setting)) for setting in settings), default=0)
        values = columns + POINT_VALUES
        # Points whose columns, outputs and intermediate numbers fill the platform's budget of bytes.
        return part_lengths(sizes, points or max(1, int(self._call_bytes() / (dtype.itemsize * values))))

    def _call_bytes(self) -> float:
        return CHUNK_BYTES.get("numpy", CHUNK_BYTES["cpu"])

    @abc.abstractmethod
    def program(self, question: Question, settings: list[dict[str, Any]], dtype: np.dtype) -> Any:
        """A question for settings of one structure, with `names`, `dims`, `ops` and `dtypes` of its outputs."""

    def chunks(
        self, program: Any, base: Scenario, settings: list[dict[str, Any]], lengths: Sequence[int]
    ) -> Callable[[Sequence[int]], Results]:
        """A function of the positions that a chunk starts from along every axis, each of `lengths` positions."""
        return _Parts(program, base, settings, lengths)

    @contextlib.contextmanager
    def working(self) -> Iterator[Callable[..., Callable[[], Results]]]:
        """While it lasts, a function that begins a call, and returns what waits for its results.

        Its arguments are what `chunks` returned, starts, and names of the outputs that the host will read.
        """

        def begin(call: Callable[..., Results], starts: Sequence[int], names: frozenset[str]) -> Callable[[], Results]:
            results = call(starts)
            return lambda: results

        yield begin


class NumPy(Compiler):
    """Columns in float64, without compilation."""

    def stored(self, dtype: np.dtype) -> np.dtype:
        """Float64, whatever is asked for."""
        return np.dtype(float)

    def program(self, question: Question, settings: list[dict[str, Any]], dtype: np.dtype) -> Any:
        """A question in columns."""
        return Columns(question, settings, dtype)


class LLVM(Compiler):
    """Machine code of loops, a chunk on each core."""

    name = "llvm"
    compiles = True

    def __init__(self) -> None:
        self.ahead = 2 * cores()

    @property
    def software(self) -> dict[str, str]:
        """The version of LLVM's library."""
        return {"llvmlite": importlib.metadata.version("llvmlite")}

    def lengths(
        self, program: Any, sizes: list[int], points: int | None, settings: list[dict[str, Any]], dtype: np.dtype
    ) -> list[int]:
        """As many points as stay in a cache; axes are cut first along which most is computed.

        What does not depend on an axis is computed once for all of its positions in a call: axes that little depends
        on stay whole, and so does the one of the innermost loop.
        """
        least, most = LOOP_POINTS
        points = points or min(most, max(least, math.prod(sizes) // PARTS))
        work = program.work(sizes)
        # Axes that cause the most work are cut first; the innermost loop's axis stays last, hence whole if possible.
        order = [*sorted(program.order[:-1], key=lambda axis: -work[axis]), *program.order[-1:]]
        length_by_axis = dict(zip(order, part_lengths([sizes[axis] for axis in order], points), strict=True))
        return [length_by_axis[axis] for axis in range(len(sizes))]

    def program(self, question: Question, settings: list[dict[str, Any]], dtype: np.dtype) -> Any:
        """A question as loops; ValueError with what to install where there is no LLVM."""
        try:
            from sweeps.run.native.program import NativeProgram
        # llvmlite is an optional dependency.
        except ModuleNotFoundError:
            raise ValueError(f"compiler = 'llvm' needs llvmlite: {installing('llvm')}") from None
        from sweeps.run.program import kept

        return kept(NativeProgram, question, settings, dtype)

    def chunks(
        self, program: Any, base: Scenario, settings: list[dict[str, Any]], lengths: Sequence[int]
    ) -> Callable[[Sequence[int]], Results]:
        """The loops over columns of their own."""
        return program.bound(base, settings, lengths)

    @contextlib.contextmanager
    def working(self) -> Iterator[Callable[..., Callable[[], Results]]]:
        """A thread per core."""
        with concurrent.futures.ThreadPoolExecutor(cores()) as pool:
            try:
                # The bound `result` waits for the call when it is called.
                yield lambda call, starts, names: pool.submit(call, starts).result
            finally:
                pool.shutdown(cancel_futures=True)


class XLA(Compiler):
    """JAX's programs, a chunk on each device."""

    name = "xla"
    compiles = True

    def __init__(self) -> None:
        self._devices = jax.local_devices()
        # One call computes while the results of another are read: as many chunks as both have.
        self.ahead = 2 * len(self._devices) - 1

    @property
    def software(self) -> dict[str, str]:
        """The version of XLA's library."""
        return {"jaxlib": importlib.metadata.version("jaxlib")}

    def _call_bytes(self) -> float:
        return CHUNK_BYTES["cpu"]

    def lengths(
        self, program: Any, sizes: list[int], points: int | None, settings: list[dict[str, Any]], dtype: np.dtype
    ) -> list[int]:
        """What fits into the memory of GPUs and TPUs; a CPU's calls are far from the machine's."""
        if points is not None or self._devices[0].platform == "cpu":
            return super().lengths(program, sizes, points, settings, dtype)
        from sweeps.run.device_calls import fitting_lengths

        return fitting_lengths(program, sizes, settings, self._devices)

    def program(self, question: Question, settings: list[dict[str, Any]], dtype: np.dtype) -> Any:
        """A question as two functions."""
        from sweeps.run.program import XlaProgram, kept

        return kept(XlaProgram, question, settings, dtype)

    def chunks(
        self, program: Any, base: Scenario, settings: list[dict[str, Any]], lengths: Sequence[int]
    ) -> Callable[[Sequence[int]], Results]:
        """Calls that are compiled for these lengths already: one has been computed."""
        from sweeps.run.device_calls import DeviceCalls

        calls = DeviceCalls(program, base, settings, lengths, self._devices)
        # The first chunk is computed here so that compilation ends before progress is reported.
        jax.block_until_ready(calls([[0] * len(lengths)]))
        return calls  # type: ignore[return-value]

    @contextlib.contextmanager
    def working(self) -> Iterator[Callable[..., Callable[[], Results]]]:
        """Calls return before they are done, and so do the copies of their results to the host."""
        from sweeps.run.device_calls import DeviceBatch

        batch: DeviceBatch | None = None

        def begin(call: Any, starts: Sequence[int], names: frozenset[str]) -> Callable[[], Results]:
            nonlocal batch
            if batch is not None and batch.call is not call:
                batch.begin()
                batch = None
            batch = batch or DeviceBatch(call)
            results = batch.add(starts, names)
            if batch.full:
                batch.begin()
                batch = None
            return results

        yield begin


COMPILERS: dict[str, Callable[[], Compiler]] = {"numpy": NumPy, "llvm": LLVM, "xla": XLA}
"""By name."""


def chosen(sizes: Sequence[int], most_eager: int) -> str:
    """Name of the compiler for a grid of these sizes.

    Args:
      most_eager: points up to which nothing is compiled.
    """
    # A float product cannot overflow for grids with many axes.
    points, longest = int(np.prod(sizes, dtype=float)), max(sizes, default=1)
    most, most_long = most_eager, min(most_eager, LONGEST_EAGER)
    if points > most or longest > most_long:
        return "llvm" if loops_known() else "xla"
    # Beside a GPU or TPU, NumPy competes with compilation time alone, so that its share is smaller.
    if (points > most // BESIDE_DEVICE or longest > most_long // BESIDE_DEVICE) and beside_device():
        return "xla"
    return "numpy"


def loops_known() -> bool:
    """Whether sweeps run on the CPU, and LLVM is there."""
    return jax.default_backend() == "cpu" and importlib.util.find_spec("llvmlite") is not None


def beside_device() -> bool:
    """Whether JAX's programs run on a GPU or TPU; JAX is imported only where a plugin for one is installed."""
    plugins = importlib.util.find_spec("jax_plugins"), importlib.util.find_spec("libtpu")
    return ("jax" in sys.modules or any(plugins)) and jax.default_backend() != "cpu"


class _Parts:
    """A program over the part of every axis that a chunk reads."""

    def __init__(self, program: Any, base: Scenario, settings: list[dict[str, Any]], lengths: Sequence[int]):
        self._program, self._base, self._settings, self._lengths = program, base, settings, lengths

    def __call__(self, starts: Sequence[int]) -> Results:
        return self._program(self._base, [self._part(axis, start) for axis, start in enumerate(starts)])

    def _part(self, axis: int, start: int) -> dict[str, Any]:
        end = start + self._lengths[axis]
        # A leaf of shape () does not vary along the axis and is passed as it is.
        return mapped(lambda leaf: leaf[start:end] if leaf.ndim else leaf, self._settings[axis])

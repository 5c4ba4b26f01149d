"""A compiled graph over columns: tables of arrays, and just the loops whose inputs have changed since the last call."""

import collections
import ctypes
import functools
import math
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from jaxroof.numerics.arrays import jax
from sweeps.run.native.code import module
from sweeps.run.native.graph import Graph, opened
from sweeps.run.native.nests import Dims, dependence, nests

REUSED = 1 << 18
"""B of an array from which on its memory is used again: less comes from memory that the process has."""


class Machine:
    """Functions of a module, of two pointers each. They are gone when this is.

    Args:
      text: of the module.
      names: of its functions.

    Attributes:
      functions: in the order of `names`.
    """

    def __init__(self, text: str, names: list[str]):
        # The engine owns the machine code, so that it has to live as long as the functions.
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), _target())  # which owns both
        self._engine.finalize_object()
        # Both arguments are addresses: of the table of arrays, and of the lengths.
        form = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
        self.functions: list[Any] = [form(self._engine.get_function_address(name)) for name in names]


def lanes(itemsize: int) -> int:
    """Floats of a vector register."""
    features = llvm.get_host_cpu_features()
    # B of a register: AVX-512, AVX, or 128 bits of SSE and NEON.
    width = 64 if features.get("avx512f") else 32 if features.get("avx") else 16
    return width // itemsize


def _target() -> Any:
    features = llvm.get_host_cpu_features().flatten()
    return _native().create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=2, jit=True)


@functools.cache
def _native() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple()


class Loops:
    """A graph compiled for inputs that are single numbers or vary along one axis each.

    Args:
      graph: what to compute.
      inputs: the axis that each input varies along, as a tuple; () for a single number.
      outputs: nodes to compute.

    Attributes:
      dims: axes that each node depends on.
    """

    def __init__(self, graph: Graph, inputs: Mapping[int, Dims], outputs: Iterable[int]):
        self.graph, self.inputs = graph, inputs
        self.dims = dependence(graph, inputs)
        self.outputs = tuple(dict.fromkeys(outputs))
        self.lanes = lanes(graph.dtype.itemsize)
        self.nests = nests(graph, self.dims, self.outputs)
        # A slot for whatever a loop reads or writes; other values stay in registers.
        self.slots: dict[int, int] = {}
        for nest in self.nests:
            for node in (*nest.reads, *nest.writes):
                self.slots.setdefault(node, len(self.slots))
        text = module(graph, self.dims, self.nests, self.lanes, self.slots)
        self.own_outputs = [[node for node in nest.writes if node in set(self.outputs)] for nest in self.nests]
        self._machine = Machine(text, [f"nest{number}" for number in range(len(self.nests))])
        self.functions = self._machine.functions


class Bound:
    """Compiled loops over columns of their own, for calls from many threads.

    Args:
      loops: what to call.
      columns: values of every input that is read: a number, or a column along its axis.
      lengths: positions of every axis that one call computes.
    """

    def __init__(self, loops: Loops, columns: Mapping[int, Any], lengths: Sequence[int]):
        self.loops = loops
        self.lengths = list(lengths)
        # Loops store whole vectors, so that a row is at least one vector long.
        self.rows = [max(length, loops.lanes) for length in lengths]
        self.sizes = np.array([size for pair in zip(self.lengths, self.rows, strict=True) for size in pair], np.int64)
        self._columns = {node: self._column(node, columns[node]) for node in loops.inputs if node in loops.slots}
        # Inputs along the same axis are grouped: their addresses move together.
        along: dict[Dims, list[int]] = {}
        for node in self._columns:
            along.setdefault(loops.inputs[node], []).append(node)
        self.along = {
            dims: (
                np.array([loops.slots[node] for node in own]),
                np.array([self._columns[node].ctypes.data for node in own], np.int64),
            )
            for dims, own in along.items()
        }
        self.values = columns
        self.shapes = {node: self._shape(node) for nest in loops.nests for node in nest.writes}
        self.idle: list[_State] = []
        # Memory of outputs that nobody holds any longer, by its size in B.
        self._free: dict[int, collections.deque[np.ndarray]] = collections.defaultdict(collections.deque)

    def __call__(self, starts: Sequence[int]) -> dict[int, Any]:
        """Outputs from position `starts` on along every axis: arrays over the axes that each depends on.

        Arrays are new, or those of an earlier call that had the same values; nobody may write into them.
        """
        try:  # another thread may take the last one at any time
            state = self.idle.pop()
        except IndexError:
            state = _State(self)
        try:
            return state.computed(tuple(starts))
        finally:
            self.idle.append(state)

    def array(self, node: int) -> np.ndarray:
        """An array for a node's values, whose memory is used again once it and all views of it are gone.

        New memory comes from the system page by page, which takes as long as many operations per value.
        """
        shape, dtype = self.shapes[node], self.loops.graph.types[self.loops.graph.kinds[node]]
        size = math.prod(shape) * dtype.itemsize
        if size < REUSED:
            return np.empty(shape, dtype)
        free = self._free[size]
        try:  # another thread may take the last one at any time
            memory = free.pop()
        except IndexError:
            memory = np.empty(size, np.uint8)
        # Views, and views of views, hold this array, since what it lies in is a buffer and no array.
        flat = np.frombuffer(memory.data, dtype)
        weakref.finalize(flat, free.append, memory)
        return flat.reshape(shape)

    def _shape(self, node: int) -> tuple[int, ...]:
        """Shape of a node's array, its rows filled up to a vector's length."""
        dims = self.loops.dims[node]
        return tuple(self.rows[axis] if axis == dims[-1] else self.lengths[axis] for axis in dims)

    def _column(self, node: int, values: Any) -> np.ndarray:
        """A column as loops read it: a vector's length from every start on."""
        column = np.atleast_1d(np.ascontiguousarray(values, self.loops.graph.dtype))
        # Loops load whole vectors: columns of short axes are extended by their last value.
        short = [axis for axis in self.loops.inputs[node] if self.lengths[axis] < self.loops.lanes]
        return np.concatenate([column, np.repeat(column[-1:], self.loops.lanes)]) if short else column


class _State:
    """The arrays of one thread, and the positions that they belong to."""

    def __init__(self, bound: Bound):
        loops = bound.loops
        self.bound = bound
        self.starts: tuple[int | None, ...] = (None,) * len(bound.lengths)
        self.table = np.zeros(len(loops.slots), np.int64)
        self.pointers = self.table.ctypes.data, bound.sizes.ctypes.data
        # Addresses of single numbers never move.
        if () in bound.along:
            slots, addresses = bound.along[()]
            self.table[slots] = addresses
        self.arrays: dict[int, np.ndarray] = {}
        # Intermediate arrays are overwritten in every call; outputs are new, since the caller has the old ones.
        intermediate = {node for nest in loops.nests for node in nest.writes}.difference(loops.outputs)
        for node in intermediate:
            self._made(node)
        self.begun = False

    def computed(self, starts: tuple[int, ...]) -> dict[int, Any]:
        """Outputs; loops along axes that have not moved since the last call are not run again."""
        bound, loops = self.bound, self.bound.loops
        moved = {axis for axis, (old, new) in enumerate(zip(self.starts, starts, strict=True)) if old != new}
        moved = moved or set(range(len(starts)))  # who asks for the same again wants it computed
        for axis in moved:
            # Columns begin at the chunk's first position: addresses in B.
            if (axis,) in bound.along:
                slots, addresses = bound.along[(axis,)]
                self.table[slots] = addresses + starts[axis] * loops.graph.dtype.itemsize
        for nest, outputs, function in zip(loops.nests, loops.own_outputs, loops.functions, strict=True):
            # Nests over axes that have not moved would compute the same values again.
            if self.begun and moved.isdisjoint(nest.dims):
                continue
            for node in outputs:  # whoever asked before has the arrays of then
                self._made(node)
            function(*self.pointers)
        self.starts, self.begun = starts, True
        return {node: self._output(node, starts) for node in loops.outputs}

    def _made(self, node: int) -> None:
        self.arrays.pop(node, None)  # its memory may be the next one's
        self.arrays[node] = array = self.bound.array(node)
        self.table[self.bound.loops.slots[node]] = array.__array_interface__["data"][0]

    def _output(self, node: int, starts: tuple[int, ...]) -> Any:
        bound, loops = self.bound, self.bound.loops
        operation = loops.graph.operations[node]
        # An output may be a constant or an input, which no loop computes.
        if operation == "number":
            return np.asarray(loops.graph.value(node))
        dims = loops.dims[node]
        if operation == "input":
            values = np.asarray(bound.values[node])
            return values[starts[dims[0]] : starts[dims[0]] + bound.lengths[dims[0]]] if dims else values
        array = self.arrays[node]
        # The last dimension may be filled up to a vector: the filling is cut off.
        return array[..., : bound.lengths[dims[-1]]] if dims else array


# A function of one point over columns of points, as compiled loops.


def mapped(function: Callable[[list[Any]], Any], columns: Sequence[np.ndarray]) -> Callable[..., Any]:
    """What `jax.vmap(function)` returns, to rounding; from many threads at once if need be.

    Args:
      function: of a list of numbers, one of each column, to a tree of scalars and arrays; pure.
      columns: shapes (points,), of one float type; examples.

    Returns:
      A function of columns of any one length, to a tree of columns: of an array, its dimensions follow the points.

    Raises:
      Unsupported: `function` has an operation that no node of a graph stands for.
    """
    dtype = np.result_type(*columns)
    graph = Graph(dtype)
    inputs = [graph.input() for _ in columns]
    point = [jax.ShapeDtypeStruct((), dtype) for _ in columns]
    nodes, results = opened(graph, function, (point,), (inputs,))
    # All inputs vary along one axis, that of the points.
    outputs = [node for part in jax.tree.leaves(nodes) for node in np.ravel(part).tolist()]
    loops = Loops(graph, dict.fromkeys(inputs, (0,)), outputs)

    def of_columns(columns: Sequence[np.ndarray]) -> Any:
        points = len(columns[0])
        values = Bound(loops, dict(zip(inputs, columns, strict=True)), [points])([0])

        def column(part: Any, result: Any) -> np.ndarray:
            # A result that depends on no input is a single number and is repeated for every point.
            own = np.ravel(part).tolist()
            table = np.empty((points, len(own)), result.dtype)
            for place, node in enumerate(own):
                table[:, place] = values[node]
            return table.reshape(points, *np.shape(part))

        return jax.tree.map(column, nodes, results)

    return of_columns

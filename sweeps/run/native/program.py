"""A job over axes as compiled loops: every operation once for each combination of the positions that it depends on."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxroof.jobs import Scenario
from jaxroof.numerics.arrays import jax
from sweeps.ask.question import Question
from sweeps.run.native.graph import Graph, Value, elementwise, opened, total
from sweeps.run.native.loops import Bound, Loops
from sweeps.run.native.nests import dependence, loop_order
from sweeps.run.points import in_dtype
from sweeps.run.program import Dims, Settings, Terms, groups


class NativeProgram:
    """A question compiled for settings of one structure.

    Attributes, beside those of `sweeps.run.program.XlaProgram`:
      nodes: of every output: one, or one for each op.
      loops: that compute them.
      order: axes from the outermost loop to the innermost.

    Raises:
      Unsupported: the job has an operation that no node of a graph stands for.
    """

    def __init__(self, question: Question, settings: Settings, dtype: np.dtype):
        base = in_dtype(question.base, dtype)
        terms = Terms(question, base, settings, dtype)
        self.order = loop_order([_size(setting) for setting in settings])
        graph = Graph(dtype)
        # A node for every number of the base and of the settings of one point.
        own = jax.tree.map(lambda _: graph.input(), (base, terms.point))
        inputs: dict[int, tuple[int, ...]] = dict.fromkeys(jax.tree.leaves(own[0]), ())
        # Axes are numbered by their place among the loops, from the outermost in.
        for place, axis in enumerate(self.order):
            varies = (leaf.ndim for leaf in jax.tree.leaves(settings[axis]))
            inputs |= zip(jax.tree.leaves(own[1][axis]), ((place,) if v else () for v in varies), strict=True)
        # First the terms of one point, then sums of terms over the same axes.
        term_nodes, traced = opened(graph, terms.terms, (base, terms.point), own)
        along = [frozenset(dims) for dims in dependence(graph, inputs)]
        sums = {name: _parts(graph, along, terms) for name, terms in term_nodes["sums"].items()}
        first = {"sums": sums, "tables": term_nodes["tables"]}
        shapes = {
            "sums": jax.tree.map(lambda value: jax.ShapeDtypeStruct(np.shape(value), dtype), sums),
            "tables": traced["tables"],
        }
        # Metrics take these sums as inputs, so that each sum is computed over as few axes as possible.
        self.nodes, results = opened(graph, terms.answers, (base, terms.point, shapes), (*own, first))
        outputs = [node for nodes in self.nodes.values() for node in np.ravel(nodes).tolist()]
        self._inputs = jax.tree.leaves(own)
        self.loops = Loops(graph, inputs, outputs)
        self.names, self.ops = terms.names, terms.ops
        # Back from places among loops to numbers of the sweep's axes.
        self.dims: dict[str, Dims] = {
            name: frozenset(self.order[place] for node in np.ravel(nodes) for place in self.loops.dims[node])
            for name, nodes in self.nodes.items()
        }
        self.dtypes = {name: np.dtype(result.dtype) for name, result in results.items()}

    def work(self, sizes: Sequence[int]) -> list[int]:
        """Operations, over all points of a sweep, that depend on each axis."""
        operations = [0] * len(sizes)
        for nest in self.loops.nests:
            axes = [self.order[place] for place in nest.dims]
            for axis in axes:
                # Every node of a nest is computed once for each combination of positions along its axes.
                operations[axis] += len(nest.nodes) * math.prod(sizes[other] for other in axes)
        return operations

    def bound(self, base: Scenario, settings: Settings, lengths: Sequence[int]) -> "Chunks":
        """The program over whole axes, to be called for `lengths` positions of each at a time."""
        # Columns in the order of the graph's inputs.
        values = [
            leaf.reshape(-1) if leaf.ndim else leaf for leaf in map(np.asarray, jax.tree.leaves((base, settings)))
        ]
        columns = dict(zip(self._inputs, values, strict=True))
        return Chunks(self, Bound(self.loops, columns, [lengths[axis] for axis in self.order]))


class Chunks:
    """A program over axes of its own.

    Attributes:
      program: that is called.
      columns: values of every input of its loops.
    """

    def __init__(self, program: NativeProgram, bound: Bound):
        self.program, self.columns = program, bound.values
        self._order, self._bound = program.order, bound
        self._outputs = [_Placed(program, name, nodes) for name, nodes in program.nodes.items()]

    def resized(self, lengths: Sequence[int]) -> "Chunks":
        """The same for another number of positions along every axis: the same machine code, hence the same bits."""
        return Chunks(self.program, Bound(self.program.loops, self.columns, [lengths[axis] for axis in self._order]))

    def __call__(self, starts: Sequence[int]) -> dict[str, np.ndarray]:
        """Every output from position `starts` on along every axis; dimensions are its axes in order, then ops."""
        values = self._bound([starts[axis] for axis in self._order])
        return {output.name: output.of(values) for output in self._outputs}


class _Placed:
    """An output over the axes that it depends on, in the sweep's order."""

    def __init__(self, program: NativeProgram, name: str, nodes: Any):
        self.name, self._stacked, self._dtype = name, np.ndim(nodes) > 0, program.dtypes[name]
        dims = {node: program.loops.dims[node] for node in np.ravel(nodes).tolist()}
        places = sorted(set().union(*dims.values()))
        # Loops give dimensions in their own order; transposition restores the sweep's.
        self._turned = np.argsort([program.order[place] for place in places]).tolist()
        self._parts = [
            # A new axis of size 1 where this part does not vary but another one does.
            (node, tuple(slice(None) if place in own else None for place in places))
            for node, own in dims.items()
        ]
        self._nodes = np.ravel(nodes).tolist()

    def of(self, found: dict[int, np.ndarray]) -> np.ndarray:
        """The output, from the values of nodes."""
        arrays = {node: found[node][index].transpose(self._turned) for node, index in self._parts}
        if not self._stacked:
            return arrays[self._nodes[0]].astype(self._dtype, copy=False)
        shape = np.broadcast_shapes(*(array.shape for array in arrays.values()))
        table = np.empty((len(self._nodes), *shape), self._dtype)  # op by op, which copies whole rows
        for row, node in zip(table, self._nodes, strict=True):
            row[...] = arrays[node]
        return np.moveaxis(table, 0, -1)


def _size(setting: dict[str, Any]) -> int:
    return max((len(leaf) for leaf in jax.tree.leaves(setting) if leaf.ndim), default=1)


def _parts(graph: Graph, along: list[Dims], terms: dict[str, Value]) -> list[Value]:
    """Sums of the terms that depend on the same axes."""
    # A term may be an array: it depends on whatever any of its elements depends on.
    dims = {op: frozenset().union(*(along[node] for node in np.ravel(value))) for op, value in terms.items()}
    floats = {op: elementwise(lambda node: graph.converted(node, "f"), [value]) for op, value in terms.items()}
    return [total(graph, [floats[op] for op in terms if dims[op] == own]) for own in groups(dims)]

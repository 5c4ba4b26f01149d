"""A function of one point over columns of points, as compiled loops."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from sweeps.run.native.graph import Graph, opened
from sweeps.run.native.loops import Bound, Loops


def mapped(function: Callable[[list[Any]], Any], columns: Sequence[np.ndarray]) -> Callable[..., Any]:
    """What `jax.vmap(function)` returns, to rounding; from many threads at once if need be.

    Args:
      function: of a list of numbers, one of each column, to a tree of scalars; pure.
      columns: shapes (points,), of one float type; examples.

    Returns:
      A function of columns of any one length, to a tree of columns.

    Raises:
      Unsupported: `function` has an operation that no node of a graph stands for.
    """
    dtype = np.result_type(*columns)
    graph = Graph(dtype)
    inputs = [graph.input() for _ in columns]
    point = [jax.ShapeDtypeStruct((), dtype) for _ in columns]
    nodes, results = opened(graph, function, (point,), (inputs,))
    loops = Loops(graph, dict.fromkeys(inputs, (0,)), jax.tree.leaves(nodes))

    def of_columns(columns: Sequence[np.ndarray]) -> Any:
        points = len(columns[0])
        found = Bound(loops, dict(zip(inputs, columns, strict=True)), [points])([0])
        return jax.tree.map(
            lambda node, result: np.broadcast_to(found[node], points).astype(result.dtype, copy=False), nodes, results
        )

    return of_columns

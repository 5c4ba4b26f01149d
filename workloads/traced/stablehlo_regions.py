"""Operations of StableHLO that run a function of their own, and those that read and write by indices, in JAX.

Source: openxla/stablehlo, docs/spec.md.
"""

from typing import Any

import jax
import numpy as np
from jax import lax
from jaxlib.mlir.dialects import stablehlo as dialect

from workloads.traced.stablehlo_ops import Handler, array_of, numbers, padding, word

IN_BOUNDS = lax.GatherScatterMode.PROMISE_IN_BOUNDS

REDUCED = {
    **{"add": lax.reduce_sum, "maximum": lax.reduce_max, "minimum": lax.reduce_min, "multiply": lax.reduce_prod},
    **{"and": lax.reduce_and, "or": lax.reduce_or, "xor": lax.reduce_xor},
}
"""Operation of a reduction's body -> the reduction."""

RUNNING = {"add": lax.cumsum, "maximum": lax.cummax, "minimum": lax.cummin, "multiply": lax.cumprod}

WINDOWED = {"add": (lax.add, 0), "maximum": (lax.max, -np.inf), "minimum": (lax.min, np.inf)}
"""Operation of a window's body -> its function, and what it starts from."""

SCATTERED = {
    **{"add": lax.scatter_add, "multiply": lax.scatter_mul, "maximum": lax.scatter_max},
    **{"minimum": lax.scatter_min, "": lax.scatter},
}
"""Operation of a scatter's body, or none -> the scatter."""


def known(table: dict[str, Any], op: Any) -> Any:
    """The entry of a table for the one operation that an operation's region does of its two arguments; that for ""
    where it returns the second. ValueError in one line where there is none.
    """
    *work, last = op.regions[0].blocks[0].operations
    if not work and last.operands[0] == op.regions[0].blocks[0].arguments[1]:
        name = ""
    elif len(work) == 1 and last.operands[0] == work[0].operation.results[0]:
        name = work[0].operation.name.rpartition(".")[2]
    else:
        raise ValueError(f"{op.name} with a function of {len(work)} operations is not known: one is")
    if name not in table:
        raise ValueError(f"{op.name} with {name or 'a replacement'} is not known: {', '.join(filter(None, table))} are")
    return table[name]


def _reduce(op: Any, *operands: Any) -> list:
    """One array; or one with its places, of which the largest's or smallest's is wanted."""
    arrays, axes = operands[: len(operands) // 2], numbers(op, "dimensions")
    if len(arrays) == 1:
        return [known(REDUCED, op)(arrays[0], axes)]
    first = op.regions[0].blocks[0].operations[0].operation
    if len(arrays) == 2 and len(axes) == 1 and first.name == "stablehlo.compare":
        least = word(first, "comparison_direction") in ("LT", "LE")
        found, place = (lax.reduce_min, lax.argmin) if least else (lax.reduce_max, lax.argmax)
        return [found(arrays[0], axes), place(arrays[0], axes[0], array_of(op.results[1]).dtype)]
    raise ValueError(f"a reduction of {len(arrays)} arrays at once is not known")


def _reduce_window(op: Any, *operands: Any) -> Any:
    """A window that begins with the array and ends at each element is a running sum."""
    if len(operands) != 2:
        raise ValueError(f"a reduction of {len(operands) // 2} arrays at once in windows is not known")
    array, sizes = operands[0], numbers(op, "window_dimensions")
    ones, edges = (1,) * len(sizes), padding(op, len(sizes))
    names = "window_strides", "base_dilations", "window_dilations"
    strides, base, window = (numbers(op, name, ones) for name in names)
    wide = [axis for axis, size in enumerate(sizes) if size > 1]
    if len(wide) == 1 and strides == base == window == ones:
        axis, length = wide[0], array.shape[wide[0]]
        if sizes[axis] == length and edges[axis] in ((length - 1, 0), (0, length - 1)):
            return known(RUNNING, op)(array, axis, reverse=edges[axis][0] == 0)
    function, start = known(WINDOWED, op)
    return lax.reduce_window(array, _limit(array.dtype, start), function, sizes, strides, edges, base, window)


def _limit(dtype: Any, start: float) -> Any:
    """0, or the least or largest number of a type for an infinite `start`."""
    if np.issubdtype(dtype, np.integer) and start:
        return np.iinfo(dtype).min if start < 0 else np.iinfo(dtype).max
    return np.dtype(dtype).type(start)


def _select_and_scatter(op: Any, array: Any, source: Any, _: Any) -> Any:
    """The gradient of a maximum in windows."""
    ones = (1,) * len(array.shape)
    sizes, strides = (numbers(op, name, ones) for name in ("window_dimensions", "window_strides"))

    def largest(array: Any) -> Any:
        edges = padding(op, len(ones))
        return lax.reduce_window(array, _limit(array.dtype, -np.inf), lax.max, sizes, strides, edges)

    return list(jax.vjp(largest, array)[1](source))


def _gather(op: Any, array: Any, indices: Any) -> Any:
    at = dialect.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    axes = lax.GatherDimensionNumbers(*(tuple(getattr(at, name)) for name in lax.GatherDimensionNumbers._fields))
    return lax.gather(array, _vector_last(indices, at), axes, numbers(op, "slice_sizes"), mode=IN_BOUNDS)


def _vector_last(indices: Any, at: Any) -> Any:
    """Indices whose vectors are along the last axis, as JAX has them."""
    axis, rank = at.index_vector_dim, len(indices.shape)
    if axis == rank:
        return lax.expand_dims(indices, (rank,))
    return indices if axis == rank - 1 else jax.numpy.moveaxis(indices, axis, -1)


def _scatter(op: Any, *operands: Any) -> Any:
    if len(operands) != 3:
        raise ValueError(f"a scatter of {len(operands) // 2} arrays at once is not known")
    at = dialect.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    axes = lax.ScatterDimensionNumbers(
        update_window_dims=tuple(at.update_window_dims),
        inserted_window_dims=tuple(at.inserted_window_dims),
        scatter_dims_to_operand_dims=tuple(at.scattered_dims_to_operand_dims),
        operand_batching_dims=tuple(at.input_batching_dims),
        scatter_indices_batching_dims=tuple(at.scatter_indices_batching_dims),
    )
    array, indices, updates = operands
    return known(SCATTERED, op)(array, _vector_last(indices, at), updates, axes, mode=IN_BOUNDS)


REGIONS: dict[str, Handler] = {
    "reduce": _reduce,
    "reduce_window": _reduce_window,
    "select_and_scatter": _select_and_scatter,
    "gather": _gather,
    "scatter": _scatter,
}
"""Operation without its dialect -> what it does."""

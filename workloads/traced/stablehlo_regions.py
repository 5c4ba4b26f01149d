"""Operations of StableHLO that run a function of their own, and those that read and write by indices, in JAX.

Source: openxla/stablehlo, docs/spec.md.
"""

from typing import Any

import jax
import numpy as np
from jax import lax
from jaxlib.mlir.dialects import stablehlo as dialect

from workloads.traced.stablehlo_ops import Handler, element_type, ints, named

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


def body_operation(op: Any) -> str:
    """The one operation that an operation's region does of its two arguments; "" where it returns the second."""
    *work, last = op.regions[0].blocks[0].operations
    first = work[0].operation if work else None
    if first is None and last.operands[0] == op.regions[0].blocks[0].arguments[1]:
        return ""
    if len(work) == 1 and last.operands[0] == first.results[0]:
        return first.name.rpartition(".")[2]
    raise ValueError(f"{op.name} with a function of {len(work)} operations is not known: one is")


def known(table: dict[str, Any], op: Any) -> Any:
    """The entry of a table for what an operation's region does; ValueError in one line where there is none."""
    name = body_operation(op)
    if name not in table:
        raise ValueError(f"{op.name} with {name or 'a replacement'} is not known: {', '.join(filter(None, table))} are")
    return table[name]


def _reduce(op: Any, operands: list) -> list:
    """One array; or one with its places, of which the largest's or smallest's is wanted."""
    arrays, axes = operands[: len(operands) // 2], ints(op.attributes["dimensions"])
    if len(arrays) == 1:
        return [known(REDUCED, op)(arrays[0], axes)]
    first = op.regions[0].blocks[0].operations[0].operation
    if len(arrays) == 2 and len(axes) == 1 and first.name == "stablehlo.compare":
        least = any(word in str(first.attributes["comparison_direction"]) for word in ("LT", "LE"))
        found, place = (lax.reduce_min, lax.argmin) if least else (lax.reduce_max, lax.argmax)
        return [found(arrays[0], axes), place(arrays[0], axes[0], element_type(op.results[1]))]
    raise ValueError(f"a reduction of {len(arrays)} arrays at once is not known")


def _reduce_window(op: Any, operands: list) -> list:
    """A window that begins with the array and ends at each element is a running sum."""
    if len(operands) != 2:
        raise ValueError(f"a reduction of {len(operands) // 2} arrays at once in windows is not known")
    array, sizes, rank = operands[0], ints(op.attributes["window_dimensions"]), len(np.shape(operands[0]))
    ones, edges = (1,) * rank, ints(named(op, "padding", (0,) * (2 * rank)))
    padding = tuple(zip(edges[::2], edges[1::2], strict=True))
    strides, base, window = (
        ints(named(op, name, ones)) for name in ("window_strides", "base_dilations", "window_dilations")
    )
    wide = [axis for axis, size in enumerate(sizes) if size > 1]
    if len(wide) == 1 and strides == base == window == ones and sizes[wide[0]] == np.shape(array)[wide[0]]:
        (axis,), length = wide, sizes[wide[0]]
        if padding[axis] in ((length - 1, 0), (0, length - 1)):
            return [known(RUNNING, op)(array, axis, reverse=padding[axis][0] == 0)]
    function, start = known(WINDOWED, op)
    start = _limit(array.dtype, start) if start else np.zeros((), array.dtype)[()]
    return [lax.reduce_window(array, start, function, sizes, strides, padding, base, window)]


def _limit(dtype: Any, start: float) -> Any:
    if np.issubdtype(dtype, np.integer):
        return np.iinfo(dtype).min if start < 0 else np.iinfo(dtype).max
    return np.dtype(dtype).type(start)


def _select_and_scatter(op: Any, operands: list) -> list:
    """The gradient of a maximum in windows."""
    array, source, _ = operands
    rank = len(np.shape(array))
    edges = ints(named(op, "padding", (0,) * (2 * rank)))
    padding = tuple(zip(edges[::2], edges[1::2], strict=True))
    sizes, strides = (ints(named(op, name, (1,) * rank)) for name in ("window_dimensions", "window_strides"))
    _, gradient = jax.vjp(
        lambda array: lax.reduce_window(array, _limit(array.dtype, -np.inf), lax.max, sizes, strides, padding), array
    )
    return list(gradient(source))


def _sort(op: Any, operands: list) -> list:
    return list(lax.sort(tuple(operands), dimension=int(op.attributes["dimension"]), num_keys=1))


def _top_k(op: Any, operands: list) -> list:
    return list(lax.top_k(operands[0], int(op.attributes["k"])))


def _gather(op: Any, operands: list) -> list:
    at = dialect.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    numbers = lax.GatherDimensionNumbers(
        offset_dims=tuple(at.offset_dims),
        collapsed_slice_dims=tuple(at.collapsed_slice_dims),
        start_index_map=tuple(at.start_index_map),
        operand_batching_dims=tuple(at.operand_batching_dims),
        start_indices_batching_dims=tuple(at.start_indices_batching_dims),
    )
    indices = _vector_last(operands[1], at.index_vector_dim)
    return [lax.gather(operands[0], indices, numbers, ints(op.attributes["slice_sizes"]), mode=IN_BOUNDS)]


def _vector_last(indices: Any, axis: int) -> Any:
    """Indices whose vectors are along the last axis, as JAX has them."""
    rank = len(np.shape(indices))
    if axis == rank:
        return lax.expand_dims(indices, (rank,))
    return indices if axis == rank - 1 else jax.numpy.moveaxis(indices, axis, -1)


def _scatter(op: Any, operands: list) -> list:
    if len(operands) != 3:
        raise ValueError(f"a scatter of {len(operands) // 2} arrays at once is not known")
    at = dialect.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=tuple(at.update_window_dims),
        inserted_window_dims=tuple(at.inserted_window_dims),
        scatter_dims_to_operand_dims=tuple(at.scattered_dims_to_operand_dims),
        operand_batching_dims=tuple(at.input_batching_dims),
        scatter_indices_batching_dims=tuple(at.scatter_indices_batching_dims),
    )
    indices = _vector_last(operands[1], at.index_vector_dim)
    return [known(SCATTERED, op)(operands[0], indices, operands[2], numbers, mode=IN_BOUNDS)]


REGIONS: dict[str, Handler] = {
    "reduce": _reduce,
    "reduce_window": _reduce_window,
    "select_and_scatter": _select_and_scatter,
    "sort": _sort,
    "top_k": _top_k,
    "gather": _gather,
    "scatter": _scatter,
}
"""Operation without its dialect -> what it does."""

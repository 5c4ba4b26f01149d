"""Operations of StableHLO and CHLO as the JAX primitives that they stand for.

Source: openxla/stablehlo, docs/spec.md.
"""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from jax import lax
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import chlo
from jaxlib.mlir.dialects import stablehlo as dialect

from jaxroof.numerics.arrays import jax

Handler = Callable[..., Any]
"""An operation and its operands -> its result, or a list of its results."""

ELEMENTWISE = {
    **{name: getattr(lax, name) for name in ("abs", "add", "atan2", "cbrt", "ceil", "complex", "floor", "imag", "log")},
    **{name: getattr(lax, name) for name in ("is_finite", "logistic", "real", "rsqrt", "sign", "sqrt", "tan", "tanh")},
    **{name: getattr(lax, name) for name in ("shift_left", "shift_right_arithmetic", "shift_right_logical", "sin")},
    **{name: getattr(lax, name) for name in ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "sinh")},
    **{name: getattr(lax, name) for name in ("conj", "digamma", "erf", "erfc", "erf_inv", "lgamma", "polygamma")},
    **{name: getattr(lax, name) for name in ("bessel_i1e", "square", "zeta")},
    **{"and": lax.bitwise_and, "or": lax.bitwise_or, "xor": lax.bitwise_xor, "not": lax.bitwise_not},
    **{"divide": lax.div, "maximum": lax.max, "minimum": lax.min, "multiply": lax.mul, "remainder": lax.rem},
    **{"subtract": lax.sub, "negate": lax.neg, "cosine": lax.cos, "sine": lax.sin, "next_after": lax.nextafter},
    **{"exponential": lax.exp, "exponential_minus_one": lax.expm1, "log_plus_one": lax.log1p},
    **{"popcnt": lax.population_count, "count_leading_zeros": lax.clz},
    **{"round_nearest_afz": lax.round, "round_nearest_even": lax.round},
}
"""Operation -> the function of `jax.lax`; those of CHLO broadcast first (`broadcast_add`)."""

COMPARED = {"EQ": lax.eq, "NE": lax.ne, "LT": lax.lt, "LE": lax.le, "GT": lax.gt, "GE": lax.ge}

LARGEST_POWER = 64
"""Whole exponents up to which a power is products."""

TYPES = {"i1": "bool", "bf16": "bfloat16", "complex<f32>": "complex64", "complex<f64>": "complex128"}
"""Type of elements -> its name in JAX, where that is no longer form of the same."""


def array_of(value: Any) -> jax.ShapeDtypeStruct:
    """Shape and type of a tensor; ValueError in one line where its sizes are not known, or JAX has no such type."""
    kind = ir.RankedTensorType(value.type)
    if not kind.has_static_shape:
        raise ValueError(f"the tensor {value.type} has sizes that are not known: lower the model for given sizes")
    text = str(kind.element_type)
    # ui8 is uint8, f32 is float32, f8E4M3FN is float8_e4m3fn
    longer = re.sub(r"^(u?i)(?=\d)", r"\1nt", re.sub(r"^f(?=\d)", "float", text)).replace("E", "_E").lower()
    try:
        return jax.ShapeDtypeStruct(tuple(kind.shape), jax.numpy.dtype(TYPES.get(text, longer)))
    except TypeError:
        raise ValueError(f"nothing is known of tensors of {text}") from None


def made(op: Any) -> jax.ShapeDtypeStruct:
    """Shape and type of an operation's first result."""
    return array_of(op.results[0])


def number(op: Any, name: str) -> int:
    """An attribute that is one whole number."""
    return int(op.attributes[name])


def numbers(op: Any, name: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
    """Whole numbers of an attribute, a tensor's row after row; `default` where the operation has none."""
    if default is not None and name not in op.attributes:
        return default
    attribute = op.attributes[name]
    flat = np.array(attribute).reshape(-1) if isinstance(attribute, ir.DenseElementsAttr) else attribute
    return tuple(map(int, flat))


def padding(op: Any, axes: int) -> tuple[tuple[int, int], ...]:
    """What is added before and after the array along every axis."""
    edges = numbers(op, "padding", (0, 0) * axes)
    return tuple(zip(edges[::2], edges[1::2], strict=True))


def word(op: Any, name: str) -> str:
    """An attribute that is one of a few words."""
    return str(op.attributes[name]).rpartition(" ")[2].rstrip(">")


def is_stored(op: Any) -> bool:
    """Whether an operation is a constant that is read from memory when the model runs: an array of numbers that are no
    masks and no indices, such as weights.
    """
    if op.name != "stablehlo.constant":
        return False
    value, array = op.attributes["value"], made(op)
    if isinstance(value, ir.DenseElementsAttr):
        # Indices and masks stay constants, as their values decide shapes and patterns.
        known = array.dtype == np.bool_ or (np.issubdtype(array.dtype, np.integer) and array.dtype.itemsize >= 4)
        return not (value.is_splat or known)
    return bool(array.shape)


def _constant(op: Any) -> Any:
    """One number everywhere, or those of a mask or of indices."""
    value, array = op.attributes["value"], made(op)
    if isinstance(value, ir.DenseElementsAttr) and not value.is_splat:
        return np.array(value).astype(array.dtype).reshape(array.shape)
    one = value.get_splat_value() if isinstance(value, ir.DenseElementsAttr) else None
    with np.errstate(all="ignore"):
        scalar = array.dtype.type(getattr(one, "value", 0))
    return lax.full(array.shape, scalar) if array.shape else scalar


def _power(op: Any, base: Any, exponent: Any) -> Any:
    """A constant whole power is products; another one a logarithm and an exponential."""
    # Through broadcasts to the constant exponent, if it is one.
    maker = op.operands[1].owner
    while getattr(maker, "name", "") == "stablehlo.broadcast_in_dim":
        maker = maker.operands[0].owner
    value = maker.attributes["value"] if getattr(maker, "name", "") == "stablehlo.constant" else None
    if isinstance(value, ir.DenseElementsAttr) and value.is_splat:
        power = getattr(value.get_splat_value(), "value", None)
        if power is not None and abs(power) <= LARGEST_POWER and power == int(power):
            return lax.integer_pow(base, int(power))
    return lax.pow(base, exponent)


def _accuracy(op: Any) -> dict[str, Any]:
    """How a product is asked to run: in the highest precision of its operands'."""
    highest = "precision_config" in op.attributes and "HIGHEST" in str(op.attributes["precision_config"])
    return {"precision": lax.Precision.HIGHEST if highest else None, "preferred_element_type": made(op).dtype}


def _dimensions(at: Any) -> Any:
    """Axes that a product sums over, and those that both operands share."""
    over = tuple(at.lhs_contracting_dimensions), tuple(at.rhs_contracting_dimensions)
    return over, (tuple(at.lhs_batching_dimensions), tuple(at.rhs_batching_dimensions))


def _dot_general(op: Any, left: Any, right: Any) -> Any:
    at = dialect.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    return lax.dot_general(left, right, _dimensions(at), **_accuracy(op))


def _dot(op: Any, left: Any, right: Any) -> Any:
    return lax.dot_general(left, right, (((len(left.shape) - 1,), (0,)), ((), ())), **_accuracy(op))


def _ragged_dot(op: Any, left: Any, right: Any, sizes: Any) -> Any:
    at = chlo.RaggedDotDimensionNumbers(op.attributes["ragged_dot_dimension_numbers"])
    ragged, group = tuple(at.lhs_ragged_dimensions), tuple(at.rhs_group_dimensions)
    axes = lax.RaggedDotDimensionNumbers(_dimensions(at), ragged, group)
    return lax.ragged_dot_general(left, right, sizes, axes, **_accuracy(op))


def _convolution(op: Any, array: Any, kernel: Any) -> Any:
    at = dialect.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    ones = (1,) * len(at.input_spatial_dimensions)
    return lax.conv_general_dilated(
        array,
        kernel,
        window_strides=numbers(op, "window_strides", ones),
        padding=padding(op, len(ones)),
        lhs_dilation=numbers(op, "lhs_dilation", ones),
        rhs_dilation=numbers(op, "rhs_dilation", ones),
        dimension_numbers=lax.ConvDimensionNumbers(
            (at.input_batch_dimension, at.input_feature_dimension, *at.input_spatial_dimensions),
            (at.kernel_output_feature_dimension, at.kernel_input_feature_dimension, *at.kernel_spatial_dimensions),
            (at.output_batch_dimension, at.output_feature_dimension, *at.output_spatial_dimensions),
        ),
        feature_group_count=number(op, "feature_group_count"),
        batch_group_count=number(op, "batch_group_count"),
        **_accuracy(op),
    )


def _batch_norm(op: Any, array: Any, *rows: Any) -> Any:
    axis = number(op, "feature_index")
    scale, shift, mean, variance = (lax.broadcast_in_dim(each, array.shape, (axis,)) for each in rows)
    small = lax.full(array.shape, float(op.attributes["epsilon"].value), array.dtype)
    return lax.add(lax.mul(lax.mul(lax.sub(array, mean), lax.rsqrt(lax.add(variance, small))), scale), shift)


def _triangular_solve(op: Any, triangle: Any, right: Any) -> Any:
    return lax.linalg.triangular_solve(triangle, right, left_side=bool(op.attributes["left_side"].value))


def _random_bits(op: Any, state: Any) -> list[Any]:
    bits = array_of(op.results[1])
    return list(lax.rng_bit_generator(state, bits.shape, bits.dtype))


SLICED = ("start_indices", "limit_indices", "strides")
PADDED = ("edge_padding_low", "edge_padding_high", "interior_padding")

OPERATIONS: dict[str, Handler] = {
    "constant": _constant,
    "iota": lambda op: lax.broadcasted_iota(made(op).dtype, made(op).shape, number(op, "iota_dimension")),
    "convert": lambda op, x: lax.convert_element_type(x, made(op).dtype),
    "bitcast_convert": lambda op, x: lax.bitcast_convert_type(x, made(op).dtype),
    "broadcast_in_dim": lambda op, x: lax.broadcast_in_dim(x, made(op).shape, numbers(op, "broadcast_dimensions")),
    "reshape": lambda op, x: lax.reshape(x, made(op).shape),
    "transpose": lambda op, x: lax.transpose(x, numbers(op, "permutation")),
    "reverse": lambda op, x: lax.rev(x, numbers(op, "dimensions")),
    "slice": lambda op, x: lax.slice(x, *(numbers(op, name) for name in SLICED)),
    "concatenate": lambda op, *x: lax.concatenate(x, number(op, "dimension")),
    "pad": lambda op, x, value: lax.pad(x, value, tuple(zip(*(numbers(op, name) for name in PADDED), strict=True))),
    "select": lambda op, *x: lax.select(*x),
    "clamp": lambda op, *x: lax.clamp(*x),
    "compare": lambda op, *x: COMPARED[word(op, "comparison_direction")](*x),
    "power": _power,
    "reduce_precision": lambda op, x: lax.reduce_precision(x, number(op, "exponent_bits"), number(op, "mantissa_bits")),
    "dot_general": _dot_general,
    "dot": _dot,
    "ragged_dot": _ragged_dot,
    "convolution": _convolution,
    "dynamic_slice": lambda op, x, *starts: lax.dynamic_slice(
        x, starts, numbers(op, "slice_sizes"), allow_negative_indices=False
    ),
    "dynamic_update_slice": lambda op, x, update, *starts: lax.dynamic_update_slice(
        x, update, starts, allow_negative_indices=False
    ),
    "batch_norm_inference": _batch_norm,
    "fft": lambda op, x: lax.fft(x, word(op, "fft_type"), numbers(op, "fft_length")),
    "cholesky": lambda op, x: lax.linalg.cholesky(x, symmetrize_input=False),
    "triangular_solve": _triangular_solve,
    "rng_bit_generator": _random_bits,
    "optimization_barrier": lambda op, *x: list(lax.optimization_barrier(x)),
    "sort": lambda op, *x: list(lax.sort(x, dimension=number(op, "dimension"), num_keys=1)),
    "top_k": lambda op, x: list(lax.top_k(x, number(op, "k"))),
}
"""Operation without its dialect -> what it does."""


# Operations of StableHLO that run a function of their own, and those that read and write by indices, in JAX.


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
    # A region with one operation of its two arguments is a known reduction.
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


def _reduce(op: Any, *operands: Any) -> list[Any]:
    """One array; or one with its places, of which the largest's or smallest's is wanted."""
    arrays, axes = operands[: len(operands) // 2], numbers(op, "dimensions")
    if len(arrays) == 1:
        return [known(REDUCED, op)(arrays[0], axes)]
    first = op.regions[0].blocks[0].operations[0].operation
    if len(arrays) == 2 and len(axes) == 1 and first.name == "stablehlo.compare":
        # argmax and argmin come as a reduction of two arrays with a comparison in its body.
        least = word(first, "comparison_direction") in ("LT", "LE")
        extreme, place = (lax.reduce_min, lax.argmin) if least else (lax.reduce_max, lax.argmax)
        return [extreme(arrays[0], axes), place(arrays[0], axes[0], array_of(op.results[1]).dtype)]
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
    # A cumulative sum is lowered to a window over everything before each element.
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

    # The derivative of the windowed maximum is exactly this operation.
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

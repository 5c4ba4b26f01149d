"""Operations of StableHLO and CHLO as the JAX primitives that they stand for.

Source: openxla/stablehlo, docs/spec.md.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import chlo
from jaxlib.mlir.dialects import stablehlo as dialect

Handler = Callable[[Any, list], list]
"""An operation and its operands -> its results."""

UNARY = {
    **{name: getattr(lax, name) for name in ("abs", "cbrt", "ceil", "floor", "imag", "is_finite", "log", "logistic")},
    **{name: getattr(lax, name) for name in ("real", "rsqrt", "sign", "sqrt", "tan", "tanh", "sin", "cos")},
    **{"cosine": lax.cos, "sine": lax.sin, "exponential": lax.exp, "exponential_minus_one": lax.expm1},
    **{"log_plus_one": lax.log1p, "negate": lax.neg, "not": lax.bitwise_not, "popcnt": lax.population_count},
    **{"count_leading_zeros": lax.clz, "round_nearest_afz": lax.round, "round_nearest_even": lax.round},
    **{name: getattr(lax, name) for name in ("acos", "acosh", "asin", "asinh", "atan", "atanh", "sinh", "cosh", "erf")},
    **{name: getattr(lax, name) for name in ("erfc", "erf_inv", "lgamma", "digamma", "conj", "square")},
    "bessel_i1e": lax.bessel_i1e,
}
"""Operation of one operand -> the function of `jax.lax`."""

BINARY = {
    **{"add": lax.add, "atan2": lax.atan2, "complex": lax.complex, "divide": lax.div, "maximum": lax.max},
    **{"minimum": lax.min, "multiply": lax.mul, "remainder": lax.rem, "subtract": lax.sub},
    **{"shift_left": lax.shift_left, "shift_right_arithmetic": lax.shift_right_arithmetic},
    **{"shift_right_logical": lax.shift_right_logical, "next_after": lax.nextafter},
    **{"and": lax.bitwise_and, "or": lax.bitwise_or, "xor": lax.bitwise_xor, "zeta": lax.zeta},
    **{"polygamma": lax.polygamma},
}
"""Operation of two operands -> the function of `jax.lax`; those of CHLO broadcast first (`broadcast_add`)."""

LARGEST_POWER = 64
"""Whole exponents up to which a power is products."""

COMPARED = {"EQ": lax.eq, "NE": lax.ne, "LT": lax.lt, "LE": lax.le, "GT": lax.gt, "GE": lax.ge}

OPERATIONS: dict[str, Handler] = {}
"""Operation without its dialect -> what it does."""


def operation(*names: str) -> Callable[[Handler], Handler]:
    """Decorator of the function that does operations of these names."""

    def declared(function: Handler) -> Handler:
        OPERATIONS.update(dict.fromkeys(names, function))
        return function

    return declared


def dtype_of(kind: Any) -> np.dtype:
    """The type of a tensor's elements; ValueError in one line for one that JAX does not have."""
    text = str(kind)
    if text.startswith("complex<"):
        return np.dtype("complex64" if "f32" in text else "complex128")
    names = {"f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16", "i1": "bool"}
    name = names.get(text) or (f"float{text[1:].lower()}" if text.startswith("f") else None)
    if name is None:
        name = f"int{text[1:]}" if text.startswith("i") else f"uint{text[2:]}" if text.startswith("ui") else text
    name = {"float8e4m3fn": "float8_e4m3fn", "float8e5m2": "float8_e5m2", "float4e2m1fn": "float4_e2m1fn"}.get(
        name, name
    )
    try:
        return jax.numpy.dtype(name)
    except TypeError:
        raise ValueError(f"nothing is known of tensors of {text}") from None


def shape_of(value: Any) -> tuple[int, ...]:
    """Sizes of a tensor; ValueError in one line where they are not known."""
    kind = ir.RankedTensorType(value.type)
    if not kind.has_static_shape:
        raise ValueError(f"the tensor {value.type} has sizes that are not known: lower the model for given sizes")
    return tuple(kind.shape)


def element_type(value: Any) -> np.dtype:
    """Type of the elements of a tensor."""
    return dtype_of(ir.RankedTensorType(value.type).element_type)


def ints(attribute: Any) -> tuple[int, ...]:
    """Whole numbers of an attribute, a tensor's row after row."""
    if isinstance(attribute, ir.DenseElementsAttr):
        return tuple(int(number) for number in np.array(attribute).reshape(-1))
    return tuple(int(number) for number in attribute)


def named(op: Any, name: str, default: Any = None) -> Any:
    """An attribute of an operation, or what stands for it where it has none."""
    return op.attributes[name] if name in op.attributes else default


def is_stored(op: Any) -> bool:
    """Whether an operation is a constant that is read from memory when the model runs: an array of numbers that are no
    masks and no indices, such as weights.
    """
    if op.name != "stablehlo.constant":
        return False
    value, dtype = op.attributes["value"], element_type(op.results[0])
    if isinstance(value, ir.DenseElementsAttr):
        known = dtype == np.bool_ or (np.issubdtype(dtype, np.integer) and dtype.itemsize >= 4)
        return not (value.is_splat or known)
    return bool(shape_of(op.results[0]))


@operation("constant")
def _constant(op: Any, _: list) -> list:
    """One number everywhere, or those of a mask or of indices."""
    value, result = op.attributes["value"], op.results[0]
    shape, dtype = shape_of(result), element_type(result)
    if isinstance(value, ir.DenseElementsAttr) and not value.is_splat:
        return [np.array(value).astype(dtype).reshape(shape)]
    number = value.get_splat_value() if isinstance(value, ir.DenseElementsAttr) else None
    with np.errstate(all="ignore"):
        scalar = dtype.type(getattr(number, "value", 0))
    return [scalar if not shape else lax.full(shape, scalar)]


@operation("iota")
def _iota(op: Any, _: list) -> list:
    (result,) = op.results
    return [lax.broadcasted_iota(element_type(result), shape_of(result), int(op.attributes["iota_dimension"]))]


@operation("convert")
def _convert(op: Any, operands: list) -> list:
    return [lax.convert_element_type(operands[0], element_type(op.results[0]))]


@operation("bitcast_convert")
def _bitcast(op: Any, operands: list) -> list:
    return [lax.bitcast_convert_type(operands[0], element_type(op.results[0]))]


@operation("broadcast_in_dim")
def _broadcast(op: Any, operands: list) -> list:
    return [lax.broadcast_in_dim(operands[0], shape_of(op.results[0]), ints(op.attributes["broadcast_dimensions"]))]


@operation("reshape")
def _reshape(op: Any, operands: list) -> list:
    return [lax.reshape(operands[0], shape_of(op.results[0]))]


@operation("transpose")
def _transpose(op: Any, operands: list) -> list:
    return [lax.transpose(operands[0], ints(op.attributes["permutation"]))]


@operation("reverse")
def _reverse(op: Any, operands: list) -> list:
    return [lax.rev(operands[0], ints(op.attributes["dimensions"]))]


@operation("slice")
def _slice(op: Any, operands: list) -> list:
    return [
        lax.slice(operands[0], *(ints(op.attributes[name]) for name in ("start_indices", "limit_indices", "strides")))
    ]


@operation("concatenate")
def _concatenate(op: Any, operands: list) -> list:
    return [lax.concatenate(operands, int(op.attributes["dimension"]))]


@operation("pad")
def _pad(op: Any, operands: list) -> list:
    edges = (ints(op.attributes[name]) for name in ("edge_padding_low", "edge_padding_high", "interior_padding"))
    array, value = operands
    return [lax.pad(array, value, tuple(zip(*edges, strict=True)))]


@operation("select")
def _select(op: Any, operands: list) -> list:
    return [lax.select(*operands)]


@operation("clamp")
def _clamp(op: Any, operands: list) -> list:
    return [lax.clamp(*operands)]


@operation("compare", "broadcast_compare")
def _compare(op: Any, operands: list) -> list:
    direction = str(op.attributes["comparison_direction"]).rpartition(" ")[2].rstrip(">")
    return [COMPARED[direction](*operands)]


@operation("power")
def _power(op: Any, operands: list) -> list:
    """A constant whole power is products; another one a logarithm and an exponential."""
    exponent = op.operands[1].owner
    while getattr(exponent, "name", "") == "stablehlo.broadcast_in_dim":
        exponent = exponent.operands[0].owner
    value = named(exponent, "value") if getattr(exponent, "name", "") == "stablehlo.constant" else None
    if isinstance(value, ir.DenseElementsAttr) and value.is_splat:
        number = getattr(value.get_splat_value(), "value", None)
        if number is not None and abs(number) <= LARGEST_POWER and number == int(number):
            return [lax.integer_pow(operands[0], int(number))]
    return [lax.pow(*operands)]


@operation("reduce_precision")
def _reduce_precision(op: Any, operands: list) -> list:
    return [lax.reduce_precision(operands[0], int(op.attributes["exponent_bits"]), int(op.attributes["mantissa_bits"]))]


@operation("dot_general")
def _dot_general(op: Any, operands: list) -> list:
    numbers = dialect.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    over = numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions
    batch = numbers.lhs_batching_dimensions, numbers.rhs_batching_dimensions
    return [_product(op, operands, (over, batch))]


@operation("dot")
def _dot(op: Any, operands: list) -> list:
    over = (len(np.shape(operands[0])) - 1,), (0,)
    return [_product(op, operands, (over, ((), ())))]


def _product(op: Any, operands: list, numbers: Any) -> Any:
    left, right = operands
    kind = element_type(op.results[0])
    return lax.dot_general(left, right, numbers, precision=_precision(op), preferred_element_type=kind)


@operation("ragged_dot")
def _ragged_dot(op: Any, operands: list) -> list:
    at = chlo.RaggedDotDimensionNumbers(op.attributes["ragged_dot_dimension_numbers"])
    over = tuple(at.lhs_contracting_dimensions), tuple(at.rhs_contracting_dimensions)
    batch = tuple(at.lhs_batching_dimensions), tuple(at.rhs_batching_dimensions)
    ragged, group = tuple(at.lhs_ragged_dimensions), tuple(at.rhs_group_dimensions)
    numbers = lax.RaggedDotDimensionNumbers((over, batch), ragged, group)
    left, right, sizes = operands
    kind = element_type(op.results[0])
    return [lax.ragged_dot_general(left, right, sizes, numbers, precision=_precision(op), preferred_element_type=kind)]


def _precision(op: Any) -> lax.Precision | None:
    """The highest of an operation's operands."""
    return lax.Precision.HIGHEST if "HIGHEST" in str(named(op, "precision_config", "")) else None


@operation("convolution")
def _convolution(op: Any, operands: list) -> list:
    at = dialect.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    numbers = lax.ConvDimensionNumbers(
        (at.input_batch_dimension, at.input_feature_dimension, *at.input_spatial_dimensions),
        (at.kernel_output_feature_dimension, at.kernel_input_feature_dimension, *at.kernel_spatial_dimensions),
        (at.output_batch_dimension, at.output_feature_dimension, *at.output_spatial_dimensions),
    )
    (array, kernel), axes = operands, len(at.input_spatial_dimensions)
    ones = (1,) * axes
    edges = ints(named(op, "padding", (0,) * (2 * axes)))
    return [
        lax.conv_general_dilated(
            array,
            kernel,
            window_strides=ints(named(op, "window_strides", ones)),
            padding=tuple(zip(edges[::2], edges[1::2], strict=True)),
            lhs_dilation=ints(named(op, "lhs_dilation", ones)),
            rhs_dilation=ints(named(op, "rhs_dilation", ones)),
            dimension_numbers=numbers,
            feature_group_count=int(op.attributes["feature_group_count"]),
            batch_group_count=int(op.attributes["batch_group_count"]),
            precision=_precision(op),
            preferred_element_type=element_type(op.results[0]),
        )
    ]


@operation("dynamic_slice")
def _dynamic_slice(op: Any, operands: list) -> list:
    sizes = ints(op.attributes["slice_sizes"])
    return [lax.dynamic_slice(operands[0], operands[1:], sizes, allow_negative_indices=False)]


@operation("dynamic_update_slice")
def _dynamic_update_slice(op: Any, operands: list) -> list:
    array, update, *starts = operands
    return [lax.dynamic_update_slice(array, update, starts, allow_negative_indices=False)]


@operation("batch_norm_inference")
def _batch_norm(op: Any, operands: list) -> list:
    array, axis = operands[0], int(op.attributes["feature_index"])
    scale, shift, mean, variance = (lax.broadcast_in_dim(each, array.shape, (axis,)) for each in operands[1:])
    small = lax.full(array.shape, float(op.attributes["epsilon"].value), array.dtype)
    return [lax.add(lax.mul(lax.mul(lax.sub(array, mean), lax.rsqrt(lax.add(variance, small))), scale), shift)]


@operation("fft")
def _fft(op: Any, operands: list) -> list:
    kind = str(op.attributes["fft_type"]).rpartition(" ")[2].rstrip(">")
    return [lax.fft(operands[0], kind, ints(op.attributes["fft_length"]))]


@operation("cholesky")
def _cholesky(op: Any, operands: list) -> list:
    return [lax.linalg.cholesky(operands[0], symmetrize_input=False)]


@operation("triangular_solve")
def _triangular_solve(op: Any, operands: list) -> list:
    triangle, right = operands
    return [lax.linalg.triangular_solve(triangle, right, left_side=bool(op.attributes["left_side"].value))]


@operation("rng_bit_generator")
def _random_bits(op: Any, operands: list) -> list:
    result = op.results[1]
    return list(lax.rng_bit_generator(operands[0], shape_of(result), element_type(result)))


@operation("optimization_barrier")
def _barrier(op: Any, operands: list) -> list:
    return list(lax.optimization_barrier(operands))

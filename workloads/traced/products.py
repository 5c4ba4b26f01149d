"""Matrix products in a trace: dot products, grouped products, and convolutions as implicit GEMM."""

import math
import re
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import numpy as np

from workloads.traced.elementwise import MESSAGES
from workloads.traced.graph import CARRY, Node, Value, base
from workloads.traced.sizes import Shape


class Product(NamedTuple):
    """`(rows, inputs) @ (inputs, outputs)` of `matrices` weight matrices: the factors of each size, and both operands.

    `rows` are those of all matrices.
    """

    rows: Shape
    inputs: Shape
    outputs: Shape
    matrices: Shape
    left: Value  # of the rows
    right: Value  # of the weights
    share: float = 1.0  # of the products that have a factor other than 0 by construction: of dilated operands
    grouped: bool = False  # rows are spread over the matrices by an operand
    window: Shape = ()  # of a convolution
    places: Shape = ()  # of one image of its result
    stride: int = 1  # places of its input per place of its result
    minimal: bool = False  # 3 x 3, one place apart, one group: minimal filtering applies


PRODUCTS = {"dot_general", "conv_general_dilated", "ragged_dot_general"}
"""Primitives that are matrix products."""


def product_of(node: Node) -> Product:
    """Sizes and operands of a product's primitive.

    Raises:
      ValueError: one line, for a grouped product whose group is in the contracted dimension of both operands and that
        has further batches.
    """
    if node.name == "dot_general":
        return _dot(node)
    return _convolution(node) if node.name == "conv_general_dilated" else _grouped(node)


def _taken(shape: Shape, axes: tuple[int, ...]) -> Shape:
    return tuple(shape[axis] for axis in axes)


def _others(shape: Shape, *used: tuple[int, ...]) -> tuple[int, ...]:
    taken = {int(axis) for axes in used for axis in axes}
    return tuple(axis for axis in range(len(shape)) if axis not in taken)


def _dot(node: Node) -> Product:
    (over_left, over_right), (batch_left, batch_right) = node.params["dimension_numbers"]
    left, right = node.inputs
    rows = _taken(left.shape, _others(left.shape, over_left, batch_left))
    outputs = _taken(right.shape, _others(right.shape, over_right, batch_right))
    batch = _taken(left.shape, batch_left)
    # Weights are on the right, by convention: a product is the same from either side.
    if _is_parameter(left) and not _is_parameter(right):
        left, right, rows, outputs = right, left, outputs, rows
    inputs = _taken(node.inputs[0].shape, over_left)
    return Product((*batch, *rows), inputs, outputs, batch, left, right)


def _is_parameter(value: Value) -> bool:
    """Whether it is made of inputs and constants without a matrix product: weights, and what converts them."""
    # Upwards through conversions and scales, to an input or constant: a stored parameter; a matrix product on the way
    # makes it an activation.
    waiting, seen = [value], set()
    while waiting:
        source = base(waiting.pop())
        if source.name == CARRY or (source.node is not None and (source.node.name in PRODUCTS or source.node.bodies)):
            return False
        if source.node is not None and id(source.node) not in seen:
            seen.add(id(source.node))
            waiting += source.node.inputs
        if len(seen) > LONGEST_CONVERSION:
            return False
    return True


LONGEST_CONVERSION = 16
"""Primitives from a stored weight to a product's operand, at most: unpacking, scaling, conversion."""


def _convolution(node: Node) -> Product:
    numbers, (left, right) = node.params["dimension_numbers"], node.inputs
    groups = node.params["feature_group_count"] * node.params["batch_group_count"]
    window = _taken(right.shape, numbers.rhs_spec[2:])
    out = node.outputs[0].shape
    features, channels = out[numbers.out_spec[1]], right.shape[numbers.rhs_spec[1]]
    places = _taken(out, (numbers.out_spec[0], *numbers.out_spec[2:]))
    # Dilated inputs have zeros between their elements: multiplied by kernels, but no work by construction.
    share = 1.0 / math.prod(node.params["lhs_dilation"] or (1,))
    matrices = () if groups == 1 else (groups,)
    stride = math.prod(node.params["window_strides"])
    apart = (stride, *(node.params["lhs_dilation"] or (1,)), *(node.params["rhs_dilation"] or (1,)))
    # Implicit GEMM: rows are places of all images, inputs channels times window.
    return Product(
        (*places, *matrices),
        (channels, *window),
        (features // groups,),
        matrices,
        left,
        right,
        share,
        window=window,
        places=places[1:],
        stride=stride,
        minimal=window == (3, 3) and set(apart) == {1} and groups == 1,
    )


def _grouped(node: Node) -> Product:
    left, right = node.inputs[:2]
    numbers = node.params["ragged_dot_dimension_numbers"]
    (over_left, over_right), (batch_left, batch_right) = numbers.dot_dimension_numbers
    ragged, group = tuple(numbers.lhs_ragged_dimensions), tuple(numbers.rhs_group_dimensions)
    groups = node.inputs[2].shape[-1:]
    batch, rows = _taken(left.shape, batch_left), _taken(left.shape, _others(left.shape, over_left, batch_left))
    outputs = _taken(right.shape, _others(right.shape, over_right, batch_right, group))
    inputs = _taken(left.shape, over_left)
    # The weights' gradient contracts over the ragged dimension: each group multiplies its own rows, a share of all.
    if not group and set(ragged) <= {int(axis) for axis in over_left}:  # the gradient of the weights, group by group
        share = 1.0 / math.prod(groups)
        return Product((*batch, *groups, *rows), inputs, outputs, (*batch, *groups), left, right, share, grouped=True)
    return Product((*batch, *rows), inputs, outputs, (*batch, *groups), left, right, grouped=True)


# Collectives of `shard_map` in a trace: their operation, message, participants and stride.


class Message(NamedTuple):
    """One collective."""

    operation: str  # one of `jaxroof.op.COLLECTIVES`
    buffers: tuple[Value, ...]  # whose bytes are the message's, as nccl-tests counts them
    participants: float
    stride: float | None  # devices from one participant to the next


def message_of(node: Node) -> Message:
    """What a collective primitive sends.

    Raises:
      ValueError: one line, for an axis that is of no `shard_map`.
    """
    operation = MESSAGES[node.name]
    axes = _axes(node)
    mesh = node.params.get("mesh", {})
    for axis in axes:
        if axis not in mesh:
            raise ValueError(f"{node.name} over the axis {axis!r}, which is of no shard_map here")
    groups = node.params.get("axis_index_groups")
    participants = float(len(groups[0])) if groups else 1.0
    strides = []
    # Sizes of several mesh axes multiply; the nearest axis gives the stride.
    for axis in axes:
        size, stride = mesh[axis]
        participants = participants if groups else participants * float(size)
        strides += [stride] if size > 1 else []
    stride = float(min(strides)) if strides else None
    # nccl-tests counts the whole buffer: an all-gather's result, otherwise the operand.
    buffers = node.outputs if operation == "all_gather" else node.inputs
    if operation == "send_recv":
        participants = 2.0
    return Message(operation, tuple(buffers), participants, stride)


def _axes(node: Node) -> tuple[str, ...]:
    named = next((node.params[key] for key in ("axes", "axis_name") if key in node.params), ())
    return (named,) if isinstance(named, str) else tuple(named)


# Precisions that matrix products run in: the type of their operands, what JAX was asked for, and the hardware.


DEFAULT, HIGHEST = "DEFAULT", "HIGHEST"

FLOAT32 = {
    DEFAULT: (("tf32", "fp32"), 1.0),
    "HIGH": (("tf32", "fp32"), 3.0),
    HIGHEST: (("fp32",), 6.0),
}
"""Asked precision of float32 products -> precisions they may run in, the first that the hardware has; and the passes
of bf16 where it has none of them, or is a TPU.

Source: `jax.lax.Precision`, https://docs.jax.dev/en/latest/jax.lax.html: on GPUs tf32 where there is that, and float32
for HIGHEST; on TPUs 1, 3 and 6 passes of bf16. Convolutions follow the same parameter.
"""

CHOICES = {
    "float64": ("fp64",),
    "bfloat16": ("bf16",),
    "float16": ("fp16", "bf16"),
    "int8": ("int8",),
    "uint8": ("int8",),
    "int4": ("int8",),  # XLA widens them
    "uint4": ("int8",),
}
"""Type of other operands -> precisions that their products may run in, the first that the hardware has."""

VECTOR_TYPES = ("int16", "int32", "int64", "uint16", "uint32", "uint64", "bool")
"""Types whose products run on vector units: no matrix unit has them."""

REAL_PRODUCTS = 4.0
"""Products of real numbers in one of complex numbers."""

_ALGORITHM = re.compile(r"(BF16|TF32|F16|F32)_\w*?(?:_X(\d+))?")
_SHORT = {"BF16": "bf16", "F16": "fp16"}


class Products(NamedTuple):
    """How products run: in this precision, this many times."""

    precision: str
    passes: float = 1.0


def asked(node: Node) -> str:
    """What JAX was asked for with a product: DEFAULT, HIGH, HIGHEST, or the name of an algorithm such as TF32_TF32_F32.

    It is the parameter `precision` of the call, or else `jax.default_matmul_precision` where the function was traced.
    """
    given: Any = node.params.get("precision")
    if hasattr(given, "lhs_precision_type"):  # jax.lax.DotAlgorithm
        # An algorithm's name says its operands and how many passes make one product.
        left = np.dtype(given.lhs_precision_type).name.upper().replace("FLOAT", "F")
        return f"{left}_{left}_F32_X{given.num_primitive_operations}"
    if isinstance(given, tuple):
        return strictest(one.name for one in given)
    return DEFAULT if given is None else given.name


def strictest(asked_for: Iterable[str]) -> str:
    """Of several precisions that were asked for the one that takes most passes."""
    # Passes of bf16 are the measure of how strict a precision is.
    return max(asked_for, key=lambda one: products_of("float32", one, ("bf16",)).passes, default=DEFAULT)


def is_asked(name: str) -> bool:
    """Whether products of operands of this type run as they are asked to."""
    return name in ("float32", "complex64")


def products_of(name: str, asked_for: str, matrix: Collection[str]) -> Products:
    """How products of operands of type `name` run on hardware whose matrix units have these precisions.

    A usual one where the hardware has none: its time is then refused by name.
    """
    if name.startswith("complex"):
        # One complex product is four real ones.
        real = products_of("float32" if name == "complex64" else "float64", asked_for, matrix)
        return Products(real.precision, REAL_PRODUCTS * real.passes)
    if name != "float32":
        four, eight = name.startswith("float4"), name.startswith("float8")
        choices = CHOICES.get(name, ("fp4",) if four else ("fp8",) if eight else (name,))
        return Products(next((choice for choice in choices if choice in matrix), choices[0]))
    return _float32(asked_for, matrix)


def _float32(asked_for: str, matrix: Collection[str]) -> Products:
    algorithm = _ALGORITHM.fullmatch(asked_for)
    if algorithm is not None and algorithm[1] in _SHORT:
        return Products(_SHORT[algorithm[1]], float(algorithm[2] or 1.0))
    level = asked_for
    if algorithm is not None:
        level = HIGHEST if algorithm[1] == "F32" else "HIGH"
        # TF32 algorithms run as TF32 where there is that.
        if algorithm[1] == "TF32" and "tf32" in matrix:
            return Products("tf32", float(algorithm[2] or 1.0))
    choices, passes = FLOAT32.get(level, FLOAT32[DEFAULT])
    usual = next((choice for choice in choices if choice in matrix), None)
    # TPUs multiply float32 as 1, 3 or 6 passes of bf16.
    if "bf16" in matrix and (usual is None or is_tpu(matrix)):
        return Products("bf16", passes)
    return Products(choices[-1] if usual is None else usual)


def is_tpu(matrix: Collection[str]) -> bool:
    """Whether matrix units with these precisions are a TPU's: bf16 is the one floating-point type of 16 bits and more
    that they multiply, so that its float32 is that of the vector units.
    """
    return "bf16" in matrix and not {"fp16", "tf32"} & set(matrix)

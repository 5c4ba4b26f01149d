"""Matrix products in a trace: dot products, grouped products, and convolutions as implicit GEMM."""

import math
from typing import NamedTuple

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
    if _is_parameter(left) and not _is_parameter(right):
        left, right, rows, outputs = right, left, outputs, rows
    inputs = _taken(node.inputs[0].shape, over_left)
    return Product((*batch, *rows), inputs, outputs, batch, left, right)


def _is_parameter(value: Value) -> bool:
    """Whether it is made of inputs and constants without a matrix product: weights, and what converts them."""
    waiting, seen = [value], set()
    while waiting:
        found = base(waiting.pop())
        if found.name == CARRY or (found.node is not None and (found.node.name in PRODUCTS or found.node.bodies)):
            return False
        if found.node is not None and id(found.node) not in seen:
            seen.add(id(found.node))
            waiting += found.node.inputs
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
    share = 1.0 / math.prod(node.params["lhs_dilation"] or (1,))
    matrices = () if groups == 1 else (groups,)
    stride = math.prod(node.params["window_strides"])
    apart = (stride, *(node.params["lhs_dilation"] or (1,)), *(node.params["rhs_dilation"] or (1,)))
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
    if not group and set(ragged) <= {int(axis) for axis in over_left}:  # the gradient of the weights, group by group
        share = 1.0 / math.prod(groups)
        return Product((*batch, *groups, *rows), inputs, outputs, (*batch, *groups), left, right, share, grouped=True)
    return Product((*batch, *rows), inputs, outputs, (*batch, *groups), left, right, grouped=True)

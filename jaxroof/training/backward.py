"""Backward pass of any op: gradients of inputs and of weights, and conjugate collectives."""

import dataclasses

from jaxroof.layers.linear import LOW_PRECISIONS, OPERAND_BYTES, QUANTIZE_FLOPS
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.struct import Scalar, given
from jaxroof.op import (
    SERIAL_SHAPES,
    AnyOp,
    AttentionShape,
    Collective,
    Kernel,
    Ops,
    ProductShape,
    kernel_precision,
    stored_bytes,
    stored_elements,
)

ATTENTION_PRODUCTS = 2.5
"""Matrix products of fused attention's backward pass over those of its forward pass: five, as scores are computed
again, against two. Dao, arXiv:2307.08691 (FlashAttention-2), section 3.1.2."""

ATTENTION_BYTES = 2.0
"""B that it moves over those of the forward pass: queries, keys, values and outputs, and the gradient of each."""

QUERY_SUM_BYTES = 4.0 + 4.0 + 2.0
"""B per element of queries' gradients, which fused attention's backward pass sums in float32 over tiles of keys: set to
zero before, read and written at 16 bits after. Dao-AILab/flash-attention, flash_bwd_launch_template.h: clear_dQaccum,
flash_bwd_convert_dq_kernel."""

OUTPUT_SUM_BYTES = 2.0 + 2.0
"""B per element of outputs whose products with their gradients are summed by row before; arXiv:2307.08691, algorithm 2,
line 4: output and its gradient, both at 16 bits."""

ROW_SUM_FLOPS = 2.0
"""Vector FLOP per element of such a sum: a product and an addition."""

ELEMENTWISE_BYTES = 1.5
"""The same of an element-wise kernel: input and the result's gradient are read, the input's gradient is written; a
forward pass reads one and writes one. Ours."""

TRANSPOSE_FLOPS = 2.0
"""Vector FLOP per element of a second, transposed copy of what is quantised: scale and round once more."""

ELEMENTWISE_FLOPS = 2.0
"""Vector FLOP of a derivative and its product with a gradient, over those of the function. Ours."""

CONJUGATES = {
    "all_reduce": "all_reduce",
    "all_gather": "reduce_scatter",
    "reduce_scatter": "all_gather",
    "all_to_all": "all_to_all",
    "send_recv": "send_recv",
    "dispatch": "combine",
    "combine": "dispatch",
}
"""What passes gradients back through a collective; Korthikanti et al., arXiv:2205.05198, section 4.2.2."""


def backward_ops(ops: Ops, gradient_bytes: Scalar = 2.0, frozen: bool = False) -> Ops:
    """Ops of the backward pass of `ops`, last first. Names are those of the forward ops with an ending.

    Products become two, `_dgrad` and `_wgrad`, each of as many FLOP, and at 8 bits or less a kernel before them
    converts the gradient, `_grad_quantize`. Others become one, `_backward`: attention by recomputing its scores,
    element-wise kernels by what they read and write, collectives by their conjugates. Conversions to a lower
    precision have none: gradients pass straight through. Fused attention has `_row_sums` beside its one.

    Args:
      ops: of a forward pass, in order.
      gradient_bytes: B per element of a weight's gradient, which is read and written: it accumulates.
      frozen: weights have no gradient.
    """
    gradient_ops: Ops = {}
    # Reverse mode: the last op's gradient is there first.
    for name, op in reversed(ops.items()):
        gradient_ops |= _backward(name, op, gradient_bytes, frozen)
    return gradient_ops


def transposed(ops: Ops) -> Ops:
    """A forward pass whose weights have gradients: what it quantises is written transposed too, as matrix units of 8
    bits and less multiply along the last dimension of both operands.

    Source: NVIDIA/TransformerEngine, transformer_engine/pytorch/module/linear.py (quantizers with columnwise usage).
    """
    return {name: _with_transpose(op) if isinstance(op, Kernel) and _quantizes(op) else op for name, op in ops.items()}


def _quantizes(op: AnyOp) -> bool:
    """Whether the op is a kernel that converts what a product reads to a lower precision."""
    return isinstance(op, Kernel) and op.kind == "elementwise" and op.precision in LOW_PRECISIONS


def _with_transpose(op: Kernel) -> Kernel:
    work, moved = given(op.vector_flops, "work of a conversion"), given(op.bytes, "bytes of a conversion")
    elements = work / QUANTIZE_FLOPS
    return dataclasses.replace(
        op,
        vector_flops=work + TRANSPOSE_FLOPS * elements,
        # Tensor cores for fp8 read both operands along the contraction: forward and dgrad need one layout, wgrad the
        # other.
        bytes=moved + OPERAND_BYTES[kernel_precision(op)] * elements,
    )


def _backward(name: str, op: AnyOp, gradient_bytes: Scalar, frozen: bool) -> Ops:
    # Adjoint of a linear map between devices: the sum's is a copy and the copy's a sum.
    if isinstance(op, Collective):
        return {f"{name}_backward": conjugate(op)}
    assert isinstance(op, Kernel)  # a pass of training copies nothing
    # Kernels of recurrences' and of streams' gradients were measured nowhere: bytes and FLOP alone price them.
    if isinstance(op.shape, SERIAL_SHAPES):
        op = dataclasses.replace(op, shape=None)
    if isinstance(op.shape, ProductShape):
        ops: Ops = {}
        if op.precision in LOW_PRECISIONS:
            # One gradient, in two layouts where both products read it.
            ops[f"{name}_grad_quantize"] = _converted(op, copies=1.0 if frozen else 2.0)
        ops[f"{name}_dgrad"] = input_gradient(op)
        if not frozen:
            ops[f"{name}_wgrad"] = weight_gradient(op, gradient_bytes)
        return ops
    # Attention and chunked recurrences: products of activations.
    if op.matrix_flops is not None:
        sums = {f"{name}_row_sums": attention_sums(op)} if isinstance(op.shape, AttentionShape) else {}
        return {**sums, f"{name}_backward": attention_gradient(op)}
    # Conversions: the straight-through estimator has no work of its own.
    if op.precision is not None:
        return {}
    return {f"{name}_backward": elementwise_gradient(op)}


def input_gradient(op: Kernel) -> Kernel:
    """dX = dY W^T of the product Y = X W: (m, n) @ (n, k), as many FLOP as forward."""
    shape = op.shape
    moved = shape.rows * (shape.outputs * op.operand_bytes + shape.inputs * shape.output_bytes)
    # The same weights, multiplied the other way round: n becomes the contraction.
    turned = dataclasses.replace(shape, outputs=shape.inputs, inputs=shape.outputs)
    return dataclasses.replace(op, bytes=stored_bytes(shape) + moved, shape=turned, gradient="inputs")


def weight_gradient(op: Kernel, gradient_bytes: Scalar) -> Kernel:
    """dW = X^T dY of the product Y = X W: (k, m) @ (m, n) for every weight matrix, added to what is there.

    Of several matrices each multiplies its own rows, m / matrices in the mean.
    """
    shape = op.shape
    matrices = jnp.where(shape.matrices > 0.0, shape.matrices, 1.0)
    # dW contracts over the tokens: of an expert with few rows that is a short sum for many results.
    elements = stored_elements(shape)
    operands = shape.rows * (shape.inputs + shape.outputs) * op.operand_bytes
    turned = dataclasses.replace(
        shape,
        rows=shape.inputs * shape.matrices,
        inputs=shape.rows / matrices,
        largest=None,
        weight_bytes=op.operand_bytes,
        output_bytes=gradient_bytes,
    )
    return dataclasses.replace(
        op,
        # Read-modify-write of an accumulated gradient over micro-batches.
        bytes=operands + 2.0 * elements * gradient_bytes,
        shape=turned,
        vector_flops=None,
        reuse_bytes=None,
        gradient="weights",
    )


def attention_gradient(op: Kernel) -> Kernel:
    """The one kernel of fused attention's backward pass; recurrences over chunks are priced the same way.

    Models of kernels see as many heads more as there are products, so that tiles keep their size.
    """
    shape = op.shape
    if shape is not None:
        # Five products in place of two, as so many more heads of the same tile.
        shape = dataclasses.replace(
            shape, heads=ATTENTION_PRODUCTS * shape.heads, kv_heads=ATTENTION_PRODUCTS * shape.kv_heads
        )
    return dataclasses.replace(
        op,
        matrix_flops=ATTENTION_PRODUCTS * given(op.matrix_flops, "FLOP of an attention kernel"),
        vector_flops=None if op.vector_flops is None else ELEMENTWISE_FLOPS * op.vector_flops,
        bytes=None if op.bytes is None else ATTENTION_BYTES * op.bytes,
        shape=shape,
        gradient="inputs",
    )


def attention_sums(op: Kernel) -> Kernel:
    """Kernels around fused attention's backward one, as one: sums over rows before it, gradients of queries after."""
    shape = op.shape
    rows = shape.sequences * shape.queries * shape.heads
    return Kernel(
        kind="elementwise",
        count=op.count,
        kernels=2.0 * op.kernels,
        layer=op.layer,
        role=op.role,
        phase=op.phase,
        gradient="inputs",
        vector_flops=rows * ROW_SUM_FLOPS * shape.value_width,
        bytes=rows * (OUTPUT_SUM_BYTES * shape.value_width + QUERY_SUM_BYTES * shape.key_width),
    )


def elementwise_gradient(op: Kernel) -> Kernel:
    """Derivative times gradient, element by element; exponentials are taken again."""
    return dataclasses.replace(
        op,
        vector_flops=None if op.vector_flops is None else ELEMENTWISE_FLOPS * op.vector_flops,
        bytes=None if op.bytes is None else ELEMENTWISE_BYTES * op.bytes,
        gradient="inputs",
    )


def conjugate(op: Collective) -> Collective:
    """The collective that passes gradients back.

    A ring of sends goes around twice: with keys and values once more, and with their gradients (Liu, Zaharia &
    Abbeel, arXiv:2310.01889, section 3).

    Raises:
      ValueError: while tracing, for a collective without a conjugate.
    """
    if op.operation not in CONJUGATES:
        raise ValueError(f"a {op.operation} has no backward pass; known: {', '.join(CONJUGATES)}")
    # Ring attention: keys and values go round again for recomputation, and their gradients travel with them.
    count = 2.0 * op.count if op.operation == "send_recv" else op.count
    message = op.message_bytes if op.back_bytes is None else op.back_bytes
    # Gradients of what experts got return as results do, and the other way round.
    fanout = op.fanout if op.fanout is None else dataclasses.replace(op.fanout, back=not op.fanout.back)
    return dataclasses.replace(
        op, operation=CONJUGATES[op.operation], count=count, message_bytes=message, back_bytes=None, fanout=fanout
    )


def _converted(op: Kernel, copies: float) -> Kernel:
    """The gradient of a product's result, read once and written at the precision that products read: for the gradient
    of inputs, and transposed for that of weights.
    """
    elements = op.shape.rows * op.shape.outputs
    return Kernel(
        kind="elementwise",
        precision=op.precision,
        scaled=op.scaled,
        count=op.count,
        kernels=op.kernels,
        layer=op.layer,
        role=op.role,
        phase=op.phase,
        gradient="inputs",
        vector_flops=(QUANTIZE_FLOPS + (copies - 1.0) * TRANSPOSE_FLOPS) * elements,
        bytes=elements * (op.shape.output_bytes + copies * OPERAND_BYTES[kernel_precision(op)]),
    )

"""Projections: one GEMM of all tokens with a weight matrix, or with one of several, and its conversions."""

from typing import NamedTuple

from jaxroof.deployment import Deployment
from jaxroof.model import WeightFormat
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import maximum
from jaxroof.numerics.struct import Array, Scalar
from jaxroof.op import Kernel, Ops, ProductShape

OPERAND_BYTES = {"fp32": 4.0, "tf32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "fp4": 0.5}
"""B per operand element as the matrix units read it, by precision."""

LOW_PRECISIONS = ("fp8", "int8", "fp4")
"""Precisions of 8 bits and less: a kernel of its own quantises activations, and products have an efficiency of their
own."""

QUANTIZE_FLOPS = 4.0
"""Vector FLOP per element that is quantised: absolute value, running maximum, scale, round."""

DEQUANTIZE_FLOPS = 2.0
"""Vector FLOP per weight that a kernel converts as it reads it: shift out of the packed word, multiply by the scale."""

DEQUANTIZE_ROWS = 64.0
"""Rows of a weight-only kernel's tile: it converts a weight once for each of them. Frantar, Castro, Chen, Hoefler &
Alistarh, arXiv:2408.11743 (Marlin), section 3.4."""


class Matrix(NamedTuple):
    """One weight matrix as one device holds it."""

    inputs: Scalar
    outputs: Scalar
    weights: WeightFormat
    copies: Scalar = 1.0  # matrices of that shape: experts, heads
    reads_norm: bool = False  # multiplies a norm's result
    to_residual: bool = False  # its results are added to the residual stream
    routed: bool = False  # of experts, which devices of a stage share by `Deployment.ep` rather than hold each
    uses: Scalar = 1.0  # layers that multiply with the same weights
    target: str | None = None  # one of `deployment.ADAPTED`, where nothing but its own gradient needs its inputs

    @property
    def elements(self) -> Scalar:
        """Weights in all copies."""
        return self.inputs * self.outputs * self.copies

    @property
    def stored(self) -> Scalar:
        """Weights in all copies that are one layer's part of those in memory."""
        return self.elements / self.uses


Matrices = dict[str, Matrix]
"""The matrices of a layer by the name of the op that multiplies with them."""


def projection(
    name: str,
    rows: Scalar,
    matrix: Matrix,
    activation_bytes: Scalar,
    count: Scalar,
    kind: str = "linear",
    copies: Scalar | None = None,
    quantized_rows: Scalar | None = None,
) -> Ops:
    """The GEMM `name`, after the kernel that quantises its inputs where it multiplies at 8 bits or less.

    Scales that the checkpoint has (`calibrated`) let the kernel before write quantised activations: none of its own.

    Args:
      name: of the op; the quantising kernel's ends in `_quantize`.
      rows: m on one device.
      matrix: what the rows are multiplied with.
      activation_bytes: B per activation element between kernels.
      count: how often the step runs it.
      kind: of the op.
      copies: matrices that the rows are spread over, where only some of them are touched; None: all.
      quantized_rows: rows that are quantised, where a row is multiplied several times; None: all.
    """
    ops: Ops = {}
    # Below 8 bits and at 8 bits the tensor cores need both operands narrow: activations are quantised by a kernel of
    # their own, unless the kernel before has done so.
    if matrix.weights.compute in LOW_PRECISIONS and not matrix.weights.calibrated:
        quantized = rows if quantized_rows is None else quantized_rows
        ops[f"{name}_quantize"] = quantize(quantized, matrix, activation_bytes, count)
    # Of experts only those with tokens are read: weights of the others cost nothing in this step.
    touched = matrix.copies if copies is None else copies
    return ops | {name: linear(rows, *matrix[:3], activation_bytes, count, kind, touched)}


def quantized_rows(tokens: Scalar, deployment: Deployment) -> Scalar | None:
    """Rows of a product after a norm that one device quantises: its own, where they are quantised before they are
    gathered; None: all.
    """
    gathered_low = deployment.sequence_parallel and deployment.gather_bytes is not None
    return tokens / deployment.tp if gathered_low else None


def quantize(rows: Scalar, matrix: Matrix, activation_bytes: Scalar, count: Scalar) -> Kernel:
    """Inputs of a GEMM read once, scaled, and written at the precision that it multiplies."""
    # Reads at the activations' precision, writes at the product's.
    size = activation_bytes + OPERAND_BYTES[matrix.weights.compute]
    return Kernel(
        kind="elementwise",
        precision=matrix.weights.compute,
        scaled=matrix.weights.scaled,
        count=count,
        kernels=launched(rows),
        vector_flops=rows * QUANTIZE_FLOPS * matrix.inputs,
        bytes=rows * matrix.inputs * size,
    )


def linear(
    rows: Scalar,
    inputs: Scalar,
    outputs: Scalar,
    weights: WeightFormat,
    activation_bytes: Scalar,
    count: Scalar,
    kind: str = "linear",
    matrices: Scalar = 1.0,
) -> Kernel:
    """`(rows, inputs) @ (inputs, outputs)`: 2 m n k FLOP; weights, inputs and outputs moved once.

    Args:
      rows, inputs, outputs: m, k, n on one device, float scalars.
      weights: how the matrix is stored and multiplied; inputs are read at the multiplying precision.
      activation_bytes: B per output element.
      count: how often the step runs it.
      kind: of the op.
      matrices: weight matrices of that shape that the rows are spread over, as in a grouped GEMM.
    """
    operand_bytes = OPERAND_BYTES[weights.compute]
    kernels = launched(rows)
    # Weights are read once per step however many rows there are: arithmetic intensity grows with the batch, about 2
    # rows / weight_bytes FLOP per byte while weights dominate.
    elements = kernels * matrices * inputs * outputs
    return Kernel(
        kind=kind,
        precision=weights.compute,
        scaled=weights.scaled,
        count=count,
        kernels=kernels,
        matrix_flops=2.0 * rows * inputs * outputs,
        operand_bytes=operand_bytes,
        # Weight-only quantisation multiplies at 16 bits; converting takes vector units, once per tile of rows.
        vector_flops=dequantize_flops(inputs * outputs, rows, kernels * matrices) if weights.dequantised else None,
        bytes=elements * weights.bytes + rows * (inputs * operand_bytes + outputs * activation_bytes),
        shape=ProductShape(
            rows=rows,
            outputs=outputs,
            inputs=inputs,
            matrices=kernels * matrices,
            weight_bytes=weights.bytes,
            output_bytes=activation_bytes,
        ),
    )


def dequantize_flops(elements: Scalar, rows: Scalar, matrices: Scalar) -> Array:
    """Vector FLOP of converting `matrices` matrices of `elements` weights each, shape ().

    Once per tile of `DEQUANTIZE_ROWS` of the `rows` rows that are spread over them, and once at least; 0 where there
    are no matrices.
    """
    # Each tile of rows converts all weights again, as they are kept narrow in shared memory.
    return DEQUANTIZE_FLOPS * elements * maximum(rows * (1.0 / DEQUANTIZE_ROWS), matrices)


def launched(work: Scalar) -> Array:
    """1 where there is work and 0 where there is none, shape (): a kernel without work is not launched.

    Its gradient is zero: half a row launches the same kernel.
    """
    return jnp.where(work > 0.0, 1.0, 0.0)


# Element-wise kernels: norms, activations, copies; bytes and a few operations per element.


def elementwise(
    rows: Scalar,
    *,
    reads: Scalar,
    writes: Scalar,
    element_bytes: Scalar,
    flops: Scalar,
    count: Scalar,
    kernels: float = 1.0,
    exps: Scalar | None = None,
    role: str | None = None,
) -> Kernel:
    """`rows` rows, each of which reads `reads` and writes `writes` elements and does `flops` vector operations.

    Args:
      rows: tokens on one device.
      reads, writes: elements per row.
      element_bytes: B per element.
      flops: vector FLOP per row.
      count: how often the step runs it.
      kernels: kernels that the work is spread over.
      exps: exponentials per row.
      role: one of `jaxroof.op.ROLES`.
    """
    # Two to ten FLOP per element and two bytes or more moved: far left of the ridge, bound by memory.
    return Kernel(
        kind="elementwise",
        count=count,
        kernels=kernels * launched(rows),
        role=role,
        vector_flops=rows * flops,
        exps=None if exps is None else rows * exps,
        bytes=rows * (reads + writes) * element_bytes,
    )


def norm(tokens: Scalar, hidden: Scalar, element_bytes: Scalar, count: Scalar) -> Kernel:
    """Residual add and RMSNorm in one kernel: reads input and residual, writes both; 5 FLOP per element."""
    return elementwise(
        tokens,
        reads=2.0 * hidden,
        writes=2.0 * hidden,
        element_bytes=element_bytes,
        flops=5.0 * hidden,
        count=count,
        role="norm",
    )

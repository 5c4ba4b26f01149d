"""A projection: one GEMM of all tokens with one weight matrix, or with one of several each."""

import jax
import jax.numpy as jnp

from jaxroof.model import WeightFormat
from jaxroof.op import Op
from jaxroof.struct import Scalar

OPERAND_BYTES = {"fp32": 4.0, "tf32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "fp4": 0.5}
"""B per operand element as the matrix units read it, by precision."""


def linear(
    rows: Scalar,
    inputs: Scalar,
    outputs: Scalar,
    weights: WeightFormat,
    activation_bytes: Scalar,
    count: Scalar,
    kind: str = "linear",
    matrices: Scalar = 1.0,
) -> Op:
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
    weight_bytes = kernels * matrices * inputs * outputs * weights.bytes
    return Op(
        kind=kind,
        precision=weights.compute,
        count=count,
        kernels=kernels,
        matrix_flops=2.0 * rows * inputs * outputs,
        operand_bytes=operand_bytes,
        bytes=weight_bytes + rows * (inputs * operand_bytes + outputs * activation_bytes),
    )


def launched(work: Scalar) -> jax.Array:
    """1 where there is work and 0 where there is none, shape (): a kernel without work is not launched.

    Its gradient is zero: half a row launches the same kernel.
    """
    return jnp.where(work > 0.0, 1.0, 0.0)

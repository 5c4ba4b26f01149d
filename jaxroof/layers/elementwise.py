"""Element-wise kernels: norms, activations, copies; bytes and a few operations per element."""

from jaxroof.layers.linear import launched
from jaxroof.op import Kernel
from jaxroof.struct import Scalar


def elementwise(
    rows: Scalar,
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
    return elementwise(tokens, 2.0 * hidden, 2.0 * hidden, element_bytes, 5.0 * hidden, count, role="norm")

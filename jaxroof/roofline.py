"""Time of one op on one device under constant shares of every peak: the slowest of its resources."""

from jaxroof.arrays import jnp, rsqrt
from jaxroof.efficiency import KindEfficiency, Timing
from jaxroof.hardware import Hardware, matrix_peak
from jaxroof.layers.linear import LOW_PRECISIONS
from jaxroof.op import Kernel
from jaxroof.shape import ConvolutionShape
from jaxroof.smooth import maximum
from jaxroof.struct import Scalar

ACCUMULATOR_BYTES = 4.0
"""B of one float32 accumulator in registers."""


def roofline_timing(op: Kernel, hardware: Hardware, shares: KindEfficiency) -> Timing:
    """Time in s of one run of `op` over a memory hierarchy: its kernels' fixed time plus the slowest resource.

    time = launch + max(matrix, vector, exp, hbm, l2, scratchpad)

    Only resources that the op uses and the hardware has figures for appear.

    Args:
      op: what runs, quantities of shape ().
      hardware: where it runs.
      shares: of every peak that kernels of its kind reach.

    Raises:
      ValueError: while tracing, when the hardware has no matrix figure for the op's precision.

    Source: Williams, Waterman & Patterson, CACM 52(4), 2009, applied to each unit and memory level;
    the traffic of a matrix product through each level is `matrix_traffic`.
    """
    memory, cores = hardware.memory, hardware.cores
    times = {}
    # Quantity times seconds per unit: the reciprocal is the same for all ops of a kind and is computed once for them.
    if op.matrix_flops is not None:
        share = shares.matrix_low if op.precision in LOW_PRECISIONS else shares.matrix
        times["matrix"] = op.matrix_flops * (1.0 / (matrix_peak(hardware, op.precision) * share))
    if op.vector_flops is not None:
        times["vector"] = op.vector_flops * (1.0 / (cores.count * cores.vector_flops * shares.vector))
    if op.exps is not None and cores.exp_rate is not None:
        times["exp"] = op.exps * (1.0 / (cores.count * cores.exp_rate * shares.vector))
    if op.bytes is not None:
        inner = memory.l2 or memory.scratchpad
        moved = matrix_traffic(op, inner and inner.capacity, op.operand_bytes)
        times["hbm"] = moved * (1.0 / (memory.hbm.bandwidth * shares.bandwidth))
        if memory.l2 is not None:
            moved = matrix_traffic(op, memory.scratchpad and memory.scratchpad.capacity, op.operand_bytes)
            times["l2"] = moved * (1.0 / (memory.l2.bandwidth * shares.cache_bandwidth))
        if memory.scratchpad is not None:
            moved = matrix_traffic(op, memory.register_capacity, ACCUMULATOR_BYTES)
            times["scratchpad"] = moved * (1.0 / (cores.count * memory.scratchpad.bandwidth * shares.cache_bandwidth))
    launch = op.kernels * shares.kernel_time
    return Timing(launch + maximum(*times.values()), {**times, "launch": launch})


def matrix_traffic(op: Kernel, capacity: Scalar | None, element_bytes: Scalar | None) -> Scalar:
    """B that one run of `op` moves into a memory level of `capacity` B from the level outside it, shape ().

    traffic = max(operands and results once, 2 m n k b / sqrt(S)),  S = capacity / element_bytes,  b = operand_bytes

    What fits is read once; what does not is re-read for every tile of the largest square that fits.
    The rule is the lower bound that the best blocking attains, so it never charges a kernel for a poor tile.
    Without matrix work or with an unknown capacity the operands are moved once.

    A convolution reads sqrt(window / stride) times fewer, for the places of its input are of several windows.

    Source: Hong & Kung, STOC 1981; constant 2 and tightness: Smith, Lowery, Langou & van de Geijn,
    arXiv:1702.02017; convolutions: Demmel & Dinh, arXiv:1802.06905.
    """
    if op.matrix_flops is None or capacity is None:
        return op.bytes
    blocked = op.matrix_flops * op.operand_bytes * rsqrt(capacity / element_bytes)
    if isinstance(op.shape, ConvolutionShape):  # places of its input are of several windows
        blocked = blocked * rsqrt(jnp.maximum(op.shape.window / op.shape.stride, 1.0))
    return maximum(op.bytes, blocked)

"""Traffic through the levels of the memory hierarchy: bytes that a product's tiles read, level by level."""

from jaxroof.hardware import Hardware
from jaxroof.numerics.arrays import jnp, rsqrt
from jaxroof.numerics.smooth import maximum
from jaxroof.numerics.struct import Scalar
from jaxroof.op import ConvolutionShape, Kernel, inner_bytes
from jaxroof.units import LEVELS, known

ACCUMULATOR_BYTES = 4.0
"""B of one float32 accumulator in registers."""


def level_traffic(op: Kernel, hardware: Hardware) -> dict[str, Scalar]:
    """B that pass each known level in one run of `op`: what the level inside is too small to avoid."""
    if op.bytes is None:
        return {}
    held = inner_capacities(hardware)
    return {
        name: matrix_traffic(
            op, held[name], element_bytes_inside(op, name), op.bytes if name == "hbm" else inner_bytes(op)
        )
        for name in LEVELS
        if known(hardware, name)
    }


def element_bytes_inside(op: Kernel, level: str) -> Scalar | None:
    """B of an element of the tile that lies inside of a level: operands, or in registers float32 partial sums."""
    return ACCUMULATOR_BYTES if level == "scratchpad" else op.operand_bytes


def inner_capacities(hardware: Hardware) -> dict[str, Scalar | None]:
    """B that the level inside of each holds of a tile, by level; None where it is unknown.

    HBM fills the L2 (or, without one, the scratchpads of all cores, which may hold parts of one tile), the L2 fills
    the scratchpads, the scratchpads fill the registers.
    """
    memory = hardware.memory
    scratchpad = None if memory.scratchpad is None else memory.scratchpad.capacity
    every = None if scratchpad is None else hardware.cores.count * scratchpad
    shared = every if memory.l2 is None else memory.l2.capacity
    return {"hbm": shared, "l2": scratchpad, "scratchpad": memory.register_capacity}


def matrix_traffic(
    op: Kernel, capacity: Scalar | None, element_bytes: Scalar | None, once: Scalar | None = None
) -> Scalar:
    """B that one run of `op` moves into a memory level of `capacity` B from the level outside it, shape ().

    traffic = max(operands and results once, 2 m n k b / sqrt(S)),  S = capacity / element_bytes,  b = operand_bytes

    What fits is read once; what does not is re-read for every tile of the largest square that fits.
    The rule is the lower bound that the best blocking attains, so it never charges a kernel for a poor tile.
    Without matrix work or with an unknown capacity the operands are moved once.

    A convolution reads sqrt(window / stride) times fewer, for the places of its input are of several windows.

    Args:
      op: what runs.
      capacity: B of the level.
      element_bytes: B of an element that it holds.
      once: B that are moved at least; None: `op.bytes`, those of device memory.

    Source: Hong & Kung, STOC 1981; constant 2 and tightness: Smith, Lowery, Langou & van de Geijn,
    arXiv:1702.02017; convolutions: Demmel & Dinh, arXiv:1802.06905.
    """
    once = op.bytes if once is None else once
    # Without products nothing is re-used, and with an unknown capacity no blocking can be assumed.
    if op.matrix_flops is None or capacity is None:
        return once
    return maximum(once, op.matrix_flops * op.operand_bytes * tile_traffic(op, capacity, element_bytes))


def tile_traffic(op: Kernel, capacity: Scalar, element_bytes: Scalar | None) -> Scalar:
    """Elements per FLOP that products read into a level of `capacity` B, tile by tile, shape (): 1 / sqrt(S)."""
    # 2 m n k / sqrt(S) elements: a tile of sqrt(S) x sqrt(S) results re-reads each operand once per tile along the
    # other side.
    elements = rsqrt(capacity / element_bytes)
    if isinstance(op.shape, ConvolutionShape):  # places of its input are of several windows
        elements = elements * rsqrt(jnp.maximum(op.shape.window / op.shape.stride, 1.0))
    return elements

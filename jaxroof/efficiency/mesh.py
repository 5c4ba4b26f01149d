"""Programs that stay spread over a mesh of cores: no kernel is launched, results cross the mesh."""

from jaxroof.efficiency.derated import KindEfficiency
from jaxroof.hardware import Hardware
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.struct import Scalar, given
from jaxroof.op import TILED, Kernel

CROSSINGS = 2.0
"""Ways over the mesh of one product: its input is sent along one axis and partial sums are added along the other.

Source: He et al., arXiv:2502.04563 (WaferLLM), section 5: distributed GEMV of a mesh."""

SPREAD = 0.6
"""Standard deviation of the log errors of such machines, any one maker left out: `tests.evidence.published_rates`."""


def crossing_time(op: Kernel, hardware: Hardware) -> Scalar:
    """Time in s of what one run of `op` sends over the mesh, shape (): 2 sqrt(cores) hops for each of its kernels.

    Element-wise work stays where its operands are and sends nothing.
    """
    if not isinstance(op.shape, TILED) and op.matrix_flops is None:
        return 0.0
    hop = given(hardware.cores.hop_time, "time of a hop of the mesh")
    return op.kernels * CROSSINGS * jnp.sqrt(hardware.cores.count) * hop


def published() -> KindEfficiency:
    """Shares of the peaks that such machines' own papers state."""
    return KindEfficiency(
        matrix=0.6,  # ours: large products of SN40L and WSE-2 reach half to three quarters of the peak
        matrix_low=0.6,  # ours: the same
        vector=0.8,  # ours
        bandwidth=0.85,  # SN40L, Prabhakar et al., arXiv:2405.07518: about 85 % of HBM bandwidth while decoding
        cache_bandwidth=0.8,  # ours
        kernel_time=0.0,
    )

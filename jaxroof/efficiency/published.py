"""The kernel tier: every kernel by its model, with constants of published micro-architecture and nothing fitted."""

import dataclasses

from jaxroof.efficiency import decode, gemm, grouped, prefill
from jaxroof.efficiency.derated import Host, LinkEfficiency
from jaxroof.efficiency.efficiency import Efficiency
from jaxroof.efficiency.kernels import Kernels
from jaxroof.efficiency.stream import StreamKernel


def streaming() -> StreamKernel:
    """Element-wise kernels, norms and copies."""
    return StreamKernel(
        launch_cycles=4400.0,  # 2.2 to 2.5 us in a CUDA graph near 1.8 GHz, NVIDIA's figures of graph launches
        launch_time=0.0,
        bandwidth=0.85,  # large copies reach 85 to 92 % of HBM, BabelStream
        vector=0.5,  # ours: one fused multiply-add counts as two, a norm's operations are mostly single
        matrix=0.5,  # ours: recurrent states and index scores are small products
    )


def kernel() -> Efficiency:
    """Models of kernels with `published()` constants; links lose what was measured of them; a host that takes no time.

    The tiers `learned-*` are the same models with constants fitted to measured kernels.
    """
    small = streaming()
    longer = dataclasses.replace(small, launch_cycles=2.0 * small.launch_cycles)  # two passes over the state or keys
    return Efficiency(
        linear=Kernels(wide=gemm.published()),
        experts=Kernels(wide=grouped.published()),
        prefill_attention=Kernels(wide=prefill.published(), plain=longer),
        decode_attention=Kernels(wide=decode.published(), latent=decode.published_latent(), plain=longer),
        elementwise=Kernels(wide=small),
        collective=LinkEfficiency(losses=1.0),
        host=Host(step_time=0.0, sequence_time=0.0, request_time=0.0),
    )

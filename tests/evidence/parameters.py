"""Fitted constants of the default efficiency, their starting values and bounds."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp

from jaxroof.efficiency import Efficiency, Host, KindEfficiency, LinkEfficiency
from sweeps.ask.axes import leaf, leaf_paths, replaced


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One positive constant with a log-normal prior."""

    path: str  # of the efficiency, or of a nuisance that is fitted beside it
    prior: float  # median; share, or s
    spread: float  # standard deviation of its logarithm
    low: float
    high: float
    fact: str  # where the prior is from

    def moved(self, prior: float, fact: str) -> "Parameter":
        """The same constant with another median of its prior, no further than its bounds."""
        return dataclasses.replace(self, prior=min(max(prior, self.low), self.high), fact=fact)


GEMM = "GEMM tables: 69 % (end to end) to 80 % (kernels alone) of the 16-bit peak"
GEMM_LOW = "fp8 GEMM tables with activation quantisation: 51 to 53 % of the 8-bit peak"
STREAM = "GEMM tables at m <= 16: 69 to 83 % of HBM, and 85 to 88 % for the largest on Hopper, which bounds it at 0.90"
FLOOR = "fixed time of a GEMM inside a CUDA graph: 2 to 3.3 us"
ATTENTION = "prefill attention of 4096 tokens and more on H100: 484 to 579 of 989 TFLOP/s"
KV = "decode attention with 0.5 GB of cache and more: 78 to 87 % of HBM"
SPLIT = "decode attention in a CUDA graph: 11 to 13 us, of two kernels"
GRAPHED = "fixed time of a small kernel inside a CUDA graph: 2 to 3 us"
WEAK = "weak prior, of the order of what engines report"

SHARED = (
    Parameter("linear.matrix", 0.75, 0.10, 0.4, 0.95, GEMM),
    Parameter("linear.matrix_low", 0.52, 0.10, 0.3, 0.9, GEMM_LOW),
    Parameter("linear.bandwidth", 0.85, 0.05, 0.5, 0.90, STREAM),
    Parameter("linear.kernel_time", 3.3e-6, 0.3, 0.5e-6, 20e-6, FLOOR),
    Parameter("prefill_attention.matrix", 0.55, 0.10, 0.2, 0.9, ATTENTION),
    Parameter("prefill_attention.bandwidth", 0.6, 0.3, 0.1, 0.95, "prefill attention tables: 34 to 61 % of HBM"),
    Parameter("prefill_attention.kernel_time", 12e-6, 0.3, 2e-6, 40e-6, "prefill attention tables: 10 to 16 us"),
    Parameter("decode_attention.bandwidth", 0.82, 0.05, 0.4, 0.90, KV),
    Parameter("decode_attention.kernel_time", 5.7e-6, 0.3, 1e-6, 20e-6, SPLIT),
    Parameter("elementwise.kernel_time", 2.5e-6, 0.4, 0.5e-6, 10e-6, GRAPHED),
    Parameter("host.step_time", 0.3e-3, 0.7, 0.01e-3, 5e-3, WEAK),
    Parameter("host.sequence_time", 15e-6, 0.7, 1e-6, 100e-6, WEAK),
)
"""Constants fitted to serving data, with priors that kernels alone give."""

EXPERTS = (
    Parameter("experts.matrix", 0.4, 0.5, 0.05, 0.95, WEAK),
    Parameter("experts.matrix_low", 0.2, 0.5, 0.05, 0.95, "expert GEMMs end to end: 18 % of the 8-bit peak"),
    Parameter("experts.bandwidth", 0.9, 0.2, 0.3, 0.97, "expert GEMMs end to end: 95 % of HBM"),
    Parameter("experts.kernel_time", 10e-6, 0.7, 1e-6, 60e-6, WEAK),
)
"""Constants of the experts, fitted to kernels alone."""

OTHER_ENGINES = {
    "older_vllm": (
        Parameter("older_vllm.kernel_times", 1.0, 0.1, 0.2, 3.0, "kernels of one engine"),
        Parameter("older_vllm.step_time", 1.0e-3, 0.7, 0.01e-3, 5e-3, WEAK),
        Parameter("older_vllm.sequence_time", 15e-6, 0.7, 1e-6, 100e-6, WEAK),
    ),
    "trtllm": (
        Parameter("trtllm.kernel_times", 1.0, 0.3, 0.2, 3.0, "as vLLM's"),
        Parameter("trtllm.step_time", 0.5e-3, 0.7, 0.01e-3, 5e-3, WEAK),
        Parameter("trtllm.sequence_time", 15e-6, 0.7, 1e-6, 100e-6, WEAK),
    ),
}
"""What other engines do otherwise: a factor on every kernel's fixed time, and host times of their own."""

FIXED = {
    "collective.losses": (
        1.0,
        "the links' measured losses apply in full: fixed times and shares stand with each link technology in "
        "hwspaces/technology/links.toml",
    ),
    "collective.share": (
        1.0,
        "ours: collectives between an engine's kernels run as alone; what they lose is in the host's time per step",
    ),
    "collective.two_shot": (1.0, "vLLM's own all-reduce has a two-stage form: csrc/custom_all_reduce.cuh"),
    "collective.wait_time": (
        0.0,
        "ours: no wait of its own; what devices wait for each other is in the host's time per step",
    ),
    "linear.vector": (0.5, "ours: GEMMs have no vector work in the model"),
    "linear.cache_bandwidth": (0.8, "ours: caches and scratchpads as HBM reaches; binds no GEMM on the GPUs fitted"),
    "experts.vector": (0.5, "ours: GEMMs have no vector work in the model"),
    "experts.cache_bandwidth": (0.8, "ours: as for linear, it binds nothing on the GPUs fitted"),
    "prefill_attention.matrix_low": (0.5, "ours: no 8-bit prefill attention was fitted; fp8 GEMMs reach about half"),
    "prefill_attention.vector": (
        0.8,
        "ours: exponentials take a third of the time of head_dim 128's products, and bind nothing",
    ),
    "prefill_attention.cache_bandwidth": (0.8, "ours: as for linear, it binds nothing on the GPUs fitted"),
    "decode_attention.matrix": (0.55, "ours: as of prefill attention; the cache binds"),
    "decode_attention.matrix_low": (0.5, "ours: as of prefill attention; the cache binds"),
    "decode_attention.vector": (0.8, "ours: as of prefill attention; the cache binds"),
    "decode_attention.cache_bandwidth": (0.8, "ours: as for linear, it binds nothing on the GPUs fitted"),
    "elementwise.matrix": (0.5, "unused: element-wise kernels have no matrix work"),
    "elementwise.matrix_low": (0.5, "unused: element-wise kernels have no matrix work"),
    "elementwise.vector": (0.5, "ours: binds no element-wise kernel on the GPUs fitted"),
    "elementwise.bandwidth": (0.75, "ours: as weight streaming, 69 to 83 % of HBM; small beside the fixed times"),
    "elementwise.cache_bandwidth": (0.8, "ours: as for linear, it binds nothing on the GPUs fitted"),
}
"""Constants that serving data do not determine."""


def starting_point() -> Efficiency:
    """Every constant at its prior or fixed value; request_time 0."""
    kind = KindEfficiency(matrix=1.0, matrix_low=1.0, vector=1.0, bandwidth=1.0, cache_bandwidth=1.0, kernel_time=0.0)
    efficiency = Efficiency(
        linear=kind,
        experts=kind,
        prefill_attention=kind,
        decode_attention=kind,
        elementwise=kind,
        collective=LinkEfficiency(losses=1.0),
        host=Host(step_time=0.0, sequence_time=0.0, request_time=0.0),
    )
    for path, (value, _) in FIXED.items():
        efficiency = replaced(efficiency, path, value)
    return with_values(efficiency, {p.path: p.prior for p in (*SHARED, *EXPERTS)})


def with_values(efficiency: Efficiency, values: Mapping[str, Any]) -> Efficiency:
    """`efficiency` with the constants at the given paths replaced."""
    for path, value in values.items():
        efficiency = replaced(efficiency, path, value)
    return efficiency


def with_scaled_kernel_times(efficiency: Efficiency, factor: Any) -> Efficiency:
    """`efficiency` with the fixed time of every kernel that computes times `factor`."""
    fixed = ("kernel_time", "launch_cycles", "launch_time")
    paths = [path for path in leaf_paths(efficiency) if path.endswith(fixed)]
    return with_values(efficiency, {path: factor * leaf(efficiency, path) for path in paths})


def named(parameters: Sequence[Parameter], logarithms: Any) -> dict[str, Any]:
    """Path -> value, from the vector of logarithms that the fit moves."""
    return {parameter.path: jnp.exp(logarithms[i]) for i, parameter in enumerate(parameters)}

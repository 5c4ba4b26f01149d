"""Classes of kernels of recurrent states, short convolutions, residual streams and encoders' attention: what moves."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jaxroof.efficiency.prefill import PrefillKernel, published
from jaxroof.efficiency.recurrence import StateKernel
from jaxroof.efficiency.stream import StreamKernel
from tests.evidence.learned_kernels.decode import CORE_CLASSES
from tests.evidence.parameters import Parameter

OURS = "ours: order of magnitude"

ALIKE = "ours: kernels of an engine are alike"

COPIES = "large copies: 85 to 92 % of HBM"


class Class(NamedTuple):
    """One class of kernels of an engine: where its constants belong, its rows, and what moves."""

    path: str
    tables: tuple[str, ...]
    roles: tuple[str, ...]  # first words of a group's precision; empty: all
    start: Any
    moved: tuple[Parameter, ...]
    foreign: tuple[str, ...] = ()  # devices that run other kernels in it: scored, not fitted


def _own(
    ratios: Mapping[str, float], classes: Sequence[str] = CORE_CLASSES, spread: float = 0.4
) -> tuple[Parameter, ...]:
    """Ratios of constants of every class of cores to those of the class before."""
    return tuple(
        Parameter(f"{name}.{constant}", prior, spread, prior / 20.0, prior * 20.0, ALIKE)
        for name in classes
        for constant, prior in ratios.items()
    )


# Recurrent states.


PASSES = StateKernel(
    launch_cycles=0.0,
    launch_time=18e-6,  # six kernels of 3 us
    row_cycles=300.0,  # a row of a triangle after the other
    step_cycles=4000.0,
    states=1.0,
    spill=8.0,  # what the six kernels of flash-linear-attention read and write for each other, counted
    copies=2.0,  # states are gathered before and scattered after
    bandwidth=0.8,
    cache_bandwidth=0.4,
    core_bytes=10.0,
    resident=0.8,
)
"""Chunked prompts in one kernel per pass."""

FUSED = dataclasses.replace(PASSES, launch_time=15e-6, row_cycles=10.0, spill=2.0, step_cycles=6000.0)
"""The same with most passes in one kernel: FlashKDA."""

UPDATES = StateKernel(
    launch_cycles=0.0,
    launch_time=3e-6,
    row_cycles=0.0,
    step_cycles=2000.0,
    states=8.0,
    spill=0.0,
    copies=1.0,
    bandwidth=0.85,
    cache_bandwidth=0.5,
    core_bytes=25.0,
    resident=0.8,
)
"""Updates of decoding tokens."""

BLACKWELLS_OWN = {"launch_time": 1.0, "step_cycles": 1.0, "core_bytes": 1.0}
"""What its kernel for Blackwell differs in from that for Hopper."""

FLASHINFER = {"launch_time": 0.6, "row_cycles": 0.01, "step_cycles": 1.2, "core_bytes": 1.0}
FLASHINFER |= {"states": 0.2, "spill": 0.03}
"""What FlashInfer's fused kernel, which vLLM runs on asynchronous cores, differs in from kernels per pass."""


def _states(start: StateKernel) -> tuple[Parameter, ...]:
    moved = (
        Parameter("launch_time", start.launch_time, 0.5, 5e-7, 1e-4, "3 us per kernel in a CUDA graph"),
        Parameter("step_cycles", start.step_cycles, 0.5, 10.0, 1e5, OURS),
        Parameter("states", start.states, 0.5, 0.1, 64.0, OURS),
        Parameter("copies", start.copies, 0.4, 0.3, 8.0, "as engines gather and scatter states"),
        Parameter("bandwidth", start.bandwidth, 0.05, 0.3, 0.97, COPIES),
        Parameter("cache_bandwidth", start.cache_bandwidth, 0.25, 0.05, 1.0, OURS),
        Parameter("core_bytes", start.core_bytes, 0.3, 1.0, 200.0, OURS),
        Parameter("resident", start.resident, 0.2, 0.2, 1.5, OURS),
    )
    if not start.spill:
        return moved
    return (
        *moved,
        Parameter("row_cycles", start.row_cycles, 0.7, 1e-2, 1e4, OURS),
        Parameter("spill", start.spill, 0.3, 0.05, 40.0, "passes counted by what they read and write"),
    )


# Kernels that stream.


STREAMING = StreamKernel(
    launch_cycles=0.0,
    launch_time=2.5e-6,
    bandwidth=0.85,
    vector=0.5,
    matrix=0.5,
    core_bytes=9.0,
    residency=0.8,
)

LANES = dataclasses.replace(STREAMING, lane_cycles=150.0)
"""Convolutions with a block of threads per channel and sequence: TensorRT-LLM's."""

MIXING = dataclasses.replace(STREAMING, matrix=0.015)
"""Coefficients of residual streams are products of 24 outputs, which synchronous cores make without matrix units."""


def _streams(start: StreamKernel) -> tuple[Parameter, ...]:
    moved = (
        Parameter("launch_time", start.launch_time, 0.5, 5e-7, 1e-4, "a kernel in a CUDA graph"),
        Parameter("bandwidth", start.bandwidth, 0.05, 0.3, 0.97, COPIES),
        Parameter("core_bytes", 9.0, 0.4, 0.5, 100.0, "16 B in flight per thread, 1000 cycles of latency"),
        Parameter("residency", 0.8, 0.3, 0.1, 1.5, OURS),
    )
    if start.lane_cycles is not None:
        moved = (*moved, Parameter("lane_cycles", start.lane_cycles, 0.7, 1.0, 1e4, OURS))
    if start.matrix < 0.1:
        moved = (
            *moved,
            Parameter("matrix", start.matrix, 0.5, 1e-3, 1.0, "vector units: a twentieth of the matrix peak"),
            Parameter("asynchronous.matrix", 20.0, 0.3, 1.0, 100.0, "DeepGEMM's product of such coefficients"),
        )
    return moved


# Attention of encoders.


BLACKWELL = "asynchronous.tensor_memory."
"""Beginning of the paths of ratios of constants where accumulators have a memory of their own to those of Hopper."""


def _full(engine: str) -> PrefillKernel:
    """Constants that no row moves: heads are padded to 32 elements by FlashAttention-2 and 3, to 16 by 4 and Triton."""
    known = published()
    synchronous = dataclasses.replace(known.synchronous, width_step=32.0, uneven=0.05)
    if engine == "sglang":
        synchronous = dataclasses.replace(known.synchronous, width_step=16.0, uneven=1.0)
    # trtllm-gen has no kernel for heads of 72: an older one runs.
    uneven = 3.0 if engine == "trtllm" else 0.05
    memory = {"width_step": 16.0, "uneven": uneven}
    asynchronous = dataclasses.replace(known.asynchronous, width_step=32.0, uneven=0.05, tensor_memory=memory)
    none = {"cache_write": 0.0, "query_copy": 0.0, "low_launch": 0.0}
    return dataclasses.replace(known, synchronous=synchronous, asynchronous=asynchronous, launch_cycles=8000.0, **none)


FULL = (
    Parameter("synchronous.matrix", 0.7, 0.15, 0.2, 0.97, "FlashAttention-2: 50 to 73 % of A100's peak"),
    Parameter("asynchronous.matrix", 0.8, 0.1, 0.3, 0.97, "FlashAttention-3: 75 % of H100's peak"),
    Parameter("synchronous.serial", 0.5, 0.3, 0.01, 1.5, OURS),
    Parameter("asynchronous.serial", 0.2, 0.4, 0.01, 1.5, OURS),
    Parameter("synchronous.tile_cycles", 4000.0, 0.4, 200.0, 3e4, OURS),
    Parameter("asynchronous.tile_cycles", 6000.0, 0.4, 200.0, 3e4, OURS),
    Parameter(f"{BLACKWELL}matrix", 1.0, 0.15, 0.5, 1.3, ALIKE),
    Parameter(f"{BLACKWELL}serial", 1.0, 0.4, 0.1, 5.0, ALIKE),
    Parameter(f"{BLACKWELL}tile_cycles", 1.0, 0.4, 0.1, 5.0, ALIKE),
    Parameter("vector", 6.0, 0.15, 1.0, 60.0, "operations of online softmax"),
    Parameter("tail", 0.8, 0.2, 0.1, 2.0, OURS),
    Parameter("resident", 0.7, 0.2, 0.2, 1.5, OURS),
    Parameter("warm", 0.25, 0.4, 0.03, 1.0, OURS),
    Parameter("memory_serial", 0.1, 0.3, 0.01, 1.0, OURS),
    Parameter("launch_cycles", 8e3, 0.5, 1e3, 6e4, OURS),
    Parameter("bandwidth", 0.85, 0.05, 0.3, 0.95, COPIES),
)

UNEVEN = {
    "sglang": (Parameter("synchronous.uneven", 1.0, 0.5, 0.01, 10.0, "loads of 16 B do not fit such rows"),),
    "trtllm": (Parameter(f"{BLACKWELL}uneven", 60.0, 0.5, 1.0, 300.0, "a kernel of Ampere in place of Blackwell's"),),
    "vllm": (),
}
"""What differs by engine where 16 does not divide the width of a head."""

OLDER = ("a100_sxm",)
"""Devices measured under SGLang 0.5.10 alone, whose kernels of these layers are others."""


def classes(engine: str) -> list[Class]:
    """Classes of an engine's kernels in these tables."""
    # Kernels written in Triton are the same everywhere; on Blackwell their cores move more bytes per cycle.
    blackwell = ["tensor_memory"]
    states = {"trtllm": (), "sglang": _own({"core_bytes": 1.0}, blackwell)}.get(engine, ())
    if engine == "vllm":
        states = (*_own(FLASHINFER, ["asynchronous"]), *_own(BLACKWELLS_OWN, blackwell))
    found = [
        Class("prefill_attention.states", ("gdn",), ("chunks",), PASSES, (*_states(PASSES), *states)),
        Class("decode_attention.states", ("gdn",), ("states",), UPDATES, _states(UPDATES), OLDER),
    ]
    convolved = ("gdn", "mamba2") if engine == "trtllm" else ("gdn", "kda")
    window = LANES if engine == "trtllm" else STREAMING
    found += [
        Class("elementwise.window", convolved, ("window", "keys"), window, _streams(window), OLDER),
        Class("elementwise.update", convolved, ("update",), STREAMING, _streams(STREAMING), OLDER),
        Class("elementwise.streams", ("mhc",), ("mix", "spread"), MIXING, _streams(MIXING)),
    ]
    if engine != "trtllm":
        chunks = FUSED if engine == "vllm" else PASSES
        # FlashKDA needs bulk copies, which L40S lacks: vLLM has kernels per pass there.
        foreign = ("l40s",) if engine == "vllm" else ()
        own = _own({"step_cycles": 1.0, "core_bytes": 1.0}) if engine == "vllm" else ()
        found += [
            Class("prefill_attention.gated", ("kda",), ("chunks",), chunks, (*_states(chunks), *own), foreign),
            Class("decode_attention.gated", ("kda",), ("states", "fused"), UPDATES, _states(UPDATES)),
        ]
    # Triton's tiles of 64 rows read keys again that L40S's L2 does not hold.
    foreign = ("l40s",) if engine == "sglang" else ()
    return [*found, Class("prefill_attention.full", ("encoder",), (), _full(engine), (*FULL, *UNEVEN[engine]), foreign)]

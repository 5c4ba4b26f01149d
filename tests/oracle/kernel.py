"""Work of one kernel, and the kinds that layers are made of: products with weights, rows of numbers, messages."""

import dataclasses
from typing import Any

import numpy as np

SIZE = {"fp32": 4.0, "tf32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "fp4": 0.5}
LOW = {"fp8", "int8", "fp4"}

TILE = 64.0
"""Rows for which a weight-only kernel converts a weight once."""


@dataclasses.dataclass
class Kernel:
    """Work of one run on one device."""

    kind: str
    runs: Any
    launches: Any
    matmul: Any = 0.0  # FLOP
    precision: str | None = None
    vector: Any = 0.0  # FLOP
    exps: Any = 0.0
    moved: Any = 0.0  # B, each operand once
    collective: str | None = None
    message: Any = 0.0  # B
    devices: Any = 1.0
    stride: Any = 1.0
    needed: Any = None  # parts of so many -> copies of a token that they need, over those in `message`


def ways(degree):
    """A parallel degree that is not given splits nothing."""
    return 1.0 if degree is None else degree


def launched(work):
    """A kernel without work is not launched."""
    return np.where(np.asarray(work) > 0.0, 1.0, 0.0)


def rowwise(runs, rows, moved, flops, exps=0.0, kernels=1.0) -> Kernel:
    """`rows` rows that each move `moved` B and need `flops` and `exps`."""
    return Kernel(
        "elementwise", runs, kernels * launched(rows), vector=rows * flops, exps=rows * exps, moved=rows * moved
    )


def norm(runs, rows, width, act) -> Kernel:
    """Input and residual in, sum and normalised sum out: 4 B-elements and 5 FLOP each."""
    return rowwise(runs, rows, 4.0 * width * act, 5.0 * width)


def gemm(
    name, runs, rows, inputs, outputs, weight, act, kind="linear", copies=1.0, quantised=None
) -> dict[str, Kernel]:
    """Rows times a matrix, of which `copies` different ones are touched.

    At 8 bits or less a kernel converts the inputs first, `quantised` rows of them: 4 FLOP an element. A weight-only
    kernel converts each weight that it touches, with 2 FLOP, once per tile of rows; every copy has one tile at least.
    """
    size = SIZE[weight.compute]
    kernels = {}
    if weight.compute in LOW:
        converted = rows if quantised is None else quantised
        kernels[f"{name}_quantize"] = rowwise(runs, converted, inputs * (act + size), 4.0 * inputs)
    touched = launched(rows) * copies
    moved = touched * inputs * outputs * weight.bytes + rows * (inputs * size + outputs * act)
    vector = 2.0 * inputs * outputs * np.maximum(rows / TILE, touched) if weight.dequantised else 0.0
    flops = 2.0 * rows * inputs * outputs
    kernels[name] = Kernel(kind, runs, launched(rows), flops, weight.compute, vector=vector, moved=moved)
    return kernels


def fused_attention(kind, runs, deployment, heads, key, value, queries, pairs, cache, kernels) -> Kernel:
    """Scores, softmax and weighted sum of `pairs` query-key pairs per head over a cache of `cache` B."""
    return Kernel(
        kind,
        runs,
        kernels * launched(queries),
        matmul=2.0 * pairs * heads * (key + value),
        precision=deployment.attention_compute,
        vector=4.0 * pairs * heads,
        exps=pairs * heads,
        moved=cache + queries * heads * (key + value) * deployment.activation_bytes,
    )


def message(kind, runs, size, devices, stride=1.0, needed=None) -> Kernel:
    """A collective of `size` B; one device needs none."""
    active = launched(size) * launched(devices - 1.0)
    place = {"devices": devices, "stride": stride, "needed": needed}
    return Kernel("collective", runs, active, collective=kind, message=size, **place)


def summed(name, runs, tokens, width, deployment) -> dict[str, Kernel]:
    """A layer's output summed over tp devices, at once or scattered first and gathered then."""
    size = tokens * width * deployment.communication_bytes
    halves = ("reduce_scatter", "all_gather") if deployment.sequence_parallel else ("all_reduce",)
    return {f"{name}_{half}": message(half, runs, size, deployment.tp) for half in halves}

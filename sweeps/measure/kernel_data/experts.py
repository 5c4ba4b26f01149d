"""Routed experts of a layer in one call: `aic_moe.parquet`, without the router and the choice of experts."""

import dataclasses
import functools
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxroof.layers.feedforward import ACTIVATION_FLOPS
from jaxroof.layers.linear import Matrix, elementwise, projection
from jaxroof.model import WeightFormat
from jaxroof.op import AnyOp, Kernel
from sweeps.measure.kernel_data.gemm import ACTIVATION_BYTES
from sweeps.measure.kernel_data.gemm import FORMATS as DENSE
from sweeps.measure.kernel_data.group import Call, Columns, KernelGroup, groups
from sweeps.measure.kernel_data.releases import kernel_table

DRAWS = 6
"""Random routings that figures of a power law are the mean of; the tables hold one draw, with an unknown seed."""

SCARCE = (0.01, 2.0)
"""Bounds of a power law's unscaled loads where choices are fewer than experts; else 1 and `BUSIEST` of the tokens."""

BUSIEST = 0.8


class Routing(NamedTuple):
    """Rows of the experts that the measured device holds: the first device's, or the one with the most rows."""

    rows: float  # over all its experts
    touched: float  # experts with rows
    largest: float  # rows of the busiest
    visitors: float  # tokens with one of its experts at least


@functools.cache
def routing(distribution: str, tokens: int, experts: int, top_k: int, devices: int, adjoining: bool = False) -> Routing:
    """What `tokens` tokens of the whole group send to the measured one of `devices` devices.

    Args:
      distribution: "balanced", or "power_law_" and the exponent.
      adjoining: experts of a power law's device are neighbours, not a number of devices apart.

    Source: README of the tables; ai-dynamo/aiconfigurator, collector/helper.py, for the two distributions.
    """
    if distribution == "balanced":
        counts = balanced_rows(tokens, experts, top_k, devices)[None]
    else:
        counts = power_law_rows(float(distribution.rsplit("_", 1)[1]), tokens, experts, top_k, devices, adjoining)
    # Means over the draws; a balanced routing is a single one.
    rows = np.mean(np.sum(counts, axis=1))
    touched, largest = np.mean(np.sum(counts > 0, axis=1)), np.mean(np.max(counts, axis=1))
    if distribution == "balanced":  # a token's choices are as far apart as they can be
        visitors = min(tokens, rows)
    else:
        # Each of a token's top_k choices is here with the share rows / (tokens top_k), independently of the others.
        visitors = tokens * (1.0 - max(1.0 - rows / (tokens * top_k), 0.0) ** top_k)
    return Routing(float(rows), float(touched), float(largest), float(visitors))


def balanced_rows(tokens: int, experts: int, top_k: int, devices: int) -> np.ndarray:
    """Rows of every expert of the first device, shape [experts / devices].

    The choices of a token are a stride of experts / top_k apart, and the next token's are one further, or so much
    further that tokens spread over the stride where they are fewer.
    """
    # Ceiling division: the number of experts need not be a multiple of top_k.
    held, stride = experts // devices, -(-experts // top_k)
    choices = np.arange(top_k) * stride
    if tokens < stride:
        chosen = (np.arange(tokens)[:, None] * stride // tokens + choices) % experts
        return np.bincount(chosen.ravel(), minlength=experts)[:held]
    first = (np.arange(held)[:, None] - choices) % experts  # the first token that chooses the expert
    return np.sum(np.where(first < tokens, (tokens - 1 - first) // experts + 1, 0), axis=1)


def power_law_rows(
    exponent: float, tokens: int, experts: int, top_k: int, devices: int, adjoining: bool = False
) -> np.ndarray:
    """Rows of every expert of the device with the most, shape [DRAWS, experts / devices].

    Loads are drawn from a density x^-exponent between two bounds and scaled to the number of choices; an expert takes
    each token once at most, and what is left over goes to those that have least.
    """
    choices = tokens * top_k
    low, high = (1.0, BUSIEST * tokens) if choices > experts else SCARCE
    # Seeded by the shape alone, so that one shape has one routing in every run.
    uniform = np.random.default_rng(experts * 1000 + tokens).random((DRAWS, experts))
    # The inverse of the cumulative distribution of x^-exponent between both bounds, at uniform random numbers.
    power = 1.0 - exponent
    loads = ((high**power - low**power) * uniform + low**power) ** (1.0 / power)
    counts = np.minimum(np.rint(loads / np.sum(loads, axis=1, keepdims=True) * choices), tokens).astype(int)
    for row in counts:
        _fill(row, choices, tokens)
    if adjoining:
        by_device = np.swapaxes(counts.reshape(DRAWS, devices, experts // devices), 1, 2)
    else:  # `_fill` is even over the devices
        by_device = counts.reshape(DRAWS, experts // devices, devices)
    busiest = np.argmax(np.sum(by_device, axis=1), axis=1)
    return by_device[np.arange(DRAWS), :, busiest]


def _fill(counts: np.ndarray, total: int, limit: int) -> None:
    """Change `counts` in place, least ones up or largest ones down, until they add up to `total`."""
    while (missing := total - int(np.sum(counts))) != 0:
        step = 1 if missing > 0 else -1
        order = np.argsort(counts * step, kind="stable")
        free = order[counts[order] < limit] if missing > 0 else order[counts[order] > 0]
        if len(free) == 0:
            return
        # At most half of the candidates change in one round, so that corrections spread over several experts.
        chosen = free[: min(abs(missing), max(len(free) // 2, 1))]
        counts[chosen] += step


FILE = "aic_moe.parquet"

FORMATS = DENSE | {
    # MXFP4: 4 bits per weight and a scale of 1 B per 32 weights, in B.
    "w4a16_mxfp4": WeightFormat(bytes=0.5 + 1.0 / 32, compute="bf16", dequantised=True),
    "w4a8_mxfp4_mxfp8": WeightFormat(bytes=0.5 + 1.0 / 32, compute="fp8", scaled=True),
}
"""dtype of the table -> how weights are stored and multiplied."""

UNGATED = "nongated"
"""Part of the names of kernels whose experts have one up projection."""

MASKED = r"triton|^vllm_fused_moe"
"""Names of kernels that mask rows of other devices' experts instead of leaving them out: they store zeros for them,
activate and combine them. vllm-project/vllm and sgl-project/sglang, fused_moe_kernel."""

WHOLE = "flashinfer_trtllm"
"""Part of the names of kernels that, at a scale per block of 128, activate and combine such rows too, in kernels of
their own: flashinfer-ai/flashinfer, trtllm_fused_moe_dev_kernel.cu, activationDeepSeek."""

UNGATED_SIZES = ((2688, 1856), (4096, 2688), (1024, 2688), (2048, 5120), (8192, 5120))
"""Hidden and inner sizes of models whose experts have one up projection, whatever the kernel's name: the config.json of
NVIDIA's Nemotron-3 models, mlp_hidden_act relu2."""

ADJOINING = (("vllm", "0.14.0"), ("sglang", "0.5.10"))
"""Engines and versions that were measured with an older routing: a device holds adjoining experts, as loads are laid
out, and experts are gated in all models."""

CHOSEN_AGAIN = (("sglang", "0.5.10"),)
"""Those that choose `topk` of the device's own experts for every token that has one there."""

ROUTING = ("distribution", "num_tokens", "num_experts", "topk", "moe_ep_size")
NUMBERS = (
    *("num_tokens", "hidden_size", "inter_size", "num_experts", "moe_tp_size", "rows", "stored", "up_projections"),
    *("touched", "largest"),
)
LABELS = {"dtype": "{}", "balanced": ""}


def expert_groups(folder: Path) -> list[KernelGroup]:
    """Rows of all tables of experts."""
    return groups(routed(expert_table(folder)), "experts", LABELS, NUMBERS, expert_call)


def expert_table(folder: Path) -> Any:
    """The table as it stands, texts as such."""
    texts = ("gpu", "backend", "version", "kernel_source", "dtype", "distribution")
    frame = kernel_table(folder, FILE, (*texts, *ROUTING, "hidden_size", "inter_size", "moe_tp_size", "latency_us"))
    return frame.assign(**{name: frame[name].astype(str) for name in texts})


def routed(frame: Any) -> Any:
    """The table with what the measured device gets: its rows, experts touched, and rows of the busiest.

    `stored` are its rows and those that it masks.
    """
    releases = list(zip(frame.backend, frame.version, strict=True))
    frame = frame.assign(adjoining=[release in ADJOINING for release in releases])
    names = [*ROUTING, "adjoining"]
    # Many rows share one routing: each distinct one is drawn once and merged back by its columns.
    kinds = frame[names].drop_duplicates()
    routings = [routing(str(row[0]), *map(int, row[1:-1]), bool(row[-1])) for row in kinds.itertuples(index=False)]
    kinds = kinds.assign(**{name: [getattr(each, name) for each in routings] for name in Routing._fields})
    frame = frame.merge(kinds, on=names, how="left")
    # Where choices are made again on the device, every visiting token has `topk` rows there instead of its share.
    again = np.asarray([release in CHOSEN_AGAIN for release in releases])
    scale = np.where(again, frame.visitors * frame.topk / np.maximum(frame.rows, 1e-9), 1.0)
    sources = frame.kernel_source.astype(str)
    # Gated experts have two up projections (gate and up, as SwiGLU), ungated ones a single one.
    ungated = [size in UNGATED_SIZES for size in zip(frame.hidden_size, frame.inter_size, strict=True)]
    ungated = sources.str.contains(UNGATED) | (np.asarray(ungated) & ~frame.adjoining)
    masked = sources.str.contains(MASKED) | (sources.str.contains(WHOLE) & (frame.dtype == "fp8_block"))
    tokens, rows = np.where(again, frame.visitors, frame.num_tokens), frame.rows * scale
    return frame.assign(
        num_tokens=tokens,
        rows=rows,
        stored=np.where(masked, np.maximum(tokens * frame.topk, rows), rows),
        largest=frame.largest * scale,
        up_projections=np.where(ungated, 1.0, 2.0),
        balanced=frame.distribution == "balanced",
    )


@functools.cache
def expert_call(dtype: str, balanced: bool) -> Call | None:
    """The ops of one call at `dtype`; None where the dtype is not modelled."""
    weights = FORMATS.get(dtype)
    if weights is None:
        return None

    def call(row: Columns) -> tuple[AnyOp, ...]:
        rows, stored, hidden = row["rows"], row["stored"], row["hidden_size"]
        width, touched = row["inter_size"] / row["moe_tp_size"], row["touched"]
        # Gate and up projection are one product with their widths side by side.
        up = Matrix(hidden, row["up_projections"] * width, weights)
        down = Matrix(width, hidden, weights)
        ops = projection("up", rows, up, ACTIVATION_BYTES, 1.0, "experts", touched, row["num_tokens"])
        ops["activation"] = elementwise(
            stored,
            reads=up.outputs,
            writes=width,
            element_bytes=ACTIVATION_BYTES,
            flops=ACTIVATION_FLOPS * width,
            count=1.0,
            exps=width,
        )
        ops |= projection("down", rows, down, ACTIVATION_BYTES, 1.0, "experts", touched)
        # Combining reads every stored row and writes one row per token, `hidden` elements each.
        moved = stored + row["num_tokens"]
        ops["combine"] = elementwise(
            moved, reads=hidden, writes=0.0, element_bytes=ACTIVATION_BYTES, flops=2.0 * hidden, count=1.0
        )
        # Zeros that the two products store for masked rows: part of their kernels.
        zeros = elementwise(
            stored - rows, reads=0.0, writes=up.outputs + hidden, element_bytes=ACTIVATION_BYTES, flops=0.0, count=1.0
        )
        ops["zeros"] = dataclasses.replace(zeros, kernels=0.0)
        # The benchmark runs one layer again and again, so its weights are what L2 may still hold.
        reuse = touched * (up.inputs * up.outputs + down.inputs * down.outputs) * weights.bytes
        return tuple(measured_op(op, reuse, None if balanced else row["largest"]) for op in ops.values())

    return call


def measured_op(op: AnyOp, reuse: Any, largest: Any) -> AnyOp:
    """The op as a benchmark repeats it: bytes between two readings of its weights, and rows of the busiest expert."""
    if not isinstance(op, Kernel):
        return op
    shape = None if op.shape is None else dataclasses.replace(op.shape, largest=largest)
    return dataclasses.replace(op, reuse_bytes=reuse, shape=shape)

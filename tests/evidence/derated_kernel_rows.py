"""Times of single vLLM kernels on Hopper: what the tables under kernels/ say, as ops of the cost model."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

import hwspaces
from jaxroof.batch import Decode, Prefill
from jaxroof.deployment import Deployment
from jaxroof.efficiency import Efficiency
from jaxroof.hardware import Hardware
from jaxroof.layers.attention import Attention, decode_attention, prefill_attention
from jaxroof.layers.feedforward import expert_ops
from jaxroof.layers.linear import Matrix, projection
from jaxroof.model import Experts, WeightFormat
from jaxroof.op import Op
from jaxroof.roofline import op_time
from sweeps.measure.validate.relative_errors import stacked

DEVICES = ("h100_sxm", "h200_sxm")
ENGINE = "vllm"
ROWS = 600
"""Rows per family that are fitted: every n-th of the sorted table."""

LARGE = 2048
"""Rows of the smallest fp8 GEMM that is fitted."""

HEAD_DIM = 128
BF16 = WeightFormat(bytes=2.0, compute="bf16")
FP8 = WeightFormat(bytes=1.0, compute="fp8")


@dataclasses.dataclass(frozen=True)
class Kernel:
    """Ops that ran back to back in one timed call."""

    hardware: Hardware
    ops: tuple[Op, ...]
    seconds: float


def call_times(kernels: Sequence[Kernel]) -> Callable[[Efficiency], jax.Array]:
    """A function from efficiency to the times in s of all calls, shape [calls]."""
    order, stacks = stacked([(kernel.hardware, kernel.ops) for kernel in kernels])

    def times(efficiency: Efficiency) -> jax.Array:
        each = [
            jax.vmap(lambda hardware, ops: sum(op.count * op_time(op, hardware, efficiency) for op in ops))(*stack)
            for stack in stacks
        ]
        return jnp.concatenate(each)[order]

    return times


def gemms(folder: Path, dtype: str) -> list[Kernel]:
    """Dense GEMMs at `dtype`: "bfloat16", or "fp8", whose calls also quantise their activations.

    Of fp8 only large ones: in small ones the quantiser takes longer than the GEMM.
    """
    table = _table(folder / "aic_gemm.parquet")
    table = table[(table.dtype == dtype) & (table.timing == "cudagraph") & (table.n >= 512) & (table.k >= 512)]
    if dtype == "fp8":
        table = table[table.m >= LARGE]
    weights = {"bfloat16": BF16, "fp8": FP8}[dtype]
    return [Kernel(_device(row), _gemm(row, weights), _seconds(row)) for row in _sample(table, ["gpu", "m", "n", "k"])]


def decode_attentions(folder: Path) -> list[Kernel]:
    """Decode attention over a 16-bit cache."""
    table = _table(folder / "aic_attention_generation.parquet")
    table = table[(table.kv_dtype == "bfloat16") & (table.head_dim == HEAD_DIM) & (table.window == 0)]
    # A kernel that serves more queries than keys has heads for is bound by padding, which only tiles explain.
    table = table[(table.kv_len >= 128) & (table.n_heads <= 8 * table.n_kv_heads)]
    return [
        Kernel(
            _device(row),
            tuple(
                decode_attention(
                    _attention(row),
                    Deployment(),
                    Decode(sequences=float(row.batch), context=float(row.batch) * float(row.kv_len)),
                    1.0,
                ).values()
            ),
            _seconds(row),
        )
        for row in _sample(table, ["gpu", "batch", "kv_len", "n_heads", "n_kv_heads"])
    ]


def prefill_attentions(folder: Path) -> list[Kernel]:
    """Causal prefill attention over a 16-bit cache."""
    table = _table(folder / "aic_attention_context.parquet")
    table = table[(table.kv_dtype == "bfloat16") & (table.attn_dtype == "bfloat16") & (table.head_dim == HEAD_DIM)]
    table = table[(table.window == 0) & (table.seq_q >= 16)]
    return [
        Kernel(
            _device(row),
            tuple(
                prefill_attention(
                    _attention(row),
                    Deployment(),
                    Prefill(sequences=float(row.batch), tokens=float(row.batch) * float(row.seq_q), past=0.0),
                    1.0,
                ).values()
            ),
            _seconds(row),
        )
        for row in _sample(table, ["gpu", "batch", "seq_q", "n_heads", "n_kv_heads"])
    ]


def expert_layers(folder: Path, dtype: str) -> list[Kernel]:
    """Routed experts without their router at `dtype`: "bfloat16" or "fp8_block".

    Only rows in which it is certain how many experts are touched: one token, or several tokens per expert,
    half of the rows each, so that decode counts as much as prefill.
    """
    table = _table(folder / "aic_moe.parquet")
    table = table[(table.dtype == dtype) & (table.moe_ep_size == 1) & (table.distribution == "balanced")]
    per_expert = table.num_tokens.astype(float) * table.topk / table.num_experts
    keys = ["gpu", "num_tokens", "num_experts", "inter_size", "moe_tp_size", "hidden_size"]
    one, several = _sample(table[table.num_tokens == 1], keys), _sample(table[per_expert >= 4.0], keys)
    half = min(len(one), len(several))
    weights = {"bfloat16": BF16, "fp8_block": FP8}[dtype]
    rows = [*one[:: len(one) // half], *several[:: len(several) // half]]
    return [Kernel(_device(row), _expert_layer(row, weights), _seconds(row)) for row in rows]


def _gemm(row: Any, weights: WeightFormat) -> tuple[Op, ...]:
    matrix = Matrix(float(row.k), float(row.n), weights)
    return tuple(projection("gemm", float(row.m), matrix, 2.0, 1.0).values())


def _expert_layer(row: Any, weights: WeightFormat) -> tuple[Op, ...]:
    experts = Experts(
        experts=float(row.num_experts),
        top_k=float(row.topk),
        intermediate=float(row.inter_size),
        up_projections=2.0,
        up=weights,
        down=weights,
        router=BF16,
        shared=None,
    )
    deployment = Deployment(tp=float(row.moe_tp_size))
    tokens = float(row.num_tokens)
    ops = expert_ops(experts, float(row.hidden_size), deployment, tokens, tokens, 1.0)
    return tuple(op for name, op in ops.items() if name != "router")


def _attention(row: Any) -> Attention:
    return Attention(
        heads=float(row.n_heads),
        kv_heads=float(row.n_kv_heads),
        head_dim=float(HEAD_DIM),
        value_dim=float(HEAD_DIM),
        window=None,
        qkv=BF16,
        output=BF16,
    )


def _device(row: Any) -> Hardware:
    return hwspaces.hardware(row.gpu).hardware


def _seconds(row: Any) -> float:
    return float(row.latency_us) * 1e-6


def _table(path: Path) -> Any:
    try:
        import pandas
    except ImportError:
        raise ValueError(f"{path}: reading it needs pandas and pyarrow: pip install '.[validate]'") from None
    try:
        table = pandas.read_parquet(path, filters=[("backend", "==", ENGINE)])
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file") from None
    return table[table.gpu.isin(DEVICES)]


def _sample(table: Any, keys: list[str]) -> list[Any]:
    ordered = table.sort_values([*keys, "latency_us"], kind="stable")
    return list(ordered.iloc[:: max(len(ordered) // ROWS, 1)].itertuples())

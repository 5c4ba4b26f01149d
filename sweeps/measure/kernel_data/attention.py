"""Softmax attention with grouped keys and values: `aic_attention_context` and `aic_attention_generation`."""

import dataclasses
import functools
from pathlib import Path

from jaxroof.batch import Decode, Prefill
from jaxroof.deployment import Deployment
from jaxroof.layers.attention import Attention, decode_attention, prefill_attention
from jaxroof.model import WeightFormat
from jaxroof.op import AnyOp, Ops
from sweeps.measure.kernel_data.group import Call, Columns, KernelGroup, groups, table

CONTEXT_FILE = "aic_attention_context.parquet"
GENERATION_FILE = "aic_attention_generation.parquet"

BYTES = {"bfloat16": 2.0, "fp8": 1.0}
COMPUTE = {"bfloat16": "bf16", "fp8": "fp8"}
LABELS = {"attn_dtype": "{}", "kv_dtype": "kv {}", "windowed": ""}
SHAPE = ("gpu", "backend", "version", "kernel_source", "attn_dtype", "kv_dtype", "head_dim", "window", "n_heads")
SHAPE += ("n_kv_heads", "batch", "latency_us")

_WEIGHTS = WeightFormat(bytes=2.0, compute="bf16")


def prefill_groups(folder: Path) -> list[KernelGroup]:
    """Causal attention of new prompts to themselves."""
    frame = _windowed(table(folder / CONTEXT_FILE, (*SHAPE, "seq_q", "kv_past")))
    numbers = ("batch", "seq_q", "kv_past", "n_heads", "n_kv_heads", "head_dim", "window")
    return groups(frame, "prefill attention", LABELS, numbers, prefill_call)


def decode_groups(folder: Path) -> list[KernelGroup]:
    """One query per sequence; rows that are faster than physically possible, which the table marks, are left out."""
    frame = _windowed(table(folder / GENERATION_FILE, (*SHAPE, "kv_len")))
    if "suspect" in frame.columns:
        frame = frame[frame.suspect == 0]
    numbers = ("batch", "kv_len", "n_heads", "n_kv_heads", "head_dim", "window")
    return groups(frame, "decode attention", LABELS, numbers, decode_call)


@functools.cache
def prefill_call(attn_dtype: str, kv_dtype: str, windowed: bool) -> Call | None:
    """The op of one prefill; None where a dtype is not modelled."""
    if attn_dtype not in COMPUTE or kv_dtype not in BYTES:
        return None
    deployment = Deployment(kv_bytes=BYTES[kv_dtype], attention_compute=COMPUTE[attn_dtype])

    def call(row: Columns) -> tuple[AnyOp, ...]:
        tokens = row["batch"] * row["seq_q"]
        prefill = Prefill(sequences=row["batch"], tokens=tokens, past=row["batch"] * row["kv_past"])
        return _warm(prefill_attention(_attention(row, windowed), deployment, prefill, 1.0))

    return call


@functools.cache
def decode_call(attn_dtype: str, kv_dtype: str, windowed: bool) -> Call | None:
    """The op of one decoding step; None where a dtype is not modelled."""
    if attn_dtype not in COMPUTE or kv_dtype not in BYTES:
        return None
    deployment = Deployment(kv_bytes=BYTES[kv_dtype], attention_compute=COMPUTE[attn_dtype])

    def call(row: Columns) -> tuple[AnyOp, ...]:
        decode = Decode(sequences=row["batch"], context=row["batch"] * row["kv_len"])
        return _warm(decode_attention(_attention(row, windowed), deployment, decode, 1.0))

    return call


def _attention(row: Columns, windowed: bool) -> Attention:
    return Attention(
        heads=row["n_heads"],
        kv_heads=row["n_kv_heads"],
        head_dim=row["head_dim"],
        value_dim=row["head_dim"],
        window=row["window"] if windowed else None,
        window_kind="sliding" if windowed else None,
        qkv=_WEIGHTS,
        output=_WEIGHTS,
    )


def _warm(ops: Ops) -> tuple[AnyOp, ...]:
    """The benchmark reads one cache again and again: what fits into L2 is there."""
    return tuple(dataclasses.replace(op, reuse_bytes=op.bytes) for op in ops.values())


def _windowed(frame):
    return frame.assign(windowed=frame.window > 0)

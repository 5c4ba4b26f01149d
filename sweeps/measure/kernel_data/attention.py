"""Attention kernels in four tables: grouped keys and values or latent vectors, of new prompts or of decoding."""

import dataclasses
import functools
from pathlib import Path
from typing import Any

from jaxroof.batch import Decode, Prefill
from jaxroof.deployment import Deployment
from jaxroof.layers.attention import Attention, decode_attention, prefill_attention
from jaxroof.layers.attention_kernels import fused_attention
from jaxroof.layers.sight import Sight, attended_pairs
from jaxroof.model import WeightFormat
from jaxroof.numerics.struct import Scalar
from jaxroof.op import AnyOp, AttentionShape, Kernel
from sweeps.measure.kernel_data.group import Call, Columns, KernelGroup, groups
from sweeps.measure.kernel_data.releases import kernel_table

BYTES = {"bfloat16": 2.0, "fp8": 1.0}
COMPUTE = {"bfloat16": "bf16", "fp8": "fp8"}

SOURCE = ("gpu", "backend", "version", "kernel_source", "kv_dtype", "n_heads", "batch", "latency_us")
GROUPED = (*SOURCE, "attn_dtype", "head_dim", "window", "n_kv_heads")
LATENT = (*SOURCE, "mla_dtype", "kv_past")
"""Columns of all four tables, of those of grouped keys and values, and of those of latent vectors."""

LABELS = {"attn_dtype": "{}", "kv_dtype": "kv {}", "windowed": ""}
LATENT_LABELS = {"mla_dtype": "{}", "kv_dtype": "kv {}"}
SHAPE = ("batch", "n_heads", "n_kv_heads", "head_dim", "window")

ABSORBED = ("sglang",)
"""Engines whose latent prefill attends to the latent vectors; the others expand keys and values of every head."""

EAGER = ("vllm", "0.14.0")
"""Engine and version of latent rows that the host's launches dominate: a floor of 100 to 640 us that no kernel has."""

VECTOR, ROPE, NOPE, VALUE = 512.0, 64.0, 128.0, 128.0
"""Widths of DeepSeek-V2 and its successors, which the latent tables were measured with: of a cached vector, of the
rotated part that all heads' keys share, and of a head's own keys and values. Source: arXiv:2405.04434, 3.1.2."""

_WEIGHTS = WeightFormat(bytes=2.0, compute="bf16")


def prefill_groups(folder: Path) -> list[KernelGroup]:
    """Causal attention of new prompts to themselves: `aic_attention_context`."""
    frame = kernel_table(folder, "aic_attention_context.parquet", (*GROUPED, "seq_q", "kv_past"))
    # Whether there is a window decides which op runs and is structure; the window's width is a number of the call.
    frame = frame.assign(windowed=frame.window > 0)
    return groups(frame, "prefill attention", LABELS, (*SHAPE, "seq_q", "kv_past"), prefill_call)


def decode_groups(folder: Path) -> list[KernelGroup]:
    """One query per sequence: `aic_attention_generation`.

    Rows that are faster than physically possible, which the table marks, are left out.
    """
    frame = kernel_table(folder, "aic_attention_generation.parquet", (*GROUPED, "kv_len"))
    # As for prompts: windowed rows are another structure.
    frame = frame.assign(windowed=frame.window > 0)
    if "suspect" in frame.columns:
        frame = frame[frame.suspect.fillna(0) == 0]
    return groups(frame, "decode attention", LABELS, (*SHAPE, "kv_len"), decode_call)


def latent_context_groups(folder: Path) -> list[KernelGroup]:
    """Causal attention of new prompts to themselves and their past, without projections: `aic_mla_context`."""
    frame = _replayed(kernel_table(folder, "aic_mla_context.parquet", (*LATENT, "seq_q")))
    # Absorbed heads multiply queries with the latent vectors themselves (arXiv:2405.04434, 2.1.2): another shape.
    frame = frame.assign(absorbed=frame.backend.isin(ABSORBED))
    labels, numbers = LATENT_LABELS | {"absorbed": ""}, ("batch", "seq_q", "kv_past", "n_heads")
    return groups(frame, "latent prefill attention", labels, numbers, latent_context_call)


def latent_decode_groups(folder: Path) -> list[KernelGroup]:
    """One query per sequence and head on one cached latent vector per token: `aic_mla_generation`."""
    frame = _replayed(kernel_table(folder, "aic_mla_generation.parquet", LATENT))
    numbers = ("batch", "kv_past", "n_heads")
    return groups(frame, "decode attention, latent", LATENT_LABELS, numbers, latent_decode_call)


@functools.cache
def prefill_call(attn_dtype: str, kv_dtype: str, windowed: bool) -> Call | None:
    """The op of one prefill; None where a dtype is not modelled."""
    deployment = _deployment(attn_dtype, kv_dtype)
    if deployment is None:
        return None

    def call(row: Columns) -> tuple[AnyOp, ...]:
        # `Prefill` holds totals over all sequences, the table lengths of one.
        tokens = row["batch"] * row["seq_q"]
        prefill = Prefill(sequences=row["batch"], tokens=tokens, past=row["batch"] * row["kv_past"])
        return _warm(*prefill_attention(_attention(row, windowed), deployment, prefill, 1.0).values())

    return call


@functools.cache
def decode_call(attn_dtype: str, kv_dtype: str, windowed: bool) -> Call | None:
    """The op of one decoding step; None where a dtype is not modelled."""
    deployment = _deployment(attn_dtype, kv_dtype)
    if deployment is None:
        return None

    def call(row: Columns) -> tuple[AnyOp, ...]:
        # `Decode.context` is the sum over all sequences, the table's `kv_len` the length of one.
        decode = Decode(sequences=row["batch"], context=row["batch"] * row["kv_len"])
        return _warm(*decode_attention(_attention(row, windowed), deployment, decode, 1.0).values())

    return call


@functools.cache
def latent_context_call(mla_dtype: str, kv_dtype: str, absorbed: bool) -> Call | None:
    """The op of one latent prefill, heads expanded or absorbed; None where a dtype is not modelled."""
    deployment = _deployment(mla_dtype, kv_dtype)
    if deployment is None:
        return None

    def call(row: Columns) -> tuple[AnyOp, ...]:
        new, past = row["seq_q"], row["kv_past"]
        # Without a limit of sight every new token attends to the past and to all new tokens up to itself.
        pairs = attended_pairs(new, past, Sight(limit=None, kind=None))
        shape = _latent_shape(row, deployment, absorbed, new, new + past, pairs)
        return _warm(fused_attention("prefill_attention", deployment, shape, 1.0))

    return call


@functools.cache
def latent_decode_call(mla_dtype: str, kv_dtype: str) -> Call | None:
    """The op of one latent decoding step, heads absorbed; None where a dtype is not modelled."""
    deployment = _deployment(mla_dtype, kv_dtype)
    if deployment is None:
        return None

    def call(row: Columns) -> tuple[AnyOp, ...]:
        # The new token attends to itself beside its past.
        keys = row["kv_past"] + 1.0
        shape = _latent_shape(row, deployment, True, 1.0, keys, keys)
        return _warm(fused_attention("decode_attention", deployment, shape, 1.0))

    return call


def _deployment(dtype: str, kv_dtype: str) -> Deployment | None:
    if dtype not in COMPUTE or kv_dtype not in BYTES:
        return None
    return Deployment(kv_bytes=BYTES[kv_dtype], attention_compute=COMPUTE[dtype])


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


def _latent_shape(
    row: Columns, deployment: Deployment, absorbed: bool, queries: Scalar, keys: Scalar, pairs: Scalar
) -> AttentionShape:
    return AttentionShape(
        sequences=row["batch"],
        queries=queries,
        keys=keys,
        pairs=pairs,
        heads=row["n_heads"],
        # Absorbed, all heads read one latent vector per token, as multi-query attention; expanded, each has its own
        # keys.
        kv_heads=1.0 if absorbed else row["n_heads"],
        # Scores are products over the unrotated and the rotated part of a key together.
        key_width=VECTOR + ROPE if absorbed else NOPE + ROPE,
        value_width=VECTOR if absorbed else VALUE,
        kv_bytes=deployment.kv_bytes,
        latent=absorbed,
    )


def _warm(*ops: AnyOp) -> tuple[AnyOp, ...]:
    """The benchmark reads one cache again and again: what fits into L2 is there."""
    kernels = [op for op in ops if isinstance(op, Kernel)]  # all of them: one device exchanges nothing
    return tuple(dataclasses.replace(op, reuse_bytes=op.bytes) for op in kernels)


def _replayed(frame: Any) -> Any:
    """The table without rows that were launched eagerly."""
    return frame[(frame.backend != EAGER[0]) | (frame.version != EAGER[1])]

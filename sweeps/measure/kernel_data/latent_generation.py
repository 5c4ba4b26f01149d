"""Decoding with multi-head latent attention, absorbed: `aic_mla_generation.parquet`, the attention kernels alone."""

import dataclasses
import functools
from pathlib import Path

from jaxroof.deployment import Deployment
from jaxroof.layers.attention import fused_attention
from jaxroof.op import AnyOp
from jaxroof.shape import AttentionShape
from sweeps.measure.kernel_data.attention import BYTES, COMPUTE
from sweeps.measure.kernel_data.group import Call, Columns, KernelGroup, groups, table

FILE = "aic_mla_generation.parquet"

LATENT = 512.0
"""Elements of a cached latent vector, which are the values, and the first ones of the keys."""

ROTATED = 64.0
"""Elements of the rotated part that every head's keys share. Both of DeepSeek-V2 and later: arXiv:2405.04434, 2.1."""

NOISY = ("vllm", "0.14.0")
"""Engine and version whose rows measure the host's launches: none takes less than 100 us, repeats differ threefold."""


def latent_decode_groups(folder: Path) -> list[KernelGroup]:
    """One query per sequence and head on one cached latent vector per token."""
    names = ("gpu", "backend", "version", "kernel_source", "mla_dtype", "kv_dtype", "n_heads", "batch", "kv_past")
    frame = table(folder / FILE, (*names, "latency_us"))
    frame = frame[(frame.backend != NOISY[0]) | (frame.version != NOISY[1])]
    labels = {"mla_dtype": "{}", "kv_dtype": "kv {}"}
    return groups(frame, "decode attention, latent", labels, ("batch", "kv_past", "n_heads"), latent_decode_call)


@functools.cache
def latent_decode_call(mla_dtype: str, kv_dtype: str) -> Call | None:
    """The op of one decoding step; None where a dtype is not modelled."""
    if mla_dtype not in COMPUTE or kv_dtype not in BYTES:
        return None
    deployment = Deployment(kv_bytes=BYTES[kv_dtype], attention_compute=COMPUTE[mla_dtype])

    def call(row: Columns) -> tuple[AnyOp, ...]:
        keys = row["kv_past"] + 1.0
        shape = AttentionShape(
            sequences=row["batch"],
            queries=1.0,
            keys=keys,
            pairs=keys,
            heads=row["n_heads"],
            kv_heads=1.0,
            key_width=LATENT + ROTATED,
            value_width=LATENT,
            kv_bytes=BYTES[kv_dtype],
            latent=True,
        )
        op = fused_attention("decode_attention", deployment, shape, 1.0)
        return (dataclasses.replace(op, reuse_bytes=op.bytes),)

    return call

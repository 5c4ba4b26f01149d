"""Prefill attention of latent-attention models: `aic_mla_context`, with its heads expanded or absorbed."""

import dataclasses
import functools
from pathlib import Path

from jaxroof.deployment import Deployment
from jaxroof.layers.attention import fused_attention
from jaxroof.layers.sight import Sight, attended_pairs
from jaxroof.op import AnyOp
from jaxroof.shape import AttentionShape
from sweeps.measure.kernel_data.attention import BYTES, COMPUTE
from sweeps.measure.kernel_data.group import Call, Columns, KernelGroup, groups, table

FILE = "aic_mla_context.parquet"

ABSORBED = ("sglang",)
"""Engines whose rows attend to the latent vectors; the others expand keys and values of every head."""

EAGER = (("vllm", "0.14.0"),)
"""Engine and version of rows that the host's launches dominate: a floor of 100 to 640 us that no kernel has."""

LATENT, ROPE, NOPE, VALUE = 512.0, 64.0, 128.0, 128.0
"""Widths of DeepSeek-V2 and its successors, arXiv:2405.04434, section 3.1.2, which the table was measured with."""

COLUMNS = ("gpu", "backend", "version", "kernel_source", "mla_dtype", "kv_dtype", "n_heads", "batch", "seq_q")
COLUMNS += ("kv_past", "latency_us")
NUMBERS = ("batch", "seq_q", "kv_past", "n_heads")


def latent_context_groups(folder: Path) -> list[KernelGroup]:
    """Causal attention of new prompts to themselves and their past, without the projections around it."""
    frame = table(folder / FILE, COLUMNS)
    for engine, version in EAGER:
        frame = frame[(frame.backend != engine) | (frame.version != version)]
    frame = frame.assign(absorbed=frame.backend.isin(ABSORBED))
    labels = {"mla_dtype": "{}", "kv_dtype": "kv {}", "absorbed": ""}
    return groups(frame, "latent prefill attention", labels, NUMBERS, latent_context_call)


@functools.cache
def latent_context_call(mla_dtype: str, kv_dtype: str, absorbed: bool) -> Call | None:
    """The op of one prefill; None where a dtype is not modelled."""
    if mla_dtype not in COMPUTE or kv_dtype not in BYTES:
        return None
    deployment = Deployment(kv_bytes=BYTES[kv_dtype], attention_compute=COMPUTE[mla_dtype])

    def call(row: Columns) -> tuple[AnyOp, ...]:
        new, past, heads = row["seq_q"], row["kv_past"], row["n_heads"]
        shape = AttentionShape(
            sequences=row["batch"],
            queries=new,
            keys=new + past,
            pairs=attended_pairs(new, past, Sight(limit=None, kind=None)),
            heads=heads,
            kv_heads=1.0 if absorbed else heads,
            key_width=LATENT + ROPE if absorbed else NOPE + ROPE,
            value_width=LATENT if absorbed else VALUE,
            kv_bytes=BYTES[kv_dtype],
            latent=absorbed,
        )
        op = fused_attention("prefill_attention", deployment, shape, 1.0)
        return (dataclasses.replace(op, reuse_bytes=op.bytes),)

    return call

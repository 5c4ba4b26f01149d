"""Rows of measured layers with states, residual streams and encoders as the ops that the model launches for them.

A row is one kernel of one layer: its call builds the layer's struct from the row and asks the layer for its ops.
"""

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxroof.batch import Batch, Decode, Prefill
from jaxroof.deployment import Deployment
from jaxroof.layers.attention import Attention, prefill_attention
from jaxroof.layers.hyper_connections import stream_ends, stream_mix, stream_spread
from jaxroof.layers.linear_attention import (
    LinearAttention,
    chunked_prefill,
    convolution_ops,
    convolved_channels,
    recurrent_decode,
)
from jaxroof.model import Streams, WeightFormat
from jaxroof.op import AnyOp, Kernel, StateShape, WindowShape, state_pass_bytes
from sweeps.measure.kernel_data.group import Call, Columns, KernelGroup, groups, table

SOURCE = ("gpu", "backend", "version", "kernel_source", "latency_us")

STATES = ("batch_size", "seq_len", "d_conv", "num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim", "d_model")
MAMBA2 = ("batch_size", "seq_len", "d_conv", "d_state", "nheads", "head_dim", "n_groups")
STREAMS = ("num_tokens", "num_sites", "hc_mult", "hidden_size", "sinkhorn_iters")
ENCODER = ("batch_size", "isl", "num_heads", "head_dim")
"""Columns that a row's call reads, by kind of table."""

_WEIGHTS = WeightFormat(bytes=2.0, compute="bf16")

PRICED = Deployment()


class Excluded(NamedTuple):
    """Rows that are left out, and why."""

    words: str
    rows: Callable[[Any], Any]  # mask of a pandas table


def _kernel(frame: Any, *parts: str) -> Any:
    names = frame.kernel_source.astype(str)
    return np.logical_or.reduce([names.str.contains(part, regex=False) for part in parts])


EXCLUDED = {
    "kda": (
        Excluded(
            "convolutions of queries, keys and values that vLLM launches one by one from the host: no less than 410 us",
            lambda one: (one.backend == "vllm") & _kernel(one, "causal_conv1d_fn_qkv3"),
        ),
        Excluded(
            "one sequence under vLLM 0.31.0: convolutions at twice HBM bandwidth, updates in half of a launch",
            lambda one: (one.version == "0.31.0") & (one.batch_size == 1) & ~_kernel(one, "flashkda"),
        ),
    ),
    "gdn": (),
    "mamba2": (),
    "mhc": (
        Excluded(
            "mixing in PyTorch, which SGLang runs on RTX PRO 6000: ten kernels of its own",
            lambda one: _kernel(one, "torch_mhc"),
        ),
    ),
    "encoder": (),
}
"""Table -> rows that are left out. The table of DeepSeek-V4.1's modules is left out as a whole: each row was timed
eagerly, and its floor of 60 to 380 us is the host's."""


SEPARATE = ("0.5.16", "0.1.dev19262")
"""Releases of SGLang and vLLM that convolve queries, keys and values of Kimi delta attention one after another."""


def states_groups(path: Path, family: str) -> list[KernelGroup]:
    """Gated delta net and Kimi delta attention: convolutions, chunked prompts, updates, verification."""
    frame = _kept(table(path, (*SOURCE, "phase", *STATES)), family.split()[0])
    engine, phase = frame.backend.astype(str), frame.phase.astype(str)
    convolved = _kernel(frame, "conv1d")
    fused = _kernel(frame, "fused_decode", "fused_kda_decode")
    role = np.where(_kernel(frame, "chunk", "flashkda"), "chunks", "states")
    role = np.where(fused, "fused", role)
    update = _kernel(frame, "conv1d_update")
    role = np.where(convolved, np.where(update, "update", "window"), role)
    # TensorRT-LLM's rows take no longer with more value heads: they convolve as many channels as the keys have.
    role = np.where((engine == "trtllm") & (role == "window"), "keys", role)
    role = np.where((engine == "trtllm") & (role == "update"), "update keys", role)
    frame = frame.assign(
        role=role,
        # Queries, keys and values have convolutions of their own there: "qkv3" in prompts, and 3 launches in decode.
        launches=np.where(convolved & frame.version.astype(str).isin(SEPARATE) & (family == "kda"), 3, 1),
        channelwise=family == "kda",
        step=phase,
    )
    labels = {"role": "{}", "step": "{}", "launches": "", "channelwise": ""}
    return groups(frame, family, labels, STATES, states_call)


def mamba2_groups(path: Path) -> list[KernelGroup]:
    """Convolutions of Mamba-2, which the table has no other kernel of."""
    frame = table(path, (*SOURCE, "phase", *MAMBA2))
    role = np.where(_kernel(frame, "conv1d_update"), "update", "window")
    frame = frame.assign(role=role, step=frame.phase.astype(str))
    return groups(frame, "mamba2", {"role": "{}", "step": "{}"}, MAMBA2, mamba2_call)


def streams_groups(path: Path) -> list[KernelGroup]:
    """Hyper-connections: a time is that of all `num_sites` sublayers of a layer."""
    frame = _kept(table(path, (*SOURCE, *STREAMS)), "mhc")
    role = np.where(_kernel(frame, "_pre", "hc_pre"), "mix", "spread")
    role = np.where(_kernel(frame, "fused_post_pre"), "both", role)
    role = np.where(_kernel(frame, "hc_expand"), "expand", np.where(_kernel(frame, "hc_contract"), "contract", role))
    return groups(frame.assign(role=role), "mhc", {"role": "{}"}, STREAMS, streams_call)


def encoder_groups(path: Path) -> list[KernelGroup]:
    """Attention of encoders: every token sees all of its image or sound."""
    frame = table(path, (*SOURCE, "attn_dtype", *ENCODER))
    return groups(frame, "encoder", {"attn_dtype": "{}"}, ENCODER, encoder_call)


def _kept(frame: Any, name: str) -> Any:
    for one in EXCLUDED[name]:
        frame = frame[~np.asarray(one.rows(frame), bool)]
    return frame


@functools.cache
def states_call(role: str, step: str, launches: int, channelwise: bool) -> Call:
    """Ops of one kernel of a layer with a state."""

    def call(row: Columns) -> tuple[AnyOp, ...]:
        layer = LinearAttention(
            heads=row["num_v_heads"],
            key_heads=row["num_k_heads"],
            key_dim=row["head_k_dim"],
            value_dim=row["head_v_dim"],
            gates=0.0,
            gate_rank=None,
            convolution=row["d_conv"],
            rule="delta",
            channelwise=channelwise,
            input=_WEIGHTS,
            output=_WEIGHTS,
        )
        channels = convolved_channels(layer, PRICED)
        if role.endswith("keys"):
            channels = row["num_k_heads"] * row["head_k_dim"]
        prefill, decode, deployment = _parts(row, step == "verify")
        if role in ("window", "keys"):
            # Several launches share the channels.
            of = (channels / launches, row["d_conv"], deployment)
            batch = Batch(prefill=prefill, decode=None, logits=0.0)
            return (_alone(convolution_ops(*of, batch, float(launches))["prefill_convolution"]),)
        update = Batch(prefill=None, decode=decode, logits=0.0)
        conv = convolution_ops(channels, row["d_conv"], deployment, update, 1.0)["decode_convolution"]
        if role in ("update", "update keys"):
            return (dataclasses.replace(_alone(conv), kernels=launches * conv.kernels),)
        if role == "chunks":
            return (_alone(chunked_prefill(layer, deployment, prefill, 1.0)),)
        state = recurrent_decode(layer, deployment, decode, 1.0)
        if role == "fused":
            # Convolution and update in one kernel: what the first would write and the second read stays inside.
            state = dataclasses.replace(state, bytes=state.bytes + 0.5 * conv.bytes)
        return (_alone(state),)

    return call


@functools.cache
def mamba2_call(role: str, step: str) -> Call:
    """Op of the convolution of values, and of B and C of every group."""

    def call(row: Columns) -> tuple[AnyOp, ...]:
        channels = row["nheads"] * row["head_dim"] + 2.0 * row["n_groups"] * row["d_state"]
        prefill, decode, deployment = _parts(row, False)
        parts = {"window": (prefill, None), "update": (None, decode)}[role]
        batch = Batch(prefill=parts[0], decode=parts[1], logits=0.0)
        (op,) = convolution_ops(channels, row["d_conv"], deployment, batch, 1.0).values()
        return (_alone(op),)

    return call


@functools.cache
def streams_call(role: str) -> Call:
    """Ops before, after or around the sublayers of one layer."""

    def call(row: Columns) -> tuple[AnyOp, ...]:
        streams = Streams(count=row["hc_mult"], iterations=row["sinkhorn_iters"])
        of = (streams, row["num_tokens"], row["hidden_size"], PRICED)
        ops = {"mix": (stream_mix,), "spread": (stream_spread,), "both": (stream_spread, stream_mix)}
        if role in ops:
            return tuple(_alone(op(*of, row["num_sites"])) for op in ops[role])
        return (_alone(stream_ends(*of)[f"streams_{role}"]),)

    return call


@functools.cache
def encoder_call(attn_dtype: str) -> Call | None:
    """Op of attention without a mask."""
    if attn_dtype != "bfloat16":
        return None

    def call(row: Columns) -> tuple[AnyOp, ...]:
        attention = Attention(
            heads=row["num_heads"],
            kv_heads=row["num_heads"],
            head_dim=row["head_dim"],
            value_dim=row["head_dim"],
            window=None,
            causal=False,
            qkv=_WEIGHTS,
            output=_WEIGHTS,
        )
        prefill = Prefill(sequences=row["batch_size"], tokens=row["batch_size"] * row["isl"], past=0.0)
        return tuple(_alone(op) for op in prefill_attention(attention, PRICED, prefill, 1.0).values())

    return call


def _parts(row: Columns, verified: bool) -> tuple[Prefill, Decode, Deployment]:
    """The sequences of a row as prompts and as decoding ones; those of a verification have drafts."""
    sequences = row["batch_size"]
    prefill = Prefill(sequences=sequences, tokens=sequences * row["seq_len"], past=0.0)
    deployment = Deployment(drafts=row["seq_len"] - 1.0) if verified else PRICED
    return prefill, Decode(sequences=sequences, context=sequences), deployment


def _alone(op: AnyOp) -> AnyOp:
    """The kernel as a table times it: again and again on the same data, states changed in place."""
    assert isinstance(op, Kernel)
    touched = op.bytes
    if isinstance(op.shape, StateShape):
        touched = touched - (op.shape.passes - 1.0) * state_pass_bytes(op.shape)
    if isinstance(op.shape, WindowShape):
        # Beside inputs and outputs a window per sequence, which moves once more than there are tokens.
        rows = 2.0 * PRICED.activation_bytes * op.shape.sequences * op.shape.tokens * op.shape.channels
        passes = 1.0 + op.shape.tokens if op.shape.update else 2.0
        touched = rows + (touched - rows) / passes
    return dataclasses.replace(op, reuse_bytes=touched)


TABLES: dict[str, tuple[tuple[str, ...], Callable[[Path], list[KernelGroup]]]] = {
    "gdn": (("kernels3/linear_attention__gdn", "kernels/aic_gdn"), lambda path: states_groups(path, "gdn")),
    "kda": (("kernels3/kda__kda",), lambda path: states_groups(path, "kda")),
    "mamba2": (("kernels/aic_mamba2",), mamba2_groups),
    "mhc": (("kernels3/mhc__mhc_module",), streams_groups),
    "encoder": (("kernels3/encoder_attention__encoder_attention",), encoder_groups),
}
"""Name of a table -> its files below the folder of measured data, and what reads one."""


def layer_groups(folder: Path, name: str) -> list[KernelGroup]:
    """All rows of a table as groups; files that are not there are left out, and one at least must be."""
    files, read = TABLES[name]
    found = [path for path in (folder / f"{file}.parquet" for file in files) if path.is_file()]
    if not found:
        raise ValueError(f"{folder}: none of {', '.join(files)} is there")
    return [group for path in found for group in read(path)]


def excluded_rows(folder: Path, name: str) -> list[tuple[str, int]]:
    """Why rows of a table are left out, and how many of them."""
    files, _ = TABLES[name]
    counts = []
    for path in (folder / f"{file}.parquet" for file in files):
        if path.is_file() and EXCLUDED[name]:
            frame = table(path, SOURCE)
            counts += [(one.words, int(np.sum(np.asarray(one.rows(frame), bool)))) for one in EXCLUDED[name]]
    return counts

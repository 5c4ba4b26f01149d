"""Layers with a state in place of a cache, counted product by product."""

import dataclasses

import numpy as np

from tests.oracle.attention import tokens_decoded
from tests.oracle.kernel import Kernel, gemm, launched, rowwise

CHUNK = 64.0


def key_heads_held(layer, tp):
    return np.maximum(layer.key_heads / tp, 1.0)


def channels(layer, tp):
    """Queries, keys and values of one token on one device."""
    return 2.0 * key_heads_held(layer, tp) * layer.key_dim + layer.heads / tp * layer.value_dim


def sequence_state(layer, deployment):
    """B that one sequence keeps in one layer of one device."""
    total = layer.heads / deployment.tp * layer.key_dim * layer.value_dim * deployment.state_bytes
    if layer.convolution is not None:
        total = total + (layer.convolution - 1.0) * channels(layer, deployment.tp) * deployment.activation_bytes
    return total


def chunk_flops(layer):
    """Matrix FLOP of one head for a chunk of c tokens; a causal product of c x c costs half of the full one."""
    c, dk, dv = CHUNK, layer.key_dim, layer.value_dim
    total = c * c * dk  # queries with keys
    total = total + c * c * dv  # scores with values
    total = total + 2.0 * c * dk * dv  # queries with the state
    total = total + 2.0 * c * dk * dv  # keys with values: the state's update
    if layer.rule == "delta":
        total = total + c * c * dk  # keys with keys
        total = total + c**3 / 3.0  # the inverse of a triangle
        total = total + c * c * dk + c * c * dv  # that inverse with keys and with values
        total = total + 2.0 * c * dk * dv  # what the state recalls
    return total


def linear_attention(layer, runs, hidden, deployment, batch, tokens) -> dict[str, Kernel]:
    """Kernels of a layer with a state."""
    act, tp = deployment.activation_bytes, deployment.tp
    heads, mixed = layer.heads / tp, channels(layer, tp)
    values = heads * layer.value_dim
    kernels = gemm("in_proj", runs, tokens, hidden, mixed + heads * layer.gates, layer.input, act)
    if layer.gate_rank is not None:
        kernels |= gemm("gate_down_proj", runs, tokens, hidden, 2.0 * layer.gate_rank, layer.input, act)
        kernels |= gemm("gate_up_proj", runs, 2.0 * tokens, layer.gate_rank, values, layer.input, act, copies=2.0)
    if layer.convolution is not None:
        for name, part in (("prefill", batch.prefill), ("decode", batch.decode)):
            if part is None:
                continue
            # The window that the next tokens look back on: in and out, or in and after each token that is verified.
            rows = part.tokens if name == "prefill" else part.sequences * tokens_decoded(deployment)
            passes = 2.0 if name == "prefill" else 1.0 + tokens_decoded(deployment)
            kernel = rowwise(runs, rows, 2.0 * mixed * act, 2.0 * layer.convolution * mixed, exps=mixed)
            window = part.sequences * (layer.convolution - 1.0) * mixed * act
            kernels[f"{name}_convolution"] = dataclasses.replace(kernel, moved=kernel.moved + passes * window)
    moved_rows = mixed + values  # queries, keys and values in, outputs out
    state = heads * layer.key_dim * layer.value_dim
    if batch.prefill is not None:
        part = batch.prefill
        chunks = part.tokens / CHUNK
        kernels["prefill_linear_attention"] = Kernel(
            "prefill_attention",
            runs,
            launched(part.tokens),
            matmul=chunks * heads * chunk_flops(layer),
            precision=deployment.attention_compute,
            vector=chunks * heads * 3.0 * CHUNK**2,
            exps=chunks * heads * CHUNK**2,
            moved=2.0 * part.sequences * state * deployment.state_bytes + part.tokens * moved_rows * act,
        )
    if batch.decode is not None:
        part = batch.decode
        queries = part.sequences * tokens_decoded(deployment)
        kernels["decode_linear_attention"] = Kernel(
            "decode_attention",
            runs,
            launched(queries),
            vector=queries * {"delta": 7.0, "decay": 5.0}[layer.rule] * heads * layer.key_dim * layer.value_dim,
            exps=queries * heads * (layer.key_dim if layer.channelwise else 1.0),
            # Read once, and written after each token that is verified.
            moved=(1.0 + tokens_decoded(deployment)) * part.sequences * state * deployment.state_bytes
            + queries * moved_rows * act,
        )
    kernels["gated_norm"] = rowwise(runs, tokens, 3.0 * values * act, 7.0 * values, exps=values)
    return kernels | gemm("out_proj", runs, tokens, values, hidden, layer.output, act)

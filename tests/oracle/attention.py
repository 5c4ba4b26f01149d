"""Softmax attention again: grouped heads, what indexers choose, and what looks at an encoder's output."""

import numpy as np

from tests.oracle.kernel import SIZE, Kernel, fused_attention, gemm, launched, message, rowwise, ways
from tests.oracle.sight import View, in_reach, per_sequence, seen_by_newest, seen_pairs, view


def kv_heads_held(attention, tp):
    return np.maximum(attention.kv_heads / tp, 1.0)


def tokens_decoded(deployment):
    """Of one sequence in one step."""
    return 1.0 + (0.0 if deployment.drafts is None else deployment.drafts)


def exchanged(cache, deployment, runs) -> dict[str, Kernel]:
    """A prompt's keys and values, `cache` B in all, passed around the context-parallel devices."""
    if deployment.cp is None:
        return {}
    cp, apart = deployment.cp, deployment.tp
    if deployment.context_kind == "ring":
        return {"context_exchange": message("send_recv", runs * (cp - 1.0), cache / cp, cp, apart)}
    return {"context_exchange": message("all_gather", runs, cache, cp, apart)}


def combined(size, deployment, runs) -> dict[str, Kernel]:
    """Partial outputs of decoding context-parallel devices added up."""
    if deployment.cp is None:
        return {}
    return {"context_combine": message("all_reduce", runs, size, deployment.cp, deployment.tp)}


def grouped(layer, runs, hidden, deployment, batch, tokens) -> dict[str, Kernel]:
    """Kernels of a layer with grouped keys and values."""
    tp, cp, act = deployment.tp, ways(deployment.cp), deployment.activation_bytes
    heads, kv = layer.heads / tp, kv_heads_held(layer, tp)
    q, k, v = heads * layer.head_dim, kv * layer.head_dim, kv * layer.value_dim
    width, seen = layer.head_dim + layer.value_dim, view(layer)
    outputs = q + heads * layer.gate + k + layer.value_projection * v
    index, index_key = 0.0, 0.0  # what a block indexer projects beside, its queries and key
    if layer.selection is not None:
        index_key = layer.selection.head_dim
        index = index_heads(layer, tp) * index_key
        outputs = outputs + index + layer.selection.key_outputs
    kernels = gemm("qkv_proj", runs, tokens, hidden, outputs, layer.qkv, act)
    norms = layer.qk_norm * (q + k)  # one more kernel over queries and keys
    moved = (2.0 * q + k + v + 2.0 * norms) * act + (k + v) * deployment.kv_bytes
    rotated, normed = q + k + index + index_key, norms + layer.qk_norm * (index + index_key)
    if layer.selection is not None:
        moved = moved + (2.0 * index + index_key) * act + index_key * layer.selection.key_bytes
    kernels["rope_kv_write"] = rowwise(runs, tokens, moved, 3.0 * rotated + 5.0 * normed, kernels=2.0 + layer.qk_norm)
    if layer.selection is not None:
        kernels |= choice(layer.selection, index_heads(layer, tp), runs, deployment, batch)
    if batch.prefill is not None:
        part = batch.prefill
        new, past = per_sequence(part.tokens, part.sequences), per_sequence(part.past, part.sequences)
        pairs = part.sequences * seen_pairs(new, past, seen)
        cached = part.sequences * (in_reach(past, seen) + new) * kv * width
        kernels |= exchanged(cached * act, deployment, runs)
        if layer.selection is not None:  # few queries read no more than they choose
            cached = np.minimum(cached, pairs / cp * kv * width)
        kernels["prefill_attention"] = fused_attention(
            "prefill_attention",
            runs,
            deployment,
            heads,
            layer.head_dim,
            layer.value_dim,
            part.tokens / cp,
            pairs / cp,
            cached * deployment.kv_bytes,
            1.0,
        )
    if batch.decode is not None:
        part, each = batch.decode, tokens_decoded(deployment)
        queries, context = part.sequences * each, seen_by_newest(part.context, part.sequences, seen) / cp
        kernels["decode_attention"] = fused_attention(
            "decode_attention",
            runs,
            deployment,
            heads,
            layer.head_dim,
            layer.value_dim,
            queries,
            context * each,
            context * kv * width * deployment.kv_bytes,
            2.0,
        )
        kernels |= combined(queries * heads * layer.value_dim * deployment.communication_bytes, deployment, runs)
    return kernels | gemm("o_proj", runs, tokens, heads * layer.value_dim, hidden, layer.output, act)


def indexer(selection, hidden, query_inputs, runs, deployment, batch, tokens) -> dict[str, Kernel]:
    """An indexer on every tensor-parallel device: projections, scores of all that is cached, the best of them.

    `query_inputs` is the width of a compressed query where the layer has one; queries are made of it if the
    selection says so.
    """
    act = deployment.activation_bytes
    inputs = hidden if selection.query_rank is None else query_inputs
    outputs = selection.heads * selection.head_dim
    kernels = gemm("index_q_proj", runs, tokens, inputs, outputs, selection.weights, act)
    keys = selection.key_outputs + selection.heads  # and one weight per head
    kernels |= gemm("index_k_proj", runs, tokens, hidden, keys, selection.weights, act)
    written = (selection.heads + 1.0) * selection.head_dim
    kernels["index_write"] = rowwise(runs, tokens, written * (act + selection.key_bytes), 4.0 * written, kernels=2.0)

    return kernels | choice(selection, selection.heads, runs, deployment, batch)


def index_heads(layer, tp):
    """Heads of a block indexer on one device: split as keys are, down to one."""
    return np.maximum(layer.selection.heads / tp, 1.0)


def choice(selection, heads, runs, deployment, batch) -> dict[str, Kernel]:
    """Scores of all that is cached, by `heads` heads of the indexer, and the best of them."""
    kernels: dict[str, Kernel] = {}
    cp, scoring = ways(deployment.cp), selection.scoring or selection.weights

    def of(part, queries, pairs, cached):
        scores = pairs / selection.stride
        written = scores if selection.block is None else scores / selection.block
        kernels[f"{part}_index_scores"] = Kernel(
            f"{part}_attention",
            runs,
            launched(queries),
            matmul=2.0 * scores * heads * selection.head_dim,
            precision=scoring.compute,
            vector=3.0 * scores * heads,
            moved=cached * selection.head_dim * selection.key_bytes / selection.stride + 4.0 * written,
        )
        kernels[f"{part}_index_top_k"] = Kernel(
            "elementwise", runs, launched(queries), vector=2.0 * written, moved=8.0 * written
        )

    if batch.prefill is not None:
        part = batch.prefill
        new, past = per_sequence(part.tokens, part.sequences), per_sequence(part.past, part.sequences)
        pairs = part.sequences * seen_pairs(new, past, View())
        of("prefill", part.tokens / cp, pairs / cp, part.tokens + part.past)
    if batch.decode is not None:
        part, each = batch.decode, tokens_decoded(deployment)
        of("decode", part.sequences * each, part.context * each / cp, part.context / cp)
    return kernels


def cross(layer, runs, hidden, deployment, batch, tokens) -> dict[str, Kernel]:
    """Kernels of a layer in which every token sees all of its sequence's encoder outputs."""
    act, heads, kv = deployment.activation_bytes, layer.heads / deployment.tp, kv_heads_held(layer, deployment.tp)
    width = layer.head_dim + layer.value_dim
    kernels = gemm("cross_q_proj", runs, tokens, hidden, heads * layer.head_dim, layer.qkv, act)
    if batch.encode is not None:
        outputs = batch.encode.sequences * batch.encoded
        kernels |= gemm("cross_kv_proj", runs, outputs, hidden, kv * width, layer.qkv, act)
    rows = {}
    if batch.prefill is not None:
        rows["prefill"] = batch.prefill.tokens / ways(deployment.cp)
    if batch.decode is not None:
        rows["decode"] = batch.decode.sequences * tokens_decoded(deployment)
    for part, queries in rows.items():
        cache = getattr(batch, part).sequences * batch.encoded * kv * width * deployment.kv_bytes
        kernels[f"cross_{part}_attention"] = fused_attention(
            f"{part}_attention",
            runs,
            deployment,
            heads,
            layer.head_dim,
            layer.value_dim,
            queries,
            queries * batch.encoded,
            cache,
            {"prefill": 1.0, "decode": 2.0}[part],
        )
    return kernels | gemm("cross_o_proj", runs, tokens, heads * layer.value_dim, hidden, layer.output, act)


def unquantised(compute):
    """A matrix kept at the precision that multiplies it."""
    return _Stored(SIZE[compute], compute)


class _Stored:
    dequantised = False

    def __init__(self, size, compute):
        self.bytes, self.compute = size, compute

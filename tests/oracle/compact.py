"""Attention over a compact cache: latent vectors, and vectors that each stand for several tokens."""

import numpy as np

from tests.oracle.attention import combined, exchanged, indexer, tokens_decoded, unquantised
from tests.oracle.kernel import Kernel, fused_attention, gemm, rowwise, ways
from tests.oracle.sight import View, in_reach, per_sequence, seen_by_newest, seen_pairs, view


def latent(layer, runs, hidden, deployment, batch, tokens) -> dict[str, Kernel]:
    """Kernels of a latent-attention layer: the latent vector is on every tp device, heads are split."""
    act, heads = deployment.activation_bytes, layer.heads / deployment.tp
    cached = layer.latent + layer.rope_dim
    compressed = 0.0 if layer.query_rank is None else layer.query_rank
    kernels = gemm("latent_down_proj", runs, tokens, hidden, compressed + cached, layer.down, act)
    normed = compressed + layer.latent
    kernels["latent_norm"] = rowwise(runs, tokens, 2.0 * normed * act, 5.0 * normed, kernels=2.0)
    inputs = hidden if layer.query_rank is None else layer.query_rank
    kernels |= gemm("q_proj", runs, tokens, inputs, heads * (layer.nope_dim + layer.rope_dim), layer.query, act)
    rotated = (heads + 1.0) * layer.rope_dim  # the queries' and the one shared key
    kernels["rope_kv_write"] = rowwise(
        runs, tokens, (2.0 * rotated + layer.latent) * act + cached * deployment.kv_bytes, 3.0 * rotated, kernels=2.0
    )
    if layer.selection is not None:
        kernels |= indexer(layer.selection, hidden, inputs, runs, deployment, batch, tokens)
    if batch.prefill is not None:
        part = batch.prefill
        kernels |= (_expanded if layer.selection is None else _absorbed_prompt)(layer, runs, deployment, part, heads)
    if batch.decode is not None:
        part, each = batch.decode, tokens_decoded(deployment)
        queries = part.sequences * each
        context = seen_by_newest(part.context, part.sequences, view(layer)) / ways(deployment.cp)
        sums = combined(queries * heads * layer.latent * deployment.communication_bytes, deployment, runs)
        kernels |= _absorbed(
            "decode", layer, runs, deployment, heads, queries, context * each, context, {}, sums, kernels=2.0
        )
    if layer.gate is not None:
        gated = heads * layer.gate
        kernels |= gemm("gate_proj", runs, tokens, hidden, gated, layer.down, act)
        kernels["gate"] = rowwise(runs, tokens, 3.0 * gated * act, 3.0 * gated, exps=gated)
    return kernels | gemm("o_proj", runs, tokens, heads * layer.value_dim, hidden, layer.output, act)


def _pairs(layer, part):
    new, past = per_sequence(part.tokens, part.sequences), per_sequence(part.past, part.sequences)
    return part.sequences * seen_pairs(new, past, view(layer))


def _expanded(layer, runs, deployment, part, heads) -> dict[str, Kernel]:
    """Every cached token's latent vector becomes keys and values of all heads, the past's too."""
    act, cp, reach = deployment.activation_bytes, ways(deployment.cp), part.tokens + part.past
    key = layer.nope_dim + layer.rope_dim
    kernels = gemm("kv_up_proj", runs, reach, layer.latent, heads * (layer.nope_dim + layer.value_dim), layer.up, act)
    kernels |= exchanged(reach * (layer.latent + layer.rope_dim) * act, deployment, runs)
    kernels["prefill_attention"] = fused_attention(
        "prefill_attention",
        runs,
        deployment,
        heads,
        key,
        layer.value_dim,
        part.tokens / cp,
        _pairs(layer, part) / cp,
        reach * heads * (key + layer.value_dim) * act,
        1.0,
    )
    return kernels


def _absorbed_prompt(layer, runs, deployment, part, heads) -> dict[str, Kernel]:
    cp, reach = ways(deployment.cp), part.tokens + part.past
    passed = exchanged(reach * (layer.latent + layer.rope_dim) * deployment.activation_bytes, deployment, runs)
    pairs = _pairs(layer, part) / cp
    reach = np.minimum(reach, pairs)  # few queries read no more than they choose
    return _absorbed("prefill", layer, runs, deployment, heads, part.tokens / cp, pairs, reach, passed, {}, kernels=1.0)


def _absorbed(part, layer, runs, deployment, heads, queries, pairs, reach, before, after, kernels) -> dict[str, Kernel]:
    """Queries in the latent space, attention to latent vectors as keys and values, outputs back to the heads."""
    act, kept = deployment.activation_bytes, unquantised(deployment.attention_compute)
    rows, cached = queries * heads, layer.latent + layer.rope_dim
    to = gemm(f"{part}_absorb_query", runs, rows, layer.nope_dim, layer.latent, kept, act, copies=heads)
    back = gemm(f"{part}_absorb_value", runs, rows, layer.latent, layer.value_dim, kept, act, copies=heads)
    kernel = fused_attention(
        f"{part}_attention",
        runs,
        deployment,
        heads,
        cached,
        layer.latent,
        queries,
        pairs,
        reach * cached * deployment.kv_bytes,
        kernels,
    )
    return {**to, **before, f"{part}_attention": kernel, **after, **back}


def compressed(layer, runs, hidden, deployment, batch, tokens) -> dict[str, Kernel]:
    """Kernels of a layer that sees a window token by token and the rest as one vector per `ratio` tokens."""
    act, tp, cp = deployment.activation_bytes, deployment.tp, ways(deployment.cp)
    heads, dim = layer.heads / tp, layer.head_dim
    kernels = gemm("latent_down_proj", runs, tokens, hidden, layer.query_rank + dim, layer.down, act)
    kernels |= gemm("q_proj", runs, tokens, layer.query_rank, heads * dim, layer.query, act)
    normed = layer.query_rank + heads * dim + dim  # all normalised; queries and the cached vector rotated in part
    kernels["rope_kv_write"] = rowwise(
        runs,
        tokens,
        (2.0 * normed - dim) * act + dim * deployment.kv_bytes,
        5.0 * normed + 3.0 * (heads + 1.0) * layer.rope_dim,
        kernels=3.0,
    )
    near, far = View(layer.window, "sliding"), View()
    if layer.selection is not None:
        far = View(layer.selection.tokens, "selected")
    if layer.ratio is not None:
        values = layer.overlap * dim  # and as many gates
        kernels |= gemm("compressor", runs, tokens, hidden, 2.0 * values, layer.compressor, act)
        kernels["pool"] = rowwise(runs, tokens, (2.0 * values + dim / layer.ratio) * act, 12.0 * values, exps=values)
    if layer.selection is not None:
        kernels |= indexer(layer.selection, hidden, layer.query_rank, runs, deployment, batch, tokens)
    if batch.prefill is not None:
        part = batch.prefill
        new, past = per_sequence(part.tokens, part.sequences), per_sequence(part.past, part.sequences)
        pairs, reach = seen_pairs(new, past, near), in_reach(past, near) + new
        if layer.ratio is not None:
            # `ratio` consecutive queries see the same vectors
            pairs = pairs + layer.ratio * seen_pairs(new / layer.ratio, past / layer.ratio, far)
            vectors = (new + past) / layer.ratio
            if layer.selection is not None:  # few queries read no more than they choose
                vectors = np.minimum(vectors, new * layer.selection.tokens)
            reach = reach + vectors
        cached = part.sequences * reach * dim
        kernels |= exchanged(cached * act, deployment, runs)
        kernels["prefill_attention"] = fused_attention(
            "prefill_attention",
            runs,
            deployment,
            heads,
            dim,
            dim,
            part.tokens / cp,
            part.sequences * pairs / cp,
            cached * deployment.kv_bytes,
            1.0,
        )
    if batch.decode is not None:
        part, each = batch.decode, tokens_decoded(deployment)
        context = seen_by_newest(part.context, part.sequences, near)
        if layer.ratio is not None:
            context = context + seen_by_newest(part.context / layer.ratio, part.sequences, far)
        queries, context = part.sequences * each, context / cp
        kernels["decode_attention"] = fused_attention(
            "decode_attention",
            runs,
            deployment,
            heads,
            dim,
            dim,
            queries,
            context * each,
            context * dim * deployment.kv_bytes,
            2.0,
        )
        kernels |= combined(queries * heads * dim * deployment.communication_bytes, deployment, runs)
    groups, together = layer.output_groups / tp, layer.heads / layer.output_groups * dim
    kernels |= gemm("group_proj", runs, tokens * groups, together, layer.output_rank, layer.group, act, copies=groups)
    return kernels | gemm("o_proj", runs, tokens, groups * layer.output_rank, hidden, layer.output, act)

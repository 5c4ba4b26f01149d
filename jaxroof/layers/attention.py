"""Softmax attention with grouped keys and values: its struct, matrices, ops, cache and rules."""

import dataclasses
from collections.abc import Iterator

from jaxroof.batch import Batch, Decode, Prefill
from jaxroof.deployment import Deployment, degree, tokens_per_sequence
from jaxroof.deployment.rule import Rule, heads_rule
from jaxroof.layers.attention_kernels import attention_kernels
from jaxroof.layers.collective import context_combine, context_exchange
from jaxroof.layers.linear import Matrices, Matrix, elementwise, projection, quantized_rows
from jaxroof.layers.protocol import MixerKind, Sizes
from jaxroof.layers.sight import (
    Selection,
    Sight,
    attended_pairs,
    choice_ops,
    decoded_context,
    index_key_bytes,
    kept_tokens,
    mean_length,
    reachable_past,
    selection_sight,
)
from jaxroof.model import WeightFormat
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import maximum, minimum
from jaxroof.numerics.struct import Scalar, static, struct
from jaxroof.op import AttentionShape, Ops


def fused_only(mixer: object, deployment: Deployment) -> Iterator[Rule]:
    """That a layer which cannot be computed so is on a deployment with fused attention."""
    if deployment.attention_kernel == "unfused":
        yield (
            jnp.asarray(False),
            lambda: "attention_kernel = unfused is of softmax self-attention to keys and values of its own",
        )


@struct
class Attention:
    """Softmax attention with grouped keys and values (multi-head when kv_heads == heads, multi-query when 1)."""

    heads: Scalar
    kv_heads: Scalar
    head_dim: Scalar  # of queries and keys
    value_dim: Scalar  # of values
    window: Scalar | None  # tokens that a query sees at most; None: all
    window_kind: str | None = static(default=None)  # "sliding", "chunked", or None without a window
    shares_cache: bool = static(default=False)  # keys and values are an earlier layer's: none projected, none cached
    causal: bool = static(default=True)  # False: every token sees every other one, as in encoders
    inputs: Scalar | None = None  # hidden sizes that queries, keys and values are made of: 2 in EAGLE-3; None: 1
    query_rank: Scalar | None = None  # of queries that are projected down and up again, Step-3's; None: directly
    value_projection: Scalar = 1.0  # 1, or 0 where values are the projected keys
    gate: Scalar = 0.0  # elements of an output gate per query head, projected beside the queries; 0: none
    qk_norm: Scalar = 0.0  # 1 where a kernel normalises queries and keys
    selection: Selection | None = None
    qkv: WeightFormat
    output: WeightFormat


ROPE_FLOPS = 3.0
"""Vector FLOP per element that is rotated: two products and a sum."""

NORM_FLOPS = 5.0
"""Vector FLOP per element that is normalised: square, sum, scale, weight, add."""


def attention_matrices(attention: Attention, hidden: Scalar, deployment: Deployment) -> Matrices:
    """Weight matrices of one layer on one device."""
    # Tensor parallelism splits heads: column-parallel projections to queries, keys and values, row-parallel output.
    heads, kv_heads = attention.heads / deployment.tp, kv_heads_per_device(attention, deployment)
    queries = heads * (attention.head_dim + attention.gate)
    keys = kv_heads * (attention.head_dim + attention.value_projection * attention.value_dim)
    keys = 0.0 if attention.shares_cache else keys
    # EAGLE-3's first layer reads an embedding and a hidden state side by side.
    inputs = hidden if attention.inputs is None else attention.inputs * hidden
    direct = queries if attention.query_rank is None else attention.query_rank
    if attention.selection is not None:
        # Queries and keys of a block indexer are rows of the same matrix.
        indexer = _selection_per_device(attention.selection, deployment)
        keys = keys + indexer.heads * indexer.head_dim + indexer.key_outputs
    matrices = {
        "qkv_proj": Matrix(inputs, direct + keys, attention.qkv, reads_norm=True),
        "o_proj": Matrix(heads * attention.value_dim, hidden, attention.output, to_residual=True),
    }
    if attention.query_rank is not None:
        matrices["q_up_proj"] = Matrix(attention.query_rank, queries, attention.qkv)
    return matrices


def _selection_per_device(selection: Selection, deployment: Deployment) -> Selection:
    """The part of a block indexer on one device: its heads are split, as those of the keys that they choose for.

    Its projections are rows of the layer's, and its keys are written beside the layer's.

    Source: sgl-project/sglang, models/minimax_m3.py (v0.5.16): heads // min(tp, heads), _FusedQKVIndexProj;
    vllm-project/vllm, models/minimax_m3 (v0.24.0): MinimaxM3QKVParallelLinearWithIndexer.
    """
    return dataclasses.replace(selection, heads=maximum(selection.heads / deployment.tp, 1.0))


def attention_ops(
    attention: Attention, hidden: Scalar, deployment: Deployment, batch: Batch, tokens: Scalar, count: Scalar
) -> Ops:
    """Ops of one attention layer in the order they run. Shapes (); `tokens` counts prefill and decode together."""
    heads = attention.heads / deployment.tp
    kv_heads = kv_heads_per_device(attention, deployment)
    q_width, k_width, v_width = (
        heads * attention.head_dim,
        0.0 if attention.shares_cache else kv_heads * attention.head_dim,
        0.0 if attention.shares_cache else kv_heads * attention.value_dim,
    )
    activation = deployment.activation_bytes
    matrices = attention_matrices(attention, hidden, deployment)
    # QK-norm is a pass of its own over queries and keys before the rotation.
    normed = attention.qk_norm * (q_width + k_width)
    indexed, index_bytes = 0.0, 0.0
    if attention.selection is not None:
        indexer = _selection_per_device(attention.selection, deployment)
        indexed = (indexer.heads + 1.0) * indexer.head_dim
        index_bytes = indexer.head_dim * (indexer.key_bytes - activation)
    ops = projection(
        "qkv_proj",
        tokens,
        matrices["qkv_proj"],
        activation,
        count,
        quantized_rows=quantized_rows(tokens, deployment),
    )
    if attention.query_rank is not None:
        ops |= projection("q_up_proj", tokens, matrices["q_up_proj"], activation, count)
    # Rotary embedding of queries and keys, and the write of new keys and values into the cache at its precision.
    ops["rope_kv_write"] = elementwise(
        tokens,
        reads=q_width + k_width + v_width + normed + indexed,
        writes=q_width + normed + indexed + ((k_width + v_width) * deployment.kv_bytes + index_bytes) / activation,
        element_bytes=activation,
        flops=ROPE_FLOPS * (q_width + k_width + indexed) + NORM_FLOPS * (normed + attention.qk_norm * indexed),
        count=count,
        kernels=2.0 + attention.qk_norm,
    )
    if attention.selection is not None:
        ops |= choice_ops(indexer, deployment, batch, 1.0, count)
    # Prompts and decoding sequences of one step share projections, but not attention: their kernels differ.
    if batch.prefill is not None:
        ops |= prefill_attention(attention, deployment, batch.prefill, count)
    if batch.decode is not None:
        ops |= decode_attention(attention, deployment, batch.decode, count)
    return ops | projection("o_proj", tokens, matrices["o_proj"], activation, count)


def prefill_attention(attention: Attention, deployment: Deployment, prefill: Prefill, count: Scalar) -> Ops:
    """Attention of new prompt tokens to themselves and their cached past, as one fused kernel.

    Context-parallel devices share the queries and the pairs evenly.

    Source: Dao, arXiv:2307.08691 (FlashAttention-2), section 2; pairs: `attended_pairs`.
    """
    cp, seen = degree(deployment.cp), attention_sight(attention)
    # Lengths are means: a step's sequences of one kind are taken to be alike.
    new, past = (mean_length(tokens, prefill.sequences) for tokens in (prefill.tokens, prefill.past))
    # Windows bound what is read of the past; new tokens are read whole, as each is a key of those after it.
    kv_heads, keys = kv_heads_per_device(attention, deployment), reachable_past(past, seen) + new
    pairs = attended_pairs(new, past, seen) / cp
    shape = AttentionShape(
        sequences=prefill.sequences,
        # Zigzag split of a causal prompt: every device has early and late queries, hence the same share of the pairs.
        queries=new / cp,
        # Few queries choose few blocks: of a long past no more is read.
        keys=keys if attention.selection is None else minimum(keys, pairs),
        pairs=pairs,
        heads=attention.heads / deployment.tp,
        kv_heads=kv_heads,
        key_width=attention.head_dim,
        value_width=attention.value_dim,
        kv_bytes=deployment.kv_bytes,
        causal=seen.causal,
        slots=None if attention.selection is None else attention.selection.tokens,
        listed=None if attention.selection is None else "blocks",
        # Without a causal mask nothing is generated: encoders keep no cache.
        appended=seen.causal,
    )
    kernels = attention_kernels("prefill_attention", deployment, shape, count)
    # Ring attention sends keys and values as they are computed, before the cache's format.
    cached, width = prefill.sequences * keys, kv_heads * (attention.head_dim + attention.value_dim)
    exchange = context_exchange(cached * width * deployment.activation_bytes, deployment, count)
    return exchange | kernels


def decode_attention(attention: Attention, deployment: Deployment, decode: Decode, count: Scalar) -> Ops:
    """Attention of the new tokens of every sequence to its context: the cache in reach is read once.

    Two kernels: partial attention over splits of the cache, and the reduction over splits
    (Flash-Decoding: Dao, Haziza, Massa & Sizov, 2023). Context-parallel devices hold a share of the cache each.
    """
    # Decoding reads the whole visible cache for a few queries: at 16 bits one FLOP per byte for each query head of a KV
    # head, so memory bandwidth binds.
    heads, cp = attention.heads / deployment.tp, degree(deployment.cp)
    context = decoded_context(decode.context, decode.sequences, attention_sight(attention)) / cp
    # Drafted tokens are verified together: several queries per sequence share one reading of its cache.
    keys, new = mean_length(context, decode.sequences), tokens_per_sequence(deployment)
    shape = AttentionShape(
        sequences=decode.sequences,
        queries=new,
        keys=keys,
        pairs=keys * new,
        heads=heads,
        kv_heads=kv_heads_per_device(attention, deployment),
        key_width=attention.head_dim,
        value_width=attention.value_dim,
        kv_bytes=deployment.kv_bytes,
        slots=None if attention.selection is None else attention.selection.tokens,
        listed=None if attention.selection is None else "blocks",
    )
    kernels = attention_kernels("decode_attention", deployment, shape, count)
    # Each device has partial outputs of its share of the keys; softmax statistics let them be added (log-sum-exp),
    # which are small beside the outputs.
    queries = decode.sequences * new
    output_bytes = queries * heads * attention.value_dim * deployment.communication_bytes
    return kernels | context_combine(output_bytes, deployment, count)


def kv_heads_per_device(attention: Attention, deployment: Deployment) -> Scalar:
    """KV heads that one device holds: kv_heads / tp, and never less than one, which is then a replica."""
    # Fewer KV heads than devices: each head is replicated, so its cache does not shrink below one head per device.
    return maximum(attention.kv_heads / deployment.tp, 1.0)


def attention_sight(attention: Attention) -> Sight:
    """How far the queries of a layer see."""
    if attention.selection is not None:
        return selection_sight(attention.selection)
    return Sight(limit=attention.window, kind=attention.window_kind, causal=attention.causal)


def attention_kv_bytes(attention: Attention, deployment: Deployment) -> Scalar:
    """B of cache that one token takes in one layer on one device, without context parallelism."""
    width = 0.0 if attention.shares_cache else attention.head_dim + attention.value_dim
    held = kv_heads_per_device(attention, deployment) * width * deployment.kv_bytes
    return held if attention.selection is None else held + index_key_bytes(attention.selection)


def attention_kept_tokens(attention: Attention, context: Scalar) -> Scalar:
    """Tokens of a sequence of `context` that stay in the cache of a layer."""
    return kept_tokens(context, attention_sight(attention))


def attention_width(attention: Attention, deployment: Deployment) -> Scalar:
    """Elements per token between the matrices of a layer on one device: queries and outputs, keys and values."""
    width = attention.head_dim + attention.value_dim
    return attention.heads * width / deployment.tp + kv_heads_per_device(attention, deployment) * width


def attention_rules(attention: Attention, deployment: Deployment) -> Iterator[Rule]:
    """What a layer asks of a deployment."""
    if attention.selection is not None:
        yield from fused_only(attention, deployment)
    yield heads_rule(deployment.tp, attention.kv_heads, "KV")


def adapted_sizes(attention: Attention, hidden: Scalar, deployment: Deployment) -> Sizes:
    """Inputs and outputs on one device of what low-rank adapters may change: each projection on its own."""
    heads, kv_heads = attention.heads / deployment.tp, kv_heads_per_device(attention, deployment)
    inputs = hidden if attention.inputs is None else attention.inputs * hidden
    return {
        "q": (inputs, heads * attention.head_dim),
        "k": (inputs, kv_heads * attention.head_dim),
        "v": (inputs, kv_heads * attention.value_dim),
        "o": (heads * attention.value_dim, hidden),
    }


ATTENTION = MixerKind(
    matrices=attention_matrices,
    ops=attention_ops,
    width=attention_width,
    token_bytes=attention_kv_bytes,
    kept_tokens=attention_kept_tokens,
    writes_scores=True,
    rules=attention_rules,
    adapted=adapted_sizes,
)
"""What the cost model asks of softmax attention."""

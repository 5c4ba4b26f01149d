"""Attention over compressed vectors and a window: multi-query, one cached vector for key and value of all heads."""

from collections.abc import Iterator

from jaxroof.batch import Batch, Decode, Prefill
from jaxroof.deployment import Deployment, degree, tokens_per_sequence
from jaxroof.deployment.rule import Rule, divides
from jaxroof.layers.attention import NORM_FLOPS, ROPE_FLOPS, fused_only
from jaxroof.layers.attention_kernels import fused_attention
from jaxroof.layers.collective import context_combine, context_exchange
from jaxroof.layers.linear import Matrices, Matrix, elementwise, projection
from jaxroof.layers.protocol import MixerKind
from jaxroof.layers.sight import (
    Selection,
    Sight,
    attended_pairs,
    decoded_context,
    index_key_bytes,
    indexer_matrices,
    indexer_ops,
    mean_length,
    reachable_past,
    selection_sight,
)
from jaxroof.model import WeightFormat
from jaxroof.numerics.smooth import minimum
from jaxroof.numerics.struct import Scalar, struct
from jaxroof.op import AttentionShape, Ops


@struct
class CompressedAttention:
    """Multi-query attention over one cached vector per `ratio` tokens that is both key and value, and a window.

    Queries and output projections are low-rank; a gated pooling makes one vector of `ratio` tokens.

    Source: DeepSeek-AI, DeepSeek-V4, 2026 (compressed sparse and heavily compressed attention).
    """

    heads: Scalar
    head_dim: Scalar  # of queries and of the cached vector
    rope_dim: Scalar  # rotated part of it
    query_rank: Scalar
    output_groups: Scalar  # heads' outputs are projected in this many groups
    output_rank: Scalar  # to this width per group, before the output projection
    window: Scalar  # latest tokens, cached one by one, that a query always sees
    ratio: Scalar | None  # tokens per compressed vector; None: the window alone
    overlap: Scalar  # compressed vectors that each token enters: 2 where pooling windows overlap, else 1
    selection: Selection | None = None
    down: WeightFormat  # hidden to compressed query and to what is cached
    query: WeightFormat
    compressor: WeightFormat
    group: WeightFormat  # groups of heads to `output_rank`
    output: WeightFormat


POOL_FLOPS = 6.0
"""Vector FLOP per pooled element: exponential weight, product, sum, norm."""


def compressed_attention_matrices(attention: CompressedAttention, hidden: Scalar, deployment: Deployment) -> Matrices:
    """Weight matrices of one layer on one device: heads and output groups are split over tp, the rest is on all."""
    tp, rank = deployment.tp, attention.query_rank
    heads, groups = attention.heads / tp, attention.output_groups / tp
    matrices = {
        "latent_down_proj": Matrix(hidden, rank + attention.head_dim, attention.down, reads_norm=True),
        "q_proj": Matrix(rank, heads * attention.head_dim, attention.query),
        # The first half of a low-rank output projection, per group of heads (block-diagonal): a grouped product.
        "group_proj": Matrix(
            attention.heads / attention.output_groups * attention.head_dim,
            attention.output_rank,
            attention.group,
            groups,
        ),
        "o_proj": Matrix(groups * attention.output_rank, hidden, attention.output, to_residual=True),
    }
    if attention.ratio is not None:
        # A vector and its gates: twice the width of what is cached.
        pooled = 2.0 * attention.overlap * attention.head_dim
        matrices["compressor"] = Matrix(hidden, pooled, attention.compressor, reads_norm=True)
    if attention.selection is not None:
        matrices |= indexer_matrices(attention.selection, hidden, rank)
    return matrices


def compressed_attention_ops(
    attention: CompressedAttention, hidden: Scalar, deployment: Deployment, batch: Batch, tokens: Scalar, count: Scalar
) -> Ops:
    """Ops of one layer in the order they run. Shapes (); `tokens` counts prefill and decode together."""
    activation, heads = deployment.activation_bytes, attention.heads / deployment.tp
    matrices = compressed_attention_matrices(attention, hidden, deployment)
    # Norms of the compressed query, of the heads' queries and of the one cached vector.
    normed = attention.query_rank + (heads + 1.0) * attention.head_dim
    rotated = (heads + 1.0) * attention.rope_dim
    ops = projection("latent_down_proj", tokens, matrices["latent_down_proj"], activation, count)
    ops |= projection("q_proj", tokens, matrices["q_proj"], activation, count)
    # Only the new vector changes format on its way into the cache; queries stay as they are.
    ops["rope_kv_write"] = elementwise(
        tokens,
        reads=normed,
        writes=normed - attention.head_dim * (1.0 - deployment.kv_bytes / activation),
        element_bytes=activation,
        flops=NORM_FLOPS * normed + ROPE_FLOPS * rotated,
        count=count,
        kernels=3.0,
    )
    if attention.ratio is not None:
        pooled = 2.0 * attention.overlap * attention.head_dim
        ops |= projection("compressor", tokens, matrices["compressor"], activation, count)
        ops["pool"] = elementwise(
            tokens,
            reads=pooled,
            # One pooled vector is written per `ratio` tokens.
            writes=attention.head_dim / attention.ratio,
            element_bytes=activation,
            flops=POOL_FLOPS * pooled,
            count=count,
            exps=0.5 * pooled,
        )
    if attention.selection is not None:
        rank = attention.query_rank
        ops |= indexer_ops(attention.selection, hidden, rank, deployment, batch, tokens, count, paged=True)
    if batch.prefill is not None:
        ops |= _prefill(attention, deployment, batch.prefill, count)
    if batch.decode is not None:
        ops |= _decode(attention, deployment, batch.decode, count)
    # Every token enters each of a device's groups: rows are tokens times groups.
    rows = tokens * matrices["group_proj"].copies
    ops |= projection("group_proj", rows, matrices["group_proj"], activation, count)
    return ops | projection("o_proj", tokens, matrices["o_proj"], activation, count)


def _sights(attention: CompressedAttention) -> tuple[Sight, Sight]:
    """How far queries see tokens one by one, and how far compressed vectors."""
    return Sight(limit=attention.window, kind="sliding"), selection_sight(attention.selection)


def _prefill(attention: CompressedAttention, deployment: Deployment, prefill: Prefill, count: Scalar) -> Ops:
    """A query's pairs are those of its window and, of the tokens before it, one per `ratio`."""
    cp = degree(deployment.cp)
    new, past = (mean_length(tokens, prefill.sequences) for tokens in (prefill.tokens, prefill.past))
    near, far = _sights(attention)
    # Near tokens one by one, in a sliding window.
    pairs = attended_pairs(new, past, near)
    cached = reachable_past(past, near) + new
    if attention.ratio is not None:
        # Far tokens as vectors: in units of `ratio` tokens there are new / ratio vectors, and each stands for `ratio`
        # queries.
        pairs = pairs + attention.ratio * attended_pairs(new / attention.ratio, past / attention.ratio, far)
        vectors = (new + past) / attention.ratio
        if attention.selection is not None:
            # Few queries choose few vectors: of a long past no more is read.
            vectors = minimum(vectors, new * attention.selection.tokens)
        cached = cached + vectors
    shape = _shape(attention, deployment, prefill.sequences, new / cp, cached, pairs / cp, new + past)
    kernel = fused_attention("prefill_attention", deployment, shape, count)
    cached = prefill.sequences * cached
    exchange = context_exchange(cached * attention.head_dim * deployment.activation_bytes, deployment, count)
    return exchange | {"prefill_attention": kernel}


def _decode(attention: CompressedAttention, deployment: Deployment, decode: Decode, count: Scalar) -> Ops:
    cp = degree(deployment.cp)
    heads = attention.heads / deployment.tp
    near, far = _sights(attention)
    context = decoded_context(decode.context, decode.sequences, near)
    if attention.ratio is not None:
        # Window and compressed context are read in one kernel: their keys add up.
        context = context + decoded_context(decode.context / attention.ratio, decode.sequences, far)
    keys, new = mean_length(context / cp, decode.sequences), tokens_per_sequence(deployment)
    length = mean_length(decode.context / cp, decode.sequences)
    shape = _shape(attention, deployment, decode.sequences, new, keys, keys * new, length)
    kernel = fused_attention("decode_attention", deployment, shape, count)
    queries = decode.sequences * new
    output_bytes = queries * heads * attention.head_dim * deployment.communication_bytes
    return {"decode_attention": kernel} | context_combine(output_bytes, deployment, count)


def _shape(
    attention: CompressedAttention,
    deployment: Deployment,
    sequences: Scalar,
    queries: Scalar,
    keys: Scalar,
    pairs: Scalar,
    length: Scalar,
) -> AttentionShape:
    """Attention to vectors that are keys and values at once, for all heads; sequences are `length` tokens long."""
    # Engines list a query's keys: its window, and all compressed vectors or those that were chosen.
    slots = attention.window
    if attention.ratio is not None:
        limit = _sights(attention)[1].limit
        slots = slots + (length / attention.ratio if limit is None else limit)
    return AttentionShape(
        sequences=sequences,
        queries=queries,
        keys=keys,
        pairs=pairs,
        heads=attention.heads / deployment.tp,
        # Multi-query attention: one cached vector for all heads, so each byte of cache meets all of them (high
        # intensity).
        kv_heads=1.0,
        key_width=attention.head_dim,
        value_width=attention.head_dim,
        kv_bytes=deployment.kv_bytes,
        latent=True,
        slots=slots,
        listed="compressed",
    )


def compressed_kv_bytes(attention: CompressedAttention, deployment: Deployment) -> Scalar:
    """B of cache per token that is cached for good, in one layer on one device; its window is `window_bytes`."""
    # 1 / ratio of a vector per token; the window does not grow with the sequence and is counted apart.
    held = 0.0 if attention.ratio is None else attention.head_dim * deployment.kv_bytes / attention.ratio
    return held if attention.selection is None else held + index_key_bytes(attention.selection)


def window_bytes(attention: CompressedAttention, deployment: Deployment) -> Scalar:
    """B of the window of one sequence in one layer on one device."""
    return attention.window * attention.head_dim * deployment.kv_bytes


def compressed_attention_width(attention: CompressedAttention, deployment: Deployment) -> Scalar:
    """Elements per token between the matrices of a layer on one device: queries and outputs."""
    return 2.0 * attention.heads / deployment.tp * attention.head_dim


def compressed_attention_rules(attention: CompressedAttention, deployment: Deployment) -> Iterator[Rule]:
    """What a layer asks of a deployment."""
    yield from fused_only(attention, deployment)
    tp, groups = deployment.tp, attention.output_groups
    yield divides(tp, groups), lambda: f"tp = {tp:g} does not divide the {groups:g} output groups"


COMPRESSED_ATTENTION = MixerKind(
    matrices=compressed_attention_matrices,
    ops=compressed_attention_ops,
    width=compressed_attention_width,
    token_bytes=compressed_kv_bytes,
    fixed_bytes=window_bytes,
    rules=compressed_attention_rules,
)
"""What the cost model asks of compressed attention."""

"""Softmax attention with grouped keys and values: projections, cache write, prefill and decode attention."""

from jaxroof.batch import Batch, Decode, Prefill
from jaxroof.deployment import Deployment, degree, tokens_per_sequence
from jaxroof.layers.collective import context_combine, context_exchange
from jaxroof.layers.elementwise import elementwise
from jaxroof.layers.indexer import indexer_ops
from jaxroof.layers.linear import OPERAND_BYTES, Matrices, Matrix, launched, projection
from jaxroof.layers.sight import attended_pairs, decoded_context, mean_length, reachable_past, sight
from jaxroof.layers.unfused_attention import unfused_attention
from jaxroof.model import Attention
from jaxroof.op import Op
from jaxroof.shape import AttentionShape
from jaxroof.smooth import maximum
from jaxroof.struct import Scalar

SOFTMAX_FLOPS = 4.0
"""Vector FLOP per query-key pair beside the exponential: scale, running maximum, subtract, running sum."""

ROPE_FLOPS = 3.0
"""Vector FLOP per element that is rotated: two products and a sum."""

NORM_FLOPS = 5.0
"""Vector FLOP per element that is normalised: square, sum, scale, weight, add."""


def attention_matrices(attention: Attention, hidden: Scalar, deployment: Deployment) -> Matrices:
    """Weight matrices of one layer on one device."""
    heads, kv_heads = attention.heads / deployment.tp, kv_heads_per_device(attention, deployment)
    queries = heads * (attention.head_dim + attention.gate)
    keys = kv_heads * (attention.head_dim + attention.value_projection * attention.value_dim)
    return {
        "qkv_proj": Matrix(hidden, queries + keys, attention.qkv),
        "o_proj": Matrix(heads * attention.value_dim, hidden, attention.output),
    }


def attention_ops(
    attention: Attention, hidden: Scalar, deployment: Deployment, batch: Batch, tokens: Scalar, count: Scalar
) -> dict[str, Op]:
    """Ops of one attention layer in the order they run. Shapes (); `tokens` counts prefill and decode together."""
    heads = attention.heads / deployment.tp
    kv_heads = kv_heads_per_device(attention, deployment)
    q_width, k_width, v_width = (
        heads * attention.head_dim,
        kv_heads * attention.head_dim,
        kv_heads * attention.value_dim,
    )
    activation = deployment.activation_bytes
    matrices = attention_matrices(attention, hidden, deployment)
    normed = attention.qk_norm * (q_width + k_width)
    ops = projection("qkv_proj", tokens, matrices["qkv_proj"], activation, count)
    ops["rope_kv_write"] = elementwise(
        tokens,
        reads=q_width + k_width + v_width + normed,
        writes=q_width + normed + (k_width + v_width) * deployment.kv_bytes / activation,
        element_bytes=activation,
        flops=ROPE_FLOPS * (q_width + k_width) + NORM_FLOPS * normed,
        count=count,
        kernels=2.0 + attention.qk_norm,
    )
    if attention.selection is not None:
        ops |= indexer_ops(attention.selection, hidden, None, deployment, batch, tokens, count)
    if batch.prefill is not None:
        ops |= prefill_attention(attention, deployment, batch.prefill, count)
    if batch.decode is not None:
        ops |= decode_attention(attention, deployment, batch.decode, count)
    return ops | projection("o_proj", tokens, matrices["o_proj"], activation, count)


def prefill_attention(attention: Attention, deployment: Deployment, prefill: Prefill, count: Scalar) -> dict[str, Op]:
    """Attention of new prompt tokens to themselves and their cached past, as one fused kernel.

    Context-parallel devices share the queries and the pairs evenly.

    Source: Dao, arXiv:2307.08691 (FlashAttention-2), section 2; pairs: `attended_pairs`.
    """
    cp, seen = degree(deployment.cp), sight(attention)
    new, past = (mean_length(tokens, prefill.sequences) for tokens in (prefill.tokens, prefill.past))
    kv_heads, keys = kv_heads_per_device(attention, deployment), reachable_past(past, seen) + new
    shape = AttentionShape(
        sequences=prefill.sequences,
        queries=new / cp,
        keys=keys,
        pairs=attended_pairs(new, past, seen) / cp,
        heads=attention.heads / deployment.tp,
        kv_heads=kv_heads,
        key_width=attention.head_dim,
        value_width=attention.value_dim,
        kv_bytes=deployment.kv_bytes,
        causal=seen.causal,
    )
    kernels = attention_kernels("prefill_attention", deployment, shape, count)
    cached, width = prefill.sequences * keys, kv_heads * (attention.head_dim + attention.value_dim)
    exchange = context_exchange(cached * width * deployment.activation_bytes, deployment, count)
    return exchange | kernels


def decode_attention(attention: Attention, deployment: Deployment, decode: Decode, count: Scalar) -> dict[str, Op]:
    """Attention of the new tokens of every sequence to its context: the cache in reach is read once.

    Two kernels: partial attention over splits of the cache, and the reduction over splits
    (Flash-Decoding: Dao, Haziza, Massa & Sizov, 2023). Context-parallel devices hold a share of the cache each.
    """
    heads, cp = attention.heads / deployment.tp, degree(deployment.cp)
    context = decoded_context(decode.context, decode.sequences, sight(attention)) / cp
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
    )
    kernels = attention_kernels("decode_attention", deployment, shape, count)
    queries = decode.sequences * new
    output_bytes = queries * heads * attention.value_dim * deployment.communication_bytes
    return kernels | context_combine(output_bytes, deployment, count)


def attention_kernels(kind: str, deployment: Deployment, shape: AttentionShape, count: Scalar) -> dict[str, Op]:
    """The kernels that attention of `shape` runs as on this deployment; `kind` begins their names."""
    if deployment.attention_kernel == "unfused":
        return unfused_attention(kind, deployment, shape, count)
    return {kind: fused_attention(kind, deployment, shape, count)}


def fused_attention(kind: str, deployment: Deployment, shape: AttentionShape, count: Scalar) -> Op:
    """One attention kernel: scores, softmax and the weighted sum of values, without anything written in between.

    FLOP = 2 pairs heads (key_width + value_width); one exponential per pair and head; queries, outputs and the keys
    and values in reach are moved once.

    Args:
      kind: prefill_attention: one kernel; decode_attention: a second one adds up the splits of the cache.
      shape: of the sequences on this device; without sequences nothing is launched.
      count: how often the step runs it.
    """
    pairs = shape.sequences * shape.pairs * shape.heads
    queries = shape.sequences * shape.queries
    widths = shape.key_width + shape.value_width
    cache_width = shape.key_width if shape.latent else widths
    cached = shape.sequences * shape.keys * shape.kv_heads * cache_width * shape.kv_bytes
    return Op(
        kind=kind,
        precision=deployment.attention_compute,
        count=count,
        kernels=(1.0 if kind == "prefill_attention" else 2.0) * launched(queries),
        matrix_flops=2.0 * pairs * widths,
        operand_bytes=OPERAND_BYTES[deployment.attention_compute],
        vector_flops=SOFTMAX_FLOPS * pairs,
        exps=pairs,
        bytes=cached + queries * shape.heads * widths * deployment.activation_bytes,
        shape=shape,
    )


def kv_heads_per_device(attention: Attention, deployment: Deployment) -> Scalar:
    """KV heads that one device holds: kv_heads / tp, and never less than one, which is then a replica."""
    return maximum(attention.kv_heads / deployment.tp, 1.0)


def attention_kv_bytes(attention: Attention, deployment: Deployment) -> Scalar:
    """B of cache that one token takes in one layer on one device, without context parallelism."""
    width = attention.head_dim + attention.value_dim
    return kv_heads_per_device(attention, deployment) * width * deployment.kv_bytes

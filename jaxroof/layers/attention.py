"""Softmax attention with grouped keys and values: projections, cache write, prefill and decode attention."""

from jaxroof.batch import Batch, Decode, Prefill
from jaxroof.deployment import Deployment, degree, tokens_per_sequence
from jaxroof.layers.collective import context_combine, context_exchange
from jaxroof.layers.elementwise import elementwise
from jaxroof.layers.indexer import indexer_ops
from jaxroof.layers.linear import OPERAND_BYTES, Matrices, Matrix, launched, projection
from jaxroof.layers.sight import attended_pairs, decoded_context, mean_length, reachable_past, sight
from jaxroof.model import Attention
from jaxroof.op import Op
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

    FLOP = 2 pairs heads (head_dim + value_dim); one exponential per pair and head; queries, outputs and the
    keys and values of every token in reach are moved once. Context-parallel devices share the pairs evenly.

    Source: Dao, arXiv:2307.08691 (FlashAttention-2), section 2; pairs: `attended_pairs`.
    """
    heads, cp, seen = attention.heads / deployment.tp, degree(deployment.cp), sight(attention)
    new, past = (mean_length(tokens, prefill.sequences) for tokens in (prefill.tokens, prefill.past))
    pairs = prefill.sequences * attended_pairs(new, past, seen)
    cached = prefill.sequences * (reachable_past(past, seen) + new)
    width = kv_heads_per_device(attention, deployment) * (attention.head_dim + attention.value_dim)
    kernel = fused_attention(
        "prefill_attention",
        deployment,
        heads=heads,
        widths=(attention.head_dim, attention.value_dim),
        queries=prefill.tokens / cp,
        pairs=pairs / cp,
        cache_bytes=cached * width * deployment.kv_bytes,
        kernels=1.0,
        count=count,
    )
    exchange = context_exchange(cached * width * deployment.activation_bytes, deployment, count)
    return exchange | {"prefill_attention": kernel}


def decode_attention(attention: Attention, deployment: Deployment, decode: Decode, count: Scalar) -> dict[str, Op]:
    """Attention of the new tokens of every sequence to its context: the cache in reach is read once.

    Two kernels: partial attention over splits of the cache, and the reduction over splits
    (Flash-Decoding: Dao, Haziza, Massa & Sizov, 2023). Context-parallel devices hold a share of the cache each.
    """
    heads, cp = attention.heads / deployment.tp, degree(deployment.cp)
    context = decoded_context(decode.context, decode.sequences, sight(attention)) / cp
    width = kv_heads_per_device(attention, deployment) * (attention.head_dim + attention.value_dim)
    queries = decode.sequences * tokens_per_sequence(deployment)
    kernel = fused_attention(
        "decode_attention",
        deployment,
        heads=heads,
        widths=(attention.head_dim, attention.value_dim),
        queries=queries,
        pairs=context * tokens_per_sequence(deployment),
        cache_bytes=context * width * deployment.kv_bytes,
        kernels=2.0,
        count=count,
    )
    output_bytes = queries * heads * attention.value_dim * deployment.communication_bytes
    return {"decode_attention": kernel} | context_combine(output_bytes, deployment, count)


def fused_attention(
    kind: str,
    deployment: Deployment,
    heads: Scalar,
    widths: tuple[Scalar, Scalar],
    queries: Scalar,
    pairs: Scalar,
    cache_bytes: Scalar,
    kernels: float,
    count: Scalar,
) -> Op:
    """One attention kernel: scores, softmax and the weighted sum of values, without anything written in between.

    Args:
      kind: prefill_attention or decode_attention.
      heads: query heads on this device.
      widths: of keys and of values.
      queries: tokens that attend.
      pairs: query-key pairs.
      cache_bytes: B of keys and values read.
      kernels: that the work is spread over.
      count: how often the step runs it.
    """
    width = widths[0] + widths[1]
    return Op(
        kind=kind,
        precision=deployment.attention_compute,
        count=count,
        kernels=kernels * launched(queries),
        matrix_flops=2.0 * pairs * heads * width,
        operand_bytes=OPERAND_BYTES[deployment.attention_compute],
        vector_flops=SOFTMAX_FLOPS * pairs * heads,
        exps=pairs * heads,
        bytes=cache_bytes + queries * heads * width * deployment.activation_bytes,
    )


def kv_heads_per_device(attention: Attention, deployment: Deployment) -> Scalar:
    """KV heads that one device holds: kv_heads / tp, and never less than one, which is then a replica."""
    return maximum(attention.kv_heads / deployment.tp, 1.0)


def attention_kv_bytes(attention: Attention, deployment: Deployment) -> Scalar:
    """B of cache that one token takes in one layer on one device, without context parallelism."""
    width = attention.head_dim + attention.value_dim
    return kv_heads_per_device(attention, deployment) * width * deployment.kv_bytes

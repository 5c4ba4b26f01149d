"""Softmax attention with grouped keys and values: projections, cache write, prefill and decode attention."""

import jax
import jax.numpy as jnp

from jaxroof.batch import Batch, Decode, Prefill
from jaxroof.deployment import Deployment
from jaxroof.layers.elementwise import elementwise
from jaxroof.layers.linear import OPERAND_BYTES, launched, linear
from jaxroof.model import Attention
from jaxroof.op import Op
from jaxroof.smooth import maximum, minimum, positive_part
from jaxroof.struct import Scalar

SOFTMAX_FLOPS = 4.0
"""Vector FLOP per query-key pair beside the exponential: scale, running maximum, subtract, running sum."""

ROPE_FLOPS = 3.0
"""Vector FLOP per element that is rotated: two products and a sum."""


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
    ops = {
        "qkv_proj": linear(tokens, hidden, q_width + k_width + v_width, attention.qkv, activation, count),
        "rope_kv_write": elementwise(
            tokens,
            reads=q_width + k_width + v_width,
            writes=q_width + (k_width + v_width) * deployment.kv_bytes / activation,
            element_bytes=activation,
            flops=ROPE_FLOPS * (q_width + k_width),
            count=count,
            kernels=2.0,
        ),
    }
    if batch.prefill is not None:
        ops["prefill_attention"] = prefill_attention(attention, deployment, batch.prefill, count)
    if batch.decode is not None:
        ops["decode_attention"] = decode_attention(attention, deployment, batch.decode, count)
    ops["o_proj"] = linear(tokens, heads * attention.value_dim, hidden, attention.output, activation, count)
    return ops


def prefill_attention(attention: Attention, deployment: Deployment, prefill: Prefill, count: Scalar) -> Op:
    """Causal attention of new prompt tokens to themselves and their cached past, as one fused kernel.

    FLOP = 2 pairs heads (head_dim + value_dim); one exponential per pair and head; queries, outputs and the
    keys and values of every token in reach are moved once.

    Source: Dao, arXiv:2307.08691 (FlashAttention-2), section 2; pairs: `causal_pairs`.
    """
    heads = attention.heads / deployment.tp
    sequences = _divisor(prefill.sequences)
    new, past = prefill.tokens / sequences, prefill.past / sequences
    pairs = prefill.sequences * causal_pairs(new, past, attention)
    cached = prefill.sequences * (reachable_past(past, attention) + new)
    return _fused_attention(
        "prefill_attention", attention, deployment, heads, prefill.tokens, pairs, cached, 1.0, count
    )


def decode_attention(attention: Attention, deployment: Deployment, decode: Decode, count: Scalar) -> Op:
    """Attention of one new token per sequence to its context: the cache in reach is read once.

    Two kernels: partial attention over splits of the cache, and the reduction over splits
    (Flash-Decoding: Dao, Haziza, Massa & Sizov, 2023).
    """
    heads = attention.heads / deployment.tp
    context = decode.context
    if attention.window is not None:
        sequences = _divisor(decode.sequences)
        context = decode.sequences * visible_context(maximum(decode.context / sequences, 1.0), attention)
    return _fused_attention(
        "decode_attention", attention, deployment, heads, decode.sequences, context, context, 2.0, count
    )


def _fused_attention(
    kind: str,
    attention: Attention,
    deployment: Deployment,
    heads: Scalar,
    queries: Scalar,
    pairs: Scalar,
    cached: Scalar,
    kernels: float,
    count: Scalar,
) -> Op:
    width = attention.head_dim + attention.value_dim
    cache_bytes = cached * kv_heads_per_device(attention, deployment) * width * deployment.kv_bytes
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


def causal_pairs(new: Scalar, past: Scalar, attention: Attention) -> jax.Array:
    """Query-key pairs of `new` tokens that follow `past` cached ones; each sees itself and what its window leaves.

    Full: new past + new (new + 1) / 2. Sliding window w: a query sees at most w tokens, itself included. Chunked w:
    a query sees its own chunk of w tokens up to itself. Written without differences of large numbers.
    """
    if attention.window is None:
        return new * past + _triangle(new)
    window = attention.window
    reach = reachable_past(past, attention)
    if attention.window_kind == "chunked":
        first = minimum(new, window - reach)  # what still fits into the chunk that the past began
        chunks = jnp.floor((new - first) / window)
        rest = new - first - chunks * window
        return first * reach + _triangle(first) + chunks * _triangle(window) + _triangle(rest)
    ramp = minimum(new, positive_part(window - past))  # queries that see all there is
    return ramp * past + _triangle(ramp) + (new - ramp) * window


def reachable_past(past: Scalar, attention: Attention) -> Scalar:
    """Of `past` cached tokens, those that the next one can see."""
    if attention.window is None:
        return past
    if attention.window_kind == "chunked":
        return past - attention.window * jnp.floor(past / attention.window)
    return minimum(past, attention.window - 1.0)


def _divisor(sequences: Scalar) -> jax.Array:
    """`sequences`, or 1 where there are none."""
    return jnp.where(sequences > 0.0, sequences, 1.0)


def _triangle(length: Scalar) -> Scalar:
    return 0.5 * length * (length + 1.0)


def visible_context(context: Scalar, attention: Attention) -> Scalar:
    """Tokens that the newest of `context` tokens attends to, itself included; `context` is at least 1."""
    return reachable_past(context - 1.0, attention) + 1.0

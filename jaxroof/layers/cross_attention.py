"""Attention of a decoder's tokens to the encoder's output, whose keys and values are made once per request."""

from collections.abc import Iterator

from jaxroof.batch import Batch
from jaxroof.deployment import Deployment, degree, tokens_per_sequence
from jaxroof.layers.attention import Attention, attention_matrices, fused_attention, kv_heads_per_device
from jaxroof.layers.linear import Matrices, Matrix, projection
from jaxroof.layers.sight import mean_length
from jaxroof.layers.unfused_attention import fused_only
from jaxroof.op import Ops
from jaxroof.rule import Rule, heads_rule
from jaxroof.shape import AttentionShape
from jaxroof.struct import Scalar


def cross_attention_matrices(cross: Attention, hidden: Scalar, deployment: Deployment) -> Matrices:
    """Weight matrices of one layer on one device; keys and values are projections of the encoder's output."""
    heads = cross.heads / deployment.tp
    keys = kv_heads_per_device(cross, deployment) * (cross.head_dim + cross.value_dim)
    output = attention_matrices(cross, hidden, deployment)["o_proj"]
    return {
        "cross_q_proj": Matrix(hidden, heads * cross.head_dim, cross.qkv, reads_norm=True),
        "cross_kv_proj": Matrix(hidden, keys, cross.qkv, reads_norm=True),  # the encoder's last norm
        "cross_o_proj": output,
    }


def cross_attention_ops(
    cross: Attention, hidden: Scalar, deployment: Deployment, batch: Batch, tokens: Scalar, count: Scalar
) -> Ops:
    """Ops of one cross-attention layer: every token sees all `batch.encoded` outputs of its sequence's encoder.

    Keys and values are projected in the step that encodes, and read from the cache in every step.
    """
    activation = deployment.activation_bytes
    matrices = cross_attention_matrices(cross, hidden, deployment)
    ops = projection("cross_q_proj", tokens, matrices["cross_q_proj"], activation, count)
    if batch.encode is not None:
        outputs = batch.encode.sequences * batch.encoded
        ops |= projection("cross_kv_proj", outputs, matrices["cross_kv_proj"], activation, count)
    for name, part in (("prefill", batch.prefill), ("decode", batch.decode)):
        if part is None:
            continue
        if name == "prefill":
            queries = mean_length(part.tokens, part.sequences) / degree(deployment.cp)
        else:
            queries = tokens_per_sequence(deployment)
        shape = AttentionShape(
            sequences=part.sequences,
            queries=queries,
            keys=batch.encoded,
            pairs=queries * batch.encoded,
            heads=cross.heads / deployment.tp,
            kv_heads=kv_heads_per_device(cross, deployment),
            key_width=cross.head_dim,
            value_width=cross.value_dim,
            kv_bytes=deployment.kv_bytes,
            causal=False,
        )
        kernel = fused_attention(f"{name}_attention", deployment, shape, count, role="cross_attention")
        ops[f"cross_{name}_attention"] = kernel
    return ops | projection("cross_o_proj", tokens, matrices["cross_o_proj"], activation, count)


def cross_attention_rules(cross: Attention, deployment: Deployment) -> Iterator[Rule]:
    """What a layer asks of a deployment."""
    yield from fused_only(cross, deployment)
    yield heads_rule(deployment.tp, cross.kv_heads, "KV")

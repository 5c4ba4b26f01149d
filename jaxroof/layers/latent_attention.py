"""Multi-head latent attention: expanded to heads in prefill, absorbed into the latent vector in decode."""

from jaxroof.batch import Batch, Decode, Prefill
from jaxroof.deployment import Deployment, degree, tokens_per_sequence
from jaxroof.layers.attention import NORM_FLOPS, ROPE_FLOPS, fused_only
from jaxroof.layers.attention_kernels import fused_attention
from jaxroof.layers.collective import context_combine, context_exchange
from jaxroof.layers.linear import LOW_PRECISIONS, OPERAND_BYTES, Matrices, Matrix, elementwise, projection
from jaxroof.layers.protocol import MixerKind
from jaxroof.layers.sight import (
    Selection,
    attended_pairs,
    decoded_context,
    index_key_bytes,
    indexer_matrices,
    indexer_ops,
    mean_length,
    selection_sight,
)
from jaxroof.model import WeightFormat
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import minimum
from jaxroof.numerics.struct import Scalar, struct
from jaxroof.op import AttentionShape, Ops, in_phase


@struct
class LatentAttention:
    """Multi-head latent attention: keys and values of all heads are projections of one cached latent vector.

    Expanded to heads in prefill; absorbed in decode, and in prefill too with a selection, where queries attend to the
    latent vector itself.

    Source: DeepSeek-AI, arXiv:2405.04434 (DeepSeek-V2), section 2.1.
    """

    heads: Scalar
    query_rank: Scalar | None  # width of the compressed query; None: queries are projected from the hidden state
    latent: Scalar  # width of the cached latent vector, kv_lora_rank
    nope_dim: Scalar  # of queries and keys, without the rotated part
    rope_dim: Scalar  # rotated part of queries and of the one key that heads share, cached beside the latent vector
    value_dim: Scalar
    gate: Scalar | None = None  # elements of an output gate per head, projected from the hidden state; None: none
    selection: Selection | None = None
    down: WeightFormat  # hidden to compressed query, latent vector and rotated key
    query: WeightFormat  # to the heads' queries
    up: WeightFormat  # latent vector to the heads' keys and values
    output: WeightFormat


SCALED_ELEMENTS, SCALE_BYTES, ROTATED_BYTES = 128.0, 4.0, 2.0
"""Elements of an 8-bit latent vector with one scale, B of the scale, and B per element of the rotated key beside it.

Source: as `latent_kv_bytes`."""

GATE_FLOPS = 3.0
"""Vector FLOP per gated element beside the sigmoid's exponential: add, divide, multiply."""


def latent_attention_matrices(attention: LatentAttention, hidden: Scalar, deployment: Deployment) -> Matrices:
    """Weight matrices of one layer on one device: what makes latent vectors is on every one, heads are split over tp.

    The projection to the heads' keys and values is one matrix however it is multiplied: at once in prefill, or half by
    half with queries and outputs once it is absorbed.
    """
    # Low-rank joint compression: the cache holds `latent` + `rope_dim` numbers per token, however many heads there are.
    heads = attention.heads / deployment.tp
    cached = attention.latent + attention.rope_dim
    queries = heads * (attention.nope_dim + attention.rope_dim)
    rank = attention.query_rank
    if rank is None:
        # One GEMM for all that is projected from the hidden state; queries join it where they are compressed as well.
        first = {
            "latent_down_proj": Matrix(hidden, cached, attention.down, reads_norm=True),
            "q_proj": Matrix(hidden, queries, attention.query, reads_norm=True),
        }
    else:
        first = {
            "latent_down_proj": Matrix(hidden, rank + cached, attention.down, reads_norm=True),
            "q_proj": Matrix(rank, queries, attention.query),
        }
    matrices = first | {
        "kv_up_proj": Matrix(attention.latent, heads * (attention.nope_dim + attention.value_dim), attention.up),
        "o_proj": Matrix(heads * attention.value_dim, hidden, attention.output, to_residual=True),
    }
    if attention.gate is not None:
        matrices["gate_proj"] = Matrix(hidden, heads * attention.gate, attention.down, reads_norm=True)
    if attention.selection is not None:
        matrices |= indexer_matrices(attention.selection, hidden, rank)
    return matrices


def latent_attention_ops(
    attention: LatentAttention, hidden: Scalar, deployment: Deployment, batch: Batch, tokens: Scalar, count: Scalar
) -> Ops:
    """Ops of one layer in the order they run. Shapes (); `tokens` counts prefill and decode together."""
    activation, heads = deployment.activation_bytes, attention.heads / deployment.tp
    matrices = latent_attention_matrices(attention, hidden, deployment)
    rank = 0.0 if attention.query_rank is None else attention.query_rank
    normed = rank + attention.latent
    # One rotated key for all heads (decoupled RoPE), beside the heads' queries.
    rotated = (heads + 1.0) * attention.rope_dim
    ops = projection("latent_down_proj", tokens, matrices["latent_down_proj"], activation, count)
    ops["latent_norm"] = elementwise(
        tokens,
        reads=normed,
        writes=normed,
        element_bytes=activation,
        flops=NORM_FLOPS * normed,
        count=count,
        kernels=2.0,
    )
    ops |= projection("q_proj", tokens, matrices["q_proj"], activation, count)
    ops["rope_kv_write"] = elementwise(
        tokens,
        reads=rotated + attention.latent,
        writes=rotated + (attention.latent + attention.rope_dim) * deployment.kv_bytes / activation,
        element_bytes=activation,
        flops=ROPE_FLOPS * rotated,
        count=count,
        kernels=2.0,
    )
    if attention.selection is not None:
        ops |= indexer_ops(attention.selection, hidden, attention.query_rank, deployment, batch, tokens, count)
    if batch.prefill is not None:
        # Two ways of the same attention. Expanded: fewer FLOP per pair, but keys and values of all heads in memory;
        # absorbed: a wide inner product on the small cache. Prompts are bound by compute, decoding by the cache.
        if attention.selection is None:
            ops |= _expanded_prefill(attention, deployment, batch.prefill, matrices["kv_up_proj"], count)
        else:
            ops |= _absorbed(attention, deployment, batch.prefill, count)
    if batch.decode is not None:
        ops |= _absorbed(attention, deployment, batch.decode, count)
    if attention.gate is not None:
        gated = matrices["gate_proj"].outputs
        ops |= projection("gate_proj", tokens, matrices["gate_proj"], activation, count)
        ops["gate"] = elementwise(
            tokens,
            reads=2.0 * gated,
            writes=gated,
            element_bytes=activation,
            flops=GATE_FLOPS * gated,
            count=count,
            exps=gated,
        )
    return ops | projection("o_proj", tokens, matrices["o_proj"], activation, count)


def _expanded_prefill(
    attention: LatentAttention, deployment: Deployment, prefill: Prefill, up: Matrix, count: Scalar
) -> Ops:
    """Prompt attention with keys and values of every head: those of the cached past are expanded again too."""
    heads, cp = attention.heads / deployment.tp, degree(deployment.cp)
    key_dim = attention.nope_dim + attention.rope_dim
    new, past = (mean_length(tokens, prefill.sequences) for tokens in (prefill.tokens, prefill.past))
    # The past is only cached as latent vectors: its keys and values are expanded once more in every chunk.
    cached = prefill.tokens + prefill.past
    ops = in_phase(projection("kv_up_proj", cached, up, deployment.activation_bytes, count), "prefill")
    latent_bytes = cached * (attention.latent + attention.rope_dim) * deployment.activation_bytes
    ops |= context_exchange(latent_bytes, deployment, count)
    shape = AttentionShape(
        sequences=prefill.sequences,
        queries=new / cp,
        keys=new + past,
        pairs=attended_pairs(new, past, selection_sight(attention.selection)) / cp,
        heads=heads,
        kv_heads=heads,
        key_width=key_dim,
        value_width=attention.value_dim,
        # Expanded keys and values are activations: 16 bits, whatever the cache's format.
        kv_bytes=deployment.activation_bytes,
    )
    ops["prefill_attention"] = fused_attention("prefill_attention", deployment, shape, count)
    return ops


def _absorbed(attention: LatentAttention, deployment: Deployment, part: Prefill | Decode, count: Scalar) -> Ops:
    """Attention of the heads' queries to the cached latent vectors, which are keys and values at once.

    Queries are projected to the latent space before and outputs from it after, head by head, by `absorbed_matrices`.
    FLOP of the attention itself = 2 pairs heads (2 latent + rope_dim); the cache in reach is read once.
    """
    heads, cp, seen = attention.heads / deployment.tp, degree(deployment.cp), selection_sight(attention.selection)
    activation = deployment.activation_bytes
    # q^T (W c) = (W^T q)^T c: with the projection absorbed into the query, scores are products with the cached vector
    # itself.
    width = attention.latent + attention.rope_dim
    sequences = part.sequences
    if isinstance(part, Prefill):
        phase = "prefill"
        new, past = (mean_length(tokens, sequences) for tokens in (part.tokens, part.past))
        queries, pairs = new / cp, attended_pairs(new, past, seen) / cp
        # Few queries choose few tokens: of a long past no more is read.
        keys = new + past if attention.selection is None else minimum(new + past, pairs)
        exchange = context_exchange(sequences * (new + past) * width * activation, deployment, count)
        combine: Ops = {}
    else:
        phase, queries = "decode", tokens_per_sequence(deployment)
        keys = mean_length(decoded_context(part.context, sequences, seen) / cp, sequences)
        pairs = keys * queries
        exchange = {}
        # Outputs are combined in the latent space, before they are projected back to the heads' values.
        output_bytes = sequences * queries * heads * attention.latent * deployment.communication_bytes
        combine = context_combine(output_bytes, deployment, count)
    to_latent, from_latent = absorbed_matrices(attention, deployment)
    shape = AttentionShape(
        sequences=sequences,
        queries=queries,
        keys=keys,
        pairs=pairs,
        heads=heads,
        # Multi-query form: one cached vector for all heads.
        kv_heads=1.0,
        key_width=width,
        value_width=attention.latent,
        kv_bytes=deployment.kv_bytes,
        latent=True,
        slots=seen.limit,
        listed=None if attention.selection is None else "selected",
    )
    kernel = fused_attention(f"{phase}_attention", deployment, shape, count)
    # One small matrix per head: rows are tokens times heads.
    rows = sequences * queries * heads
    ops = {
        **projection(f"{phase}_absorb_query", rows, to_latent, activation, count),
        **exchange,
        f"{phase}_attention": kernel,
        **combine,
        **projection(f"{phase}_absorb_value", rows, from_latent, activation, count),
    }
    return in_phase(ops, phase)


def absorbed_matrices(attention: LatentAttention, deployment: Deployment) -> tuple[Matrix, Matrix]:
    """The two halves of the projection to keys and values, head by head, which engines keep at 16 bits beside it.

    Source: vLLM, v1/attention/backends/mla/common.py (W_UK_T and W_UV).
    """
    # Absorbed products stay at 16 bits: quantised weights are converted once at load time.
    compute = "bf16" if deployment.attention_compute in LOW_PRECISIONS else deployment.attention_compute
    weights = WeightFormat(bytes=OPERAND_BYTES[compute], compute=compute)
    heads = attention.heads / deployment.tp
    return (
        Matrix(attention.nope_dim, attention.latent, weights, heads),
        Matrix(attention.latent, attention.value_dim, weights, heads),
    )


def latent_kv_bytes(attention: LatentAttention, deployment: Deployment) -> Scalar:
    """B of cache that one token takes in one layer on one device: a latent vector and a rotated key, however large tp.

    And the keys of an indexer, whose kernels want an 8-bit latent vector with a 32-bit scale per 128 elements and the
    rotated key at 16 bits, unless the deployment's `selected_cache` is "plain": 656 B of 512 + 64 elements.

    Source: FlashMLA (deepseek-ai/FlashMLA, README, FP8 sparse decoding), vLLM (cache dtype fp8_ds_mla), SGLang.
    """
    plain = (attention.latent + attention.rope_dim) * deployment.kv_bytes
    if attention.selection is None:
        return plain
    keys = index_key_bytes(attention.selection)
    if deployment.selected_cache == "plain":
        return plain + keys
    # Layout of FP8 sparse kernels: 8-bit latent vector, float32 scales per 128 elements, 16-bit rotated key.
    scales = attention.latent / SCALED_ELEMENTS * SCALE_BYTES
    scaled = attention.latent * deployment.kv_bytes + scales + attention.rope_dim * ROTATED_BYTES
    return jnp.where(deployment.kv_bytes < ROTATED_BYTES, scaled, plain) + keys


def latent_attention_width(attention: LatentAttention, deployment: Deployment) -> Scalar:
    """Elements per token between the matrices of a layer on one device: of every head, keys and values too."""
    return 2.0 * attention.heads / deployment.tp * (attention.nope_dim + attention.rope_dim + attention.value_dim)


LATENT_ATTENTION = MixerKind(
    matrices=latent_attention_matrices,
    ops=latent_attention_ops,
    width=latent_attention_width,
    token_bytes=latent_kv_bytes,
    copies=absorbed_matrices,
    rules=fused_only,
)
"""What the cost model asks of latent attention."""

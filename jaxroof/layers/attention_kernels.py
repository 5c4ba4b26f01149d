"""Kernels of softmax attention: fused into one, or one after the other with the scores in memory."""

from jaxroof.deployment import Deployment
from jaxroof.layers.linear import OPERAND_BYTES, elementwise, launched, linear
from jaxroof.model import WeightFormat
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.struct import Array, Scalar
from jaxroof.op import ATTENTION_PHASES, AttentionShape, Kernel, Ops, in_phase, with_role

SOFTMAX_FLOPS = 4.0
"""Vector FLOP per query-key pair beside the exponential: scale, running maximum, subtract, running sum."""

SCORE_KERNELS = 2.0
"""Kernels that scale and mask the scores. Hugging Face transformers 4.46, `attn_implementation="eager"`: GPT-2
divides and selects, BERT divides and adds, OPT adds and clamps."""

SOFTMAX_KEPT = 1024.0
"""Elements of a row that softmax keeps in registers. PyTorch, aten SoftMax.cu: it reads a longer row for its maximum
and sum, and again for its result."""

UNFUSED_SOFTMAX_FLOPS = 4.0
"""Vector FLOP per score beside the exponential: maximum, subtract, sum, divide."""

COPIES = 4.0
"""Kernels that bring queries, keys, values and outputs from one order of tokens and heads to the other."""


def attention_kernels(kind: str, deployment: Deployment, shape: AttentionShape, count: Scalar) -> Ops:
    """The kernels that attention of `shape` runs as on this deployment; `kind` begins their names."""
    if deployment.attention_kernel == "unfused":
        return unfused_attention(kind, deployment, shape, count)
    return {kind: fused_attention(kind, deployment, shape, count)}


def fused_attention(
    kind: str, deployment: Deployment, shape: AttentionShape, count: Scalar, role: str = "attention"
) -> Kernel:
    """One attention kernel: scores, softmax and the weighted sum of values, without anything written in between.

    FLOP = 2 pairs heads (key_width + value_width); one exponential per pair and head; queries, outputs and the keys
    and values in reach are moved once.

    Args:
      kind: prefill_attention: one kernel; decode_attention: a second one adds up the splits of the cache.
      shape: of the sequences on this device; without sequences nothing is launched.
      count: how often the step runs it.
      role: attention or cross_attention.
    """
    # Masked pairs of a causal prompt are not counted: kernels skip tiles above the diagonal.
    pairs = shape.sequences * shape.pairs * shape.heads
    queries = shape.sequences * shape.queries
    widths = shape.key_width + shape.value_width
    # Latent attention stores one vector per token for all heads, whose first elements are the values.
    cache_width = shape.key_width if shape.latent else widths
    cached = shape.sequences * shape.keys * shape.kv_heads * cache_width * shape.kv_bytes
    return Kernel(
        kind=kind,
        precision=deployment.attention_compute,
        count=count,
        # Flash-decoding runs a second kernel, which adds up the splits.
        kernels=(1.0 if kind == "prefill_attention" else 2.0) * launched(queries),
        role=role,
        phase=ATTENTION_PHASES[kind],
        # Two products: scores over a key's width, outputs over a value's; 2 FLOP per multiply-add.
        matrix_flops=2.0 * pairs * widths,
        operand_bytes=OPERAND_BYTES[deployment.attention_compute],
        vector_flops=SOFTMAX_FLOPS * pairs,
        exps=pairs,
        bytes=cached + queries * shape.heads * widths * deployment.activation_bytes,
        shape=shape,
    )


def unfused_attention(kind: str, deployment: Deployment, shape: AttentionShape, count: Scalar) -> Ops:
    """Attention that writes its scores, in the order it runs; every query meets every key, masked or not.

    copies, queries (keys)^T, scale and mask, softmax, weights (values). Keys and values of grouped heads are repeated.

    Args:
      kind: prefill_attention or decode_attention, which the names begin with.
      shape: of the sequences on this device.
      count: how often the step runs it.
    """
    size = deployment.activation_bytes
    # Scores are a product of activations by activations: the "weights" are keys at the activations' precision, one
    # matrix per head and sequence.
    tokens, operands = shape.sequences * shape.queries, WeightFormat(bytes=size, compute=deployment.attention_compute)
    rows, heads = tokens * shape.heads, shape.sequences * shape.heads
    widths = shape.heads * (shape.key_width + shape.value_width)
    kernels = SCORE_KERNELS if deployment.score_kernels is None else deployment.score_kernels
    # Each kernel between scores and softmax reads and writes the whole row of scores, which makes unfused attention
    # bound by memory at long context.
    passes = kernels * shape.keys
    readings = softmax_readings(shape.keys) * shape.keys
    # Without online softmax every score passes memory: quadratic bytes in the length, where fused attention has linear.
    ops: Ops = {
        f"{kind}_copies": elementwise(
            tokens, reads=2.0 * widths, writes=2.0 * widths, element_bytes=size, flops=0.0, count=count, kernels=COPIES
        ),
        f"{kind}_scores": linear(rows, shape.key_width, shape.keys, operands, size, count, matrices=heads),
        f"{kind}_mask": elementwise(
            rows, reads=passes, writes=passes, element_bytes=size, flops=passes, count=count, kernels=kernels
        ),
        f"{kind}_softmax": elementwise(
            rows,
            reads=readings,
            writes=shape.keys,
            element_bytes=size,
            flops=UNFUSED_SOFTMAX_FLOPS * shape.keys,
            count=count,
            exps=readings,
        ),
        f"{kind}_values": linear(rows, shape.keys, shape.value_width, operands, size, count, matrices=heads),
    }
    return in_phase(with_role(ops, "attention"), ATTENTION_PHASES[kind])


def softmax_readings(keys: Scalar) -> Array:
    """Times that softmax reads rows of `keys` elements and takes their exponentials, shape ()."""
    # A row in registers is read once; a longer one once for maximum and sum and once more for the result.
    return jnp.where(keys > SOFTMAX_KEPT, 2.0, 1.0)

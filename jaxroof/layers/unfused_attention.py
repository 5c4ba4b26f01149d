"""Softmax attention as separate kernels: two batched products, and the bytes written and read in between."""

from collections.abc import Iterator

from jaxroof.arrays import jnp
from jaxroof.deployment import Deployment
from jaxroof.layers.elementwise import elementwise
from jaxroof.layers.linear import linear
from jaxroof.model import WeightFormat
from jaxroof.op import ATTENTION_PHASES, Ops, in_phase, with_role
from jaxroof.rule import Rule
from jaxroof.shape import AttentionShape
from jaxroof.struct import Array, Scalar

SCORE_KERNELS = 2.0
"""Kernels that scale and mask the scores. Hugging Face transformers 4.46, `attn_implementation="eager"`: GPT-2
divides and selects, BERT divides and adds, OPT adds and clamps."""

SOFTMAX_KEPT = 1024.0
"""Elements of a row that softmax keeps in registers. PyTorch, aten SoftMax.cu: it reads a longer row for its maximum
and sum, and again for its result."""

SOFTMAX_FLOPS = 4.0
"""Vector FLOP per score beside the exponential: maximum, subtract, sum, divide."""

COPIES = 4.0
"""Kernels that bring queries, keys, values and outputs from one order of tokens and heads to the other."""


def unfused_attention(kind: str, deployment: Deployment, shape: AttentionShape, count: Scalar) -> Ops:
    """Attention that writes its scores, in the order it runs; every query meets every key, masked or not.

    copies, queries (keys)^T, scale and mask, softmax, weights (values). Keys and values of grouped heads are repeated.

    Args:
      kind: prefill_attention or decode_attention, which the names begin with.
      shape: of the sequences on this device.
      count: how often the step runs it.
    """
    size = deployment.activation_bytes
    tokens, operands = shape.sequences * shape.queries, WeightFormat(bytes=size, compute=deployment.attention_compute)
    rows, heads = tokens * shape.heads, shape.sequences * shape.heads
    widths = shape.heads * (shape.key_width + shape.value_width)
    kernels = SCORE_KERNELS if deployment.score_kernels is None else deployment.score_kernels
    passes = kernels * shape.keys
    readings = softmax_readings(shape.keys) * shape.keys
    ops: Ops = {
        f"{kind}_copies": elementwise(tokens, 2.0 * widths, 2.0 * widths, size, 0.0, count, COPIES),
        f"{kind}_scores": linear(rows, shape.key_width, shape.keys, operands, size, count, matrices=heads),
        f"{kind}_mask": elementwise(rows, passes, passes, size, passes, count, kernels),
        f"{kind}_softmax": elementwise(
            rows, readings, shape.keys, size, SOFTMAX_FLOPS * shape.keys, count, exps=readings
        ),
        f"{kind}_values": linear(rows, shape.keys, shape.value_width, operands, size, count, matrices=heads),
    }
    return in_phase(with_role(ops, "attention"), ATTENTION_PHASES[kind])


def softmax_readings(keys: Scalar) -> Array:
    """Times that softmax reads rows of `keys` elements and takes their exponentials, shape ()."""
    return jnp.where(keys > SOFTMAX_KEPT, 2.0, 1.0)


def fused_only(mixer: object, deployment: Deployment) -> Iterator[Rule]:
    """That a layer which cannot be computed so is on a deployment with fused attention."""
    if deployment.attention_kernel == "unfused":
        yield (
            jnp.asarray(False),
            lambda: "attention_kernel = unfused is of softmax self-attention to keys and values of its own",
        )

"""What is run: a decoder-only transformer as groups of identical blocks. Kinds are structure, dimensions are data."""

from jaxroof.struct import Scalar, static, struct


@struct
class WeightFormat:
    """How one weight matrix is stored and multiplied."""

    bytes: Scalar  # B per weight as stored, group scales and zeros included
    compute: str = static()  # precision of the matrix unit that multiplies it: a key of `Hardware.matrix`


@struct
class Attention:
    """Softmax attention with grouped keys and values (multi-head when kv_heads == heads, multi-query when 1)."""

    heads: Scalar
    kv_heads: Scalar
    head_dim: Scalar  # of queries and keys
    value_dim: Scalar  # of values
    window: Scalar | None  # tokens that a query sees at most; None: all
    window_kind: str | None = static(default=None)  # "sliding", "chunked", or None without a window
    qkv: WeightFormat
    output: WeightFormat


@struct
class FeedForward:
    """A dense feed-forward layer."""

    intermediate: Scalar
    up_projections: Scalar  # 2 when gated (SwiGLU, GeGLU), 1 when not
    up: WeightFormat
    down: WeightFormat


@struct
class Experts:
    """A mixture-of-experts layer: `top_k` of `experts` per token, and shared experts that see every token."""

    experts: Scalar
    top_k: Scalar
    intermediate: Scalar  # of one expert
    up_projections: Scalar  # 2 when gated, 1 when not
    up: WeightFormat
    down: WeightFormat
    router: WeightFormat
    shared: FeedForward | None  # all shared experts as one layer


@struct
class Block:
    """`count` identical layers, each an attention and a feed-forward."""

    count: Scalar
    attention: Attention
    feedforward: FeedForward | Experts
    other_parameters: Scalar  # per layer: norm weights, biases, attention sinks; stored at 2 B each


@struct
class Model:
    """A decoder-only transformer."""

    hidden: Scalar
    vocabulary: Scalar
    blocks: tuple[Block, ...]
    embedding: WeightFormat
    head: WeightFormat
    untied: Scalar  # 1 when the head has weights of its own, 0 when it is the embedding's transpose
    other_parameters: Scalar  # final norm, learned positions; stored at 2 B each

"""Model: a transformer-family model as groups of identical blocks. Kinds are structure, dimensions are data."""

from jaxroof.struct import Scalar, static, struct


@struct
class WeightFormat:
    """Storage of one weight matrix, and the precision at which it is multiplied.

    Inputs are converted to `compute` before they are multiplied: a format of 8 bits or less (fp8, int8, fp4) takes a
    kernel that quantises activations, unless it is `calibrated`; with `dequantised` it is the weights that the kernel
    converts instead (W4A16).
    """

    bytes: Scalar  # B per weight as stored, group scales and zeros included
    compute: str = static()  # precision of the matrix unit that multiplies it: a key of `Hardware.matrix`
    dequantised: bool = static(default=False)  # the kernel converts weights to `compute` as it reads them
    scaled: bool = static(default=False)  # the kernel multiplies by a scale per block of weights between products
    calibrated: bool = static(default=False)  # the checkpoint has the activations' scales: who writes them quantises


@struct
class Selection:
    """Sparse attention: an indexer scores what is cached, and every query attends to the best of it only.

    Source: DeepSeek-AI, DeepSeek-V3.2-Exp, 2025, section 2.1 (lightning indexer, `stride` 1); with `stride` above 1
    one key stands for a block of tokens (block-sparse attention).
    """

    tokens: Scalar  # cached tokens that a query attends to at most
    heads: Scalar  # of the indexer; every tensor-parallel device has them all
    head_dim: Scalar  # of the indexer's queries and keys
    stride: Scalar  # tokens that one of the indexer's cached keys stands for
    key_outputs: Scalar  # of the projection to its keys: head_dim, or more where keys are pooled with gates
    query_rank: Scalar | None  # width that the indexer's queries are projected from; None: the hidden size
    key_bytes: Scalar  # B per element of a cached key
    weights: WeightFormat  # of its projections


@struct
class Attention:
    """Softmax attention with grouped keys and values (multi-head when kv_heads == heads, multi-query when 1)."""

    heads: Scalar
    kv_heads: Scalar
    head_dim: Scalar  # of queries and keys
    value_dim: Scalar  # of values
    window: Scalar | None  # tokens that a query sees at most; None: all
    window_kind: str | None = static(default=None)  # "sliding", "chunked", or None without a window
    causal: bool = static(default=True)  # False: every token sees every other one, as in encoders
    value_projection: Scalar = 1.0  # 1, or 0 where values are the projected keys
    gate: Scalar = 0.0  # elements of an output gate per query head, projected beside the queries; 0: none
    qk_norm: Scalar = 0.0  # 1 where a kernel normalises queries and keys
    selection: Selection | None = None
    qkv: WeightFormat
    output: WeightFormat


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


@struct
class LinearAttention:
    """A layer with a state in place of a cache: gated delta net, Kimi delta attention, Mamba-2, lightning attention.

    Every head keeps a state of key_dim x value_dim numbers. Mamba-2's names: heads are `nheads`, key heads its groups,
    key_dim is `d_state`, value_dim is `headdim`; its C, B and x are queries, keys and values.

    Source: Yang, Kautz & Hatamizadeh, arXiv:2412.06464 (gated delta networks); Dao & Gu, arXiv:2405.21060 (Mamba-2);
    Kimi Team, arXiv:2510.26692 (Kimi delta attention); Qin et al., arXiv:2401.04658 (lightning attention).
    """

    heads: Scalar  # of values: states
    key_heads: Scalar  # of queries and keys, shared by heads / key_heads heads each
    key_dim: Scalar
    value_dim: Scalar
    gates: Scalar  # further outputs of the input projection per head: output gate, decay, write strength
    gate_rank: Scalar | None  # rank of two more gates of heads x value_dim that are low-rank projections; None: none
    convolution: Scalar | None  # tokens in the short convolution over queries, keys and values; None: none
    rule: str = static()  # "delta": what a key recalls is replaced; "decay": keys and values are added
    input: WeightFormat
    output: WeightFormat


Mixer = Attention | LatentAttention | CompressedAttention | LinearAttention
"""What lets tokens see each other."""


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
    width: Scalar | None = None  # of the experts' inputs and outputs, where a projection narrows them; None: hidden
    up: WeightFormat
    down: WeightFormat
    router: WeightFormat
    projection: WeightFormat | None = None  # of the projections to `width` and back
    shared: FeedForward | None  # what every token passes through too, shared experts or a dense layer, as one


@struct
class Block:
    """`count` identical layers: a mixer and a feed-forward, or either alone."""

    count: Scalar
    attention: Mixer | None
    cross: Attention | None = None  # attention to the encoder's output
    feedforward: FeedForward | Experts | None
    parallel: bool = static(default=False)  # mixer and feed-forward read one norm's output and share one all-reduce
    norms: Scalar = 1.0  # norm kernels per mixer or feed-forward: 2 where a second one follows it
    other_parameters: Scalar  # per layer: norm weights, biases, attention sinks; stored at 2 B each


@struct
class Projection:
    """One matrix that every row is multiplied with."""

    inputs: Scalar
    outputs: Scalar
    weights: WeightFormat


@struct
class Encoder:
    """Encoder of images, sound or text to vectors for the decoder: blocks that see all of their own input."""

    hidden: Scalar
    blocks: tuple[Block, ...]
    inputs: Scalar | None  # numbers per token that the embedding projects to hidden: 3 x 14 x 14; None: words
    merged: Scalar  # tokens that the projector turns into one of the decoder's
    projector: tuple[Projection, ...]  # each multiplies every merged token once
    embedding: WeightFormat
    other_parameters: Scalar  # norms, positions, biases outside the blocks; stored at 2 B each


@struct
class Prediction:
    """A multi-token-prediction head: `count` modules of a projection (2 hidden to hidden) and a block each.

    They share the model's embedding and head.

    Source: DeepSeek-AI, arXiv:2412.19437 (DeepSeek-V3), section 2.2.
    """

    count: Scalar
    block: Block  # of count 1
    projection: WeightFormat
    other_parameters: Scalar  # of one module: norms of its two inputs and of its output


@struct
class Model:
    """A decoder-only transformer; with an encoder an encoder-decoder or a model that sees and hears."""

    hidden: Scalar
    vocabulary: Scalar
    blocks: tuple[Block, ...]
    embedding: WeightFormat
    head: WeightFormat
    untied: Scalar  # 1 when the head has weights of its own, 0 when it is the embedding's transpose
    other_parameters: Scalar  # final norm, learned positions; stored at 2 B each
    encoder: Encoder | None = None
    prediction: Prediction | None = None
    draft: "Model | None" = None  # a smaller model that drafts tokens in place of a prediction head
    generates: bool = static(default=True)  # False: no output head and no decoding, as in encoder-only models

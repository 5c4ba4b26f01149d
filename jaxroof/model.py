"""Model: a transformer-family model as groups of identical blocks. Kinds are structure, dimensions are data."""

from typing import Protocol

from jaxroof.numerics.struct import Scalar, static, struct


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
    fallback: str | None = static(default=None)  # precision that engines convert it to where a device lacks `compute`
    padded: bool = static(default=False)  # kernels pad both sides of experts to multiples of their tiles


class Mixer(Protocol):
    """What lets tokens see each other: a struct of a file of `jaxroof.layers`, which its `registry` lists."""

    @property
    def heads(self) -> Scalar:
        """Heads, which tensor-parallel devices split."""


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
    groups: Scalar | None = None  # groups that the router sorts experts into; None: it has no limit of groups
    reached_groups: Scalar | None = None  # groups that one token's experts lie in at most
    width: Scalar | None = None  # of the experts' inputs and outputs, where a projection narrows them; None: hidden
    up: WeightFormat
    down: WeightFormat
    router: WeightFormat
    projection: WeightFormat | None = None  # of the projections to `width` and back
    shared: FeedForward | None  # what every token passes through too, shared experts or a dense layer, as one


@struct
class Streams:
    """Residual streams that a layer mixes around each of its sublayers (hyper-connections)."""

    count: Scalar
    iterations: Scalar = 20.0  # that make the mixing of streams doubly stochastic; 20: arXiv:2512.24880, section 4.2


@struct
class Block:
    """`count` identical layers: a mixer and a feed-forward, or either alone."""

    count: Scalar
    attention: Mixer | None
    cross: Mixer | None = None  # softmax attention to the encoder's output
    feedforward: FeedForward | Experts | None
    parallel: bool = static(default=False)  # mixer and feed-forward read one norm's output and share one all-reduce
    norms: Scalar = 1.0  # norm kernels per mixer or feed-forward: 2 where a second one follows it
    streams: Streams | None = None  # None: one residual stream, which norms add to
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
class Features:
    """Projection of what a draft takes in of the model that it drafts for, to the draft's hidden size.

    Source: Li et al., arXiv:2503.01840 (EAGLE-3): hidden states of three layers, in the first run of a step; the runs
    after it take the draft's own. arXiv:2401.15077 (EAGLE): a hidden state and the token's embedding, in every run.
    """

    inputs: Scalar  # numbers per token
    weights: WeightFormat
    every_run: bool = static(default=False)


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
    outputs: Scalar | None = None  # rows of the output head; None: one per word of the vocabulary
    features: Features | None = None  # of a draft that reads the hidden states of the model that it drafts for
    shared_embedding: bool = static(default=False)  # of a draft: the embedding is that of the model it drafts for
    generates: bool = static(default=True)  # False: no output head and no decoding, as in encoder-only models


def head_rows(model: Model) -> Scalar:
    """Rows of the output head."""
    return model.vocabulary if model.outputs is None else model.outputs


def expert_layers(model: Model) -> list[Experts]:
    """The mixture-of-experts layers of the decoder, one of each block that has them; empty for a dense model."""
    return [block.feedforward for block in model.blocks if isinstance(block.feedforward, Experts)]


def has_experts(model: Model) -> bool:
    """Whether any layer of the decoder is a mixture of experts."""
    return bool(expert_layers(model))

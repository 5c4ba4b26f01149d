"""Models from Hugging Face configs: a language model as groups of identical layers, and its encoder."""

import dataclasses
from collections import Counter
from collections.abc import Callable
from typing import Any

from jaxroof.model import Block, Experts, FeedForward, Mixer, Model, Prediction, Streams, WeightFormat
from workloads.config import Config
from workloads.families.family import Family
from workloads.models.attention import attention, compressed_attention, latent_attention
from workloads.models.coverage import Reading
from workloads.models.encoder_decoder import ENCODER_DECODERS, encoder_decoder
from workloads.models.encoders import encoder_of, vision_encoder
from workloads.models.experts import COUNT_KEYS
from workloads.models.feedforward import dense, experts
from workloads.models.heads import classifier_parameters, draft
from workloads.models.layer import HEAD_KEYS, HIDDEN_KEYS, KV_HEAD_KEYS, VOCABULARY_KEYS, Layer, layer_count
from workloads.models.layer_kinds import SHARED, LayerKind, layer_kinds, prediction_kind, shared_block
from workloads.models.linear_attention import (
    attention_beside_mamba2,
    full_rank_kimi_delta,
    gated_delta_net,
    kimi_delta_attention,
    lightning_attention,
    mamba2,
    selective_scan,
    short_convolution,
)
from workloads.models.parameters import (
    POSITION_KEYS,
    layer_input_parameters,
    layer_norms,
    layer_parameters,
    model_parameters,
    side_blocks,
    switched,
)
from workloads.precisions.formats import Tensor
from workloads.precisions.storage import Quantization, linear_format

MIXERS: dict[str, Callable[[Layer], Mixer]] = {
    "softmax": attention,
    "latent": latent_attention,
    "compressed": compressed_attention,
    "gated delta": gated_delta_net,
    "kimi delta": kimi_delta_attention,
    "full-rank kimi delta": full_rank_kimi_delta,
    "mamba2": mamba2,
    "lightning": lightning_attention,
    "convolution": short_convolution,
    "scan": selective_scan,
    "beside mamba2": attention_beside_mamba2,
}
"""`Family.mixer` or `Family.linear` -> the struct of one layer."""

PREDICTION_KEYS = ("num_nextn_predict_layers", "num_mtp_modules", "mtp_num_hidden_layers")
"""The spellings of the number of multi-token-prediction modules. Where several are there, the first one counts."""

FEEDFORWARDS: dict[str, Callable[[Layer], FeedForward | Experts]] = {"dense": dense, "experts": experts}
"""Kind of feed-forward -> the struct of one layer."""


def model(reading: Reading, quantised: Quantization, base: WeightFormat) -> Model:
    """The model of a config, every number a float.

    Layers that are equal in every size, window and number format become one block, wherever they stand: a layer's
    place does not change what it costs.

    Args:
      reading: the family of a config, and the table that its sizes are in.
      quantised: which linear layers are quantised, and how.
      base: the 16 or 32-bit format of everything that is not.

    Raises:
      ValueError: in one line, a missing key; a value that is negative, zero, not finite or of the wrong type; sizes
        that contradict each other.
    """
    config, text, family = reading.config, reading.text, reading.family
    # Encoder-decoders have readers of their own: their stacks share few keys with decoders.
    if family.encoder is not None and family.encoder in ENCODER_DECODERS:
        return encoder_decoder(config, family.encoder, quantised, base)
    layers = layer_count(text)
    hidden = text.number(*HIDDEN_KEYS)
    # Encoders that only embed have no head; masked language models have a head and do not decode.
    generates = family.generates and reading.head in ("language", "draft")
    worded = generates or (family.fills_in and reading.head == "language")
    untied = worded and not _tied(config, text, family)
    # GGUF mixtures choose types by a layer's place and by sizes of the model.
    quantised = _of_model(quantised, text, layers, not untied)
    first = Layer(config=text, family=family, hidden=hidden, index=0, quantised=quantised, base=base, name=config.name)
    kinds = layer_kinds(text, family, layers)
    blocks = _merged(first, kinds)
    # A quantisation that matches no layer was written for other names: its figures would be silently wrong.
    if quantised.assignments and all(_formats(block) <= {base} for block in blocks):
        raise config.error("its quantisation names no linear layer of this model")
    vocabulary = float(first.size(*VOCABULARY_KEYS))
    embedding = _outer(quantised, quantised.embedding, ("embed_tokens", "word_embeddings", "wte"), "embedding", first)
    # A tied head is the embedding, in its format.
    head = _outer(quantised, quantised.head, ("lm_head",), "head", first) if untied else embedding
    vision = vision_encoder(reading)
    other = float(model_parameters(text, family, hidden, vocabulary))
    other += layer_input_parameters(text, family, hidden, layers)
    if reading.head == "classifier":
        other += classifier_parameters(config, text, family, hidden)
    # Prediction modules are counted as layers after the last one.
    after = dataclasses.replace(first, index=layers)
    full_model = Model(
        hidden=hidden,
        vocabulary=vocabulary,
        blocks=blocks + side_blocks(text, family, hidden, layers, base),
        embedding=embedding,
        head=head,
        untied=float(untied),
        other_parameters=other,
        encoder=None if vision is None else encoder_of(vision.tower, vision.projector, base),
        prediction=_prediction(after, prediction_kind(text, family, kinds)),
        generates=generates,
    )
    return draft(full_model, config, text, base) if reading.head == "draft" else full_model


def _outer(quantised: Quantization, declared: bool, paths: tuple[str, ...], kind: str, layer: Layer) -> WeightFormat:
    """The format of the table of tokens or of the output head."""
    if not declared:
        return layer.base
    return linear_format(quantised, [Tensor(paths, kind, layer.hidden)], layer.base, layer.name)


def _of_model(quantised: Quantization, text: Config, layers: int, tied: bool) -> Quantization:
    """`quantised` with what a mixture of GGUF types depends on: sizes of the model."""
    if quantised.mixture is None:
        return quantised
    heads = text.count(*HEAD_KEYS, default=1)
    shared = text.count(*KV_HEAD_KEYS, default=heads)
    mixture = dataclasses.replace(
        quantised.mixture,
        layers=layers,
        experts=text.count(*COUNT_KEYS, default=0, minimum=0),
        # GGUF gives value projections more bits where several heads share them.
        group=heads / shared,
        tied=tied,
    )
    return dataclasses.replace(quantised, mixture=mixture)


def max_position(text: Config) -> int | None:
    """The longest sequence in tokens that a language model's config allows, or None where it does not say."""
    return text.count(*POSITION_KEYS, "max_target_positions", default=None)


def _block(layer: Layer, kind: LayerKind) -> Block:
    """One layer as a block of count 1."""
    # Window and cache sharing belong to the place, not to the kind of mixer.
    layer = dataclasses.replace(layer, window=kind.window, shares_cache=kind.shares_cache)
    config, family = layer.config, layer.family
    if kind.mixer == SHARED:
        return shared_block(layer)
    mixer = None if kind.mixer is None else MIXERS[kind.mixer](layer)
    feedforward = None if kind.feedforward is None else FEEDFORWARDS[kind.feedforward](layer)
    # Parallel attention and feed-forward need both in one layer.
    parallel = mixer is not None and feedforward is not None and switched(config, family.parallel)
    return Block(
        count=1.0,
        attention=mixer,
        feedforward=feedforward,
        parallel=parallel,
        norms=1.0 if family.streams is not None else _norm_kernels(config, family),
        streams=_streams(config, family),
        other_parameters=float(layer_parameters(config, family, layer.hidden, mixer, feedforward)),
    )


def _prediction(layer: Layer, kind: LayerKind) -> Prediction | None:
    """The multi-token-prediction head, or None. Every module has one layer, as after the last one, and three norms.

    Published counts of parameters are those of the model without it: 671 billion of DeepSeek-V3's 685.
    """
    key = next((key for key in PREDICTION_KEYS if layer.config.value(key) is not None), None)
    if key is None or not layer.config.count(key, minimum=0):
        return None
    return Prediction(
        count=layer.config.number(key),
        block=_block(layer, kind),
        projection=layer.product(["eh_proj"]),
        other_parameters=3.0 * layer.hidden,
    )


def _streams(config: Config, family: Family) -> Streams | None:
    """Residual streams of hyper-connections, and the iterations that make their mixing doubly stochastic."""
    if family.streams is None:
        return None
    iterations = config.number("hc_sinkhorn_iters", default=20)
    return Streams(count=config.number(family.streams), iterations=iterations)


def _norm_kernels(config: Config, family: Family) -> float:
    """Norm kernels per sublayer. Alternating updates move all of their streams, as so many norms would."""
    if family.altup:
        return family.norms / 2.0 + config.number("altup_num_inputs", default=4)
    return max(1.0, layer_norms(config, family) / 2.0)


def _merged(first: Layer, kinds: list[LayerKind]) -> tuple[Block, ...]:
    """Blocks of equal layers. Layers of one kind are read once, unless the config says something of single ones."""
    # A layer is read on its own only where the config or the quantisation names it: models have hundreds of layers.
    single = [first.family.by_layer or first.quantised.numbered(i) for i in range(len(kinds))]
    some = Counter((kind, i if single[i] else None) for i, kind in enumerate(kinds))
    counts: Counter[Block] = Counter()
    for (kind, index), count in some.items():
        # One layer stands for all of its kind that nothing singles out.
        own = next(i for i, alone in enumerate(single) if kinds[i] == kind and not alone) if index is None else index
        # Equal blocks merge: structs are hashable, so counting them is enough.
        counts[_block(dataclasses.replace(first, index=own), kind)] += count
    return tuple(
        dataclasses.replace(block, count=float(count))
        for block, count in counts.items()
        if block.attention is not None or block.feedforward is not None
    )


def _formats(block: Block) -> set[WeightFormat]:
    """The formats of a layer's matrices."""
    parts: tuple[Any, ...] = (block.attention, block.feedforward, getattr(block.feedforward, "shared", None))
    values = [getattr(part, field.name) for part in parts if part is not None for field in dataclasses.fields(part)]
    return {value for value in values if isinstance(value, WeightFormat)}


def _tied(config: Config, text: Config, family: Family) -> bool:
    """Whether the head is the embedding's transpose. A config and its nested text_config have to agree."""
    key = "tie_word_embeddings"
    # A nested config that contradicts the outer one is not guessed at.
    stated = [table.flag(key, family.tied) for table in (config, text) if table.states(key)]
    if len(set(stated)) > 1:
        raise config.error(f"{key} differs between the config and its text_config")
    return stated[0] if stated else family.tied

"""Models from Hugging Face configs: a language model as groups of identical layers, and its encoder."""

import dataclasses

from jaxroof.model import Block, Experts, Mixer, Model, WeightFormat
from workloads.config import Config
from workloads.coverage import language_model
from workloads.encoder_decoder import ENCODER_DECODERS, encoder_decoder
from workloads.encoders import vision_encoder
from workloads.family import Family
from workloads.feedforward import dense, experts
from workloads.layer import HIDDEN_KEYS, VOCABULARY_KEYS, Layer, layer_count, size
from workloads.layer_kinds import LayerKind, layer_kinds, prediction_kind
from workloads.mixers import MIXERS
from workloads.other_parameters import POSITION_KEYS, layer_parameters, model_parameters, switched
from workloads.prediction import prediction
from workloads.quantization import Quantization, linear_format

FEEDFORWARDS = {"dense": dense, "experts": experts}
"""Kind of feed-forward -> the struct of one layer."""


def model(config: Config, quantised: Quantization, base: WeightFormat) -> Model:
    """The model of a config, every number a float.

    Layers that are equal in every size, window and number format become one block, wherever they stand: a layer's
    place does not change what it costs.

    Args:
      config: the whole config; its text_config is read where it nests one.
      quantised: which linear layers are quantised, and how.
      base: the 16 or 32-bit format of everything that is not.

    Raises:
      ValueError: in one line, an architecture that is not covered, with what is missing; a missing key; a value
        that is negative, zero, not finite or of the wrong type; sizes that contradict each other.
    """
    family, text = language_model(config)
    if family.encoder in ENCODER_DECODERS:
        return encoder_decoder(config, family.encoder, quantised, base)
    layers = layer_count(text)
    hidden = float(text.count(*HIDDEN_KEYS))
    first = Layer(config=text, family=family, hidden=hidden, index=0, quantised=quantised, base=base, name=config.name)
    kinds = layer_kinds(text, family, layers)
    blocks = _merged([_block(dataclasses.replace(first, index=i), kind) for i, kind in enumerate(kinds)])
    if quantised.assignments and all(_formats(block) <= {base} for block in blocks):
        raise config.error("its quantisation names no linear layer of this model")
    vocabulary = float(size(text, family, *VOCABULARY_KEYS))
    untied = family.generates and not _tied(config, text, family)
    head = linear_format(quantised, [("lm_head",)], base, config.name) if quantised.head and untied else base
    next_kind = prediction_kind(text, family, kinds)
    return Model(
        hidden=hidden,
        vocabulary=vocabulary,
        blocks=blocks,
        embedding=base,
        head=head,
        untied=float(untied),
        other_parameters=float(model_parameters(text, family, hidden, vocabulary)),
        encoder=None if family.encoder is None else vision_encoder(config, family.encoder, base, hidden),
        prediction=prediction(dataclasses.replace(first, index=layers), lambda layer: _block(layer, next_kind)),
        generates=family.generates,
    )


def max_position(config: Config) -> int | None:
    """The longest sequence in tokens that a config allows, or None where it does not say."""
    _, text = language_model(config)
    return text.count(*POSITION_KEYS, "max_target_positions", default=None)


def _block(layer: Layer, kind: LayerKind) -> Block:
    """One layer as a block of count 1."""
    layer = dataclasses.replace(layer, window=kind.window)
    config, family = layer.config, layer.family
    mixer = None if kind.mixer is None else MIXERS[kind.mixer](layer)
    feedforward = None if kind.feedforward is None else FEEDFORWARDS[kind.feedforward](layer)
    parallel = mixer is not None and feedforward is not None and switched(config, family.parallel)
    return Block(
        count=1.0,
        attention=mixer,
        feedforward=feedforward,  # type: ignore[arg-type]
        parallel=parallel,
        norms=_norm_kernels(config, family),
        other_parameters=float(layer_parameters(config, family, layer.hidden, mixer, feedforward)),  # type: ignore[arg-type]
    )


def _norm_kernels(config: Config, family: Family) -> float:
    """Norm kernels per sublayer. Mixing residual streams moves all of them, as so many norms would."""
    if family.streams is not None:
        return float(config.count(family.streams))
    return max(1.0, family.norms / 2.0)


def _merged(layers: list[Block]) -> tuple[Block, ...]:
    counts: dict[Block, int] = {}
    for layer in layers:
        counts[layer] = counts.get(layer, 0) + 1
    some = [layer for layer in counts if layer.attention is not None or layer.feedforward is not None]
    return tuple(dataclasses.replace(layer, count=float(counts[layer])) for layer in some)


def _formats(block: Block) -> set[WeightFormat]:
    """The formats of a layer's matrices, the router's left out."""
    feedforward = block.feedforward
    shared = feedforward.shared if isinstance(feedforward, Experts) else None
    layers = [layer for layer in (feedforward, shared) if layer is not None]
    return _mixer_formats(block.attention) | {f for layer in layers for f in (layer.up, layer.down)}


def _mixer_formats(mixer: Mixer | None) -> set[WeightFormat]:
    if mixer is None:
        return set()
    values = (getattr(mixer, field.name) for field in dataclasses.fields(mixer))  # type: ignore[arg-type]
    return {value for value in values if isinstance(value, WeightFormat)}


def _tied(config: Config, text: Config, family: Family) -> bool:
    """Whether the head is the embedding's transpose. A config and its nested text_config have to agree."""
    key = "tie_word_embeddings"
    stated = [table.flag(key, family.tied) for table in (config, text) if table.states(key)]
    if len(set(stated)) > 1:
        raise config.error(f"{key} differs between the config and its text_config")
    return stated[0] if stated else family.tied

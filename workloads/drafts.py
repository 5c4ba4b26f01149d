"""Drafts that read the hidden states of the model that they draft for (EAGLE), from their configs."""

import dataclasses

from jaxroof.layers.attention import Attention
from jaxroof.model import Features, Model, WeightFormat
from workloads.config import Config

STATES = 3
"""Layers of the model whose hidden states EAGLE-3 takes in; published default of the engines."""

STATE_KEYS = ("eagle_aux_hidden_state_layer_ids", "target_layer_ids", "eagle_config.eagle_aux_hidden_state_layer_ids")
"""The spellings of which layers these are."""


def draft(model: Model, config: Config, text: Config, base: WeightFormat) -> Model:
    """A draft whose layers were read as those of its family, with what EAGLE changes of them.

    EAGLE-3 (a class or a `speculators_model_type` of that name): its first layer's queries, keys and values are made
    of the token's embedding and a hidden state; three hidden states of the model are projected to one; its head has a
    row for each word of `draft_vocab_size`. EAGLE: the embedding and a hidden state are projected to one, and the head
    is that of the model. The embedding is the model's where the hidden sizes are the same.

    Source: Li et al., arXiv:2503.01840 and arXiv:2401.15077; the sizes of SafeAILab's and SpecForge's checkpoints.

    Raises:
      ValueError: a missing or wrong size, by its key; a mixer that is no softmax attention.
    """
    target = text.number("target_hidden_size", default=None) or config.number("target_hidden_size", default=None)
    target = model.hidden if target is None else target
    if not third_version(config):
        features = Features(inputs=target + model.hidden, weights=base, every_run=True)
        return dataclasses.replace(model, features=features, shared_embedding=target == model.hidden, untied=0.0)
    first = model.blocks[0]
    if not isinstance(first.attention, Attention):
        raise config.error("a draft of EAGLE-3 is read with softmax attention only")
    wider = dataclasses.replace(
        first,
        count=1.0,
        attention=dataclasses.replace(first.attention, inputs=2.0),
        other_parameters=first.other_parameters + model.hidden,  # the norm of the hidden state
    )
    rest = (dataclasses.replace(first, count=first.count - 1.0), *model.blocks[1:])
    states = next((ids for key in STATE_KEYS if isinstance(ids := config.value(key), list) and ids), [0] * STATES)
    return dataclasses.replace(
        model,
        blocks=(wider, *(block for block in rest if block.count)),
        features=Features(inputs=len(states) * target, weights=base),
        outputs=_rows(config, text, model.vocabulary),
        untied=1.0,
        shared_embedding=target == model.hidden,
    )


def third_version(config: Config) -> bool:
    """Whether a draft is one of EAGLE-3, by its classes or its `speculators_model_type`."""
    names = [*config.value("architectures", default=[]), config.value("speculators_model_type", default="")]
    return any("eagle3" in str(name).replace("-", "").replace("_", "").casefold() for name in names)


def _rows(config: Config, text: Config, vocabulary: float) -> float:
    """Rows of the output head."""
    own = config.number("draft_vocab_size", default=None)
    return text.number("draft_vocab_size", default=vocabulary) if own is None else own

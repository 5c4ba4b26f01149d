"""Heads of models by the name of their class: a language head, a classifier, or none."""

import dataclasses
import re

from jaxroof.layers.attention import Attention
from jaxroof.model import Features, Model, WeightFormat
from workloads.config import Config
from workloads.families.family import Family

LANGUAGE = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "ForMaskedLM", "ForPreTraining")
TOKENS = "ForTokenClassification"
REWARDS = ("ForRewardModel", "ForProcessRewardModel")
CLASSIFIERS = (TOKENS, "ForSequenceClassification", "ForQuestionAnswering", *REWARDS)
BARE = ("Model",)
"""Ends of the names of classes whose layers are the same."""

LABELS_DEFAULT = 2
"""Published class default of num_labels, of every config of transformers."""

EAGLE = re.compile(r"eagle", re.IGNORECASE)
"""In the names of the classes of drafts that read the hidden states of the model that they draft for."""


def head(architectures: list[str], family: Family) -> str | None:
    """What a model of these classes ends in: "language", "classifier", "draft" or "none".

    None where one of the classes is not of the family. A class that the family lists is a model of its own kind.
    """
    # Of several classes the first one counts, if all are of the family.
    kinds = [_kind(name, family) for name in architectures]
    return None if None in kinds else kinds[0] if kinds else "language"


def stem(architecture: str) -> str:
    """The name of a class without its head, case and underscores: what models of the same layers have in common."""
    plain = architecture
    for ending in (*LANGUAGE, *CLASSIFIERS, *BARE):
        plain = plain.removesuffix(ending) if plain != ending else plain
    return plain.replace("_", "").casefold()


def classifier_parameters(config: Config, text: Config, family: Family, hidden: float) -> float:
    """Parameters of a classifier: a row per label, before it what the class puts there.

    Source: transformers (modeling_layers.py: a linear layer of num_labels rows, with a bias for single tokens alone),
    Qwen2.5-Math-RM and Qwen2.5-Math-PRM (modeling_qwen2_rm.py: a square layer first, both with biases).
    """
    architectures = config.value("architectures", default=[])
    rewards = any(name.endswith(REWARDS) for name in architectures)
    labels = float(_labels(config, text, 1 if rewards else LABELS_DEFAULT))
    # Reward models of Qwen2.5 put a square layer in front of their row.
    if rewards and any(stem(name) == "qwen2" for name in architectures):
        return hidden * hidden + hidden + labels * (hidden + 1.0)
    biased = not family.causal or any(name.endswith(TOKENS) for name in architectures)
    square = hidden * hidden + hidden if family.classifier_pooler else 0.0
    return square + labels * (hidden + biased)


def _kind(name: str, family: Family) -> str | None:
    # EAGLE drafts are named after it, whatever their layers' family.
    if EAGLE.search(name):
        return "draft"
    if name.endswith(CLASSIFIERS):
        kind = "classifier"
    elif name in family.architectures or name.endswith(LANGUAGE):
        kind = "language"
    else:
        kind = "none"
    # Known by its own name, or by the same stem with another head.
    known = name in family.architectures or stem(name) in {stem(own) for own in family.architectures}
    return kind if known else None


def _labels(config: Config, text: Config, default: int) -> int:
    for table in (config, text):
        # Labels are counted by their names where these are given.
        names = table.value("id2label")
        if isinstance(names, dict) and names:
            return len(names)
        if table.value("num_labels") is not None:
            return table.count("num_labels")
    return default


# Drafts that read the hidden states of the model that they draft for (EAGLE), from their configs.


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
    # EAGLE 1 and 2: a fused input in every run; the head and, at equal width, the embedding are the target's.
    if not third_version(config):
        features = Features(inputs=target + model.hidden, weights=base, every_run=True)
        return dataclasses.replace(model, features=features, shared_embedding=target == model.hidden, untied=0.0)
    first = model.blocks[0]
    if not isinstance(first.attention, Attention):
        raise config.error("a draft of EAGLE-3 is read with softmax attention only")
    # The first layer reads two vectors; its hidden state has a norm of its own.
    wider = dataclasses.replace(
        first,
        count=1.0,
        attention=dataclasses.replace(first.attention, inputs=2.0),
        other_parameters=first.other_parameters + model.hidden,  # the norm of the hidden state
    )
    # The other layers stay as they were read.
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

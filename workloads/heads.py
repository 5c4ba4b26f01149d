"""Heads of models by the name of their class: a language head, a classifier, or none."""

import re

from workloads.config import Config
from workloads.family import Family

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
    if rewards and any(stem(name) == "qwen2" for name in architectures):
        return hidden * hidden + hidden + labels * (hidden + 1.0)
    biased = not family.causal or any(name.endswith(TOKENS) for name in architectures)
    square = hidden * hidden + hidden if family.classifier_pooler else 0.0
    return square + labels * (hidden + biased)


def _kind(name: str, family: Family) -> str | None:
    if EAGLE.search(name):
        return "draft"
    if name.endswith(CLASSIFIERS):
        kind = "classifier"
    elif name in family.architectures or name.endswith(LANGUAGE):
        kind = "language"
    else:
        kind = "none"
    known = name in family.architectures or stem(name) in {stem(own) for own in family.architectures}
    return kind if known else None


def _labels(config: Config, text: Config, default: int) -> int:
    for table in (config, text):
        names = table.value("id2label")
        if isinstance(names, dict) and names:
            return len(names)
        if table.value("num_labels") is not None:
            return table.count("num_labels")
    return default

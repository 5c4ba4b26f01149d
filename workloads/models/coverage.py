"""Coverage of configs: the family that each belongs to, or what its architecture needs that is not covered."""

import dataclasses
import difflib
import re
from typing import Any

from workloads.config import REQUIRED, Config
from workloads.families import FAMILIES
from workloads.families.family import Family
from workloads.models.experts import COUNT_KEYS
from workloads.models.heads import head
from workloads.streams.kinds import nearest

SHARED_LAYERS = "layers that share another layer's keys and values"
PER_LAYER_INPUTS = "embeddings of every layer's own"
PARALLEL_MIXERS = "attention and state-space layers side by side in one block"
MAMBA = "state-space layers with a decay per channel (Mamba-1)"
CACHE_OF_ANOTHER = "the cache of the model that it drafts for"
RECURRENT = "a recurrent network"
TOWER = "an encoder of images alone"
BLOCK_SPARSE = "attention to fixed blocks (block-sparse, without an indexer)"

NEEDS: dict[str, tuple[str, str]] = {
    "num_kv_shared_layers": (SHARED_LAYERS, "shared_cache"),
    "hidden_size_per_layer_input": (PER_LAYER_INPUTS, "per_layer_inputs"),
    "word_embed_proj_dim": ("embeddings of another width than the hidden size", ""),
    "position_embedding_type": ("positions other than rotary, learned or linear ones", ""),
    "blocksparse_block_size": (BLOCK_SPARSE, ""),
}
"""Keys that mean something is not covered, what, and the trait of families that are read with it."""

MARKS: dict[str, tuple[str, ...]] = {
    "kv_lora_rank": ("mixer", "latent"),
    "index_topk": ("selection", "tokens"),
    "compress_ratios": ("mixer", "compressed"),
    "sparse_attention_config": ("selection", "blocks"),
    "index_topk_blocks": ("selection", "blocks"),
    "linear_attn_config": ("linear", "kimi delta"),
    "linear_num_key_heads": ("linear", "gated delta"),
    "attn_type_list": ("linear", "lightning"),
    "mamba_d_state": ("linear", "mamba2", "scan"),
    "conv_L_cache": ("linear", "convolution"),
    "mamba_num_heads": ("linear", "mamba2"),
    "mamba_n_heads": ("linear", "mamba2"),
    "ssm_state_size": ("linear", "mamba2"),
    "share_q_dim": ("query_rank", "share_q_dim"),
    "attention_other_setting": ("sizes", "sliding"),
    "attention_k_eq_v": ("sizes", "global"),
    "block_configs": ("sizes", "blocks"),
    "is_encoder_decoder": ("encoder", "whisper", "bart", "m2m", "marian", "mbart", "pegasus", "t5", "mt5", "umt5"),
}
"""Keys that describe what only some families are read with -> field of `Family`, and its values for them."""

FULL = {"attn_type_list": 1}
"""Keys of one entry per layer -> the entry of a layer that attends to everything, which alone says nothing new."""

SWITCHES = {"sparse_attention_config": "use_sparse_attention"}
"""Tables of layers' parts -> the key in them that says whether the part is used."""

ENCODER_TABLES = {
    "vision tower": re.compile("vision|visual|image|vit|perceiver"),
    "audio encoder": re.compile("audio|speech|sound|whisper|encoder_config"),
    "speech output": re.compile("talker|code2wav|token2wav|tts"),
}
"""What stands beside a text model -> names of the tables that describe it."""

ABSENT: tuple[Any, ...] = (None, False, 0, [], {})
"""Values that say that a model has nothing of the kind."""

TYPES: dict[str, tuple[str, ...]] = {
    "phi3small": (BLOCK_SPARSE,),
    "zamba": (MAMBA,),
    "hymba": (PARALLEL_MIXERS,),
    "rwkv": (RECURRENT,),
    "rwkv7": (RECURRENT,),
    "recurrent_gemma": (RECURRENT,),
    "xlstm": (RECURRENT,),
    "arctic": ("a dense layer beside experts on every second layer",),
    "mistral_large4": (SHARED_LAYERS,),
    "vit": (TOWER,),
    "siglip": (TOWER,),
    "siglip_vision_model": (TOWER,),
    "clip": (TOWER,),
    "switch_transformers": ("experts in an encoder",),
    "mllama": ("attention to images on some layers",),
    "gemma4_assistant": (CACHE_OF_ANOTHER,),
    "gemma4_unified_assistant": (CACHE_OF_ANOTHER,),
    "phi4mm": ("an encoder with adapters",),
}
"""`model_type`s known not to be covered, and what they need."""


@dataclasses.dataclass(frozen=True)
class Reading:
    """What a config is read as."""

    config: Config  # the whole
    text: Config  # the table that describes the language model: `config`, or one nested in it
    family: Family
    head: str  # "language", "classifier", "draft" or "none"
    notes: tuple[str, ...]  # what is to be said aloud of that


def language_model(config: Config, read_as: str | None = None) -> Reading:
    """The family of a config, and the table that describes its language model (`text_config` where it nests one).

    A model_type that is not covered is read as the family that `architectures` names, or as the text model that it
    nests; `read_as` is a model_type in place of the language model's own.

    Raises:
      ValueError: in one line, the config and its model_type with what is missing; nothing is guessed from keys
        that look familiar.
    """
    # Multi-modal configs nest the language model's table; the outer model_type names the whole.
    nested = config.nested()
    unnamed = read_as or (REQUIRED if nested is None else "model without a model_type")
    model_type = config.text("model_type", default=unnamed)
    text = config if nested is None else dataclasses.replace(nested, name=config.name)
    if read_as is not None:
        return _read_as(config, text, model_type, read_as)
    # What is missing is said before what is unknown: a user then knows why, and not only that.
    inner = None if nested is None else text.text("model_type", default=None)
    of = FAMILIES.get(model_type) or FAMILIES.get(inner or "")
    inside = FAMILIES.get(inner or "") or of
    needs = [*TYPES.get(model_type, ()), *TYPES.get(inner or "", ()), *_missing(config, of)]
    missing = [*needs, *([] if nested is None else _missing(text, inside))]
    if missing:
        what = " and ".join(dict.fromkeys(missing))
        raise ValueError(f"{config.name} ({model_type}): needs {what}: not covered yet")
    family, notes = FAMILIES.get(model_type), ()
    if family is None:
        model_type, family, notes = _stand_in(config, text, model_type)
        # A wrapper whose text model is a family of its own: read as that, with encoders left out.
        if nested is not None and family.text_type is None:
            wrapper_classes = _architectures(config)
            names = wrapper_classes if head(wrapper_classes, family) == "draft" else _architectures(text)
            return _reading(config, _with_defaults(text, family), family, model_type, notes, names)
    names = _architectures(config)
    # A class of another kind than the family's changes layers that keys do not show.
    if head(names, family) is None:
        wrong = next(name for name in names if head([name], family) is None)
        known = ", ".join(family.architectures)
        raise config.error(f"architecture {wrong!r} of {model_type} is not covered yet; covered is {known}")
    if family.any_text and nested is not None:
        family = _around(config, nested, family)
    _check_nesting(config, nested, family, model_type)
    return _reading(config, text if nested is None else _with_defaults(text, family), family, model_type, notes, names)


def _reading(
    config: Config, text: Config, family: Family, model_type: str, notes: tuple[str, ...], architectures: list[str]
) -> Reading:
    text = _of_text(text, family)
    _check_marks(text, family, model_type)
    _check_fixed_keys(text, family, model_type)
    return Reading(config, text, family, head(architectures, family) or "language", notes)


def _read_as(config: Config, text: Config, model_type: str, read_as: str) -> Reading:
    family = FAMILIES.get(read_as)
    if family is None:
        raise config.error(f"it cannot be read as {read_as!r}{nearest(read_as, sorted(FAMILIES))}")
    own = text.text("model_type", default=model_type)
    notes = (f"read as {read_as}, as asked, not as {own}",) if own != read_as else ()
    alone = family.text_type is None and (text is not config or _encoders(config))
    notes += _left_out(config) if alone else ()
    return _reading(config, text, family, read_as, notes, [])


def _stand_in(config: Config, text: Config, model_type: str) -> tuple[str, Family, tuple[str, ...]]:
    """What an unknown model_type is read as, and the notes on it: what its class, or its text model, is."""
    # Classes say more than model_type: forks rename the type and keep the class.
    named = _by_architecture(_architectures(config))
    if named is not None:
        note = f"model_type {model_type} is not known: read as {named}, by its architecture"
        alone = FAMILIES[named].text_type is None and (text is not config or _encoders(config))
        return named, FAMILIES[named], (note, *(_left_out(config) if alone else ()))
    if text is not config:
        inner = text.text("model_type", default=None)
        known = inner if inner in FAMILIES else _by_architecture(_architectures(text))
        if known is not None and FAMILIES[known].text_type is None:
            return known, FAMILIES[known], (f"{model_type}: its text model is read, {known}", *_left_out(config))
        words = f"model_type {model_type!r} is not covered yet, nor is {inner!r} of its text model"
        raise config.error(f"{words}{_near(inner or model_type)}")
    raise config.error(f"model_type {model_type!r} is not covered yet{_near(model_type)}")


def _near(model_type: str) -> str:
    """The end of a refusal: how a config is read as a type that is covered."""
    close = difflib.get_close_matches(model_type, FAMILIES, n=3, cutoff=0.6)
    return (
        f"; --as TYPE reads it as one that is, such as {' or '.join(close or ['llama'])}, where its layers are the same"
    )


def _by_architecture(names: list[str]) -> str | None:
    """The first family that lists one of the classes, before others that have one of the same layers."""
    # A class that a family lists itself comes before classes that are like it.
    for known in (lambda name, family: name in family.architectures, lambda name, family: head([name], family)):
        for name in names:
            model_type = next((key for key, family in FAMILIES.items() if known(name, family)), None)
            if model_type is not None:
                return model_type
    return None


def _left_out(config: Config) -> tuple[str, ...]:
    """What to say of the encoders around a text model."""
    return (f"{' and '.join(_encoders(config) or ['what it sees or hears with'])} left out: prompts are text",)


def _encoders(config: Config) -> list[str]:
    """What stands beside a text model, by the tables of a config."""
    tables = [key for key, value in config.values.items() if isinstance(value, dict)]
    return [part for part, mark in ENCODER_TABLES.items() if any(mark.search(key) for key in tables)]


def _with_defaults(text: Config, family: Family) -> Config:
    """A nested table with the published class defaults of what it leaves out, as such tables do."""
    # transformers leaves class defaults out of nested tables when it saves them.
    absent = {key: value for key, value in family.class_defaults if text.value(key) is None}
    return dataclasses.replace(text, values={**text.values, **absent}) if absent else text


def _of_text(text: Config, family: Family) -> Config:
    """A table whose keys have one size for text and one for pictures, with those for text alone."""
    both = {key: text.value(key) for key in family.text_first}
    # A list has one size for text and one for pictures.
    firsts = {key: value[0] for key, value in both.items() if isinstance(value, list) and value}
    return dataclasses.replace(text, values={**text.values, **firsts}) if firsts else text


def _architectures(config: Config) -> list[str]:
    names = config.value("architectures", default=[])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise config.error("architectures must be a list of class names")
    return names


def _around(config: Config, nested: Config, outer: Family) -> Family:
    """The family of the language model inside, with the encoder of the one around it."""
    # The outer class brings the encoder, the inner one the layers.
    inner = nested.text("model_type", default=outer.text_type)
    family = FAMILIES.get(inner)
    if family is None or family.encoder is not None:
        raise config.error(
            f"text_config of model_type {inner!r} is not covered yet inside {config.value('model_type')}"
        )
    return dataclasses.replace(family, encoder=outer.encoder, text_type=inner)


def _missing(config: Config, family: Family | None) -> list[str]:
    """Needs of a config that are not covered, by its keys."""
    return [what for key, (what, trait) in NEEDS.items() if _needs(config, key) and not getattr(family, trait, False)]


def _needs(config: Config, key: str) -> bool:
    value = config.value(key)
    if key == "word_embed_proj_dim":
        return value is not None and value != config.value("hidden_size")
    if key == "position_embedding_type":
        return value not in (None, "absolute", "rope", "rotary", "learned_absolute", "alibi", "nope")
    return value not in ABSENT


def _check_marks(text: Config, family: Family, model_type: str) -> None:
    """Refuse a config that has what another family's layers are described by."""
    for key, (field, *values) in MARKS.items():
        value = text.value(key)
        # Some keys are there with values that change nothing: all layers full, a switch off.
        alike = key in FULL and isinstance(value, list) and all(one == FULL[key] for one in value)
        off = key in SWITCHES and isinstance(value, dict) and value.get(SWITCHES[key]) is False
        if value not in ABSENT and not alike and not off and getattr(family, field) not in values:
            raise text.error(f"{key} is there, which {model_type} is read without")


def _check_nesting(config: Config, nested: Config | None, family: Family, model_type: str) -> None:
    if nested is None:
        return
    inner = nested.value("model_type", default=family.text_type)
    if family.text_type is None or inner not in (family.text_type, model_type):
        raise config.error(f"text_config of model_type {inner!r} inside {model_type} is not covered yet")


def _check_fixed_keys(text: Config, family: Family, model_type: str) -> None:
    """Refuse what the family's modelling code allows and the reader does not read."""
    # Fixed keys are those that published code can vary and that no reader here follows.
    for key, only in family.unless:
        value = text.value(key, default=only)
        if value != only:
            raise text.error(f"{key} is {value!r}; {model_type} is read only with {only!r}")
    # Experts in a family that is read as dense would go unnoticed otherwise.
    if family.experts is None:
        for key in COUNT_KEYS:
            if text.count(key, default=0, minimum=0) > 1:
                raise text.error(f"{key} is {text.value(key)}, but {model_type} is read as a dense model")
    if not family.reads_value_dim and text.value("v_head_dim") not in (None, text.value("head_dim")):
        raise text.error(f"v_head_dim is {text.value('v_head_dim')!r}; {model_type} is read without it")

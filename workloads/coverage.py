"""Coverage of configs: the family that each belongs to, or what its architecture needs that is not covered."""

import dataclasses

from workloads.config import Config
from workloads.experts import COUNT_KEYS
from workloads.families import FAMILIES
from workloads.family import Family

SHARED_LAYERS = "layers that share another layer's keys and values"
PER_LAYER_INPUTS = "embeddings of every layer's own"
PARALLEL_MIXERS = "attention and state-space layers side by side in one block"
MAMBA = "state-space layers with a decay per channel (Mamba-1)"
RECURRENT = "a recurrent network"
TOWER = "an encoder of images alone"
BLOCK_SPARSE = "attention to fixed blocks (block-sparse, without an indexer)"

NEEDS: dict[str, str] = {
    "num_kv_shared_layers": SHARED_LAYERS,
    "hidden_size_per_layer_input": PER_LAYER_INPUTS,
    "word_embed_proj_dim": "embeddings of another width than the hidden size",
    "position_embedding_type": "positions other than rotary, learned or linear ones",
    "blocksparse_block_size": BLOCK_SPARSE,
}
"""Keys that mean something is not covered, and what."""

MARKS: dict[str, tuple[str, ...]] = {
    "kv_lora_rank": ("mixer", "latent"),
    "index_topk": ("selection", "tokens"),
    "compress_ratios": ("mixer", "compressed"),
    "sparse_attention_config": ("selection", "blocks"),
    "linear_attn_config": ("linear", "kimi delta"),
    "linear_num_key_heads": ("linear", "gated delta"),
    "attn_type_list": ("linear", "lightning"),
    "mamba_num_heads": ("linear", "mamba2"),
    "mamba_n_heads": ("linear", "mamba2"),
    "ssm_state_size": ("linear", "mamba2"),
    "attention_other_setting": ("sizes", "sliding"),
    "attention_k_eq_v": ("sizes", "global"),
    "block_configs": ("sizes", "blocks"),
    "is_encoder_decoder": ("encoder", "whisper", "bart", "t5"),
}
"""Keys that describe what only some families are read with -> field of `Family`, and its values for them."""

ABSENT = (None, False, 0, [], {})
"""Values that say that a model has nothing of the kind."""

TYPES: dict[str, tuple[str, ...]] = {
    "phi3small": (BLOCK_SPARSE,),
    "mamba": (MAMBA,),
    "falcon_mamba": (MAMBA,),
    "jamba": (MAMBA,),
    "zamba": (MAMBA,),
    "zamba2": ("shared layers that several places of the model use",),
    "falcon_h1": (PARALLEL_MIXERS,),
    "hymba": (PARALLEL_MIXERS,),
    "rwkv": (RECURRENT,),
    "rwkv7": (RECURRENT,),
    "recurrent_gemma": (RECURRENT,),
    "xlstm": (RECURRENT,),
    "gemma3n": (SHARED_LAYERS, PER_LAYER_INPUTS),
    "lfm2": ("convolutions between attention layers",),
    "lfm2_moe": ("convolutions between attention layers",),
    "arctic": ("a dense layer beside experts on every second layer",),
    "longcat_flash": ("two attention layers and experts of no operation in one block",),
    "mistral_large4": (SHARED_LAYERS,),
    "vit": (TOWER,),
    "siglip": (TOWER,),
    "siglip_vision_model": (TOWER,),
    "clip": (TOWER,),
    "switch_transformers": ("experts in an encoder",),
    "mllama": ("attention to images on some layers",),
    "phi4mm": ("an encoder with adapters",),
}
"""`model_type`s known not to be covered, and what they need."""


def language_model(config: Config) -> tuple[Family, Config]:
    """The family of a config, and the table that describes its language model (`text_config` where it nests one).

    Raises:
      ValueError: in one line, the config and its model_type with what is missing; nothing is guessed from keys
        that look familiar.
    """
    model_type = config.text("model_type")
    nested = config.nested()
    text = config if nested is None else dataclasses.replace(nested, name=config.name)
    missing = [*TYPES.get(model_type, ()), *_missing(config), *([] if nested is None else _missing(text))]
    if missing:
        what = " and ".join(dict.fromkeys(missing))
        raise ValueError(f"{config.name} ({model_type}): needs {what}: not covered yet")
    family = FAMILIES.get(model_type)
    if family is None:
        raise ValueError(
            f"{config.name}: model_type {model_type!r} is not covered yet; covered are {', '.join(sorted(FAMILIES))}"
        )
    _check_architecture(config, family, model_type)
    if family.any_text and nested is not None:
        family = _around(config, nested, family)
    _check_nesting(config, nested, family, model_type)
    _check_marks(text, family, model_type)
    _check_fixed_keys(text, family, model_type)
    return family, text


def _around(config: Config, nested: Config, outer: Family) -> Family:
    """The family of the language model inside, with the encoder of the one around it."""
    inner = nested.text("model_type", default=outer.text_type)
    family = FAMILIES.get(inner)
    if family is None or family.encoder is not None:
        raise config.error(
            f"text_config of model_type {inner!r} is not covered yet inside {config.value('model_type')}"
        )
    return dataclasses.replace(family, encoder=outer.encoder, text_type=inner)


def _missing(config: Config) -> list[str]:
    """Needs of a config that are not covered, by its keys."""
    return [what for key, what in NEEDS.items() if _needs(config, key)]


def _needs(config: Config, key: str) -> bool:
    value = config.value(key)
    if key == "word_embed_proj_dim":
        return value is not None and value != config.value("hidden_size")
    if key == "position_embedding_type":
        return value not in (None, "absolute", "rope", "learned_absolute", "alibi", "nope")
    return value not in ABSENT


def _check_marks(text: Config, family: Family, model_type: str) -> None:
    """Refuse a config that has what another family's layers are described by."""
    for key, (field, *values) in MARKS.items():
        if text.value(key) not in ABSENT and getattr(family, field) not in values:
            raise text.error(f"{key} is there, which {model_type} is read without")


def _check_architecture(config: Config, family: Family, model_type: str) -> None:
    names = config.value("architectures", default=[])
    if not isinstance(names, list):
        raise config.error("architectures must be a list of class names")
    for name in names:
        if name not in family.architectures:
            known = ", ".join(family.architectures)
            raise config.error(f"architecture {name!r} of {model_type} is not covered yet; covered is {known}")


def _check_nesting(config: Config, nested: Config | None, family: Family, model_type: str) -> None:
    if nested is None:
        return
    inner = nested.value("model_type", default=family.text_type)
    if family.text_type is None or inner not in (family.text_type, model_type):
        raise config.error(f"text_config of model_type {inner!r} inside {model_type} is not covered yet")


def _check_fixed_keys(text: Config, family: Family, model_type: str) -> None:
    """Refuse what the family's modelling code allows and the reader does not read."""
    for key, only in family.unless:
        value = text.value(key, default=only)
        if value != only:
            raise text.error(f"{key} is {value!r}; {model_type} is read only with {only!r}")
    if family.experts is None:
        for key in COUNT_KEYS:
            if text.count(key, default=0, minimum=0) > 1:
                raise text.error(f"{key} is {text.value(key)}, but {model_type} is read as a dense model")
    if not family.reads_value_dim and text.value("v_head_dim") not in (None, text.value("head_dim")):
        raise text.error(f"v_head_dim is {text.value('v_head_dim')!r}; {model_type} is read without it")

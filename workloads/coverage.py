"""Which family a config belongs to, or what its architecture needs that is not covered yet."""

from workloads.config import Config
from workloads.experts import COUNT_KEYS
from workloads.families import FAMILIES
from workloads.family import Family

LINEAR = "linear attention (gated delta net)"
MLA = "multi-head latent attention"
STATE_SPACE = "state-space (Mamba) layers"
ENCODER = "an encoder without a decoder"
INDEXER = "sparse attention with an indexer"
DELTA = "linear attention (Kimi delta attention)"
LIGHTNING = "linear attention (lightning attention)"
COMPRESSED = "compressed sparse attention"
BLOCK_SPARSE = "block-sparse attention"
GATES = "head-wise attention gates and heads per kind of layer"
BLOCK_SIZES = "layers of sizes of their own (block_configs)"
KEYS_AS_VALUES = "global layers whose values are their keys (attention_k_eq_v)"
ENCODER_DECODER = "an encoder and a decoder with cross-attention"

KEYS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("kv_lora_rank",), MLA),
    (("compress_ratios",), COMPRESSED),
    (("index_topk",), INDEXER),
    (("sparse_attention_config", "sparse_topk_blocks"), BLOCK_SPARSE),
    (("linear_attn_config",), DELTA),
    (("linear_num_key_heads", "linear_num_value_heads"), LINEAR),
    (("hybrid_override_pattern", "mamba_num_heads", "mamba_d_state", "ssm_state_size", "ssm_cfg"), STATE_SPACE),
    (("attention_k_eq_v",), KEYS_AS_VALUES),
    (("num_kv_shared_layers",), "layers that share another layer's keys and values"),
    (("attention_other_setting", "use_head_wise_attn_gate"), GATES),
    (("attn_type_list",), LIGHTNING),
    (("word_embed_proj_dim",), "embeddings of another width than the hidden size"),
    (("position_embedding_type", "alibi"), "positions other than rotary or learned ones"),
    (("block_configs",), BLOCK_SIZES),
    (("is_encoder_decoder",), ENCODER_DECODER),
)
"""Keys that mean something is not covered, and what."""

TYPES: dict[str, tuple[str, ...]] = {
    "deepseek_v2": (MLA,),
    "deepseek_v3": (MLA,),
    "deepseek_v32": (MLA, INDEXER),
    "deepseek_v4": (COMPRESSED, INDEXER),
    "kimi_k2": (MLA,),
    "kimi_k25": (MLA,),
    "kimi_k3": (MLA, DELTA),
    "kimi_linear": (MLA, DELTA),
    "glm_moe_dsa": (MLA, INDEXER),
    "glm4_moe_lite": (MLA,),
    "minicpm3": (MLA,),
    "qwen3_next": (LINEAR,),
    "qwen3_5": (LINEAR,),
    "qwen3_5_moe": (LINEAR,),
    "minimax": (LIGHTNING,),
    "minimax_m1": (LIGHTNING,),
    "minimax_text_01": (LIGHTNING,),
    "minimax_m3": (BLOCK_SPARSE,),
    "phi3small": (BLOCK_SPARSE,),
    "nemotron_h": (STATE_SPACE,),
    "mamba": (STATE_SPACE,),
    "mamba2": (STATE_SPACE,),
    "falcon_mamba": (STATE_SPACE,),
    "falcon_h1": (STATE_SPACE,),
    "jamba": (STATE_SPACE,),
    "bamba": (STATE_SPACE,),
    "zamba2": (STATE_SPACE,),
    "granitemoehybrid": (STATE_SPACE,),
    "rwkv": ("a recurrent network",),
    "gemma4": (KEYS_AS_VALUES,),
    "gemma3n": ("per-layer embeddings and shared keys and values",),
    "step3p5": (GATES,),
    "step3p7": (GATES,),
    "nemotron-nas": (BLOCK_SIZES,),
    "bert": (ENCODER,),
    "roberta": (ENCODER,),
    "xlm-roberta": (ENCODER,),
    "modernbert": (ENCODER,),
    "vit": (ENCODER,),
    "siglip": (ENCODER,),
    "clip": (ENCODER,),
    "t5": (ENCODER_DECODER,),
    "bart": (ENCODER_DECODER,),
    "whisper": (ENCODER_DECODER,),
    "switch_transformers": (ENCODER_DECODER,),
}
"""`model_type`s known not to be covered, and what they need."""


def language_model(config: Config) -> tuple[Family, Config]:
    """The family of a config, and the table that describes its language model (`text_config` where it nests one).

    Raises:
      ValueError: in one line, the config and its model_type with what is missing; nothing is guessed from keys
        that look familiar.
    """
    model_type = config.text("model_type")
    nested = config.table("text_config")
    text = config if nested is None else Config(config.name, nested.values)
    missing = [*TYPES.get(model_type, ()), *_missing(config), *([] if nested is None else _missing(text))]
    if missing:
        what = " and ".join(dict.fromkeys(missing))
        raise ValueError(f"{config.name} ({model_type}): needs {what}: not covered yet")
    family = FAMILIES.get(model_type)
    if family is None:
        raise ValueError(f"{config.name}: model_type {model_type!r} is not covered yet; covered are {_covered()}")
    _check_architecture(config, family, model_type)
    _check_nesting(config, nested, family, model_type)
    _check_fixed_keys(text, family, model_type)
    return family, text


def _covered() -> str:
    return ", ".join(sorted(FAMILIES))


def _missing(config: Config) -> list[str]:
    """What a config needs that is not covered, by its keys."""
    return [what for keys, what in KEYS if any(_needs(config, key) for key in keys)] + _layer_kinds(config)


def _needs(config: Config, key: str) -> bool:
    value = config.value(key)
    if key == "attn_type_list":
        return isinstance(value, list) and any(entry != 1 for entry in value)
    if key == "word_embed_proj_dim":
        return value is not None and value != config.value("hidden_size")
    if key == "position_embedding_type":
        return value not in (None, "absolute", "rope", "learned_absolute")
    return value not in (None, False, 0, [], {})


def _layer_kinds(config: Config) -> list[str]:
    types = config.value("layer_types")
    if not isinstance(types, list) or config.value("linear_num_key_heads") is not None:
        return []
    return [LINEAR] if "linear_attention" in types else []


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

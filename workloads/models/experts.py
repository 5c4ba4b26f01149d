"""Experts of a mixture-of-experts model: the layers that have them, and the spellings of their numbers."""

from workloads.config import Config
from workloads.families.family import ExpertLayers

COUNT_KEYS = (
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
    "moe_num_experts",
    "ffn_config.moe_num_experts",
)
"""The spellings of the number of routed experts."""

TOP_K_KEYS = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "top_k_experts",
    "moe_k",
    "moe_topk",
    "moe_top_k",
    "ffn_config.moe_top_k",
)
"""The spellings of the number of experts that one token is sent to."""

SHARED_KEYS = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts")
"""The spellings of the number of shared experts."""


PREFIX_KEYS = ("first_k_dense_replace", "num_dense_layers")
"""The spellings of the number of layers before the first that has experts."""

MLP_TYPES = {"dense": False, "sparse": True, "moe": True, "hash_moe": True}
"""`mlp_layer_types` -> whether the layer has experts."""


def layers_with_experts(config: Config, rules: ExpertLayers, layers: int) -> list[bool]:
    """Whether each layer has experts in place of a dense feed-forward.

    Raises `ValueError` for a layout key whose value is not allowed.
    """
    # A list of kinds is explicit and wins over rules.
    types = config.items("mlp_layer_types", layers, MLP_TYPES)
    if types is not None:
        return [MLP_TYPES[kind] for kind in types]
    if rules.layout == "step":
        step = config.count("decoder_sparse_step", default=1)
        dense = set(config.layer_indices("mlp_only_layers", layers) or [])
        # Every step-th layer, counted from 1.
        return [i not in dense and (i + 1) % step == 0 for i in range(layers)]
    if rules.layout == "enumerated" and config.value("moe_layers_enum") is not None:
        chosen = _enumerated(config, layers)
        return [i in chosen for i in range(layers)]
    # A list of flags in place of a period.
    if isinstance(config.value("moe_layer_freq"), list):
        return _flags(config, layers)
    if rules.layout in ("first_dense", "enumerated"):
        prefix = config.count(*PREFIX_KEYS, minimum=0)
        if prefix > layers:
            raise config.error(f"{config.spelling(*PREFIX_KEYS)} is {prefix}; it must be at most the {layers} layers")
        # A frequency beside the prefix would have to be combined with it; only 1 occurs.
        if config.count("moe_layer_freq", default=1) != 1:
            raise config.error(f"moe_layer_freq is {config.value('moe_layer_freq')}; only 1 is read here")
        return [i >= prefix for i in range(layers)]
    if rules.layout == "period":
        period, offset = config.count("expert_layer_period"), config.count("expert_layer_offset", minimum=0)
        return [i % period == offset for i in range(layers)]
    if rules.layout == "flag":
        return [config.flag("enable_moe_block", False)] * layers
    if rules.layout == "stated":
        return [config.count(*COUNT_KEYS, default=0, minimum=0) > 0] * layers
    if rules.layout == "interleaved":
        chosen = config.layer_indices("moe_layers", layers)
        if chosen is not None:
            return [i in set(chosen) for i in range(layers)]
        step = config.count("interleave_moe_layer_step", default=1)
        return [(i + 1) % step == 0 for i in range(layers)]
    if rules.layout == "range":
        first = config.count("moe_layer_start_index", minimum=0)
        last = config.count("moe_layer_end_index", default=layers - 1, minimum=-1)
        # -1 means up to the last layer.
        last = layers - 1 if last == -1 else last
        step = config.count("moe_layer_interval", default=1)
        return [first <= i <= last and (i + 1) % step == 0 for i in range(layers)]
    if rules.layout == "list":
        return _flags(config, layers)
    return [True] * layers


def _flags(config: Config, layers: int) -> list[bool]:
    flags = config.items("moe_layer_freq", layers)
    if flags is None or any(flag not in (0, 1) for flag in flags):
        raise config.error("moe_layer_freq must be a list of 0 (dense) and 1 (experts), one per layer")
    return [bool(flag) for flag in flags]


def _enumerated(config: Config, layers: int) -> set[int]:
    """Layers of `moe_layers_enum`, indices from 0 with commas between; those beyond the last layer are left out."""
    text = config.text("moe_layers_enum")
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isascii() and part.isdigit() and len(part) < 7 for part in parts):
        raise config.error(f"moe_layers_enum is {text[:60]!r}; it must be layer indices with commas between")
    return {int(part) for part in parts if int(part) < layers}

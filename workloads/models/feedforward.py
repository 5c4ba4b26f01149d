"""Feed-forward layers as configs describe them, dense or with experts."""

from jaxroof.model import Experts, FeedForward
from jaxroof.numerics.struct import given
from workloads.config import REQUIRED, Config
from workloads.families.family import ExpertLayers
from workloads.models.attention import block_config
from workloads.models.experts import COUNT_KEYS, SHARED_KEYS, TOP_K_KEYS
from workloads.models.layer import INTERMEDIATE_KEYS, Layer

NAS_MULTIPLE = 256
"""What Nemotron-NAS rounds a feed-forward's width up to. Source: DeciLM's published modelling code."""


def dense(layer: Layer) -> FeedForward:
    """The dense feed-forward of one layer. Raises `ValueError` for a missing or wrong width, by its key."""
    return _feedforward(layer, float(_dense_width(layer)), layer.family.modules.dense)


def experts(layer: Layer) -> Experts:
    """The experts of one layer, with what every token passes through beside them as one shared layer.

    Raises `ValueError` for a missing or impossible size, by its key.
    """
    config, family, modules = layer.config, layer.family, layer.family.modules
    rules = given(family.experts, "experts in the family of models")
    count, top_k = config.count(*COUNT_KEYS), _uniform(config, *TOP_K_KEYS)
    if top_k > count:
        raise config.error(f"{config.spelling(*TOP_K_KEYS)} is {top_k}; it must be at most the {count} experts")
    intermediate = _uniform(config, *rules.intermediate)
    width = config.number(rules.width, default=None) if rules.width else None
    shared = _shared(layer, _shared_intermediate(config, rules, intermediate))
    parent = f"{modules.moe}.experts"
    # The first and the last expert stand for all: a list that excludes only some of them is refused.
    up = [f"{i}.{module}" for i in (0, count - 1) for module in modules.expert_up]
    down = [f"{i}.{modules.expert_down}" for i in (0, count - 1)]
    return Experts(
        experts=float(count),
        # Experts that pass their input on take a share of the choices and do no work.
        top_k=top_k * _real_share(config, count),
        **_groups(config),
        intermediate=float(intermediate),
        up_projections=family.up_projections,
        width=width,
        up=layer.product(up, "gate_up_proj", parent, experts=True, inputs=width),
        down=layer.product(down, modules.down, parent, experts=True, inputs=float(intermediate)),
        router=layer.router(modules.moe),
        projection=None if width is None else layer.product(modules.narrowing, parent=modules.moe),
        shared=dense(layer) if rules.beside_dense else shared,
    )


def _real_share(config: Config, count: int) -> float:
    """Share of a token's experts that do something, where some do nothing and all are chosen alike."""
    return count / (count + config.number("zero_expert_num", default=0, minimum=0))


def _groups(config: Config) -> dict[str, float]:
    """Groups of experts that a token is limited to, where the router has such a limit: fewer than all of several."""
    groups, reached = (config.count(key, default=None) for key in ("n_group", "topk_group"))
    if groups is None or reached is None:
        return {}
    if reached > groups:
        raise config.error(f"topk_group is {reached}; it must be at most the {groups} groups of n_group")
    # Limits to all groups are no limit.
    return {"groups": float(groups), "reached_groups": float(reached)} if reached < groups else {}


def _uniform(config: Config, *keys: str) -> int:
    """A size that some configs state once per layer, where it is the same in all."""
    value = config.value(*keys)
    # Lists with one value in all layers are read as that value.
    if isinstance(value, list) and value and all(entry == value[0] for entry in value):
        return Config(config.name, {keys[0]: value[0]}).count(keys[0])
    return config.count(*keys)


def _shared_intermediate(config: Config, rules: ExpertLayers, intermediate: int) -> float:
    if rules.shared_intermediate:
        return config.count(rules.shared_intermediate, minimum=0)
    if rules.shared:
        return intermediate * config.count(*SHARED_KEYS, default=0, minimum=0)
    if rules.always_shared:
        return intermediate * rules.always_shared
    # Shared experts that the family does not have would be left out silently.
    for key in (*SHARED_KEYS, "shared_expert_intermediate_size"):
        if config.count(key, default=0, minimum=0):
            raise config.error(f"{key} is {config.value(key)}; shared experts are not read with this model_type")
    return 0.0


def _feedforward(layer: Layer, intermediate: float, place: str) -> FeedForward:
    modules = layer.family.modules
    return FeedForward(
        intermediate=intermediate,
        up_projections=layer.family.up_projections,
        up=layer.product(modules.up, modules.fused_up, place),
        down=layer.product([modules.down], parent=place, inputs=intermediate),
    )


def _shared(layer: Layer, intermediate: float) -> FeedForward | None:
    modules = layer.family.modules
    return _feedforward(layer, float(intermediate), f"{modules.moe}.{modules.shared}") if intermediate else None


def _dense_width(layer: Layer) -> float:
    family, config = layer.family, layer.config
    if family.sizes == "blocks":
        return _multiplied_width(layer)
    keys = INTERMEDIATE_KEYS
    if family.experts and family.experts.dense_intermediate != "intermediate_size":
        keys = (family.experts.dense_intermediate,)
    factor = family.intermediate_factor
    if family.adjusted_width and config.flag("block_auto_adjust_ff_dim", True):
        return _adjusted_width(config)
    if isinstance(config.value(*keys), list):
        return float(_uniform(config, *keys))
    # Layers that share a cache may have a feed-forward of twice the width.
    doubled = 2.0 if layer.shares_cache and config.flag("use_double_wide_mlp", False) else 1.0
    width = config.count(*keys, default=int(factor * layer.hidden) if factor else REQUIRED)
    return width * doubled * family.intermediate_scale


def _adjusted_width(config: Config) -> float:
    """LFM2: two thirds of the config's size, rounded up to a multiple. Source: transformers, modeling_lfm2.py."""
    factor = config.value("block_ffn_dim_multiplier", default=1.0)
    if not isinstance(factor, int | float) or isinstance(factor, bool) or not 0.0 < factor < 100.0:
        raise config.error(f"block_ffn_dim_multiplier is {factor!r}; it must be above 0 and below 100")
    # Two integer roundings, as the published code has them.
    width = int(factor * int(2 * config.count(*INTERMEDIATE_KEYS, "block_ff_dim") / 3))
    multiple = config.count("block_multiple_of", default=256)
    # Round up to a multiple: -(-a // b) * b.
    return float(-(-width // multiple) * multiple)


def _multiplied_width(layer: Layer) -> float:
    """Nemotron-NAS: 2/3 of `ffn_mult` hidden sizes, rounded up to a multiple of 256."""
    table = block_config(layer.config, layer.index).table("ffn")
    factor = None if table is None else table.value("ffn_mult")
    if table is None or not isinstance(factor, int | float) or isinstance(factor, bool) or not 0.0 < factor < 100.0:
        raise layer.config.error(f"block_configs: ffn_mult of layer {layer.index} is {factor!r}; it must be 0 to 100")
    width = int(2.0 * factor * layer.hidden / 3.0)
    return float(-(-width // NAS_MULTIPLE) * NAS_MULTIPLE)

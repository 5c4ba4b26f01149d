"""Feed-forward layers as configs describe them, dense or with experts."""

from jaxroof.model import Experts, FeedForward
from workloads.attention import block_config
from workloads.config import REQUIRED
from workloads.experts import expert_dimensions
from workloads.layer import INTERMEDIATE_KEYS, Layer

NAS_MULTIPLE = 256
"""What Nemotron-NAS rounds a feed-forward's width up to. Source: DeciLM's published modelling code."""


def dense(layer: Layer) -> FeedForward:
    """The dense feed-forward of one layer. Raises `ValueError` for a missing or wrong width, by its key."""
    return _feedforward(layer, float(_dense_width(layer)), layer.family.modules.dense)


def experts(layer: Layer) -> Experts:
    """The experts of one layer, with what every token passes through beside them as one shared layer."""
    family, modules, rules = layer.family, layer.family.modules, layer.family.experts
    sizes = expert_dimensions(layer.config, rules)
    parent = f"{modules.moe}.experts"
    # The first and the last expert stand for all: a list that excludes only some of them is refused.
    numbered = [f"{i}." for i in (0, int(sizes.experts) - 1)]
    up = [f"{number}{module}" for number in numbered for module in modules.expert_up]
    down = [f"{number}{modules.expert_down}" for number in numbered]
    return Experts(
        experts=sizes.experts,
        top_k=sizes.top_k,
        intermediate=sizes.intermediate,
        up_projections=family.up_projections,
        width=sizes.width,
        up=layer.product(up, "gate_up_proj", parent, experts=True),
        down=layer.product(down, modules.down, parent, experts=True),
        router=layer.base,
        projection=None if sizes.width is None else layer.product(modules.narrowing, parent=modules.moe),
        shared=dense(layer) if rules.beside_dense else _shared(layer, sizes.shared_intermediate),
    )


def _feedforward(layer: Layer, intermediate: float, place: str) -> FeedForward:
    modules = layer.family.modules
    return FeedForward(
        intermediate=intermediate,
        up_projections=layer.family.up_projections,
        up=layer.product(modules.up, modules.fused_up, place),
        down=layer.product([modules.down], parent=place),
    )


def _shared(layer: Layer, intermediate: float) -> FeedForward | None:
    modules = layer.family.modules
    return _feedforward(layer, intermediate, f"{modules.moe}.{modules.shared}") if intermediate else None


def _dense_width(layer: Layer) -> float:
    family, config = layer.family, layer.config
    if family.sizes == "blocks":
        return _multiplied_width(layer)
    keys = INTERMEDIATE_KEYS
    if family.experts and family.experts.dense_intermediate != "intermediate_size":
        keys = (family.experts.dense_intermediate,)
    factor = family.intermediate_factor
    return config.count(*keys, default=int(factor * layer.hidden) if factor else REQUIRED) * family.intermediate_scale


def _multiplied_width(layer: Layer) -> float:
    """Nemotron-NAS: 2/3 of `ffn_mult` hidden sizes, rounded up to a multiple of 256."""
    table = block_config(layer.config, layer.index).table("ffn")
    factor = None if table is None else table.value("ffn_mult")
    if table is None or not isinstance(factor, int | float) or isinstance(factor, bool) or not 0.0 < factor < 100.0:
        raise layer.config.error(f"block_configs: ffn_mult of layer {layer.index} is {factor!r}; it must be 0 to 100")
    width = int(2.0 * factor * layer.hidden / 3.0)
    return float(-(-width // NAS_MULTIPLE) * NAS_MULTIPLE)

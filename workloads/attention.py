"""Softmax attention as configs describe it: heads, widths, gates, windows, and which layers have their own."""

import dataclasses

from jaxroof.layers.attention import Attention
from workloads.config import REQUIRED, Config
from workloads.layer import HEAD_DIM_KEYS, HEAD_KEYS, KV_HEAD_KEYS, Layer
from workloads.other_parameters import switched
from workloads.selection import block_selection

OTHER_SETTING = "attention_other_setting"
"""Step's table of what is different in its sliding layers."""


@dataclasses.dataclass(frozen=True)
class _Sizes:
    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    value_projection: float = 1.0


def attention(layer: Layer) -> Attention:
    """The softmax attention of one layer. Raises `ValueError` for a missing or impossible size, by its key."""
    family, modules, window = layer.family, layer.family.modules, layer.window
    sizes = SIZES[family.sizes](layer)
    return Attention(
        heads=float(sizes.heads),
        kv_heads=float(sizes.kv_heads),
        head_dim=float(sizes.head_dim),
        value_dim=float(sizes.value_dim),
        window=window.tokens,
        window_kind=window.kind,
        causal=family.causal,
        value_projection=sizes.value_projection,
        gate=_gate(layer, sizes),
        qk_norm=float(switched(layer.config, family.qk_norm)),
        selection=block_selection(layer) if family.selection == "blocks" else None,
        qkv=layer.product(modules.qkv, modules.fused_qkv, outputs=_outputs(sizes, len(modules.qkv))),
        output=layer.product([modules.output], inputs=float(sizes.heads * sizes.value_dim)),
    )


def _outputs(sizes: _Sizes, parts: int) -> list[float]:
    """Rows of queries, keys and values where these are three matrices; else equal shares."""
    keys, values = sizes.kv_heads * sizes.head_dim, sizes.kv_heads * sizes.value_dim * sizes.value_projection
    rows = [float(sizes.heads * sizes.head_dim), float(keys), float(values)]
    return rows if parts == len(rows) else [1.0] * parts


def _plain(layer: Layer, prefix: str = "") -> _Sizes:
    heads = layer.size(*(f"{prefix}{key}" for key in (HEAD_KEYS if not prefix else HEAD_KEYS[:1])))
    head_dim = _head_dim(layer, heads, prefix)
    value_dim = head_dim
    if layer.family.reads_value_dim:
        value_dim = layer.config.count(f"{prefix}v_head_dim", default=head_dim)
    return _Sizes(heads, _kv_heads(layer, heads, prefix), head_dim, value_dim)


def _sliding_prefix(layer: Layer) -> _Sizes:
    """MiMo: windowed layers have every size under `swa_`."""
    return _plain(layer, "swa_" if layer.window.limited else "")


def _global(layer: Layer) -> _Sizes:
    """Gemma 4: layers that see everything have wider heads, fewer keys, and may use keys as values."""
    plain = _plain(layer)
    if layer.window.limited:
        return plain
    head_dim = layer.config.count("global_head_dim", default=plain.head_dim)
    if not layer.config.flag("attention_k_eq_v", False):
        return _Sizes(plain.heads, plain.kv_heads, head_dim, head_dim)
    kv_heads = layer.config.count("num_global_key_value_heads", default=plain.kv_heads)
    _check_groups(layer.config, "num_global_key_value_heads", kv_heads, plain.heads)
    return _Sizes(plain.heads, kv_heads, head_dim, head_dim, value_projection=0.0)


def _other_setting(layer: Layer) -> _Sizes:
    """Step: sliding layers have heads of their own in a table."""
    plain = _plain(layer)
    table = layer.config.table(OTHER_SETTING)
    if table is None or not layer.window.limited:
        return plain
    heads = table.count("num_attention_heads", default=plain.heads)
    kv_heads = table.count("num_attention_groups", default=plain.kv_heads)
    _check_groups(table, "num_attention_groups", kv_heads, heads)
    head_dim = table.count("head_dim", default=plain.head_dim)
    return _Sizes(heads, kv_heads, head_dim, head_dim)


def _blocks(layer: Layer) -> _Sizes:
    """Nemotron-NAS: every layer says how many query heads share a key."""
    heads = layer.size(*HEAD_KEYS)
    table = block_config(layer.config, layer.index).table("attention")
    group = REQUIRED if table is None else table.count("n_heads_in_group")
    if table is None or heads % group:
        raise layer.config.error(f"block_configs: attention of layer {layer.index} must divide the {heads} heads")
    head_dim = _head_dim(layer, heads, "")
    return _Sizes(heads, heads // group, head_dim, head_dim)


SIZES = {None: _plain, "swa": _sliding_prefix, "global": _global, "sliding": _other_setting, "blocks": _blocks}
"""`Family.sizes` -> the sizes of one layer's attention."""


def block_config(config: Config, index: int) -> Config:
    """Config of one layer by `block_configs`. Raises `ValueError` where it says nothing."""
    blocks = config.value("block_configs")
    if not isinstance(blocks, list) or index >= len(blocks) or not isinstance(blocks[index], dict):
        raise config.error(f"block_configs must be a list of objects, one per layer; {index} is missing")
    return Config(f"{config.name}: block_configs[{index}]", blocks[index])


def _gate(layer: Layer, sizes: _Sizes) -> float:
    if layer.family.gate == "element":
        return float(sizes.value_dim) if layer.config.flag("attn_output_gate", True) else 0.0
    if layer.family.gate == "head":
        return 1.0 if layer.config.flag("use_head_wise_attn_gate", True) else 0.0
    return 0.0


def _kv_heads(layer: Layer, heads: int, prefix: str) -> int:
    config, family = layer.config, layer.family
    keys = [f"{prefix}{key}" for key in (KV_HEAD_KEYS if not prefix else KV_HEAD_KEYS[:1])]
    if family.kv_heads_default == "multi_query" and not prefix:
        shared = config.flag("multi_query", True) and not config.flag("new_decoder_architecture", False)
        return 1 if shared else config.count(*keys, default=heads)
    if config.value(*keys) is None and not prefix and family.kv_heads_default == "heads":
        return heads
    kv_heads = layer.size(*keys)
    _check_groups(config, config.spelling(*keys), kv_heads, heads)
    return kv_heads


def _check_groups(config: Config, key: str, kv_heads: int, heads: int) -> None:
    if heads % kv_heads:
        raise config.error(f"{key} is {kv_heads}; it must divide the {heads} attention heads")


def _head_dim(layer: Layer, heads: int, prefix: str) -> int:
    config, default = layer.config, layer.family.head_dim_default
    keys = [f"{prefix}{key}" for key in HEAD_DIM_KEYS]
    if default == "hidden/heads" and config.value(*keys) is None:
        if layer.hidden % heads:
            raise config.error(
                f"head_dim is missing and hidden size {layer.hidden:.0f} is not a multiple of {heads} heads"
            )
        return int(layer.hidden) // heads
    return config.count(*keys, default=REQUIRED if default is None else default)

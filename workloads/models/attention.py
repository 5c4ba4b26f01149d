"""Softmax attention as configs describe it: heads, widths, gates, windows, and which layers have their own."""

import dataclasses

from jaxroof.layers.attention import Attention
from jaxroof.layers.compressed_attention import CompressedAttention
from jaxroof.layers.latent_attention import LatentAttention
from workloads.config import REQUIRED, Config
from workloads.models.layer import HEAD_DIM_KEYS, HEAD_KEYS, KV_HEAD_KEYS, Layer, block_selection, token_selection
from workloads.models.parameters import switched

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
        query_rank=layer.config.number(family.query_rank) if family.query_rank else None,
        shares_cache=layer.shares_cache,
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
    # The ratio of rows decides a fused matrix's mean bytes per weight where parts are quantised differently.
    keys, values = sizes.kv_heads * sizes.head_dim, sizes.kv_heads * sizes.value_dim * sizes.value_projection
    rows = [float(sizes.heads * sizes.head_dim), float(keys), float(values)]
    # Checkpoints with one fused matrix state no parts: any shares give its one format.
    return rows if parts == len(rows) else [1.0] * parts


def _plain(layer: Layer, prefix: str = "") -> _Sizes:
    # With a prefix the sizes are a variant's own, spelled as the first of the usual keys.
    heads = layer.size(*(f"{prefix}{key}" for key in (HEAD_KEYS if not prefix else HEAD_KEYS[:1])))
    head_dim = _head_dim(layer, heads, prefix)
    value_dim = head_dim
    if layer.family.reads_value_dim:
        # Families without a value width of their own use the keys' width.
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
    own = _per_layer(layer.config)
    head_dim = own.count("head_dim", default=layer.config.count("global_head_dim", default=plain.head_dim))
    # Keys as values: the projection to values is left out, and the cache holds both.
    if not layer.config.flag("attention_k_eq_v", False):
        return _Sizes(plain.heads, plain.kv_heads, head_dim, head_dim)
    kv_heads = layer.config.count("num_global_key_value_heads", default=plain.kv_heads)
    kv_heads = own.count("num_key_value_heads", default=kv_heads)
    _check_groups(layer.config, "num_global_key_value_heads", kv_heads, plain.heads)
    return _Sizes(plain.heads, kv_heads, head_dim, head_dim, value_projection=0.0)


def _per_layer(config: Config) -> Config:
    """What `per_layer_config` says of the layers that it lists, which is the same of all of them."""
    table = config.table("per_layer_config")
    listed = [] if table is None else list(table.values.values())
    # One set of numbers for all listed layers is what a block of equal layers can express.
    if not all(isinstance(values, dict) and values == listed[0] for values in listed):
        raise config.error("per_layer_config must say the same of every layer that it lists")
    return dataclasses.replace(config, values=listed[0] if listed else {}, path="per_layer_config.")


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
    # Grouped-query attention given by the size of a group instead of the number of groups.
    group = REQUIRED if table is None else table.count("n_heads_in_group")
    if table is None or heads % group:
        raise layer.config.error(f"block_configs: attention of layer {layer.index} must divide the {heads} heads")
    head_dim = _head_dim(layer, heads, "")
    return _Sizes(heads, heads // group, head_dim, head_dim)


def _heads(layer: Layer) -> _Sizes:
    """Laguna: every layer says how many query heads it has."""
    plain = _plain(layer)
    listed = layer.config.value("num_attention_heads_per_layer")
    if listed is None:
        return plain
    if not isinstance(listed, list) or not all(type(heads) is int and heads > 0 for heads in listed) or not listed:
        raise layer.config.error("num_attention_heads_per_layer must be a list of positive integers, one per layer")
    # A prediction module beyond the last layer is as the last one.
    heads = listed[min(layer.index, len(listed) - 1)]
    _check_groups(layer.config, "num_key_value_heads", plain.kv_heads, heads)
    return dataclasses.replace(plain, heads=heads)


SIZES = {
    None: _plain,
    "heads": _heads,
    "swa": _sliding_prefix,
    "global": _global,
    "sliding": _other_setting,
    "blocks": _blocks,
}
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
    # Multi-query attention (Falcon's first generation) unless the newer architecture is asked for.
    if family.kv_heads_default == "multi_query" and not prefix:
        shared = config.flag("multi_query", True) and not config.flag("new_decoder_architecture", False)
        return 1 if shared else config.count(*keys, default=heads)
    # Models before grouped-query attention say nothing: every query head has its own key.
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
    # The usual rule where no width is stated; half of newer configs have another one, so it is a default of families
    # only.
    if default == "hidden/heads" and config.value(*keys) is None:
        if layer.hidden % heads:
            raise config.error(
                f"head_dim is missing and hidden size {layer.hidden:.0f} is not a multiple of {heads} heads"
            )
        return int(layer.hidden) // heads
    return config.count(*keys, default=REQUIRED if default is None else default)


# Multi-head latent attention and compressed attention as configs describe them.


OVERLAPPING_RATIO = 4
"""The compression ratio whose pooling windows overlap and whose vectors an indexer chooses from.

Source: DeepSeek-AI, DeepSeek-V4, 2026: compressed sparse attention (4) and heavily compressed attention (128).
"""

RATIOS = (0, 4, 128)
"""What `compress_ratios` may have; 0 is a layer with the window alone."""


def latent_attention(layer: Layer) -> LatentAttention:
    """The latent attention of one layer. Raises `ValueError` for a missing size, by its key."""
    config, modules = layer.config, layer.family.modules
    rank = config.number("q_lora_rank", default=None)
    value_dim = config.count("v_head_dim")
    unrotated = layer.family.linear == "kimi delta"  # beside layers with a state a model may do without positions
    rotated = config.number("qk_rope_head_dim", minimum=0 if unrotated else 1)
    down, query = [modules.latent_query_down, modules.latent_down], [modules.latent_query]
    output_gate = config.flag("mla_use_output_gate", False)
    # Down projections to the compressed query and to latent vector and rotated key run as one matrix.
    widths = [rank or 0.0, config.number("kv_lora_rank") + rotated]
    # Small models project queries directly from the hidden state (DeepSeek-V2-Lite).
    if rank is None:
        down, query, widths = [modules.latent_down], [modules.latent_direct_query], widths[1:]
    heads = layer.size(*HEAD_KEYS)
    return LatentAttention(
        heads=float(heads),
        query_rank=rank,
        latent=config.number("kv_lora_rank"),
        nope_dim=config.number("qk_nope_head_dim"),
        rope_dim=rotated,
        value_dim=float(value_dim),
        gate=1.0 if layer.family.gate == "head" else float(value_dim) if output_gate else None,
        selection=token_selection(layer),
        down=layer.product(down, modules.fused_latent_down, outputs=widths),
        query=layer.product(query, inputs=rank),
        up=layer.product([modules.latent_up], inputs=config.number("kv_lora_rank")),
        output=layer.product([modules.output], inputs=float(heads * value_dim)),
    )


def compressed_attention(layer: Layer) -> CompressedAttention:
    """The compressed attention of one layer. Raises `ValueError` for a missing size or an unknown ratio."""
    config, modules = layer.config, layer.family.modules
    ratio = _ratio(layer)
    # Overlapping windows of pooling and an indexer come together, at the smaller ratio.
    overlaps = ratio == OVERLAPPING_RATIO
    selection = None
    if overlaps:
        # Keys and gates of two pooling windows: 2 x 2 outputs per element of the indexer's key.
        outputs = 4.0 * config.count("index_head_dim")
        selection = token_selection(layer, float(ratio), outputs)
    return CompressedAttention(
        heads=float(layer.size(*HEAD_KEYS)),
        head_dim=config.number("head_dim"),
        rope_dim=config.number("qk_rope_head_dim"),
        query_rank=config.number("q_lora_rank"),
        output_groups=config.number("o_groups"),
        output_rank=config.number("o_lora_rank"),
        window=config.number("sliding_window"),
        ratio=float(ratio) if ratio else None,
        overlap=2.0 if overlaps else 1.0,
        selection=selection,
        down=layer.product([modules.latent_query_down, modules.latent_down], modules.fused_latent_down),
        query=layer.product([modules.latent_query], inputs=config.number("q_lora_rank")),
        compressor=layer.base,
        group=layer.product([modules.group]),
        output=layer.product([modules.output]),
    )


TYPES = {"sliding_attention": 0, "compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
"""`layer_types` -> ratio, for configs without `compress_ratios`."""


def _ratio(layer: Layer) -> int:
    config = layer.config
    ratios, layers = config.value("compress_ratios"), config.count("num_hidden_layers")
    types = config.items("layer_types", layers, TYPES)
    if ratios is None and types is not None:
        ratios = [config.count(f"compress_rates.{kind}", default=TYPES[kind], minimum=0) for kind in types]
    if not isinstance(ratios, list) or len(ratios) < layers:
        raise config.error(f"compress_ratios must be a list of at least {layers} ratios, one per layer")
    wrong = [ratio for ratio in ratios if type(ratio) is not int or ratio not in RATIOS]
    if wrong:
        raise config.error(f"compress_ratios has {wrong[0]!r}; it must be one of {', '.join(map(str, RATIOS))}")
    # A prediction module beyond the last layer is as the last one.
    return ratios[min(layer.index, len(ratios) - 1)]

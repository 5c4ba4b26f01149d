"""Multi-head latent attention and compressed attention as configs describe them."""

from jaxroof.layers.compressed_attention import CompressedAttention
from jaxroof.layers.latent_attention import LatentAttention
from workloads.layer import HEAD_KEYS, Layer
from workloads.selection import token_selection

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
    widths = [rank or 0.0, config.number("kv_lora_rank") + rotated]
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
    return ratios[min(layer.index, len(ratios) - 1)]

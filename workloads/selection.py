"""Sparse attention as configs describe it: the indexer's cache, and tokens that a query attends to."""

from jaxroof.layers.sight import Selection
from workloads.config import Config
from workloads.layer import Layer
from workloads.windows import SELECTED

SCALED_FP8 = 1.0 + 4.0 / 128.0
"""B per element of an indexer's key: FP8, with a float32 scale per 128. Source: DeepSeek-V3.2's inference code."""

BLOCK_KEY_BYTES = 2.0
"""B per element of a block indexer's key: bfloat16, TensorRT-LLM's default for MiniMax-M3."""


TABLE_KEYS = ("sparse_topk_blocks", "sparse_block_size", "sparse_num_index_heads", "sparse_index_dim")
FLAT_KEYS = ("index_topk_blocks", "index_block_size", "index_n_heads", "index_head_dim")
"""Chosen blocks, tokens of a block, heads and their width, as a block indexer's table and as flat configs name them."""


def token_selection(layer: Layer, ratio: float | None = None, key_outputs: float | None = None) -> Selection | None:
    """The indexer of one layer that scores single keys, or None for a family that has none.

    A layer that takes over the choice of the layer before it (`indexer_types` "shared") has an indexer of no heads.

    Keys of `index_kpool` tokens are one key, their mean by a gate per channel; a query attends to all tokens of the
    keys that it chooses. The last tokens, fewer than a pool, are attended to besides; they are left out here.

    Args:
      ratio: tokens that one key stands for, where keys and so `Selection.tokens` are compressed vectors.
      key_outputs: outputs of the projection to keys; None: as wide as a key, twice that of pooled keys.

    Source of pooled keys: transformers, modeling_glm5_next.py (Glm5NextTextIndexer); of their cache, one key in FP8 per
    pool: vllm-project/vllm#53906.
    """
    config = layer.config
    if layer.family.selection != "tokens" or _sees_all(layer):
        return None
    shared = _shares(layer)
    head_dim = 0.0 if shared else config.number("index_head_dim")
    tokens, pool = config.count("index_topk"), layer.size("index_kpool", default=1) if ratio is None else 1
    if tokens % pool:
        raise config.error(f"index_topk is {tokens}; it must be a multiple of index_kpool, {pool}")
    config.value("index_kpool_always_select_tail")
    own = head_dim * (2.0 if pool > 1 else 1.0)  # keys, and gates of a pool
    return Selection(
        tokens=float(tokens),
        heads=0.0 if shared else config.number("index_n_heads"),
        head_dim=head_dim,
        stride=float(pool) if ratio is None else ratio,
        key_outputs=own if key_outputs is None else key_outputs,
        query_rank=config.number("q_lora_rank", default=None),
        key_bytes=SCALED_FP8,
        weights=layer.product([layer.family.modules.indexer]),
    )


def block_selection(layer: Layer) -> Selection | None:
    """The indexer of one layer that chooses blocks of tokens, or None for a layer that attends to everything.

    It scores every token's key and takes the best of a block for the block, so one key stands for one token; each of
    its heads chooses for one group of heads.

    Source: MiniMax-M3 (block-sparse attention), `sparse_score_type` "max".
    """
    table = layer.config.table("sparse_attention_config")
    if table is None and layer.config.value("index_topk_blocks") is not None and not _sees_all(layer):
        return _selection_of_blocks(layer, layer.config, FLAT_KEYS)
    if table is None or not table.flag("use_sparse_attention", True):
        return None
    if _sees_all(layer):
        return None
    layers = table.value("sparse_attention_freq")
    if layers is not None:
        count = layer.config.count("num_hidden_layers")
        flags = table.items("sparse_attention_freq", count) or []
        if not flags[min(layer.index, count - 1)]:
            return None
    return _selection_of_blocks(layer, table, TABLE_KEYS)


def _selection_of_blocks(layer: Layer, table: Config, keys: tuple[str, str, str, str]) -> Selection:
    blocks, size, heads, dim = keys
    return Selection(
        tokens=float(table.count(blocks) * table.count(size)),
        heads=table.number(heads),
        head_dim=table.number(dim),
        stride=1.0,
        key_outputs=table.number(dim),
        query_rank=None,
        key_bytes=BLOCK_KEY_BYTES,
        weights=layer.product([layer.family.modules.indexer]),
    )


def _sees_all(layer: Layer) -> bool:
    """Whether `layer_types` calls the layer one without an indexer, among others that have one."""
    types = layer.config.value("layer_types")
    names = SELECTED[layer.family.selection or ""]
    listed = isinstance(types, list) and (layer.family.selection == "blocks" or any(name in types for name in names))
    return listed and layer.index < len(types) and types[layer.index] not in names


def _shares(layer: Layer) -> bool:
    types = layer.config.value("indexer_types")
    if types is None:
        return False
    count = layer.config.count("num_hidden_layers")
    listed = layer.config.items("indexer_types", count) or []
    wrong = [kind for kind in listed if kind not in ("full", "shared")]
    if wrong:
        raise layer.config.error(f"indexer_types has {wrong[0]!r}; it must be 'full' or 'shared'")
    return layer.index < count and listed[layer.index] == "shared"

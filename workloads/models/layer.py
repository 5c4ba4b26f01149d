"""Attention window of each layer."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from jaxroof.layers.sight import Selection
from jaxroof.model import WeightFormat
from workloads.config import REQUIRED, Config
from workloads.families.family import Family
from workloads.precisions.formats import Tensor
from workloads.precisions.storage import Quantization, linear_format

CHUNK_DEFAULT = 8192  # tokens, the published class default of Llama 4's attention_chunk_size
LATE_LAYER_DEFAULT = 28  # published class default of Qwen's max_window_layers
NO_ROPE_INTERVAL = 4  # published class default of Llama 4's no_rope_layer_interval
KINDS = {"full_attention": None, "attention": None, "sliding_attention": "sliding", "chunked_attention": "chunked"}
"""`layer_types` -> kind of window."""

SELECTED = {
    "tokens": ("indexed_attention", "deepseek_sparse_attention"),
    "blocks": ("minimax_m3_sparse",),
}
"""`Family.selection` -> what `layer_types` calls its layers: no window."""

LETTERS = {"L": "sliding", "G": None}
"""One letter of `sliding_window_pattern`, local or global, -> kind of window."""


@dataclasses.dataclass(frozen=True)
class Window:
    """One layer's reach: `tokens` that a query sees at most, or None for all."""

    tokens: float | None
    kind: str | None  # "sliding", "chunked" or None

    @property
    def limited(self) -> bool:
        """True if a query sees less than everything."""
        return self.kind is not None


FULL = Window(None, None)


LOCAL = {"global": None, "local": "sliding"}
"""GPT-Neo's names -> kind of window."""


def layer_windows(config: Config, family: Family, layers: int) -> list[Window]:
    """The window of every layer.

    `layer_types` decides where a config has it, else the family's rule.

    Raises:
      ValueError: a layer type, window or pattern that the family does not have, by name.
    """
    names = KINDS | dict.fromkeys(SELECTED.get(family.selection or "", ()))
    types = config.items("layer_types", layers, names)
    # What the config states per layer wins over the family's rule.
    kinds = _family_kinds(config, family, layers) if types is None else [names[kind] for kind in types]
    if any(kind is not None for kind in kinds) and family.windows is None:
        raise config.error("layer_types has windowed layers, which this model_type is not read with")
    # Each kind of window has one size in a model.
    sizes = {kind: _window_size(config, family, kind) for kind in dict.fromkeys(kinds) if kind is not None}
    windows = {kind: FULL if size is None else Window(float(size), kind) for kind, size in sizes.items()}
    return [FULL if kind is None else windows[kind] for kind in kinds]


def _family_kinds(config: Config, family: Family, layers: int) -> list[str | None]:
    if family.windows == "all":
        return ["sliding"] * layers
    if family.windows == "late" and config.flag("use_sliding_window", False):
        first = config.count("max_window_layers", default=LATE_LAYER_DEFAULT, minimum=0)
        return ["sliding" if i >= first else None for i in range(layers)]
    if family.windows == "period":
        pattern = config.value("sliding_window_pattern")
        # A stated null says that nothing is windowed, which a missing key does not.
        if pattern is None and config.states("sliding_window") and config.value("sliding_window") is None:
            return [None] * layers  # it says that there is no window
        if isinstance(pattern, str):
            return _letters(config, pattern, layers)
        keys = ("sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers")
        period = config.count(*keys, default=family.period)
        # Every n-th layer sees everything (Gemma, Command R).
        return [None if (i + 1) % period == 0 else "sliding" for i in range(layers)]
    if family.windows == "first":
        period = config.count("global_attn_every_n_layers", default=family.period)
        return [None if i % period == 0 else "sliding" for i in range(layers)]
    if family.windows == "chunked":
        # Llama 4: layers without rotary positions see everything, the others their chunk.
        return ["chunked" if rotary else None for rotary in _rotary_layers(config, layers)]
    if family.windows == "pattern":
        pattern = config.items("hybrid_layer_pattern", layers)
        if pattern is None or any(entry not in (0, 1) for entry in pattern):
            raise config.error("hybrid_layer_pattern must be a list of 0 (full) and 1 (sliding), one per layer")
        return ["sliding" if entry else None for entry in pattern]
    if family.windows == "named":
        return _named(config, layers)
    if family.windows == "listed":
        raise config.error("layer_types is missing, which says what windows its layers have")
    return [None] * layers


def _named(config: Config, layers: int) -> list[str | None]:
    """Windows of GPT-Neo's `attention_layers`, or of `attention_types`, pairs of a pattern and how often it comes."""
    names = config.items("attention_layers", layers, LOCAL)
    pairs = config.value("attention_types", default=[[["global", "local"], layers // 2]])
    if names is None:
        try:
            # A pattern that repeats: ["global", "local"] times 12.
            names = [name for pattern, times in pairs for name in pattern * times]
            return [LOCAL[name] for name in names[:layers]] if len(names) == layers else _wrong(config, layers)
        except (TypeError, ValueError, KeyError):
            return _wrong(config, layers)
    return [LOCAL[name] for name in names]


def _wrong(config: Config, layers: int) -> list[str | None]:
    raise config.error(f"attention_types must be pairs of a list of {', '.join(LOCAL)} and a count, {layers} in all")


def _letters(config: Config, pattern: str, layers: int) -> list[str | None]:
    """Windows of a pattern that repeats: LLLG has three local layers before every global one."""
    if not pattern or set(pattern.upper()) - LETTERS.keys():
        raise config.error(f"sliding_window_pattern is {pattern[:60]!r}; it must be letters L (local) and G (global)")
    return [LETTERS[pattern[i % len(pattern)].upper()] for i in range(layers)]


def _rotary_layers(config: Config, layers: int) -> list[bool]:
    # A flag of 1 in `no_rope_layers` means rotary, whatever its name says.
    if config.value("no_rope_layers"):
        return [bool(entry) for entry in config.items("no_rope_layers", layers) or []]
    interval = config.count("no_rope_layer_interval", default=NO_ROPE_INTERVAL)
    return [(i + 1) % interval != 0 for i in range(layers)]


def _window_size(config: Config, family: Family, kind: str) -> int | None:
    """Tokens in a window; None where the config states none (null)."""
    if kind == "chunked":
        # A key that is stated as null takes no default.
        default = None if config.states("attention_chunk_size") else CHUNK_DEFAULT
        return config.count("attention_chunk_size", default=default)
    if family.windows == "late" and not config.flag("use_sliding_window", False):
        raise config.error("layer_types has sliding layers but use_sliding_window is false")
    default = None if config.states("sliding_window") else family.window_default
    size = config.count("sliding_window", "sliding_window_size", "local_attention", "window_size", default=default)
    # Families whose windows are optional may say none.
    if size is None and family.windows not in ("all", "late"):
        raise config.error("sliding_window is missing, which its sliding layers need")
    return size


# One layer that is being read: the source of its sizes, and how each of its matrices is stored.


MOST_LAYERS = 2_000
"""More layers than any model has: a wrong figure should not take all memory to read."""

LAYER_KEYS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
HIDDEN_KEYS = ("hidden_size", "n_embd", "d_model", "n_embed", "dim")
HEAD_KEYS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
KV_HEAD_KEYS = (
    "num_key_value_heads",
    "num_kv_heads",
    "multi_query_group_num",
    "num_attention_groups",
    "n_kv_heads",
    "attn_config.kv_n_heads",
)
INTERMEDIATE_KEYS = (
    "intermediate_size",
    "n_inner",
    "ffn_dim",
    "ffn_hidden_size",
    "hidden_dim",
    "d_ff",
    "mlp_hidden_size",
)
HEAD_DIM_KEYS = ("head_dim", "kv_channels", "attention_head_dim")
VOCABULARY_KEYS = ("vocab_size", "padded_vocab_size")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layer:
    """The layer at `index` of a config. Beyond the last layer it is a multi-token-prediction module's."""

    config: Config  # the table that describes the language model
    family: Family
    hidden: float
    index: int
    window: Window = FULL
    shares_cache: bool = False  # its keys and values are an earlier layer's
    quantised: Quantization
    base: WeightFormat  # of what is not quantised
    name: str  # of the model, in errors

    def size(self, *keys: str, default: Any = REQUIRED) -> Any:
        """A positive integer of the config, or the family's published default of the first key."""
        return self.config.count(*keys, default=dict(self.family.defaults).get(keys[0], default))

    def product(
        self,
        modules: Sequence[str],
        fused: str = "",
        parent: str = "",
        experts: bool = False,
        inputs: float | None = None,
        outputs: Sequence[float] | None = None,
    ) -> WeightFormat:
        """The format of one product that runs `modules` of `parent` as one; `fused` is the name of several as one.

        Without modules it is a product that no checkpoint quantises.

        Args:
          modules, fused, parent: names in a checkpoint.
          experts: whether it is of routed experts.
          inputs: columns; None: the hidden size.
          outputs: rows of each of the modules, in proportion; None: of equal size.
        """
        # Some schemes quantise experts alone.
        if not modules or (self.quantised.experts_only and not experts):
            return self.base
        one = fused if len(modules) > 1 else ""
        tensors = [
            Tensor(
                # A fused module is asked for under both names: checkpoints list either.
                paths=(self._path(parent, module), self._path(parent, one or module)),
                kind=self.family.modules.kind(module),
                inputs=self.hidden if inputs is None else inputs,
                outputs=rows,
                layer=self.index,
                routed=experts,
            )
            for module, rows in zip(modules, outputs or [1.0] * len(modules), strict=True)
        ]
        return linear_format(self.quantised, tensors, self.base, self.name)

    def router(self, parent: str) -> WeightFormat:
        """The format of the scores of experts, which few checkpoints quantise."""
        if not self.quantised.router:
            return self.base
        paths = tuple(self._path(parent, name) for name in ("gate", "router"))
        return linear_format(
            self.quantised, [Tensor(paths, "router", self.hidden, layer=self.index)], self.base, self.name
        )

    def _path(self, parent: str, module: str) -> str:
        return ".".join(part for part in (self.family.modules.layers, str(self.index), parent, module) if part)


def layer_count(config: Config) -> int:
    """Number of a config's layers, at most 2,000; where no key holds it, that of the layers it lists."""
    listed = config.value("layers_block_type", default=[])
    default = len(listed) if isinstance(listed, list) and listed else REQUIRED
    layers = config.count(*LAYER_KEYS, default=default)
    if layers > MOST_LAYERS:
        raise config.error(f"{config.spelling(*LAYER_KEYS)} is {layers}; it must be at most {MOST_LAYERS}")
    return layers


# Sparse attention as configs describe it: the indexer's cache, and tokens that a query attends to.


SCALED_FP8 = 1.0 + 4.0 / 128.0
FP8_SCORES = WeightFormat(bytes=SCALED_FP8, compute="fp8", fallback="bf16")
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
    # An indexer costs nothing in layers that see everything anyway.
    if layer.family.selection != "tokens" or _sees_all(layer):
        return None
    shared = _shares(layer)
    head_dim = 0.0 if shared else config.number("index_head_dim")
    tokens, pool = config.count("index_topk"), layer.size("index_kpool", default=1) if ratio is None else 1
    if tokens % pool:
        raise config.error(f"index_topk is {tokens}; it must be a multiple of index_kpool, {pool}")
    config.value("index_kpool_always_select_tail")
    # Pooled keys have a gate per channel beside them.
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
        scoring=FP8_SCORES,
    )


def block_selection(layer: Layer) -> Selection | None:
    """The indexer of one layer that chooses blocks of tokens, or None for a layer that attends to everything.

    It scores every token's key and takes the best of a block for the block, so one key stands for one token; each of
    its heads chooses for one group of heads.

    Source: MiniMax-M3 (block-sparse attention), `sparse_score_type` "max".
    """
    # Older configs have a table of the indexer, newer ones flat keys.
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
        # A prediction module beyond the last layer is as the last one.
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
        block=float(table.count(size)),
        scoring=layer.base,
    )


def _sees_all(layer: Layer) -> bool:
    """Whether `layer_types` calls the layer one without an indexer, among others that have one."""
    types = layer.config.value("layer_types")
    names = SELECTED[layer.family.selection or ""]
    # Token selection counts only if some layer is named after it: other types are then full layers.
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

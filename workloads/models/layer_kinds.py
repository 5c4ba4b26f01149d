"""Layers whose weights several places of a model use, as Zamba2's configs describe them."""

import dataclasses

from jaxroof.layers.attention import Attention
from jaxroof.layers.composite import SharedTransformer
from jaxroof.model import Block
from workloads.config import Config
from workloads.families.family import Family
from workloads.models.attention import block_config
from workloads.models.experts import layers_with_experts
from workloads.models.feedforward import dense
from workloads.models.layer import FULL, HEAD_KEYS, KV_HEAD_KEYS, Layer, Window, layer_count, layer_windows

RANK = 128
"""Published class default of Zamba2's `adapter_rank`."""

SHARED_WORDS = {"mamba": False, "hybrid": True}
"""`layers_block_type` -> whether a shared layer stands in front of the layer."""

WITHOUT_EFFECT = ("kv_channels", "num_query_groups", "use_shared_mlp_adapter", "chunk_size", "num_logits_to_keep")
"""Keys that published modelling code does not ask for, or that a kernel or the rows of the head are sized by."""


def shared_places(config: Config, layers: int) -> set[int]:
    """Indices of the layers that have a shared one in front.

    Raises:
      ValueError: one line, where no key says it or two keys differ.
    """
    types = config.items("layers_block_type", layers, SHARED_WORDS)
    listed = config.layer_indices("hybrid_layer_ids", layers)
    # Two spellings of the same places have to agree.
    stated = None if types is None else {i for i, word in enumerate(types) if SHARED_WORDS[word]}
    if stated is None and listed is None:
        raise config.error("layers_block_type is missing (or hybrid_layer_ids)")
    if stated is not None and listed is not None and stated != set(listed):
        raise config.error(f"hybrid_layer_ids is {listed}, but layers_block_type has hybrid at {sorted(stated)}")
    places = stated or set(listed or [])
    if not places:
        raise config.error("layers_block_type has no hybrid layer")
    return places


def shared_block(layer: Layer) -> Block:
    """One place of a shared layer as a block of count 1. Raises `ValueError` for a missing size, by its key.

    Norms: one over hidden state and embedding, twice as wide, and one in front of the feed-forward.
    """
    config, modules, hidden = layer.config, layer.family.modules, layer.hidden
    heads = config.count(*HEAD_KEYS)
    joined = config.count("attention_hidden_size", default=int(2 * hidden))
    if joined != 2 * hidden:
        raise config.error(f"attention_hidden_size is {joined}; it must be twice the hidden size {hidden:.0f}")
    for key in WITHOUT_EFFECT:
        config.value(key)
    kv_heads = config.count(*KV_HEAD_KEYS, default=heads)
    width = float(config.count("attention_head_dim", default=max(2 * int(hidden) // heads, 1)))
    places, copies = len(shared_places(config, layer_count(config))), config.count("num_mem_blocks", default=1)
    rank = config.number("adapter_rank", default=RANK)
    # Places over copies: how many layers multiply with one copy's weights.
    uses = places / min(copies, places)
    mixer = SharedTransformer(
        attention=Attention(
            heads=float(heads),
            kv_heads=float(kv_heads),
            head_dim=width,
            value_dim=width,
            window=None,
            inputs=2.0,
            qkv=layer.product(modules.qkv, modules.fused_qkv, inputs=2.0 * hidden),
            output=layer.product([modules.output], inputs=heads * width),
        ),
        feedforward=dense(layer),
        uses=uses,
        attention_rank=rank if config.flag("use_shared_attention_adapter", False) else None,
        feedforward_rank=rank,
        own=layer.base,
    )
    # Norms of a place are shared too, so each place has its part of them.
    return Block(count=1.0, attention=mixer, feedforward=None, norms=3.0, other_parameters=3.0 * hidden / uses)


# Kind of each layer of a model: its mixer, its feed-forward, and its attention window.


LETTERS = {
    "M": ("mamba2", None),
    "*": ("softmax", None),
    "-": (None, "dense"),
    "E": (None, "experts"),
}
"""One letter of `hybrid_override_pattern` -> mixer and feed-forward of a layer that has only one of both."""

WORDS = {
    "mamba": "M",
    "linear_attention": "M",
    "attention": "*",
    "full_attention": "*",
    "mlp": "-",
    "moe": "E",
}
"""`layers_block_type` -> letter."""

SHARED = "shared"
"""Mixer of a place of a shared layer, which stands in front of a layer with a state."""

FULL_INTERVAL = 4  # published class default of Qwen's full_attention_interval


@dataclasses.dataclass(frozen=True)
class LayerKind:
    """The kinds of one layer's parts."""

    mixer: str | None  # a key of `huggingface.MIXERS`
    feedforward: str | None  # "dense" or "experts"
    window: Window = FULL
    shares_cache: bool = False  # its keys and values are an earlier layer's


def layer_kinds(config: Config, family: Family, layers: int) -> list[LayerKind]:
    """The kind of every layer. Raises `ValueError` for a pattern whose length or entries are not allowed."""
    if family.pattern == "letters":
        return [LayerKind(*LETTERS[letter]) for letter in _letters(config, layers)]
    rules = family.experts
    experts = layers_with_experts(config, rules, layers) if rules else [False] * layers
    feedforwards = ["experts" if has else "dense" for has in experts]
    if family.pattern == "all":
        return [LayerKind(family.linear, None)] * layers
    if family.pattern == "double":
        # LongCat: two attention layers with dense feed-forwards, and experts beside both.
        both = LayerKind(family.mixer, "dense")
        return [both, both, LayerKind(None, "experts")] * layers
    if family.pattern == "shared":
        places, own = shared_places(config, layers), LayerKind(family.linear, None)
        # A shared layer is a layer of its own in front of the layer with a state.
        return [kind for i in range(layers) for kind in ((LayerKind(SHARED, None), own) if i in places else (own,))]
    if family.sizes == "blocks":
        return [_block_kind(config, family, i) for i in range(layers)]
    if family.pattern is not None:
        full = FULL_LAYERS[family.pattern](config, layers)
        mixers = [family.mixer if i in full else family.linear for i in range(layers)]
        return [LayerKind(mixer, dense) for mixer, dense in zip(mixers, feedforwards, strict=True)]
    windows = [FULL] * layers if family.mixer == "compressed" else layer_windows(config, family, layers)
    # Gemma 3n: the last layers reuse the cache of earlier ones.
    own = layers - (config.count("num_kv_shared_layers", default=0, minimum=0) if family.shared_cache else 0)
    if own < 0:
        raise config.error(f"num_kv_shared_layers is {config.value('num_kv_shared_layers')}; there are {layers} layers")
    kinds = zip(feedforwards, windows, strict=True)
    return [LayerKind(family.mixer, dense, window, i >= own) for i, (dense, window) in enumerate(kinds)]


def prediction_kind(config: Config, family: Family, kinds: list[LayerKind]) -> LayerKind:
    """The kind of a multi-token-prediction module's layer: what the config says of it, else that of the last layer."""
    # What the family says of its prediction modules comes first.
    if family.prediction_dense:
        window = next((kind.window for kind in kinds if kind.window.limited), FULL)
        return LayerKind(family.mixer, "dense", window)
    if family.pattern == "sparse":
        return LayerKind(family.mixer, kinds[-1].feedforward)
    if family.pattern != "letters":
        return kinds[-1]
    words = config.value("mtp_layers_block_type")
    if isinstance(words, list):
        pattern = "".join(WORDS.get(word, "?") if isinstance(word, str) else "?" for word in words)
    else:
        # Published default: one attention layer and one of experts.
        pattern = config.text("mtp_hybrid_override_pattern", default="*E")
    parts = [LETTERS[letter] for letter in pattern if letter in LETTERS]
    if len(parts) != len(pattern) or not 0 < len(parts) <= 2:
        raise config.error(f"mtp_hybrid_override_pattern is {pattern!r}; it must be one or two of {' '.join(LETTERS)}")
    mixers, feedforwards = ([part[i] for part in parts if part[i]] for i in (0, 1))
    return LayerKind(mixers[0] if mixers else None, feedforwards[0] if feedforwards else None)


def _letters(config: Config, layers: int) -> str:
    words = config.items("layers_block_type", layers)
    if words is not None:
        wrong = [word for word in words if not isinstance(word, str) or word not in WORDS]
        if wrong:
            raise config.error(f"layers_block_type has {wrong[0]!r}; it must be one of {', '.join(WORDS)}")
        return "".join(WORDS[word] for word in words)
    pattern = config.text("hybrid_override_pattern")
    wrong = [letter for letter in pattern if letter not in LETTERS]
    if wrong or len(pattern) != layers:
        raise config.error(f"hybrid_override_pattern must be {layers} letters of {' '.join(LETTERS)}, one per layer")
    return pattern


def _block_kind(config: Config, family: Family, index: int) -> LayerKind:
    block = block_config(config, index)
    parts: list[str | None] = []
    for key, kind in (("attention", family.mixer), ("ffn", "dense")):
        table = block.table(key)
        if table is None:
            raise block.error(f"{key} is missing")
        for other in ("replace_with_linear", "sparsify", "window_length"):
            if table.value(other):
                raise table.error(f"{other} is {table.value(other)!r}, which is not covered yet")
        # A part that a search has removed costs nothing.
        parts.append(None if table.flag("no_op", False) else kind)
    mixer, feedforward = parts
    return LayerKind(mixer, feedforward)


WORDED = {"mamba": False, "attention": True, "linear_attention": False, "full_attention": True}
"""Words for layers -> whether they attend to everything."""

SPARSE_WORDS = {"linear_attention": False, "deepseek_sparse_attention": True, "full_attention": True}
"""The same, where an indexer chooses of everything."""


def _interval(config: Config, layers: int) -> set[int]:
    stated = _stated(config, layers, {"linear_attention": False, "full_attention": True})
    if stated is not None:
        return stated
    interval = config.count("full_attention_interval", "layer_group_size", default=FULL_INTERVAL)
    return {i for i in range(layers) if (i + 1) % interval == 0}


def _sparse(config: Config, layers: int) -> set[int]:
    """GLM-5.3: layers whose indexer chooses, which its table of linear layers may list too, from 0."""
    stated = _stated(config, layers, SPARSE_WORDS)
    full_layers = {i for i in range(layers) if (i + 1) % FULL_INTERVAL == 0} if stated is None else stated
    table = config.table("linear_attn_config")
    listed = None if table is None else table.layer_indices("full_attn_layers", layers)
    rest = None if table is None else table.layer_indices("kda_layers", layers)
    # The table may repeat what `layer_types` says, but not contradict it.
    if (listed is not None and set(listed) != full_layers) or (
        rest is not None and set(rest) != set(range(layers)) - full_layers
    ):
        raise config.error("full_attn_layers and kda_layers of linear_attn_config must name the layers of layer_types")
    return full_layers


def _kimi(config: Config, layers: int) -> set[int]:
    """Layers are counted from 1 in `full_attn_layers` and `kda_layers`, which have to name every layer once."""
    table = config.table("linear_attn_config")
    stated = None if table is not None else _stated(config, layers, {"linear_attention": False, "full_attention": True})
    if stated is not None:
        return stated
    # Layers are numbered from 1 in these lists, from 0 elsewhere.
    if table is None:
        raise config.error("linear_attn_config is missing")
    full, linear = (_counted_from_one(table, key, layers) for key in ("full_attn_layers", "kda_layers"))
    if sorted(full + linear) != list(range(layers)):
        raise table.error(f"full_attn_layers and kda_layers must name each of {layers} layers once, from 1")
    return set(full)


def _counted_from_one(table: Config, key: str, layers: int) -> list[int]:
    value = table.value(key)
    if not isinstance(value, list) or not all(type(i) is int and 1 <= i <= layers for i in value):
        raise table.error(f"{key} must be a list of layers from 1 to {layers}")
    return [i - 1 for i in value]


def _indices(config: Config, layers: int) -> set[int]:
    stated = _stated(config, layers, WORDED, "layers_block_type")
    return set(config.layer_indices("attn_layer_indices", layers) or []) if stated is None else stated


def _types(config: Config, layers: int) -> set[int]:
    stated = _stated(config, layers, WORDED)
    if stated is not None:
        return stated
    numbers = config.items("attn_type_list", layers)
    if numbers is None or any(number not in (0, 1) for number in numbers):
        raise config.error("layer_types is missing (or attn_type_list, a list of 0 (linear) and 1 (full))")
    return {i for i, number in enumerate(numbers) if number}


def _period(config: Config, layers: int) -> set[int]:
    period, offset = config.count("attn_layer_period"), config.count("attn_layer_offset", minimum=0)
    return {i for i in range(layers) if i % period == offset}


def _convolutions(config: Config, layers: int) -> set[int]:
    stated = _stated(config, layers, {"conv": False, "full_attention": True})
    if stated is not None:
        return stated
    indices = config.layer_indices("full_attn_idxs", layers)
    if indices is None:
        raise config.error("layer_types is missing (or full_attn_idxs, the layers that have attention)")
    return set(indices)


FULL_LAYERS = {
    "period": _period,
    "convolutions": _convolutions,
    "interval": _interval,
    "sparse": _sparse,
    "kimi": _kimi,
    "indices": _indices,
    "types": _types,
}
"""`Family.pattern` -> the indices of the layers that are not linear."""


def _stated(config: Config, layers: int, words: dict[str, bool], key: str = "layer_types") -> set[int] | None:
    types = config.items(key, layers, words)
    return None if types is None else {i for i, kind in enumerate(types) if words[kind]}

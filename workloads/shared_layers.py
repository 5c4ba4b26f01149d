"""Layers whose weights several places of a model use, as Zamba2's configs describe them."""

from jaxroof.layers.attention import Attention
from jaxroof.layers.composite import SharedTransformer
from jaxroof.model import Block
from workloads.config import Config
from workloads.feedforward import dense
from workloads.layer import HEAD_KEYS, KV_HEAD_KEYS, Layer, layer_count

RANK = 128
"""Published class default of Zamba2's `adapter_rank`."""

WORDS = {"mamba": False, "hybrid": True}
"""`layers_block_type` -> whether a shared layer stands in front of the layer."""

WITHOUT_EFFECT = ("kv_channels", "num_query_groups", "use_shared_mlp_adapter", "chunk_size", "num_logits_to_keep")
"""Keys that published modelling code does not ask for, or that a kernel or the rows of the head are sized by."""


def shared_places(config: Config, layers: int) -> set[int]:
    """Indices of the layers that have a shared one in front.

    Raises:
      ValueError: one line, where no key says it or two keys differ.
    """
    types = config.items("layers_block_type", layers, WORDS)
    listed = config.layer_indices("hybrid_layer_ids", layers)
    stated = None if types is None else {i for i, word in enumerate(types) if WORDS[word]}
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
    return Block(count=1.0, attention=mixer, feedforward=None, norms=3.0, other_parameters=3.0 * hidden / uses)

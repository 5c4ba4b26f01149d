"""What a Hugging Face config describes: its language model as groups of identical layers."""

from collections.abc import Iterable

from jaxroof.model import Attention, Block, Experts, FeedForward, Model, WeightFormat
from workloads.config import REQUIRED, Config
from workloads.coverage import language_model
from workloads.experts import expert_dimensions, layers_with_experts
from workloads.family import ExpertLayers, Family
from workloads.other_parameters import POSITION_KEYS, layer_parameters, model_parameters
from workloads.quantization import Quantization, linear_format
from workloads.windows import Window, layer_windows

MOST_LAYERS = 10_000
"""More layers than any model has: a wrong figure should not take all memory to read."""

LAYER_KEYS = ("num_hidden_layers", "n_layer")
HIDDEN_KEYS = ("hidden_size", "n_embd")
HEAD_KEYS = ("num_attention_heads", "n_head")
INTERMEDIATE_KEYS = ("intermediate_size", "n_inner", "ffn_dim")
HEAD_DIM_KEYS = ("head_dim", "kv_channels")


def model(config: Config, quantised: Quantization, base: WeightFormat) -> Model:
    """The language model of a config, every number a float.

    Layers that are equal in every size, window and number format become one block, wherever they stand: a layer's
    place does not change what it costs.

    Args:
      config: the whole config; its text_config is read where it nests one.
      quantised: which linear layers are quantised, and how.
      base: the 16 or 32-bit format of everything that is not.

    Raises:
      ValueError: in one line, an architecture that is not covered, with what is missing; a missing key; a value
        that is negative, zero, not finite or of the wrong type; sizes that contradict each other.
    """
    family, text = language_model(config)
    layers = text.count(*LAYER_KEYS)
    if layers > MOST_LAYERS:
        raise text.error(f"{text.spelling(*LAYER_KEYS)} is {layers}; it must be at most {MOST_LAYERS}")
    hidden = float(text.count(*HIDDEN_KEYS))
    windows = layer_windows(text, family, layers)
    rules = family.experts
    experts = layers_with_experts(text, rules, layers) if rules else [False] * layers
    counts: dict[tuple[Attention, FeedForward | Experts], int] = {}
    for index, (window, has_experts) in enumerate(zip(windows, experts, strict=True)):
        formats = _Formats(quantised, base, family, f"{family.modules.layers}.{index}", config.name)
        attention = _attention(text, family, hidden, window, formats)
        feedforward = _experts(text, family, rules, formats) if has_experts else _dense(text, family, hidden, formats)
        counts[attention, feedforward] = counts.get((attention, feedforward), 0) + 1
    if quantised.assignments and all(_formats(*layer) == {base} for layer in counts):
        raise config.error("its quantisation names no linear layer of this model")
    blocks = tuple(
        Block(
            count=float(count),
            attention=attention,
            feedforward=feedforward,
            other_parameters=float(layer_parameters(text, family, hidden, attention, feedforward)),
        )
        for (attention, feedforward), count in counts.items()
    )
    untied = not _tied(config, text, family)
    head = linear_format(quantised, [("lm_head",)], base, config.name) if quantised.head and untied else base
    return Model(
        hidden=hidden,
        vocabulary=float(_count(text, family, "vocab_size")),
        blocks=blocks,
        embedding=base,
        head=head,
        untied=float(untied),
        other_parameters=float(model_parameters(text, family, hidden)),
    )


def max_position(config: Config) -> int | None:
    """The longest sequence in tokens that a config allows, or None where it does not say."""
    _, text = language_model(config)
    return text.count(*POSITION_KEYS, default=None)


def _formats(attention: Attention, feedforward: FeedForward | Experts) -> set[WeightFormat]:
    """The formats of a layer's matrices, the router's left out."""
    shared = feedforward.shared if isinstance(feedforward, Experts) else None
    layers = [feedforward] if shared is None else [feedforward, shared]
    return {attention.qkv, attention.output, *(f for layer in layers for f in (layer.up, layer.down))}


class _Formats:
    """The formats of one layer's matrix products, by the names that the family's checkpoints use."""

    def __init__(self, quantised: Quantization, base: WeightFormat, family: Family, layer: str, name: str):
        self.quantised, self.base, self.family, self.layer, self.name = quantised, base, family, layer, name

    def product(self, modules: Iterable[str], fused: str, parent: str = "", experts: bool = False) -> WeightFormat:
        """The format of one product that runs `modules` of `parent` as one; `fused` is its name where it is one."""
        if self.quantised.experts_only and not experts:
            return self.base
        paths = [[self._path(parent, module), self._path(parent, fused)] for module in modules]
        return linear_format(self.quantised, paths, self.base, self.name)

    def _path(self, parent: str, module: str) -> str:
        return ".".join(part for part in (self.layer, parent, module) if part)


def _attention(config: Config, family: Family, hidden: float, window: Window, formats: _Formats) -> Attention:
    prefix = "swa_" if family.windows == "pattern" and window.limited else ""
    heads = _heads(config, family, prefix)
    kv_heads = _kv_heads(config, family, heads, prefix)
    head_dim = _head_dim(config, family, hidden, heads, prefix)
    value_dim = config.count(f"{prefix}v_head_dim", default=head_dim) if family.reads_value_dim else head_dim
    modules = family.modules
    return Attention(
        heads=float(heads),
        kv_heads=float(kv_heads),
        head_dim=float(head_dim),
        value_dim=float(value_dim),
        window=window.tokens,
        window_kind=window.kind,
        qkv=formats.product(modules.qkv, modules.fused_qkv),
        output=formats.product([modules.output], modules.output),
    )


def _dense(config: Config, family: Family, hidden: float, formats: _Formats) -> FeedForward:
    keys = INTERMEDIATE_KEYS
    if family.experts and family.experts.dense_intermediate != "intermediate_size":
        keys = (family.experts.dense_intermediate,)
    default = int(family.intermediate_factor * hidden) if family.intermediate_factor else REQUIRED
    width = config.count(*keys, default=default) * family.intermediate_scale
    modules = family.modules
    return FeedForward(
        intermediate=float(width),
        up_projections=family.up_projections,
        up=formats.product(modules.up, modules.fused_up, modules.dense),
        down=formats.product([modules.down], modules.down, modules.dense),
    )


def _experts(config: Config, family: Family, rules: ExpertLayers, formats: _Formats) -> Experts:
    sizes = expert_dimensions(config, rules)
    modules = family.modules
    parent = f"{modules.moe}.experts"
    # The first and the last expert stand for all: a list that excludes only some of them is refused.
    numbered = [f"{i}." for i in dict.fromkeys((0, int(sizes.experts) - 1))]
    up = [f"{number}{module}" for number in numbered for module in modules.expert_up]
    down = [f"{number}{modules.expert_down}" for number in numbered]
    shared = None
    if sizes.shared_intermediate:
        place = f"{modules.moe}.{modules.shared}"
        shared = FeedForward(
            intermediate=sizes.shared_intermediate,
            up_projections=family.up_projections,
            up=formats.product(modules.up, modules.fused_up, place),
            down=formats.product([modules.down], modules.down, place),
        )
    return Experts(
        experts=sizes.experts,
        top_k=sizes.top_k,
        intermediate=sizes.intermediate,
        up_projections=family.up_projections,
        up=formats.product(up, "gate_up_proj", parent, experts=True),
        down=formats.product(down, modules.down, parent, experts=True),
        router=formats.base,
        shared=shared,
    )


def _count(config: Config, family: Family, *keys: str) -> int:
    """A required size, or the family's published default where configs leave it out."""
    return config.count(*keys, default=dict(family.defaults).get(keys[0], REQUIRED))


def _heads(config: Config, family: Family, prefix: str) -> int:
    return _count(config, family, f"{prefix}num_attention_heads", *([] if prefix else HEAD_KEYS[1:]))


def _kv_heads(config: Config, family: Family, heads: int, prefix: str) -> int:
    key = f"{prefix}num_key_value_heads"
    if config.value(key) is None and not prefix and family.kv_heads_default == "heads":
        return heads
    kv_heads = _count(config, family, key)
    if heads % kv_heads:
        raise config.error(f"{key} is {kv_heads}; it must divide the {heads} attention heads")
    return kv_heads


def _head_dim(config: Config, family: Family, hidden: float, heads: int, prefix: str) -> int:
    keys = [f"{prefix}{key}" for key in HEAD_DIM_KEYS]
    if family.head_dim_default == "hidden/heads" and config.value(*keys) is None:
        if hidden % heads:
            raise config.error(f"head_dim is missing and hidden size {hidden:.0f} is not a multiple of {heads} heads")
        return int(hidden) // heads
    return config.count(*keys, default=REQUIRED if family.head_dim_default is None else family.head_dim_default)


def _tied(config: Config, text: Config, family: Family) -> bool:
    """Whether the head is the embedding's transpose. A config and its nested text_config have to agree."""
    key = "tie_word_embeddings"
    stated = [table.flag(key, family.tied) for table in (config, text) if table.states(key)]
    if len(set(stated)) > 1:
        raise config.error(f"{key} differs between the config and its text_config")
    return stated[0] if stated else family.tied

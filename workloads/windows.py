"""Attention window of each layer."""

import dataclasses

from workloads.config import Config
from workloads.family import Family

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
    kinds = _family_kinds(config, family, layers) if types is None else [names[kind] for kind in types]
    if any(kind is not None for kind in kinds) and family.windows is None:
        raise config.error("layer_types has windowed layers, which this model_type is not read with")
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
        if pattern is None and config.states("sliding_window") and config.value("sliding_window") is None:
            return [None] * layers  # it says that there is no window
        if isinstance(pattern, str):
            return _letters(config, pattern, layers)
        keys = ("sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers")
        period = config.count(*keys, default=family.period)
        return [None if (i + 1) % period == 0 else "sliding" for i in range(layers)]
    if family.windows == "first":
        period = config.count("global_attn_every_n_layers", default=family.period)
        return [None if i % period == 0 else "sliding" for i in range(layers)]
    if family.windows == "chunked":
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
    if config.value("no_rope_layers"):
        return [bool(entry) for entry in config.items("no_rope_layers", layers) or []]
    interval = config.count("no_rope_layer_interval", default=NO_ROPE_INTERVAL)
    return [(i + 1) % interval != 0 for i in range(layers)]


def _window_size(config: Config, family: Family, kind: str) -> int | None:
    """Tokens in a window; None where the config states none (null)."""
    if kind == "chunked":
        default = None if config.states("attention_chunk_size") else CHUNK_DEFAULT
        return config.count("attention_chunk_size", default=default)
    if family.windows == "late" and not config.flag("use_sliding_window", False):
        raise config.error("layer_types has sliding layers but use_sliding_window is false")
    default = None if config.states("sliding_window") else family.window_default
    size = config.count("sliding_window", "sliding_window_size", "local_attention", "window_size", default=default)
    if size is None and family.windows not in ("all", "late"):
        raise config.error("sliding_window is missing, which its sliding layers need")
    return size

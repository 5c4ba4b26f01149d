"""Layers with a state as configs describe them: delta nets, Mamba, lightning attention, short convolutions."""

from jaxroof.layers.composite import SideBySide
from jaxroof.layers.linear_attention import LinearAttention, ShortConvolution
from jaxroof.layers.selective_scan import SelectiveScan
from workloads.config import Config
from workloads.models.attention import attention
from workloads.models.layer import HEAD_KEYS, Layer

MAMBA_KEYS = {
    "heads": ("mamba_num_heads", "mamba_n_heads", "n_mamba_heads"),
    "width": ("mamba_head_dim", "mamba_d_head", "mamba_headdim"),
    "state": ("ssm_state_size", "mamba_d_state"),
    "groups": ("n_groups", "mamba_n_groups", "mamba_ngroups"),
    "convolution": ("conv_kernel", "mamba_d_conv"),
}
"""What hybrids call the sizes of their Mamba-2 layers."""

PURE_KEYS = MAMBA_KEYS | {"heads": ("num_heads",), "width": ("head_dim",), "state": ("state_size",)}
"""What models of Mamba-2 layers alone call them."""


INNER_KEYS = (("d_inner",), ("d_inner", "intermediate_size"))
"""The spellings of a selective scan's channels: in hybrids, and in models of nothing else."""


def gated_delta_net(layer: Layer) -> LinearAttention:
    """Gated delta net: an output gate as wide as the values, and a decay and a write strength per head."""
    config = layer.config
    value_dim = config.count("linear_value_head_dim")
    return _linear(
        layer,
        heads=config.count("linear_num_value_heads"),
        key_heads=config.count("linear_num_key_heads"),
        key_dim=config.count("linear_key_head_dim"),
        value_dim=value_dim,
        # Output gate per value channel, decay and write strength per head.
        gates=value_dim + 2.0,
        convolution=config.count("linear_conv_kernel_dim"),
        rule="delta",
    )


def kimi_delta_attention(layer: Layer) -> LinearAttention:
    """Kimi delta attention: a decay per channel and an output gate, low-rank projections of a head's width.

    With `use_full_rank_gate` the output gate is part of the input projection; the one low-rank gate that is left has
    the weights and products of two of half its rank.
    """
    table = layer.config.table("linear_attn_config")
    if table is None and layer.config.value("linear_num_heads") is not None:
        return _flat_kimi_delta(layer)
    if table is None:
        raise layer.config.error("linear_attn_config is missing")
    heads, dim = table.count("num_heads"), table.count("head_dim")
    full = table.flag("use_full_rank_gate", False)
    return _linear(
        layer,
        heads=heads,
        key_heads=heads,
        key_dim=dim,
        value_dim=dim,
        gates=1.0 + (dim if full else 0.0),
        # One low-rank gate of rank r has as many weights as two of r / 2.
        gate_rank=dim / 2.0 if full else float(dim),
        convolution=table.count("short_conv_kernel_size", default=4),
        rule="delta",
        channelwise=True,
    )


def _flat_kimi_delta(layer: Layer) -> LinearAttention:
    """Kimi delta attention of a config that has its sizes without a table, as transformers 5 writes them."""
    config = layer.config
    heads, dim = config.count("linear_num_heads"), config.count("linear_head_dim")
    taps = config.count("linear_conv_kernel_dim", default=4)
    sizes = {"heads": heads, "key_heads": heads, "key_dim": dim, "value_dim": dim, "gates": 1.0}
    return _linear(layer, **sizes, gate_rank=float(dim), convolution=taps, rule="delta", channelwise=True)


def full_rank_kimi_delta(layer: Layer) -> LinearAttention:
    """Kimi delta attention whose decays per channel and output gate are parts of the input projection (Bailing)."""
    heads = layer.size(*HEAD_KEYS)
    dim = layer.config.count("linear_head_dim", default=None) or layer.config.count("head_dim")
    return _linear(
        layer,
        heads=heads,
        key_heads=heads,
        key_dim=dim,
        value_dim=dim,
        # Decay and output gate per channel, write strength per head.
        gates=1.0 + 2.0 * dim,
        convolution=layer.config.count("short_conv_kernel_size", default=4),
        rule="delta",
        channelwise=True,
    )


def mamba2(layer: Layer) -> LinearAttention:
    """Mamba-2: an output gate as wide as the values, and a time step per head; its B and C are keys and queries."""
    config, keys = layer.config, PURE_KEYS if layer.family.pattern == "all" else MAMBA_KEYS
    heads = config.count(*keys["heads"])
    groups = config.count(*keys["groups"], default=1)
    # Groups of B and C are shared by heads, as keys are in grouped-query attention.
    if heads % groups:
        raise config.error(f"{config.spelling(*keys['groups'])} is {groups}; it must divide the {heads} heads")
    value_dim = _mamba_width(config, layer.hidden, heads, keys["width"])
    inner = config.count("mamba_d_ssm", default=heads * value_dim)
    # The inner width is stated twice in some configs.
    if inner != heads * value_dim:
        raise config.error(f"mamba_d_ssm is {inner}; it must be {heads} heads of {value_dim}")
    return _linear(
        layer,
        heads=heads,
        key_heads=groups,
        key_dim=config.count(*keys["state"]),
        value_dim=value_dim,
        gates=value_dim + 1.0,
        convolution=config.count(*keys["convolution"]),
        rule="decay",
    )


def short_convolution(layer: Layer) -> ShortConvolution:
    """LFM2's gated short convolution, as wide as the hidden size."""
    modules = layer.family.modules
    return ShortConvolution(
        channels=layer.config.number("conv_dim", default=int(layer.hidden)),
        taps=layer.config.number("conv_L_cache"),
        input=layer.product(modules.linear_input),
        output=layer.product([modules.linear_output], inputs=float(layer.hidden)),
    )


def selective_scan(layer: Layer) -> SelectiveScan:
    """Mamba's layer; "auto" is a rank of a sixteenth of the hidden size, rounded up."""
    config, modules = layer.config, layer.family.modules
    # Inner width is an expansion of the hidden size, 2 by default.
    channels = config.count("mamba_expand", "expand", default=2) * int(layer.hidden)
    rank = config.value("mamba_dt_rank", "time_step_rank", default="auto")
    return SelectiveScan(
        channels=config.number(*INNER_KEYS[layer.family.pattern == "all"], default=channels),
        state=config.number("mamba_d_state", "state_size", default=16),
        rank=float(-(-int(layer.hidden) // 16)) if rank == "auto" else config.number("mamba_dt_rank", "time_step_rank"),
        taps=config.number("mamba_d_conv", "conv_kernel", default=4),
        input=layer.product(modules.linear_input),
        selection=layer.base,
        output=layer.product([modules.linear_output], inputs=float(channels)),
    )


def attention_beside_mamba2(layer: Layer) -> SideBySide:
    """Falcon-H1: softmax attention and Mamba-2 side by side."""
    return SideBySide(attention=attention(layer), recurrence=mamba2(layer))


def lightning_attention(layer: Layer) -> LinearAttention:
    """Lightning attention: fixed decays, and an output gate as wide as the values."""
    heads = layer.size(*HEAD_KEYS)
    dim = layer.config.count("head_dim")
    return _linear(
        layer,
        heads=heads,
        key_heads=heads,
        key_dim=dim,
        value_dim=dim,
        gates=float(dim),
        convolution=None,
        rule="decay",
    )


def _mamba_width(config: Config, hidden: float, heads: int, keys: tuple[str, ...]) -> int:
    """Width of a head. "auto" shares the expanded hidden size among them."""
    if config.value(*keys) != "auto":
        return config.count(*keys)
    inner = config.count("mamba_expand", "expand", default=2) * hidden
    if inner % heads:
        # "auto": the expanded width shared evenly.
        raise config.error(f"the expanded hidden size {inner:.0f} is not a multiple of {heads} heads")
    return int(inner) // heads


def _linear(
    layer: Layer,
    convolution: int | None,
    rule: str,
    gate_rank: float | None = None,
    channelwise: bool = False,
    **sizes: float,
) -> LinearAttention:
    modules = layer.family.modules
    return LinearAttention(
        **{key: float(value) for key, value in sizes.items()},
        gate_rank=gate_rank,
        convolution=None if convolution is None else float(convolution),
        rule=rule,
        channelwise=channelwise,
        input=layer.product(modules.linear_input, modules.fused_linear_input),
        output=layer.product([modules.linear_output], inputs=float(sizes["heads"] * sizes["value_dim"])),
    )

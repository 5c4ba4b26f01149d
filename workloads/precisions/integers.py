"""Storage of modules by the `quantization` table that MLX writes into a config: bits and groups, module by module."""

from collections.abc import Callable, Mapping
from typing import Any

from workloads.config import Config
from workloads.precisions import formats
from workloads.precisions.formats import FP16_SCALE, Scheme
from workloads.precisions.storage import Assignment, Quantization, module_names, named

MLX_GROUP, MLX_BITS = 64, 4
"""Weights per group and bits of one where a table does not say: defaults of mlx.nn.quantize."""

AFFINE_BITS = (2, 3, 4, 5, 6, 8)
"""Bits of a weight in the affine mode."""

FLOATS: dict[str, Callable[[], Scheme]] = {
    "mxfp4": formats.mxfp4,
    "mxfp8": lambda: formats.mxfp8(None),
    "nvfp4": lambda: formats.nvfp4(activations=None),
}
"""Modes of floating-point weights; their bits and groups are fixed."""

SETTINGS = ("group_size", "bits", "mode", "quant_method", "linear_class", "quantization_mode")
"""Keys of a table that are not the names of modules."""


def affine(bits: int, group: int) -> Scheme:
    """Integer weights with a 16-bit scale and a 16-bit bias per group. Layers that groups do not divide stay as is."""
    stored = bits / 8.0 + 2.0 * FP16_SCALE / group
    return Scheme(stored, None, f"mlx {bits} bit (group {group})", bits, whole_groups=group)


def stored_as(scheme: Scheme, overrides: tuple[Assignment, ...] = ()) -> Quantization:
    """A model that MLX stores as `scheme` but for `overrides`: table of tokens, head and routers too."""
    return Quantization((*overrides, (None, scheme)), head=True, embedding=True, router=True, apart=True)


def quantization(config: Config) -> Quantization:
    """The storage that a `quantization` table declares.

    Source: ml-explore/mlx-lm, mlx_lm/utils.py (quantize_model, load_model) and mlx, python/mlx/nn/layers/quantized.py.

    Raises:
      ValueError: an unknown mode, bits that MLX does not store, or an entry that is no module's.
    """
    overrides: list[Assignment] = []
    usual = _scheme(config)
    for name, value in config.values.items():
        # `true` is for a module that is stored as all others are.
        if name in SETTINGS or value is True:
            config.own(name)
            continue
        # `false` is for a module that is not quantised.
        if value is False:
            config.own(name)
            overrides.append((named(config, [_path(name)]), None))
            continue
        own = config.own_table(name)
        if own is not None:
            overrides.append((named(config, [_path(name)]), _scheme(own)))
    return stored_as(usual, tuple(overrides))


def _path(name: str) -> str:
    """A module's name as others write it: MLX keeps all experts of a layer in one."""
    return name.replace(".switch_mlp.", ".experts.*.")


def _scheme(config: Config) -> Scheme:
    mode = config.text("mode", default="affine")
    if mode in FLOATS:
        # Read so that they are not noted as unread: the mode fixes both.
        config.value("bits"), config.value("group_size")
        return FLOATS[mode]()
    if mode != "affine":
        raise config.error(f"mode is {mode!r}; it must be affine, {', '.join(FLOATS)}")
    bits = config.count("bits", default=MLX_BITS)
    if bits not in AFFINE_BITS:
        raise config.error(f"bits is {bits}; it must be one of {', '.join(map(str, AFFINE_BITS))}")
    return affine(bits, config.count("group_size", default=MLX_GROUP))


# Storage of modules by GPTQ, AWQ and AutoRound: groups of integers, with rules for single modules.


BITS = (2, 3, 4, 8)
"""Bits of a weight in their kernels."""

NOT_QUANTISED = 16
"""Bits from which on AutoRound leaves a module as it is."""


def gptq(config: Config) -> Quantization:
    """GPTQ, with GPTQModel's `dynamic` rules: `-:REGEX` leaves modules out, `+:REGEX` gives them other bits or groups.

    The first rule that matches counts. Source: ModelCloud/GPTQModel, gptqmodel/quantization/config.py (dynamic_get);
    vLLM, vllm/model_executor/layers/quantization/utils/gptq_utils.py.
    """
    # Every GPTQ checkpoint stores a qzeros tensor, whether or not it is symmetric.
    usual = group_scheme(config, zeros=True, method="gptq")
    groups = config.value("modules_in_block_to_quantize", default=[])
    if not isinstance(groups, list) or not all(isinstance(names, list) for names in groups):
        raise config.error("modules_in_block_to_quantize must be a list of lists of module names")
    targets = named(config, [*(name for names in groups for name in names), "lm_head"]) if groups else None
    excluded = module_names(config, "modules_to_not_convert")
    rules = tuple(_rules(config))
    head = config.flag("lm_head", False) or any(
        scheme is not None and known is not None and known.match("lm_head") for known, scheme in rules
    )
    return Quantization((*rules, (targets, usual)), excluded, head=head)


def _rules(config: Config) -> list[Assignment]:
    table = config.table("dynamic")
    rules: list[Assignment] = []
    if table is None:
        return rules
    for rule, changes in table.values.items():
        sign, colon, pattern = rule.partition(":")
        # A rule without a sign is one that gives other settings.
        if colon and sign in "+-" and sign:
            leaves_out = sign == "-"
        else:
            leaves_out, pattern = False, rule
        table.own(rule)
        if leaves_out:
            rules.append((named(config, [f"re:{pattern}"]), None))
            continue
        if not isinstance(changes, Mapping):
            raise table.error(f"{rule} must be an object of what it changes")
        # What a rule does not change is as in the whole config.
        own = Config(f"{table.name}: {rule}", {**_sizes(config), **changes}, f"{table.path}{rule}.", table.asked)
        rules.append((named(config, [f"re:{pattern}"]), group_scheme(own, zeros=True, method="gptq")))
    return rules


def _sizes(config: Config) -> dict[str, Any]:
    return {key: config.value(key) for key in ("bits", "group_size") if config.value(key) is not None}


def awq(config: Config) -> Quantization:
    """AWQ: all linear layers but those of `modules_to_not_convert`."""
    scheme = group_scheme(config, config.flag("zero_point", True), "awq")
    return Quantization(((None, scheme),), module_names(config, "modules_to_not_convert"))


def marlin(config: Config) -> Quantization:
    """Marlin's own checkpoints: 4-bit integers without zero points."""
    return Quantization(
        ((None, group_scheme(config, zeros=False, method="marlin")),), head=config.flag("lm_head", False)
    )


def auto_round(config: Config) -> Quantization:
    """AutoRound: integers in groups, or a floating-point format by `data_type`; `extra_config` changes single modules.

    Source: intel/auto-round, auto_round/export/export_to_autoround; vLLM, quantization/auto_round.py.
    """
    usual = _rounded(config)
    if usual is None:
        raise config.error("bits is 16 or more for every module: nothing is quantised")
    overrides: list[Assignment] = []
    table = config.table("extra_config")
    for name, own in () if table is None else ((name, table.own_table(name)) for name in table.values):
        if own is None:
            continue
        # What a module does not state is as in the whole config.
        merged = Config(own.name, {**_known(config), **own.values}, own.path, own.asked)
        overrides.append((named(config, [_pattern(name)]), _rounded(merged)))
    head = any(scheme is not None and known is not None and known.match("lm_head") for known, scheme in overrides)
    excluded = module_names(config, "modules_to_not_convert")
    return Quantization((*overrides, (None, usual)), excluded, head=head)


def _known(config: Config) -> dict[str, Any]:
    keys = ("bits", "group_size", "sym", "data_type", "act_bits", "act_data_type", "packing_format")
    return {key: config.value(key) for key in keys if config.value(key) is not None}


def _pattern(name: str) -> str:
    """A module's name, or a regular expression where it has signs of one."""
    return f"re:{name}" if any(sign in name for sign in "*+?[(\\^$|") else name


def _rounded(config: Config) -> Scheme | None:
    """The scheme of AutoRound's settings; None for 16 bits."""
    bits, kind = config.count("bits"), config.text("data_type", default="int")
    # Read for every type of data, so that none is noted as unread.
    config.value("packing_format"), config.value("sym"), config.value("group_size"), config.value("act_data_type")
    if bits >= NOT_QUANTISED:
        return None
    narrow = config.count("act_bits", default=NOT_QUANTISED)
    if kind.startswith(("mx_fp", "mx_fp4", "mx_fp8")):
        activations = {4: "fp4", 8: "fp8"}.get(narrow)
        return formats.mxfp4(activations) if bits == 4 else formats.mxfp8(activations)
    if kind.startswith("nv_fp"):
        return formats.nvfp4(activations={4: "fp4", 8: "fp8"}.get(narrow))
    if kind.startswith("fp"):
        return formats.fp8(activations="fp8" if narrow == 8 else None)
    if kind != "int":
        raise config.error(f"data_type is {kind!r}; it must be int, fp, mx_fp or nv_fp")
    activations = {8: "int8", NOT_QUANTISED: None}.get(narrow, "")
    if activations == "":
        raise config.error(f"act_bits is {narrow}; it must be 8 or 16")
    return group_scheme(config, zeros=True, method="auto-round", activations=activations)


def group_scheme(config: Config, zeros: bool, method: str, activations: str | None = None) -> Scheme:
    """Integers in groups by `bits` and `group_size`; ValueError for others than kernels have."""
    bits = config.count("bits", "w_bit")
    if bits not in BITS:
        raise config.error(f"bits is {bits}; it must be 2, 3, 4 or 8")
    group = config.count("group_size", "q_group_size", minimum=-1)
    if group == 0:
        raise config.error("group_size is 0; it must be a positive integer, or -1 for one group per channel")
    return formats.integer(bits, None if group == -1 else group, zeros, activations, method)

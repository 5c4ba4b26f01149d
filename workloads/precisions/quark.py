"""Storage of modules by Quark, AMD's quantiser: one specification for all, and others by name or class of module."""

from collections.abc import Mapping

from workloads.config import Config
from workloads.precisions import formats
from workloads.precisions.formats import Scheme
from workloads.precisions.storage import Assignment, Quantization, module_names, named

FLOAT8 = ("fp8_e4m3", "fp8_e5m2", "fp8_e4m3fn", "fp8_e4m3fnuz")
HALF = ("bfloat16", "float16", "float32")
MX_FLOATS = {"fp6_e3m2": 6, "fp6_e2m3": 6}
"""6-bit floats, which engines convert to 16 bits: no matrix unit of a device in the catalogue is priced at them."""

OPERANDS = {**dict.fromkeys(FLOAT8, "fp8"), "int8": "int8", "fp4": "fp4", **dict.fromkeys(HALF)}
"""`dtype` of inputs -> precision of the matrix product; None: 16 bits."""


def quantization(config: Config) -> Quantization:
    """The storage that a Quark config declares.

    Source: vLLM, vllm/model_executor/layers/quantization/quark/quark.py (from_config, _find_matched_config); AMD
    Quark, quark.torch.quantization.config.

    Raises:
      ValueError: a type of weights, inputs or cache that is not covered, by its key.
    """
    usual = config.table("global_quant_config")
    if usual is None:
        raise config.error("global_quant_config is missing")
    overrides: list[Assignment] = []
    # Modules by name come before those by class, as the first match counts.
    for key in ("layer_quant_config", "layer_type_quant_config"):
        table = config.table(key)
        if table is None:
            continue
        for name in table.values:
            own = table.own_table(name)
            scheme = None if own is None else _scheme(own)
            if key == "layer_type_quant_config" and name != "Linear":
                raise table.error(f"{name} is a class of modules that is not read; Linear is")
            overrides.append((None if key == "layer_type_quant_config" else named(config, [name]), scheme))
    general: Assignment = (None, _scheme(usual))
    return Quantization(
        (*overrides, general), module_names(config, "exclude"), head=True, kv_precision=_kv_precision(config)
    )


def _kv_precision(config: Config) -> str | None:
    """Precision of cached keys and values: that of the outputs of the modules that `kv_cache_group` lists."""
    export, layers = config.table("export"), config.table("layer_quant_config")
    group = [] if export is None else export.value("kv_cache_group", default=[])
    # The cache's own table comes first, then the outputs of the modules of the cache group.
    tables = [config.table("kv_cache_quant_config")]
    if not isinstance(group, list):
        raise config.error("export: kv_cache_group must be a list of module names")
    if group:
        tables.append(layers)
    for table in tables:
        if table is None:
            continue
        for name in table.values:
            own = table.own_table(name)
            outputs = None if own is None else own.table("output_tensors")
            if outputs is not None and (table is not layers or name in group):
                return _operand(outputs)
    if group:
        raise config.error(f"export: kv_cache_group lists {group[0]!r}, whose output_tensors are not stated")
    return None


def _operand(config: Config) -> str | None:
    kind = config.text("dtype")
    if kind not in OPERANDS:
        raise config.error(f"dtype is {kind!r}; it must be one of {', '.join(OPERANDS)}")
    return OPERANDS[kind]


def _scheme(config: Config) -> Scheme | None:
    """The scheme of one specification; None where its weights stay as they are."""
    # Read so that they are not noted as unread; outputs matter to the cache alone.
    for key in ("bias", "target_device", "output_tensors"):
        config.value(key)
    weights, inputs = _narrowest(config), config.table("input_tensors")
    if weights is None:
        return None
    kind = weights.text("dtype")
    # Weights of 16-bit or 32-bit floats are not quantised.
    if kind in HALF:
        return None
    activations = None if inputs is None else _operand(inputs)
    static = inputs is not None and inputs.value("is_dynamic", default=False) is False
    group = weights.count("group_size", default=None) if weights.value("qscheme") == "per_group" else None
    if kind in FLOAT8:
        block = weights.block("block_size") if weights.value("qscheme") == "per_block" else None
        return formats.fp8(block, activations, calibrated=static and block is None)
    if kind in ("int4", "uint4", "int8", "uint8"):
        # Unsigned integers need a zero point.
        zeros = kind.startswith("u") or weights.value("symmetric") is False
        if isinstance(
            config.value("weight"), list
        ):  # integers of floats: converted to the outer type and multiplied so
            activations = activations or "fp8"
        return formats.integer(int(kind[-1]), group, zeros, activations, "quark")
    if kind == "fp4" and group == formats.MX_GROUP:
        return formats.mxfp4(activations)
    if kind == "fp4" and group == formats.NVFP4_GROUP:
        return formats.nvfp4(group, activations)
    if kind in MX_FLOATS and group == formats.MX_GROUP:
        bits = MX_FLOATS[kind]
        return Scheme(bits / 8.0 + formats.E8M0_SCALE / group, None, f"mx{kind[:3]} (weights only)", bits)
    raise weights.error(f"weights of dtype {kind!r} with group_size {group} are not covered")


def _narrowest(config: Config) -> Config | None:
    """The table of the stored weights: of several stages the last one."""
    value = config.value("weight")
    if not isinstance(value, list):
        return config.table("weight")
    if not value or not all(isinstance(stage, Mapping) for stage in value):
        raise config.error("weight must be an object, or a list of objects")
    return Config(f"{config.name}: weight[{len(value) - 1}]", value[-1])

"""Storage of linear layers by a quantisation config: the method that it names, or that its keys show."""

from collections.abc import Callable

from workloads.config import Config
from workloads.precisions import formats, integers, modelopt, quark, replaced_modules, torchao
from workloads.precisions.compressed_tensors import assignments as compressed_assignments
from workloads.precisions.formats import Scheme
from workloads.precisions.storage import Quantization, module_names, with_experts


def quantization(config: Config) -> Quantization:
    """The quantisation that a `quantization_config` table declares.

    Raises:
      ValueError: an unknown `quant_method`, by name with those that are known; a missing key or a wrong value.
    """
    method = config.text("quant_method", default=None) or _shown_method(config)
    if method is None:
        raise config.error(f"quant_method is missing, and no key shows it; known are {', '.join(sorted(METHODS))}")
    if method in NOT_READ:
        raise config.error(f"quant_method {method!r} is not covered: {NOT_READ[method]}")
    if method not in METHODS:
        raise config.error(f"quant_method {method!r} is not known; known are {', '.join(sorted(METHODS))}")
    return METHODS[method](config)


def _shown_method(config: Config) -> str | None:
    """The method of a config that does not name it, by a key that only its files have."""
    # `producer` is a table in files of ModelOpt; elsewhere the key may be anything.
    producer = config.table("producer") if isinstance(config.value("producer"), dict) else None
    if config.value("quant_algo") is not None or (producer is not None and producer.value("name") == "modelopt"):
        return "modelopt"
    if any(config.value(f"load_in_{bits}bit") is True for bits in (4, 8)):
        return "bitsandbytes"
    return next((method for key, method in SIGNS.items() if config.value(key) is not None), None)


SIGNS = {
    "global_quant_config": "quark",
    "config_groups": "compressed-tensors",
    "quant_type": "torchao",
    "w_bit": "awq",
    "zero_point": "awq",
    "desc_act": "gptq",
    "damp_percent": "gptq",
    "sym": "gptq",
    "quant_config": "hqq",
    "bits": "mlx",
}
"""Keys of configs that do not name a method -> the method that writes them, the surest first."""


def _of_one_scheme(config: Config, scheme: Scheme, experts_only: bool = False) -> Quantization:
    excluded = module_names(config, "modules_to_not_convert")
    return Quantization(((None, scheme),), excluded, experts_only=experts_only)


def _fp8(config: Config) -> Quantization:
    block = config.block("weight_block_size")
    # static: the checkpoint has the scales of activations; dynamic: they are computed as the model runs.
    activations = config.text("activation_scheme", default="dynamic")
    if activations not in ("dynamic", "static"):
        raise config.error(f"activation_scheme is {activations!r}; it must be 'dynamic' or 'static'")
    excluded = module_names(config, "modules_to_not_convert", "ignored_layers")
    return Quantization(
        assignments=((None, formats.fp8(block, calibrated=activations == "static")),), excluded=excluded
    )


def _w4afp8(config: Config) -> Quantization:
    """Experts of 4-bit integers multiplied with FP8 activations, all else FP8 in blocks: SGLang's w4afp8.

    Source: sgl-project/sglang, python/sglang/srt/layers/quantization/w4afp8.py.
    """
    group = config.count("group_size", default=W4AFP8_GROUP)
    block = config.block("weight_block_size") or (W4AFP8_GROUP, W4AFP8_GROUP)
    # Read so that they are not noted as unread: activations are FP8 in any case.
    for key in ("linear_activation_scheme", "moe_activation_scheme", "activation_scheme"):
        config.value(key)
    excluded = module_names(config, "modules_to_not_convert", "ignored_layers")
    linear = Quantization(((None, formats.fp8(block)),), excluded, kv_precision=_kv_scheme(config))
    return with_experts(linear, formats.integer(4, group, False, "fp8", "w4afp8"))


W4AFP8_GROUP = 128
"""Weights per scale of its experts, and rows and columns of its FP8 blocks, where a config does not say."""


def _int8(config: Config) -> Quantization:
    """int8 weights and activations, by channel or in blocks: SGLang's w8a8_int8 and blockwise_int8."""
    block = config.block("weight_block_size")
    scheme = formats.integer(8, None, False, "int8", "")
    if block is not None:
        scheme = formats.int8_blocks(block)
    excluded = module_names(config, "modules_to_not_convert", "ignored_layers")
    config.value("activation_scheme"), config.value("is_dynamic")
    return Quantization(((None, scheme),), excluded)


def _compressed_tensors(config: Config) -> Quantization:
    _refuse_sparsity(config)
    assignments = compressed_assignments(config)
    return Quantization(assignments, module_names(config, "ignore"), head=True, kv_precision=_kv_scheme(config))


def _refuse_sparsity(config: Config) -> None:
    """ValueError where weights are stored without their zeros: the room of a mask and what is left is not counted."""
    table = config.table("sparsity_config")
    # The format of the whole checkpoint, and that of its sparsity table.
    kinds = [config.value("format"), None if table is None else table.value("format")]
    for kind in kinds:
        if kind is not None and any(word in str(kind) for word in ("sparse", "24", "bitmask")):
            raise config.error(f"format {kind!r} stores weights without their zeros, which is not covered")
    if table is not None and table.values.get("sparsity_structure") in ("unstructured", "0:0"):
        table.value("sparsity_structure")  # zeros that no kernel makes use of; of another structure a note says so


def _modelopt(config: Config) -> Quantization:
    config.value("config_groups")  # which say the same as the algorithm, where there is one
    assignments = modelopt.assignments(config)
    excluded = module_names(config, "exclude_modules", "ignore")
    # The head is quantised only where its name is listed.
    head = any(targets is not None and targets.match("lm_head") for targets, _ in assignments)
    return Quantization(
        assignments, excluded, head=head, kv_precision=modelopt.kv_precision(config) or _kv_scheme(config)
    )


def _kv_scheme(config: Config) -> str | None:
    # A text is a name of ModelOpt's, a table is one of compressed-tensors.
    if isinstance(config.value("kv_cache_scheme"), str):
        return modelopt.kv_precision_named(config, config.text("kv_cache_scheme"))
    table = config.table("kv_cache_scheme")
    if table is None:
        return None
    bits, kind = table.count("num_bits"), table.text("type", default="float")
    known = {(8, "float"): "fp8", (8, "int"): "int8", (4, "float"): "fp4"}
    if (bits, kind) not in known:
        raise table.error(f"{bits}-bit {kind} keys and values are not covered; 8-bit float or int and 4-bit float are")
    return known[bits, kind]


METHODS: dict[str, Callable[[Config], Quantization]] = {
    "fp8": _fp8,
    "w8a8_fp8": _fp8,
    "w4afp8": _w4afp8,
    "w8a8_int8": _int8,
    "blockwise_int8": _int8,
    "fbgemm_fp8": lambda config: _of_one_scheme(config, formats.fp8()),
    "fp_quant": replaced_modules.fp_quant,
    **dict.fromkeys(("gptq", "gptq_marlin", "gptqmodel"), integers.gptq),
    **dict.fromkeys(("awq", "awq_marlin"), integers.awq),
    **dict.fromkeys(("auto-round", "intel/auto-round", "autoround", "inc"), integers.auto_round),
    "marlin": integers.marlin,
    "mxfp4": lambda config: _of_one_scheme(config, formats.mxfp4(), experts_only=True),
    "compressed-tensors": _compressed_tensors,
    **dict.fromkeys(("modelopt", "modelopt_fp4", "modelopt_mixed"), _modelopt),
    "quark": quark.quantization,
    "torchao": torchao.quantization,
    "bitsandbytes": replaced_modules.bitsandbytes,
    "hqq": replaced_modules.hqq,
    "eetq": replaced_modules.eetq,
    "quanto": replaced_modules.quanto,
    "bitnet": replaced_modules.bitnet,
    "mlx": integers.quantization,
}
"""`quant_method` -> reader of the config that names it."""

CODEBOOKS = "weights are indices into code books, whose size depends on the shape of every layer"

NOT_READ = {
    **dict.fromkeys(("aqlm", "vptq", "quip", "quip_sharp", "higgs"), CODEBOOKS),
    "spqr": "outliers are stored apart, as many as calibration found",
    "squeezellm": CODEBOOKS,
    **dict.fromkeys(("gptq_marlin_24", "marlin-24"), "2:4 sparse weights"),
    "gguf": "the file holds its types; give the type of file, such as weights q4_k_m",
    "exl2": "bits differ by row as calibration chose them",
    "exl3": "bits differ by layer as calibration chose them",
    "ascend": "types of modules stand in quant_model_description.json",
}
"""Methods whose stored bytes a config does not say, and why."""


def hf_quant_config(config: Config) -> Quantization:
    """The quantisation that ModelOpt's `hf_quant_config.json` declares. Raises `ValueError` as `quantization` does."""
    table = config.table("quantization")
    if table is None:
        raise config.error("quantization is missing")
    return _modelopt(table)


FILES: dict[str, Callable[[Config], Quantization]] = {
    "hf_quant_config.json": hf_quant_config,
    "quantize_config.json": quantization,
    "quant_config.json": quantization,
}
"""Files beside a config that say how weights are stored, of ModelOpt, AutoGPTQ and AutoAWQ -> their readers."""

"""Storage by methods of transformers that replace linear layers one by one: bitsandbytes, HQQ, EETQ, quanto, BitNet."""

from workloads.config import Config
from workloads.precisions import formats
from workloads.precisions.formats import FP16_SCALE, FP32_SCALE, Scheme
from workloads.precisions.storage import Assignment, Quantization, module_names, named

NF4_BLOCK, NF4_SUPERBLOCK = 64, 256
"""Weights per scale, and scales per scale of theirs where they are quantised too: Dettmers et al., arXiv:2305.14314
(QLoRA), section 3; bitsandbytes/functional.py (quantize_4bit)."""

QUANTO_GROUP = 128
"""Weights per scale and shift of quanto's integers below 8 bits: optimum-quanto, tensor/weights/qbits.py."""

HQQ_GROUP = 128
"""Scales, and zeros, per scale and zero of theirs where HQQ quantises them to 8 bits: mobiusml/hqq,
hqq/core/quantize.py."""

HQQ_BITS = {8: 8.0, 6: 8.0, 5: 8.0, 4: 4.0, 3: 32.0 / 10.0, 2: 2.0, 1: 1.0}
"""Bits that HQQ packs a weight of so many bits into; ten of 3 bits take 32. Source: hqq/core/bitpack.py."""


def four_bits(kind: str = "nf4", double: bool = True) -> Scheme:
    """bitsandbytes' 4-bit weights, a float32 scale per 64; `double`: an 8-bit one, and a float32 one per 256 of these.

    4 + 32 / 64 = 4.5 bits; 4 + 8 / 64 + 32 / (64 x 256) = 4.127 bits.
    """
    # B per weight: a float32 scale per block of 64 weights.
    scale = FP32_SCALE / NF4_BLOCK
    if double:
        # Each scale has 8 bits, and 256 of them share a float32 scale.
        scale = (1.0 + FP32_SCALE / NF4_SUPERBLOCK) / NF4_BLOCK
    return Scheme(0.5 + scale, None, f"{kind} (bitsandbytes{', double quantised' if double else ''})", 4)


def bitsandbytes(config: Config) -> Quantization:
    """bitsandbytes: NF4 or FP4, or int8 with 16-bit outliers. The output head is left out unless modules are listed.

    Source: transformers, quantizers/quantizer_bnb_4bit.py, quantizer_bnb_8bit.py and utils/quantization_config.py.

    Raises:
      ValueError: neither 4 nor 8 bits, or an unknown type of 4 bits.
    """
    # transformers saves the flags with and without a leading underscore.
    four = config.flag("load_in_4bit", False) or config.flag("_load_in_4bit", False)
    eight = config.flag("load_in_8bit", False) or config.flag("_load_in_8bit", False)
    if four == eight:
        raise config.error("one of load_in_4bit and load_in_8bit must be true")
    # Read so that they are not noted as unread: they change no stored bytes.
    for key in ("bnb_4bit_compute_dtype", "bnb_4bit_quant_storage", "llm_int8_threshold", "llm_int8_has_fp16_weight"):
        config.value(key)
    config.value("llm_int8_enable_fp32_cpu_offload")
    kind, double = config.text("bnb_4bit_quant_type", default="fp4"), config.flag("bnb_4bit_use_double_quant", False)
    if four and kind not in ("nf4", "fp4"):
        raise config.error(f"bnb_4bit_quant_type is {kind!r}; it must be nf4 or fp4")
    scheme = four_bits(kind, double) if four else Scheme(1.0, "int8", "int8 (bitsandbytes)", 8)
    # Without a list the head is left out; a list takes the place of that default.
    listed = config.value("llm_int8_skip_modules") is not None
    excluded = module_names(config, "llm_int8_skip_modules")
    return Quantization(((None, scheme),), excluded, head=listed, apart=True)


def hqq(config: Config) -> Quantization:
    """HQQ: groups of integers with 16-bit scales and zeros, or 8-bit ones; of all modules, or by the kind of module."""
    table = config.table("quant_config")
    if table is None:
        raise config.error("quant_config is missing")
    excluded = module_names(config, "skip_modules")
    if table.value("weight_quant_params") is not None:
        return Quantization(((None, _hqq_scheme(table)),), excluded, apart=True)
    # Settings by kind of module: each key is the end of a module's path.
    tags: list[Assignment] = []
    for tag in table.values:
        own = table.own_table(tag)
        if own is not None:
            tags.append((named(config, [tag]), _hqq_scheme(own)))
    return Quantization(tuple(tags), excluded, apart=True)


def _hqq_scheme(config: Config) -> Scheme:
    weights = config.table("weight_quant_params")
    if weights is None:
        raise config.error("weight_quant_params is missing")
    bits = weights.count("nbits")
    if bits not in HQQ_BITS:
        raise weights.error(f"nbits is {bits}; it must be one of {', '.join(map(str, sorted(HQQ_BITS)))}")
    group = weights.count("group_size", default=None)
    for key in ("axis", "optimize", "round_zero", "channel_wise", "view_as_float"):
        weights.value(key)
    small = 1.0 + 2.0 * FP16_SCALE / HQQ_GROUP  # of an 8-bit scale or zero
    # A scale and a zero per group, of 16 bits each or quantised to 8.
    meta = sum(small if weights.flag(key, False) else FP16_SCALE for key in ("quant_scale", "quant_zero"))
    for key in ("scale_quant_params", "zero_quant_params", "offload_meta"):
        config.value(key)
    stored = HQQ_BITS[bits] / 8.0 + (0.0 if group is None else meta / group)
    detail = f"hqq, group {group}" if group else "hqq"
    return Scheme(stored, None, f"w{bits}a16 ({detail})", bits, whole_groups=group or 0)


def eetq(config: Config) -> Quantization:
    """EETQ: int8 weights with one scale per channel, converted in the kernel."""
    kind = config.text("weights", default="int8")
    if kind != "int8":
        raise config.error(f"weights is {kind!r}; it must be int8")
    scheme = formats.integer(8, None, False, None, "eetq")
    return Quantization(((None, scheme),), module_names(config, "modules_to_not_convert"), apart=True)


def quanto(config: Config) -> Quantization:
    """quanto: int8 or float8 per channel, int4 or int2 in groups of 128 with a scale and a shift."""
    kind, narrow = config.text("weights", default="int8"), config.text("activations", default=None)
    if narrow not in (None, "int8", "float8"):
        raise config.error(f"activations is {narrow!r}; it must be int8 or float8, or absent")
    activations = {"int8": "int8", "float8": "fp8", None: None}[narrow]
    # Scales per channel are left out; groups below 8 bits have a scale and a shift of 16 bits.
    known = {
        "int8": Scheme(1.0, activations, "w8a8 (quanto)" if activations else "w8a16 (quanto)", 8),
        "float8": formats.fp8(None, activations),
        "int4": Scheme(0.5 + 2.0 * FP16_SCALE / QUANTO_GROUP, None, "w4a16 (quanto, group 128)", 4),
        "int2": Scheme(0.25 + 2.0 * FP16_SCALE / QUANTO_GROUP, None, "w2a16 (quanto, group 128)", 2),
    }
    if kind not in known:
        raise config.error(f"weights is {kind!r}; it must be one of {', '.join(known)}")
    return Quantization(((None, known[kind]),), module_names(config, "modules_to_not_convert"), apart=True)


def bitnet(config: Config) -> Quantization:
    """BitNet: ternary weights, four in a byte, multiplied with int8 activations. Source: transformers, bitnet.py."""
    for key in ("linear_class", "quantization_mode", "use_rms_norm", "rms_norm_eps"):
        config.value(key)
    # Two bits per weight.
    scheme = Scheme(0.25, "int8", "ternary (bitnet, int8 activations)", 2)
    return Quantization(((None, scheme),), module_names(config, "modules_to_not_convert"), apart=True)


def fp_quant(config: Config) -> Quantization:
    """FP-Quant: MXFP4 or NVFP4 weights and activations. Source: transformers, utils/quantization_config.py."""
    kind = config.text("forward_dtype", default="nvfp4")
    known = {"mxfp4": formats.mxfp4("fp4"), "nvfp4": formats.nvfp4()}
    if kind not in known:
        raise config.error(f"forward_dtype is {kind!r}; it must be mxfp4 or nvfp4")
    if config.flag("pseudoquantization", False):
        raise config.error("pseudoquantization is true: weights are stored at 16 bits, and nothing is quantised")
    for key in ("forward_method", "backward_dtype", "hadamard_group_size", "store_master_weights", "transform_init"):
        config.value(key)
    return Quantization(((None, known[kind]),), module_names(config, "modules_to_not_convert"), apart=True)

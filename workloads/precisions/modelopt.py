"""Storage of modules by ModelOpt's `quant_algo`, in `hf_quant_config.json` or inside a config."""

from collections.abc import Callable

from workloads.config import Config
from workloads.precisions import compressed_tensors, formats
from workloads.precisions.formats import Scheme
from workloads.precisions.storage import Patterns, patterns

AWQ_GROUP = 128  # weights per scale where a config does not say, ModelOpt's default for INT4 AWQ

ALGORITHMS: dict[str, Callable[[int | None], Scheme]] = {
    "FP8": lambda group: formats.fp8(calibrated=True),
    "FP8_PER_CHANNEL_PER_TOKEN": lambda group: formats.fp8(),
    # PB: a scale per block; WO: weights alone are in 8 bits; REAL: activations too.
    "FP8_PB_WO": lambda group: formats.fp8((group or 128, group or 128), None),
    "FP8_PB_REAL": lambda group: formats.fp8((group or 128, group or 128)),
    "MXFP8": lambda group: formats.mxfp8(),
    "NVFP4": lambda group: formats.nvfp4(group or formats.NVFP4_GROUP),
    "NVFP4_AWQ": lambda group: formats.nvfp4(group or formats.NVFP4_GROUP),
    "W4A16_NVFP4": lambda group: formats.nvfp4(group or formats.NVFP4_GROUP, None),
    "W4A8_NVFP4_FP8": lambda group: formats.nvfp4(group or formats.NVFP4_GROUP, "fp8"),
    "W4A16_MXFP4": lambda group: formats.mxfp4(),
    "W4A8_MXFP4_FP8": lambda group: formats.mxfp4("fp8"),
    "W4A16": lambda group: formats.integer(4, group, False, None, "modelopt"),
    "W4A16_AWQ": lambda group: formats.integer(4, group or AWQ_GROUP, False, None, "awq"),
    "W4A8_AWQ": lambda group: formats.integer(4, group or AWQ_GROUP, False, "fp8", "awq"),
    "W8A16": lambda group: formats.integer(8, group, False, None, "modelopt"),
    "W8A8_SQ_PER_CHANNEL": lambda group: formats.integer(8, None, False, "int8", "smoothquant"),
}
"""`quant_algo` -> scheme, given `group_size`."""

KV_ALGORITHMS = {"FP8": "fp8", "INT8": "int8", "NVFP4": "fp4"}
"""`kv_cache_quant_algo`, or `kv_cache_scheme` where that is a name -> precision."""


def assignments(config: Config) -> tuple[tuple[Patterns | None, Scheme], ...]:
    """(modules, scheme) of a `quantization` table.

    Raises `ValueError` for an unknown `quant_algo`, by name with those that are known.
    """
    algorithm = config.text("quant_algo", default=None)
    if algorithm is None:
        # Without an algorithm the table may have groups as those of compressed-tensors.
        return compressed_tensors.assignments(config) if config.value("config_groups") else ()
    if algorithm != "MIXED_PRECISION":
        return ((None, _scheme(config, algorithm)),)
    layers = config.table("quantized_layers")
    if layers is None:
        raise config.error("quantized_layers is missing, which MIXED_PRECISION needs")
    # Modules of one scheme become one list of patterns.
    names: dict[Scheme, list[str]] = {}
    for name in layers.values:
        layer = layers.own_table(name)
        if layer is None:
            raise layers.error(f"{name} is null; it must be an object")
        names.setdefault(_scheme(layer, layer.text("quant_algo", default=None)), []).append(name)
    return tuple((patterns(modules), scheme) for scheme, modules in names.items())


def kv_precision(config: Config) -> str | None:
    """Precision of cached keys and values, or None for that of the activations."""
    algorithm = config.text("kv_cache_quant_algo", default=None)
    return None if algorithm is None else kv_precision_named(config, algorithm)


def kv_precision_named(config: Config, algorithm: str) -> str:
    """Precision of cached keys and values by ModelOpt's name; ValueError for another."""
    if algorithm not in KV_ALGORITHMS:
        raise config.error(f"KV cache algorithm {algorithm!r} is not known; known are {', '.join(KV_ALGORITHMS)}")
    return KV_ALGORITHMS[algorithm]


def _scheme(config: Config, algorithm: str | None) -> Scheme:
    if algorithm not in ALGORITHMS:
        known = ", ".join([*ALGORITHMS, "MIXED_PRECISION"])
        raise config.error(f"quant_algo {algorithm!r} is not known; known are {known}")
    return ALGORITHMS[algorithm](config.count("group_size", default=None))

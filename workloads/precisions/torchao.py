"""Storage of modules by torchao: one configuration of a class for all, or one by name of module."""

import re
from collections.abc import Callable
from typing import Any

from workloads.config import Config
from workloads.precisions import formats
from workloads.precisions.formats import FP16_SCALE, Scheme
from workloads.precisions.storage import Assignment, Quantization, module_names, named

GROUP = 128
"""Weights per group of Int4WeightOnlyConfig where it does not say."""


def _int4(config: Config) -> Scheme:
    group = config.count("group_size", default=GROUP)
    # A scale and a zero of 16 bits each per group.
    return Scheme(0.5 + 2.0 * FP16_SCALE / group, None, f"w4a16 (torchao, group {group})", 4, whole_groups=group)


def _int4_fp8(config: Config) -> Scheme:
    group = config.count("group_size", default=GROUP)
    return Scheme(0.5 + 2.0 * FP16_SCALE / group, "fp8", f"w4a8 (torchao, fp8, group {group})", 4, whole_groups=group)


def _int8(config: Config) -> Scheme:
    return formats.integer(8, config.count("group_size", default=None), False, None, "torchao")


def _mx(config: Config) -> Scheme:
    kind, block = str(config.value("weight_dtype", "elem_dtype", default="")), config.count("block_size", default=32)
    if block != formats.MX_GROUP:
        raise config.error(f"block_size is {block}; it must be {formats.MX_GROUP}")
    four = "float4" in kind
    # Read so that it is not noted as unread: the type of the weights decides.
    config.value("activation_dtype")
    return formats.mxfp4("fp4") if four else formats.mxfp8()


SCHEMES: dict[str, Callable[[Config], Scheme]] = {
    "int4weightonly": _int4,
    "int8weightonly": _int8,
    "int8dynamicactivationint8weight": lambda config: formats.integer(8, None, False, "int8", "torchao"),
    "int8staticactivationint8weight": lambda config: formats.integer(8, None, False, "int8", "torchao"),
    "float8weightonly": lambda config: formats.fp8(None, None),
    "float8dynamicactivationfloat8weight": lambda config: formats.fp8(),
    "float8staticactivationfloat8weight": lambda config: formats.fp8(calibrated=True),
    "float8dynamicactivationint4weight": _int4_fp8,
    "nvfp4dynamicactivationnvfp4weight": lambda config: formats.nvfp4(),
    "nvfp4weightonly": lambda config: formats.nvfp4(activations=None),
    "nvfp4inference": lambda config: formats.nvfp4(),
    "mxdynamicactivationmxweight": _mx,
    "mxfpinference": _mx,
}
"""Class of a configuration, in lower case and without separators and `Config` -> scheme of its `_data`.

Source: pytorch/ao, torchao/quantization/quant_api.py.
"""

BY_MODULE = ("modulefqnto", "fqnto")
"""Classes that give each module its own configuration."""


def quantization(config: Config) -> Quantization:
    """The storage that a torchao config declares: `quant_type` is a class with its data, or a name with keywords.

    The output head and the table of tokens stay as they are unless `include_input_output_embeddings` is true, or a
    module of theirs is named.

    Source: transformers, quantizers/quantizer_torchao.py and utils/quantization_config.py (TorchAoConfig).

    Raises:
      ValueError: an unknown class, with those that are known.
    """
    excluded = module_names(config, "modules_to_not_convert")
    outer = config.flag("include_input_output_embeddings", False)
    config.value("untie_embedding_weights")
    kind, data = _kind(config)
    if kind not in BY_MODULE:
        assignments: tuple[Assignment, ...] = ((None, _scheme(kind, data)),)
    else:
        assignments = tuple(_by_module(data))
    head, embedding = (outer or _names(assignments, path) for path in ("lm_head", "embed_tokens"))
    return Quantization(assignments, excluded, head=head, embedding=embedding, apart=True)


def _kind(config: Config) -> tuple[str, Config]:
    """(class in lower case, its data) of `quant_type`."""
    value = config.value("quant_type")
    # A name has its settings beside it, an object has them inside.
    if isinstance(value, str):
        keywords = config.table("quant_type_kwargs")
        return _plain(value), keywords or Config(f"{config.name}: quant_type_kwargs", {})
    table = config.table("quant_type")
    default = None if table is None else table.table("default")
    if default is None:
        raise config.error("quant_type is missing, or has no default")
    default.value("_version")
    data = default.table("_data")
    return _plain(default.text("_type")), data or Config(f"{default.name}: _data", {})


def _by_module(data: Config) -> list[Assignment]:
    """Assignments of a configuration by module; `_default` is for all others, and null leaves a module as it is."""
    table = data.table("fqn_to_config") or data.table("module_fqn_to_config")
    if table is None:
        raise data.error("module_fqn_to_config is missing")
    single: list[Assignment] = []
    general: list[Assignment] = []
    for name in table.values:
        own = table.own_table(name)
        # null leaves the module as it is.
        scheme = None
        if own is not None:
            own.value("_version")
            scheme = _scheme(_plain(own.text("_type")), own.table("_data") or Config(f"{own.name}: _data", {}))
        if name == "_default":
            general.append((None, scheme))
        else:
            single.append((named(data, [name]), scheme))
    # Modules by name come first, as the first match counts.
    return [*single, *general]


def _scheme(kind: str, data: Config) -> Scheme:
    if kind not in SCHEMES:
        raise data.error(f"torchao's class {kind!r} is not known; known are {', '.join(SCHEMES)}")
    # All settings are read, so that those without effect on bytes are not noted as unread.
    for key in data.values:
        data.value(key)
    return SCHEMES[kind](data)


def _plain(name: str) -> str:
    return re.sub("[_ ]", "", name).lower().removesuffix("config")


def _names(found: tuple[Assignment, ...], path: str) -> Any:
    """Whether a module is given a scheme by its own name."""
    return any(scheme is not None and known is not None and known.match(path) for known, scheme in found)

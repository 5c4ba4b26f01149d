"""Quantised linear layers of a checkpoint, and their formats, by its quantisation config."""

import dataclasses
from collections.abc import Callable, Iterable

from jaxroof.model import WeightFormat
from workloads import formats, modelopt
from workloads.compressed_tensors import assignments as compressed_assignments
from workloads.config import Config
from workloads.formats import Scheme
from workloads.gguf import Mixture
from workloads.modules import Patterns, patterns
from workloads.tensors import Tensor

Assignment = tuple[Patterns | None, Scheme | None]
"""A scheme, or None for unquantised, and the modules that it is for; None: every linear layer."""


@dataclasses.dataclass(frozen=True)
class Quantization:
    """Formats of a checkpoint's linear layers. Without assignments and mixture nothing is quantised."""

    assignments: tuple[Assignment, ...] = ()  # the first that is for a module counts
    excluded: Patterns = patterns(())
    experts_only: bool = False
    head: bool = False  # whether the config quantises the output head
    embedding: bool = False  # whether it quantises the table of tokens, and so a head that is its transpose
    router: bool = False  # whether it quantises the routers of experts
    apart: bool = False  # whether engines run each linear layer alone, so that those of one product may differ
    kv_precision: str | None = None
    mixture: Mixture | None = None  # GGUF's choice of a type for every tensor, in place of assignments

    @property
    def label(self) -> str | None:
        """The schemes' labels, or None when nothing is quantised."""
        if self.mixture is not None:
            return f"{self.mixture.file_type} (GGUF)"
        return " + ".join(dict.fromkeys(scheme.label for _, scheme in self.assignments if scheme)) or None

    def numbered(self, layer: int) -> bool:
        """Whether the layer of this number may be stored in another way than others of its kind."""
        named = (self.excluded, *(known for known, _ in self.assignments))
        return self.mixture is not None or any(known is not None and known.numbered(layer) for known in named)

    def scheme(self, tensor: Tensor) -> Scheme | None:
        """The scheme of one linear layer, or None for unquantised."""
        if self.mixture is not None:
            return self.mixture.scheme(tensor)
        if any(self.excluded.match(path) for path in tensor.paths):
            return None
        for targets, scheme in self.assignments:
            if targets is None or any(targets.match(path) for path in tensor.paths):
                fits = scheme is None or not scheme.whole_groups or not tensor.inputs % scheme.whole_groups
                return scheme if fits else None
        return None


def quantization(config: Config) -> Quantization:
    """The quantisation that a `quantization_config` table declares.

    Raises:
      ValueError: an unknown `quant_method`, by name with those that are known; a missing key or a wrong value.
    """
    method = config.text("quant_method")
    if method not in METHODS:
        raise config.error(f"quant_method {method!r} is not known; known are {', '.join(sorted(METHODS))}")
    return METHODS[method](config)


def with_experts(declared: Quantization, scheme: Scheme) -> Quantization:
    """`declared` with experts stored as `scheme`, as `expert_dtype` says beside a quantisation config."""
    return dataclasses.replace(declared, assignments=((patterns(["experts"]), scheme), *declared.assignments))


def linear_format(quantised: Quantization, tensors: Iterable[Tensor], base: WeightFormat, name: str) -> WeightFormat:
    """The format of one matrix product that runs several linear layers as one.

    Layers that an engine runs apart count as one of their mean bytes.

    Raises:
      ValueError: layers that differ where one kernel multiplies them, or whose products differ in precision.
    """
    found = [(tensor, quantised.scheme(tensor)) for tensor in tensors]
    formats_of = [(tensor, scheme.weight_format(base) if scheme else base) for tensor, scheme in found]
    different = list(dict.fromkeys(stored for _, stored in formats_of))
    if len(different) == 1:
        return different[0]
    computes = {stored.compute for stored in different}
    if not quantised.apart or len(computes) > 1:
        said = ((tensor.paths[0], scheme.label if scheme else base.compute) for tensor, scheme in found)
        text = ", ".join(f"{path}: {label}" for path, label in dict.fromkeys(said))
        raise ValueError(f"{name}: linear layers that run as one are quantised differently ({text}): not covered")
    outputs = sum(tensor.outputs for tensor, _ in formats_of)
    stored = sum(tensor.outputs * one.bytes for tensor, one in formats_of)
    return dataclasses.replace(
        different[0], bytes=stored / outputs, dequantised=any(one.dequantised for one in different)
    )


def _of_one_scheme(config: Config, scheme: Scheme, experts_only: bool = False) -> Quantization:
    excluded = _excluded(config, "modules_to_not_convert")
    return Quantization(((None, scheme),), excluded, experts_only=experts_only)


def _excluded(config: Config, *keys: str) -> Patterns:
    names = config.value(*keys, default=[])
    if not isinstance(names, list):
        raise config.error(f"{config.spelling(*keys)} must be a list of module names")
    return _patterns(config, names)


def _patterns(config: Config, names: list) -> Patterns:
    try:
        return patterns(names)
    except ValueError as error:
        raise config.error(str(error)) from None


def _fp8(config: Config) -> Quantization:
    block = config.block("weight_block_size")
    activations = config.text("activation_scheme", default="dynamic")
    if activations not in ("dynamic", "static"):
        raise config.error(f"activation_scheme is {activations!r}; it must be 'dynamic' or 'static'")
    excluded = _excluded(config, "modules_to_not_convert", "ignored_layers")
    return Quantization(
        assignments=((None, formats.fp8(block, calibrated=activations == "static")),), excluded=excluded
    )


def _gptq(config: Config) -> Quantization:
    if config.value("dynamic"):
        raise config.error("dynamic sets other bits for some modules, which is not covered yet")
    # Every GPTQ checkpoint stores a qzeros tensor, whether or not it is symmetric.
    scheme = _group_scheme(config, zeros=True, method="gptq")
    groups = config.value("modules_in_block_to_quantize", default=[])
    if not isinstance(groups, list) or not all(isinstance(names, list) for names in groups):
        raise config.error("modules_in_block_to_quantize must be a list of lists of module names")
    targets = _patterns(config, [*(name for names in groups for name in names), "lm_head"]) if groups else None
    excluded = _excluded(config, "modules_to_not_convert")
    return Quantization(((targets, scheme),), excluded, head=config.flag("lm_head", False))


def _group_scheme(config: Config, zeros: bool, method: str) -> Scheme:
    bits = config.count("bits", "w_bit")
    if bits not in (2, 3, 4, 8):
        raise config.error(f"bits is {bits}; it must be 2, 3, 4 or 8")
    group = config.count("group_size", "q_group_size", minimum=-1)
    if group == 0:
        raise config.error("group_size is 0; it must be a positive integer, or -1 for one group per channel")
    return formats.integer(bits, None if group == -1 else group, zeros, None, method)


def _compressed_tensors(config: Config) -> Quantization:
    found = compressed_assignments(config)
    return Quantization(found, _excluded(config, "ignore"), head=True, kv_precision=_kv_scheme(config))


def _modelopt(config: Config) -> Quantization:
    found = modelopt.assignments(config)
    excluded = _excluded(config, "exclude_modules", "ignore")
    head = any(targets is not None and targets.match("lm_head") for targets, _ in found)
    return Quantization(found, excluded, head=head, kv_precision=modelopt.kv_precision(config) or _kv_scheme(config))


def _kv_scheme(config: Config) -> str | None:
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
    "fbgemm_fp8": lambda config: _of_one_scheme(config, formats.fp8()),
    "gptq": _gptq,
    "awq": lambda config: _of_one_scheme(config, _group_scheme(config, config.flag("zero_point", True), "awq")),
    "mxfp4": lambda config: _of_one_scheme(config, formats.mxfp4(), experts_only=True),
    "compressed-tensors": _compressed_tensors,
    "modelopt": _modelopt,
}


def hf_quant_config(config: Config) -> Quantization:
    """The quantisation that ModelOpt's `hf_quant_config.json` declares. Raises `ValueError` as `quantization` does."""
    table = config.table("quantization")
    if table is None:
        raise config.error("quantization is missing")
    return _modelopt(table)

"""Storage of a checkpoint's linear layers: the scheme of each, and the format of products that run several as one."""

import dataclasses
from collections.abc import Iterable

from jaxroof.model import WeightFormat
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


def module_names(config: Config, *keys: str) -> Patterns:
    """The modules that a list under one of `keys` names; ValueError for anything but a list of names."""
    names = config.value(*keys, default=[])
    if not isinstance(names, list):
        raise config.error(f"{config.spelling(*keys)} must be a list of module names")
    return named(config, names)


def named(config: Config, names: Iterable[str]) -> Patterns:
    """The modules of these names and patterns; ValueError that names the config for one that is not read."""
    try:
        return patterns(names)
    except ValueError as error:
        raise config.error(str(error)) from None

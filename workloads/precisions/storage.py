"""Modules of a model that a list of names, wildcards and regular expressions selects."""

import dataclasses
import functools
import re
from collections.abc import Iterable

from jaxroof.model import WeightFormat
from workloads.config import Config
from workloads.expressions import Expressions, wildcard
from workloads.precisions.formats import Scheme, Tensor
from workloads.precisions.gguf import Mixture

ROOTS = ("model", "language_model", "transformer", "decoder", "gpt_neox", "backbone", "encoder")
"""Leading parts of a module's path that differ between exports of one model."""

PREFIXES = ("model.", "", "language_model.model.", "model.language_model.", "transformer.", "gpt_neox.", "backbone.")


@dataclasses.dataclass(frozen=True, eq=False)
class Patterns:
    """A compiled list of module names.

    A plain name means every module whose path contains it as whole parts (`gate` means `mlp.gate`, not
    `gate_proj`), so a parent means all its children. A wildcard has to match a module's or a parent's full path.
    `re:` starts a regular expression that matches from the beginning of the path, as compressed-tensors defines it.
    """

    plain: frozenset[str]
    expressions: Expressions
    wildcards: Expressions
    numbers: frozenset[str]  # parts of plain names that may be those of layers
    any_number: bool  # whether an expression or wildcard may tell one number from another
    _known: dict[str, bool] = dataclasses.field(default_factory=dict)

    def numbered(self, layer: int) -> bool:
        """Whether they may mean modules of the layer of this number, and not those of others."""
        return self.any_number or str(layer) in self.numbers

    def match(self, path: str) -> bool:
        """True if a module of this path, written from `layers.` or the module's own name on, is meant.

        Raises `ValueError` where that takes too long.
        """
        if path not in self._known:
            self._known[path] = _match(self, path)
        return self._known[path]


def patterns(names: Iterable[str]) -> Patterns:
    """The patterns in `names`. Raises `ValueError` for one that is not a string, or a regular expression not read."""
    names = tuple(names)
    for name in names:
        if not isinstance(name, str):
            raise ValueError(f"module name {name!r} must be a string")
    return _compiled(names)


@functools.lru_cache(maxsize=64)
def _compiled(names: tuple[str, ...]) -> Patterns:
    """One for equal lists, with what it knows of paths that were asked for: models have many modules of a kind."""
    plain, expressions, wildcards = [], [], []
    for name in names:
        if name.startswith("re:"):
            expressions.append(name[3:])
        elif any(character in name for character in "*?["):
            wildcards.append(name)
        else:
            plain.append(_without_roots(name))
    regulars, wild = (tuple(dict.fromkeys(texts)) for texts in (expressions, wildcards))
    return Patterns(
        plain=frozenset(plain),
        expressions=Expressions(regulars),
        wildcards=Expressions(wild, wildcard),
        numbers=frozenset(part for name in plain for part in name.split(".") if part.isdecimal()),
        any_number=not (all(map(_WORDS.fullmatch, regulars)) and all(map(_PARTS.fullmatch, wild))),
    )


# Only `.*` and `*` can match a number, and then they match every number.
_WORDS, _PARTS = re.compile(r"(?:\.\*|\\\.|[A-Za-z_|()^$-])*"), re.compile(r"[^\d?\[]*")


def _match(known: Patterns, path: str) -> bool:
    parts = path.split(".")
    # Every run of parts of the path, so that the name of a parent means all its children.
    spans = ((i, j) for i in range(len(parts)) for j in range(i + 1, len(parts) + 1))
    if any(".".join(parts[i:j]) in known.plain for i, j in spans):
        return True
    # Expressions are written for full paths, whose beginnings differ between exports.
    if known.expressions and any(known.expressions.match(prefix + path) for prefix in PREFIXES):
        return True
    if not known.wildcards:
        return False
    # A wildcard may mean the module or one of its parents.
    parents = [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
    return any(known.wildcards.match(prefix + parent) for parent in parents for prefix in PREFIXES)


def _without_roots(name: str) -> str:
    parts = name.strip(".").split(".")
    while len(parts) > 1 and parts[0] in ROOTS:
        parts.pop(0)
    return ".".join(parts)


# Storage of a checkpoint's linear layers: the scheme of each, and the format of products that run several as one.


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
        # A module that is excluded stays unquantised, whatever the assignments say.
        if any(self.excluded.match(path) for path in tensor.paths):
            return None
        for targets, scheme in self.assignments:
            if targets is None or any(targets.match(path) for path in tensor.paths):
                # Layers whose columns the groups do not divide stay unquantised.
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
    schemes = [(tensor, quantised.scheme(tensor)) for tensor in tensors]
    formats_of = [(tensor, scheme.weight_format(base) if scheme else base) for tensor, scheme in schemes]
    # Most products have one format for all their layers.
    different = list(dict.fromkeys(stored for _, stored in formats_of))
    if len(different) == 1:
        return different[0]
    computes = {stored.compute for stored in different}
    # One kernel takes one format; several kernels may differ, but not in the precision that they multiply in.
    if not quantised.apart or len(computes) > 1:
        said = ((tensor.paths[0], scheme.label if scheme else base.compute) for tensor, scheme in schemes)
        text = ", ".join(f"{path}: {label}" for path, label in dict.fromkeys(said))
        raise ValueError(f"{name}: linear layers that run as one are quantised differently ({text}): not covered")
    # All layers of a product have the same inputs, so bytes are weighted by outputs.
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

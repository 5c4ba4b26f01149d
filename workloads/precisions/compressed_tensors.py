"""Storage of each group of modules in a compressed-tensors config."""

from workloads.config import Config
from workloads.precisions import formats
from workloads.precisions.formats import Scheme
from workloads.precisions.storage import Patterns, patterns

CLASSES = ("Linear", "FusedMoE", "MoE")
"""Targets that mean every linear layer rather than modules by name."""


def assignments(config: Config) -> tuple[tuple[Patterns | None, Scheme], ...]:
    """(modules, scheme) of every entry of `config_groups`, those that name modules first.

    Raises `ValueError` for a weight format that is not covered, by its bits and type.
    """
    groups = config.table("config_groups")
    if groups is None or not groups.values:
        raise config.error("config_groups is missing")
    named, general = [], []
    for key in groups.values:
        group = groups.table(key)
        if group is None:
            raise groups.error(f"{key} is null; it must be an object")
        targets = group.value("targets", default=["Linear"])
        if not isinstance(targets, list) or not targets or not all(isinstance(t, str) for t in targets):
            raise group.error("targets must be a list of module names or classes")
        scheme = _scheme(group)
        # A class means every linear layer; modules by name come before it, as the first match counts.
        if any(target in CLASSES for target in targets):
            general.append((None, scheme))
        else:
            named.append((patterns(targets), scheme))
    if len(general) > 1:
        raise groups.error("two groups target every linear layer; at most one may")
    return (*named, *general)


def _scheme(group: Config) -> Scheme:
    weights = group.table("weights")
    if weights is None:
        raise group.error("weights is missing")
    bits, kind = weights.count("num_bits"), weights.text("type", default="int")
    strategy = weights.text("strategy", default="tensor")
    activations = _activations(group.table("input_activations"))
    if kind == "float" and bits == 8:
        return _float8(weights, strategy, group, activations)
    if kind == "float" and bits == 4:
        return _float4(weights, group, activations)
    if kind == "int" and bits in (4, 8):
        if strategy == "group":
            size = weights.count("group_size")
        elif strategy in ("channel", "tensor"):
            size = None
        else:
            raise weights.error(f"strategy is {strategy!r}; of integer weights it must be group, channel or tensor")
        # Symmetric integers have no zero points.
        zeros = not weights.flag("symmetric", True)
        return formats.integer(bits, size, zeros, activations, "compressed-tensors")
    raise weights.error(f"{bits}-bit {kind} weights are not covered; 4 and 8-bit int and float are")


def _float8(weights: Config, strategy: str, group: Config, activations: str | None) -> Scheme:
    if strategy == "block":
        block = weights.block("block_structure")
        if block is None:
            raise weights.error("block_structure is missing")
        return formats.fp8(block, activations)
    # 8-bit floats in groups of 32 are MXFP8 (OCP Microscaling Formats v1.0).
    if strategy == "group" and weights.count("group_size") == formats.MX_GROUP:
        return formats.mxfp8(activations)
    if strategy in ("tensor", "channel"):
        return formats.fp8(None, activations, _calibrated(group))
    raise weights.error(f"strategy is {strategy!r}; of 8-bit float weights it must be tensor, channel or block")


def _float4(weights: Config, group: Config, activations: str | None) -> Scheme:
    size = weights.count("group_size")
    if size == formats.NVFP4_GROUP:
        return formats.nvfp4(size, activations)
    if size == formats.MX_GROUP:
        return formats.mxfp4(activations)
    raise weights.error(f"group_size is {size}; of 4-bit float weights it must be 16 (NVFP4) or 32 (MXFP4)")


def _calibrated(group: Config) -> bool:
    """True where the checkpoint has the scales of activations, so that none is taken as the model runs."""
    table = group.table("input_activations")
    return table is not None and table.value("dynamic", default=False) is False


def _activations(table: Config | None) -> str | None:
    """Precision of the matrix product by its activations, or None when they stay at 16 bits."""
    if table is None:
        return None
    bits, kind = table.count("num_bits"), table.text("type", default="int")
    # Activations of 16-bit floats are as good as none: the product runs at 16 bits.
    known = {(8, "float"): "fp8", (8, "int"): "int8", (4, "float"): "fp4", (16, "float"): None}
    if (bits, kind) not in known:
        raise table.error(f"{bits}-bit {kind} activations are not covered")
    return known[bits, kind]

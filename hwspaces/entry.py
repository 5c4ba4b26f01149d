"""One accelerator of the catalogue: its figures, the source of each, and assumptions."""

import dataclasses
from collections.abc import Mapping

from hwspaces.silicon import costs_of, silicon_of
from hwspaces.units import LINK_UNITS, PROTOCOLS, TRANSPORT_UNITS, leaf_quantity, leaf_unit, nearest
from jaxroof.hardware import Cores, Energy, Hardware, Link, Links, Memory, MemoryLevel, Power, Protocol, Transport
from jaxroof.struct import Scalar

PRECISIONS = ("bf16", "fp16", "fp8", "fp6", "fp4", "int8", "int4", "tf32", "fp32")
"""Precisions that a matrix unit may have a peak for."""

_REQUIRED = ("cores.count", "cores.vector_flops", "memory.hbm.bandwidth", "memory.hbm.capacity")
TIERS = {
    "memory.l2": ("bandwidth", "capacity"),
    "memory.scratchpad": ("bandwidth", "capacity"),
    "memory.host": ("bandwidth", "capacity"),
    "memory.storage": ("bandwidth", "capacity"),
    "links.scale_up": ("bandwidth", "latency", "devices"),
    "links.scale_out": ("bandwidth", "latency", "devices"),
    "links.cluster": ("bandwidth", "latency", "devices"),
}
"""Tiers of which a device has every leaf or, as far as the model sees, none."""

LINKS = tuple(tier for tier in TIERS if tier.startswith("links."))


@dataclasses.dataclass(frozen=True, kw_only=True)
class HardwareEntry:
    """One accelerator as the catalogue or a user's file gives it."""

    name: str
    aliases: tuple[str, ...]
    vendor: str | None
    product: str | None  # the vendor's own string
    architecture: str | None
    status: str | None  # "GA" or "announced"
    date: str | None  # when the figures were collected, ISO 8601
    hardware: Hardware  # leaves are Python floats in SI units
    figures: dict[str, float]  # leaf path -> SI value; also the known leaves of a level that is None in `hardware`
    sources: dict[str, str]  # leaf path -> where its value comes from; also of inputs such as `vector.fp32`
    assumptions: tuple[str, ...]  # what no source gives and was assumed, one sentence each
    notes: tuple[str, ...]  # where sources disagree and what was chosen
    file: str
    technologies: Mapping[str, str] = dataclasses.field(default_factory=dict)  # tier of links -> its technology
    die: str | None = None  # name of its die in the catalogue


def assembled(
    figures: Mapping[str, float],
    where: str,
    complete: tuple[str, ...] = (),
    topologies: Mapping[str, str] | None = None,
) -> Hardware:
    """The `Hardware` that `figures` describe.

    Args:
      figures: leaf path (`memory.hbm.bandwidth`) -> value in SI units.
      where: what the message of an error begins with.
      complete: tiers (`memory.l2`, `links.scale_up`) that must be whole. Any other tier of which a leaf is
        unknown is None.
      topologies: tier of links -> topology; a tier that is not in it is switched.

    Raises:
      ValueError: one line, when a figure that every device needs is missing.
    """
    for path in _REQUIRED:
        if path not in figures:
            raise ValueError(f"{where}: {path} is missing; every accelerator needs it")
    matrix = {p: figures[f"matrix.{p}"] for p in PRECISIONS if f"matrix.{p}" in figures}
    if not matrix:
        raise ValueError(f"{where}: matrix is missing; give at least one of {', '.join(PRECISIONS)}")
    for tier in (tier for tier in complete if tier in TIERS):
        missing = [f"{tier}.{leaf}" for leaf in TIERS[tier] if f"{tier}.{leaf}" not in figures]
        if missing:
            raise ValueError(f"{where}: {tier} also needs {' and '.join(missing)}, which is unknown")
    return Hardware(
        matrix=matrix,
        cores=Cores(
            count=figures["cores.count"],
            vector_flops=figures["cores.vector_flops"],
            exp_rate=figures.get("cores.exp_rate"),
            clock=figures.get("cores.clock"),
            asynchronous=figures.get("cores.asynchronous", 0.0),
            shared_issue=figures.get("cores.shared_issue"),
        ),
        memory=Memory(
            hbm=_tier(MemoryLevel, figures, "memory.hbm", ("bandwidth", "capacity")),
            l2=_tier(MemoryLevel, figures, "memory.l2"),
            scratchpad=_tier(MemoryLevel, figures, "memory.scratchpad"),
            register_capacity=figures.get("memory.register_capacity"),
            host=_tier(MemoryLevel, figures, "memory.host"),
            storage=_tier(MemoryLevel, figures, "memory.storage"),
        ),
        links=Links(**{tier.removeprefix("links."): _link(figures, tier, topologies or {}) for tier in LINKS}),
        power=Power(tdp=figures.get("power.tdp"), static=figures.get("power.static")),
        price=figures.get("price"),
        energy=_energy(figures, matrix, where, "energy" in complete),
        silicon=silicon_of(figures, where),
        costs=costs_of(figures, where),
    )


def overridden(entry: HardwareEntry, settings: Mapping[str, str | float], where: str = "--set") -> HardwareEntry:
    """`entry` with some of its figures replaced.

    Args:
      entry: what to start from; it is left as it is.
      settings: leaf path, with or without a leading `hardware.`, -> a number in SI units or text with a unit:
        {"hardware.memory.hbm.bandwidth": "8TB/s"}. A precision that the device lacked may be added.
      where: what the message of an error begins with, and the source that is recorded.

    Raises:
      ValueError: one line, for an unknown path, a wrong unit, a value that is not positive and finite (some leaves
        of a link may be zero: `units.MAY_BE_ZERO`), or a tier that is still incomplete (a cache's capacity without
        its bandwidth).
    """
    figures, sources, tiers = dict(entry.figures), dict(entry.sources), []
    for path, value in settings.items():
        plain = path.removeprefix("hardware.")
        try:
            leaf_unit(plain)
        except ValueError as error:
            raise ValueError(f"{where} {path}={value}: {error}") from None
        if plain.startswith(("matrix.", "energy.matrix.")):
            known_precision(plain.rpartition(".")[2], f"{where} {path}")
        figures[plain] = leaf_quantity(value, plain, f"{where} {path}")
        sources[plain] = f"{where} {path}={value}"
        tier = "energy" if plain.startswith("energy.") else plain.rpartition(".")[0]
        if (tier in TIERS or tier == "energy") and tier not in tiers:
            tiers.append(tier)
    topologies = {tier: link.topology for tier, link in _links(entry.hardware).items() if link is not None}
    hardware = assembled(figures, f"{where} on {entry.name}", tuple(tiers), topologies)
    return dataclasses.replace(entry, hardware=hardware, figures=figures, sources=sources)


def require_precision(entry: HardwareEntry, precision: str) -> Scalar:
    """Peak of the matrix units in FLOP/s at `precision`; never that of another precision in its place.

    Raises:
      ValueError: one line that names the device and the precisions it has, when it has no figure for this one.
    """
    peak = entry.hardware.matrix.get(precision)
    if peak is None:
        raise ValueError(f"{entry.name} has no {precision} figure; it has {', '.join(entry.hardware.matrix)}")
    return peak


def known_precision(precision: str, where: str) -> str:
    """`precision` when it is one of `PRECISIONS`; else ValueError of one line."""
    if precision not in PRECISIONS:
        raise ValueError(f"{where}: {precision!r} is not a precision{nearest(precision, PRECISIONS)}")
    return precision


def _tier(cls, figures: Mapping[str, float], path: str, leaves: tuple[str, ...] | None = None):
    leaves = TIERS[path] if leaves is None else leaves
    values = {leaf: figures.get(f"{path}.{leaf}") for leaf in leaves}
    return None if None in values.values() else cls(**values)


def _energy(figures: Mapping[str, float], matrix: Mapping[str, float], where: str, complete: bool) -> Energy | None:
    """Energy of operations and bytes; None unless all that the device needs is known, or ValueError then."""
    tiers = [tier for tier in LINKS if all(f"{tier}.{leaf}" in figures for leaf in TIERS[tier])]
    needed = ["vector", "exp", "hbm", "l2", "scratchpad", *(f"matrix.{precision}" for precision in matrix)]
    needed += [tier.removeprefix("links.") for tier in tiers]
    missing = [f"energy.{leaf}" for leaf in needed if f"energy.{leaf}" not in figures]
    if missing and complete:
        raise ValueError(f"{where}: energy also needs {' and '.join(missing)}, which is unknown")
    if missing:
        return None
    known = {leaf: figures[f"energy.{leaf}"] for leaf in needed if not leaf.startswith("matrix.")}
    known |= {tier: known.get(tier) for tier in ("scale_up", "scale_out", "cluster")}
    return Energy(matrix={precision: figures[f"energy.matrix.{precision}"] for precision in matrix}, **known)


def _links(hardware: Hardware) -> dict[str, Link | None]:
    return {tier: getattr(hardware.links, tier.removeprefix("links.")) for tier in LINKS}


def _link(figures: Mapping[str, float], path: str, topologies: Mapping[str, str]) -> Link | None:
    known = {leaf: figures[f"{path}.{leaf}"] for leaf in LINK_UNITS if f"{path}.{leaf}" in figures}
    if any(leaf not in known for leaf in TIERS[path]):
        return None
    return Link(**known, transport=_transport(figures, path), topology=topologies.get(path, "switched"))


def _transport(figures: Mapping[str, float], path: str) -> Transport | None:
    """Losses of collectives on the link; None where not all of them are known."""
    leaves = {leaf: figures.get(f"{path}.transport.{leaf}") for leaf in TRANSPORT_UNITS}
    if None in leaves.values():
        return None
    plain = {leaf: value for leaf, value in leaves.items() if "." not in leaf}
    protocols = {
        name: Protocol(fixed_time=leaves[f"{name}.fixed_time"], share=leaves[f"{name}.share"]) for name in PROTOCOLS
    }
    return Transport(**plain, **protocols)  # type: ignore[arg-type]

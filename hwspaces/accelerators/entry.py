"""One accelerator of the catalogue: its figures, the source of each, and assumptions."""

import dataclasses
from collections.abc import Mapping

from hwspaces.accelerators.prices import Price
from hwspaces.quantities.laws import law_that_sets, obeying
from hwspaces.quantities.leaves import PRECISIONS, leaf, leaf_quantity, struct_of
from hwspaces.quantities.units import nearest
from jaxroof.hardware import Beside, Energy, Hardware, Link
from jaxroof.numerics.struct import Scalar, declared, kinds, optional_parts, required
from jaxroof.numerics.tree import leaf_at, mapped

TIERS = {
    f"{group}.{name}": required(kind)
    for group in ("memory", "links")
    for name, kind in optional_parts(kinds(Hardware)[group]).items()
}
"""Tiers of which a device has every leaf or, as far as the model sees, none."""

LINKS = tuple(tier for tier in TIERS if tier.startswith("links."))


PRESS = "press: "
"""What the source of a figure begins with that only the press gives, and no page or paper of the vendor."""

NAMED = 4
"""Missing figures of a group that an error names; of many more it says how many."""


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
    process: str | None = None  # as written: "4N", or "N5+N6" of dies with cores and dies without
    memory: str | None = None  # technology of the device memory: "HBM3"
    price: Price | None = None  # of `hardware.price`: its kind, date and source

    @property
    def press(self) -> tuple[str, ...]:
        """Figures of the press or at second hand, in one sentence; none where there are no such figures."""
        return press_figures(self.sources)


def press_figures(sources: Mapping[str, str]) -> tuple[str, ...]:
    """Figures of the press or at second hand, in one sentence: what they are called, source by source."""
    paths_by_source: dict[str, list[str]] = {}
    for path, source in sources.items():
        if source.startswith(PRESS):
            paths_by_source.setdefault(source.removeprefix(PRESS), []).append(path)
    if not paths_by_source:
        return ()
    said = "; ".join(f"{', '.join(paths)}: {source}" for source, paths in paths_by_source.items())
    return (f"press figures, not checked against a page of the vendor: {said}",)


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
    # No prediction can do without these figures, and without the peak of one precision.
    for path in required(Hardware):
        if path not in figures:
            raise ValueError(f"{where}: {path} is missing; every accelerator needs it")
    if not any(f"matrix.{precision}" in figures for precision in PRECISIONS):
        raise ValueError(f"{where}: matrix is missing; give at least one of {', '.join(PRECISIONS)}")
    # An incomplete tier is silently None, but not one that the caller wants.
    for tier in (tier for tier in complete if tier in TIERS):
        missing = [f"{tier}.{leaf}" for leaf in TIERS[tier] if f"{tier}.{leaf}" not in figures]
        if missing:
            raise ValueError(f"{where}: {tier} also needs {' and '.join(missing)}, which is unknown")
    # A memory that a user names is never dropped.
    for name in {path.split(".")[2] for path in figures if path.startswith("memory.beside.")}:
        missing = [leaf for leaf in required(Beside) if f"memory.beside.{name}.{leaf}" not in figures]
        if missing:
            raise ValueError(f"{where}: memory.beside.{name} also needs {' and '.join(missing)}")
    for group in ("silicon", "costs", "package"):
        _require_whole(group, figures, where)
    # Tiers of which a leaf is unknown become None here, and energy where not all of it is known.
    texts = {f"{tier}.topology": topology for tier, topology in (topologies or {}).items()}
    hardware = struct_of(Hardware, figures, texts)
    return dataclasses.replace(hardware, energy=_energy(hardware, figures, where, "energy" in complete))


def overridden(entry: HardwareEntry, settings: Mapping[str, str | float], where: str = "--set") -> HardwareEntry:
    """`entry` with some of its figures replaced.

    Args:
      entry: what to start from; it is left as it is.
      settings: leaf path, with or without a leading `hardware.`, -> a number in SI units or text with a unit:
        {"hardware.memory.hbm.bandwidth": "8TB/s"}. A precision that the device lacked may be added.
      where: what the message of an error begins with, and the source that is recorded.

    Raises:
      ValueError: one line, for an unknown path, a wrong unit, a value that is not positive and finite (some leaves
        may be zero), or a tier that is still incomplete (a cache's capacity without
        its bandwidth).
    """
    figures, sources, tiers = dict(entry.figures), dict(entry.sources), []
    for path, value in settings.items():
        plain = path.removeprefix("hardware.")
        # A law would overwrite what is set here.
        law = law_that_sets(entry.hardware.laws, plain)
        if law is not None:
            raise ValueError(f"{where} {path}={value}: {plain} follows from a law: {law.text}; set what it reads")
        try:
            leaf(plain)
        except ValueError as error:
            raise ValueError(f"{where} {path}={value}: {error}") from None
        # These paths take any last part: only a known precision means something.
        if plain.startswith(("matrix.", "energy.matrix.")):
            known_precision(plain.rpartition(".")[2], f"{where} {path}")
        figures[plain] = leaf_quantity(value, plain, f"{where} {path}")
        sources[plain] = f"{where} {path}={value}"
        # Energies are one tier however deep they stand: they are known all together or not at all.
        tier = "energy" if plain.startswith("energy.") else plain.rpartition(".")[0]
        if (tier in TIERS or tier == "energy") and tier not in tiers:
            tiers.append(tier)
    topologies = {tier: link.topology for tier, link in _links(entry.hardware).items() if link is not None}
    hardware = assembled(figures, f"{where} on {entry.name}", tuple(tiers), topologies)
    # Figures that laws set follow those that were changed.
    if entry.hardware.laws:
        hardware = mapped(float, obeying(dataclasses.replace(hardware, laws=entry.hardware.laws), entry.hardware.laws))
        figures |= {law.path: float(leaf_at(hardware, law.path)) for law in hardware.laws if law.path in figures}
    # A price that is set has neither the date nor the kind of the catalogue's.
    price = entry.price if sources.get("price") == entry.sources.get("price") else given_price(figures, sources, where)
    return dataclasses.replace(entry, hardware=hardware, figures=figures, sources=sources, price=price)


def with_price(entry: HardwareEntry, price: Price | None) -> HardwareEntry:
    """`entry` at a price, or without one."""
    figures = {path: value for path, value in entry.figures.items() if path != "price"}
    sources = {path: source for path, source in entry.sources.items() if path != "price"}
    per_second = None
    if price is not None:
        per_second = price.usd_per_hour / 3600.0
        figures["price"], sources["price"] = per_second, price.source
    hardware = dataclasses.replace(entry.hardware, price=per_second)
    return dataclasses.replace(entry, hardware=hardware, figures=figures, sources=sources, price=price)


def given_price(
    figures: Mapping[str, float], sources: Mapping[str, str], where: str, date: str | None = None
) -> Price | None:
    """The price among figures that a user gives; None where they have none."""
    if "price" not in figures:
        return None
    # The leaf is in USD/s, prices are told in USD/h.
    return Price(figures["price"] * 3600.0, f"given in {where}", date, sources["price"])


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


def _require_whole(group: str, figures: Mapping[str, float], where: str) -> None:
    """ValueError where only a part of `silicon`, `costs` or `package` is known, or a share is above 1."""
    given = {path.removeprefix(f"{group}."): value for path, value in figures.items() if path.startswith(f"{group}.")}
    kind = kinds(Hardware)[group]
    for name, value in given.items():
        if value > declared(kind, name).most:
            raise ValueError(f"{where}: {group}.{name} = {value:g} must be at most 1: it is a share")
    missing = [path for path in required(kind) if path not in given]
    if given and missing:
        # Of a group with many figures, such as costs, the first ones say enough.
        others = f" and {len(missing) - NAMED} others" if len(missing) > NAMED + 1 else ""
        named = ", ".join(missing[:NAMED] if others else missing)
        raise ValueError(f"{where}: {group} also needs {named}{others}, which is unknown")


def _energy(hardware: Hardware, figures: Mapping[str, float], where: str, complete: bool) -> Energy | None:
    """What operations and bytes cost; None unless all of it is known that the device needs, or ValueError then."""
    tiers = {tier.removeprefix("links."): link for tier, link in _links(hardware).items()}
    needed = [*required(Energy)]
    needed += [f"matrix.{precision}" for precision in hardware.matrix]
    needed += [tier for tier, link in tiers.items() if link is not None]
    missing = [f"energy.{leaf}" for leaf in needed if f"energy.{leaf}" not in figures]
    if missing and complete:
        raise ValueError(f"{where}: energy also needs {' and '.join(missing)}, which is unknown")
    energy = hardware.energy
    if missing or energy is None:
        return None
    # Energies of links and precisions that the device lacks would be leaves without effect.
    absent = {tier: None for tier, link in tiers.items() if link is None}
    matrix = {precision: energy.matrix[precision] for precision in hardware.matrix}
    return dataclasses.replace(energy, matrix=matrix, **absent)


def _links(hardware: Hardware) -> dict[str, Link | None]:
    return {tier: getattr(hardware.links, tier.removeprefix("links.")) for tier in LINKS}

"""Constants of technologies by kind and name, each with its unit and source."""

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import Any

from hwspaces.accelerators.derived import Shared
from hwspaces.accelerators.energy import process_energies, unfitted
from hwspaces.accelerators.link_technology import NOT_MEASURED, OF_DIES, link_technology, own_values
from hwspaces.accelerators.technology_tables import KINDS, aliases, common, table
from hwspaces.quantities.leaves import units
from hwspaces.quantities.units import from_key, nearest
from jaxroof.hardware import Energy, Link

PLACE = "hwspaces/technology"

TABLES = ("process", "voltage", "wafer", "area", "stack", "memory_price", "package", "cooling", "draw")
ENERGIES = ("process", "memory", "link")
KNOWN = (*TABLES, "link", *(f"energy.{kind}" for kind in ENERGIES))
"""Kinds of technologies that have constants."""

_OF_PROCESSES = ("process", "voltage", "wafer")
_OF_LINKS = units(Link) | OF_DIES


@dataclasses.dataclass(frozen=True)
class Constant:
    """One constant of a technology."""

    value: float  # in the SI unit
    unit: str
    source: str

    @property
    def assumed(self) -> bool:
        """Whether no source gives it: its own begins with `NOT_MEASURED`."""
        return self.source.startswith(NOT_MEASURED)


def technology_constants(kind: str, name: str, shared: Shared | None = None) -> dict[str, Constant]:
    """Constants of one technology, by plain key.

    Args:
      kind: one of `KNOWN`: "process", "voltage", "wafer", "area", "stack", "memory_price", "package", "cooling",
        "draw", "link", "energy.process", "energy.memory" or "energy.link".
      name: of its tables, such as "N5" (a process also by its other names, such as "5nm"), "HBM3e", "NVLink4",
        "CoWoS-S-2023", "air".
      shared: tables of all technologies; None: those of the files of `hwspaces/technology`.

    Returns:
      What the table gives and what it takes from its base, such as {"density": ..., "sram_cell": ..., "analog": ...}.

    Raises:
      ValueError: one line with the nearest known ones, for an unknown kind or name.
    """
    if kind not in KNOWN:
        raise ValueError(f"{kind!r} is not a kind of technology{nearest(kind, KNOWN)}")
    shared = common() if shared is None else shared
    # A process is asked for by any of its names; tables are by one of them.
    if kind in _OF_PROCESSES:
        name = aliases(shared).get(name, name)
    known = technology_names(kind, shared)
    if name not in known:
        raise ValueError(f"{kind} = {name!r} is not known{nearest(name, known)}")
    # Constants of a link are those of its transport, and the shoreline, which is a figure of the die.
    if kind == "link":
        link = link_technology(name, shared.links, PLACE)
        values = link.values | link.of_dies
        return {key: Constant(value, _OF_LINKS[key], link.sources[key]) for key, value in values.items()}
    # Energies that were not fitted, such as those of some precisions, have a source of their own.
    if kind == "energy.process":
        values, source = process_energies(name, shared.energy.process, f"{PLACE}: {kind}")
        others = unfitted(name, shared.energy.process)
        return {key: Constant(value, _unit(key), others.get(key, source)) for key, value in values.items()}
    if kind.startswith("energy."):
        # Memories and links have one energy, that of moving a byte.
        held = _energies(kind, shared)[name]
        return {"moved": Constant(_moved(held, f"{PLACE}: {kind}.{name}"), "J/B", held["source"])}
    values, sources = table(kind, name, shared, PLACE)
    return {key: Constant(value, KINDS[kind][key], sources[key]) for key, value in values.items()}


def technology_names(kind: str, shared: Shared | None = None) -> tuple[str, ...]:
    """Names of the technologies of one kind of `KNOWN`."""
    shared = common() if shared is None else shared
    if kind == "link":
        return tuple(shared.links)
    return tuple(_energies(kind, shared) if kind.startswith("energy.") else shared.silicon[kind])


@functools.cache
def technology_counts() -> tuple[int, int]:
    """How many constants the files of technologies give, those taken from a base left out; how many are assumptions."""
    sources = list(_given())
    return len(sources), sum(source.startswith(NOT_MEASURED) for source in sources)


def _given() -> Iterator[str]:
    """The source of every constant that a table gives itself."""
    shared = common()
    for kind in TABLES:
        for name in shared.silicon[kind]:
            yield from table(kind, name, shared, PLACE)[1].values()
    for name, own in shared.links.items():
        # Own values alone: what a link takes from its base is counted with the base.
        for path in own_values(own, f"{PLACE}: link.{name}"):
            yield own["sources"].get(path.removeprefix("transport."), own["source"])
    for kind in ENERGIES:
        # A process stands under each of its names: by identity it is counted once.
        for own in {id(held): held for held in _energies(f"energy.{kind}", shared).values()}.values():
            plain = {key for key in own if key not in ("base", "matrix", "source", "precisions", "scratchpads")}
            yield from [own["source"]] * (len(plain) + len(own.get("matrix", {})))


def _energies(kind: str, shared: Shared) -> Mapping[str, Mapping[str, Any]]:
    return getattr(shared.energy, kind.partition(".")[2])


def _moved(held: Mapping[str, Any], place: str) -> float:
    # The one key beside the source, whose suffix says the unit: `moved_pJ_per_B`.
    ((key, value),) = [item for item in held.items() if item[0] != "source"]
    return from_key(key, value, place, {"moved": units(Energy)["hbm"]})[1]


def _unit(key: str) -> str:
    return units(Energy).get("matrix.*" if key.startswith("matrix.") else key, "1")

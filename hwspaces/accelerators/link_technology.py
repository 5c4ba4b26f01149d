"""Link technologies: hop latency, topology, and measured losses of collectives."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from hwspaces.quantities.leaves import units
from hwspaces.quantities.units import from_key, nearest, positive
from jaxroof.hardware import Link, Protocol, Transport
from jaxroof.numerics.struct import declarations, kinds, required

NOT_MEASURED = ("no public data", "assumption")
"""What the source of a technology begins with when nothing was measured on it, so that its devices say so."""

PROTOCOLS = tuple(kinds(Transport))
"""Keys of a `[link.NAME]` table that are tables of `fixed_time` and `share`."""

_LEAVES = {key: declarations(Link)[key] for key in ("latency", "axes")}
_LEAVES |= {key: leaf for key, leaf in declarations(Transport).items() if "." not in key}
_LEAVES |= declarations(Protocol)

OF_DIES = {"shoreline": "m s/B"}
"""Plain keys of a `[link.NAME]` table that are of the die and not of the link -> unit."""

_TEXTS = ("base", "topology", "source")
_OTHERS = ("reduces", "sources", "notes")


@dataclasses.dataclass(frozen=True)
class Technology:
    """Constants of one link technology or generation."""

    topology: str
    values: dict[str, float]  # leaf of `jaxroof.hardware.Link` -> SI value
    of_dies: dict[str, float]  # key of `OF_DIES` -> SI value
    sources: dict[str, str]  # the keys of both -> where the value is from
    assumed: str | None  # what it takes from another technology, unmeasured


def link_technology(name: str, tables: Mapping[str, Mapping[str, Any]], where: str) -> Technology:
    """The technology `name`, with what its table leaves out taken from the one that it is based on.

    Args:
      name: a key of `tables`.
      tables: `[link.NAME]` tables as `tomllib` gives them.
      where: what the message of an error begins with.

    Raises:
      ValueError: one line, for an unknown key, base or unit, a wrong value, a circle of bases, or a transport that
        is given in part.
    """
    values: dict[str, float] = {}
    sources: dict[str, str] = {}
    topology, seen, current = None, list[str](), name
    # From the technology down through its bases: the first value of a constant stays.
    while current is not None:
        place = f"{where}: link.{current}"
        if current in seen:
            raise ValueError(f"{place}: base = {current!r} leads back to itself")
        seen.append(current)
        table = tables[current]
        own = own_values(table, place)
        cited = table.get("sources", {})
        for path, value in own.items():
            values.setdefault(path, value)
            sources.setdefault(path, cited.get(path.removeprefix("transport."), table.get("source", "")))
        topology = topology or table.get("topology")
        current = table.get("base")
        if current is not None and current not in tables:
            raise ValueError(f"{place}: base = {current!r} is not known{nearest(current, tables)}")
    # Constants of a transport were fitted together, so that some of them alone say nothing.
    constants = required(Transport)
    given = [leaf for leaf in constants if f"transport.{leaf}" in values]
    if given and len(given) < len(constants):
        missing = [leaf for leaf in constants if leaf not in given]
        raise ValueError(f"{where}: link.{name}: {', '.join(missing)} missing; give all constants, or base")
    of_dies = {key: values.pop(key) for key in OF_DIES if key in values}
    # The shoreline is of the die: an assumed one does not make the link unmeasured.
    told = {leaf: sources[leaf] for leaf in values}
    return Technology(topology or "switched", values, of_dies, sources, _assumed(tables[name].get("source", ""), told))


def _assumed(source: str, sources: Mapping[str, str]) -> str | None:
    """Assumed constants: those of the whole technology, or those whose own source says so."""
    if source.startswith(NOT_MEASURED):
        return source
    return "; ".join(dict.fromkeys(text for text in sources.values() if text.startswith(NOT_MEASURED))) or None


def own_values(table: Mapping[str, Any], place: str) -> dict[str, float]:
    """Leaf of a link or key of `OF_DIES` -> SI value, of what the table itself gives."""
    values: dict[str, float] = {}
    for key, value in table.items():
        if key == "reduces":
            if not isinstance(value, bool):
                raise ValueError(f"{place}: reduces = {value!r} must be true or false")
            values["reduces"] = float(value)
        elif key in _TEXTS or key in _OTHERS:
            continue
        elif key in PROTOCOLS:
            # A protocol is a table of its own: fixed time in s and the share of the bandwidth that it reaches.
            if not isinstance(value, Mapping):
                raise ValueError(f"{place}: {key} = {value!r} is not a table of fixed_time_us and share")
            for inner, number in value.items():
                path, plain = _number(inner, number, f"{place}.{key}", units(Protocol))
                values[f"transport.{key}.{path}"] = plain
        else:
            # Tables and texts are among the known keys only so that messages can suggest them.
            known = {name: leaf.unit for name, leaf in _LEAVES.items() if name not in units(Protocol)}
            known |= dict.fromkeys((*PROTOCOLS, *_TEXTS, "reduces"), "1") | OF_DIES
            path, plain = _number(key, value, place, known)
            values[path if path in ("latency", "axes", *OF_DIES) else f"transport.{path}"] = plain
    return values


def _number(key: str, value: object, place: str, units: Mapping[str, str]) -> tuple[str, float]:
    """Plain key and SI value, 0 where the leaf may be 0; a share is at most 1."""
    zero = isinstance(value, int | float) and not isinstance(value, bool) and value == 0
    if units.get(key) == "1":
        number = 0.0 if zero and _LEAVES[key].zero else positive(value, f"{place}: {key}")
        if key == "share" and number > 1.0:
            raise ValueError(f"{place}: share = {value!r} must be in (0, 1]: it is a share of the link's bandwidth")
        return key, number
    # A figure of 0 is read as 1 to check its unit: `from_key` takes positive numbers alone.
    plain, number = from_key(key, 1.0 if zero else value, place, units)
    if zero and (plain in OF_DIES or not _LEAVES[plain].zero):
        raise ValueError(f"{place}: {key} = {value!r} must be a positive finite number")
    return plain, 0.0 if zero else number

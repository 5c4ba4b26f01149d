"""Tables that accelerators refer to by name: kinds, keys with units, values with sources, and the files they are in."""

import dataclasses
import functools
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hwspaces.accelerators.derived import Shared
from hwspaces.accelerators.energy import Technologies, technologies
from hwspaces.files import document
from hwspaces.quantities.leaves import units
from hwspaces.quantities.units import from_key, nearest, positive
from jaxroof.silicon import Areas, Costs, Package

CATALOGUE = Path(__file__).parents[1] / "catalogue"

FILES = tuple(
    Path(__file__).parents[1] / name
    for name in (
        "technology/processes.toml",
        "technology/memories.toml",
        "technology/links.toml",
        "technology/packages.toml",
        "catalogue/silicon.toml",
        "catalogue/costs.toml",
    )
)
"""Files that accelerators of all files refer to. An architecture is of its accelerators' file."""

KINDS = {
    "process": {"density": "1/m2", "sram_cell": "m2", "analog": "1"},
    "voltage": {
        **{"nominal": "V", "threshold": "V", "exponent": "1", "least": "V", "most": "V"},
        **{"speed": "1", "leakage": "W/m2", "leakage_growth": "1/V"},
    },
    "area": {
        **units(Areas),
        **{"chip": "m2", "largest_die": "m2", "layout_exponent": "1", "base_ratio": "1", "error": "1"},
    },
    "stack": {
        **{"bandwidth": "B/s", "capacity": "B", "stacked": "1", "layers": "1", "most_layers": "1", "pins": "1"},
        **{"phy_edge": "m", "width": "m", "footprint": "m2", "floor_power": "W"},
    },
    "die": {
        **{
            "area": "m2",
            "core_area": "m2",
            "limit": "m2",
            "transistors": "1",
            "count": "1",
            "shared_count": "1",
            "cores": "1",
            "l2": "B",
        },
        **{"stacks": "1", "matrix_per_core": "1", "double_per_core": "1", "graphics": "1", "other_memory": "B"},
        **{"shared_lanes": "1", "stacked": "1"},
    },
    "wafer": {"price": "USD", "defects": "1/m2"},
    "memory_price": {"price": "USD/B"},
    "package": {"largest_die": "m2"}
    | {key: units(Package)[key] for key in ("interposer", "edge_share", "power_density")},
    "cooling": {"power": "W"},
    "draw": {"uncore": "J/m2", "matrix_share": "1", "memory_share": "1", "fixed": "W"},
    "cost": units(Costs) | {"chip_package": "USD/m2"},
}
"""Kinds of shared tables -> plain key -> SI unit. `[process.N7]` is a table of the kind `process`."""

REQUIRED = {
    **{kind: tuple(KINDS[kind]) for kind in ("process", "voltage", "wafer", "package", "cooling", "draw")},
    "stack": ("bandwidth", "capacity"),
    "memory_price": ("price",),
}
"""Kind -> keys that each of its tables has."""

OF_SPACES = ("voltage", "package", "cooling", "draw")
"""Kinds that no accelerator refers to: designs are made of them."""

SHARES = ("edge_share", "matrix_share", "memory_share")
"""Keys of numbers that are at most 1."""

_ASCENDING = {"voltage": ("threshold", "least", "nominal", "most"), "stack": ("layers", "most_layers")}
"""Kind -> keys whose values stand in this order."""

_TABLES = ("source", "architecture", "link", "accelerator", "energy", *KINDS)
_WORDS = ("source", "sources", "names", "alone")


def table(kind: str, name: str, shared: Shared, where: str) -> tuple[dict[str, float], dict[str, str]]:
    """SI values of a shared table and their sources, by plain key.

    Raises:
      ValueError: one line, for an unknown name or key, a wrong unit or value, or values in a wrong order.
    """
    tables = shared.silicon.get(kind, {})
    if name not in tables:
        raise ValueError(f"{where}: {kind} = {name!r} is not known{nearest(name, tables)}")
    place, known, values = f"{where}: {kind}.{name}", KINDS[kind], {}
    for key, value in tables[name].items():
        if key in _WORDS:
            continue
        # Keys of plain numbers are written as they are; all others end in their unit.
        if known.get(key) == "1":
            plain, number = key, positive(value, f"{place}: {key}")
        else:
            plain, number = from_key(key, value, place, known)
        if plain in SHARES and number > 1.0:
            raise ValueError(f"{place}: {key} = {value!r} must be above 0 and at most 1")
        values[plain] = number
    missing = [key for key in REQUIRED.get(kind, ()) if key not in values]
    if missing:
        raise ValueError(f"{place}: {missing[0]} is missing")
    # A threshold above the nominal voltage, say, is a slip of units that would go unnoticed otherwise.
    ordered = [key for key in _ASCENDING.get(kind, ()) if key in values]
    for lower, upper in itertools.pairwise(ordered):
        if values[lower] > values[upper]:
            raise ValueError(
                f"{place}: {lower} = {values[lower]:g} must be at most {upper} = {values[upper]:g}, in SI units"
            )
    # The source of a table is that of every constant that has none of its own.
    cited = tables[name].get("sources", {})
    source = tables[name].get("source", "")
    return values, {key: shared.source(cited.get(key, source)) for key in values}


def aliases(shared: Shared, kind: str = "process") -> dict[str, str]:
    """Every name of a kind's tables, and what else they are called -> the table's name."""
    tables = shared.silicon.get(kind, {})
    return {alias: name for name, own in tables.items() for alias in (name, *own.get("names", []))}


@functools.cache
def common() -> Shared:
    """What `FILES` hold."""
    links: dict[str, dict[str, Any]] = {}
    silicon: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}
    energy = Technologies({}, {}, {})
    # Sources are written out file by file: their names are known in their own file alone.
    for path in FILES:
        tables = file_tables(path)
        links |= resolved(tables, "link", path.name)
        energy |= technologies(tables, path.name)
        for kind, known in silicon.items():
            known |= resolved(tables, kind, path.name)
    shared = Shared({}, {}, links, energy, silicon)
    return dataclasses.replace(shared, energy=_by_every_name(shared))


def extended(shared: Shared, tables: Mapping[str, Any], path: str) -> Shared:
    """What accelerators refer to, with the technologies of a user's file over those of the same names."""
    own = dataclasses.replace(
        shared,
        links={**shared.links, **resolved(tables, "link", path)},
        energy=shared.energy | technologies(tables, path),
        silicon={kind: {**known, **resolved(tables, kind, path)} for kind, known in shared.silicon.items()},
    )
    # Accelerators do not refer to these kinds: nothing else would check what the file has of them.
    for kind in OF_SPACES:
        for of_kind in tables.get(kind, {}):
            table(kind, of_kind, own, path)
    return own


def _by_every_name(shared: Shared) -> Technologies:
    """Energies, where those of a process also stand under the names that have none of their own."""
    process = dict(shared.energy.process)
    for name, own in shared.silicon["process"].items():
        # Energies written under one name of a process hold for its other names too, unless those have their own.
        called = (name, *own.get("names", []))
        held = [process[alias] for alias in called if alias in process]
        process = dict.fromkeys(called, held[0]) | process if held else process
    return dataclasses.replace(shared.energy, process=process)


def file_tables(path: Path) -> Mapping[str, Any]:
    """Tables of a file of the catalogue's schema.

    Raises:
      ValueError: one line, as `hwspaces.files.document.toml`, for an unknown kind of table, or one that is no table.
    """
    return known_tables(document.toml(path), path)


def known_tables(tables: Mapping[str, Any], path: str | Path) -> Mapping[str, Any]:
    """The tables of a file that is read already, checked as `file_tables` does."""
    for key, value in tables.items():
        if key not in _TABLES:
            raise ValueError(f"{path}: table {key} is not known{nearest(key, _TABLES)}")
        # [source] holds texts by name, every other kind holds tables by name.
        inner = value.values() if isinstance(value, dict) else [value]
        if not all(isinstance(v, str if key == "source" else dict) for v in inner) or not isinstance(value, dict):
            raise ValueError(f"{path}: {key} must hold named {'texts' if key == 'source' else 'tables'}")
    return tables


def resolved(tables: Mapping[str, Any], kind: str, where: str) -> dict[str, dict[str, Any]]:
    """Tables of one kind with the file's named sources written out, so that other files can refer to them."""
    named = tables.get("source", {})
    own_tables = {}
    for name, own in tables.get(kind, {}).items():
        cited = {key: own[key] for key in ("source", "sources") if key in own}
        strings(own.get("names", []), f"{where}: {kind}.{name}: names")
        # Sources of leaves are written as nested tables or as dotted keys: both become dotted paths.
        flat = texts(cited, f"{where}: {kind}.{name}")
        # A source is a name in [source], or text that stands for itself.
        sources = {path: named.get(text, text) for path, text in flat.items()}
        inner = {path.removeprefix("sources."): text for path, text in sources.items() if path != "source"}
        own_tables[name] = {**own, "source": sources.get("source", f"given in {where}"), "sources": inner}
    return own_tables


def strings(value: object, where: str) -> tuple[str, ...]:
    """`value` as a tuple of texts; ValueError of one line when it is no list of them."""
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise ValueError(f"{where} = {value!r} is not a list of texts")
    return tuple(value)


def texts(table: object, where: str, path: str = "") -> dict[str, str]:
    """Dotted path -> text of a table of texts, however nested; ValueError of one line when something else is in it."""
    if not isinstance(table, Mapping):
        raise ValueError(f"{where}: {path or 'the table'} = {table!r} is not text")
    flat: dict[str, str] = {}
    for key, value in table.items():
        inner = f"{path}.{key}" if path else key
        flat |= {inner: value} if isinstance(value, str) else texts(value, where, inner)
    return flat

"""Schema of an accelerator's TOML table: its keys and their units, and the entry made from it."""

import dataclasses
import datetime
import re
from collections.abc import Mapping
from typing import Any

from hwspaces.accelerators.derived import (
    ASSUMPTION,
    DerivedFigures,
    Shared,
    clocked,
    exponentials,
    linked,
    vectored,
    widened,
)
from hwspaces.accelerators.energy import energized
from hwspaces.accelerators.entry import LINKS, TIERS, HardwareEntry, assembled, given_price, press_figures
from hwspaces.accelerators.silicon import curved, scaled, siliconed
from hwspaces.accelerators.technology_tables import strings, texts
from hwspaces.files.document import Problems
from hwspaces.quantities.leaves import PRECISIONS
from hwspaces.quantities.units import from_key, is_zero, nearest, positive, quantity
from jaxroof.hardware import Hardware
from jaxroof.numerics.struct import declaration, declarations

_INPUTS = {
    **dict.fromkeys(("vector.fp32", "vector.int8"), "FLOP/s"),
    **dict.fromkeys(("vector.fraction_of_matrix", "memory.hbm.stacks"), "1"),
}
"""Figures of a file that are no leaf of `Hardware`, and their units."""


def _tables() -> dict[str, dict[str, str]]:
    given = {path: leaf.unit for path, leaf in declarations(Hardware).items() if leaf.given and not leaf.structure}
    units_by_table: dict[str, dict[str, str]] = {"": {}}
    for path, unit in (given | _INPUTS).items():
        *around, key = path.split(".")
        # Tables around a table may be written too, even where they hold no figure themselves.
        for depth in range(len(around)):
            units_by_table.setdefault(".".join(around[: depth + 1]), {})
        # `*` stands for one key per precision.
        units_by_table[".".join(around)] |= dict.fromkeys(PRECISIONS, unit) if key == "*" else {key: unit}
    return units_by_table


TABLES = _tables()
"""Table of an accelerator -> plain key -> SI unit. In a file a key ends in its unit unless it is dimensionless."""

TEXTS = {
    "": ("vendor", "product", "architecture", "status", "process", "die", "source"),
    "memory.hbm": ("technology",),
    **dict.fromkeys(LINKS, ("technology", "topology")),
}
"""Table of an accelerator -> keys that hold text."""

NAME = "[a-z][a-z0-9_]*"
"""Names that a file gives to memories of its own, as a regular expression."""

STATUSES = ("GA", "announced", "hypothetical")

_WHOLE = ("memory.near", "memory.dies")
"""Tiers that data sheets do not have: whoever writes one of their figures means all of them."""

_OTHERS = ("aliases", "date", "notes", "sources")


def entry(name: str, table: Mapping[str, Any], shared: Shared, file: str, own: bool = False) -> HardwareEntry:
    """The accelerator that `table` (as `tomllib` gives it) describes.

    Args:
      name: its canonical name.
      table: keys of `TABLES` with unit suffixes, of `TEXTS`, and `aliases`, `date`, `notes`, `sources`.
      shared: what it may refer to.
      file: for messages and provenance.
      own: it is a user's: without a unit for exponentials, its vector units compute them.

    Returns:
      Its entry; what is neither given nor derivable is None in `hardware`.

    Raises:
      ValueError: one line that names file, field, value and what is allowed.
    """
    where = f"{file}: {name}"
    figures = DerivedFigures({}, {}, {})
    # What the file gives itself, and the source of each figure.
    wrong: list[str] = []
    _read(table, "", name, figures, wrong)
    if wrong:
        raise Problems(file, wrong)
    figures.sources = _sources(table, figures, shared, where, file)
    # A vector rate that is a share of the matrix peak is told by the rule that computes it, not as an assumption here.
    guessed = [p for p, s in figures.sources.items() if s.startswith(ASSUMPTION) and p != "vector.fraction_of_matrix"]
    assumed = [*press_figures(figures.sources), *(f"{path}: {figures.sources[path]}" for path in guessed)]
    # Figures that follow from others: each rule adds what later ones read. Energies need rates and links, the voltage
    # curve needs energies.
    assumed += [a for rule in (clocked, linked, vectored, widened, siliconed) for a in rule(figures, shared, where)]
    if own:
        assumed += exponentials(figures)
    assumed += energized(figures, shared.energy, where)
    assumed += curved(figures, shared, where)
    # Features of cores that nothing mentions are taken as absent.
    figures.add("cores.asynchronous", 0.0, "threads feed the matrix units unless a source says otherwise")
    figures.add("cores.wide_waves", 0.0, "32 threads run an instruction, or none, unless a source says otherwise")
    figures.add("cores.narrow_waves", 0.0, "32 threads run an instruction, or none, unless a source says otherwise")
    figures.add("cores.tensor_memory", 0.0, "registers hold the matrix units' results unless a source says otherwise")
    figures.add("cores.register_copies", 0.0, "copies run beside threads, or none, unless a source says otherwise")
    figures.add("cores.compiled", 0.0, "blocks of threads run unless a source says otherwise")
    # Inputs, such as the number of memory stacks, have served the rules and are no leaves of the hardware.
    leaves = {path: value for path, value in figures.values.items() if path not in _INPUTS}
    topologies = {tier: figures.texts[f"{tier}.topology"] for tier in LINKS if f"{tier}.topology" in figures.texts}
    hardware = assembled(leaves, where, topologies=topologies)
    # Predicted areas need the whole device; their scales to published sizes come after.
    scales: dict[str, Any] = scaled(hardware, figures, shared, where)
    if scales and hardware.silicon is not None:
        hardware = dataclasses.replace(hardware, silicon=dataclasses.replace(hardware.silicon, **scales))
    leaves |= {f"silicon.{leaf}": scale for leaf, scale in scales.items()}
    for tier in _WHOLE:
        if missing := _missing(tier, leaves):
            raise ValueError(f"{where}: {tier} also needs {' and '.join(missing)}")
    assumed += [sentence for tier in TIERS if (sentence := _unknown(tier, leaves))]
    date = iso_date(table.get("date"), where)
    return HardwareEntry(
        name=name,
        aliases=strings(table.get("aliases", []), f"{where}: aliases"),
        vendor=figures.texts.get("vendor"),
        product=figures.texts.get("product"),
        architecture=figures.texts.get("architecture"),
        status=_status(figures.texts.get("status"), where),
        date=date,
        hardware=hardware,
        figures=leaves,
        sources=figures.sources,
        assumptions=tuple(assumed),
        notes=strings(table.get("notes", []), f"{where}: notes"),
        file=file,
        technologies={
            tier.removeprefix("links."): figures.texts[f"{tier}.technology"]
            for tier in LINKS
            if f"{tier}.technology" in figures.texts
        },
        die=figures.texts.get("die"),
        process=figures.texts.get("process"),
        memory=figures.texts.get("memory.hbm.technology"),
        price=given_price(leaves, figures.sources, file, date),
    )


def problems(table: Mapping[str, Any], path: str, place: str, bare: bool = False) -> list[str]:
    """Everything that is wrong with the keys and values of a table, a line each.

    Args:
      table: as `tomllib` gives it.
      path: of the table in an accelerator: "memory.hbm"; "" is the accelerator itself.
      place: what its user calls it, with which lines begin.
      bare: numbers without a unit are in SI units.
    """
    found: list[str] = []
    _read(table, path, place, DerivedFigures({}, {}, {}), found, bare)
    return found


def with_units(table: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """A table in which numbers of SI units are texts with that unit, as `entry` takes them; counts stay numbers."""
    units = TABLES.get(_declared(path), {})
    written: dict[str, Any] = {}
    for key, value in table.items():
        inner = f"{path}.{key}" if path else key
        if isinstance(value, Mapping) and _declared(inner) in TABLES:
            written[key] = with_units(value, inner)
        else:
            number = isinstance(value, int | float) and units.get(key, "1") != "1"
            written[key] = f"{value!r} {units[key]}" if number else value
    return written


def _read(
    table: Mapping[str, Any], path: str, place: str, figures: DerivedFigures, wrong: list[str], bare: bool = False
) -> None:
    """Every key of `table` and of the tables in it into `figures`; what cannot be read into `wrong`."""
    for key, value in table.items():
        inner = f"{path}.{key}" if path else key
        if key in _OTHERS and not path:
            continue
        if isinstance(value, Mapping) and _declared(inner) in TABLES:
            _read(value, inner, f"{place}.{key}", figures, wrong, bare)
            continue
        try:
            _read_key(key, value, path, place, figures, bare)
        except ValueError as error:
            wrong.append(str(error))


def _read_key(key: str, value: Any, path: str, place: str, figures: DerivedFigures, bare: bool) -> None:
    """One key that holds no table into `figures`; ValueError of one line."""
    units, words = TABLES[_declared(path)], TEXTS.get(path, ()) + (() if path else _OTHERS)
    inner = f"{path}.{key}" if path else key
    if isinstance(value, Mapping):
        if f"{path}.*" in TABLES:
            raise ValueError(f"{place}: {key} is no name of a memory: small letters, digits and _")
        raise ValueError(f"{place}: table {key} is not known{nearest(inner, [t for t in TABLES if t])}")
    if _declared(inner) in TABLES:
        raise ValueError(f"{place}: {key} = {value!r} is not a table")
    if key in words:
        if not isinstance(value, str):
            raise ValueError(f"{place}: {key} = {value!r} is not text")
        figures.texts[inner] = value
    elif key in units and units[key] != "1" and (isinstance(value, str) or bare):
        # A quantity as text says its unit itself: fp8 = "3 PFLOP/s".
        zero = _may_be_zero(inner) and is_zero(value, units[key])
        figures.values[inner] = 0.0 if zero else quantity(value, units[key], f"{place}: {key}")
    elif units.get(key) == "1":
        zero = _may_be_zero(inner) and is_zero(value)
        figures.values[inner] = 0.0 if zero else positive(value, f"{place}: {key}")
    else:
        # The unit is read with 1 in place of 0: only the plain key, without its unit, tells whether 0 is allowed.
        zero = is_zero(value)
        plain, number = from_key(key, 1.0 if zero else value, place, units | dict.fromkeys(words, "1"))
        inner = f"{path}.{plain}" if path else plain
        if zero:
            number = 0.0 if _may_be_zero(inner) else positive(value, f"{place}: {key}")
        if inner in figures.values:
            raise ValueError(f"{place}: {key} = {value!r}: {plain} is given twice")
        figures.values[inner] = number


def _declared(path: str) -> str:
    """The table of `TABLES` that describes the one at `path`, where `*` stands for a name of the file's own."""
    around, _, name = path.rpartition(".")
    # Precisions are keys, and no tables.
    return f"{around}.*" if f"{around}.*" in TABLES and re.fullmatch(NAME, name) else path


def _may_be_zero(path: str) -> bool:
    leaf = declaration(Hardware, path)
    return leaf is not None and leaf.zero


def _sources(
    table: Mapping[str, Any], figures: DerivedFigures, shared: Shared, where: str, file: str
) -> dict[str, str]:
    """The source of each figure that the file gives: its own, else the entry's, else the file."""
    default = figures.texts.get("source", f"given in {file}")
    own = texts(table.get("sources", {}), f"{where}.sources")
    for path, text in own.items():
        if path not in figures.values:
            raise ValueError(f"{where}.sources: {path} = {text!r}: no such figure{nearest(path, figures.values)}")
    return {path: shared.source(own.get(path, default)) for path in figures.values}


def _unknown(tier: str, leaves: Mapping[str, float]) -> str | None:
    """The sentence that says which half of a tier is unknown; None when the tier is whole or absent."""
    missing = _missing(tier, leaves)
    return f"{tier}: {' and '.join(missing)} unknown, so this level never binds" if missing else None


def _missing(tier: str, leaves: Mapping[str, float]) -> list[str]:
    """Leaves that a tier of which others are known lacks."""
    missing = [leaf for leaf in TIERS[tier] if f"{tier}.{leaf}" not in leaves]
    return [] if len(missing) == len(TIERS[tier]) else missing


def _status(status: str | None, where: str) -> str | None:
    if status is not None and status not in STATUSES:
        raise ValueError(f"{where}: status = {status!r} is not known{nearest(status, STATUSES)}")
    return status


def iso_date(date: object, where: str) -> str | None:
    """A date of a TOML file as ISO 8601; None where there is none, ValueError of one line when it is no date."""
    if date is None:
        return None
    if not isinstance(date, datetime.date):
        raise ValueError(f"{where}: date = {date!r} is not a date, such as 2026-11-20")
    return date.isoformat()

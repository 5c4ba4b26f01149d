"""Efficiency constants by name or file, with the source of each."""

import dataclasses
import datetime
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hwspaces.accelerators.technology_tables import strings, texts
from hwspaces.files import document
from hwspaces.performance import kernel_tables
from hwspaces.performance.blis import EfficiencyEntry as EfficiencyEntry
from hwspaces.performance.blis import blis_efficiency
from hwspaces.performance.kernel_tables import shipped, shipped_names, shipped_tables, whole
from hwspaces.quantities.units import nearest
from jaxroof.efficiency import Decoding, Efficiency, Host, KindEfficiency, LinkEfficiency, datasheet, kernel
from jaxroof.numerics.tree import leaf_paths, mapped
from jaxroof.op import STAND_INS

PREFIX = "surface:"
"""What the name of measured surfaces begins with: `surface:FILE.nc`, or `surface:FILE.nc:BASE`."""

DEFAULT = "learned"
"""What predicts where nobody says otherwise."""

BUILT_IN = {
    "datasheet": (
        datasheet,
        "the bound that no kernel beats: every peak reached, no fixed time",
        (),
        "jaxroof/efficiency/efficiency.py",
    ),
    "kernel": (
        kernel,
        "published micro-architecture and microbenchmarks, cited beside each constant; no kernel was fitted",
        ("The host takes no time: engines' step times are fitted ones.",),
        "jaxroof/efficiency/efficiency.py",
    ),
}
"""Name of constants that are code -> their function, where they are from, notes, the file."""

ALIASES = {"learned": "learned-vllm"}
"""Other name of constants -> their file's."""

TABLES = {
    "linear": KindEfficiency,
    "experts": KindEfficiency,
    "prefill_attention": KindEfficiency,
    "decode_attention": KindEfficiency,
    "elementwise": KindEfficiency,
    "collective": LinkEfficiency,
    "host": Host,
    "convolution": KindEfficiency,
    "depthwise": KindEfficiency,
}
"""Table of a file -> the struct that it fills, whose fields declare the unit and range of every constant."""

DECODING = tuple(field.name for field in dataclasses.fields(Decoding))
"""Tables inside of the optional table `decoding`: shares of kernels in decode, where they are not those in prefill."""

OPTIONAL = tuple(STAND_INS)
"""Tables that a file may leave out: another kind's kernels stand in."""

_TEXTS = ("engine", "version", "refit", "errors")


def efficiency(name_or_path: str | Path | None = None) -> EfficiencyEntry:
    """The efficiency constants of that name, or the ones in that file.

    Args:
      name_or_path: "learned" (models of kernels, fitted across GPUs; "learned-ENGINE" names whose), "kernel" (the
        same with published constants), "derated" (constant shares), "datasheet" (every peak reached, no fixed time);
        the path of a `.toml` like `hwspaces/efficiencies/derated.toml`; `surface:FILE.nc`, a user's measured kernels
        (`hwspaces.performance.surface`), with `:NAME` after it for what the other kernels run on; a
        `hardware_config.json` of BLIS, with `#NAME` after it where it has several accelerators. None: `DEFAULT`.

    Raises:
      ValueError: one line that names file, key, value and what is allowed: an unknown name or key with the nearest
        known ones, a constant that is missing, a share outside (0, 1], a negative time, a unit of another dimension;
        of a surface, what `surface_efficiency` refuses.
    """
    text = DEFAULT if name_or_path is None else str(name_or_path)
    if text.startswith(PREFIX):
        from hwspaces.performance.surface_efficiency import surface_efficiency

        # `surface:FILE.nc:BASE`: without a base, what was not measured has the default constants.
        path, _, base = text.removeprefix(PREFIX).partition(".nc:")
        return surface_efficiency(f"{path}.nc" if base else path, efficiency(base or None))
    if text.lower().endswith(".toml"):
        return _entry(Path(text).stem, whole(document.toml(text), text), text)
    if text.lower().partition("#")[0].endswith(".json"):
        return blis_efficiency(text)
    if text not in efficiencies():
        raise ValueError(f"{text!r} is neither a known efficiency nor a .toml file{nearest(text, efficiencies())}")
    if text in BUILT_IN:
        return _built_in(text)
    # The entry has the name that was given, which may be an alias.
    return dataclasses.replace(_shipped(ALIASES.get(text, text)), name=text)


def efficiencies() -> tuple[str, ...]:
    """Names of the efficiency constants that the project ships."""
    return (*shipped_names(), *ALIASES, *BUILT_IN)


@functools.cache
def _shipped(name: str) -> EfficiencyEntry:
    return _entry(name, shipped_tables(name), shipped(name))


@functools.cache
def _built_in(name: str) -> EfficiencyEntry:
    constants, source, notes, file = BUILT_IN[name]
    # Constants that are code become Python's floats, as those of files are.
    efficiency = mapped(float, constants())
    return EfficiencyEntry(
        name=name,
        efficiency=efficiency,
        sources=dict.fromkeys(leaf_paths(efficiency), source),
        notes=notes,
        file=file,
    )


def _entry(name: str, tables: Mapping[str, Any], file: str) -> EfficiencyEntry:
    """The entry that the tables of an efficiency file describe, every key and value checked."""
    allowed = (*TABLES, "decoding", *_TEXTS, "format", "date", "devices", "notes", "source")
    for key in tables:
        if key not in allowed:
            raise ValueError(f"{file}: {key} is not known{nearest(key, allowed)}")
    # Words about the whole file.
    words = {}
    for key in _TEXTS:
        words[key] = tables.get(key)
        if not isinstance(words[key], str | None):
            raise ValueError(f"{file}: {key} = {words[key]!r} is not text")
    date = tables.get("date")
    if not isinstance(date, datetime.date | None):
        raise ValueError(f"{file}: date = {date!r} is not a date, such as 2026-11-20")
    # Sources with a name, which tables may cite in place of a text of their own.
    cited = texts(tables.get("source", {}), f"{file}: source")
    parts: dict[str, Any] = {}
    sources, needed = dict[str, str](), [table for table in TABLES if table not in OPTIONAL]
    for table, kind in TABLES.items():
        if table in OPTIONAL and table not in tables:
            continue
        if not isinstance(tables.get(table), Mapping):
            raise ValueError(f"{file}: table {table} is missing; needed are {', '.join(needed)}")
        # A kind has either models of its kernels, one table per class of them, or constant shares.
        if any(isinstance(tables[table].get(name), Mapping) for name in kernel_tables.CLASSES):
            kernel_tables.required_format(tables, file)
            parts[table], own = kernel_tables.kernel_table(tables[table], f"{file}: {table}")
        else:
            parts[table] = kernel_tables.constants(kind, tables[table], f"{file}: {table}")
            own = kernel_tables.constant_sources(tables[table], kind, f"{file}: {table}", f"given in {file}")
        sources |= {f"{table}.{path}": cited.get(source, source) for path, source in own.items()}
    # Shares in decode need those in prefill beside them, so that they come after all kinds.
    if "decoding" in tables:
        parts["decoding"], own = _decoding(tables["decoding"], parts, f"{file}: decoding", file)
        sources |= {path: cited.get(source, source) for path, source in own.items()}
    engine = " ".join(word for word in (words["engine"], words["version"]) if word)
    return EfficiencyEntry(
        name=name,
        efficiency=Efficiency(**parts),
        sources=sources,
        engine=engine or None,
        date=None if date is None else date.isoformat(),
        refit=words["refit"],
        errors=words["errors"],
        notes=strings(tables.get("notes", []), f"{file}: notes"),
        devices=strings(tables.get("devices", []), f"{file}: devices"),
        file=file,
    )


def _decoding(table: object, parts: Mapping[str, Any], where: str, file: str) -> tuple[Decoding, dict[str, str]]:
    """Shares of kernels in decode, and the source of each by dotted path; ValueError of one line."""
    if not isinstance(table, Mapping):
        raise ValueError(f"{where} = {table!r} must be a table of {', '.join(DECODING)}")
    shares, sources = dict[str, KindEfficiency](), dict[str, str]()
    # Those that are needed and those that are there: both missing and unknown tables are refused.
    for name in (*DECODING, *table):
        if name not in DECODING:
            raise ValueError(f"{where}: {name} is not known{nearest(name, DECODING)}")
        if not isinstance(parts[name], KindEfficiency):
            raise ValueError(f"{where}: {name} needs constant shares in the table {name} too, not models of kernels")
        if not isinstance(table.get(name), Mapping):
            raise ValueError(f"{where}: table {name} is missing; needed are {', '.join(DECODING)}")
        shares[name] = kernel_tables.constants(KindEfficiency, table[name], f"{where}.{name}")
        own = kernel_tables.constant_sources(table[name], KindEfficiency, f"{where}.{name}", f"given in {file}")
        sources |= {f"decoding.{name}.{path}": source for path, source in own.items()}
    return Decoding(**shares), sources

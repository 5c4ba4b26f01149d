"""Pages of the engines' rules, from the files in `hwspaces/engines`: part of `python -m tests.reference`."""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import hwspaces
from hwspaces.engines.engine import FILES, TABLES, EngineEntry, entry
from hwspaces.engines.keys import numbers
from hwspaces.files import document
from hwspaces.quantities.units import formatted
from jaxroof.batch import Policy
from jaxroof.numerics.struct import Declaration, declarations

HEAD = """# Rules of {title}

What the scheduler of {title} does by its source, and what a simulation does for it (`--engine {name}`): the fields of
the [policy](../../guide/serving.md#policy), with the values of {newest}, the newest release with evidence.
`--policy NAME=VALUE` changes a field. The simulation's own rules are in [scheduler.md](../scheduler.md).

Read was {read}. This page is generated from `{file}`.
"""

OTHERS = """## Memory, precisions and host

Rules beside the scheduler's, with their sources. Numbers that are "ours" were fitted: they hold with the constants that
were fitted beside them, whatever the engine's source says.
"""

RELEASES = """## Releases

What changed when; `--engine {name}@VERSION` takes the rules of a release.
"""

Table = Callable[[tuple[str, ...], Iterator[tuple[str, ...]]], str]


def page(name: str, table: Table) -> str:
    """The page of one engine.

    Args:
      table: of heads and rows, as `tests.reference.table`.
    """
    newest, releases = hwspaces.engine(name), _releases(name)
    said = {"name": name, "title": newest.title, "newest": newest.version, "read": newest.read, "file": newest.file}
    heads = "rule", "engine", "jaxroof", "what differs or is left out", "source"
    rules = (
        (rule.rule, rule.engine, _fields(newest, releases, rule.fields), rule.differs or "nothing", rule.source)
        for rule in newest.rules
    )
    others = table(("path", "value", "source"), _others(newest, releases))
    changes = ((version, f"{each['date']}", _changes(each), each["source"]) for version, each in _tables(name).items())
    known = table(("release", "by", "changes", "source"), changes)
    parts = HEAD.format(**said), table(heads, rules), "", OTHERS, others, "", RELEASES.format(**said), known, ""
    return "\n".join(parts)


def _tables(name: str) -> Mapping[str, Any]:
    """Tables of the releases of an engine's file, from the oldest on."""
    tables = document.toml(FILES / f"{name}.toml").get("releases", {})
    return dict(sorted(tables.items(), key=lambda pair: numbers(pair[0])))


def _releases(name: str) -> dict[str, EngineEntry]:
    """The engine at every release that changes something, and before them all."""
    tables = document.toml(FILES / f"{name}.toml")
    return {version: entry(name, tables, version) for version in ("0", *_tables(name))}


def _fields(newest: EngineEntry, releases: Mapping[str, EngineEntry], names: tuple[str, ...]) -> str:
    """Fields of the policy with their values: "`hidden_host` 1 (0 before 0.14)"."""
    plain = dataclasses.asdict(Policy())

    def value(name: str) -> Callable[[EngineEntry], Any]:
        return lambda release: release.policy.get(name, plain[name])

    declared = declarations(Policy)
    found = (f"`{name}` {_over(newest, releases, value(name), declared[name])}" for name in names)
    return ", ".join(found) or "no field"


def _others(newest: EngineEntry, releases: Mapping[str, EngineEntry]) -> Iterator[tuple[str, ...]]:
    """Path, value and source of what is no rule of the scheduler."""
    declared = declarations(TABLES["deployment"])
    for name in dict.fromkeys(name for release in releases.values() for name in release.deployment):
        value = _over(newest, releases, lambda release, name=name: release.deployment.get(name), declared[name])
        yield f"`deployment.{name}`", value, newest.sources.get(f"deployment.{name}", "releases below")
    for table, unit in (("precisions", ""), ("host", "s")):
        for field in dataclasses.fields(getattr(newest, table)):
            path = f"{table}.{field.name}"
            if (path if path in newest.sources else table) in newest.sources:
                value = _over(newest, releases, _part(table, field.name), Declaration(unit, ""))
                yield f"`{path}`", value, newest.sources.get(path) or newest.sources[table]


def _part(table: str, name: str) -> Callable[[EngineEntry], Any]:
    return lambda release: getattr(getattr(release, table), name)


def _over(
    newest: EngineEntry, releases: Mapping[str, EngineEntry], value: Callable[[EngineEntry], Any], declared: Declaration
) -> str:
    """The value at the newest release with evidence, and what it was before and is after it."""
    now, text = value(newest), []
    steps = list(releases.items())
    for (_, earlier), (version, later) in itertools.pairwise(steps):
        if value(earlier) == value(later):
            continue
        if numbers(version) <= numbers(newest.version):
            text.append(f"{_text(value(earlier), declared)} before {version}")
        else:
            text.append(f"{_text(value(later), declared)} from {version} on")
    return _text(now, declared) + (f" ({', '.join(text)})" if text else "")


def _text(value: Any, declared: Declaration) -> str:
    """A value in words."""
    if value is None:
        return "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{one} beside {key}" for key, one in value.items()) or "16 bits"
    if isinstance(value, str):
        return value
    if declared.codes:
        return declared.codes[int(value)]
    if math.isinf(value):
        return "no limit"
    if declared.unit in ("", "1"):
        return f"{value:,.4g}" if value < 1.0 else f"{value:,.10g}"
    return formatted(float(value), declared.unit, 4) if value else f"0 {declared.unit}"


def _changes(table: Mapping[str, Any]) -> str:
    """What a release sets: "`policy.hidden_host` 1"."""
    found = (
        f"`{part}.{name}` {value}"
        for part in table
        if part not in ("date", "source", "efficiency")
        for name, value in table[part].items()
    )
    constants = [f"constants `{table['efficiency']}`"] if "efficiency" in table else []
    return ", ".join([*constants, *found]) or "nothing"

"""Tables of an efficiency file whole: over those of its `base`, and each over the table that its `like` names."""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hwspaces import document
from hwspaces.units import nearest

FILES = Path(__file__).parent / "efficiencies"


def shipped_names() -> list[str]:
    """Names of the shipped files."""
    return sorted(path.stem for path in FILES.glob("*.toml"))


def shipped(name: str) -> str:
    """The path of a shipped file as messages and datasets name it."""
    return f"hwspaces/efficiencies/{name}.toml"


@functools.cache
def _as_it_stands(name: str) -> Mapping[str, Any]:
    return document.toml(FILES / f"{name}.toml")


@functools.cache
def shipped_tables(name: str) -> Mapping[str, Any]:
    """The whole tables of a shipped file."""
    return whole(_as_it_stands(name), shipped(name))


def whole(tables: Mapping[str, Any], file: str) -> Mapping[str, Any]:
    """The tables of a file with what they inherit; false leaves a table or key out.

    Args:
      tables: of the file as it stands. `base = "NAME"`: over the tables of that shipped file. `like = "linear"` or
        `like = "linear.wide"` in a table: over that table of the same file.
      file: what the message of an error begins with.

    Raises:
      ValueError: one line, for a base that is not shipped or has one itself, a table that is not there or is like
        another itself, or false for what there is not below.
    """
    if "base" in tables:
        names, base = shipped_names(), tables["base"]
        if not isinstance(base, str) or base not in names:
            raise ValueError(f"{file}: base = {base!r} is no shipped file{nearest(str(base), names)}")
        if "base" in _as_it_stands(base):
            raise ValueError(f"{file}: base = {base!r} has a base of its own")
        kept = {key: one for key, one in shipped_tables(base).items() if isinstance(one, Mapping) or key == "format"}
        tables = _over(kept, {key: one for key, one in tables.items() if key != "base"}, file, "the base")
    return {key: _alike(value, tables, f"{file}: {key}") for key, value in tables.items()}


def at(tables: Mapping[str, Any], path: str) -> Any:
    """What stands at a dotted path of tables; an empty table where there is nothing."""
    for name in path.split("."):
        tables = tables.get(name, {}) if isinstance(tables, Mapping) else {}
    return tables


def _alike(table: Any, tables: Mapping[str, Any], where: str) -> Any:
    """A table and those inside over what their `like` names."""
    if not isinstance(table, Mapping):
        return table
    if "like" in table:
        like = table["like"]
        other = at(tables, like) if isinstance(like, str) else {}
        if not isinstance(other, Mapping) or not other:
            raise ValueError(f'{where}: like = {like!r} is no table of this file, such as "linear"')
        if "like" in other:
            raise ValueError(f"{where}: like = {like!r}, which is like another table itself")
        own = {key: value for key, value in table.items() if key != "like"}
        return _over(other, own, where, like)
    return {key: _alike(value, tables, f"{where}.{key}") for key, value in table.items()}


def _over(below: Mapping[str, Any], own: Mapping[str, Any], where: str, whose: str) -> dict[str, Any]:
    """One table over another, keys of tables inside them too."""
    found = dict(below)
    for key, value in own.items():
        if value is False:
            if key not in below:
                raise ValueError(f"{where}: {key} = false, which {whose} does not have")
            del found[key]
        elif isinstance(value, Mapping) and isinstance(below.get(key), Mapping) and "like" not in value:
            found[key] = _over(below[key], value, f"{where}: {key}", whose)
        else:
            found[key] = value
    return found

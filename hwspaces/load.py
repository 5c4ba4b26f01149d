"""Accelerators by name or file."""

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from hwspaces import document
from hwspaces.blis import blis_entry
from hwspaces.derived import Shared
from hwspaces.energy import technologies
from hwspaces.entry import HardwareEntry, with_price
from hwspaces.prices import market_price, offers
from hwspaces.schema import entry
from hwspaces.technology_tables import CATALOGUE, OF_SPACES, common, file_tables, resolved
from hwspaces.technology_tables import table as shared_table
from hwspaces.units import nearest

CATALOGUE_PLACE = "hwspaces/catalogue/"
"""Beginning of `HardwareEntry.file` of accelerators of the catalogue."""


def hardware(name_or_path: str | Path) -> HardwareEntry:
    """The accelerator of that name, or the one in that file.

    Args:
      name_or_path: a name or an alias of the catalogue (case, `-`, `_` and spaces do not matter), or the path of
        a `.toml` of the catalogue's schema or a `.json` of the BLIS form; `file.toml#NAME` where the file has several.

    Raises:
      ValueError: one line that names what is wrong: an unknown name with the nearest known ones, a file that is
        missing or unreadable, a field with its value and what is allowed.
    """
    text = str(name_or_path)
    path, _, name = text.partition("#")
    if path.lower().endswith(".toml"):
        return _of_toml(path, name)
    if path.lower().endswith(".json"):
        return _of_json(path, name)
    found = _index(_files_with(_plain(text))).get(_plain(text))
    if found is None:
        raise ValueError(f"{text!r} is neither in the catalogue nor a .toml or .json file{_suggestion(text)}")
    return _catalogue_entry(*found)


def names() -> tuple[str, ...]:
    """Canonical names of the catalogue, in its order."""
    return tuple(catalogue_tables())


def rented_names() -> tuple[str, ...]:
    """Canonical names of accelerators that are rented out, at a price or an estimate, in the catalogue's order.

    Comparisons are of these where no accelerator is named: the price of a phone or of a board on a desk, spread over
    its years, is no rent.
    """
    return tuple(name for name in names() if any(offer.terms == "on_demand" for offer in offers().get(name, ())))


def catalogue() -> dict[str, HardwareEntry]:
    """Every entry of the catalogue, by canonical name."""
    return {name: _catalogue_entry(file, name) for file in _texts() for name in _tables(file).get("accelerator", {})}


def catalogue_tables() -> dict[str, Mapping]:
    """The table of every accelerator of the catalogue as its file has it, by canonical name."""
    return {name: table for file in _texts() for name, table in _tables(file).get("accelerator", {}).items()}


@dataclasses.dataclass(frozen=True)
class KnownDie:
    """The published size of a die, or of all dies of a package."""

    area: float  # m2
    limit: bool  # whether it is only known to be smaller
    fitted: bool  # whether the areas per unit are fitted to it
    transistors: float | None


def known_dies() -> dict[str, KnownDie]:
    """Every die of the catalogue whose size is published, by name."""
    found, shared = {}, common()
    for name, own in shared.silicon["die"].items():
        values, _ = shared_table("die", name, shared, "hwspaces/catalogue")
        area = values.get("area", values.get("limit"))
        if area is not None:
            limit = "area" not in values
            found[name] = KnownDie(area, limit, not (limit or own.get("alone", False)), values.get("transistors"))
    return found


def changed(name: str, change: Callable[[Mapping], Mapping], called: str, file: str) -> HardwareEntry:
    """An accelerator of the catalogue with a changed table, under another name and without a price.

    Args:
      name: of the catalogue.
      change: from its table, as `tomllib` gives it, to the changed one.
      called: the new name.
      file: that says what is changed, for messages.

    Raises:
      ValueError: one line, for an unknown name, and as `hwspaces.schema.entry`.
    """
    found = _index(_files_with(_plain(name))).get(_plain(name))
    if found is None:
        raise ValueError(f"{file}: base = {name!r} is not in the catalogue{_suggestion(name)}")
    own, canonical = found
    return entry(called, change(_tables(own)["accelerator"][canonical]), _shared(own), file)


@functools.cache
def _texts() -> dict[str, str]:
    """Text of every file of the catalogue, without case and separators."""
    return {path.name: _joined(path.read_text(encoding="utf-8")) for path in sorted(CATALOGUE.glob("*.toml"))}


@functools.lru_cache(maxsize=1024)
def _files_with(plain: str) -> tuple[str, ...]:
    """Files in whose text a name is: parsing takes far longer than searching, and no other file can have it."""
    return tuple(file for file, text in _texts().items() if plain in text)


@functools.cache
def _tables(file: str) -> Mapping:
    return file_tables(CATALOGUE / file)


@functools.cache
def _index(files: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    """Name or alias in these files, without case and separators -> file and canonical name."""
    index: dict[str, tuple[str, str]] = {}
    for file in files:
        for name, table in _tables(file).get("accelerator", {}).items():
            for alias in (name, *table.get("aliases", [])):
                if index.setdefault(_plain(alias), (file, name)) != (file, name):
                    raise ValueError(f"{file}: {name}: alias {alias!r} already belongs to {index[_plain(alias)][1]}")
    return index


@functools.cache
def _shared(file: str) -> Shared:
    """What accelerators of a file of the catalogue refer to."""
    own = {"sources": _tables(file).get("source", {}), "architectures": _architectures(file)}
    return dataclasses.replace(common(), **own)


@functools.cache
def _architectures(file: str) -> dict[str, dict]:
    return resolved(_tables(file), "architecture", file)


@functools.cache
def _catalogue_entry(file: str, name: str) -> HardwareEntry:
    found = entry(name, _tables(file)["accelerator"][name], _shared(file), f"{CATALOGUE_PLACE}{file}")
    return with_price(found, market_price(name))


def _of_toml(path: str, name: str) -> HardwareEntry:
    tables, shared = file_tables(Path(path)), common()
    known = {name: table for file in _texts() for name, table in _architectures(file).items()}
    own = Shared(
        tables.get("source", {}),
        {**known, **resolved(tables, "architecture", path)},
        {**shared.links, **resolved(tables, "link", path)},
        shared.energy | technologies(tables, path),
        {kind: {**known, **resolved(tables, kind, path)} for kind, known in shared.silicon.items()},
    )
    for kind in OF_SPACES:
        for written in tables.get(kind, {}):
            shared_table(kind, written, own, path)
    accelerators = tables.get("accelerator", {})
    chosen = _chosen(accelerators, name, path)
    return entry(chosen, accelerators[chosen], own, path)


def _of_json(path: str, name: str) -> HardwareEntry:
    return blis_entry(*json_accelerator(path, name), path)


def json_accelerator(path: str, name: str) -> tuple[str, Mapping]:
    """The accelerator of that name, or the only one, in a `hardware_config.json`: its name and its object.

    Raises:
      ValueError: one line that names the file.
    """
    tables = document.json_value(path)
    if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
        raise ValueError(f"{path}: not a hardware_config.json; it holds one object of figures per accelerator name")
    chosen = _chosen(tables, name, path)
    return chosen, tables[chosen]


def _chosen(tables: Mapping, name: str, path: str) -> str:
    """The canonical spelling of `name` among `tables`, or the only one."""
    if not tables:
        raise ValueError(f"{path}: no accelerator in it; write one table [accelerator.NAME]")
    if not name and len(tables) == 1:
        return next(iter(tables))
    if not name:
        raise ValueError(f"{path}: holds {len(tables)} accelerators; write {path}#NAME with one of {', '.join(tables)}")
    same = [known for known in tables if _plain(known) == _plain(name)]
    if not same:
        raise ValueError(f"{path}#{name}: no such accelerator in the file{nearest(name, tables)}")
    return same[0]


def _suggestion(text: str) -> str:
    index = _index(tuple(_texts()))
    close = nearest(_plain(text), index)
    if close.startswith("; did"):
        found = [index[alias][1] for alias in close.removeprefix("; did you mean ").rstrip("?").split(" or ")]
        return f"; did you mean {' or '.join(dict.fromkeys(found))}?"
    return f"; known: {', '.join(names())}"


def _plain(name: str) -> str:
    """`name` as it is looked up: no case, no separators, no vendor or brand before it, no "GPU" after it."""
    return re.sub(r"^(nvidia|amd|google|aws|intel|huawei|tesla|geforce|instinct)+(?=.)|(?<=.)gpu$", "", _joined(name))


def _joined(text: str) -> str:
    return "".join(text.lower().translate(_SEPARATORS).split())


_SEPARATORS = str.maketrans("", "", "-_")

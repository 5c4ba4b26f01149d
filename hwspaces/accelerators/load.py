"""Accelerators by name or file."""

import dataclasses
import functools
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hwspaces.accelerators.blis import blis_entry
from hwspaces.accelerators.derived import Shared
from hwspaces.accelerators.described import described, estimated, is_description, kin, problems
from hwspaces.accelerators.entry import HardwareEntry, with_price
from hwspaces.accelerators.prices import TERMS, Price, market_price, offers
from hwspaces.accelerators.schema import entry, iso_date
from hwspaces.accelerators.technology_tables import CATALOGUE, common, extended, file_tables, known_tables, resolved
from hwspaces.accelerators.technology_tables import table as shared_table
from hwspaces.files import document
from hwspaces.quantities.units import nearest, quantity

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
    # Names have no suffix: a suffix of files tells that a path is meant.
    path, _, name = text.partition("#")
    if path.lower().endswith(".toml"):
        return _of_toml(path, name)
    if path.lower().endswith(".json"):
        return _of_json(path, name)
    location = _index(_files_with(_plain(text))).get(_plain(text))
    if location is None:
        raise ValueError(f"{text!r} is neither in the catalogue nor a .toml or .json file{_suggestion(text)}")
    return _catalogue_entry(*location)


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


def catalogue_tables() -> dict[str, Mapping[str, Any]]:
    """The table of every accelerator of the catalogue as its file has it, by canonical name."""
    return {name: table for file in _texts() for name, table in _tables(file).get("accelerator", {}).items()}


@dataclasses.dataclass(frozen=True)
class KnownDie:
    """The published size of a die, or of all dies of a package; None where nobody publishes it."""

    area: float | None  # m2
    core_area: float | None  # m2, of the dies with cores, where those without are dies of their own
    limit: bool  # whether it is only known to be smaller
    fitted: bool  # whether the areas per unit are fitted to it
    transistors: float | None


def known_dies() -> dict[str, KnownDie]:
    """Every die of the catalogue whose size is published, by name."""
    dies, shared = {}, common()
    for name, own in shared.silicon["die"].items():
        values, _ = shared_table("die", name, shared, "hwspaces/catalogue")
        area, core_area = values.get("area", values.get("limit")), values.get("core_area")
        if area is not None or core_area is not None:
            # An upper bound stands for a size that nobody published, and is never fitted to.
            limit = "limit" in values and "area" not in values
            fitted = not (limit or own.get("alone", False))
            dies[name] = KnownDie(area, core_area, limit, fitted, values.get("transistors"))
    return dies


def changed(
    name: str,
    change: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    called: str,
    file: str,
    technology: Mapping[str, Any] | None = None,
) -> HardwareEntry:
    """An accelerator of the catalogue with a changed table, under another name and without a price.

    Args:
      name: of the catalogue.
      change: from its table, as `tomllib` gives it, to the changed one.
      called: the new name.
      file: that says what is changed, for messages.
      technology: tables of technologies beside those of the package.

    Raises:
      ValueError: one line, for an unknown name, and as `hwspaces.accelerators.schema.entry`.
    """
    location = _index(_files_with(_plain(name))).get(_plain(name))
    if location is None:
        raise ValueError(f"{file}: base = {name!r} is not in the catalogue{_suggestion(name)}")
    own, canonical = location
    shared = _shared(own) if technology is None else extended(_shared(own), technology, file)
    return entry(called, change(_tables(own)["accelerator"][canonical]), shared, file)


@functools.cache
def _texts() -> dict[str, str]:
    """Text of every file of the catalogue, without case and separators."""
    return {path.name: _joined(path.read_text(encoding="utf-8")) for path in sorted(CATALOGUE.glob("*.toml"))}


@functools.lru_cache(maxsize=1024)
def _files_with(plain: str) -> tuple[str, ...]:
    """Files in whose text a name is: parsing takes far longer than searching, and no other file can have it."""
    return tuple(file for file, text in _texts().items() if plain in text)


@functools.cache
def _tables(file: str) -> Mapping[str, Any]:
    return file_tables(CATALOGUE / file)


@functools.cache
def _index(files: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    """Name or alias in these files, without case and separators -> file and canonical name."""
    index: dict[str, tuple[str, str]] = {}
    for file in files:
        for name, table in _tables(file).get("accelerator", {}).items():
            for alias in (name, *table.get("aliases", [])):
                # A name for two accelerators would mean one or the other by the order of files.
                if index.setdefault(_plain(alias), (file, name)) != (file, name):
                    raise ValueError(f"{file}: {name}: alias {alias!r} already belongs to {index[_plain(alias)][1]}")
    return index


@functools.cache
def _shared(file: str) -> Shared:
    """What accelerators of a file of the catalogue refer to."""
    own = {"sources": _tables(file).get("source", {}), "architectures": _architectures(file)}
    return dataclasses.replace(common(), **own)


@functools.cache
def _architectures(file: str) -> dict[str, dict[str, Any]]:
    return resolved(_tables(file), "architecture", file)


def _every_architecture() -> dict[str, dict[str, Any]]:
    """Architectures of all files of the catalogue, which files of users may name."""
    return {name: table for file in _texts() for name, table in _architectures(file).items()}


@functools.cache
def _catalogue_entry(file: str, name: str) -> HardwareEntry:
    unpriced = entry(name, _tables(file)["accelerator"][name], _shared(file), f"{CATALOGUE_PLACE}{file}")
    return with_price(unpriced, market_price(name))


def _of_toml(path: str, name: str) -> HardwareEntry:
    written = document.toml(path)
    if is_description(written):
        return _of_description(written, path, name)
    tables, shared = known_tables(written, path), common()
    # The file's own tables stand over those of the catalogue that have the same name.
    own = dataclasses.replace(
        extended(shared, tables, path),
        sources=tables.get("source", {}),
        architectures={**_every_architecture(), **resolved(tables, "architecture", path)},
    )
    accelerators = tables.get("accelerator", {})
    chosen = _chosen(accelerators, name, path)
    return entry(chosen, accelerators[chosen], own, path, own=True)


def _of_description(written: Mapping[str, Any], path: str, wanted: str) -> HardwareEntry:
    """The chip that a file describes in a few lines; `wanted` is a name after the path, or ""."""
    wrong = problems(written)
    if wrong:
        raise document.Problems(path, wrong)
    try:
        like = hardware(kin(written))
    except ValueError as error:
        raise ValueError(f"{path}: like: {error}") from None
    name, table = described(written, like, path)
    if wanted:
        _chosen({name: table}, wanted, path)
    shared = dataclasses.replace(common(), architectures=_every_architecture())
    own = entry(name, table, shared, path, own=True)
    return dataclasses.replace(own, assumptions=(estimated(own, like.name), *own.assumptions))


def _of_json(path: str, name: str) -> HardwareEntry:
    return blis_entry(*json_accelerator(path, name), path)


def json_accelerator(path: str, name: str) -> tuple[str, Mapping[str, Any]]:
    """The accelerator of that name, or the only one, in a `hardware_config.json`: its name and its object.

    Raises:
      ValueError: one line that names the file.
    """
    tables = document.json_value(path)
    if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
        raise ValueError(f"{path}: not a hardware_config.json; it holds one object of figures per accelerator name")
    chosen = _chosen(tables, name, path)
    return chosen, tables[chosen]


def _chosen(tables: Mapping[str, Any], name: str, path: str) -> str:
    """The canonical spelling of `name` among `tables`, or the only one."""
    if not tables:
        raise ValueError(f"{path}: no accelerator in it; write one table [accelerator.NAME]")
    if not name and len(tables) == 1:
        return next(iter(tables))
    if not name:
        raise ValueError(f"{path}: holds {len(tables)} accelerators; write {path}#NAME with one of {', '.join(tables)}")
    # Names in a file are as forgiving about case and separators as those of the catalogue.
    same = [known for known in tables if _plain(known) == _plain(name)]
    if not same:
        raise ValueError(f"{path}#{name}: no such accelerator in the file{nearest(name, tables)}")
    return same[0]


def _suggestion(text: str) -> str:
    index = _index(tuple(_texts()))
    # Names are compared in their plain form, and told as the catalogue writes them.
    close = nearest(_plain(text), index)
    if close.startswith("; did"):
        canonical = [index[alias][1] for alias in close.removeprefix("; did you mean ").rstrip("?").split(" or ")]
        return f"; did you mean {' or '.join(dict.fromkeys(canonical))}?"
    return f"; known: {', '.join(names())}"


def _plain(name: str) -> str:
    """`name` as it is looked up: no case, no separators, no vendor or brand before it, no "GPU" after it."""
    return re.sub(r"^(nvidia|amd|google|aws|intel|huawei|tesla|geforce|instinct)+(?=.)|(?<=.)gpu$", "", _joined(name))


def _joined(text: str) -> str:
    return "".join(text.lower().translate(_SEPARATORS).split())


_SEPARATORS = str.maketrans("", "", "-_")


# Prices in place of the usual ones: other terms of renting, or a user's own file.


_KEYS = ("price", "date", "source")

EXAMPLE = 'H100-SXM = "1.9 USD/h"'


def priced(entry: HardwareEntry, prices: str | None) -> HardwareEntry:
    """`entry` at the prices that are asked for.

    Args:
      entry: an accelerator at its usual price: on demand where it is the catalogue's, else what its file says.
      prices: terms of renting (`hwspaces.accelerators.prices.TERMS`), the path of a `.toml` of a user's own prices, or
      None.

    Returns:
      `entry` itself where `prices` is None, or a file without this accelerator. With other terms, the catalogue's
      price of those, or no price where nobody offers them; an accelerator of a user's file keeps its own price.

    Raises:
      ValueError: one line, for a word that is neither, or as `own_prices`.
    """
    if prices is None:
        return entry
    if prices.lower().endswith(".toml"):
        own = own_prices(prices)
        return with_price(entry, own[entry.name]) if entry.name in own else entry
    # Flags write dashes, Python underscores: `reserved-1y` is `reserved_1y`.
    terms = prices.replace("-", "_")
    if terms not in TERMS:
        raise ValueError(f"prices = {prices!r} is neither a .toml file nor terms{nearest(terms, TERMS)}")
    # Market prices are known of the catalogue's accelerators alone.
    return with_price(entry, market_price(entry.name, terms)) if entry.file.startswith(CATALOGUE_PLACE) else entry


def own_prices(path: str) -> Mapping[str, Price]:
    """Prices of a user's file, by the accelerators' canonical names.

    A line is `H100-SXM = "1.9 USD/h"`, or a table of it: `[H100-SXM]` with `price = "1.9 USD/h"`, and where wanted
    `date = 2026-10-01` and `source = "contract 17"`.

    Raises:
      ValueError: one line that names the file, the accelerator and what is allowed: an accelerator that the catalogue
        does not have, or that is there twice; a price that is not positive and finite, or without USD/h; another key.
    """
    # Time of change in ns and size are part of the cache's key: a file changed meanwhile is read again.
    known = os.stat(path) if os.path.exists(path) else None
    return _own_prices(path, known and (known.st_mtime_ns, known.st_size))


@functools.lru_cache(maxsize=8)
def _own_prices(path: str, state: object) -> Mapping[str, Price]:
    """`own_prices` of the file in a state: it is read once for all accelerators, and again when it has changed."""
    prices: dict[str, Price] = {}
    for given, value in document.toml(path).items():
        where = f"{path}: {given}"
        # `hardware` would read a name with such a suffix as a file.
        if given.lower().endswith((".toml", ".json")):
            raise ValueError(f"{where} is no name of the catalogue; a file of an accelerator says its own price")
        try:
            name = hardware(given).name
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        if name in prices:
            raise ValueError(f"{where}: the price of {name} is given twice")
        prices[name] = _own_price(value, where, path)
    if not prices:
        raise ValueError(f"{path}: no price in it; write one line per accelerator: {EXAMPLE}")
    return prices


def _own_price(value: Any, where: str, path: str) -> Price:
    # Text alone is short for a table with nothing but a price.
    table = value if isinstance(value, Mapping) else {"price": value}
    for key in table:
        if key not in _KEYS:
            raise ValueError(f"{where}: {key} is not known{nearest(key, _KEYS)}")
    if "price" not in table:
        raise ValueError(f'{where}: price is missing; write price = "1.9 USD/h"')
    price, source = table["price"], table.get("source", f"given in {path}")
    if not isinstance(price, str):
        raise ValueError(f'{where} = {price!r} must be text with its unit, such as "1.9 USD/h"')
    if not isinstance(source, str):
        raise ValueError(f"{where}: source = {source!r} is not text")
    # Text says its unit, such as USD/h; a `Price` is per hour.
    per_second = quantity(price, "USD/s", where)
    return Price(per_second * 3600.0, f"given in {path}", iso_date(table.get("date"), where), source)

"""Prices in place of the usual ones: other terms of renting, or a user's own file."""

import functools
import os
from collections.abc import Mapping
from typing import Any

from hwspaces import document
from hwspaces.entry import HardwareEntry, with_price
from hwspaces.load import CATALOGUE_PLACE, hardware
from hwspaces.prices import TERMS, Price, market_price
from hwspaces.schema import iso_date
from hwspaces.units import nearest, quantity

_KEYS = ("price", "date", "source")

EXAMPLE = 'H100-SXM = "1.9 USD/h"'


def priced(entry: HardwareEntry, prices: str | None) -> HardwareEntry:
    """`entry` at the prices that are asked for.

    Args:
      entry: an accelerator at its usual price: on demand where it is the catalogue's, else what its file says.
      prices: terms of renting (`hwspaces.prices.TERMS`), the path of a `.toml` of a user's own prices, or None.

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
    terms = prices.replace("-", "_")
    if terms not in TERMS:
        raise ValueError(f"prices = {prices!r} is neither a .toml file nor terms{nearest(terms, TERMS)}")
    return with_price(entry, market_price(entry.name, terms)) if entry.file.startswith(CATALOGUE_PLACE) else entry


def own_prices(path: str) -> Mapping[str, Price]:
    """Prices of a user's file, by the accelerators' canonical names.

    A line is `H100-SXM = "1.9 USD/h"`, or a table of it: `[H100-SXM]` with `price = "1.9 USD/h"`, and where wanted
    `date = 2026-10-01` and `source = "contract 17"`.

    Raises:
      ValueError: one line that names the file, the accelerator and what is allowed: an accelerator that the catalogue
        does not have, or that is there twice; a price that is not positive and finite, or without USD/h; another key.
    """
    known = os.stat(path) if os.path.exists(path) else None
    return _own_prices(path, known and (known.st_mtime_ns, known.st_size))


@functools.lru_cache(maxsize=8)
def _own_prices(path: str, state: object) -> Mapping[str, Price]:
    """`own_prices` of the file in a state: it is read once for all accelerators, and again when it has changed."""
    found: dict[str, Price] = {}
    for given, value in document.toml(path).items():
        where = f"{path}: {given}"
        if given.lower().endswith((".toml", ".json")):
            raise ValueError(f"{where} is no name of the catalogue; a file of an accelerator says its own price")
        try:
            name = hardware(given).name
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        if name in found:
            raise ValueError(f"{where}: the price of {name} is given twice")
        found[name] = _own_price(value, where, path)
    if not found:
        raise ValueError(f"{path}: no price in it; write one line per accelerator: {EXAMPLE}")
    return found


def _own_price(value: Any, where: str, path: str) -> Price:
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
    per_second = quantity(price, "USD/s", where)
    return Price(per_second * 3600.0, f"given in {path}", iso_date(table.get("date"), where), source)

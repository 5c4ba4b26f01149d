"""Accelerators that a fleet may be made of: price, number that can be had, number that is owned."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import hwspaces
from hwspaces.accelerators.prices import server_devices
from hwspaces.quantities.units import nearest, quantity

KEYS = {
    "available": "devices that can be rented at most",
    "owned": "devices that are there at no cost",
    "machine": "devices of one server: whole servers are rented for the year; default: the catalogue's",
    "price": "of a device rented for the year; default: the catalogue's",
}
"""Keys of an accelerator's table, and what each says."""

MOST_DEVICES = 10**6
"""Devices that any count may name."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Supply:
    """One accelerator: what a device costs, and how many there are."""

    name: str
    source: str  # the name or file that it was asked for by
    price: float | None  # USD/s of a device rented for the year; None: no price, so none is rented
    price_source: str
    tdp: float | None  # W
    available: int | None = None  # devices that can be rented; None: any number
    owned: int = 0  # devices at no cost
    machine: int = 1  # devices of a machine that is rented for the year
    notes: tuple[str, ...] = ()  # figures that only the press gives


def supplies(
    asked: Any, where: str, prices: str | None = None, node: int | None = None
) -> tuple[tuple[Supply, ...], dict[str, str]]:
    """Accelerators by what a traffic file says of them.

    Args:
      asked: None: all that are rented out; a list of names or files; or tables by name.
      where: what the message of an error begins with.
      prices: of devices whose table says none, as of `hwspaces.priced`.
      node: devices of one server whose table says none; None: that of `hwspaces.accelerators.prices`.

    Returns:
      Accelerators that can be rented or are owned; and the others with the reason.

    Raises:
      ValueError: one line that names the accelerator, the key, its value and what is allowed.
    """
    tables: dict[str, Any] = {}
    if asked is None:
        tables = {name: {} for name in hwspaces.rented_names()}
    elif isinstance(asked, Mapping):
        tables = dict(asked)
    elif isinstance(asked, list | tuple) and all(isinstance(name, str) for name in asked):
        tables = {name: {} for name in asked}
    else:
        raise ValueError(f"{where}: accelerators = {asked!r} must be a list of names, or tables [accelerators.NAME]")
    if not tables:
        raise ValueError(f"{where}: accelerators is empty; give at least one name, or leave it out for all")
    found: dict[str, Supply] = {}
    left_out = {}
    for name, table in tables.items():
        one = _supply(name, table, f"{where}: accelerator {name}", where, prices, node)
        if one.name in found:
            raise ValueError(f"{where}: accelerator {one.name} is given twice: {found[one.name].source} and {name}")
        if one.price is None and not one.owned:
            left_out[one.name] = "no price"
        else:
            found[one.name] = one
    if not found:
        raise ValueError(f'{where}: none of {_listed(left_out)} has a price; give one: price = "2.5USD/h"')
    return tuple(found.values()), left_out


def _supply(name: str, table: Any, place: str, where: str, prices: str | None, node: int | None) -> Supply:
    if not isinstance(table, Mapping):
        raise ValueError(f"{place} = {table!r} must be a table; its keys: {', '.join(KEYS)}")
    for key in table:
        if key not in KEYS:
            raise ValueError(f"{place}: there is no key {key}{nearest(key, KEYS)}")
    try:
        entry = hwspaces.priced(hwspaces.hardware(name), prices)
    except ValueError as error:
        raise ValueError(f"{where}: accelerators: {error}") from None
    device = entry.hardware
    price, source = device.price, entry.sources.get("price", "")
    if "price" in table:
        price, source = quantity(table["price"], "USD/s", f"{place}: price"), "the traffic file"
    server = server_devices(entry.name, node)
    numbers: dict[str, Any] = {"machine": server} | {
        key: whole(table[key], f"{place}: {key}", 0 if key != "machine" else 1)
        for key in ("available", "owned", "machine")
        if key in table
    }
    return Supply(
        name=entry.name,
        source=name,
        price=None if price is None else float(price),
        price_source=source,
        tdp=None if device.power.tdp is None else float(device.power.tdp),
        notes=tuple(f"{entry.name}: {text}" for text in entry.press),
        **numbers,
    )


def whole(value: Any, where: str, least: int, most: int = MOST_DEVICES) -> int:
    """A count; ValueError in one line for what is no whole number from `least` to `most`."""
    number = not isinstance(value, bool) and isinstance(value, int | float)
    if not number or value != value or value not in range(least, most + 1):
        raise ValueError(f"{where} = {value!r} must be a whole number from {least} to {most:,}")
    return int(value)


def _listed(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed) if len(listed) <= 5 else f"the {len(listed)} accelerators"

"""Accelerators that a fleet may be made of: price, number that can be had, number that is owned."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import hwspaces
import workloads
from hwspaces.accelerators.prices import server_devices
from hwspaces.files import document
from hwspaces.quantities.units import is_zero, quantity, require_keys
from sweeps.ask.keys import words
from sweeps.ask.spaces import specification
from sweeps.ask.words import ClassWords, FleetWords
from workloads.streams.lengths import parse_lengths

SUPPLY_KEYS = {
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
    # All three forms become tables by name, empty where a name says nothing more.
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
    by_name: dict[str, Supply] = {}
    left_out = {}
    for name, table in tables.items():
        one = _supply(name, table, f"{where}: accelerator {name}", where, prices, node)
        # A name and a file may describe the same accelerator: its own name tells.
        if one.name in by_name:
            raise ValueError(f"{where}: accelerator {one.name} is given twice: {by_name[one.name].source} and {name}")
        # Without a price none can be rented; owned devices need none.
        if one.price is None and not one.owned:
            left_out[one.name] = "no price"
        else:
            by_name[one.name] = one
    if not by_name:
        raise ValueError(f'{where}: none of {_listed(left_out)} has a price; give one: price = "2.5USD/h"')
    return tuple(by_name.values()), left_out


def _supply(name: str, table: Any, place: str, where: str, prices: str | None, node: int | None) -> Supply:
    if not isinstance(table, Mapping):
        raise ValueError(f"{place} = {table!r} must be a table; its keys: {', '.join(SUPPLY_KEYS)}")
    require_keys(table, SUPPLY_KEYS, place)
    try:
        entry = hwspaces.priced(hwspaces.hardware(name), prices)
    except ValueError as error:
        raise ValueError(f"{where}: accelerators: {error}") from None
    device = entry.hardware
    # The table's own price goes before the catalogue's or that of `prices`.
    price, source = device.price, entry.sources.get("price", "")
    if "price" in table:
        price, source = quantity(table["price"], "USD/s", f"{place}: price"), "the traffic file"
    # The number of devices rented together is the server's where the table gives no machine.
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
    # bool is an int in Python; membership in a range rejects NaN, fractions and what is out of bounds.
    number = not isinstance(value, bool) and isinstance(value, int | float)
    if not number or value != value or value not in range(least, most + 1):
        raise ValueError(f"{where} = {value!r} must be a whole number from {least} to {most:,}")
    return int(value)


def _listed(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed) if len(listed) <= 5 else f"the {len(listed)} accelerators"


# Question of a fleet: classes of traffic over a day, accelerators and limits, from a TOML file or a dictionary.


HOURS = 24

HEADROOM = 0.2
"""Capacity above an hour's mean load, as a share of it, where nothing is said: for minutes above the mean and replicas
that are down. Ours."""

MAX_DEVICES = 16
"""Devices of one replica at most, where nothing is said."""

MOST_CLASSES = 50

KEYS = {
    "accelerators": "a list of names, or tables [accelerators.NAME]; default: all that are rented out",
    "classes": "tables [classes.NAME] of traffic",
    "headroom": "capacity above the load, as a share of it",
    "budget": "most that the fleet may cost: 2MUSD/year",
    "power_limit": "most that all devices may draw, each at its TDP: 500kW",
    "max_devices": "of one replica",
    **{name: word.meaning for name, word in words(FleetWords).items()},
}

CLASS_KEYS = {
    "model": "a name or a config file",
    "isl": "prompt tokens: a number or a distribution",
    "osl": "output tokens",
    "slo": "limits: ttft=1s,tpot=30ms",
    "rate": "requests/s all day",
    "day": "24 numbers of requests/s from midnight on, or a table of mean, peak_hour and peak_to_mean",
    **{name: word.meaning for name, word in words(ClassWords).items()},
    "value": "of one request beside those of other classes, where not all can be served; default 1",
}

CURVE_KEYS = ("mean", "peak_hour", "peak_to_mean")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrafficClass(ClassWords):
    """Requests of one kind to one model."""

    name: str
    model: str
    isl: str
    osl: str
    slo: str
    load: tuple[float, ...]  # requests/s in each hour of the day
    value: float = 1.0  # of one request, where not all can be served


@dataclasses.dataclass(frozen=True, kw_only=True)
class FleetQuestion(FleetWords):
    """Everything that a fleet depends on."""

    where: str  # the file, for messages
    classes: tuple[TrafficClass, ...]
    supplies: tuple[Supply, ...]
    left_out: Mapping[str, str]  # accelerators that cannot be rented -> reason
    headroom: float
    budget: float | None  # USD/s
    power_limit: float | None  # W
    max_devices: int


def question(
    source: str | Path | Mapping[str, Any],
    budget: str | float | None = None,
    prices: str | None = None,
    node: int | None = None,
) -> FleetQuestion:
    """The question that a traffic file asks.

    Args:
      source: the file or the name of one of the distribution, or the same as a dictionary.
      budget: in place of the file's: "2MUSD/year", or a number in USD/s.
      prices: of devices, as of `hwspaces.priced`; those in the file go before.
      node: devices of one server where the file does not say; None: that of `hwspaces.accelerators.prices`.

    Raises:
      ValueError: one line that names the file, the class, the key, its value and what is allowed.
    """
    # Errors name the file, or `traffic` for a dictionary.
    where = "traffic" if isinstance(source, Mapping) else str(source)
    tables = dict(source) if isinstance(source, Mapping) else document.toml(specification(source))
    require_keys(tables, KEYS, where)
    given = tables.get("classes")
    if not isinstance(given, Mapping) or not given:
        raise ValueError(f"{where}: classes is missing; give at least one table [classes.NAME]")
    if len(given) > MOST_CLASSES:
        raise ValueError(f"{where}: {len(given)} classes; at most {MOST_CLASSES} are allowed")
    classes = tuple(_class(str(name), table, f"{where}: class {name}") for name, table in given.items())
    # A day without requests has no share served, and no fleet to choose.
    if not any(rate > 0.0 for one in classes for rate in one.load):
        raise ValueError(f"{where}: no class has a load above 0 in any hour")
    accelerators, left_out = supplies(tables.get("accelerators"), where, prices, node)
    power = tables.get("power_limit")
    # Under a power limit a device counts at its TDP, so one without a TDP cannot be counted.
    power = None if power is None else quantity(power, "W", f"{where}: power_limit")
    if power is not None:
        left_out |= {one.name: "no TDP, and there is a power limit" for one in accelerators if one.tdp is None}
        accelerators = tuple(one for one in accelerators if one.tdp is not None)
        if not accelerators:
            raise ValueError(f"{where}: power_limit: no accelerator of these has a TDP")
    # A budget of the call replaces the file's; USD/s, as all prices inside.
    most, at = (tables.get("budget"), f"{where}: budget") if budget is None else (budget, "budget")
    return FleetQuestion(
        where=where,
        classes=classes,
        supplies=accelerators,
        left_out=left_out,
        headroom=_headroom(tables.get("headroom", HEADROOM), f"{where}: headroom"),
        budget=None if most is None else quantity(most, "USD/s", at),
        power_limit=power,
        max_devices=whole(tables.get("max_devices", MAX_DEVICES), f"{where}: max_devices", 1, 4096),
        **_texts({key: value for key, value in tables.items() if value is not None}, words(FleetWords), where),
    )


def _class(name: str, table: Any, where: str) -> TrafficClass:
    if not isinstance(table, Mapping):
        raise ValueError(f"{where} = {table!r} must be a table; its keys: {', '.join(CLASS_KEYS)}")
    require_keys(table, CLASS_KEYS, where)
    for key in ("model", "isl", "osl", "slo"):
        if key not in table:
            raise ValueError(f"{where}: {key} is missing: {CLASS_KEYS[key]}")
    if ("rate" in table) == ("day" in table):
        raise ValueError(f"{where}: give either rate or day: {CLASS_KEYS['rate']}, or {CLASS_KEYS['day']}")
    # Lengths are read here, so that a mistake names its class; they go on as text.
    texts = _texts(table, ("model", "slo", *words(ClassWords)), where)
    for key in ("isl", "osl"):
        try:
            texts[key] = parse_lengths(str(table[key])).text
        except ValueError as error:
            raise ValueError(f"{where}: {key}: {error}") from None
    try:
        # Only for its error: an unknown model is told before any accelerator is compared.
        workloads.model(texts["model"], weights=texts.get("weights"))
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    # requests/s of 24 hours, whether given as one rate, as a list or as a curve.
    load = (_rate(table["rate"], f"{where}: rate"),) * HOURS if "rate" in table else _day(table["day"], f"{where}: day")
    value = quantity(table.get("value", 1.0), "1", f"{where}: value")
    return TrafficClass(name=name, load=load, value=value, **texts)


def _day(day: Any, where: str) -> tuple[float, ...]:
    """Loads of 24 hours."""
    if isinstance(day, Mapping):
        return _curve(day, where)
    if not isinstance(day, list | tuple):
        raise ValueError(f"{where} = {day!r} must be {CLASS_KEYS['day']}")
    if len(day) != HOURS:
        raise ValueError(
            f"{where} has {len(day)} numbers; {HOURS} are needed, requests/s of each hour from midnight on"
        )
    return tuple(_rate(rate, f"{where}[{hour}]") for hour, rate in enumerate(day))


def _curve(table: Mapping[str, Any], where: str) -> tuple[float, ...]:
    """load(h) = mean (1 + (peak_to_mean - 1) cos(2 pi (h - peak_hour) / 24)): one wave, whose mean is `mean`."""
    require_keys(table, CURVE_KEYS, where)
    for key in CURVE_KEYS:
        if key not in table:
            raise ValueError(f"{where}: {key} is missing; a curve takes {', '.join(CURVE_KEYS)}")
    mean = _rate(table["mean"], f"{where}: mean")
    peak = whole(table["peak_hour"], f"{where}: peak_hour", 0, HOURS - 1)
    swing = quantity(table["peak_to_mean"], "1", f"{where}: peak_to_mean") - 1.0
    # A wave of an amplitude above its mean would have hours of negative load.
    if not 0.0 <= swing <= 1.0:
        raise ValueError(
            f"{where}: peak_to_mean = {table['peak_to_mean']!r} must be from 1 to 2; give 24 numbers for more"
        )
    waves = (math.cos(2.0 * math.pi * (hour - peak) / HOURS) for hour in range(HOURS))
    # Rounding may take the lowest hour of a full swing just below 0.
    return tuple(max(mean * (1.0 + swing * wave), 0.0) for wave in waves)


def _rate(value: Any, where: str) -> float:
    """Requests/s; zero is allowed."""
    return 0.0 if is_zero(value, "1/s") else quantity(value, "1/s", where)


def _headroom(value: Any, where: str) -> float:
    share = 0.0 if is_zero(value) else quantity(value, "1", where)
    if share > 10.0:
        raise ValueError(f"{where} = {value!r} must be at most 10: it is a share of the load")
    return share


def _texts(table: Mapping[str, Any], keys: Iterable[str], where: str) -> dict[str, str]:
    """Values of those keys that there are, which are texts."""
    texts = {key: table[key] for key in keys if key in table}
    for key, value in texts.items():
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"{where}: {key} = {value!r} must be a text")
    return texts

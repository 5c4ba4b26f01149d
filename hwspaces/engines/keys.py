"""Checks that all tables of an engine's file share."""

import re
from collections.abc import Mapping
from typing import Any

from hwspaces.quantities.leaves import declared_quantity
from hwspaces.quantities.units import nearest
from jaxroof.numerics.struct import Declaration


def numbers(version: str) -> list[int]:
    """The first three numbers of a version; [] of ""."""
    return [int(number) for number in re.findall(r"\d+", version)[:3]]


def time(value: Any, where: str) -> float:
    """s; 0 is allowed."""
    # A time may be 0, which `quantity` refuses.
    return float(declared_quantity(value, Declaration("s", "", zero=True), where))


def table(tables: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    """A table inside of others; an empty one where there is none."""
    inner = tables.get(key, {})
    if not isinstance(inner, Mapping):
        raise ValueError(f"{where}: {key} = {inner!r} must be a table")
    return inner


def require_known(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    """ValueError of one line for what is no table, and for a key that is not known."""
    if not isinstance(table, Mapping):
        raise ValueError(f"{where} = {table!r} must be a table")
    for key in table:
        if key not in known:
            raise ValueError(f"{where}: there is no key {key}{nearest(key, known)}")

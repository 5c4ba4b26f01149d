"""Values as flags take them: texts of numbers, lists and tables, and what such texts say."""

import os
from collections.abc import Iterable, Mapping
from typing import Any

from hwspaces.quantities.leaves import declared_quantity
from hwspaces.quantities.units import PLAIN
from jaxroof.numerics.struct import Declaration

COUNT = Declaration("1", "how many", whole=True)

EXACT = 2.0**53
"""Below it a float without a fraction is one whole number, which is written without a point."""


def flag_text(value: Any, unit: str = "1") -> Any:
    """A value as a flag takes it: a number with all its digits, a list with commas, a table as NAME=VALUE,..

    Args:
      value: a path is text; a switch, and what no flag takes, is returned as it is.
      unit: the SI unit of numbers, which text has to say, but for those of `PLAIN`.
    """
    if isinstance(value, Mapping):
        return ",".join(f"{name}={flag_text(part, unit)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return ",".join(str(flag_text(part, unit)) for part in value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    number = f"{value:.0f}" if abs(value) < EXACT and value == int(value) else repr(value)
    return number if unit in PLAIN else f"{number}{unit}"


def several(value: Any, where: str) -> list[Any]:
    """The values of a text with commas, or of a list; or a single one. ValueError, beginning with `where`, for none."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    found = list(value) if isinstance(value, Iterable) and not isinstance(value, Mapping) else [value]
    if not found:
        raise ValueError(f"{where} is empty; give at least one, or leave it out")
    return found


def counts(value: Any, where: str, declared: Declaration = COUNT) -> list[int]:
    """Whole numbers of a text with commas, or of a list; or a single one. ValueError begins with `where`."""
    return [int(declared_quantity(flag_text(part), declared, where)) for part in several(value, where)]

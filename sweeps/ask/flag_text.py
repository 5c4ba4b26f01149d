"""Values as flags take them: texts of numbers, lists and tables, and what such texts say."""

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hwspaces.quantities.leaves import declared_quantity
from hwspaces.quantities.units import PLAIN
from jaxroof.numerics.struct import Declaration

# Pairs of a name and a value in texts such as token_budget=2048, of which a flag may be given several.


def pairs(where: str, texts: Iterable[str], form: str, example: str) -> Iterator[tuple[str, str, str]]:
    """Name and value of every text, and the text itself.

    Args:
      where: what the message of an error begins with: the flag, or the argument.
      form: of a text, NAME=VALUE or PATH=VALUE, and an `example` of it; for errors.

    Raises:
      ValueError: one line, for a text of another form, or a name that is given twice.
    """
    values: dict[str, str] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise ValueError(f"{where} {text!r} must be {form}, such as {example}")
        if name in values:
            raise ValueError(f"{where} {name} is given twice: {values[name]} and {value}")
        values[name] = value
        yield name, value, text


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
    # `repr` keeps every digit of a float, so that reading the text gives the same number.
    number = f"{value:.0f}" if abs(value) < EXACT and value == int(value) else repr(value)
    return number if unit in PLAIN else f"{number}{unit}"


def several(value: Any, where: str) -> list[Any]:
    """The values of a text with commas, or of a list; or a single one. ValueError, beginning with `where`, for none."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    # A table can be iterated, but is one value.
    items = list(value) if isinstance(value, Iterable) and not isinstance(value, Mapping) else [value]
    if not items:
        raise ValueError(f"{where} is empty; give at least one, or leave it out")
    return items


def counts(value: Any, where: str, declared: Declaration = COUNT) -> list[int]:
    """Whole numbers of a text with commas, or of a list; or a single one. ValueError begins with `where`."""
    return [int(declared_quantity(flag_text(part), declared, where)) for part in several(value, where)]

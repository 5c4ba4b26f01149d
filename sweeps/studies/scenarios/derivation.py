"""Hand-worked derivations: figures with their sources, and formulas of them with their arithmetic written out."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from hwspaces.quantities.expression import Expression
from hwspaces.quantities.units import nearest

NAME = re.compile(r"(?<![\w.])[a-z_][\w.]*(?!\()\b", re.IGNORECASE)
"""A figure's name in a formula; not a function's."""


@dataclasses.dataclass(frozen=True)
class Figure:
    """One number that derivations use."""

    name: str
    value: float  # SI units
    formula: str  # of other figures; "": a number that its source gives
    source: str  # where it is from, and what it is


class Figures(dict[str, Figure]):
    """Figures of a scenario by name: its own, and those of catalogued models and devices after their role and a dot."""

    def value(self, formula: str, where: str) -> float:
        """Value of a formula of figures, in SI units.

        Raises:
          ValueError: one line with `where`: it is no formula, or has a name that is no figure.
        """
        expression = Expression(formula, lambda name: self._unit(name), {}, where, "1")
        return float(expression.value(lambda name: self[name].value, None))

    def arithmetic(self, formula: str) -> str:
        """The formula with the number of every figure in its place."""
        return NAME.sub(lambda match: self._number(match.group()), formula)

    def _number(self, name: str) -> str:
        return f"{self[name].value:.6g}" if name in self else name

    def _unit(self, name: str) -> str:
        if name not in self:
            raise ValueError(f"there is no figure {name}{nearest(name, self)}")
        return "1"


def figures(
    own: Mapping[str, Any], given: Mapping[str, str], shared: Mapping[str, Mapping[str, Any]], where: str
) -> Figures:
    """Figures of a scenario.

    Args:
      own: its own by name, each [number or formula, source].
      given: tables of `shared` by the role that they have here, such as model and device.
      shared: figures of models and devices: number, or [number or formula, source]; `source` is that of the others.
      where: what messages begin with.

    Raises:
      ValueError: one line: there is no such table, or a figure has no source or no value.
    """
    found = Figures()
    for role, table in given.items():
        if table not in shared:
            raise ValueError(f"{where}.given: there are no figures of {table!r}{nearest(table, shared)}")
        found |= tabled(table, shared[table], role)
    for name, entry in own.items():
        if not isinstance(entry, list) or len(entry) != 2 or not entry[1]:
            raise ValueError(f"{where}.figures.{name} must be [number or formula, source]")
        value, source = entry
        _add(found, name, value, source, where)
    return found


def tabled(table: str, entries: Mapping[str, Any], role: str = "") -> Figures:
    """Figures of one shared table, with its role and a dot before every name where it has one."""
    found, prefix = Figures(), f"{role}." if role else ""
    for name, entry in entries.items():
        if name == "source":
            continue
        value, meaning = entry if isinstance(entry, list) else (entry, entries["source"])
        if isinstance(value, str):
            value = NAME.sub(lambda match: prefix + match.group(), value)
        _add(found, prefix + name, value, meaning, table)
    return found


def _add(found: Figures, name: str, value: float | str, source: str, where: str) -> None:
    formula = value if isinstance(value, str) else ""
    number = found.value(formula, f"{where}.figures.{name}") if formula else float(value)
    found[name] = Figure(name, number, formula, source)

"""Files of scenarios in `workloads/scenarios`, each a specification with values that are derived by hand."""

import dataclasses
import functools
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import workloads
from hwspaces.files import document
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


class ScenarioFigures(dict[str, Figure]):
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
) -> ScenarioFigures:
    """Figures of a scenario.

    Args:
      own: its own by name, each [number or formula, source].
      given: tables of `shared` by the role that they have here, such as model and device.
      shared: figures of models and devices: number, or [number or formula, source]; `source` is that of the others.
      where: what messages begin with.

    Raises:
      ValueError: one line: there is no such table, or a figure has no source or no value.
    """
    scenario_figures = ScenarioFigures()
    # Shared tables come first, so that the scenario's own formulas can use their figures.
    for role, table in given.items():
        if table not in shared:
            raise ValueError(f"{where}.given: there are no figures of {table!r}{nearest(table, shared)}")
        scenario_figures |= tabled(table, shared[table], role)
    for name, entry in own.items():
        if not isinstance(entry, list) or len(entry) != 2 or not entry[1]:
            raise ValueError(f"{where}.figures.{name} must be [number or formula, source]")
        value, source = entry
        _add(scenario_figures, name, value, source, where)
    return scenario_figures


def tabled(table: str, entries: Mapping[str, Any], role: str = "") -> ScenarioFigures:
    """Figures of one shared table, with its role and a dot before every name where it has one."""
    table_figures, prefix = ScenarioFigures(), f"{role}." if role else ""
    for name, entry in entries.items():
        # `source` is where all figures of the table are from that name no source of their own.
        if name == "source":
            continue
        value, meaning = entry if isinstance(entry, list) else (entry, entries["source"])
        # Formulas of a table name its figures without the role: they get the prefix that the figures have here.
        if isinstance(value, str):
            value = NAME.sub(lambda match: prefix + match.group(), value)
        _add(table_figures, prefix + name, value, meaning, table)
    return table_figures


def _add(scenario_figures: ScenarioFigures, name: str, value: float | str, source: str, where: str) -> None:
    # A formula can use only the figures that stand before it.
    formula = value if isinstance(value, str) else ""
    number = scenario_figures.value(formula, f"{where}.figures.{name}") if formula else float(value)
    scenario_figures[name] = Figure(name, number, formula, source)


FILES = Path(workloads.__file__).parent / "scenarios"

FIGURES = FILES.parent / "scenario_figures.toml"
"""Figures of models and devices that derivations share."""

TOLERANCE, WIDEST = 0.05, 0.1
"""Share by which a value may be off where a check says nothing, and above which a check must give its reason."""

ROUNDING = 0.005
"""Share by which `expected` may differ from the value of its derivation: it is written with three digits."""

ORDER = "TIX"
"""First letters of the groups in order: training, inference, what the survey names beside them."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Check:
    """One number of a scenario, expected by a derivation or a published figure."""

    what: str
    metric: str  # expression of the dataset's variables, and of a part's as PART.VARIABLE
    at: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # labels along axes, but those with one value
    over: Mapping[str, Any] | None = None  # labels of another point that the value is divided by the value of
    unit: str | None = None  # SI unit of the metric; None: that of its first variable
    expected: float | tuple[float, float]  # SI units; two numbers: between them
    derivation: str = ""  # formula of the scenario's figures whose value `expected` is; "": `source` has it
    source: str = ""  # who published the expected value
    tolerance: float = TOLERANCE  # share by which the value may be off
    reason: str = ""  # what the derivation leaves out; required above WIDEST
    finding: str = ""  # why the value is known to be outside; "": it is expected to agree
    predicted: bool = False  # True: judged as predicted; False: with the hand's assumptions

    @property
    def bounds(self) -> tuple[float, float]:
        """Least and most that is expected, before the tolerance."""
        return self.expected if isinstance(self.expected, tuple) else (self.expected, self.expected)


@dataclasses.dataclass(frozen=True)
class Refusal:
    """Refused variant of a scenario: keys of its specification replaced, and a word that the error has."""

    set: Mapping[str, Any]
    says: str


@dataclasses.dataclass(frozen=True)
class ScenarioEntry:
    """One scenario of the suite."""

    id: str
    title: str
    source: str  # where it is from
    published: str  # its parameters as they were published
    ours: str  # parameters that were not published
    figures: ScenarioFigures  # of the derivations
    spec: Mapping[str, Any]  # what `sweeps.sweep` takes
    parts: Mapping[str, Mapping[str, Any]]  # further specifications, of what else belongs to it, by name
    checks: tuple[Check, ...]
    refusals: tuple[Refusal, ...]


def names() -> tuple[str, ...]:
    """Numbers of all scenarios, training first."""
    stems = (path.stem for path in FILES.glob("*.toml"))
    # Within a group, numbers are sorted as text.
    return tuple(sorted(stems, key=lambda name: (ORDER.find(name[0]), name)))


@functools.cache
def scenario(name: str) -> ScenarioEntry:
    """The scenario of that number, such as "T3.2".

    Raises:
      ValueError: one line: there is none of that number, or its file has something wrong in it.
    """
    if name not in names():
        raise ValueError(f"there is no scenario {name!r}{nearest(name, names())}")
    path = FILES / f"{name}.toml"
    try:
        return _entry(name, document.toml(path))
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None


def _entry(name: str, source: Mapping[str, Any]) -> ScenarioEntry:
    own = source.get("scenario", {})
    known = ("id", "title", "source", "published", "ours", "given", "figures", "parts", "checks", "refusals")
    _require(own, known, "scenario")
    if own.get("id") != name:
        raise ValueError(f"scenario.id = {own.get('id')!r} must be the file's name, {name}")
    # Derivations are worked out while the file is read, so that an error names the file.
    scenario_figures = figures(own.get("figures", {}), own.get("given", {}), shared_figures(), "scenario")
    return ScenarioEntry(
        id=name,
        title=own["title"],
        source=own["source"],
        published=own.get("published", ""),
        ours=own.get("ours", ""),
        figures=scenario_figures,
        spec={key: value for key, value in source.items() if key != "scenario"},
        parts=own.get("parts", {}),
        checks=tuple(_check(check, scenario_figures) for check in own.get("checks", ())),
        refusals=tuple(_refusal(refusal) for refusal in own.get("refusals", ())),
    )


@functools.cache
def shared_figures() -> Mapping[str, Mapping[str, Any]]:
    """Figures of models and devices by their names."""
    return document.toml(FIGURES)


def _check(table: Mapping[str, Any], known: ScenarioFigures) -> Check:
    _require(table, [field.name for field in dataclasses.fields(Check)], "scenario.checks")
    where = f"scenario.checks: {table.get('what')}"
    # TOML has lists: `expected` becomes one number or a pair of bounds.
    check = Check(**{**table, "expected": _expected(table.get("expected"), where)})
    if not check.derivation and not check.source:
        raise ValueError(f"{where}: give the derivation of the expected value, or its source")
    if check.tolerance > WIDEST and not check.reason:
        raise ValueError(f"{where}: a tolerance of {check.tolerance:g} needs a reason")
    if check.derivation:
        worked = known.value(check.derivation, where)
        # Of an interval, the derivation gives the lower bound.
        if not math.isclose(worked, check.bounds[0], rel_tol=ROUNDING):
            raise ValueError(f"{where}: {known.arithmetic(check.derivation)} is {worked:.4g}, not {check.bounds[0]:g}")
    return check


def _expected(value: Any, where: str) -> float | tuple[float, float]:
    numbers = value if isinstance(value, list) else [value]
    # Exact types, because a TOML boolean is a Python `int` too.
    if len(numbers) not in (1, 2) or not all(type(number) in (int, float) for number in numbers):
        raise ValueError(f"{where}: expected = {value!r} must be a number, or two between which the value is")
    least, most = float(numbers[0]), float(numbers[-1])
    return (least, most) if len(numbers) == 2 else least


def _refusal(table: Mapping[str, Any]) -> Refusal:
    _require(table, [field.name for field in dataclasses.fields(Refusal)], "scenario.refusals")
    return Refusal(**table)


def _require(table: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in table:
        if key not in known:
            raise ValueError(f"there is no {where}.{key}{nearest(key, known)}")

"""Files of scenarios in `workloads/scenarios`, each a specification with values known by hand."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import workloads
from hwspaces import document
from hwspaces.units import nearest

FILES = Path(workloads.__file__).parent / "scenarios"

ORDER = "TIX"
"""First letters of the groups in order: training, inference, what the survey names beside them."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Check:
    """One number of a scenario that was worked out by hand."""

    what: str
    metric: tuple[str, ...]  # variables of the dataset, or PART.VARIABLE of a part's, added up
    at: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # labels along axes, but those with one value
    over: Mapping[str, Any] | None = None  # labels of another point that the value is divided by the value of
    per: float = 1.0  # what the value is divided by beside
    hand: float  # SI units
    unit: str | None = None  # of it; None: the variable's
    expected: float = 1.0  # value with the hand's assumptions over `hand`: 1, or what the reason `why` makes of it
    tolerance: float = 0.02  # share by which it may be off that
    why: str = ""  # the value differs from the hand-worked one
    assumed: bool = True  # False: the hand-worked value is not made with the assumptions of `half`


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
    source: str  # where it is from, and which of its numbers are ours
    spec: Mapping[str, Any]  # what `sweeps.sweep` takes
    parts: Mapping[str, Mapping[str, Any]]  # further specifications, of what else belongs to it, by name
    checks: tuple[Check, ...]
    refusals: tuple[Refusal, ...]


def names() -> tuple[str, ...]:
    """Numbers of all scenarios, training first."""
    found = (path.stem for path in FILES.glob("*.toml"))
    return tuple(sorted(found, key=lambda name: (ORDER.find(name[0]), name)))


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
    _require(own, ("id", "title", "source", "why", "parts", "checks", "refusals"), "scenario")
    if own.get("id") != name:
        raise ValueError(f"scenario.id = {own.get('id')!r} must be the file's name, {name}")
    spec = {key: value for key, value in source.items() if key != "scenario"}
    return ScenarioEntry(
        id=name,
        title=own["title"],
        source=own["source"],
        spec=spec,
        parts=own.get("parts", {}),
        checks=tuple(_check(check, own.get("why", "")) for check in own.get("checks", ())),
        refusals=tuple(_refusal(refusal) for refusal in own.get("refusals", ())),
    )


def _check(table: Mapping[str, Any], why: str) -> Check:
    _require(table, [field.name for field in dataclasses.fields(Check)], "scenario.checks")
    numbers = {name: float(table[name]) for name in ("per", "hand", "expected", "tolerance") if name in table}
    metric = (table["metric"],) if isinstance(table["metric"], str) else tuple(table["metric"])
    return Check(**{"why": why, **table, **numbers, "metric": metric})


def _refusal(table: Mapping[str, Any]) -> Refusal:
    _require(table, [field.name for field in dataclasses.fields(Refusal)], "scenario.refusals")
    return Refusal(**table)


def _require(table: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in table:
        if key not in known:
            raise ValueError(f"there is no {where}.{key}{nearest(key, known)}")

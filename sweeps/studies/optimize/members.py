"""Members of a design problem: the workloads of a mix, and the scenarios in which a design has to be good."""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hwspaces import quantity
from sweeps.ask import spec as sweep_spec
from sweeps.ask.axes import Axis
from sweeps.ask.words import NAMED
from sweeps.studies.optimize.goals import ROOTS

OBJECTS = tuple(name for name in NAMED if name not in ("hardware", "engine"))
TABLES = ("workload", "deployment", "set", "policy", "slo")
"""What a member may say in place of the specification: whole values, and tables whose keys replace one by one."""

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


@dataclasses.dataclass(frozen=True)
class Entry:
    """One entry of [[mix]] or [[scenarios]]: what it says in place of the specification."""

    name: str
    weight: float
    changes: Mapping[str, Any]

    def owns(self, axis: Axis) -> bool:
        """Whether the entry itself says what varies along an axis: a list or a range of its own."""
        given = {*self.changes}
        # Keys of a table are named as axes are: table.key.
        given |= {f"{table}.{key}" for table in TABLES for key in self.changes.get(table, {})}
        # An axis belongs to an entry by its own name, or by one of the leaves that it sets.
        return axis.name in given or any(path in given for path in axis.columns)


@dataclasses.dataclass(frozen=True)
class MemberSpec:
    """One member: a workload of the mix in a scenario."""

    scenario: Entry
    workload: Entry
    spec: sweep_spec.Spec

    def prefix(self, axis: Axis) -> str:
        """What the name of a variable along an axis begins with: the entry's name where the variable is its own."""
        return "".join(f"{entry.name}_" for entry in (self.workload, self.scenario) if entry.owns(axis))


NOMINAL = Entry("", 1.0, {})
"""The specification as it is."""


def entries(source: Any, key: str) -> tuple[Entry, ...]:
    """The entries of [[mix]] or [[scenarios]]; the specification itself where there are none.

    Raises:
      ValueError: one line that names the key, its value and what is allowed.
    """
    if source is None:
        return (NOMINAL,)
    if not isinstance(source, Sequence) or isinstance(source, str) or not source:
        raise ValueError(f"{key} = {source!r} must be a list of tables, such as [[{key}]] with a name each")
    parsed: list[Entry] = []
    for number, table in enumerate(source):
        where = f"{key}[{number}]"
        if not isinstance(table, Mapping):
            raise ValueError(f"{where} = {table!r} must be a table")
        allowed = ("name", *(("weight",) if key == "mix" else ()), *OBJECTS, *TABLES)
        sweep_spec.require_known(table, allowed, f"{where}.")
        name = table.get("name")
        # A name that begins paths of leaves would be ambiguous in names of goals.
        if not isinstance(name, str) or not NAME.fullmatch(name) or f"{name}." in ROOTS:
            raise ValueError(f"{where}.name = {name!r} must be a word of letters, digits, _ and -, and no part's name")
        if any(name == other.name for other in parsed):
            raise ValueError(f"{where}.name = {name!r} is given twice")
        weight = quantity(table.get("weight", 1.0), "1", f"{where}.weight")
        if not weight > 0.0:
            raise ValueError(f"{where}.weight = {table['weight']!r} must be positive")
        changes = {name: value for name, value in table.items() if name not in ("name", "weight")}
        for name, value in changes.items():
            if name in TABLES and not isinstance(value, Mapping) and name != "slo":
                raise ValueError(f"{where}.{name} = {value!r} must be a table")
            if name == "model" and not isinstance(value, str):
                raise ValueError(f"{where}.model = {value!r} must be one model")
        parsed.append(Entry(table["name"], weight, changes))
    return tuple(parsed)


def merged(source: Mapping[str, Any], *changes: Mapping[str, Any]) -> dict[str, Any]:
    """A specification with changes in its place: the keys of tables one by one, anything else whole."""
    table = dict(source)
    for change in changes:
        for key, value in change.items():
            own = isinstance(value, Mapping) and isinstance(table.get(key, {}), Mapping)
            table[key] = {**table.get(key, {}), **value} if own else value
    return table


def members(
    source: Mapping[str, Any], mix: Sequence[Entry], scenarios: Sequence[Entry]
) -> Iterator[tuple[Entry, Entry, dict[str, Any]]]:
    """Every scenario with every workload, the first scenario's first, and the specification of both together.

    Raises:
      ValueError: one line: a name is given to both.
    """
    # Constraints name workloads and scenarios alike, so that a name may stand for one of them only.
    for name in {entry.name for entry in mix} & {entry.name for entry in scenarios} - {""}:
        raise ValueError(f"scenarios: {name} is the name of a workload of the mix, too")
    for scenario in scenarios:
        for workload in mix:
            yield scenario, workload, merged(source, workload.changes, scenario.changes)

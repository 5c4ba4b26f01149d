"""Rules of an engine's scheduler as its source has them, beside the fields of the policy that stand for them."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from hwspaces.quantities.units import nearest
from jaxroof.batch import Policy

FIELDS = tuple(field.name for field in dataclasses.fields(Policy))


@dataclasses.dataclass(frozen=True, kw_only=True)
class SchedulerRule:
    """One rule of an engine's scheduler."""

    rule: str  # what it decides: "tokens of one step"
    fields: tuple[str, ...]  # of `jaxroof.batch.Policy` that say it; none: nothing does
    engine: str  # what the engine does, by its own names and defaults
    source: str  # files of the engine, with their version
    differs: str = ""  # what a simulation does in another way, or leaves out; "": nothing


def scheduler_rules(tables: Sequence[Any], where: str) -> tuple[SchedulerRule, ...]:
    """The `[[rules]]` of an engine's file.

    Raises:
      ValueError: one line that names the file, the rule, the key, its value and what is allowed.
    """
    return tuple(_rule(table, f"{where}.{at}") for at, table in enumerate(tables))


def ruled(rules: Sequence[SchedulerRule]) -> frozenset[str]:
    """Fields of the policy whose source a rule gives."""
    return frozenset(name for rule in rules for name in rule.fields)


def _rule(table: Any, where: str) -> SchedulerRule:
    if not isinstance(table, Mapping):
        raise ValueError(f"{where} = {table!r} must be a table")
    known = {field.name: field for field in dataclasses.fields(SchedulerRule)}
    for key, value in table.items():
        if key not in known:
            raise ValueError(f"{where}: there is no key {key}{nearest(key, known)}")
        kind, what = (list, "a list of texts") if key == "fields" else (str, "a text")
        if not isinstance(value, kind):
            raise ValueError(f"{where}.{key} = {value!r} must be {what}")
    for key, field in known.items():
        if key not in table and field.default is dataclasses.MISSING:
            raise ValueError(f"{where}: {key} is missing")
    for name in table["fields"]:
        if name not in FIELDS:
            raise ValueError(f"{where}.fields: there is no policy.{name}{nearest(str(name), FIELDS)}")
    return SchedulerRule(**(dict(table) | {"fields": tuple(table["fields"])}))

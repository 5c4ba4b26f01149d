"""Words of entry points, where they are called otherwise than the fields that hold them."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from sweeps.ask.keys import Table, like
from sweeps.ask.words import CaseWords
from sweeps.run.simulated.spec import ServeSpec

SET = like(CaseWords, "overrides", key="set").metadata
"""The word `set` as it is declared."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class EntryWords(CaseWords):
    """Words of one deployment of one model, as a specification has them: numbers by their path are `set`."""

    overrides: Table = dataclasses.field(default_factory=dict, metadata=SET)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServedEntryWords(ServeSpec):
    """Words of one simulated service; the same."""

    overrides: Table = dataclasses.field(default_factory=dict, metadata=SET)


def fields(words: Mapping[str, Any]) -> dict[str, Any]:
    """Words by the fields that hold them: `set` is `overrides`, as which a simulation's own `spec` has it."""
    given = dict(words)
    if "set" in given:
        if given.get("overrides"):
            raise ValueError("set and overrides say the same in two ways: give set")
        given["overrides"] = given.pop("set")
    return given

"""Words of entry points, where they are called otherwise than the fields that hold them."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from sweeps.ask.keys import Table, like
from sweeps.ask.words import CaseWords
from sweeps.run.simulated.spec import ServeSpec


@dataclasses.dataclass(frozen=True, kw_only=True)
class EntryWords(CaseWords):
    """Words of one deployment of one model, as a specification has them: numbers by their path are `set`."""

    overrides: Table = like(CaseWords, "overrides", key="set")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServedEntryWords(ServeSpec):
    """Words of one simulated service; the same."""

    overrides: Table = like(CaseWords, "overrides", key="set")


def fields(words: Mapping[str, Any]) -> dict[str, Any]:
    """Words by the fields that hold them: `set` is `overrides`, as which a simulation's own `spec` has it."""
    given = dict(words)
    if "set" in given:
        if given.get("overrides"):
            raise ValueError("set and overrides say the same in two ways: give set")
        given["overrides"] = given.pop("set")
    return given

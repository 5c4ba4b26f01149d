"""Words of the entry points as types of keyword arguments, for editors and type checkers.

python -m tests.keywords          # writes sweeps/ask/keywords.pyi anew, from the declarations of the words
"""

import dataclasses
import types
import typing
from pathlib import Path

from sweeps.ask.keys import COUNT, COUNTS, NAMES, NUMBER, SWITCH, TABLE, words
from sweeps.ask.offered_load import COMPARED, OfferedLoad
from sweeps.ask.words import ComparisonWords, StaticWords, SweepWords
from sweeps.entries.words import EntryWords, ServedEntryWords

PAGE = Path(__file__).parents[1] / "sweeps" / "ask" / "keywords.pyi"

HEAD = '''"""Words of questions as keyword arguments, for type checkers; `python -m tests.keywords` writes this."""

from collections.abc import Iterable, Mapping
from typing import Any, SupportsFloat, TypedDict

Number = SupportsFloat | str
"""A number in SI units, of Python, NumPy or JAX, or a text with a unit."""

Table = Mapping[str, Any]
'''

READ = {
    NUMBER: "Number",
    COUNT: "Number",
    COUNTS: "Number | Iterable[Number]",
    NAMES: "str | Iterable[str]",
    TABLE: "Table | str | Iterable[str]",
    SWITCH: "bool",
}
"""Way to read a word -> what users may write."""

KINDS: dict = {
    "CaseKeys": (EntryWords, "TypedDict", ("hardware", "model")),
    "CapacityKeys": (ServedEntryWords, "TypedDict", ("hardware", "model", "slo")),
    "ServeKeys": (ServedEntryWords, "CapacityKeys", ("hardware", "model")),
    "CompareKeys": ((ComparisonWords, OfferedLoad), "TypedDict", ("model", "slo")),
    "StaticKeys": (StaticWords, "TypedDict", ("model", "isl", "osl")),
    "SweepKeys": (SweepWords, "TypedDict", ()),
}
"""Type -> the question whose words it has, its base, and words that functions take by themselves."""


def typed(hint, axis: bool) -> str:
    """The type of what a user writes for a field of this type."""
    parts = typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)
    found: dict[str, None] = {}
    for part in parts:
        origin = typing.get_origin(part) or part
        if part in (float, int):
            found["Number"] = None
        elif part is str:
            found["str"] = None
        elif part is bool:
            found["bool"] = None
        elif part is types.NoneType:
            continue
        elif origin in (list, tuple) or getattr(origin, "__name__", "") == "Sequence":
            inner = typed(typing.get_args(part)[0], False)
            # Tables may be texts as flags have them.
            found["str | Iterable[str | Table]" if inner == "Table" else f"Iterable[{inner}]"] = None
        else:
            found["Table"] = None
    if "Number" in found:
        found.pop("str", None)
    if axis and "str" in found:
        found["Iterable[str]"] = None
    return " | ".join(found)


def keywords(kinds, beside) -> dict[str, str]:
    """Keyword -> its type."""
    found = {}
    for kind in kinds if isinstance(kinds, tuple) else (kinds,):
        hints, declared = typing.get_type_hints(kind), {one.field: (key, one) for key, one in words(kind).items()}
        for field in dataclasses.fields(kind):
            key, word = declared.get(field.name, (field.name, None))
            if key in beside or (kind is OfferedLoad and key not in COMPARED):
                continue
            text = READ.get(word.reads) if word is not None else None
            found[key] = text or typed(hints[field.name], kind is SweepWords and word is not None and word.axis)
    return found


def page() -> str:
    """The module."""
    lines = [HEAD]
    made: dict[str, dict[str, str]] = {}
    for name, (kind, base, beside) in KINDS.items():
        made[name] = keywords(kind, beside)
        # Keys of a specification are never None: they are left out.
        none = "" if kind is SweepWords else " | None"
        own = {key: text for key, text in made[name].items() if key not in made.get(base, {})}
        rows = [f"    {key}: {text}{none}" for key, text in own.items()]
        lines.append(f"\nclass {name}({base}, total=False):\n" + "\n".join(rows) + "\n")
    return "".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

"""YAML text of plain data: mappings, lists, texts, numbers and truth values."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

PLAIN = re.compile(r"-{0,2}[A-Za-z/][\w./@-]*(:[\w./@-]+)*")
"""Texts that need no quotes."""

WORDS = ("true", "false", "yes", "no", "on", "off", "null", "y", "n")
"""Texts that YAML readers take for something else."""


def yaml_text(value: Any) -> str:
    """A value as a YAML document in block style; a mapping's keys in their order."""
    return "\n".join(_lines(value)) + "\n"


def _lines(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            if _flat(inner):
                yield f"{_scalar(key)}: {_scalar(inner)}"
            else:
                yield f"{_scalar(key)}:"
                # YAML lets a list begin in the column of its key.
                indent = "" if isinstance(inner, list) else "  "
                yield from (f"{indent}{line}" for line in _lines(inner))
    elif isinstance(value, list) and value:
        for inner in value:
            # The dash takes the place of the first line's indentation.
            first, *others = _lines(inner)
            yield f"- {first}"
            yield from (f"  {line}" for line in others)
    else:
        yield _scalar(value)


def _flat(value: Any) -> bool:
    return not (isinstance(value, Mapping | list) and value) and not (isinstance(value, str) and "\n" in value)


def _scalar(value: Any) -> str:
    if isinstance(value, str) and PLAIN.fullmatch(value) and value.lower() not in WORDS:
        return value
    # Quoted text, numbers, true, false and null are written in JSON, which is a subset of YAML 1.2.
    text = json.dumps(value)
    if isinstance(value, float) and "." not in text:
        return text.replace("e", ".0e")  # YAML takes 1e-05 for a text
    return text

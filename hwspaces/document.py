"""What a file may hold before anything in it is believed: its size, its depth, its keys and whole numbers."""

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

LARGEST = 4 * 2**20
"""B of a TOML or JSON file; the largest of the catalogue has 100 kB."""

DEEPEST = 32
"""Tables and lists inside each other."""

LONGEST_KEY = 200
"""Characters of a key; dotted paths of leaves have 60."""


def toml(path: str | Path) -> dict[str, Any]:
    """The tables of a TOML file.

    Raises:
      ValueError: one line that names the file: it is missing, no file, unreadable, too large, no TOML, too deep, or has
        a key that cannot be shown in a line or a whole number beyond 64 bits.
    """
    return _document(path, "TOML", tomllib.loads)


def json_value(path: str | Path) -> Any:
    """The value of a JSON file; ValueError as of `toml`."""
    return _document(path, "JSON", json.loads)


def _document(path: str | Path, language: str, parsed: Callable[[str], Any]) -> Any:
    text = _text(Path(path))
    try:
        found = parsed(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not {language}: {_one_line(error)}") from None
    _check(found, str(path))
    return found


def _text(path: Path) -> str:
    try:
        if not path.exists():
            raise ValueError(f"{path}: no such file")
        if not path.is_file():
            raise ValueError(f"{path}: cannot be read: it is no file")
        size = path.stat().st_size
        if size > LARGEST:
            raise ValueError(f"{path}: {size:,} B; at most {LARGEST:,} are read")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: cannot be read: {_one_line(error)}") from None


def _check(tree: Any, where: str) -> None:
    for depth, key, value in _parts(tree):
        if depth > DEEPEST:
            raise ValueError(f"{where}: more than {DEEPEST} tables and lists are inside each other")
        if len(key) > LONGEST_KEY:
            raise ValueError(f"{where}: a key has {len(key):,} characters, {key[:40]!r} ...; at most {LONGEST_KEY}")
        if not key.isprintable():
            raise ValueError(f"{where}: the key {key!r} has characters that cannot be printed")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            size = f"about {'-' if value < 0 else ''}2**{value.bit_length()}"
            raise ValueError(f"{where}: {key or 'a number'} is {size}; a whole number has at most 64 bits")


def _parts(tree: Any) -> Iterator[tuple[int, str, Any]]:
    """Depth, key (of an entry of a list: that of the list) and value of everything in a document."""
    waiting = [(0, "", tree)]
    while waiting:
        depth, key, value = waiting.pop()
        yield depth, key, value
        if isinstance(value, Mapping):
            waiting += [(depth + 1, str(name), part) for name, part in value.items()]
        elif isinstance(value, list):
            waiting += [(depth + 1, key, part) for part in value]


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())

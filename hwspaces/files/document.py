"""TOML and JSON files as plain values, with bounds on size and depth that are checked before parsing."""

import json
import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

LARGEST_TOML = 2**19
"""B of a TOML file, whose parser reads about 1 MB a second; the largest of the catalogue has 100 kB."""

LARGEST = 4 * 2**20
"""B of a JSON file of figures."""

DEEPEST = 32
"""Tables and lists inside each other, and parts of a dotted key."""

MOST_ENTRIES = 100_000
"""Values and keys of a document."""

LONGEST_KEY = 200
"""Characters of a key; dotted paths of leaves have 60."""

MOST_PROBLEMS = 10
"""Things wrong with a file that are told one by one."""

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""Characters that terminals obey, but for tabs and ends of lines."""

_TOKEN = re.compile(
    r"""
      (?P<text> \"{3}(?:[^"\\]|\\.|"(?!""))*+(?:\"{3})?+ | '{3}(?:[^']|'(?!''))*+(?:'{3})?+
              | "(?:[^"\\\n]|\\.)*+"?+ | '[^'\n]*+'?+ | [A-Za-z0-9_+:-]++ )
    | (?P<space> [ \t]++ | \#[^\n]*+ )
    | (?P<dot> \. )
    | (?P<open> [\[{] )
    | (?P<close> [\]}] )
    | (?P<end> [,\n] )
    """,
    re.VERBOSE | re.DOTALL,
)
"""A part of a TOML document. Every repetition is possessive: reading takes time in proportion to the text."""


class Problems(ValueError):
    """Everything that is wrong with a file: in one line as text, and one by one in `lines`.

    Args:
      where: the file, with which the text begins.
      problems: one or more lines.
    """

    def __init__(self, where: str, problems: Iterable[str]) -> None:
        found = tuple(dict.fromkeys(problems))
        super().__init__(where, found)
        self.where, self.count = where, len(found)
        more = (f"and {len(found) - MOST_PROBLEMS} more",) if len(found) > MOST_PROBLEMS else ()
        self.lines = found[:MOST_PROBLEMS] + more

    def __str__(self) -> str:
        return f"{self.where}: {'; '.join(self.lines)}"


def toml(path: str | Path) -> dict[str, Any]:
    """The tables of a TOML file.

    Raises:
      ValueError: one line that names the file: it is missing, no file, unreadable, too large, no TOML, too deep, or has
        a key that cannot be shown in a line or a whole number beyond 64 bits.
    """
    return _checked(path, _parsed(text(path, LARGEST_TOML), str(path), "TOML", _toml), MOST_ENTRIES)


def json_value(path: str | Path, largest: int = LARGEST, entries: int = MOST_ENTRIES) -> Any:
    """The value of a JSON file; ValueError as of `toml`, also for an object that has a key twice.

    Args:
      path: the file.
      largest: B that it may have.
      entries: values and keys that it may have.
    """
    words = text(path, largest)
    # Separators and opening brackets are about as many as values; counting them costs far less than parsing.
    count = words.count(",") + words.count("[") + words.count("{")
    if count > entries:
        raise ValueError(f"{path}: more than {entries:,} values; that many are read")
    return _checked(path, json_of(words, str(path)), entries)


def json_of(words: str, where: str) -> Any:
    """The value of a JSON text.

    Raises:
      ValueError: one line that begins with `where`: no JSON, too deep, a whole number of thousands of digits, an object
        that has a key twice.
    """
    return _parsed(words, where, "JSON", _json)


def text(path: str | Path, largest: int) -> str:
    """The text of a file in UTF-8, with or without a byte order mark.

    Raises:
      ValueError: one line that names the file: it is missing, no regular file, larger than `largest` bytes,
        unreadable, no UTF-8, or has a zero byte.
    """
    require_file(path, largest)
    try:
        content = Path(path).read_bytes()
        # Its byte order marks would otherwise be told as wrong bytes.
        if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise ValueError(f"{path}: cannot be read: it is in UTF-16; UTF-8 is read")
        if b"\x00" in content:
            raise ValueError(f"{path}: cannot be read: byte {content.index(0)} is zero; it is not text")
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not a text file in UTF-8: byte {error.start} is wrong") from None
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from None


def require_file(path: str | os.PathLike[str], largest: int) -> int:
    """The size in B of a regular file, which is not opened: opening a pipe waits for whoever writes into it.

    Raises:
      ValueError: one line: there is no such file, it is a folder, pipe, socket or device, or has more than `largest` B.
    """
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path}: cannot be read: it is not a file")
    if status.st_size > largest:
        raise ValueError(f"{path}: {status.st_size:,} B; at most {largest:,} are read")
    return status.st_size


def _parsed(words: str, where: str, language: str, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(words)
    except RecursionError:
        deep = f"more than {DEEPEST} tables and lists are inside each other"
        raise ValueError(f"{where}: not {language}: {deep}") from None
    except ValueError as error:
        # Errors are one line here; a parser's may have several.
        said = " ".join(str(error).split())
        # Python converts no more than 4,300 digits and explains how to change that, which is no help here.
        if said.startswith("Exceeds the limit"):
            said = "a whole number has thousands of digits; it has at most 64 bits"
        raise ValueError(f"{where}: not {language}: {said[:300]}") from None


def _toml(words: str) -> dict[str, Any]:
    """The tables of a text whose brackets, dotted keys and length are such that parsing is quick."""
    depth = dots = entries = 0
    # Brackets, dots and ends are counted on tokens: those inside texts and comments mean nothing.
    for token in _TOKEN.finditer(words):
        kind = token.lastgroup
        if kind == "space":
            continue
        if kind == "dot":
            dots += 1
        elif kind == "open":
            depth += 1
        elif kind == "close":
            # A closing bracket too many is for the parser to report.
            depth = max(depth - 1, 0)
        elif kind == "end":
            entries += 1
        # Dots count within one key, which anything but text ends.
        if kind not in ("text", "dot"):
            dots = 0
        if max(depth, dots) > DEEPEST:
            raise RecursionError
        if entries > MOST_ENTRIES:
            raise ValueError(f"more than {MOST_ENTRIES:,} lines and values; that many are read")
    return tomllib.loads(words)


def _json(words: str) -> Any:
    """The value of a text; what is deeper than the parser goes is a RecursionError, which costs little."""
    tree = _DECODER.decode(words)
    level = [tree]
    # Level by level, so that checking the depth needs no recursion itself.
    for _ in range(DEEPEST + 1):
        level = [part for one in level for part in _inside(one) if isinstance(part, dict | list)]
        if not level:
            return tree
    raise RecursionError


def _inside(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    # Python's parser takes the last of equal keys without a word.
    if len(table) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for place, key in enumerate(names) if names.index(key) < place)
        raise ValueError(f"the key {twice[:LONGEST_KEY]!r} is there twice")
    return table


_DECODER = json.JSONDecoder(object_pairs_hook=_unique)


def _checked(path: str | Path, tree: Any, entries: int) -> Any:
    where = str(path)
    for count, (depth, key, value) in enumerate(_parts(tree)):
        if count > entries:
            raise ValueError(f"{where}: more than {entries:,} values; that many are read")
        if depth > DEEPEST:
            raise ValueError(f"{where}: more than {DEEPEST} tables and lists are inside each other")
        if len(key) > LONGEST_KEY:
            raise ValueError(f"{where}: a key has {len(key):,} characters, {key[:40]!r} ...; at most {LONGEST_KEY}")
        if not key.isprintable():
            raise ValueError(f"{where}: the key {key!r} has characters that cannot be printed")
        if isinstance(value, str) and (control := _CONTROL.search(value)):
            raise ValueError(_unprintable(where, key, value, control.start()))
        # TOML promises 64 bits; Python's own whole numbers have no bound.
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            size = f"about {'-' if value < 0 else ''}2**{value.bit_length()}"
            raise ValueError(f"{where}: {key or 'a number'} is {size}; a whole number has at most 64 bits")
    return tree


def require_printable(tree: Any, where: str) -> None:
    """ValueError of one line where a text in a document has control characters, which terminals obey."""
    for _, key, value in _parts(tree):
        if isinstance(value, str) and (control := _CONTROL.search(value)):
            raise ValueError(_unprintable(where, key, value, control.start()))


def _unprintable(where: str, key: str, value: str, place: int) -> str:
    shown = value[max(place - 20, 0) : place + 20]
    return (
        f"{where}: {key or 'a text'} = {shown!r} has a control character, {value[place]!r}; text without them is read"
    )


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

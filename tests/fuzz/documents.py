"""Inputs as trees that can be changed, and back: JSON, JSON lines, TOML, CSV and words."""

import datetime
import json
import re
import tomllib
from typing import Any

_WORD = re.compile(r"\w+|\s+|[^\w\s]")


class Json:
    """One JSON value."""

    @staticmethod
    def parsed(data: bytes) -> Any:
        return json.loads(data)

    @staticmethod
    def text(tree: Any) -> bytes:
        return json.dumps(tree, default=str).encode("utf-8", "surrogatepass")


class Lines:
    """JSON lines: a list of values."""

    @staticmethod
    def parsed(data: bytes) -> Any:
        return [json.loads(line) for line in data.split(b"\n") if line.strip()]

    @staticmethod
    def text(tree: Any) -> bytes:
        return b"\n".join(map(Json.text, tree if isinstance(tree, list) else [tree]))


class Toml:
    """A TOML document; tables below the first level are written in one line."""

    @staticmethod
    def parsed(data: bytes) -> Any:
        return tomllib.loads(data.decode())

    @staticmethod
    def text(tree: Any) -> bytes:
        tree = tree if isinstance(tree, dict) else {"value": tree}
        lines = [f"{_quoted(key)} = {_toml(value)}" for key, value in tree.items() if value is not None]
        return "\n".join(lines).encode("utf-8", "replace")


class Csv:
    """Rows of values, as a list of lists of texts."""

    @staticmethod
    def parsed(data: bytes) -> Any:
        return [line.split(",") for line in data.decode().split("\n")]

    @staticmethod
    def text(tree: Any) -> bytes:
        rows = tree if isinstance(tree, list) else [tree]
        return "\n".join(",".join(map(str, row)) if isinstance(row, list) else str(row) for row in rows).encode(
            "utf-8", "replace"
        )


class Words:
    """Words, spaces and signs, as a list of texts."""

    @staticmethod
    def parsed(data: bytes) -> Any:
        return _WORD.findall(data.decode())

    @staticmethod
    def text(tree: Any) -> bytes:
        words = tree if isinstance(tree, list) else [tree]
        return "".join(map(str, words)).encode("utf-8", "replace")


class Raw:
    """Bytes that are no tree."""

    @staticmethod
    def parsed(data: bytes) -> Any:
        raise ValueError

    @staticmethod
    def text(tree: Any) -> bytes:
        return tree


def _quoted(text: Any) -> str:
    return json.dumps(str(text)).replace("\x7f", "\\u007F")


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{_quoted(key)} = {_toml(part)}" for key, part in value.items() if part is not None)
        return f"{{{inner}}}"
    if isinstance(value, list):
        return f"[{', '.join(_toml(part) for part in value if part is not None)}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if abs(value) < 10**4000 else "1e400"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return _quoted(value)

"""Answers of the command line and of datasets as flat tables of numbers and texts."""

import contextlib
import hashlib
import io
import json
import math
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Flat = dict[str, Any]
"""Place inside an answer -> number, text, true or false, or null."""

Question = Callable[[], Flat]

LONG = 16
"""Numbers of an array above which it is kept as a digest."""

SHOWN = 8
"""Elements that a digest keeps."""

swept_dtype = "float64"
"""Of the floats of sweeps; `tests.golden.net` sets it."""

VOLATILE = (
    "jaxroof_version",
    "source",
    "spec_sha256",
    "base_scenario_sha256",
    "software",
    "computed_with",
    "history",
    "date",
    "seconds",
    "estimate_seconds",
    "compile_seconds",
)
"""Keys of answers and attributes that say when, where and by which version an answer was made."""


def command(words: str | Iterable[str]) -> Flat:
    """What `jaxroof WORDS` answers: its JSON as a flat table, or its exit status and the line of its refusal.

    Args:
      words: of the command line, as one text that is split at blanks, or one by one. `--json` is added to it.
    """
    from sweeps.cli import main

    words = words.split() if isinstance(words, str) else [str(word) for word in words]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main([*words, "--json"])
    if status:
        return {"status": status, "said": _placeless(err.getvalue().strip())}
    return flat(json.loads(out.getvalue()))


def called(function: Callable[..., Any], *values: Any, **keys: Any) -> Flat:
    """The Dataset that a public function returns as a flat table, or the line with which it refuses."""
    try:
        return dataset(function(*values, **keys))
    except ValueError as error:
        return {"refused": _placeless(str(error))}


def swept(**keys: Any) -> Flat:
    """What `sweeps.sweep` returns in `swept_dtype`; points that cannot be are masked."""
    import sweeps

    keys["output"] = {"dtype": swept_dtype, "illegal": "mask", **keys.get("output", {})}
    return called(sweeps.sweep, **keys)


def dataset(found: Any) -> Flat:
    """Dimensions, labels, values and attributes of an xarray Dataset."""
    table: Flat = {f"attrs/{key}": _plain(value) for key, value in found.attrs.items() if key not in VOLATILE}
    for name, size in found.sizes.items():
        table[f"dims/{name}"] = int(size)
    for name, variable in found.variables.items():
        table[f"{name}/dims"] = " ".join(map(str, variable.dims))
        table[f"{name}/dtype"] = variable.dtype.kind
        table |= {f"{name}/attrs/{key}": _plain(value) for key, value in variable.attrs.items()}
        table |= {f"{name}/{place}".rstrip("/"): value for place, value in _array(variable.values).items()}
    return table


def flat(value: Any, place: str = "") -> Flat:
    """JSON as a flat table. Rows of a list with names go by them, long lists of numbers are kept as digests."""
    if isinstance(value, Mapping):
        parts = [flat(part, f"{place}/{key}") for key, part in value.items() if key not in VOLATILE]
        return {name: part for table in parts for name, part in table.items()} or {place: "{}"}
    if isinstance(value, list):
        if len(value) > LONG and all(isinstance(part, int | float) for part in value):
            return {f"{place}/{name}".rstrip("/"): part for name, part in _array(np.array(value, float)).items()}
        parts = [flat(part, f"{place}/{name}") for name, part in zip(_names(value), value, strict=True)]
        return {name: part for table in parts for name, part in table.items()} or {place: "[]"}
    return {place: _placeless(value) if isinstance(value, str) else value}


def digest(table: Flat) -> Flat:
    """A long answer in short: counts of numbers and texts, a hash of texts and places, sums of the numbers."""
    numbers = {name: float(value) for name, value in table.items() if _is_number(value)}
    texts = {name: value for name, value in table.items() if name not in numbers}
    return {
        "texts": len(texts),
        "texts_sha256": _hash(texts),
        "places_sha256": _hash(sorted(numbers)),
        **_array(np.array([numbers[name] for name in sorted(numbers)], float)),
    }


def grouped(table: Flat) -> Flat:
    """A long answer as one digest for each of the first parts of its places."""
    groups: dict[str, Flat] = {}
    for name, value in table.items():
        groups.setdefault("/".join(name.split("/")[:2]), {})[name] = value
    return {f"{group}/digest/{place}": value for group, own in groups.items() for place, value in digest(own).items()}


def shortened(table: Flat, most: int = 400) -> Flat:
    """A table of at most about `most` values as it is; of a longer one that many, and a digest of each first part."""
    if len(table) <= most:
        return table
    share = len(table) // most + 1
    short = {name: value for name, value in table.items() if int(_hash(name), 16) % share == 0}
    return short | grouped(table)


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """An empty folder that is the working directory meanwhile, so that files have names without places."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        try:
            yield Path(".")
        finally:
            os.chdir(before)


def _array(values: np.ndarray) -> Flat:
    """An array of few numbers one by one; of many the count, the least, the largest, two sums and some elements."""
    values = np.asarray(values).ravel()
    if values.dtype.kind in "OUS":
        texts = [_placeless(str(value)) for value in values]
        return _each(texts) if len(texts) <= LONG else {"n": len(texts), "sha256": _hash(texts)}
    if len(values) <= LONG:
        return _each([_number(value) for value in values])
    numbers = values.astype(float)
    known = np.isfinite(numbers)
    finite = numbers[known]
    table: Flat = {"n": len(numbers), "known": int(known.sum())}
    if finite.size:
        weights = 1.0 + np.modf(np.arange(finite.size) * 0.6180339887498949)[0]  # apart, so that swaps are seen
        table |= {"least": float(finite.min()), "most": float(finite.max())}
        table |= {"sum": math.fsum(finite), "weighted": math.fsum(finite * weights)}
    places = np.linspace(0, len(numbers) - 1, SHOWN).round().astype(int)
    return table | {str(i): _number(values[i]) for i in places}


def _each(values: list) -> Flat:
    return {"": values[0]} if len(values) == 1 else {str(i): value for i, value in enumerate(values)}


def _names(rows: list) -> list[str]:
    """Names of a list's rows: their own where each has one, numbers where not."""
    for keys in (("step", "name"), ("name",), ("id", "what")):
        if rows and all(isinstance(row, Mapping) and keys[-1] in row for row in rows):
            names = [".".join(str(row[key]) for key in keys if key in row) for row in rows]
            if len(set(names)) == len(names):
                return names
    return [str(i) for i in range(len(rows))]


def _number(value: Any) -> Any:
    """A number as JSON keeps it; what is no number as a text."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, np.datetime64 | np.timedelta64):
        return str(value)
    number = float(value)
    return number if math.isfinite(number) else str(number)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | list | tuple):
        return " ".join(map(str, np.asarray(value).ravel().tolist()))
    if isinstance(value, str):
        return _placeless(value)
    return _number(value)


def _placeless(text: str) -> str:
    """A text without names of temporary folders."""
    return re.sub(rf"{re.escape(tempfile.gettempdir())}/[\w.-]+", "FOLDER", text)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]

"""Manifest of a folder of shards: a header with the question, then a line for every whole shard.

The file is only ever appended to, so that an interruption costs the line that is being written and nothing else. Every
line carries a checksum of itself; that of a shard is one of the question too, so that lines whose header is lost can
be told from those of another sweep.
"""

import contextlib
import dataclasses
import errno
import hashlib
import json
import math
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from hwspaces.files import document
from hwspaces.files.unfinished import NO_LINK, refusal
from sweeps.data.shards import folder

NAME = "manifest.jsonl"
FORMAT = "jaxroof shards 1"

LARGEST = 1 << 30
"""B of the largest manifest that is read: some million shards."""


LARGEST_SIDE = 1 << 48
"""Points along one axis that are believed."""

ASKED = ("spec", "keep", "stored", "shard_points", "software", "hardware", "question_sha256", "shards")
"""What of a header makes it another sweep when it differs."""


class Damaged(ValueError):
    """A manifest whose header is not as it was written."""


@dataclasses.dataclass(frozen=True)
class Shard:
    """A part of a sweep that is whole and on the disk."""

    number: int
    file: str
    bytes: int
    sha256: str
    points: int
    seconds: float  # that computing and writing took
    names: tuple[str, ...]  # variables with values in it
    runs: tuple[tuple[tuple[int, int], ...], ...]  # along every axis, ranges of the positions that it covers

    @property
    def positions(self) -> tuple[np.ndarray, ...]:
        """Positions along every axis."""
        return tuple(np.concatenate([np.arange(low, high) for low, high in runs]) for runs in self.runs)


@dataclasses.dataclass(frozen=True)
class Manifest:
    """A header and the shards that are whole, by number."""

    header: Mapping[str, Any]
    shards: Mapping[int, Shard]
    length: int  # B of the file up to the last whole line

    @property
    def complete(self) -> bool:
        """True where no shard is missing."""
        return len(self.shards) == self.header["shards"]


def runs(positions: np.ndarray) -> tuple[tuple[int, int], ...]:
    """Rising positions as ranges [low, high)."""
    # A new range begins wherever positions do not follow each other.
    breaks = np.flatnonzero(np.diff(positions) != 1) + 1
    return tuple((int(part[0]), int(part[-1]) + 1) for part in np.split(positions, breaks))


def begun(place: pathlib.Path, header: Mapping[str, Any]) -> Manifest:
    """A new manifest without shards."""
    folder.written(place / NAME, _line({"format": FORMAT, **header}))
    return read(place)


def appended(place: pathlib.Path, header: Mapping[str, Any], shard: Shard) -> None:
    """Add a shard that is on the disk; ValueError of one line where that cannot be written."""
    line = _line(dataclasses.asdict(shard), question(header))
    with _written(place / NAME, os.O_APPEND) as handle:
        start = os.fstat(handle).st_size
        try:
            if os.write(handle, line) != len(line):
                # A write of less than the line means a full disk; below, its part is cut off again.
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(handle)
        except OSError:
            os.ftruncate(handle, start)
            raise


def rebuilt(place: pathlib.Path, header: Mapping[str, Any], frame: Callable[[], Mapping[str, Any]]) -> Manifest:
    """The manifest under a new header, where its own is damaged: with all lines that answer the same question.

    Args:
      place: the folder.
      header: what is asked now, without the frame.
      frame: writes the labels and describes them; called when it is sure that the folder is of this sweep.

    Raises:
      Damaged: one line, where there are none: nothing says then that the shards are of this sweep.
    """
    # Lines carry a checksum with the question in it, so that those of another sweep are not taken.
    lines, salt = _lines(place)[1:-1], question(header)
    valid_lines = [line for line in lines if _parsed(line, salt) is not None]
    if not valid_lines:
        raise Damaged(
            f"{place / NAME} is damaged: its first line is not as it was written, and no other is of this sweep; "
            "give another folder"
        )
    first = _line({"format": FORMAT, **header, "frame": frame()})
    folder.written(place / NAME, first + b"".join(line + b"\n" for line in valid_lines))
    return read(place)


def question(header: Mapping[str, Any]) -> str:
    """A hash of what a header asks."""
    return hashlib.sha256(json.dumps([header[key] for key in ASKED]).encode()).hexdigest()


def truncated(place: pathlib.Path, manifest: Manifest) -> None:
    """Cut off what an interruption left behind the last whole line."""
    path = place / NAME
    if path.stat().st_size > manifest.length:
        with _written(path) as handle:
            os.ftruncate(handle, manifest.length)


@contextlib.contextmanager
def _written(path: pathlib.Path, how: int = 0) -> Iterator[int]:
    """A file that is there, opened for writing; ValueError of one line where that or the writing fails."""
    try:
        handle = os.open(path, os.O_WRONLY | how | NO_LINK)  # where it is gone, it stays gone
        try:
            yield handle
        finally:
            os.close(handle)
    except OSError as error:
        raise ValueError(refusal(path, error)) from None


def read(place: pathlib.Path) -> Manifest:
    """The manifest of a folder.

    A torn last line, as an interruption leaves it, is not read; a line that is damaged otherwise counts as a shard that
    is not there, unless it is the header.

    Raises:
      ValueError: one line, where there is no manifest, or its header is not one.
    """
    path, lines = place / NAME, _lines(place)
    header = _header(path, _parsed(lines[0]) if len(lines) > 1 else None)
    salt = question(header)
    parsed_shards = (_shard(_parsed(line, salt), header) for line in lines[1:-1])
    # Bytes of all lines with their ends, but those of a torn last line.
    length = sum(map(len, lines)) + len(lines) - 1 - len(lines[-1])
    return Manifest(header, {shard.number: shard for shard in parsed_shards if shard is not None}, length)


def _lines(place: pathlib.Path) -> list[bytes]:
    """Lines of a manifest; the last is what follows the last end of a line."""
    path = place / NAME
    if not path.exists():
        raise ValueError(f"{place} is not a folder of shards: it has no {NAME}")
    document.require_file(path, LARGEST)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    return content.split(b"\n")


def _line(content: Mapping[str, Any], salt: str = "") -> bytes:
    # NaN is no JSON; keys keep their order, as the check depends on the text.
    body = json.dumps(content, allow_nan=False)  # in the order of the axes
    return f'{{"check": "{_check(body, salt)}", "is": {body}}}\n'.encode()


def _check(body: str, salt: str) -> str:
    # 64 bits tell damage, not attacks.
    return hashlib.sha256(f"{salt}{body}".encode()).hexdigest()[:16]


def _parsed(line: bytes, salt: str = "") -> Any:
    """Content of a line; None where it is not as it was written."""
    try:
        content = json.loads(line)
        body = content["is"]
        return body if content["check"] == _check(json.dumps(body), salt) else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


_HEADER = {
    "format": str,
    "question_sha256": str,
    "spec": dict,
    "keep": list,
    "stored": dict,
    "software": dict,
    "hardware": str,
    "shards": int,
    "points": int,
    "shard_points": int,
    "axes": list,
    "outputs": list,
    "frame": dict,
}
"""What a header says, and the type of each."""


def _header(path: pathlib.Path, found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise Damaged(f"{path} is damaged: its first line is not as it was written")
    if found.get("format") != FORMAT:
        raise ValueError(f"{path}: format = {found.get('format')!r} is not known; this version reads {FORMAT!r}")
    # Types of all keys first; then what the keys say about each other.
    for key, kind in _HEADER.items():
        if not isinstance(found.get(key), kind) or (kind is int and found[key] < 0):
            raise ValueError(f"{path}: {key} = {found.get(key)!r} must be a {kind.__name__}")
    if not all(isinstance(found["software"].get(name), str) for name in ("jaxroof", "jax")):
        raise ValueError(f"{path}: software must name the versions of jaxroof and jax")
    if not all(isinstance(word, str) and word.isprintable() for word in found["keep"]):
        raise ValueError(f"{path}: keep must be a list of words")
    frame = found["frame"]
    if not all(isinstance(frame.get(key), kind) for key, kind in (("file", str), ("bytes", int), ("sha256", str))):
        raise ValueError(f"{path}: frame = {frame} must have a file, its bytes and its sha256")
    sides, outputs = found["axes"], found["outputs"]
    if not all(isinstance(side, list) and len(side) == 2 and type(side[1]) is int for side in sides):
        raise ValueError(f"{path}: axes must be pairs of a name and a number of points")
    if not all(isinstance(name, str) and name.isprintable() for name, _ in sides):
        raise ValueError(f"{path}: names of axes must be of one line")
    if not all(0 < size <= LARGEST_SIDE for _, size in sides):
        raise ValueError(f"{path} is damaged: an axis of {max(size for _, size in sides):,} points")
    # Every shard has at least one point, and all of them together the points of the axes.
    points = math.prod(size for _, size in sides)
    if found["points"] != points:
        raise ValueError(f"{path} is damaged: points = {found['points']:,}, and its axes have {points:,}")
    if not min(points, 1) <= found["shards"] <= points:
        raise ValueError(f"{path} is damaged: {found['shards']:,} shards of {points:,} points")
    # A name without folders: a path could lead out of the folder.
    name = frame["file"]
    if pathlib.Path(name).name != name or name in (".", "..") or not name.isprintable() or frame["bytes"] <= 0:
        raise ValueError(f"{path}: frame.file = {name!r} must be a name in the same folder")
    if not all(isinstance(output, dict) and isinstance(output.get("name"), str) for output in outputs):
        raise ValueError(f"{path}: outputs must be tables with a name")
    return found


def _shard(found: Any, header: Mapping[str, Any]) -> Shard | None:
    """The shard that a line describes; None where it describes none of this sweep."""
    try:
        shard = Shard(
            number=int(found["number"]),
            file=str(found["file"]),
            bytes=int(found["bytes"]),
            sha256=str(found["sha256"]),
            points=int(found["points"]),
            seconds=float(found["seconds"]),
            names=tuple(map(str, found["names"])),
            runs=tuple(tuple((int(low), int(high)) for low, high in runs) for runs in found["runs"]),
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    # The shard has to lie on the axes, in a file of its own number, with as many points as its ranges span.
    known = {output["name"] for output in header["outputs"]}
    sizes = [size for _, size in header["axes"]]
    fits = len(shard.runs) == len(sizes) and all(
        runs and all(0 <= low < high <= size for low, high in runs)
        for runs, size in zip(shard.runs, sizes, strict=True)
    )
    plain = shard.file == file_name(shard.number) and 0 <= shard.number < header["shards"] and shard.bytes > 0
    inside = math.prod(sum(high - low for low, high in runs) for runs in shard.runs)
    return shard if fits and plain and shard.points == inside and known.issuperset(shard.names) else None


def file_name(number: int) -> str:
    """Name of a shard's file."""
    return f"shard-{number:07d}.nc"


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Differences of two headers, each as "key was x, is y"; empty where both mean the same sweep."""
    changes: list[str] = []
    for key in ASKED:
        old, new = before[key], now[key]
        # The hash and the number of shards follow from the other keys: they are said only where nothing else changed.
        if old == new or (changes and key in ("question_sha256", "shards")):
            continue
        if key == "question_sha256":
            changes.append("the catalogue's or another file's figures have changed")
        elif isinstance(old, dict):
            changes += _changed(old, new, "" if key == "spec" else f"{key}.")
        else:
            changes.append(f"{key} was {_short(old)}, is {_short(new)}")
    return changes


def _changed(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str) -> Iterable[str]:
    for key in sorted({*old, *new}):
        was, now = old.get(key), new.get(key)
        if was == now:
            continue
        if isinstance(was, dict) and isinstance(now, dict):
            yield from _changed(was, now, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key} was {_short(was)}, is {_short(now)}"


def _short(value: Any) -> str:
    text = "not given" if value is None else json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."

"""Progress of a folder of shards, and presence of the shards that its manifest lists."""

import json
import pathlib
from collections.abc import Callable
from typing import Any

from sweeps.data.keep import keepers
from sweeps.data.shards import folder, manifest, read
from sweeps.data.shards.encode import outline


def status(place: pathlib.Path, check: bool = False) -> dict[str, Any]:
    """Progress of a sweep in a folder, as a JSON object.

    Args:
      place: the folder.
      check: read every file as a query would, not its size alone.

    Raises:
      ValueError: one line, where there is no such sweep, or its header describes none that could be opened.
    """
    record = manifest.read(place)
    header, known = record.header, outline(record.header, place / manifest.NAME)
    # Called for its errors alone: parts that could not be told could not be opened either.
    keepers(known.keep, known, known.job)
    shards = [shard for _, shard in sorted(record.shards.items())]
    if check:
        wrong = [_wrong(read.frame, place, record), *(_wrong(read.whole, place, shard, known) for shard in shards)]
    # Sizes are looked at without reading the files.
    else:
        told = header["frame"]
        sizes = [(told["file"], told["bytes"]), *((shard.file, shard.bytes) for shard in shards)]
        wrong = [_wrong(_require_size, place / name, size) for name, size in sizes]
    points, seconds = (sum(getattr(shard, name) for shard in shards) for name in ("points", "seconds"))
    return {
        "title": f"{header['spec'].get('job', 'request')} sweep, {json.dumps(header['spec'].get('model'))}",
        "points": header["points"],
        "points_done": points,
        "shards": header["shards"],
        "shards_done": len(shards),
        "bytes": sum(shard.bytes for shard in shards),
        "points_per_second": points / seconds if seconds else None,
        "keep": header["keep"],
        "software": header["software"],
        "hardware": header["hardware"],
        "writer": folder.writer(place),
        "missing_files": [words for words in wrong if words],
    }


def _wrong(reading: Callable[..., Any], *words: Any) -> str | None:
    """Fault of a file, by its reader; None where there is none."""
    try:
        reading(*words)
    except ValueError as error:
        return str(error)
    return None


def _require_size(path: pathlib.Path, size: int) -> None:
    try:
        there = path.stat().st_size
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    if there != size:
        raise ValueError(f"{path} has {there:,} bytes in place of {size:,}")

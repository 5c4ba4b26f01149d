"""How far a folder of shards is, and whether what it says it has is there."""

import json
import pathlib
from typing import Any

from sweeps.shards import folder, manifest


def status(place: pathlib.Path, check: bool = False) -> dict[str, Any]:
    """What is known of a sweep in a folder, as JSON has it.

    Args:
      place: the folder.
      check: read every shard and compare its checksum, not its size alone.

    Raises:
      ValueError: one line, where there is no such sweep.
    """
    found = manifest.read(place)
    frame = found.header["frame"]
    files = [(frame.get("file"), frame.get("bytes"), frame.get("sha256"))]
    files += [(shard.file, shard.bytes, shard.sha256) for _, shard in sorted(found.shards.items())]
    wrong = [words for name, size, sha256 in files if (words := _wrong(place / str(name), size, sha256, check))]
    points = sum(shard.points for shard in found.shards.values())
    seconds = sum(shard.seconds for shard in found.shards.values())
    header = found.header
    return {
        "title": f"{header['spec'].get('job', 'request')} sweep, {json.dumps(header['spec'].get('model'))}",
        "points": header["points"],
        "points_done": points,
        "shards": header["shards"],
        "shards_done": len(found.shards),
        "bytes": sum(shard.bytes for shard in found.shards.values()),
        "points_per_second": points / seconds if seconds else None,
        "keep": header["keep"],
        "software": header["software"],
        "hardware": header["hardware"],
        "writer": folder.writer(place),
        "missing_files": wrong,
    }


def _wrong(path: pathlib.Path, size: int, sha256: str, check: bool) -> str | None:
    """What is wrong with a file; None where nothing is."""
    try:
        if check:
            folder.checked(path, size, sha256)
        elif path.stat().st_size != size:
            return f"{path} has {path.stat().st_size:,} bytes in place of {size:,}"
    except ValueError as error:
        return str(error)
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    return None

"""Trace events in JSON, as chrome://tracing and Perfetto open them.

Source: Trace Event Format (Google); what Perfetto reads of it: google/perfetto,
src/trace_processor/importers/json/json_trace_parser.cc.
"""

import json
import os
from collections.abc import Iterable
from typing import Any

from hwspaces.files.output import replacing
from jaxroof.numerics.struct import Scalar
from jaxroof.version import VERSION

MICROSECONDS = 1e6

TICK = 2.0**-10
"""us that all times on the axis are multiples of. Readers add start and length as binary numbers, and Perfetto cuts
both to whole ns: sums of ticks are exact, so that a span never reaches into the next one.
"""


def written_events(
    path: str | os.PathLike[str], listed: Iterable[dict[str, Any]], about: dict[str, Any], force: bool = False
) -> None:
    """Write events as JSON, one a line, with what is said about them; the file appears when it is whole.

    Raises:
      ValueError: one line, for a file that must not or cannot be written: `hwspaces.files.output`.
    """
    head = json.dumps({"source": f"jaxroof {VERSION}", **about}, allow_nan=False)
    with replacing(path, ("timeline",), force=force) as name, open(name, "w", encoding="utf-8") as file:
        # One event a line, written as it comes, so that the list is never in memory.
        file.write(f'{{"otherData": {head}, "displayTimeUnit": "ms", "traceEvents": [\n')
        for place, event in enumerate(listed):
            file.write((",\n" if place else "") + json.dumps(event, allow_nan=False))
        file.write("\n]}\n")


def span(process: int, thread: int, name: str, start: float, end: float) -> dict[str, Any]:
    """Event of something that lasts from `start` to `end`, in s; it meets the spans that begin and end there."""
    first = moment(start)
    # "X" is a complete event of the Trace Event Format: start and duration in us.
    return {"name": name, "ph": "X", "pid": process, "tid": thread, "ts": first, "dur": moment(end) - first}


def named(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    """Event that names a process (`process_name`) or one of its tracks (`thread_name`)."""
    # "M" is an event of metadata.
    return {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}


def moment(seconds: Scalar) -> float:
    """Place on the axis in us, to a `TICK`."""
    return TICK * round(float(seconds) * MICROSECONDS / TICK)


def us(seconds: Scalar) -> float:
    """us, to the ns."""
    return round(float(seconds) * MICROSECONDS, 3)

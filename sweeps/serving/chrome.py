"""A simulation as a trace that chrome://tracing and Perfetto open: steps, requests and counters over time."""

import heapq
import json
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from hwspaces.output import replacing
from jaxroof.struct import Scalar
from jaxroof.traffic import STATUSES
from jaxroof.version import VERSION
from sweeps.serving.run import Simulation, waiting

ENGINE, REQUESTS = 1, 2
"""Processes of the trace: the engine with its counters, and the requests."""

MICROSECONDS = 1e6


def written(path: str | os.PathLike, found: Simulation, force: bool = False) -> None:
    """Write the trace as JSON, one event a line; the file appears when it is whole.

    Raises:
      ValueError: one line, for a file that must not or cannot be written: `hwspaces.output`.
    """
    with replacing(path, ("timeline",), force=force) as name, open(name, "w", encoding="utf-8") as file:
        file.write(f'{{"otherData": {{"source": "jaxroof {VERSION}"}}, ')
        file.write('"displayTimeUnit": "ms", "traceEvents": [\n')
        for place, event in enumerate(events(found)):
            file.write((",\n" if place else "") + json.dumps(event, allow_nan=False))
        file.write("\n]}\n")


def events(found: Simulation) -> Iterator[dict[str, Any]]:
    """Events of the trace, times in us from the start of the simulation."""
    place = f"{found.case.model.name} on {found.case.hardware.name}"
    yield _named("process_name", ENGINE, 0, f"engine: {place}")
    yield _named("thread_name", ENGINE, 1, "steps")
    yield _named("process_name", REQUESTS, 0, f"requests: {found.replica.text}")
    yield from _engine(found)
    yield from _requests(found)


def _engine(found: Simulation) -> Iterator[dict[str, Any]]:
    """Steps as spans, and counters where they change; several equal decode steps are one span."""
    timeline, queue = found.timeline, waiting(found)
    shown: dict[str, dict[str, float]] = {}
    starts = found.start
    for i, steps in enumerate(timeline.steps.tolist()):
        prompt, decoding = int(timeline.prompt_tokens[i]), int(timeline.decoding[i])
        start = _us(starts[i])
        counters = {
            "requests": {"running": int(timeline.running[i]), "waiting": int(queue[i])},
            "tokens per step": {"prompt": prompt, "output": decoding},
            "KV cache (%)": {"in use": round(100.0 * float(timeline.blocks[i]) / found.blocks, 3)},
        }
        for name, values in counters.items():
            if shown.get(name) != values:
                shown[name] = values  # type: ignore[assignment]
                yield {"name": name, "ph": "C", "pid": ENGINE, "tid": 0, "ts": start, "args": values}
        if steps:
            kind = "prefill + decode" if prompt and decoding else "prefill" if prompt else "decode"
            yield {
                **_span(ENGINE, 1, kind if steps == 1 else f"decode x {steps}", start, _us(timeline.duration[i])),
                "args": {"steps": steps, "prompt tokens": prompt, "decoding sequences": decoding},
            }


def _requests(found: Simulation) -> Iterator[dict[str, Any]]:
    """Queueing, prefill and decode of every finished request as spans, in lanes in which none overlap."""
    served, stream = found.served, found.replica.stream
    done = np.flatnonzero(served.status == STATUSES.index("finished"))
    done = done[np.argsort(served.arrival[done], kind="stable")]
    free: list[int] = []  # lanes without a request, the lowest first
    busy: list[tuple[float, int]] = []  # finish and lane of the others
    lanes = 0
    for i in done.tolist():
        times = [float(getattr(served, name)[i]) for name in ("arrival", "admitted", "first_token", "finish")]
        while busy and busy[0][0] <= times[0]:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if not free:
            lanes += 1
            yield _named("thread_name", REQUESTS, lanes, f"lane {lanes}")
            heapq.heappush(free, lanes)
        lane = heapq.heappop(free)
        heapq.heappush(busy, (times[-1], lane))
        about = {
            "request": i,
            "prompt tokens": int(stream.isl[i]),
            "output tokens": int(stream.osl[i]),
            "cached tokens": int(served.cached[i]),
            "preemptions": int(served.preemptions[i]),
        }
        for name, begin, end in zip(("queue", "prefill", "decode"), times[:-1], times[1:], strict=True):
            if end > begin:
                yield {**_span(REQUESTS, lane, name, _us(begin), _us(end - begin)), "args": about}


def _span(process: int, thread: int, name: str, start: float, length: float) -> dict[str, Any]:
    return {"name": name, "ph": "X", "pid": process, "tid": thread, "ts": start, "dur": length}


def _named(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}


def _us(seconds: Scalar) -> float:
    """us, to the ns."""
    return round(float(seconds) * MICROSECONDS, 3)

"""A simulation as a trace that chrome://tracing and Perfetto open: steps, requests and counters over time."""

import heapq
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from jaxroof.batch import STATUSES
from sweeps.serving.run import Simulation, waiting
from sweeps.serving.trace_events import moment, named, span, written_events

ENGINE, REQUESTS = 1, 2
"""Processes of the trace: the engine with its counters, and the requests."""


def written(path: str | os.PathLike[str], simulation: Simulation, force: bool = False) -> None:
    """Write the trace of a simulation as `written_events` does."""
    written_events(path, events(simulation), {}, force)


def events(simulation: Simulation) -> Iterator[dict[str, Any]]:
    """Events of the trace, times in us from the start of the simulation."""
    place = f"{simulation.case.model.name} on {simulation.case.hardware.name}"
    yield named("process_name", ENGINE, 0, f"engine: {place}")
    yield named("thread_name", ENGINE, 1, "steps")
    yield named("process_name", REQUESTS, 0, f"requests: {simulation.replica.text}")
    yield from _engine(simulation)
    yield from _requests(simulation)


def _engine(simulation: Simulation) -> Iterator[dict[str, Any]]:
    """Steps as spans, and counters where they change; several equal decode steps are one span."""
    timeline, queue = simulation.timeline, waiting(simulation)
    shown: dict[str, object] = {}
    starts = simulation.start
    for i, steps in enumerate(timeline.steps.tolist()):
        prompt, decoding = int(timeline.prompt_tokens[i]), int(timeline.decoding[i])
        output = decoding if timeline.right is None else decoding + int(timeline.right[i])
        counters = {
            "requests": {"running": int(timeline.running[i]), "waiting": int(queue[i])},
            "tokens per step": {"prompt": prompt, "output": output},
            "KV cache (%)": {"in use": round(100.0 * float(timeline.blocks[i]) / simulation.blocks, 3)},
        }
        for name, values in counters.items():
            # A counter has an event only where its values change.
            if shown.get(name) != values:
                shown[name] = values
                yield {"name": name, "ph": "C", "pid": ENGINE, "tid": 0, "ts": moment(starts[i]), "args": values}
        if steps:
            kind = "prefill + decode" if prompt and decoding else "prefill" if prompt else "decode"
            yield {
                **span(ENGINE, 1, kind if steps == 1 else f"decode x {steps}", starts[i], timeline.end[i]),
                "args": {"steps": steps, "prompt tokens": prompt, "decoding sequences": decoding},
            }


def _requests(simulation: Simulation) -> Iterator[dict[str, Any]]:
    """Queueing, prefill and decode of every finished request as spans, in lanes in which none overlap."""
    served, stream = simulation.served, simulation.replica.stream
    done = np.flatnonzero(served.status == STATUSES.index("finished"))
    # In the order of arrival, so that lanes are given to requests as they come.
    done = done[np.argsort(served.arrival[done], kind="stable")]
    free: list[int] = []  # lanes without a request, the lowest first
    busy: list[tuple[float, int]] = []  # finish and lane of the others
    lanes = 0
    for i in done.tolist():
        times = [float(getattr(served, name)[i]) for name in ("arrival", "admitted", "first_token", "finish")]
        # Lanes of requests that have ended by now are free again.
        while busy and busy[0][0] <= times[0]:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if not free:
            lanes += 1
            yield named("thread_name", REQUESTS, lanes, f"lane {lanes}")
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
        # Three spans between four times in s; phases of no length are left out.
        for name, begin, end in zip(("queue", "prefill", "decode"), times[:-1], times[1:], strict=True):
            if end > begin:
                yield {**span(REQUESTS, lane, name, begin, end), "args": about}

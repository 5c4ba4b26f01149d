"""One engine step as a trace that Perfetto and chrome://tracing open: kernels, communication and the host over time."""

import itertools
import os
from collections.abc import Iterator
from typing import Any

from jaxroof.step.overlap import HIDDEN
from jaxroof.step.step import HOST
from sweeps.ask.cases import Case
from sweeps.run.answer import Answer, OpAnswer
from sweeps.serving.trace_events import named, span, us, written_events

PROCESS = 1
"""The process of the trace: one device of the deployment."""

TRACKS = {"kernels": 1, "collectives and copies": 2, "host": 3}
"""Tracks of the process, by what runs on them, and their threads."""


def written(path: str | os.PathLike[str], case: Case, answer: Answer, what: str = "", force: bool = False) -> None:
    """Write the trace of a step; the file appears when it is whole.

    Args:
      path: a .json.
      case: one step, or anything else with a step of the name `step`.
      answer: its answer.
      what: what the step works on, in words.
      force: replace a file that jaxroof did not write.

    Raises:
      ValueError: one line, for a file that must not or cannot be written: `hwspaces.files.output`.
    """
    hidden, name = hidden_time(answer), f"{case.model.name} on {case.hardware.name}{f': {what}' if what else ''}"
    about = {
        "step": name,
        "efficiency": case.efficiency.name,
        "step time (us)": us(answer.metrics["step_time"]),
        "hidden by overlap (us)": us(hidden),
        "slowdown by the limit of power": float(answer.metrics.get("slowdown", 1.0)),
    }
    written_events(path, events(name, answer), about, force)


def hidden_time(answer: Answer) -> float:
    """Time in s of a step that overlap hides, at the clock of the step; 0 without overlap."""
    return _slowdown(answer) * sum(-op.time for op in answer.steps["step"] if op.name == HIDDEN)


def events(name: str, answer: Answer) -> Iterator[dict[str, Any]]:
    """Events of the trace, times in us from the start of the step; durations add up to its `step_time`.

    Every op stands alone, one run after the other: those of a layer in order, then the next layer's, and the host last.
    Layers of different kinds follow each other by kind. Overlap is known as a sum only: communication is as long as
    the step waits for it, what is hidden being shared by length, and `args` have its whole time. A step that is slowed
    by the limit of power is so evenly.
    """
    yield named("process_name", PROCESS, 0, name)
    for track, thread in TRACKS.items():
        yield named("thread_name", PROCESS, thread, track)
    slowdown, ops = _slowdown(answer), [op for op in answer.steps["step"] if op.name != HIDDEN]
    communication = slowdown * sum(op.time for op in ops if _track(op) == "collectives and copies")
    # Overlap is one sum for the step: every message hides the same share of its time.
    hidden = hidden_time(answer) / communication if communication else 0.0
    end = 0.0
    for op, run in _runs(ops):
        track = _track(op)
        time = slowdown * op.time / _times(op)
        shown = time * (1.0 - hidden) if track == "collectives and copies" else time
        start, end = end, end + shown
        yield {**span(PROCESS, TRACKS[track], op.name, start, end), "args": _about(op, run, time, shown)}


def _runs(ops: list[OpAnswer]) -> Iterator[tuple[OpAnswer, int]]:
    """Ops in the order that they run, each with the number of its run: a layer's ops, then the next one's."""
    # Neighbouring ops of one kind of layer that run equally often repeat together, layer after layer.
    for (_, times), block in itertools.groupby(ops, key=lambda op: (op.layer, _times(op))):
        members = list(block)
        for run in range(times):
            yield from ((op, run) for op in members)


def _times(op: OpAnswer) -> int:
    """Spans of an op: its runs, a count that is not whole rounded, so that its time is shared by as many."""
    return max(1, round(op.count))


def _track(op: OpAnswer) -> str:
    if op.name == HOST:
        return "host"
    # A kernel has neither an algorithm, as collectives have, nor a message.
    return "kernels" if op.algorithm is None and not op.message_bytes else "collectives and copies"


def _about(op: OpAnswer, run: int, time: float, shown: float) -> dict[str, Any]:
    """What is known of one run: per run, in SI units but for the times."""
    if op.name == HOST:
        return {"bound by": op.bound}
    about: dict[str, Any] = {"bound by": op.bound, "run": f"{run + 1} of {_times(op)}"}
    if _track(op) == "kernels":
        about |= {"FLOP": op.flops / _times(op), "bytes": op.bytes / _times(op)}
        return about | ({} if op.precision is None else {"precision": op.precision})
    about |= {"message bytes": op.message_bytes / _times(op), "time (us)": us(time), "hidden (us)": us(time - shown)}
    return about | ({} if op.algorithm is None else {"algorithm": op.algorithm})


def _slowdown(answer: Answer) -> float:
    return float(answer.metrics.get("slowdown", 1.0))

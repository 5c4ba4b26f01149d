"""One training iteration as a trace that Perfetto and chrome://tracing open: passes of every stage over time."""

import itertools
import os
from collections.abc import Iterator
from typing import Any

from jaxroof.jobs import Scenario
from jaxroof.op import PARALLELISMS
from jaxroof.training.iteration import Iteration, iteration_cost
from sweeps.ask.cases import Case
from sweeps.run.answer import Answer
from sweeps.run.evaluate import at_base
from sweeps.serving.trace_events import moment, named, span, us, written_events
from sweeps.studies.export.pipeline import Pipeline, Placed, placed
from sweeps.studies.export.training_graph import iteration_pipeline

PASSES, BESIDE = 1, 2
"""Threads of a device: its passes, and messages that hide behind them."""

KINDS = {"F": "forward", "B": "backward", "I": "input gradients", "W": "weight gradients"}
"""Kind of task -> its name."""

TAIL = ("messages between copies of the weights", "kernels slowed by messages beside them", "optimizer")
"""What follows the passes on every device."""


def written(path: str | os.PathLike[str], case: Case, answer: Answer, what: str = "", force: bool = False) -> None:
    """Write the trace of a training iteration; the file appears when it is whole.

    Args:
      path: a .json.
      case: a training.
      answer: its answer.
      what: what it works on, in words.
      force: replace a file that jaxroof did not write.

    Raises:
      ValueError: one line, for a file that must not or cannot be written: `hwspaces.files.output`.
    """
    timeline = TrainingTimeline(case)
    about = {
        "iteration": f"{case.model.name} on {case.hardware.name}{f': {what}' if what else ''}",
        "efficiency": case.efficiency.name,
        "iteration time (us)": us(answer.metrics["iteration_time"]),
        "bubble (us)": us(answer.metrics["bubble_time"]),
        "schedule stretched by": round(timeline.stretch, 6),
        "slowdown by the limit of power": timeline.slowdown,
    }
    written_events(path, timeline.events(), about, force)


class TrainingTimeline:
    """Tasks of an iteration as long as its answer has them.

    Every device is as busy as the fullest one, as the answer has it. The schedule, task by task, is as long as the
    answer's closed form, but for messages of interleaved chunks, which do not hide while the pipeline fills and
    drains, and for DualPipe, whose closed form is within 5 %: there all tasks and gaps are stretched evenly.

    Attributes:
      stretch: of the schedule.
      slowdown: of everything, by the limit of power.
    """

    def __init__(self, case: Case):
        self._pipe: Pipeline = iteration_pipeline(case.scenario)
        cost: Iteration = at_base(_cost, case.scenario)
        self._cost = cost
        self.slowdown = float(cost.time / cost.unlimited)
        chunks = self._pipe.chunks
        weight = cost.weight_backward
        times = {"F": cost.forward, "B": cost.backward, "I": cost.backward - weight, "W": weight}
        durations = {kind: float(time) / chunks for kind, time in times.items()}
        tasks = list(placed(self._pipe, durations))
        length = max(task.end for task in tasks)
        # The closed form of the schedule's length: all passes of the fullest device, and the bubble.
        passes_time = float(cost.micro_batches * (cost.forward + cost.backward) + cost.bubble)
        # All tasks are stretched evenly to that length.
        self.stretch = passes_time / length
        self.tasks = [task._replace(start=self._scaled(task.start), end=self._scaled(task.end)) for task in tasks]
        self.passes = self.slowdown * passes_time

    def _scaled(self, time: float) -> float:
        return self.slowdown * self.stretch * time

    def events(self) -> Iterator[dict[str, Any]]:
        """Events of the trace, times in us from the start of the iteration; on each device they add up to its time."""
        # Processes are numbered from 1; sort_index keeps the devices in order.
        for device in range(len(self._pipe.lists)):
            yield named("process_name", device + 1, 0, f"pipeline device {device}")
            yield {"name": "process_sort_index", "ph": "M", "pid": device + 1, "tid": 0, "args": {"sort_index": device}}
            yield named("thread_name", device + 1, PASSES, "passes")
            yield named("thread_name", device + 1, BESIDE, "messages behind passes")
            own = [task for task in self.tasks if task.device == device]
            yield from self._passes(device, own)
            yield from self._beside(device, own)
        yield from self._flows()

    def _passes(self, device: int, tasks: list[Placed]) -> Iterator[dict[str, Any]]:
        """Tasks, idle time between them, and what follows."""
        cost, clock = self._cost, 0.0
        for task in tasks:
            yield from _idle(device, clock, task.start)
            kind, chunk, batch = task.task
            direction, stage = self._pipe.way(device, chunk)
            about: dict[str, Any] = {"micro-batch": batch, "stage": stage} | self._exposed(kind)
            about |= {"direction": "backwards"} if direction else {}
            yield {**_span(device, PASSES, f"{KINDS[kind]} {batch}", task.start, task.end), "args": about}
            clock = task.end
        yield from _idle(device, clock, self.passes)
        start = self.passes
        # What follows the schedule runs at the same time on all devices.
        for name, time in zip(TAIL, (cost.exposed["dp"], cost.contention, cost.optimizer), strict=True):
            end = start + self.slowdown * float(time)
            if end > start:
                yield _span(device, PASSES, name, start, end)
            start = end

    def _exposed(self, kind: str) -> dict[str, float]:
        """Time in us of a pass that kernels wait for messages, its share of those of all passes, by whom they join."""
        share = self._share(kind) * self.slowdown
        times = {name: us(share * float(self._cost.exposed[name])) for name in PARALLELISMS if name != "dp"}
        return {f"{name} messages waited for (us)": time for name, time in times.items() if time}

    def _share(self, kind: str) -> float:
        """Share of a task in the passes of all micro-batches, by time; weight gradients send nothing."""
        cost = self._cost
        # I sends what a whole backward pass sends.
        part = {"F": cost.forward, "W": 0.0}.get(kind, cost.backward)
        return float(part / (cost.forward + cost.backward) / cost.micro_batches / self._pipe.chunks)

    def _beside(self, device: int, tasks: list[Placed]) -> Iterator[dict[str, Any]]:
        """Messages that passes hide, one after the other from a pass' start; those of the last one until its end."""
        hidden, copies = self._cost.hidden, self._cost.copies_hidden
        forward = [task for task in tasks if task.task[0] == "F"]
        backward = [task for task in tasks if task.task[0] in "BW"]
        end = 0.0
        for task in tasks:
            share = self._share(task.task[0])
            times = {f"{name} messages": share * float(hidden[name]) for name in PARALLELISMS if name != "dp"}
            # Messages of weights hide behind every forward pass, or the first one alone; those of gradients likewise.
            if task.task[0] == "F":
                times["weights"] = float(copies["every forward"]) / len(forward)
                times["weights"] += float(copies["first forward"]) if task is forward[0] else 0.0
            if task.task[0] in "BW":
                times["gradients"] = float(copies["every backward"]) / len(backward)
                times["gradients"] += float(copies["last backward"]) if task is backward[-1] else 0.0
            length = self.slowdown * sum(times.values())
            # Messages of the last backward pass end with it, unless they are longer.
            start = max(end, task.start if task is not backward[-1] else min(task.start, task.end - length))
            for name, time in times.items():
                if time:
                    end = start + self.slowdown * time
                    yield _span(device, BESIDE, name, start, end)
                    start = end

    def _flows(self) -> Iterator[dict[str, Any]]:
        """Arrows from a stage's pass to the one of the next stage that waits for it."""
        producers = {self._pipe.makes(task.task, task.device): task for task in self.tasks}
        numbers = itertools.count(1)
        for task in self.tasks:
            for need in self._pipe.needs(task.task, task.device):
                source = producers[need]
                if source.device == task.device:
                    continue
                number = next(numbers)
                # In the Trace Event Format, "bp": "e" binds the end of a flow to the span that encloses it.
                yield _arrow(number, "s", source.device, source.end - NEAR * (source.end - source.start))
                yield _arrow(number, "f", task.device, task.start + NEAR * (task.end - task.start)) | {"bp": "e"}


NEAR = 1e-3
"""Share of a pass by which the end of an arrow is inside of it, so that it belongs to that one alone."""


def _cost(scenario: Scenario) -> Iteration:
    return iteration_cost(
        scenario.hardware, scenario.model, scenario.deployment, scenario.workload, scenario.efficiency
    )


def _idle(device: int, start: float, end: float) -> Iterator[dict[str, Any]]:
    """A span of a device that waits for others, where it is at least a tick."""
    if moment(end) > moment(start):
        yield _span(device, PASSES, "idle", start, end)


def _span(device: int, thread: int, name: str, start: float, end: float) -> dict[str, Any]:
    return span(device + 1, thread, name, start, end)


def _arrow(number: int, end: str, device: int, time: float) -> dict[str, Any]:
    """One end of an arrow between stages: `s`, where it starts, or `f`."""
    place = {"ts": moment(time), "pid": device + 1, "tid": PASSES}
    return {"name": "stage", "cat": "stage", "id": number, "ph": end, **place}

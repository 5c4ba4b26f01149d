"""Graphs of a training iteration: passes of every micro-batch on every stage, messages between, and the update."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from jaxroof.deployment import degree
from jaxroof.jobs import Scenario
from jaxroof.op import ATTENTION_CORES, Ops
from jaxroof.step.forward import as_run
from jaxroof.training.iteration import stage_messages
from jaxroof.training.passes import backward_pass, forward_pass
from jaxroof.training.schedules import SCHEDULES
from jaxroof.training.state import data_parallel_ops, offload_time, optimizer_op
from jaxroof.training.training import RECOMPUTES, micro_batches
from sweeps.run.evaluate import at_base
from sweeps.studies.export.graph import ExportGraph, layer_runs, stage_layers
from sweeps.studies.export.pipeline import Pipeline, Placed, Task, pipeline, placed
from sweeps.studies.export.runs import OpRun, named

After = tuple[int, ...]
"""Nodes that a run waits for."""

ANY_TIMES = {"F": 1.0, "B": 2.0, "I": 1.0, "W": 1.0}
"""Times by kind of task that bring tasks into an order in which they can run."""


def iteration_pipeline(scenario: Scenario) -> Pipeline:
    """The pipeline of a training's schedule."""
    training, deployment = scenario.workload, scenario.deployment
    return pipeline(
        SCHEDULES[round(float(training.schedule))],
        round(float(degree(deployment.pp))),
        round(float(training.virtual_stages)),
        round(float(micro_batches(training, deployment))),
    )


class TrainingGraphs:
    """Runs of every task of an iteration's pipeline, and their graphs.

    A device works through its tasks in the order of the schedule. Messages to a stage are awaited when the task before
    is done, those from it delay nothing on the device. Messages between copies of the weights start and end where the
    share of a pass that hides them does.
    """

    def __init__(self, scenario: Scenario):
        self._training, self._pipe = scenario.workload, iteration_pipeline(scenario)
        self._found = named(scenario, _groups)
        self._offload = float(at_base(_offload, scenario))  # s that the update takes longer
        self._sends = self._group("sends")  # a message to the next stage, and what its receivers gather
        self._runs = list(self._stages(scenario))

    def _stages(self, scenario: Scenario) -> Iterator[dict[str, list[OpRun]]]:
        """Runs of a task of every stage by its kind."""
        stages = self._pipe.stages
        # Runs of every layer: forward, backward, and the attention kernels of the forward pass.
        forward, backward, cores = (layer_runs(scenario, self._found[f"{word}_layers"]) for word in _PASSES)
        repeated: dict[str, list[list[OpRun]]] = {"none": [[]] * len(forward), "selective": cores, "full": forward}
        # What each layer's backward pass runs again of its forward pass.
        again = repeated[RECOMPUTES[round(float(self._training.recompute))]]
        for stage, layers in enumerate(stage_layers(scenario.deployment, len(forward), stages)):
            there = [run for layer in layers for run in forward[layer]]
            # The backward pass goes through the layers in reverse, and repeats what was not kept of each.
            back = [run for layer in reversed(layers) for run in (*again[layer], *backward[layer])]
            if stage == 0:
                there, back = self._group("forward_first") + there, back + self._group("backward_first")
            if stage == stages - 1:
                there, back = there + self._group("forward_last"), self._group("backward_last") + back
            # A split backward pass: W has the weight gradients, I all other runs.
            inputs = [run for run in back if run.gradient != "weights"]
            weights = [run for run in back if run.gradient == "weights"]
            yield {"F": there, "B": back, "I": inputs, "W": weights}

    def _group(self, name: str) -> list[OpRun]:
        """Runs of the ops of a group outside of the layers."""
        return [run for op in self._found[name] for run in op.runs(1.0)]

    def _task_runs(self, task: Task, device: int) -> list[OpRun]:
        kind, chunk, _ = task
        _, stage = self._pipe.way(device, chunk)
        return self._runs[stage][kind]

    @property
    def nodes(self) -> int:
        """Runs of all tasks of all devices of the pipeline."""
        devices = range(len(self._pipe.lists))
        return sum(len(self._task_runs(task, device)) for device in devices for task in self._pipe.tasks(device))

    def graphs(self, slowdown: float) -> list[ExportGraph]:
        """Graphs of one iteration, one per device of the pipeline.

        Args:
          slowdown: by the limit of power, of every run.
        """
        devices = [_Device(ExportGraph(slowdown)) for _ in self._pipe.lists]
        # The last task of every device that makes weight gradients.
        lasts = [[task for task in self._pipe.tasks(device) if task[0] in "BW"][-1] for device in range(len(devices))]
        sent: dict[tuple[Any, ...], tuple[float, int]] = {}  # message -> when it starts, and its tag
        # Only the order of tasks is taken from these times; starts are of the devices' clocks.
        for each in placed(self._pipe, ANY_TIMES):
            device = devices[each.device]
            # Some messages between copies of the weights occur once, at the first or the last task of a device.
            once = "first" if device.entry < 0 else "last" if each.task == lasts[each.device] else ""
            if device.entry != each.number:
                device.entry, device.before, device.tail = each.number, device.tail, ()
            device.tail = tuple(dict.fromkeys(device.tail + self._task(each, device, sent, once)))
        # The update follows the last task; offloaded state makes it longer.
        for device in devices:
            for op in self._found["optimizer"]:
                device.graph.add(op.run._replace(time=op.run.time + self._offload), device.tail)
        return [device.graph for device in devices]

    def _task(
        self, each: Placed, device: "_Device", sent: dict[tuple[Any, ...], tuple[float, int]], once: str
    ) -> After:
        """Append the runs of a task with its messages; what the next task waits for."""
        (kind, chunk, batch), graph, tail = each.task, device.graph, device.before
        direction, stage = self._pipe.way(each.device, chunk)
        forth = kind == "F"
        source, target = (stage - 1, stage + 1) if forth else (stage + 1, stage - 1)
        stages = range(self._pipe.stages) if kind != "W" else ()
        if source in stages:
            start, tag = sent[forth, direction, stage, batch]
            # The device is idle until the message begins.
            graph.clock = max(graph.clock, start)
            partner = self._pipe.device(direction, source)
            for run in self._sends:
                if run.operation == "send_recv":
                    tail = graph.add(run._replace(kind="receive"), tail, None, partner, tag)
                else:
                    tail = graph.add(run, tail)
        tail = self._passes(device, self._task_runs(each.task, each.device), tail, *self._replicas(kind, once))
        # The message starts when the passes end, and the device goes on without waiting for it.
        if target in stages:
            tag = len(sent)
            sent[forth, direction, target, batch] = graph.clock, tag
            graph.add(
                self._sends[0]._replace(kind="send"), tail, graph.clock, self._pipe.device(direction, target), tag
            )
        return tail

    def _passes(
        self, device: "_Device", runs: list[OpRun], before: After, gathers: list[OpRun], sums: list[OpRun]
    ) -> After:
        """Append a task's runs with the messages between copies of the weights that hide behind it: gathers of weights
        and sums of gradients.
        """
        # Gathers hide behind the first `share` of the task's time, sums of gradients behind the last.
        total, share, done = sum(run.time for run in runs), float(self._training.overlap), 0.0
        gathered: After = ()
        for run in gathers:
            gathered = device.message(run, gathered or before)
        tail, summed = before, before if share == 1.0 else ()
        for run in runs:
            waits = tail
            # From this time on, runs need the gathered weights.
            if gathered and done >= share * total:
                waits, gathered = (*tail, *gathered), ()
            tail = device.graph.add(run, waits)
            done += run.time
            if not summed and done >= (1.0 - share) * total:
                summed = tail
        last: After = ()
        for run in sums:
            last = device.message(run, last or summed or tail)
        return (*tail, *gathered, *last)

    def _replicas(self, kind: str, once: str) -> tuple[list[OpRun], list[OpRun]]:
        """Messages between copies of the weights beside a task: gathers of weights, and sums of gradients."""
        zero, part = round(float(self._training.zero)), 1.0 / self._pipe.chunks
        gathers, sums = 0.0, 0.0  # share of the messages of all chunks
        # ZeRO (arXiv:1910.02054), stage 3: weights are gathered in every pass that uses them.
        if zero == 3 and kind in "FBI":
            gathers = part
        # Stages 1 and 2 gather the updated weights once per iteration.
        elif zero in (1, 2) and once == "first":
            gathers = 1.0
        # Stages 2 and 3 sum gradients in every backward pass, stages 0 and 1 once after the last one.
        if zero >= 2 and kind in "BW":
            sums = part
        elif zero < 2 and once == "last":
            sums = 1.0
        return self._parts("all_gather", gathers), self._parts("reduce_scatter" if zero else "all_reduce", sums)

    def _parts(self, kind: str, part: float) -> list[OpRun]:
        runs = self._group(f"dp_{kind}") if part else []
        return [run._replace(time=part * run.time, message=part * run.message) for run in runs]


@dataclasses.dataclass
class _Device:
    """A device of the pipeline: its graph so far, and what goes on from it."""

    graph: ExportGraph
    entry: int = -1  # number of its last entry
    before: After = ()  # what the tasks of that entry wait for
    tail: After = ()  # what the next entry waits for
    sent: After = ()  # the last message between copies of the weights

    def message(self, run: OpRun, after: After) -> After:
        """Append a message between copies of the weights: all ranks send theirs in one order, beside the passes."""
        self.sent = self.graph.add(run, (*after, *self.sent), self.graph.clock)
        return self.sent


_PASSES = ("forward", "backward", "attention")


def _groups(scenario: Scenario) -> dict[str, Ops]:
    """Ops of both passes by place, of the update, and of messages."""
    model = as_run(scenario.model, scenario.hardware)
    deployment, training = scenario.deployment, scenario.workload
    forward = forward_pass(model, deployment, training)
    backward = backward_pass(forward, training)
    groups = {
        f"{word}_{place}": ops
        for word, each in (("forward", forward), ("backward", backward))
        for place, ops in each._asdict().items()
    }
    groups["attention_layers"] = {name: op for name, op in forward.layers.items() if op.role in ATTENTION_CORES}
    groups["optimizer"] = {"optimizer": optimizer_op(model, deployment, training)}
    for kind, ops in data_parallel_ops(model, deployment, training).items():
        groups[f"dp_{kind}"] = ops
    groups["sends"] = {} if deployment.pp is None else stage_messages(model, deployment, training)
    return groups


def _offload(scenario: Scenario) -> object:
    return offload_time(scenario.model, scenario.deployment, scenario.workload)

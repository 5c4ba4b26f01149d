"""Graphs of a training iteration: passes of every micro-batch on every stage, messages between, and the update."""

from jaxroof.deployment import degree
from jaxroof.jobs import Scenario
from jaxroof.op import ATTENTION_CORES, Ops
from jaxroof.training.iteration import stage_messages
from jaxroof.training.passes import backward_pass, forward_pass
from jaxroof.training.schedules import SCHEDULES
from jaxroof.training.state import data_parallel_ops, offload_time, optimizer_op
from jaxroof.training.training import RECOMPUTES, micro_batches
from sweeps.run.evaluate import at_base
from sweeps.studies.exports.graph import Graph, Layers, layer_share
from sweeps.studies.exports.pipeline import Pipeline, Placed, Task, pipeline, placed, tasks_of
from sweeps.studies.exports.runs import Run, named

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


class Tasks:
    """Runs of every task of an iteration's pipeline.

    Attributes:
      training: the workload.
      pipe: the pipeline.
      found: ops of the iteration by group.
      offload: s that the update takes longer for states in host memory.
    """

    def __init__(self, scenario: Scenario):
        self.training, self.pipe = scenario.workload, iteration_pipeline(scenario)
        self.found = named(scenario, _groups)
        self.offload = float(at_base(_offload, scenario))
        stages, deployment = self.pipe.stages, scenario.deployment
        forward, backward, cores = (Layers(scenario, self.found[f"{word}_layers"]) for word in _PASSES)
        again = {"none": None, "selective": cores, "full": forward}[RECOMPUTES[round(float(self.training.recompute))]]
        first, self._runs = 0, []
        for stage, share in enumerate(layer_share(deployment, forward.number, stages)):
            layers = range(first, first + share)
            first += share
            begins, ends = stage == 0, stage == stages - 1
            there = [run for layer in layers for run in forward.runs(layer)]
            repeated = {layer: [] if again is None else again.runs(layer) for layer in layers}
            back = [run for layer in reversed(layers) for run in (*repeated[layer], *backward.runs(layer))]
            there = self._ends("forward_first", begins) + there + self._ends("forward_last", ends)
            back = self._ends("backward_last", ends) + back + self._ends("backward_first", begins)
            inputs = [run for run in back if run.gradient != "weights"]
            weights = [run for run in back if run.gradient == "weights"]
            self._runs.append({"F": there, "B": back, "I": inputs, "W": weights})

    def _ends(self, group: str, there: bool) -> list[Run]:
        return [run for op in self.found[group] for run in op.runs(1.0)] if there else []

    def runs(self, task: Task, device: int) -> list[Run]:
        """Runs of a task on a device of the pipeline."""
        kind, chunk, _ = task
        return self._runs[self.pipe.way(device, chunk)[1]][kind]

    @property
    def nodes(self) -> int:
        """Runs of all tasks of all devices of the pipeline."""
        return sum(
            len(self.runs(task, device))
            for device, entries in enumerate(self.pipe.lists)
            for entry in entries
            for task in tasks_of(entry)
        )


def training_graphs(tasks: Tasks, slowdown: float) -> list[Graph]:
    """Graphs of one iteration, one per device of the pipeline.

    A device works through its tasks in the order of the schedule. Messages to a stage are awaited when the task before
    is done, those from it delay nothing on the device. Messages between copies of the weights start and end where the
    share of a pass that hides them does.

    Args:
      slowdown: by the limit of power, of every run.
    """
    return _Iteration(tasks, slowdown).graphs()


class _Iteration:
    def __init__(self, tasks: Tasks, slowdown: float):
        self._tasks, self._slowdown = tasks, slowdown
        self._training, self._pipe, self._found = tasks.training, tasks.pipe, tasks.found
        parts = [run for op in self._found["sends"] for run in op.runs(1.0)]
        self._sends = [run._replace(kind="send") if run.operation == "send_recv" else run for run in parts]
        self._graphs = [Graph() for _ in self._pipe.lists]
        self._tails: list[tuple[int, ...]] = [()] * len(self._graphs)
        self._messaged: list[tuple[int, ...]] = [()] * len(self._graphs)  # the last message between copies of weights
        self._clocks = [0.0] * len(self._graphs)

    def graphs(self) -> list[Graph]:
        """All graphs."""
        lasts = self._lasts()
        entries: dict[int, tuple[int, tuple[int, ...]]] = {}  # device -> number of its entry and what that waits for
        sent: dict[tuple, tuple[float, int]] = {}  # message -> when it starts, and its tag
        seen: set[int] = set()
        for each in placed(self._pipe, ANY_TIMES):
            device = each.device
            if entries.get(device, (-1, ()))[0] != each.number:
                entries[device], self._tails[device] = (each.number, self._tails[device]), ()
            once = "first" if device not in seen else "last" if each.task == lasts[device] else ""
            seen.add(device)
            tail = self._task(each, entries[device][1], sent, once)
            self._tails[device] = tuple(dict.fromkeys(self._tails[device] + tail))
        for device, graph in enumerate(self._graphs):
            for op in self._found["optimizer"]:
                time = op.run.time + self._tasks.offload
                self._add(device, graph, op.run._replace(time=time), self._tails[device])
        return self._graphs

    def _lasts(self) -> dict[int, tuple]:
        """The last task of every device that makes gradients of weights."""
        return {each.device: each.task for each in placed(self._pipe, ANY_TIMES) if each.task[0] in "BW"}

    def _task(
        self, each: Placed, before: tuple[int, ...], sent: dict[tuple, tuple[float, int]], once: str
    ) -> tuple[int, ...]:
        """Append the runs of a task with its messages; what the next task waits for."""
        (kind, chunk, batch), device = each.task, each.device
        pipe, graph = self._pipe, self._graphs[device]
        direction, stage = pipe.way(device, chunk)
        runs, forth = self._tasks.runs(each.task, device), kind == "F"
        step = 1 if forth else -1
        tail = before
        if kind != "W" and 0 <= stage - step < pipe.stages:
            start, tag = sent[forth, direction, stage, batch]
            self._clocks[device] = max(self._clocks[device], start)
            for run in self._sends:
                message = run.kind == "send"
                run = run._replace(kind="receive") if message else run
                partner = pipe.device(direction, stage - step) if message else None
                tail = self._add(device, graph, run, tail, partner, tag)
        tail = self._passes(device, graph, runs, tail, self._replicas(kind, once))
        if kind != "W" and 0 <= stage + step < pipe.stages:
            key = forth, direction, stage + step, batch
            tag = len(sent)
            sent[key] = self._clocks[device], tag
            for run in self._sends[:1]:
                partner = pipe.device(direction, stage + step)
                graph.add(self._slower(run), tail, self._clocks[device], partner, tag)
        return tail

    def _passes(
        self, device: int, graph: Graph, runs: list[Run], before: tuple[int, ...], beside: dict[str, list[Run]]
    ) -> tuple[int, ...]:
        """Append a task's runs with the messages between copies of the weights that hide behind it."""
        total, share, done = sum(run.time for run in runs), float(self._training.overlap), 0.0
        gathered: tuple[int, ...] = ()
        for run in beside.get("gather", ()):
            gathered = self._replica(device, graph, run, gathered or before)
        tail, scattered = before, before if share == 1.0 else ()
        for run in runs:
            waits = tail
            if gathered and done >= share * total:
                waits, gathered = (*tail, *gathered), ()
            tail = self._add(device, graph, run, waits)
            done += run.time
            if not scattered and done >= (1.0 - share) * total:
                scattered = tail
        last: tuple[int, ...] = ()
        for run in beside.get("scatter", ()):
            last = self._replica(device, graph, run, last or scattered or tail)
        return (*tail, *gathered, *last)

    def _replica(self, device: int, graph: Graph, run: Run, after: tuple[int, ...]) -> tuple[int, ...]:
        """Append a message between copies of the weights: all ranks send theirs in one order, beside the passes."""
        found = graph.add(self._slower(run), (*after, *self._messaged[device]), self._clocks[device])
        self._messaged[device] = found
        return found

    def _replicas(self, kind: str, once: str) -> dict[str, list[Run]]:
        """Messages between copies of the weights beside a task: weights that are gathered, gradients that are sent."""
        zero, found = round(float(self._training.zero)), {}
        part = 1.0 / self._pipe.chunks
        if kind in "FBI" and zero == 3:
            found["gather"] = self._messages("all_gather", part)
        elif once == "first" and zero in (1, 2):
            found["gather"] = self._messages("all_gather", 1.0)
        if kind in "BW" and zero >= 2:
            found["scatter"] = self._messages("reduce_scatter", part)
        elif once == "last" and zero < 2:
            found["scatter"] = self._messages("reduce_scatter" if zero else "all_reduce", 1.0)
        return found

    def _messages(self, kind: str, part: float) -> list[Run]:
        return [
            run._replace(time=part * run.time, message=part * run.message)
            for op in self._found[f"dp_{kind}"]
            for run in op.runs(1.0)
        ]

    def _slower(self, run: Run) -> Run:
        return run._replace(time=self._slowdown * run.time)

    def _add(
        self,
        device: int,
        graph: Graph,
        run: Run,
        after: tuple[int, ...],
        partner: int | None = None,
        tag: int = 0,
    ) -> tuple[int, ...]:
        """Append a run at the device's clock, which goes on."""
        run = self._slower(run)
        found = graph.add(run, after, self._clocks[device], partner, tag)
        self._clocks[device] += run.time
        return found


_PASSES = ("forward", "backward", "attention")


def _groups(scenario: Scenario) -> dict[str, Ops]:
    """Ops of both passes by place, of the update, and of messages."""
    model, deployment, training = scenario.model, scenario.deployment, scenario.workload
    forward = forward_pass(model, deployment, training)
    backward = backward_pass(forward, training)
    found = {
        f"{word}_{place}": ops
        for word, each in (("forward", forward), ("backward", backward))
        for place, ops in each._asdict().items()
    }
    found["attention_layers"] = {name: op for name, op in forward.layers.items() if op.role in ATTENTION_CORES}
    found["optimizer"] = {"optimizer": optimizer_op(model, deployment, training)}
    for kind, ops in data_parallel_ops(model, deployment, training).items():
        found[f"dp_{kind}"] = ops
    found["sends"] = {} if deployment.pp is None else stage_messages(model, deployment, training)
    return found


def _offload(scenario: Scenario) -> object:
    return offload_time(scenario.model, scenario.deployment, scenario.workload)

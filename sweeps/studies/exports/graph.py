"""Graphs of runs: what every device of a pipeline does in a step, and what each run waits for."""

from collections.abc import Iterable
from typing import NamedTuple

from jaxroof.deployment import Deployment, degree, stage_devices
from jaxroof.forward import device_tokens, group_batch, layer_ops, stage_tokens
from jaxroof.jobs import Scenario, job_of
from jaxroof.jobs.job import Job
from jaxroof.op import Ops
from jaxroof.overlap import overlapped_ops
from jaxroof.step import HOST, host_time
from sweeps.run.evaluate import at_base
from sweeps.studies.exports.runs import Named, Run, named


class Node(NamedTuple):
    """One run on one device, and the nodes of that device that it waits for, by their places."""

    run: Run
    after: tuple[int, ...]
    start: float  # s
    partner: int | None = None  # of a message between stages: the device of the pipeline at its other end
    tag: int = 0  # of a message, the same at both ends


class Graph:
    """Nodes of one device of a pipeline, in an order in which they can run."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def add(
        self, run: Run, after: Iterable[int], start: float = 0.0, partner: int | None = None, tag: int = 0
    ) -> tuple[int, ...]:
        """Append a node; a ring's message is a send and a receive. Returns what waits for it has to wait for."""
        after = tuple(dict.fromkeys(after))
        if run.operation != "send_recv" or run.kind != "collective":
            self.nodes.append(Node(run, after, start, partner, tag))
            return (len(self.nodes) - 1,)
        tag = len(self.nodes)
        self.nodes += [Node(run._replace(kind=kind), after, start, None, tag) for kind in ("send", "receive")]
        return tag, tag + 1


def layer_share(deployment: Deployment, layers: int, stages: int) -> list[int]:
    """Layers of every stage: those that were given, or even ones, the first with one more where they do not divide."""
    given = deployment.stages
    if given is not None and len(given) == stages:
        return [round(float(number)) for number in given]
    return [layers // stages + (stage < layers % stages) for stage in range(stages)]


class Layers:
    """Runs of the layers of a model, those of one block after those of another as they are priced; in `halves` halves
    of a batch, of one half.
    """

    def __init__(self, scenario: Scenario, ops: list[Named], halves: int = 1):
        blocks = scenario.model.blocks
        self._counts = [round(float(block.count)) for block in blocks]
        self._blocks: list[list[Run]] = []
        for index, count in enumerate(self._counts):
            prefix = f"{index}." if len(blocks) > 1 else ""
            own = [op for op in ops if op.layer.startswith(prefix)]
            self._blocks.append([run for op in own for run in op.runs(count * halves)])

    @property
    def number(self) -> int:
        """Layers."""
        return sum(self._counts)

    def runs(self, layer: int) -> list[Run]:
        """Runs of one layer."""
        for count, runs in zip(self._counts, self._blocks, strict=True):
            if layer < count:
                return runs
            layer -= count
        raise IndexError(layer)


def step_graphs(scenario: Scenario, slowdown: float) -> list[Graph]:
    """Graphs of one engine step, one per pipeline stage: its layers one after the other, those before them on the
    first stage, those after them, and the host, on the last. The halves of a batch that overlap do not wait for each
    other.

    Args:
      slowdown: by the limit of power, of every run.

    Raises:
      ValueError: one line, for a draft model on pipeline stages.
    """
    job = job_of(scenario)
    found = named(scenario, lambda scenario: _step_groups(job, scenario))
    deployment = scenario.deployment
    stages, halves = round(float(degree(deployment.pp))), 2 if deployment.overlap == "two_batch" else 1
    layers = Layers(scenario, found["layers"], halves)
    sends = [op for op in [*found["before"], *found["after"]] if op.run.role == "stage"]
    if len(sends) > 1:
        raise ValueError("a draft model on pipeline stages has no graph: give no --pp, or no drafts")
    messages = [run for op in sends for run in op.runs(halves * (stages - 1))]
    ends = {
        name: [run for op in found[name] if op not in sends for run in op.runs(halves)] for name in ("before", "after")
    }
    clock, layer, graphs = 0.0, 0, [Graph() for _ in range(stages)]
    arrived: list[float] = []  # when the messages to a stage begin, by half
    for stage, share in enumerate(layer_share(deployment, layers.number, stages)):
        graph = graphs[stage]
        tails: list[tuple[int, ...]] = [()] * halves
        for half, start in enumerate(arrived):
            for run in messages:
                tails[half] = graph.add(_slower(run, slowdown, "receive"), tails[half], start, stage - 1, half)
        parts = [layers.runs(place) for place in range(layer, layer + share)]
        parts = ([ends["before"]] if stage == 0 else []) + parts + ([ends["after"]] if stage == stages - 1 else [])
        layer += share
        message: tuple[int, ...] = ()  # the last one of either half: all ranks send theirs in one order
        for part in (piece for each in parts for piece in _pieces(each, halves)):
            for half in range(halves):
                for run in part:
                    waits = tails[half] if run.kind != "collective" or halves == 1 else tails[half] + message
                    tails[half] = graph.add(_slower(run, slowdown), waits, clock)
                    message = tails[half] if run.kind == "collective" else message
                    clock += slowdown * run.time
        arrived = []
        for half in range(halves if stage < stages - 1 else 0):
            arrived.append(clock)
            for run in messages:
                graph.add(_slower(run, slowdown, "send"), tails[half], clock, stage + 1, half)
                clock += slowdown * run.time
    time = float(at_base(_host, scenario))
    if time:
        graphs[-1].add(Run(HOST, "host", slowdown * time), [end for tail in tails for end in tail], clock)
    return graphs


def _pieces(runs: list[Run], halves: int) -> list[list[Run]]:
    """Runs up to each message: those of one half stand between those of the other."""
    pieces: list[list[Run]] = [[]]
    for run in runs:
        pieces[-1].append(run)
        if run.kind == "collective" and halves > 1:
            pieces.append([])
    return pieces


def _slower(run: Run, slowdown: float, kind: str = "") -> Run:
    return run._replace(time=slowdown * run.time, kind=kind or run.kind)


def _host(scenario: Scenario) -> object:
    (_, batch), *_ = job_of(scenario).steps(scenario).values()
    return host_time(batch, scenario.deployment, scenario.efficiency)


def _step_groups(job: Job, scenario: Scenario) -> dict[str, Ops]:
    """Ops of the step before the layers, of the layers, and after them."""
    (place, batch), *_ = job.steps(scenario).values()
    model, deployment = place.model, place.deployment
    ops = overlapped_ops(model, deployment, batch)
    local = group_batch(batch, deployment)
    names = layer_ops(model, deployment, local, device_tokens(local, deployment), stage_tokens(batch, deployment))
    places = [place for place, name in enumerate(ops) if name in names]
    listed = list(ops.items())
    first, last = places[0], places[-1]
    return {
        "before": dict(listed[:first]),
        "layers": {name: op for name, op in listed[first : last + 1] if name in names},
        "after": dict(listed[last + 1 :]),
    }


def ranks_of_stage(deployment: Deployment) -> int:
    """Devices that share one stage."""
    return round(float(stage_devices(deployment)))

"""Graphs of runs: what every device of a pipeline does in a step, and what each run waits for."""

import itertools
from collections.abc import Iterable
from typing import NamedTuple

from jaxroof.deployment import Deployment, degree
from jaxroof.jobs import Scenario
from jaxroof.jobs.step import step_batch
from jaxroof.op import Ops
from jaxroof.step.placed import device_ops
from jaxroof.step.step import HOST, host_time
from sweeps.run.evaluate import at_base
from sweeps.studies.export.runs import Named, OpRun, decoder_ops, named


class ExportNode(NamedTuple):
    """One run on one device, and the nodes of that device that it waits for, by their places."""

    run: OpRun
    after: tuple[int, ...]
    start: float  # s
    partner: int | None = None  # of a message between stages: the device of the pipeline at its other end
    tag: int = 0  # of a message, the same at both ends


class ExportGraph:
    """Nodes of one device of a pipeline, in an order in which they can run.

    Attributes:
      nodes: in that order.
      slowdown: by the limit of power, of every run.
      clock: s at which the device is done with its runs.
    """

    def __init__(self, slowdown: float, clock: float = 0.0) -> None:
        self.nodes: list[ExportNode] = []
        self.slowdown, self.clock = slowdown, clock

    def add(
        self, run: OpRun, after: Iterable[int], start: float | None = None, partner: int | None = None, tag: int = 0
    ) -> tuple[int, ...]:
        """Append a node; a ring's message is a send and a receive. Returns what waits for it has to wait for.

        Args:
          start: s, of what runs beside the others; None: at the device's clock, which goes on.
        """
        run, after = run._replace(time=self.slowdown * run.time), tuple(dict.fromkeys(after))
        if start is None:
            start = self.clock
            self.clock += run.time
        if run.operation != "send_recv" or run.kind != "collective":
            self.nodes.append(ExportNode(run, after, start, partner, tag))
            return (len(self.nodes) - 1,)
        # In a ring every rank sends and receives at the same time: two nodes with one tag.
        tag = len(self.nodes)
        self.nodes += [ExportNode(run._replace(kind=kind), after, start, None, tag) for kind in ("send", "receive")]
        return tag, tag + 1


def stage_layers(deployment: Deployment, layers: int, stages: int) -> list[range]:
    """Places of the layers of every stage: as many as were given, or even shares, the first stages with one more where
    they do not divide.
    """
    given = deployment.stages
    shares = [layers // stages + (stage < layers % stages) for stage in range(stages)]
    if given is not None and len(given) == stages:
        shares = [round(float(number)) for number in given]
    # A stage ends where the shares up to it add up to.
    return [range(end - share, end) for share, end in zip(shares, itertools.accumulate(shares), strict=True)]


def layer_runs(scenario: Scenario, ops: list[Named], halves: int = 1) -> list[list[OpRun]]:
    """Runs of every layer of a model, those of one block after those of another as they are priced; in `halves` halves
    of a batch, of one half.
    """
    blocks, per_layer = scenario.model.blocks, []
    for index, block in enumerate(blocks):
        # Ops of a model with several blocks have layers that begin with the block's number.
        count, prefix = round(float(block.count)), f"{index}." if len(blocks) > 1 else ""
        runs = [run for op in ops if op.layer.startswith(prefix) for run in op.runs(count * halves)]
        per_layer += [runs] * count
    return per_layer


def step_graphs(scenario: Scenario, slowdown: float) -> list[ExportGraph]:
    """Graphs of one engine step, one per pipeline stage: its layers one after the other, those before them on the
    first stage, those after them, and the host, on the last. The halves of a batch that overlap do not wait for each
    other.

    Args:
      slowdown: by the limit of power, of every run.

    Raises:
      ValueError: one line, for a draft model on pipeline stages.
    """
    groups = named(scenario, _step_groups)
    deployment = scenario.deployment
    stages, halves = round(float(degree(deployment.pp))), 2 if deployment.overlap == "two_batch" else 1
    layers = layer_runs(scenario, groups["layers"], halves)
    # Messages between stages are ops outside of the layers.
    sends = [op for op in [*groups["before"], *groups["after"]] if op.run.role == "stage"]
    if len(sends) > 1:
        raise ValueError("a draft model on pipeline stages has no graph: give no --pp, or no drafts")
    # The ops count the messages of all stages: one half of the batch on one stage has this share.
    messages = [run for op in sends for run in op.runs(halves * (stages - 1))]
    before, after = (
        [run for op in groups[name] if op not in sends for run in op.runs(halves)] for name in ("before", "after")
    )
    clock, graphs = 0.0, []
    arrived: list[float] = []  # when the messages to a stage begin, by half
    for stage, places in enumerate(stage_layers(deployment, len(layers), stages)):
        graph = ExportGraph(slowdown, clock)
        graphs.append(graph)
        # Nodes at the end of each half, for which its next node waits.
        tails: list[tuple[int, ...]] = [()] * halves
        # A receive begins when the stage before sends; it does not advance the clock of this device.
        for half, start in enumerate(arrived):
            for run in messages:
                tails[half] = graph.add(run._replace(kind="receive"), tails[half], start, stage - 1, half)
        parts = [layers[place] for place in places]
        parts = ([before] if stage == 0 else []) + parts + ([after] if stage == stages - 1 else [])
        message: tuple[int, ...] = ()  # the last one of either half: all ranks send theirs in one order
        # Pieces of both halves alternate: one half computes while the collective of the other runs.
        for part in (piece for each in parts for piece in _pieces(each, halves)):
            for half in range(halves):
                for run in part:
                    # All ranks run the collectives of both halves in one order: else they would wait for each other.
                    waits = tails[half] if run.kind != "collective" or halves == 1 else tails[half] + message
                    tails[half] = graph.add(run, waits)
                    message = tails[half] if run.kind == "collective" else message
        arrived = []
        for half in range(halves if stage < stages - 1 else 0):
            arrived.append(graph.clock)
            for run in messages:
                graph.add(run._replace(kind="send"), tails[half], None, stage + 1, half)
        clock = graph.clock
    # The host's work follows all ends of the last stage.
    time = float(at_base(_host, scenario))
    if time:
        graphs[-1].add(OpRun(HOST, "host", time), [end for tail in tails for end in tail])
    return graphs


def _pieces(runs: list[OpRun], halves: int) -> list[list[OpRun]]:
    """Runs up to each message: those of one half stand between those of the other."""
    pieces: list[list[OpRun]] = [[]]
    for run in runs:
        pieces[-1].append(run)
        if run.kind == "collective" and halves > 1:
            pieces.append([])
    return pieces


def _host(scenario: Scenario) -> object:
    return host_time(
        scenario.hardware, step_batch(scenario.workload, scenario.model), scenario.deployment, scenario.efficiency
    )


def _step_groups(scenario: Scenario) -> dict[str, Ops]:
    """Ops of the step before the layers, of the layers, and after them."""
    batch, inside = step_batch(scenario.workload, scenario.model), decoder_ops(scenario)
    groups: dict[str, Ops] = {"before": {}, "layers": {}, "after": {}}
    for name, op in device_ops(scenario.hardware, scenario.model, scenario.deployment, batch).items():
        # Ops outside of the layers are "before" them until the first op of a layer, then "after" them.
        groups["layers" if name in inside else "after" if groups["layers"] else "before"][name] = op
    return groups

"""A step or a training iteration as execution traces of MLCommons Chakra, a file per rank, as ASTRA-sim reads them.

Attributes have the names and types that both of Chakra's feeders read.

Source: mlcommons/chakra, src/feeder/et_feeder_node.cpp; astra-sim/astra-sim, astra-sim/workload/Workload.cc and
feeder_v3/et_feeder_node.h beside it: types of attributes, names of files, groups of ranks; Ring.cc of its native
collectives: what `comm_size` is of each collective.
"""

import json
import os
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any

from jaxroof.training.training import Training
from jaxroof.version import VERSION
from sweeps.ask.cases import Case
from sweeps.run.answer import Answer
from sweeps.studies.export import wire
from sweeps.studies.export.folder import written as files_of_folder
from sweeps.studies.export.graph import ExportGraph, ExportNode, step_graphs
from sweeps.studies.export.runs import OpRun, Ranks
from sweeps.studies.export.training_graph import TrainingGraphs

MOST_NODES = 30_000_000
"""Nodes of all files together, at about 100 B each."""

TYPES = {
    "all_reduce": 0,
    "all_gather": 2,
    "broadcast": 5,
    **dict.fromkeys(("all_to_all", "dispatch", "combine"), 6),
    "reduce_scatter": 7,
}
"""Collective -> CollectiveCommType."""

MICROSECONDS = 1e6

Groups = dict[tuple[int, ...], int]
"""Groups of ranks -> their numbers: 1 and up, as 0 stands for all ranks in ASTRA-sim."""

GROUPS = "comm_group.json"
"""The file of groups: `--comm-group-configuration` of ASTRA-sim."""


def written(
    folder: str | os.PathLike[str], case: Case, answer: Answer, what: str = "", force: bool = False
) -> list[pathlib.Path]:
    """Write rank.0.et, rank.1.et, ... and `GROUPS` into a folder; none appears before all are done.

    Args:
      folder: that holds nothing else; it is made where there is none.
      case: one step, or one training iteration.
      answer: its answer.
      what: what it works on, in words.
      force: replace files of these names that jaxroof did not write.

    Raises:
      ValueError: one line, for more than `MOST_NODES` nodes, a step that has no graph, or a folder or file that must
        not or cannot be written.
    """
    ranks, graphs = Ranks(case.scenario.deployment), graphs_of(case, answer)
    about = {"source": f"jaxroof {VERSION}", "model": case.model.name, "hardware": case.hardware.name, "work": what}
    head, encoded = wire.framed(wire.metadata(about)), [_Encoded(graph, ranks) for graph in graphs]
    # Number the groups of all ranks first: every file names its groups by these numbers.
    groups: Groups = {}
    for rank in range(ranks.number):
        for group in encoded[ranks.pipeline(rank)].groups(rank).values():
            groups.setdefault(group, len(groups) + 1)
    # Contents are generators: a file is encoded while it is written, so that not all are in memory at once.
    contents: dict[str, Iterable[bytes]] = {
        f"rank.{rank}.et": encoded[ranks.pipeline(rank)].content(head, rank, groups) for rank in range(ranks.number)
    }
    contents[GROUPS] = [json.dumps({str(number): list(group) for group, number in groups.items()}).encode()]
    return files_of_folder(folder, contents, ("trace", "groups"), "rank of this trace", force)


def graphs_of(case: Case, answer: Answer) -> list[ExportGraph]:
    """Graphs of the devices of one pipeline of `case`, a step or a training iteration.

    Raises:
      ValueError: one line, for a step that has no graph, or more than `MOST_NODES` nodes of all ranks.
    """
    slowdown, ranks = float(answer.metrics.get("slowdown", 1.0)), Ranks(case.scenario.deployment)
    # Ranks that run the same graph: each graph stands for one device of the pipeline.
    copies = ranks.number // ranks.pp
    if isinstance(case.scenario.workload, Training):
        iteration = TrainingGraphs(case.scenario)
        _require_room(iteration.nodes * copies, ranks.number)
        return iteration.graphs(slowdown)
    graphs = step_graphs(case.scenario, slowdown)
    _require_room(sum(len(graph.nodes) for graph in graphs) * copies, ranks.number)
    return graphs


def _require_room(nodes: int, ranks: int) -> None:
    if nodes > MOST_NODES:
        raise ValueError(
            f"{nodes:,} nodes of {ranks:,} ranks are too many: at most {MOST_NODES:,} are written, of fewer devices "
            "or micro-batches"
        )


class _Encoded:
    """A graph's nodes as bytes, but for what differs between the ranks that run it."""

    def __init__(self, graph: ExportGraph, ranks: Ranks):
        self._ranks = ranks
        self._parts: list[bytes | tuple[bytes, ExportNode]] = []
        ready = bytearray()
        for identity, node in enumerate(graph.nodes):
            message = _node(identity, node)
            # Nodes that are the same for all ranks are joined; those of messages differ in their ends or groups.
            if node.run.kind in ("kernel", "host", "copy"):
                ready += wire.framed(message)
            else:
                self._parts += [bytes(ready), (message, node)]
                ready = bytearray()
        self._parts.append(bytes(ready))
        sent = (node.run for node in graph.nodes if node.run.kind == "collective")
        # Collectives of one name, size and stride have the same group: one run stands for all of them.
        self._collectives = {_participants(run): run for run in sent}

    def groups(self, rank: int) -> dict[tuple[Any, ...], tuple[int, ...]]:
        """The groups that a rank is in, by `_participants` of their collectives, in the order that it meets them."""
        return {key: self._ranks.group(rank, run) for key, run in self._collectives.items()}

    def content(self, head: bytes, rank: int, numbers: Groups) -> Iterator[bytes]:
        """The file of a rank."""
        groups = {
            key: wire.attribute(10, "pg_name", "string", str(numbers[group]))
            for key, group in self.groups(rank).items()
        }
        yield head
        for part in self._parts:
            if isinstance(part, bytes):
                yield part
                continue
            message, node = part
            there = node.run.kind == "collective"
            yield wire.framed(message + (groups[_participants(node.run)] if there else self._ends(rank, node)))

    def _ends(self, rank: int, node: ExportNode) -> bytes:
        """Attributes that say between which ranks a message is."""
        sent = node.run.kind == "send"
        if node.partner is not None:
            other = self._ranks.partner(rank, node.partner)
        else:
            # In a ring a rank sends to the one after it, and receives from the one before.
            other = self._ranks.neighbours(rank, node.run)[sent]
        ends = (rank, other) if sent else (other, rank)
        values = {"comm_src": ends[0], "comm_dst": ends[1], "comm_tag": node.tag}
        return b"".join(wire.attribute(10, name, "int32", value) for name, value in values.items())


def _participants(run: OpRun) -> tuple[Any, ...]:
    """What collectives of one rank have in common that are of one group."""
    return run.name, run.participants, run.stride


def _node(identity: int, node: ExportNode) -> bytes:
    """A node without what differs between ranks; starts and ends are whole us, so that durations add up to the last."""
    run = node.run
    # Rounded start and end, not a rounded duration, so that rounding errors do not add up.
    start, end = (round(MICROSECONDS * time) for time in (node.start, node.start + run.time))
    attributes: list[tuple[str, str, wire.Value]] = [("is_cpu_op", "bool", run.kind == "host")]
    if run.kind == "kernel":
        # 1 operation where there is none: ASTRA-sim divides by operations per byte
        attributes += [("num_ops", "int64", max(1, round(run.flops))), ("tensor_size", "uint64", round(run.bytes))]
        attributes += [("matrix_ops", "int64", round(run.matrix_flops))] if run.matrix_flops else []
    elif run.kind == "copy":
        attributes.append(("tensor_size", "uint64", round(run.message)))
    elif run.kind != "host":
        attributes.append(("comm_size", "int64", round(_size(run))))
    if run.kind == "collective":
        attributes.append(("comm_type", "int64", TYPES[run.operation]))
    head = wire.node(identity, run.name, run.kind, node.after, start, end - start)
    return head + b"".join(wire.attribute(10, *each) for each in attributes)


def _size(run: OpRun) -> float:
    """B that ASTRA-sim takes as a message's size: the whole buffer, of an all-gather what each rank has of it."""
    return run.message / run.participants if run.operation == "all_gather" else run.message

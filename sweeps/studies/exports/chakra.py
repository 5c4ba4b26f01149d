"""A step or a training iteration as execution traces of MLCommons Chakra, a file per rank, as ASTRA-sim reads them.

Attributes have the names and types that both of Chakra's feeders read.

Source: mlcommons/chakra, src/feeder/et_feeder_node.cpp; astra-sim/astra-sim, astra-sim/workload/Workload.cc and
feeder_v3/et_feeder_node.h beside it: types of attributes, names of files, groups of ranks; Ring.cc of its native
collectives: what `comm_size` is of each collective.
"""

import json
import os
import pathlib
from collections.abc import Iterator

from jaxroof.training.training import Training
from jaxroof.version import VERSION
from sweeps.ask.cases import Case
from sweeps.run.answer import Answer
from sweeps.studies.exports import wire
from sweeps.studies.exports.folder import written as files_of_folder
from sweeps.studies.exports.graph import Graph, Node, step_graphs
from sweeps.studies.exports.ranks import Groups, Ranks
from sweeps.studies.exports.runs import Run
from sweeps.studies.exports.training_graph import Tasks, training_graphs

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

GROUPS = "comm_group.json"
"""The file of groups: `--comm-group-configuration` of ASTRA-sim."""


def written(
    folder: str | os.PathLike, case: Case, found: Answer, what: str = "", force: bool = False
) -> list[pathlib.Path]:
    """Write rank.0.et, rank.1.et, ... and `GROUPS` into a folder; none appears before all are done.

    Args:
      folder: that holds nothing else; it is made where there is none.
      case: one step, or one training iteration.
      found: its answer.
      what: what it works on, in words.
      force: replace files of these names that jaxroof did not write.

    Raises:
      ValueError: one line, for more than `MOST_NODES` nodes, a step that has no graph, or a folder or file that must
        not or cannot be written.
    """
    ranks, graphs = Ranks(case.scenario.deployment), graphs_of(case, found)
    about = {"source": f"jaxroof {VERSION}", "model": case.model.name, "hardware": case.hardware.name, "work": what}
    head, groups = wire.framed(wire.metadata(about)), Groups()
    parts = [_Encoded(graph, ranks, groups) for graph in graphs]
    for rank in range(ranks.number):
        parts[ranks.pipeline(rank)].register(rank)
    contents: dict[str, Iterator[bytes] | list[bytes]] = {
        f"rank.{rank}.et": parts[ranks.pipeline(rank)].content(head, rank) for rank in range(ranks.number)
    }
    contents[GROUPS] = [json.dumps(groups.listed()).encode()]
    return files_of_folder(folder, contents, ("trace", "groups"), "rank of this trace", force)


def graphs_of(case: Case, found: Answer) -> list[Graph]:
    """Graphs of the devices of one pipeline of `case`, a step or a training iteration.

    Raises:
      ValueError: one line, for a step that has no graph, or more than `MOST_NODES` nodes of all ranks.
    """
    slowdown, ranks = float(found.metrics.get("slowdown", 1.0)), Ranks(case.scenario.deployment)
    copies = ranks.number // ranks.pp
    if isinstance(case.scenario.workload, Training):
        iteration = Tasks(case.scenario)
        _require_room(iteration.nodes * copies, ranks.number)
        return training_graphs(iteration, slowdown)
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

    def __init__(self, graph: Graph, ranks: Ranks, groups: Groups):
        self._ranks, self._groups = ranks, groups
        self._parts: list[bytes | tuple[bytes, Node]] = []
        sent = (node.run for node in graph.nodes if node.run.kind == "collective")
        self._collectives = list({(run.name, run.participants, run.stride): run for run in sent}.values())
        ready = bytearray()
        for identity, node in enumerate(graph.nodes):
            message = _node(identity, node)
            if node.run.kind in ("kernel", "host", "copy"):
                ready += wire.framed(message)
            else:
                self._parts += [bytes(ready), (message, node)]
                ready = bytearray()
        self._parts.append(bytes(ready))

    def register(self, rank: int) -> None:
        """Number the groups that a rank is in."""
        for run in {
            node.run._replace(time=0.0) for part in self._parts if isinstance(part, tuple) for node in part[1:]
        }:
            if run.kind == "collective":
                self._groups.number(self._ranks.group(rank, run))

    def content(self, head: bytes, rank: int) -> Iterator[bytes]:
        """The file of a rank."""
        yield head
        known: dict[tuple, bytes] = {}
        for part in self._parts:
            if isinstance(part, bytes):
                yield part
                continue
            message, node = part
            run = node.run
            key = run.kind, run.role, run.name, run.participants, run.stride, node.partner, node.tag
            if run.kind == "collective":
                key = key[:5]
            if key not in known:
                known[key] = self._peers(rank, node)
            yield wire.framed(message + known[key])

    def _peers(self, rank: int, node: Node) -> bytes:
        """Attributes that say with whom a rank communicates."""
        run, ranks = node.run, self._ranks
        if run.kind == "collective":
            return wire.attribute(10, "pg_name", "string", str(self._groups.number(ranks.group(rank, run))))
        if node.partner is not None:
            other = ranks.partner(rank, node.partner)
        else:
            other = ranks.neighbours(rank, run)[run.kind == "send"]
        ends = (rank, other) if run.kind == "send" else (other, rank)
        values = {"comm_src": ends[0], "comm_dst": ends[1], "comm_tag": node.tag}
        return b"".join(wire.attribute(10, name, "int32", value) for name, value in values.items())


def _node(identity: int, node: Node) -> bytes:
    """A node without what differs between ranks; starts and ends are whole us, so that durations add up to the last."""
    run = node.run
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


def _size(run: Run) -> float:
    """B that ASTRA-sim takes as a message's size: the whole buffer, of an all-gather what each rank has of it."""
    return run.message / run.participants if run.operation == "all_gather" else run.message

"""Runs of ops as plain numbers: what the ops of a step or a pass are, layer by layer, with times."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from jaxroof.deployment import Deployment, degree, devices, stage_devices
from jaxroof.jobs import Scenario
from jaxroof.jobs.step import step_batch
from jaxroof.op import AnyOp, Collective, Copy, Kernel, Ops
from jaxroof.roofline import op_time
from jaxroof.step.forward import as_run, device_tokens, group_batch, layer_ops, stage_tokens
from jaxroof.step.overlap import computing_hardware
from jaxroof.step.step import op_flops
from sweeps.run.evaluate import at_base


class OpRun(NamedTuple):
    """One run of an op on one device."""

    name: str
    kind: str  # kernel, collective, copy, host, send or receive
    time: float  # s
    flops: float = 0.0  # FLOP, matrix and vector
    matrix_flops: float = 0.0  # of these, on matrix units
    bytes: float = 0.0  # B through memory
    operation: str = ""  # of a collective, one of `jaxroof.op.COLLECTIVES`
    message: float = 0.0  # B of its whole buffer
    participants: int = 1
    stride: int = 1  # devices from one participant to the next
    role: str = ""  # one of `jaxroof.op.ROLES`
    gradient: str = ""  # of what a kernel of a backward pass makes the gradient: "inputs", "weights"


@dataclasses.dataclass(frozen=True)
class Named:
    """An op: how often it runs on one device, and one run."""

    run: OpRun
    count: float
    layer: str

    def runs(self, layers: float) -> list[OpRun]:
        """Its runs in one of `layers` layers: whole ones, whose work and time add up to that of the op."""
        # A whole number of runs per layer; each is scaled so that their total is that of the op.
        each = self.count / layers
        times = max(1, round(each))
        part, run = each / times, self.run
        if part == 1.0:
            return [run] * times
        scaled = {name: part * getattr(run, name) for name in ("time", "flops", "matrix_flops", "bytes", "message")}
        return [run._replace(**scaled)] * times


def named(scenario: Scenario, groups: Callable[[Scenario], dict[str, Ops]]) -> dict[str, list[Named]]:
    """Ops of every group in order, without those that launch nothing, times at full clock.

    Args:
      groups: the ops by group, of a scenario.
    """
    # Ops are collected while their numbers are computed, because only numbers are returned from there.
    ops: dict[str, Ops] = {}

    def numbers(scenario: Scenario) -> dict[str, list[dict[str, Any]]]:
        device = computing_hardware(scenario.hardware, scenario.deployment)
        ops.update(groups(scenario))
        return {
            group: [_numbers(op) | {"time": op_time(op, device, scenario.efficiency)} for op in members.values()]
            for group, members in ops.items()
        }

    rows = at_base(numbers, scenario)
    return {
        group: [
            _named(name, op, **{field: float(number) for field, number in row.items() if number is not None})
            for (name, op), row in zip(members.items(), rows[group], strict=True)
            # An op without kernels or without runs launches nothing.
            if row["kernels"] * row["count"] > 0.0
        ]
        for group, members in ops.items()
    }


def decoder_ops(scenario: Scenario) -> Ops:
    """Ops of the layers of the decoder in an engine step."""
    model, deployment = as_run(scenario.model, scenario.hardware), scenario.deployment
    batch = step_batch(scenario.workload, model)
    local = group_batch(batch, deployment)
    return layer_ops(model, deployment, local, device_tokens(local, deployment), stage_tokens(batch, deployment))


def _numbers(op: AnyOp) -> dict[str, Any]:
    """Numbers of a run by field of `OpRun`, and how often it runs; None stands for the field's default."""
    numbers = {"count": op.count, "kernels": op.kernels, "flops": op_flops(op)}
    if isinstance(op, Kernel):
        return numbers | {"matrix_flops": op.matrix_flops, "bytes": op.bytes}
    numbers["message"] = op.message_bytes
    return numbers if isinstance(op, Copy) else numbers | {"participants": op.participants, "stride": op.stride}


def _named(
    name: str, op: AnyOp, count: float, kernels: float, participants: float = 1.0, stride: float = 1.0, **numbers: float
) -> Named:
    run = OpRun(
        name,
        kind="collective" if isinstance(op, Collective) else "copy" if isinstance(op, Copy) else "kernel",
        operation=op.operation if isinstance(op, Collective) else "",
        participants=round(participants),
        stride=round(stride),
        role=op.role or "",
        gradient=(op.gradient or "") if isinstance(op, Kernel) else "",
        **numbers,
    )
    return Named(run, count, op.layer)


# Ranks of a deployment, numbered as `jaxroof.deployment.Parallelism` says, and the groups that they talk in.


class Ranks:
    """Ranks along the axes of `jaxroof.deployment.parallelism.MESH`, the first one fastest.

    Attributes:
      number: of all ranks.
      stage: of one stage of one replica.
      pp: devices of the pipeline.
    """

    def __init__(self, deployment: Deployment):
        self.number, self.stage = round(float(devices(deployment))), round(float(stage_devices(deployment)))
        self.pp, self._tp = round(float(degree(deployment.pp))), round(float(deployment.tp))

    def pipeline(self, rank: int) -> int:
        """The device of the pipeline that a rank is."""
        return rank // self.stage % self.pp

    def partner(self, rank: int, device: int) -> int:
        """The rank that has a rank's place in another device of its pipeline."""
        return rank + (device - self.pipeline(rank)) * self.stage

    def group(self, rank: int, run: OpRun) -> tuple[int, ...]:
        """Ranks of a collective in which a rank takes part, in order.

        Those with the same weights are all replicas' ranks of its place in a stage, for weights of experts, or, for
        others, of its place among the tensor-parallel ones. Other groups are inside of a stage.
        """
        if run.role == "replica":
            # Weights of experts are split over the whole stage, other weights over the tensor-parallel ranks.
            inside = self.stage if run.name.startswith("expert_") else self._tp
            stages = range(self.pipeline(rank) * self.stage, self.number, self.pp * self.stage)  # in every replica
            return tuple(first + place for first in stages for place in range(rank % inside, self.stage, inside))
        place = rank % self.stage // run.stride % run.participants
        first = rank - place * run.stride
        return tuple(first + index * run.stride for index in range(run.participants))

    def neighbours(self, rank: int, run: OpRun) -> tuple[int, int]:
        """The ranks before and after a rank in a ring."""
        group = self.group(rank, run)
        place = group.index(rank)
        # Index -1 is the last rank: the ring is closed.
        return group[place - 1], group[(place + 1) % len(group)]

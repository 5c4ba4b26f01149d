"""Runs of ops as plain numbers: what the ops of a step or a pass are, layer by layer, with times."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from jaxroof.jobs import Scenario
from jaxroof.op import Collective, Copy, Kernel, Ops
from jaxroof.op_time import op_time
from jaxroof.overlap import computing_hardware
from jaxroof.step import op_flops
from sweeps.run.evaluate import at_base


class Run(NamedTuple):
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

    run: Run
    count: float
    layer: str

    def runs(self, layers: float) -> list[Run]:
        """Its runs in one of `layers` layers: whole ones, whose work and time add up to that of the op."""
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
    words: dict[str, list[tuple[str, Any]]] = {}

    def numbers(scenario: Scenario) -> list[list[tuple]]:
        device = computing_hardware(scenario.hardware, scenario.deployment)
        found = []
        for group, ops in groups(scenario).items():
            words[group] = list(ops.items())
            found.append([_numbers(op, op_time(op, device, scenario.efficiency)) for op in ops.values()])
        return found

    rows = at_base(numbers, scenario)
    return {
        group: [_named(name, op, *map(float, row)) for (name, op), row in zip(ops, part, strict=True) if row[1] > 0.0]
        for (group, ops), part in zip(words.items(), rows, strict=True)
    }


def _numbers(op: Any, time: Any) -> tuple:
    """count, kernels, time, flops, matrix FLOP, bytes, message, participants, stride."""
    kernel = op if isinstance(op, Kernel) else None
    sent = op if isinstance(op, Collective) else None
    return (
        op.count,
        op.kernels * op.count,
        time,
        op_flops(op),
        0.0 if kernel is None or kernel.matrix_flops is None else kernel.matrix_flops,
        0.0 if kernel is None or kernel.bytes is None else kernel.bytes,
        0.0 if kernel is not None else op.message_bytes,
        1.0 if sent is None else sent.participants,
        1.0 if sent is None or sent.stride is None else sent.stride,
    )


def _named(
    name: str,
    op: Any,
    count: float,
    _: float,
    time: float,
    flops: float,
    matrix: float,
    moved: float,
    message: float,
    participants: float,
    stride: float,
) -> Named:
    kind = "collective" if isinstance(op, Collective) else "copy" if isinstance(op, Copy) else "kernel"
    operation = op.operation if isinstance(op, Collective) else ""
    gradient = (op.gradient or "") if isinstance(op, Kernel) else ""
    run = Run(
        *(name, kind, time, flops, matrix, moved, operation, message),
        *(round(participants), round(stride), op.role or "", gradient),
    )
    return Named(run, count, op.layer)

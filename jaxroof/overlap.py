"""Communication of a step that hides behind its computation, under each model of overlap."""

import dataclasses

from jaxroof.batch import Batch, divided
from jaxroof.deployment import Deployment
from jaxroof.forward import step_ops
from jaxroof.hardware import Hardware
from jaxroof.model import Model
from jaxroof.op import Op
from jaxroof.smooth import minimum
from jaxroof.struct import Scalar

HIDDEN = "hidden"
"""Name under which the time that overlap saves stands among the ops, as a negative number."""

PIECES = 4.0
"""Pieces that a matrix product is cut into so that a collective runs behind it: the first or last stays exposed.

Source: Chang et al., arXiv:2406.06858 (Flux), section 3, where tiles are communicated as they finish.
"""

_LAYER_COLLECTIVES = ("attention_", "cross_", "feedforward_")
"""What the names of collectives between the tensor-parallel devices of a layer begin with."""


def overlapped_ops(model: Model, deployment: Deployment, batch: Batch, rows: Scalar | None = None) -> dict[str, Op]:
    """Ops of one step as they are launched: of two halves of the batch, each with kernels of its own, or of it all.

    Args:
      rows: as `step_ops` takes them.
    """
    if deployment.overlap != "two_batch":
        return step_ops(model, deployment, batch, rows)
    ops = step_ops(model, deployment, divided(batch, 2.0), None if rows is None else rows / 2.0)
    return {name: dataclasses.replace(op, count=2.0 * op.count) for name, op in ops.items()}


def computing_hardware(hardware: Hardware, deployment: Deployment) -> Hardware:
    """The hardware that computes while communication runs beside it: without the cores that it reserves."""
    if deployment.overlap != "two_batch":
        return hardware
    left = 1.0 - deployment.reserved_cores
    cores = dataclasses.replace(hardware.cores, count=hardware.cores.count * left)
    matrix = {precision: peak * left for precision, peak in hardware.matrix.items()}
    return dataclasses.replace(hardware, cores=cores, matrix=matrix)


def hidden_time(ops: dict[str, Op], times: dict[str, Scalar], deployment: Deployment) -> dict[str, Scalar]:
    """Time in s that overlap saves, as one negative term by the name `HIDDEN`; empty without overlap.

    two_batch: while one half of the batch computes the other communicates, so that the shorter of both sums hides:
    min(sum of kernels, sum of collectives). Filling and draining, one layer in all, is left out.
    gemm: every all-reduce, reduce-scatter or all-gather between tensor-parallel devices runs behind the matrix
    product next to it, in `PIECES` pieces: (1 - 1 / PIECES) min(collective, product).

    Args:
      ops: of the step, in order.
      times: s of each over all its runs.
    """
    if deployment.overlap == "none" and deployment.offloaded is None:
        return {}
    saved = _hidden_copies(ops, times, deployment)
    if deployment.overlap == "none":
        return {HIDDEN: -saved}
    if deployment.overlap == "two_batch":
        communication = sum(times[name] for name, op in ops.items() if op.kind == "collective")
        computation = sum(times[name] for name, op in ops.items() if op.kind not in ("collective", "copy"))
        return {HIDDEN: -(minimum(communication, computation) + saved)}
    for name, partner in _partners(ops).items():
        saved = saved + (1.0 - 1.0 / PIECES) * minimum(times[name], times[partner])
    return {HIDDEN: -saved}


def _hidden_copies(ops: dict[str, Op], times: dict[str, Scalar], deployment: Deployment) -> Scalar:
    """Time in s that copies of a cache run behind the kernels of other layers: all but one layer's, at most theirs.

    Source: Sheng et al., arXiv:2303.06865 (FlexGen), section 4.1.
    """
    kernels = sum(times[name] for name, op in ops.items() if op.kind not in ("collective", "copy"))
    saved = 0.0
    for name, op in ops.items():
        if op.kind == "copy":
            saved = saved + deployment.prefetched * (1.0 - 1.0 / op.count) * minimum(times[name], kernels)
    return saved


def _partners(ops: dict[str, Op]) -> dict[str, str]:
    """The product of the same layer that each tensor-parallel collective hides behind.

    It is the one before; of what is gathered the one after, which after the last is the next layer's first.
    """
    layers: dict[str, list[str]] = {}
    for name in ops:
        layers.setdefault(name.rpartition(".")[0], []).append(name)
    partners = {}
    for names in layers.values():
        products = [name for name in names if ops[name].kind in ("linear", "experts") and name != "head"]
        for position, name in enumerate(names):
            if not name.rpartition(".")[2].startswith(_LAYER_COLLECTIVES) or ops[name].kind != "collective":
                continue
            before = [product for product in products if names.index(product) < position]
            after = [product for product in products if names.index(product) > position]
            if ops[name].collective == "all_gather":
                partners[name] = (after or products)[0]
            elif before:
                partners[name] = before[-1]
    return partners

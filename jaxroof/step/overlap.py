"""Communication of a step that hides behind its computation, under each model of overlap."""

import dataclasses

from jaxroof.batch import Batch, divided
from jaxroof.deployment import Deployment
from jaxroof.hardware import Hardware
from jaxroof.model import Model
from jaxroof.numerics.smooth import minimum
from jaxroof.numerics.struct import Scalar
from jaxroof.numerics.tree import mapped
from jaxroof.op import PRODUCTS, AnyOp, Collective, Copy, Kernel, Ops
from jaxroof.step.forward import Rows, step_ops

HIDDEN = "hidden"
"""Name under which the time that overlap saves stands among the ops, as a negative number."""

PIECES = 4.0
"""Pieces that a matrix product is cut into so that a collective runs behind it: the first or last stays exposed.

Source: Chang et al., arXiv:2406.06858 (Flux), section 3, where tiles are communicated as they finish.
"""


def overlapped_ops(model: Model, deployment: Deployment, batch: Batch, rows: Rows | None = None) -> Ops:
    """Ops of one step as they are launched: of two halves of the batch, each with kernels of its own, or of it all.

    Args:
      rows: as `step_ops` takes them.
    """
    if deployment.overlap != "two_batch":
        return step_ops(model, deployment, batch, rows)
    # Two half batches, each launched on its own: launches and reads of weights double, while work stays.
    ops = step_ops(model, deployment, divided(batch, 2.0), mapped(lambda every: every / 2.0, rows))
    return {name: dataclasses.replace(op, count=2.0 * op.count) for name, op in ops.items()}


def computing_hardware(hardware: Hardware, deployment: Deployment) -> Hardware:
    """The hardware that computes while communication runs beside it: without the cores that it reserves."""
    if deployment.overlap != "two_batch":
        return hardware
    # Communication kernels that run beside computation hold some SMs.
    left = 1.0 - deployment.reserved_cores
    cores = dataclasses.replace(hardware.cores, count=hardware.cores.count * left)
    matrix = {precision: peak * left for precision, peak in hardware.matrix.items()}
    return dataclasses.replace(hardware, cores=cores, matrix=matrix)


def overlaps(deployment: Deployment) -> bool:
    """Whether anything of a step runs beside something else: structure, not data."""
    return deployment.overlap != "none" or deployment.offloaded is not None


def hidden_time(ops: Ops, times: dict[str, Scalar], deployment: Deployment) -> dict[str, Scalar]:
    """Time in s that overlap saves, as one negative term by the name `HIDDEN`; empty without overlap.

    two_batch: while one half of the batch computes the other communicates, so that the shorter of both sums hides:
    min(sum of kernels, sum of collectives); in layers that exchange tokens what `_hidden_exchange` says. Filling and
    draining, one layer in all, is left out.
    gemm: every collective that may hide behind a product (`Collective.behind`) runs behind the one next to it, in
    `PIECES` pieces: (1 - 1 / PIECES) min(collective, product).

    Args:
      ops: of the step, in order.
      times: s of each over all its runs.
    """
    if not overlaps(deployment):
        return {}
    # Offloaded caches are prefetched whatever the model of overlap is.
    saved = _hidden_copies(ops, times, deployment)
    if deployment.overlap == "none":
        return {HIDDEN: -saved}
    if deployment.overlap == "two_batch":
        return {HIDDEN: -(_hidden_halves(ops, times, deployment) + saved)}
    for name, partner in _partners(ops).items():
        # In pieces, communication of a finished piece runs beside the product of the next: one piece stays exposed.
        saved = saved + (1.0 - 1.0 / PIECES) * minimum(times[name], times[partner])
    return {HIDDEN: -saved}


def _hidden_halves(ops: Ops, times: dict[str, Scalar], deployment: Deployment) -> Scalar:
    """Time in s that two halves of a batch hide of each other's communication."""
    layers = _layers(ops)
    exchanging = {name for name, layer in layers.items() if any(op.role == "exchange" for op in layer.values())}
    others = {name: op for name, op in ops.items() if op.layer not in exchanging}
    # Layers without an exchange: whichever of communication and computation is shorter hides behind the other half's.
    communication = sum(times[name] for name, op in others.items() if isinstance(op, Collective))
    computation = sum(times[name] for name, op in others.items() if isinstance(op, Kernel))
    saved = minimum(communication, computation) if others else 0.0
    for name in sorted(exchanging):
        saved = saved + _hidden_exchange(layers[name], times, deployment)
    return saved


def _hidden_exchange(layer: Ops, times: dict[str, Scalar], deployment: Deployment) -> Scalar:
    """Time in s that hides in layers that exchange tokens.

    A half's kernels before its dispatch take b, those of the routed experts e, those after its return a; dispatch takes
    d and return r. Times are of both halves together.

    all_to_all, all_gather: one half dispatches while the other attends, the other dispatches while the first one's
    experts run, and returns likewise: (min(b, d) + min(e, d) + min(e, r) + min(a + b, r)) / 2.
    low_latency: a half's experts run at once when its tokens have arrived, so that both messages travel behind the
    attention of the other half, which is cut into two where that is even: min(a + b, d + r).
    Other collectives of these layers hide behind the kernels that are left.

    Source: DeepSeek-AI, open-infra-index, day 6 (two micro-batches in prefill, five stages in decode); the order of the
    stages as in sgl-project/sglang, python/sglang/srt/operations_strategy.py.
    """
    messages, kernels, others = [], [0.0, 0.0, 0.0], 0.0
    for name, op in layer.items():
        # Ops stand in order: the first message is the dispatch, the second the return; kernels fall before, between or
        # after them.
        if op.role == "exchange":
            messages.append(times[name])
        elif isinstance(op, Kernel):
            kernels[len(messages)] = kernels[len(messages)] + times[name]
        elif isinstance(op, Collective):
            others = others + times[name]
    (before, between, after), (dispatch, back) = kernels, messages
    if deployment.exchange == "low_latency":
        # Decode has no SM to spare for the exchange: RDMA in the background, behind the other half's attention.
        saved = minimum(before + after, dispatch + back)
    else:
        # Prefill, two micro-batches: each message of one half runs beside a stage of the other.
        first = minimum(before, dispatch) + minimum(between, dispatch)
        saved = 0.5 * (first + minimum(between, back) + minimum(before + after, back))
    # Tensor-parallel messages of the same layers take what cover is left.
    return saved + minimum(others, before + between + after - saved)


def _layers(ops: Ops) -> dict[str, Ops]:
    """Ops of every layer, which stand together, in the order they run; those of none under ""."""
    layers: dict[str, Ops] = {}
    for name, op in ops.items():
        layers.setdefault(op.layer, {})[name] = op
    return layers


def _hidden_copies(ops: Ops, times: dict[str, Scalar], deployment: Deployment) -> Scalar:
    """Time in s that copies of a cache run behind the kernels of other layers: all but one layer's, at most theirs.

    Source: Sheng et al., arXiv:2303.06865 (FlexGen), section 4.1.
    """
    kernels = sum(times[name] for name, op in ops.items() if isinstance(op, Kernel))
    saved = 0.0
    for name, op in ops.items():
        if isinstance(op, Copy):
            # Prefetch distance of one layer: the first layer's copy has nothing to hide behind.
            saved = saved + deployment.prefetched * (1.0 - 1.0 / op.count) * minimum(times[name], kernels)
    return saved


def _partners(ops: Ops) -> dict[str, str]:
    """The product of the same layer that each collective of a layer hides behind, by their names.

    It is the one before; of what is gathered the one after, which after the last is the next layer's first.
    """
    partners = {}
    for layer in _layers(ops).values():
        products = {place: name for place, (name, op) in enumerate(layer.items()) if _covers(op)}
        for place, (name, op) in enumerate(layer.items()):
            if not isinstance(op, Collective) or op.behind != "product":
                continue
            before = [product for at, product in products.items() if at < place]
            after = [product for at, product in products.items() if at > place]
            # What is gathered is needed by the next product (all-gather GEMM), what is reduced comes from the last one
            # (GEMM reduce-scatter).
            if op.operation == "all_gather":
                partners[name] = (after or list(products.values()))[0]
            elif before:
                partners[name] = before[-1]
    return partners


def _covers(op: AnyOp) -> bool:
    """Whether collectives of its layer may run behind it: a product with weights, but a model's own head.

    The head of a prediction module stands beside the one layer that it has.
    """
    of_model = op.role == "head" and not op.layer
    return isinstance(op, Kernel) and op.kind in PRODUCTS and not of_model

"""Cost of one engine step: time, work and the resource that binds, in total and op by op."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from jaxroof.batch import Batch
from jaxroof.deployment import Deployment, tokens_per_sequence
from jaxroof.efficiency import Efficiency, Kernels, Spread, Surfaces, entry_of, in_phases
from jaxroof.energy.energy import op_energy, power_known
from jaxroof.hardware import Hardware, on_host
from jaxroof.memory.beside import beside_time
from jaxroof.model import Model
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.at_once import differentiated_at_once
from jaxroof.numerics.smooth import maximum
from jaxroof.numerics.struct import Array, Scalar, struct
from jaxroof.numerics.tree import leaves
from jaxroof.op import BOUNDS, RESOURCES, AnyOp, Kernel, Ops
from jaxroof.roofline import (
    at_bound,
    least_time,
    op_algorithm,
    op_beyond,
    op_bound,
    op_extrapolation,
    op_hull,
    op_inside,
    op_time,
    op_time_by_bound,
)
from jaxroof.step.forward import group_batch
from jaxroof.step.overlap import computing_hardware, hidden_time, overlaps
from jaxroof.step.placed import device_ops
from jaxroof.tracing import of_each, over_runs, totals
from jaxroof.units import unit_rate

Terms = dict[str, Scalar]
"""One number per op, by name."""

Lazy = dict[str, Callable[[], Terms]]
"""Terms by name, each as a function without arguments, so that what nobody wants costs nothing."""

HOST = "host"
"""Name under which the engine's host time stands among the ops."""


@struct
class OpCost:
    """Cost of one named op in one step on one device, over all its runs."""

    time: Scalar  # s
    flops: Scalar  # FLOP, matrix and vector
    bytes: Scalar  # B, each operand once
    message_bytes: Scalar  # B, buffers of collectives
    bound: Scalar  # index into `jaxroof.op.RESOURCES`
    algorithm: Scalar  # of a collective: index into `jaxroof.collectives.ALGORITHMS`
    energy: Scalar | None = None  # J beside static power; None where the hardware's is unknown


def step_times(hardware: Hardware, model: Model, deployment: Deployment, batch: Batch, efficiency: Efficiency) -> Terms:
    """Time in s of every op of one step over all its runs, by name, and of the host: what `step_time` adds up.

    Raises:
      ValueError: while tracing, when the hardware has no matrix figure for a precision that the model needs.
    """
    return times_of(device_ops(hardware, model, deployment, batch), hardware, deployment, batch, efficiency)


@differentiated_at_once
def step_time(hardware: Hardware, model: Model, deployment: Deployment, batch: Batch, efficiency: Efficiency) -> Scalar:
    """Time in s of one engine step, shape (): every op after the other, then the host.

    time = sum over ops of count * op_time - hidden_time + host_time

    Overlap is never assumed: without `deployment.overlap` nothing is hidden. With pipeline stages the step is one
    micro-batch's way through all of them. Differentiable in every leaf of every argument; see
    `jaxroof.numerics.smooth`.

    Args:
      hardware, model, deployment, batch, efficiency: structs of scalars; vmap any leaf.

    Raises:
      ValueError: while tracing, when the hardware has no matrix figure for a precision that the model needs.
    """
    return steps_time(hardware, model, deployment, [batch], efficiency)[0]


def step_cost(
    hardware: Hardware, model: Model, deployment: Deployment, batch: Batch, efficiency: Efficiency
) -> dict[str, OpCost]:
    """The same step op by op, in order: time, work and bound of each; the host comes last. Times add to `step_time`."""
    # Ops come first, then times: which kernels run is known before any hardware is.
    ops, device = device_ops(hardware, model, deployment, batch), computing_hardware(hardware, deployment)
    efficiency = in_step(efficiency, batch, deployment)
    costs = {name: op_cost(op, device, efficiency) for name, op in ops.items()}
    saved = hidden_time(ops, {name: cost.time for name, cost in costs.items()}, deployment)
    others = saved | {HOST: host_time(hardware, batch, deployment, efficiency)}
    return costs | {name: _time_alone(time, hardware) for name, time in others.items()}


def in_step(efficiency: Efficiency, batch: Batch, deployment: Deployment) -> Efficiency:
    """The efficiency of a step's kernels, where it has shares of its own for decoding: by the tokens of each phase."""
    prompts = None if batch.prefill is None else batch.prefill.tokens
    decoding = None if batch.decode is None else batch.decode.sequences * tokens_per_sequence(deployment)
    return in_phases(efficiency, prompts, decoding)


def steps_time(
    hardware: Hardware, model: Model, deployment: Deployment, batches: Sequence[Batch], efficiency: Efficiency
) -> list[Scalar]:
    """`step_time` of several steps in one place, shapes (): in a trace, their ops of a kind are one array.

    Args:
      batches: of each step.
    """
    steps = [device_ops(hardware, model, deployment, batch) for batch in batches]
    efficiencies = [in_step(efficiency, batch, deployment) for batch in batches]
    device = computing_hardware(hardware, deployment)
    # What overlap hides takes the time of every op; and a user's own shares of peaks differ between the steps' phases.
    if overlaps(deployment) or any(own is not efficiency for own in efficiencies):
        each = zip(steps, batches, strict=True)
        return [sum(times_of(ops, hardware, deployment, batch, efficiency).values()) for ops, batch in each]
    kernels = totals(op_time, steps, device, efficiency)
    hosts = [host_time(hardware, batch, deployment, efficiency) for batch in batches]
    return [time + host for time, host in zip(kernels, hosts, strict=True)]


def op_times(ops: Ops, device: Hardware, efficiency: Efficiency) -> Terms:
    """Time in s of every op over all its runs, by name, shapes ()."""
    return over_runs(op_time, ops, device, efficiency)


def times_of(ops: Ops, hardware: Hardware, deployment: Deployment, batch: Batch, efficiency: Efficiency) -> Terms:
    """`step_times` of ops that are there already."""
    device, efficiency = computing_hardware(hardware, deployment), in_step(efficiency, batch, deployment)
    # One stream: kernels run one after the other, so times add; overlap is a term of its own.
    times = op_times(ops, device, efficiency)
    return times | hidden_time(ops, times, deployment) | {HOST: host_time(hardware, batch, deployment, efficiency)}


def times_by_bound(ops: Ops, hardware: Hardware, deployment: Deployment, batch: Batch, efficiency: Efficiency) -> Terms:
    """Time in s of every op of one step over all its runs and of the host, by name, shapes (len(RESOURCES),).

    Each stands at the place of what binds it, with 0 elsewhere. What overlap hides is left out.
    """
    device, efficiency = computing_hardware(hardware, deployment), in_step(efficiency, batch, deployment)
    once = of_each(op_time_by_bound, ops, device, efficiency)
    times = {name: jnp.asarray(ops[name].count)[..., None] * time for name, time in once.items()}
    host = host_time(hardware, batch, deployment, efficiency)
    return times | {HOST: at_bound(RESOURCES.index("launch"), host, hardware)}


def deviations_of(ops: Ops, hardware: Hardware, deployment: Deployment, efficiency: Efficiency) -> Terms:
    """Standard deviation in s of every op of one step inside of the evidence, by name: all its runs err alike.

    How they combine is `jaxroof.jobs.job.spreads`. The host's time and what overlap hides count as certain.
    """
    # All runs of one op have the same error (a wrong constant, not noise), so deviations add over runs and do not
    # average out.
    return over_runs(op_inside, ops, computing_hardware(hardware, deployment), efficiency)


def beyond_of(ops: Ops, hardware: Hardware, deployment: Deployment, efficiency: Efficiency) -> Terms:
    """Standard deviation in s that every op of one step has outside of the evidence, over all its runs, by name."""
    return over_runs(op_beyond, ops, computing_hardware(hardware, deployment), efficiency)


def least_times(ops: Ops, hardware: Hardware, deployment: Deployment) -> Terms:
    """Time in s that every op of one step takes at least by the datasheet's rates, over all its runs, by name."""
    device = computing_hardware(hardware, deployment)
    return {name: op.count * least_time(op, device) for name, op in ops.items()}


def extrapolated_times(
    ops: Ops, times: Terms, hardware: Hardware, deployment: Deployment, efficiency: Efficiency
) -> Terms:
    """Time in s of every op of one step times the octaves that it is beyond the evidence, by name.

    Only of ops whose evidence is known.

    Args:
      times: of the same step, `times_of`.
    """
    device = computing_hardware(hardware, deployment)
    known = {name: op for name, op in ops.items() if evidence_of(op, efficiency)}
    octaves = of_each(op_extrapolation, known, device, efficiency)
    return {name: times[name] * beyond for name, beyond in octaves.items()}


def evidence_of(op: AnyOp, efficiency: Efficiency) -> bool:
    """Whether it is known what the constants or tables that price `op` were fitted to: structure, not data."""
    entry = entry_of(efficiency, op) if isinstance(op, Kernel) else None
    return op_hull(op, efficiency) is not None or isinstance(entry, Surfaces)


def evidence_known(efficiency: Efficiency) -> bool:
    """Whether that is known of any constants: structure, not data."""
    return any(_evident(getattr(efficiency, field.name)) for field in dataclasses.fields(efficiency))


def _evident(entry: Any) -> bool:
    if isinstance(entry, Surfaces):
        return True
    models = (
        (getattr(entry, field.name) for field in dataclasses.fields(entry)) if isinstance(entry, Kernels) else [entry]
    )
    return any(getattr(model, "hull", None) is not None for model in models)


def spread_known(efficiency: Efficiency) -> bool:
    """Whether the efficiency says anything about its errors: structure, not data."""
    entries = (getattr(efficiency, field.name) for field in dataclasses.fields(efficiency))
    return any(isinstance(leaf, Spread) for entry in entries for leaf in leaves(entry, is_leaf=_is_spread))


def _is_spread(tree: object) -> bool:
    return isinstance(tree, Spread)


def dominant_bound(times: Scalar, slowed: Scalar = False) -> Array:
    """What binds a step, shape (): an int8 index into `BOUNDS`.

    Power where its limit slows the step, whatever its ops wait for: only more power, or less work, makes it faster.
    Else the resource that binds most of its time.

    Args:
      times: s by resource that binds, summed over ops, shape (len(RESOURCES),).
      slowed: whether the step takes longer under the limit of electrical power.
    """
    # Ties go to the first resource, whose code is smaller.
    longest = jnp.argmax(jnp.atleast_1d(times), axis=-1).astype(jnp.int8)
    return jnp.where(slowed, jnp.int8(BOUNDS.index("power")), longest)


def matrix_floors(ops: Ops, hardware: Hardware) -> Terms:
    """Time in s of every op's matrix work at the datasheet's peaks. Their sum divided by the step's time is MFU."""
    return {
        # MFU's numerator: the least time that the matrix work could take.
        name: op.count * op.matrix_flops / unit_rate(hardware, "matrix", op.precision)
        for name, op in ops.items()
        if isinstance(op, Kernel) and op.matrix_flops is not None
    }


def memory_floors(ops: Ops, hardware: Hardware) -> Terms:
    """Time in s to move every op's bytes once at the datasheet's memory bandwidth. Sum divided by step time is MBU."""
    floors, near = {}, hardware.memory.near
    # Units in the memory see more of its bandwidth than the cores do.
    outer = hardware.memory.hbm.bandwidth
    bandwidth = outer if near is None else maximum(outer, near.bandwidth)
    for name, op in ops.items():
        if isinstance(op, Kernel) and op.bytes is not None:
            # MBU's numerator: every operand once, as if nothing were read twice.
            floors[name] = op.count * op.bytes / bandwidth
            if op.beside_bytes:
                # All memories are read at once: the slowest of them.
                floors[name] = maximum(floors[name], op.count * beside_time(op, hardware))
    return floors


def _time_alone(time: Scalar, hardware: Hardware) -> OpCost:
    """The cost of something that takes time and nothing else."""
    bound, energy = RESOURCES.index("launch"), 0.0 if power_known(hardware) else None
    return OpCost(time=time, flops=0.0, bytes=0.0, message_bytes=0.0, bound=bound, algorithm=-1, energy=energy)


def op_cost(op: AnyOp, hardware: Hardware, efficiency: Efficiency) -> OpCost:
    """Cost of all runs of one op."""
    return OpCost(
        time=op.count * op_time(op, hardware, efficiency),
        flops=op.count * op_flops(op),
        bytes=op.count * (op.bytes if isinstance(op, Kernel) and op.bytes is not None else 0.0),
        message_bytes=op.count * (0.0 if isinstance(op, Kernel) else op.message_bytes),
        bound=op_bound(op, hardware, efficiency),
        algorithm=op_algorithm(op, hardware, efficiency),
        energy=op.count * op_energy(op, hardware) if power_known(hardware) else None,
    )


def op_flops(op: AnyOp) -> Scalar:
    """FLOP of one run, matrix and vector units together."""
    if not isinstance(op, Kernel):
        return 0
    return sum(flops for flops in (op.matrix_flops, op.vector_flops) if flops is not None)


def host_time(hardware: Hardware, batch: Batch, deployment: Deployment, efficiency: Efficiency) -> Scalar:
    """s of one step outside the kernels: per step, and per sequence that samples a token.

    Every attention group has an engine process of its own for its sequences. Where drafts are looked up, that is done
    for every sequence that samples, whatever it finds.
    """
    each = efficiency.host.sequence_time
    if deployment.drafts is not None and deployment.drafter == "ngram":
        each = each + deployment.lookup_time
    # One engine process per group: their sequences are handled side by side.
    time = efficiency.host.step_time + each * group_batch(batch, deployment).logits
    return on_host(time, hardware)

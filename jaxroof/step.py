"""Cost of one engine step: time, work and what binds it, in total and op by op."""

import jax
import jax.numpy as jnp

from jaxroof.batch import Batch
from jaxroof.deployment import Deployment
from jaxroof.efficiency import Efficiency
from jaxroof.forward import step_ops
from jaxroof.hardware import Hardware
from jaxroof.model import Model
from jaxroof.op import BOUNDS, Op
from jaxroof.roofline import op_bound, op_time
from jaxroof.struct import Scalar, struct


@struct
class OpCost:
    """What one named op costs in one step on one device, over all its runs."""

    time: Scalar  # s
    flops: Scalar  # FLOP, matrix and vector
    bytes: Scalar  # B, each operand once
    message_bytes: Scalar  # B, buffers of collectives
    bound: Scalar  # index into `jaxroof.op.BOUNDS`


@struct
class StepCost:
    """What one step costs on one device: ops by name, and the engine's host time that runs beside none of them."""

    ops: dict[str, OpCost]
    host_time: Scalar  # s


def step_time(
    hardware: Hardware, model: Model, deployment: Deployment, batch: Batch, efficiency: Efficiency
) -> jax.Array:
    """Time in s of one engine step, shape (): every op after the other, then the host.

    time = sum over ops of count * op_time + host time

    Overlap is never assumed. Differentiable in every leaf of every argument; see `jaxroof.smooth`.

    Args:
      hardware, model, deployment, batch, efficiency: structs of scalars; vmap any leaf.

    Raises:
      ValueError: while tracing, when the hardware has no matrix figure for a precision that the model needs.
    """
    ops = step_ops(model, deployment, batch)
    kernels = sum(op.count * op_time(op, hardware, efficiency) for op in ops.values())
    return kernels + host_time(batch, efficiency)


def step_cost(
    hardware: Hardware, model: Model, deployment: Deployment, batch: Batch, efficiency: Efficiency
) -> StepCost:
    """The same step op by op: time, work and bound of each. `total_time` of it equals `step_time`."""
    ops = step_ops(model, deployment, batch)
    return StepCost(
        ops={name: op_cost(op, hardware, efficiency) for name, op in ops.items()},
        host_time=host_time(batch, efficiency),
    )


def op_cost(op: Op, hardware: Hardware, efficiency: Efficiency) -> OpCost:
    """Cost of all runs of one op."""
    return OpCost(
        time=op.count * op_time(op, hardware, efficiency),
        flops=op.count * op_flops(op),
        bytes=op.count * (0.0 if op.bytes is None else op.bytes),
        message_bytes=op.count * (0.0 if op.message_bytes is None else op.message_bytes),
        bound=op_bound(op, hardware, efficiency),
    )


def op_flops(op: Op) -> Scalar:
    """FLOP of one run, matrix and vector units together."""
    return sum(flops for flops in (op.matrix_flops, op.vector_flops) if flops is not None)


def host_time(batch: Batch, efficiency: Efficiency) -> Scalar:
    """s of one step outside the kernels: per step, and per sequence that samples a token."""
    return efficiency.host.step_time + efficiency.host.sequence_time * batch.logits


def total_time(cost: StepCost) -> Scalar:
    """Time of the step in s."""
    return sum(op.time for op in cost.ops.values()) + cost.host_time


def total_bound(cost: StepCost) -> jax.Array:
    """The resource that binds most of the step's time, shape (): an int8 index into `BOUNDS`.

    Time is summed over ops by what binds each; host time counts as launch.
    """
    totals = []
    for index, name in enumerate(BOUNDS):
        total = cost.host_time if name == "launch" else 0.0
        totals.append(total + sum(jnp.where(op.bound == index, op.time, 0.0) for op in cost.ops.values()))
    return jnp.argmax(jnp.stack(totals)).astype(jnp.int8)

"""Ops of one step on a device: those of the model as it runs there, without the weights that stay in on-chip memory."""

import dataclasses

from jaxroof.batch import Batch
from jaxroof.deployment import Deployment
from jaxroof.hardware import Hardware
from jaxroof.memory.capacity import weight_bytes
from jaxroof.model import Model
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import minimum
from jaxroof.numerics.struct import Scalar
from jaxroof.op import PRODUCTS, AnyOp, Kernel, Ops, streamed
from jaxroof.step.forward import as_run
from jaxroof.step.overlap import overlapped_ops


def device_ops(hardware: Hardware, model: Model, deployment: Deployment, batch: Batch) -> Ops:
    """Ops of one step on one device of these, as they are launched, by name.

    Raises:
      ValueError: while tracing, when the hardware has no matrix figure for a precision that the model needs.
    """
    ops = overlapped_ops(as_run(model, hardware), deployment, batch)
    return with_resident_weights(ops, hardware, model, deployment)


def with_resident_weights(ops: Ops, hardware: Hardware, model: Model, deployment: Deployment) -> Ops:
    """The ops with the weights that stay on the chip from step to step among `held_bytes`, in place of `bytes`.

    Every product has the same share of its weights there: `resident_share`. The same ops where a device has no memory
    that keeps weights.
    """
    if hardware.memory.on_chip is None:
        return ops
    share = resident_share(hardware, model, deployment)
    return {name: _resident(op, share) for name, op in ops.items()}


def resident_share(hardware: Hardware, model: Model, deployment: Deployment) -> Scalar:
    """Share of the weights of the fullest device that its on-chip memory keeps from step to step, shape ().

    share = keeps_weights min(1, capacity / weights)

    Every step reads every weight once, so that none is worth more of the memory than another: what does not fit is
    streamed. Of experts all are kept to the same share, whichever a step asks for. 0 without such a memory.
    """
    on_chip = hardware.memory.on_chip
    if on_chip is None:
        return 0.0
    # A model without weights, as in a probe of structures, fits.
    fits = on_chip.capacity / jnp.maximum(weight_bytes(model, deployment), 1.0)
    return on_chip.keeps_weights * minimum(1.0, fits)


def _resident(op: AnyOp, share: Scalar) -> AnyOp:
    """A product whose weights are in part on the chip; any other op as it is."""
    if not isinstance(op, Kernel) or op.kind not in PRODUCTS or op.shape is None:
        return op
    shape = op.shape
    weights = shape.matrices * shape.inputs * shape.outputs * shape.weight_bytes
    return dataclasses.replace(streamed(op, share, weights), held_bytes=share * weights)

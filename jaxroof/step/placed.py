"""Ops of one step on a device: those of the model as it runs there, with what of them each of its memories moves."""

import dataclasses

from jaxroof.batch import Batch
from jaxroof.deployment import Deployment
from jaxroof.hardware import Hardware
from jaxroof.memory.capacity import kv_bytes_of_sequence
from jaxroof.memory.placement import DEVICE, Shares, cache_shares, placement, resident_share
from jaxroof.model import Model
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.struct import Scalar
from jaxroof.op import (
    ATTENTION_PHASES,
    PRODUCTS,
    TILED,
    AnyOp,
    AttentionShape,
    Kernel,
    Ops,
    ProductShape,
    cached_bytes,
    stored_bytes,
    streamed,
)
from jaxroof.step.forward import as_run, group_batch
from jaxroof.step.overlap import overlapped_ops


def device_ops(hardware: Hardware, model: Model, deployment: Deployment, batch: Batch) -> Ops:
    """Ops of one step on one device of these, as they are launched, by name.

    Raises:
      ValueError: while tracing, when the hardware has no matrix figure for a precision that the model needs.
    """
    ops = overlapped_ops(as_run(model, hardware), deployment, batch)
    return placed_ops(ops, hardware, model, deployment, batch)


def placed_ops(ops: Ops, hardware: Hardware, model: Model, deployment: Deployment, batch: Batch) -> Ops:
    """The ops with the bytes that device memory moves, and apart from them those of memories beside it and on chip.

    Weights that stay on the chip from step to step are not streamed: every product has the same share of its weights
    there, `resident_share`. The rest of them, and the KV cache, lie by `jaxroof.memory.placement`. The same ops where a
    device has no such memories.
    """
    memory = hardware.memory
    if memory.on_chip is None and memory.beside is None:
        return ops
    resident = resident_share(hardware, model, deployment)
    if memory.beside is None:
        return {name: _moved(op, resident, {}) for name, op in ops.items()}
    place = placement(hardware, model, deployment)
    caches = _caches(place.rooms, hardware, model, deployment, batch)
    shares = {"linear": place.weights, "experts": place.experts} | caches
    return {name: _moved(op, resident, shares) for name, op in ops.items()}


def _caches(rooms: Shares, hardware: Hardware, model: Model, deployment: Deployment, batch: Batch) -> dict[str, Shares]:
    """Shares of the KV cache by memory, by the kind of the attention that reads it: each fills memories by itself."""
    local = group_batch(batch, deployment)
    parts: dict[str, tuple[Scalar, Scalar]] = {}
    if local.prefill is not None:
        parts["prefill_attention"] = local.prefill.sequences, local.prefill.past + local.prefill.tokens
    if local.decode is not None:
        parts["decode_attention"] = local.decode.sequences, local.decode.context
    shares = {}
    for kind, (sequences, tokens) in parts.items():
        # Sums over sequences: the mean length of one, and as many of them.
        each = tokens / jnp.maximum(sequences, 1e-9)
        size = sequences * kv_bytes_of_sequence(model, deployment, each, batch.encoded)
        shares[kind] = cache_shares(size, rooms, hardware, deployment)
    return shares


def _moved(op: AnyOp, resident: Scalar, shares: dict[str, Shares]) -> AnyOp:
    """An op without the bytes that come from elsewhere than device memory; one that reads neither as it is."""
    if not isinstance(op, Kernel) or op.bytes is None or not isinstance(op.shape, TILED):
        return op
    if op.kind in PRODUCTS and isinstance(op.shape, ProductShape):
        stored, kept = stored_bytes(op.shape), resident
    elif op.kind in ATTENTION_PHASES and isinstance(op.shape, AttentionShape):
        stored, kept = cached_bytes(op.shape), 0.0
    else:
        return op
    # What stays on the chip is read from there, whichever memory it was loaded from.
    others = {name: (1.0 - kept) * share for name, share in shares.get(op.kind, {}).items() if name != DEVICE}
    beside = {name: share * stored for name, share in others.items()}
    held = kept * stored + sum(beside.values(), start=0.0)
    share = kept + sum(others.values(), start=0.0)
    if op.kind not in PRODUCTS:
        moved = dataclasses.replace(op, bytes=jnp.maximum(op.bytes - share * stored, 0.0))
    else:
        moved = streamed(op, share, stored)
    return dataclasses.replace(moved, held_bytes=held, beside_bytes=beside or None)

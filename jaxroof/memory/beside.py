"""Bytes of a kernel from elsewhere than its device memory: memories beside it, other dies, units in it."""

import dataclasses

from jaxroof.hardware import Hardware
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import maximum, positive_part
from jaxroof.numerics.struct import Scalar, given
from jaxroof.op import (
    TILED,
    AttentionShape,
    Kernel,
    ProductShape,
    cached_bytes,
    inner_bytes,
    stored_bytes,
    stored_elements,
)


def as_one_memory(op: Kernel, hardware: Hardware) -> Kernel:
    """The op as if device memory alone moved what all memories move at once: with bytes that take it as long.

    bytes = others + max(those of device memory, B of each memory beside it x bandwidth of device memory / its own)

    A kernel reads all memories at once, so that the slowest sets the time; kernels' models know one memory.
    """
    if not op.beside_bytes:
        return op
    own = _own_bytes(op)
    more = positive_part(beside_time(op, hardware) * hardware.memory.hbm.bandwidth - own)
    shape = op.shape
    if isinstance(shape, ProductShape):
        each = shape.weight_bytes + more / jnp.maximum(stored_elements(shape), 1.0)
        shape = dataclasses.replace(shape, weight_bytes=each)
    # As many bytes pass the levels inside as before.
    held = given(op.held_bytes, "bytes from elsewhere") - more
    return dataclasses.replace(op, bytes=given(op.bytes, "bytes of the kernel") + more, shape=shape, held_bytes=held)


def apart(times: dict[str, Scalar], op: Kernel, hardware: Hardware) -> dict[str, Scalar]:
    """Times by resource of `as_one_memory`, with those of memories beside device memory apart from its own."""
    longest = beside_time(op, hardware) * hardware.memory.hbm.bandwidth
    own = _own_bytes(op)
    # The time is that of the slower; the other has its share of it.
    whole = jnp.maximum(maximum(longest, own), 1.0)
    return {**times, "hbm": times["hbm"] * own / whole, "beside": times["hbm"] * longest / whole}


def beside_latency(op: Kernel, hardware: Hardware) -> Scalar:
    """Time in s that kernels wait for the first bytes of memories beside device memory, shape ()."""
    levels = given(hardware.memory.beside, "memory beside the device's own")
    waits = [jnp.where(moved > 0.0, levels[name].latency, 0.0) for name, moved in (op.beside_bytes or {}).items()]
    return op.kernels * maximum(*waits)


def beside_time(op: Kernel, hardware: Hardware) -> Scalar:
    """Time in s that the slowest memory beside device memory takes at its bandwidth, shape ()."""
    levels = given(hardware.memory.beside, "memory beside the device's own")
    # Devices that share a memory read it at the same time.
    times = [moved * levels[n].devices / levels[n].bandwidth for n, moved in (op.beside_bytes or {}).items()]
    return maximum(*times)


def _own_bytes(op: Kernel) -> Scalar:
    """B of weights, or of cached keys and values, that device memory moves: the rest of what is placed."""
    if isinstance(op.shape, AttentionShape):
        return positive_part(cached_bytes(op.shape) - sum((op.beside_bytes or {}).values()))
    return stored_bytes(op.shape)


def far_times(op: Kernel, hardware: Hardware, share: Scalar = 1.0) -> dict[str, Scalar]:
    """Time in s that links between dies take, which counts as the cache's; empty where there are none.

    1 - 1 / dies of all bytes are of another die than their core's, for pages are interleaved over all memories.

    Args:
      share: of the links' bandwidth that a kernel reaches.
    """
    dies = hardware.memory.dies
    if dies is None or op.bytes is None:
        return {}
    return {"l2": inner_bytes(op) * (1.0 - 1.0 / dies.count) / (dies.bandwidth * share)}


def near_times(op: Kernel, hardware: Hardware, share: Scalar) -> dict[str, Scalar]:
    """Time in s that units in the device memory take for one run of `op`, by resource; empty where there are none.

    Products and attention alone are theirs: their operands never leave the memory.

    Args:
      share: of the bandwidth inside the memory, and of their own rate, that they reach.
    """
    near = hardware.memory.near
    if near is None or op.matrix_flops is None or op.bytes is None or not isinstance(op.shape, TILED):
        return {}
    times = {"hbm": op.bytes / (near.bandwidth * share), "matrix": op.matrix_flops / (near.flops * share)}
    # What lies in other memories comes as fast as to the cores.
    return times | ({"beside": beside_time(op, hardware) / share} if op.beside_bytes else {})


def slower(times: dict[str, Scalar], others: dict[str, Scalar]) -> dict[str, Scalar]:
    """The longer of two times of each resource, by name."""
    both = {name: maximum(times[name], time) if name in times else time for name, time in others.items()}
    return {**times, **both}

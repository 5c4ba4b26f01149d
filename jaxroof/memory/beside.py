"""Time of what a kernel reads from elsewhere than its device memory: memories beside it, other dies, units in it."""

from jaxroof.hardware import Hardware
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import maximum
from jaxroof.numerics.struct import Scalar, given
from jaxroof.op import Kernel, inner_bytes


def beside_times(op: Kernel, hardware: Hardware, share: Scalar, cache_share: Scalar) -> dict[str, Scalar]:
    """Time in s that memories beside a device's own, and the links between its dies, take for one run of `op`.

    beside: the slowest of them, as a kernel reads all memories at once: latency + B / (share x bandwidth).
    l2: of all bytes from any memory 1 - 1 / dies come from another die than that of the core that reads them.
    Empty where a device has neither.

    Args:
      share: of a memory's bandwidth that kernels reach.
      cache_share: of the bandwidth between dies.
    """
    memory, times = hardware.memory, {}
    if op.beside_bytes:
        each = []
        for name, moved in op.beside_bytes.items():
            level = given(memory.beside, "memory beside the device's own")[name]
            # Devices that share a memory read it at the same time.
            time = moved * level.devices / (level.bandwidth * share)
            each.append(time + jnp.where(moved > 0.0, op.kernels * level.latency, 0.0))
        times["beside"] = maximum(*each)
    if memory.dies is not None and op.bytes is not None:
        # Pages are interleaved over the memories of all dies.
        far = inner_bytes(op) * (1.0 - 1.0 / memory.dies.count)
        times["l2"] = far / (memory.dies.bandwidth * cache_share)
    return times


def near_times(op: Kernel, hardware: Hardware, share: Scalar) -> dict[str, Scalar]:
    """Time in s that units in the device memory take for one run of `op`, by resource; empty where there are none.

    Products and attention alone are theirs: their operands never leave the memory.

    Args:
      share: of the bandwidth inside the memory that they reach.
    """
    near = hardware.memory.near
    if near is None or op.matrix_flops is None or op.bytes is None or op.shape is None:
        return {}
    return {"hbm": op.bytes / (near.bandwidth * share), "matrix": op.matrix_flops / near.flops}


def slower(times: dict[str, Scalar], others: dict[str, Scalar]) -> dict[str, Scalar]:
    """The longer of two times of each resource, by name."""
    both = {name: maximum(times[name], time) if name in times else time for name, time in others.items()}
    return {**times, **both}

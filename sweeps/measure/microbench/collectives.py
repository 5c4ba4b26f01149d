"""Times of an all-reduce and an all-gather over all devices, by the size of the message."""

import functools
from typing import NamedTuple

import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxroof.numerics.arrays import jax
from jaxroof.numerics.arrays import jax_numpy as jnp
from sweeps.measure.microbench.timing import Arrays, Measurement, Numbers, TimedWork, TimingProtocol, call_time

AXIS = "device"


class TimedCollective(NamedTuple):
    """One timed message."""

    name: str  # all_reduce or all_gather
    bytes: float  # of one device's whole buffer: the vector that is summed up, or what is gathered
    measurement: Measurement


def collective(name: str, message: int, numbers: Numbers, how: TimingProtocol) -> TimedCollective:
    """One size of one collective in bf16, calls one after another.

    Raises:
      ValueError: when there is only one device.
    """
    devices = jax.devices()
    if len(devices) < 2:
        raise ValueError("a collective needs more than one device")
    mesh, count = Mesh(np.array(devices), (AXIS,)), len(devices)
    # Elements of 2 B, a multiple of the number of devices, as every device has an equal part.
    size = max(count, message // 2 // count * count)
    # Every device holds a whole vector to reduce, but only its part of what is gathered.
    wanted = jax.ShapeDtypeStruct((count * size if name == "all_reduce" else size,), jnp.bfloat16)
    part = functools.partial(_reduced if name == "all_reduce" else _gathered, count)
    spec = PartitionSpec(AXIS)
    over = jax.shard_map(part, mesh=mesh, in_specs=spec, out_specs=spec)
    work = TimedWork(call=lambda state, cold: (over(state[0]),), state=(wanted,), feeds=True)
    return TimedCollective(name, 2.0 * size, call_time(work, _ShardedArrays(numbers, NamedSharding(mesh, spec)), how))  # type: ignore[arg-type]


def bus_bandwidth(timed_collective: TimedCollective, devices: int) -> float:
    """B/s over each device's links: the bytes that a ring moves over each of them, over the time."""
    # A ring moves (n - 1) / n of the message over each link to gather it, and twice that to reduce it everywhere.
    passes = (2.0 if timed_collective.name == "all_reduce" else 1.0) * (devices - 1.0) / devices
    return passes * timed_collective.bytes / timed_collective.measurement.seconds


class _ShardedArrays:
    """Random arrays, spread over the devices."""

    def __init__(self, numbers: Numbers, sharding: NamedSharding):
        self._numbers, self._sharding = numbers, sharding

    def array(self, wanted: jax.ShapeDtypeStruct) -> jax.Array:
        return jax.device_put(self._numbers.array(wanted), self._sharding)


def _reduced(count: int, mine: jax.Array) -> jax.Array:
    # The mean instead of the sum: results are fed back as state, and would overflow otherwise.
    total = jax.lax.psum(mine, AXIS) * jnp.asarray(1.0 / count, mine.dtype)
    return jax.lax.pcast(total, AXIS, to="varying") if hasattr(jax.lax, "pcast") else jax.lax.pvary(total, AXIS)  # type: ignore[attr-defined]


def _gathered(count: int, mine: jax.Array) -> Arrays:
    # The barrier keeps the compiler from gathering the used part alone.
    everything = jax.lax.optimization_barrier(jax.lax.all_gather(mine, AXIS, tiled=True))
    return jax.lax.dynamic_slice_in_dim(everything, jax.lax.axis_index(AXIS) * mine.shape[0], mine.shape[0])  # type: ignore[return-value]

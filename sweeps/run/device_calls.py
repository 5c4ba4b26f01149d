"""Calls of a program on one device or on several: the memory that they take, and one compilation for all devices.

On several devices one call computes as many chunks, each on a device of its own: the chunks' columns stand one after
the other in arrays that are spread over the devices. Every device runs what it would run alone.
"""

import dataclasses
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jaxroof.jobs import Scenario
from jaxroof.numerics.arrays import jax
from jaxroof.numerics.struct import Array
from jaxroof.numerics.tree import leaves, mapped
from sweeps.data.pieces import part_lengths

DEVICE_SHARE = 0.25
"""Of a device's memory for one call: two are on their way at once, and each has as much again in between."""

MOST_BYTES = 2.0**31
"""B of one call at most, which is 10^8 points with two outputs and lasts for milliseconds: larger calls hide no more of
their fixed cost, and the host must hold the outputs of three calls of every device."""

UNKNOWN_BYTES = 2.0**28
"""B of one call on a device that does not tell its memory."""

DEVICE_POINTS, DEVICE_PARTS = 1 << 20, 32
"""Least points of one call, and calls into which a larger sweep is cut at least: there is work for every device, whose
number must not matter for where a sweep is cut."""

TRIES = 4
"""Compilations until a call fits, at most."""

KEPT_BYTES = 2.0**30
"""B of columns of one axis that stay in a CPU's memory, and in that of other devices at most as much as a call takes;
of longer ones only those of the last call stay."""

DEVICES = "devices"
"""Name of the mesh's only axis."""

Results = dict[str, Array]


def device_bytes(devices: Sequence[Any]) -> float:
    """B of one call's buffers on these devices: a share of the memory of the smallest, at most `MOST_BYTES`.

    A share is a power of two, so that devices of one kind are given the same calls however much of their memory other
    programs hold.
    """
    # Not every platform reports its memory.
    limits = [(device.memory_stats() or {}).get("bytes_limit") for device in devices]
    known = [2.0 ** math.floor(math.log2(DEVICE_SHARE * limit)) for limit in limits if limit]
    return min([MOST_BYTES, *known]) if known else UNKNOWN_BYTES


def fitting_lengths(
    program: Any, sizes: list[int], settings: list[dict[str, Any]], devices: Sequence[Any]
) -> list[int]:
    """Positions along every axis of a call that fits into the devices' memory with all of its buffers.

    Shapes give the bytes of columns, partial sums and outputs; what a program needs beside them is read from the
    compiled one, which the calls then use.
    """
    budget, points = device_bytes(devices), math.prod(sizes)
    wanted = min(points, max(DEVICE_POINTS, math.ceil(points / DEVICE_PARTS)))
    for _ in range(TRIES):
        lengths = part_lengths(sizes, wanted)
        # Whole axes and the rest of one: fewer points are wanted until the shapes alone fit.
        while known_bytes(program, settings, lengths) > budget and wanted > 1:
            wanted = max(1, math.prod(lengths) // 2)
            lengths = part_lengths(sizes, wanted)
        needed = executables(program, lengths, devices).bytes
        if needed <= budget or wanted == 1:
            break
        # Buffers grow at most with the points: a call of this share of them fits unless some do not shrink.
        wanted = max(1, int(0.9 * math.prod(lengths) * budget / needed))
    return lengths


def known_bytes(program: Any, settings: list[dict[str, Any]], lengths: Sequence[int]) -> float:
    """B of a call's columns, partial sums and outputs, which follow from their shapes; without a compilation."""
    size = program.dtype.itemsize
    columns = sum(lengths[axis] for axis, setting in enumerate(settings) for leaf in leaves(setting) if leaf.ndim)
    between = sum(_points(dims, lengths) for dims in program.between)
    outputs = sum(
        _points(program.dims[name], lengths) * max(1, len(program.ops.get(name, ()))) for name in program.names
    )
    return float(size * (columns + between + outputs))


def _points(dims: frozenset[int], lengths: Sequence[int]) -> int:
    return math.prod(lengths[axis] for axis in dims)


@dataclasses.dataclass(frozen=True)
class Executables:
    """A program's two functions, compiled for chunks of some lengths on some devices."""

    first: Callable[..., Any]
    second: Callable[..., Any]
    bytes: float  # of the buffers of a call on each device, at most
    aliased: float  # of these, those that results take over from partial sums that are done with


def executables(program: Any, lengths: Sequence[int], devices: Sequence[Any]) -> Executables:
    """Both functions compiled, or those that are there already."""
    key = tuple(lengths), tuple(devices) if len(devices) > 1 else ()
    if key not in program.executables:
        program.executables[key] = _compiled(program, lengths, devices)
    return program.executables[key]


def _compiled(program: Any, lengths: Sequence[int], devices: Sequence[Any]) -> Executables:
    first, second = program.functions
    whole, spread, number = None, None, 1
    if len(devices) > 1:
        number = len(devices)
        first, second = _spread(program, _mesh(devices))
        whole, spread = _placements(devices)

    def shape(leaf: Any, axis: int) -> jax.ShapeDtypeStruct:
        # All chunks of a call stand one after the other in the columns that vary.
        size = (number * lengths[axis],) if leaf.ndim else ()
        return jax.ShapeDtypeStruct(size, program.dtype, sharding=spread if leaf.ndim else whole)

    base = mapped(lambda leaf: jax.ShapeDtypeStruct((), program.dtype, sharding=whole), program.base)
    columns = [mapped(lambda leaf, axis=axis: shape(leaf, axis), each) for axis, each in enumerate(program.example)]
    with warnings.catch_warnings():
        # Partial sums that no output is like are given back in vain.
        warnings.filterwarnings("ignore", "Some donated buffers were not usable")
        traced = jax.jit(first)
        one = traced.lower(base, columns).compile()
        # Codes keep the weak types that they were traced with, which promotions follow.
        found = jax.tree.map(lambda out: out.update(sharding=spread), jax.eval_shape(traced, base, columns))
        # Partial sums are done with once the outputs are there: outputs may take their place.
        two = jax.jit(second, donate_argnums=2).lower(base, columns, found).compile()
    sizes = [memory for memory in map(_memory, (one, two)) if memory is not None]
    needed = [arguments + outputs + others - aliased for arguments, outputs, others, aliased in sizes]
    return Executables(one, two, max(needed, default=0.0), sum(aliased for *_, aliased in sizes))


def _memory(compiled: Any) -> tuple[float, float, float, float] | None:
    """B of arguments, outputs and temporary buffers of a compiled function, and of outputs in place of arguments."""
    found = compiled.memory_analysis()
    if found is None:  # not every platform tells
        return None
    sizes = found.argument_size_in_bytes, found.output_size_in_bytes, found.temp_size_in_bytes
    return *map(float, sizes), float(found.alias_size_in_bytes)  # type: ignore[return-value]


def _mesh(devices: Sequence[Any]) -> Any:
    return jax.sharding.Mesh(np.array(devices), (DEVICES,))


def _placements(devices: Sequence[Any]) -> tuple[Any, Any]:
    """Placement of what every device reads, and of what they divide along the first dimension."""
    spec: Any = jax.sharding.PartitionSpec
    sharding: Any = jax.sharding.NamedSharding
    return sharding(_mesh(devices), spec()), sharding(_mesh(devices), spec(DEVICES))


def _spread(program: Any, mesh: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Both functions over all devices, each on its own chunk; a number becomes a column with one for each device."""
    first, second = program.functions
    all_of_it, own = jax.sharding.PartitionSpec(), jax.sharding.PartitionSpec(DEVICES)
    columns = [mapped(lambda leaf: own if leaf.ndim else all_of_it, each) for each in program.example]
    single = jax.tree.map(lambda dims: not dims, program.first_dims, is_leaf=lambda dims: isinstance(dims, frozenset))

    def columned(value: Any) -> Any:
        return value if value.ndim else value[None]

    def one(base: Scenario, parts: Any) -> Any:
        return jax.tree.map(columned, first(base, parts))

    def two(base: Scenario, parts: Any, found: Any) -> Any:
        plain = jax.tree.map(lambda alone, value: value[0] if alone else value, single, found)
        return jax.tree.map(columned, second(base, parts, plain))

    def over(function: Callable[..., Any], *more: Any) -> Callable[..., Any]:
        given = all_of_it, columns, *more
        return jax.shard_map(function, mesh=mesh, in_specs=given, out_specs=own, check_vma=False)

    return over(one), over(two, own)


class DeviceCalls:
    """A program over the parts of every axis that chunks read; parts are kept where they are needed again.

    Args:
      program: of the question.
      base: what the axes start from.
      settings: of every axis, whole.
      lengths: positions along every axis of one chunk.
      devices: that compute a chunk each in one call.
    """

    def __init__(
        self,
        program: Any,
        base: Scenario,
        settings: list[dict[str, Any]],
        lengths: Sequence[int],
        devices: Sequence[Any],
    ):
        self.devices = devices
        self._program, self._settings, self._lengths = program, settings, lengths
        self._executables = executables(program, lengths, devices)
        # None leaves the placement to JAX, which needs no copy to a chosen device.
        self._whole, self._spread = None, None
        if len(devices) > 1:
            self._whole, self._spread = _placements(devices)
        # Numbers that all calls share are sent once.
        self._base = jax.device_put(base, self._whole)
        self._parts: list[dict[tuple[int, ...], Any]] = [{} for _ in settings]
        room = KEPT_BYTES if devices[0].platform == "cpu" else device_bytes(devices)
        self._kept = [sum(leaf.nbytes for leaf in leaves(each)) <= room for each in settings]

    def __call__(self, starts: Sequence[Sequence[int]]) -> list[Results]:
        """Outputs of the chunks that begin at these positions, at most one for each device; nothing waits for them.

        Dimensions of an output are its axes in order, then ops; without any it is a column of one number.
        """
        # Devices without a chunk of their own compute the last one again.
        filled = [*starts, *[starts[-1]] * (len(self.devices) - len(starts))]
        columns = [self._part(axis, tuple(start[axis] for start in filled)) for axis in range(len(self._settings))]
        run = self._executables
        results = run.second(self._base, columns, run.first(self._base, columns))
        if self._spread is None:
            return [results]
        found: list[Results] = [{} for _ in starts]
        place = {device: i for i, device in enumerate(self.devices)}
        for name, array in results.items():
            for shard in array.addressable_shards:
                if place[shard.device] < len(starts):
                    found[place[shard.device]][name] = shard.data
        return found

    def own(self, results: Mapping[str, Array]) -> Results:
        """Outputs as they are without other devices: numbers are no columns."""
        if self._spread is None:
            return dict(results)
        shaped = self._program.dims, self._program.ops
        return {
            name: value if any(name in known and known[name] for known in shaped) else np.asarray(value)[0]
            for name, value in results.items()
        }

    def _part(self, axis: int, starts: tuple[int, ...]) -> dict[str, Any]:
        """Settings of all chunks of a call along an axis, where devices read them."""
        known = self._parts[axis]
        if starts not in known:
            if not self._kept[axis]:
                known.clear()
            length = self._lengths[axis]

            def placed(leaf: Any) -> Any:
                # A leaf of shape () does not vary along the axis and is passed as it is.
                if not leaf.ndim:
                    return jax.device_put(leaf, self._whole)
                parts = [leaf[start : start + length] for start in starts]
                return jax.device_put(parts[0] if len(parts) == 1 else np.concatenate(parts), self._spread)

            known[starts] = mapped(placed, self._settings[axis])
        return known[starts]


class DeviceBatch:
    """Chunks that one call computes, begun when there is one for each device, or when somebody waits for one."""

    def __init__(self, call: DeviceCalls):
        self.call = call
        self._starts: list[Sequence[int]] = []
        self._names: list[frozenset[str]] = []
        self._found: list[Results] = []

    @property
    def full(self) -> bool:
        """Whether every device has a chunk."""
        return len(self._starts) == len(self.call.devices)

    def add(self, starts: Sequence[int], names: frozenset[str]) -> Callable[[], Results]:
        """One more chunk, and outputs that the host will read; returns what gives its results."""
        number = len(self._starts)
        self._starts.append(starts)
        self._names.append(names)

        def results() -> Results:
            self.begin()
            # Let go of them here, so that devices have their memory back when the reader is done.
            found, self._found[number] = self._found[number], {}
            return self.call.own(found)

        return results

    def begin(self) -> None:
        """Compute, and copy to the host what it will read as soon as it is there; nothing waits for either."""
        if self._found:
            return
        self._found = self.call(self._starts)
        for names, results in zip(self._names, self._found, strict=True):
            for name in names:
                if name in results:
                    results[name].copy_to_host_async()

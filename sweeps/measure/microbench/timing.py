"""Time of one call of a kernel on a device: cold operands, no dispatch, and the spread of repeats."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxroof.numerics.arrays import jax
from jaxroof.numerics.arrays import jax_numpy as jnp

Arrays = tuple[jax.Array, ...]
"""What a call carries on, or what it reads cold."""

Carried = tuple[Arrays, Arrays]
"""The state, and the results of the last turn through the buffers."""


class TimedWork(NamedTuple):
    """One kernel as it is timed: `call(state, cold)` returns an array, or the next state where it feeds itself."""

    call: Callable[[Arrays, Arrays], Any]  # what it computes depends on the first element of its first state
    state: tuple[jax.ShapeDtypeStruct, ...]  # what a call after another one works on: activations, which are warm
    cold: tuple[jax.ShapeDtypeStruct, ...] = ()  # what every call reads from memory: weights, caches
    feeds: bool = False  # the result is the next call's state, as in a chain of layers


@dataclasses.dataclass(frozen=True)
class TimingProtocol:
    """Repetition of calls."""

    cold_bytes: float  # B that are read in turn, so that no cache still has the first of them at the second turn
    unroll: int  # calls in one compiled program
    loop: bool  # the program repeats itself as often as it is told; else it runs once per dispatch
    linked: bool  # each call waits for the one before it through its data; else the device's queue orders them
    sample_time: float = 2e-3  # s of one sample: many calls
    total_time: float = 8e-2  # s of all samples of a short kernel
    samples: int = 5  # at least
    long_samples: int = 3  # at least, of a long one
    buffers: int = 512  # most copies of the cold operands


class Measurement(NamedTuple):
    """Time of one call on the device."""

    seconds: float  # fastest tenth of the samples: what others do on the machine only adds to a time
    spread: float  # half the range that holds the middle half of the samples, over their median
    samples: int
    dispatch: float  # s that one dispatch of a program takes beside its calls; not in `seconds`
    bound_by_dispatch: bool  # the device may have waited for the host: `seconds` is an upper bound


FASTEST = 0.1
"""Quantile of the samples that counts as a kernel's time."""

LONG = 0.3
"""s of a sample from which fewer of them are enough."""


def protocol(platform: str, cache_bytes: float) -> TimingProtocol:
    """Repetition of calls on a platform of JAX.

    A CPU runs a loop of calls that are linked through their data, because it may run independent ones side by side.
    Elsewhere dispatches are asynchronous and a queue orders the calls: a program of several is dispatched again and
    again, and neither links nor a loop's condition add kernels of their own.
    """
    if platform == "cpu":
        return TimingProtocol(cold_bytes=2.0 * cache_bytes, unroll=4, loop=True, linked=True)
    return TimingProtocol(cold_bytes=2.0 * cache_bytes, unroll=24, loop=False, linked=False)


class Numbers:
    """Random arrays, drawn once: what comes of them is copied to the device without compiling anything."""

    def __init__(self, seed: int, size: int = 1 << 20):
        self._values = np.random.default_rng(seed).uniform(-0.05, 0.05, size).astype(np.float32)
        self._typed: dict[str, np.ndarray] = {}

    def array(self, wanted: jax.ShapeDtypeStruct) -> jax.Array:
        """An array of its own in the device's memory."""
        name = jnp.dtype(wanted.dtype).name
        if name not in self._typed:
            # Integers from -100 to 100, as the drawn numbers would all round to 0.
            scale = 2000.0 if jnp.issubdtype(wanted.dtype, jnp.integer) else 1.0
            self._typed[name] = (self._values * scale).astype(jnp.dtype(wanted.dtype))
        return jnp.array(np.resize(self._typed[name], wanted.shape), copy=True)


def call_time(work: TimedWork, numbers: Numbers, how: TimingProtocol, expected: float = 0.0) -> Measurement:
    """Time of one call in s: compile, warm up, then sample.

    Samples are back-to-back calls between two waits for the device. What a dispatch costs the host is measured with
    the same program run zero times and taken off where the host's time adds to the device's.

    Args:
      work: what runs.
      numbers: what it works on.
      how: its repeats.
      expected: s of one call; one that takes long needs no others in its program. 0: unknown, taken as short.
    """
    # So many copies of the cold operands that caches no longer hold the first when its turn comes again.
    size = sum(_bytes(array) for array in work.cold)
    copies = 1 if not size else min(how.buffers, max(2, int(np.ceil(how.cold_bytes / size))))
    # Calls in one program: a long call needs no others to outlast its dispatch.
    unroll = how.unroll if not expected else int(np.clip(round(how.sample_time / expected), 1, how.unroll))
    unroll = min(unroll, copies) if size else unroll
    # Copies by program and call: [sets][calls][operands].
    sets = [tuple(tuple(map(numbers.array, work.cold)) for _ in range(unroll)) for _ in range(-(-copies // unroll))]
    # The first run compiles, the second says about how long a run takes.
    run, results = _program(work, how, sets[0])
    carried = _waited(run(1, (tuple(map(numbers.array, work.state)), results), sets[0]))
    start = time.perf_counter()
    carried = _waited(run(1, carried, sets[-1]))
    once = max(time.perf_counter() - start, 1e-7)
    # Turns of the loop, and dispatches, that make up one sample.
    times = max(1, round(how.sample_time / once)) if how.loop and len(sets) == 1 else 1
    dispatches = max(1, min(1000, round(how.sample_time / (once * times))))
    empty = 0.0
    if how.loop:
        # What a dispatch takes without any turn of the loop.
        carried, empty = _empty(run, carried, sets[0])
    samples, issued, turn, begin = [], 0.0, 0, time.perf_counter()
    if times * dispatches == 1:
        samples.append(once)  # long enough to be one already
    least = how.long_samples if once > LONG else how.samples
    while len(samples) < least or (time.perf_counter() - begin < how.total_time and len(samples) < 1000):
        start = time.perf_counter()
        for _ in range(dispatches):
            carried = run(times, carried, sets[turn % len(sets)])
            turn += 1
        # Until here the host has only queued work; the wait after it is for the device.
        queued = time.perf_counter()
        _waited(carried)
        samples.append(time.perf_counter() - start)
        issued += queued - start
    # Issuing took nearly all of the time, so that the device may have waited for the host.
    waiting = not how.loop and issued > 0.9 * sum(samples) and turn > len(samples)
    if not how.loop:
        # Queued dispatches overlap with the device's work: told, but not taken off.
        empty = issued / max(turn, 1)
    calls = dispatches * times * unroll
    durations = np.sort(samples)
    device = durations - empty * dispatches if how.loop else durations
    device = np.maximum(device, 0.05 * durations) / calls  # never below what noise in the dispatches can hide
    median = float(np.median(device))
    return Measurement(
        seconds=float(np.quantile(device, FASTEST)),
        spread=float(np.quantile(device, 0.75) - np.quantile(device, 0.25)) / (2.0 * median),
        samples=len(samples),
        dispatch=empty,
        bound_by_dispatch=waiting,
    )


def _program(work: TimedWork, how: TimingProtocol, sample: tuple[Arrays, ...]) -> tuple[Callable[..., Carried], Arrays]:
    """`times` turns through buffers such as `sample`, compiled, and room for their results.

    Every call's operands depend on the numbers of an earlier one and every result is handed on whole, so that a
    compiler can neither hoist a call out of the loop nor compute a part of it; barriers keep calls from being merged.
    """

    def turn(carried: Carried, buffers: tuple[Arrays, ...]) -> Carried:
        state, results = carried[0], []
        for cold in buffers:
            given, cold = jax.lax.optimization_barrier((state, cold))
            result = jax.lax.optimization_barrier(work.call(given, cold))
            if work.feeds:
                state = result
                continue
            results.append(result)
            if how.linked:
                state = _after(state, [result])
        return (state if how.linked or work.feeds else _after(state, results)), tuple(results)

    def repeated(times: jax.Array, carried: Carried, buffers: tuple[Arrays, ...]) -> Carried:
        return jax.lax.fori_loop(0, times, lambda _, now: turn(now, buffers), carried)

    # Results are written into buffers that one turn hands to the next, so that none is allocated.
    shapes = jax.eval_shape(lambda state, buffers: turn((state, ()), buffers)[1], work.state, sample)
    room = tuple(jnp.zeros(array.shape, array.dtype) for array in shapes)
    if how.loop:
        return jax.jit(repeated, donate_argnums=1), room
    once = jax.jit(turn, donate_argnums=0, keep_unused=True)
    return lambda times, carried, buffers: once(carried, buffers), room


def _after(state: Arrays, results: list[jax.Array]) -> Arrays:
    """The state with the first elements of results in its own, so that what reads it waits for them.

    The number stays positive and far from where arithmetic is slow.
    """
    head, *rest = state
    firsts = [jax.lax.slice(result, (0,) * result.ndim, (1,) * result.ndim).reshape(()) for result in results]
    value = jnp.clip(sum(first.astype(jnp.float32) for first in firsts), 0.01, 0.05)
    value = value.astype(head.dtype).reshape((1,) * head.ndim)
    return (jax.lax.dynamic_update_slice(head, value, (0,) * head.ndim), *rest)


def _empty(run: Callable[..., Carried], carried: Carried, buffers: tuple[Arrays, ...]) -> tuple[Carried, float]:
    """s of one dispatch that calls nothing."""
    rounds, times = 8, []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(rounds):
            carried = run(0, carried, buffers)
        _waited(carried)
        times.append((time.perf_counter() - start) / rounds)
    return carried, float(min(times))


def _waited(carried: Carried) -> Carried:
    return jax.block_until_ready(carried)


def _bytes(array: jax.ShapeDtypeStruct) -> int:
    return int(np.prod(array.shape)) * jnp.dtype(array.dtype).itemsize

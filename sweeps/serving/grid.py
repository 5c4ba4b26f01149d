"""Many simulations at once: whatever can share a program runs in chunks on all cores, and every point has its metrics."""

import concurrent.futures
import dataclasses
import functools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxroof.deployment import degree, replica_devices
from jaxroof.legality import legal
from jaxroof.memory import kv_capacity_tokens, weight_bytes, weights_fit
from jaxroof.scheduler import Size, cache_blocks
from jaxroof.serving import Objective, serving_metrics
from jaxroof.traffic import Served, Timeline, Traffic
from sweeps.alike import alike
from sweeps.cases import compute_precisions
from sweeps.simulation import Serving, simulated, size_for

WIDTH = 32
"""Simulations of one call: from here on, more of them at once are no faster on a CPU."""

RECORD_BYTES = 600.0
"""B per request and simulation while it runs: two to three iterations of 100 B, twice when they are joined."""

MEMORY = 1.5e9
"""B of all records that are in memory at once."""

THREADS = 2
"""Chunks that run at once; XLA gives most of a simulation to one core."""

Metrics = dict[str, np.ndarray]
"""Variable -> its value at every point, shape [points]."""


def comparable(point: Serving) -> Serving:
    """The point with its hardware as `sweeps.alike.alike` has it, so that most accelerators share a program."""
    needed = {*compute_precisions(point.model), point.deployment.attention_compute}
    hardware = alike(jax.tree.map(float, point.hardware), needed)
    return dataclasses.replace(point, hardware=hardware)


def outcomes(
    points: Sequence[Serving],
    objective: Objective,
    progress: Callable[[int], None] = lambda points: None,
    width: int | None = None,
) -> Metrics:
    """What becomes of the traffic at every point: `serving_metrics`, memory, and figures per device and dollar.

    Points that differ in numbers only share a compiled program, whose calls are chunks of `width` simulations. Chunks
    are the same whatever the number of threads, and so are the results. Needs JAX's 64-bit mode.

    Args:
      points: traffic may differ in its number of requests.
      objective: of goodput; numbers.
      progress: called with the number of points that are done, from this thread.
      width: simulations per call; None: as many as pay, and fit in memory.

    Returns:
      Every variable, shape [points]. Where a deployment cannot be or nothing fits, flags say so and metrics are NaN.
    """
    points = [comparable(point) for point in points]
    found = {name: np.zeros(len(points), values.dtype) for name, values in _empty().items()}
    for where in _alike(points):
        for name, values in _bounds([points[i] for i in where]).items():
            found[name][where] = values
    progress(int(np.sum(~found["feasible"])))
    able = np.flatnonzero(found["feasible"])
    for group in _alike([points[i] for i in able]):
        where = able[group]
        for part, values in _simulated([points[i] for i in where], objective, progress, width):
            for name, numbers in values.items():
                found.setdefault(name, np.full(len(points), np.nan))[where[part]] = numbers
    return found


def _alike(points: Sequence[Serving]) -> list[np.ndarray]:
    """Positions of the points of every structure, in the order of their first."""
    kinds: dict[Any, list[int]] = {}
    for i, point in enumerate(points):
        kinds.setdefault(jax.tree.structure(point), []).append(i)
    return [np.array(where) for where in kinds.values()]


def _simulated(
    points: list[Serving], objective: Objective, progress: Callable[[int], None], width: int | None
) -> Iterator[tuple[np.ndarray, Metrics]]:
    """Positions and metrics of every chunk of points of one structure, as chunks end."""
    requests = max(len(point.traffic.isl) for point in points)
    width = min(width or _width(len(points), requests), len(points))
    together, axes = stacked(points, requests)
    size = size_for(together.traffic, together.policy)
    parts = [np.arange(low, min(low + width, len(points))) for low in range(0, len(points), width)]
    begun, stopped = threading.Event(), threading.Event()

    def outcome(number: int) -> tuple[np.ndarray, Metrics]:
        def went_on(done: int, requests: int) -> None:
            begun.set()
            if stopped.is_set():
                raise concurrent.futures.CancelledError

        if number:
            begun.wait()  # the first chunk compiles for all
        try:
            part = parts[number]
            chosen = np.concatenate([part, np.full(width - len(part), part[-1])])
            one = jax.tree.map(lambda leaf, axis: leaf if axis < 0 else leaf[chosen], together, axes)
            values = _outcome(one, jax.tree.map(lambda axis: None if axis < 0 else axis, axes), size, objective, went_on)
            return part, {name: column[: len(part)] for name, column in values.items()}
        finally:
            begun.set()

    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        running = [pool.submit(outcome, number) for number in range(len(parts))]
        try:
            for done in concurrent.futures.as_completed(running):
                part, values = done.result()
                progress(len(part))
                yield part, values
        finally:
            stopped.set()
            for waiting in running:
                waiting.cancel()


def _width(points: int, requests: int) -> int:
    """Simulations per call: chunks of one size, as many as there are threads at least."""
    most = max(int(MEMORY / (THREADS * RECORD_BYTES * requests)), 1)
    return math.ceil(points / max(math.ceil(points / min(WIDTH, most)), min(THREADS, points)))


def stacked(points: Sequence[Serving], requests: int) -> tuple[Serving, Serving]:
    """Points of one structure as one tree of arrays, and the axis of every leaf: 0, or -1 where all share it.

    Arrays that are the same object at every point are kept once; so an efficiency's tables, and the lengths of
    requests of which only the arrivals differ.
    """
    trees = [dataclasses.replace(point, traffic=padded(point.traffic, requests)) for point in points]
    leaves = [jax.tree.leaves(tree) for tree in trees]
    moving = {id(leaf) for tree in trees for leaf in (tree.traffic.arrival,)}
    columns, axes = [], []
    for column in zip(*leaves, strict=True):
        shared = np.ndim(column[0]) > 0 and id(column[0]) not in moving and all(leaf is column[0] for leaf in column)
        columns.append(np.asarray(column[0] if shared else np.stack(column), np.float64))
        axes.append(-1 if shared else 0)
    structure = jax.tree.structure(trees[0])
    return jax.tree.unflatten(structure, columns), jax.tree.unflatten(structure, axes)


def padded(traffic: Traffic, requests: int) -> Traffic:
    """The traffic with absent requests up to `requests`."""
    more = requests - len(traffic.isl)
    if not more:
        return traffic
    fills = {"arrival": math.inf, "isl": 1.0, "osl": 0.0, "group": -1.0, "shared": 0.0, "keep": 0.0}
    columns = {name: getattr(traffic, name) for name in fills if getattr(traffic, name) is not None}
    made = {name: np.concatenate([column, np.full(more, fills[name])]) for name, column in columns.items()}
    return Traffic(**made, clients=traffic.clients, think=traffic.think)


def _outcome(
    together: Serving, axes: Serving, size: Size, objective: Objective, progress: Callable[[int, int], None]
) -> Metrics:
    found, timeline = simulated(together, size, axes, progress)
    limits = jax.tree.map(np.float64, objective)
    frozen = tuple(jax.tree.structure(together).flatten_up_to(axes))
    return jax.device_get(_scores(jax.tree.structure(together), frozen)(together, found, timeline, limits))


@functools.lru_cache(maxsize=64)
def _scores(structure: Any, axes: tuple) -> Callable[..., dict[str, jax.Array]]:
    def one(point: Serving, found: Served, timeline: Timeline, objective: Objective) -> dict[str, jax.Array]:
        place = point.hardware, point.model, point.deployment
        metrics = serving_metrics(found, timeline, point.traffic, cache_blocks(*place, point.policy), objective)
        per_device = metrics["tokens_per_second"] / replica_devices(point.deployment)
        metrics["tokens_per_second_per_device"] = per_device
        metrics["usd_per_million_tokens"] = 1e6 * point.hardware.price / per_device
        return metrics

    return jax.jit(jax.vmap(one, in_axes=(jax.tree.unflatten(structure, axes), 0, 0, None)))


def _empty() -> Metrics:
    numbers = {name: np.zeros(0) for name in ("devices", "weight_bytes", "kv_capacity_tokens")}
    return numbers | {name: np.zeros(0, bool) for name in ("fits", "legal", "feasible")}


def _bounds(points: list[Serving]) -> Metrics:
    """Memory and legality of points of one structure."""
    small = [dataclasses.replace(point, efficiency=(), traffic=_lengths(point)) for point in points]
    together, _ = stacked(small, 1)
    return jax.device_get(jax.jit(jax.vmap(_bounds_at_a_point))(together))


def _lengths(point: Serving) -> Traffic:
    """One request: the shortest of all, which has to fit."""
    total = np.asarray(point.traffic.isl) + np.asarray(point.traffic.osl)
    there = np.asarray(point.traffic.osl) > 0
    return Traffic(arrival=np.zeros(1), isl=np.array([np.min(total[there])]), osl=np.zeros(1))


def _bounds_at_a_point(point: Serving) -> dict[str, jax.Array]:
    place = point.hardware, point.model, point.deployment
    room = kv_capacity_tokens(*place) * degree(point.deployment.attention_dp)
    blocks = cache_blocks(*place, point.policy)
    fits = weights_fit(*place) & (blocks * point.policy.block_size >= point.traffic.isl[0])
    split = legal(*place)
    return {
        "devices": jnp.asarray(replica_devices(point.deployment), float),
        "weight_bytes": jnp.asarray(weight_bytes(point.model, point.deployment), float),
        "kv_capacity_tokens": jnp.asarray(room, float),
        "fits": fits,
        "legal": split,
        "feasible": fits & split,
    }

"""Many simulations at once: points that share a program run in chunks on all cores, and every point has its metrics."""

import concurrent.futures
import dataclasses
import math
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from jaxroof.batch import Served, Traffic
from jaxroof.deployment import devices, replica_devices
from jaxroof.hardware import Links
from jaxroof.jobs import Scenario
from jaxroof.jobs.serve import RATES, Objective, Service, deployed_rates, serving_metrics
from jaxroof.memory.capacity import kv_capacity_tokens, weight_bytes, weights_fit
from jaxroof.memory.legality import legal
from jaxroof.numerics.arrays import eager, jax
from jaxroof.numerics.tree import structure
from jaxroof.scheduler import Size, cache_blocks
from sweeps.ask.alike import alike
from sweeps.ask.precisions import compute_precisions
from sweeps.run.simulated.classes import of_classes, padded_objective
from sweeps.run.simulated.lanes import are_short, each, power
from sweeps.run.simulated.simulation import simulated, size_for
from workloads.streams.stream import levels_of, padded

WIDTH = 32
"""Simulations of one call: more of them at once are no faster on a CPU."""

DEVICE_WIDTH = 4096
"""The same on a GPU or TPU, whose lanes would be idle otherwise; not measured on one."""

RECORD_BYTES = 600.0
"""B per request and simulation while it runs: two to three iterations of 100 B, twice when they are joined."""

MEMORY = 1.5e9
"""B of all records that are in memory at once."""

THREADS = 2
"""Chunks that run at once: XLA gives one core to most of a simulation."""

STANDSTILL = 64
"""Pieces of a simulation in which no request ends, after which none ever will."""

PIECES = 4
"""Pieces that metrics are compiled for at least: fewer are filled up to it."""

Metrics = dict[str, np.ndarray]
"""Variable -> its value at every point, shape [points]."""


def outcomes(
    points: Sequence[Scenario],
    progress: Callable[[int], None] = lambda points: None,
    width: int | None = None,
    among: Sequence[Scenario] | None = None,
) -> Metrics:
    """Outcome of the traffic at every point: `jaxroof.serving_metrics`, and figures per device and dollar.

    Points that differ in numbers only share a compiled program, which is called for `width` simulations at a time.
    These chunks are the same whatever the number of threads, and so are the results. Needs JAX's 64-bit mode.

    Args:
      points: each with the traffic of one replica; leaves are numbers, or NumPy arrays.
      progress: called with the number of points that are done, from this thread.
      width: simulations of one call of a program; None: as many as pay and fit in memory.
      among: points of which these are some, with as many requests: programs are made for all of them, so that other
        ones of them, asked for later, share these programs. None: these points.

    Returns:
      What `bounds` returns, and every metric, shape [points]: NaN where a deployment is not feasible. Rates are of all
      replicas, counts of one. Of traffic with classes also the metrics of each, all of one replica.
    """
    original, single = points, _all_single(points if among is None else among)
    # Hardware is made comparable, so that points of different accelerators share a program.
    points = _comparable(points, single)
    others = points if among is None else _comparable(among, single)
    # Bounds such as memory need no simulation, and only points within them are simulated.
    metrics = bounds(points)
    able = np.flatnonzero(metrics["feasible"])
    progress(len(points) - len(able))
    of_others = _structures(others)
    for group in _of_one_structure([points[i] for i in able]):
        where = able[group]
        chosen = [points[i] for i in where]
        (kind,) = _structures(chosen[:1])
        # Programs are sized for all points of this structure, those of later calls too.
        family = [other.workload for other, of in zip(others, of_others, strict=True) if of == kind]
        for part, values in _simulated(chosen, metrics["kv_blocks"][where], progress, width, family):
            for name, numbers in values.items():
                # Other structures may lack this metric: NaN stays there.
                metrics.setdefault(name, np.full(len(points), np.nan))[where[part]] = numbers
    # The simulation is of one replica; rates of the deployment follow from these.
    replica = {name: metrics.get(name, np.full(len(points), np.nan)) for name in RATES}
    with np.errstate(divide="ignore"):  # tokens that nobody finishes have no price
        rates = [deployed_rates(point, {name: replica[name][i] for name in RATES}) for i, point in enumerate(original)]
    for name in (*RATES, "tokens_per_second_per_device", "tokens_per_joule_at_tdp", "usd_per_million_tokens"):
        metrics[name] = np.array([rate.get(name, np.nan) for rate in rates], float)
    # A deployment that finishes no tokens has a cost per time but none per token.
    metrics["usd_per_million_tokens"][~(metrics["tokens_per_second"] > 0.0)] = np.nan
    return metrics


def _all_single(points: Sequence[Scenario]) -> bool:
    """Whether one device serves at every point: links are left out then, and stay where some have more than one."""
    return all(float(replica_devices(point.deployment)) == 1.0 for point in points)


def comparable(point: Scenario, single: bool = True) -> Scenario:
    """The point with its hardware replaced by `sweeps.ask.alike.alike`: most accelerators then share a program.

    Args:
      single: where one device serves, leave its links out too, over which nothing is sent.
    """
    needed = compute_precisions((point.model, point.deployment))
    hardware = alike(jax.tree.map(float, point.hardware), needed)
    if single and float(replica_devices(point.deployment)) == 1.0:
        # No collective crosses a link on one device, so that link parameters would split programs for nothing.
        hardware = dataclasses.replace(hardware, links=Links(scale_up=None, scale_out=None))
    return dataclasses.replace(point, hardware=hardware)


def _structures(points: Sequence[Scenario]) -> list[Hashable]:
    """Structure of every point, found once for all of one place."""
    known: dict[tuple[int, ...], Hashable] = {}
    found: list[Hashable] = []
    for point in points:
        place = id(point.hardware), id(point.model), id(point.deployment), id(point.efficiency)
        if place not in known:
            known[place] = structure(dataclasses.replace(point, workload=None))
        found.append((known[place], structure(point.workload)))
    return found


def _comparable(points: Sequence[Scenario], single: bool) -> list[Scenario]:
    """`comparable` of every point, once for all of one place."""
    known: dict[tuple[int, ...], Scenario] = {}
    found = []
    for point in points:
        place = id(point.hardware), id(point.model), id(point.deployment)
        if place not in known:
            known[place] = comparable(point, single)
        found.append(dataclasses.replace(point, hardware=known[place].hardware))
    return found


def bounds(points: Sequence[Scenario]) -> Metrics:
    """Known bounds of every point before it is simulated, shape [points].

    `devices`, `weight_bytes`, `kv_capacity_tokens` and `kv_blocks`; `fits`: the weights, and a KV cache for its
    shortest request; `legal` and `feasible`, as of every other job.
    """
    points = _comparable(points, _all_single(points))
    known_bounds: Metrics = {}
    for where in _of_one_structure(points):
        # Bounds use neither efficiency nor more than the shortest request: small trees stack fast.
        small = [dataclasses.replace(points[i], efficiency=(), workload=_shortest(points[i].workload)) for i in where]
        together, _ = stacked(small, once=False)
        with eager():
            bounded = _bounds(together)
        for name, values in bounded.items():
            known_bounds.setdefault(name, np.zeros(len(points), values.dtype))[where] = values
    return known_bounds


def stacked(points: Sequence[Scenario], once: bool = True) -> tuple[Scenario, Scenario]:
    """Points of one structure as one tree of arrays, and the axis of every leaf: 0, or -1 where all points share it.

    Requests are filled up to the same number, and their paths to the same length.

    Args:
      once: keep arrays that are the same object at every point once, such as the tables of an efficiency.
    """
    # Shapes have to agree for stacking: requests are padded to the longest traffic.
    requests = max(len(point.workload.traffic.isl) for point in points)
    levels = max(levels_of(point.workload.traffic) for point in points)
    works = [_filled_up(point.workload, requests, levels) for point in points]
    trees = [dataclasses.replace(point, workload=work) for point, work in zip(points, works, strict=True)]
    times = {id(tree.workload.traffic.arrival) for tree in trees}  # those differ next time
    columns, axes = [], []
    for column in zip(*map(jax.tree.leaves, trees), strict=True):
        first = column[0]
        # Only arrays of the same object are shared; equal numbers are stacked.
        shared = once and np.ndim(first) > 0 and id(first) not in times and all(leaf is first for leaf in column)
        columns.append(np.asarray(first if shared else np.stack(column), np.float64))
        axes.append(-1 if shared else 0)
    structure = jax.tree.structure(trees[0])
    return jax.tree.unflatten(structure, columns), jax.tree.unflatten(structure, axes)


def _filled_up(work: Service, requests: int, levels: int) -> Service:
    """The workload with absent requests up to this number, and paths of as many levels."""
    objective = padded_objective(work.objective, requests)
    return dataclasses.replace(work, traffic=padded(work.traffic, requests, levels), objective=objective)


def _of_one_structure(points: Sequence[Scenario]) -> list[np.ndarray]:
    """Positions of the points of every structure, in the order of their first."""
    kinds: dict[Any, list[int]] = {}
    for i, point in enumerate(points):
        kinds.setdefault(jax.tree.structure(point), []).append(i)
    return [np.array(where) for where in kinds.values()]


def _simulated(
    points: list[Scenario],
    blocks: np.ndarray,
    progress: Callable[[int], None],
    width: int | None,
    family: Sequence[Service],
) -> Iterator[tuple[np.ndarray, Metrics]]:
    """Positions and metrics of every chunk of points of one structure, as chunks end."""
    together, axes = stacked(points)
    work = together.workload
    width = width or min(_width(len(points), work.traffic.isl.shape[-1]), len(points))
    # Array sizes of the simulation, large enough for every point of the family.
    size = size_for(work.traffic, jax.tree.map(lambda *numbers: np.array(numbers), *(one.policy for one in family)))
    parts = [np.arange(low, min(low + width, len(points))) for low in range(0, len(points), width)]
    every = max(len(family), width)
    short = are_short(every, every * work.traffic.isl.shape[-1])
    begun, stopped = threading.Event(), threading.Event()

    def outcome(number: int) -> tuple[np.ndarray, Metrics]:
        last, since = -1, 0

        def went_on(done: int, requests: int) -> None:
            nonlocal last, since
            begun.set()
            # Pieces in a row without a further request that ended.
            since = since + 1 if done == last else 0
            last = done
            # Raised from the callback, since a running program cannot be cancelled from outside.
            if stopped.is_set():
                raise concurrent.futures.CancelledError
            if since >= STANDSTILL:
                raise ValueError(f"a simulation stands still with {done:,} of {requests:,} requests over: no step ends")

        if number:
            begun.wait()  # the first chunk compiles for all
        try:
            part = parts[number]
            # The last chunk repeats its last point up to the width that the program was compiled for.
            chosen = np.concatenate([part, np.full(width - len(part), part[-1])])
            one = jax.tree.map(lambda leaf, axis: leaf if axis < 0 else leaf[chosen], together, axes)
            values = _outcome(one, axes, size, blocks[chosen], short, went_on)
            return part, {name: column[: len(part)] for name, column in values.items()}
        # Also after an error, so that no other chunk waits for a compilation that has failed.
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
            # The caller may stop early: running chunks end at their next callback, waiting ones never start.
            stopped.set()
            for waiting in running:
                waiting.cancel()


def _width(points: int, requests: int) -> int:
    """Simulations per call: chunks of one size, as many as there are threads at least."""
    # Points per call within the memory budget.
    widest = WIDTH if jax.default_backend() == "cpu" else DEVICE_WIDTH
    most = min(max(int(MEMORY / (THREADS * RECORD_BYTES * requests)), 1), widest)
    # Equal chunks: the fewest that fit, but enough to keep every thread busy.
    return math.ceil(points / max(math.ceil(points / most), min(THREADS, points)))


def _outcome(
    together: Scenario,
    axes: Scenario,
    size: Size,
    blocks: np.ndarray,
    short: bool,
    progress: Callable[[int, int], None],
) -> Metrics:
    """Metrics of every simulation of a chunk, shape [simulations]; `short`: whether those of all chunks are few."""
    # JAX's marks for axes: None for leaves that all points share.
    varied = jax.tree.map(lambda axis: None if axis < 0 else axis, axes)
    outcome, timeline = simulated(together, size, varied, progress, short)
    work = together.workload
    lengths = Traffic(arrival=outcome.arrival, isl=work.traffic.isl, osl=work.traffic.osl)
    lengths = jax.tree.map(lambda values: np.broadcast_to(values, outcome.arrival.shape), lengths)
    clients = None if work.traffic.clients is None else np.ones(len(blocks))  # that there are some, not how many
    lengths = dataclasses.replace(lengths, think=np.zeros(len(blocks)), clients=clients)
    # Limits that all points share are repeated: there is one of each for every simulation.
    objective = jax.tree.map(
        lambda values, axis: np.broadcast_to(values, (len(blocks), *values.shape)) if axis < 0 else values,
        work.objective,
        axes.workload.objective,
    )

    if not short:  # a program is compiled for every length: few pieces are as good as one
        iterations = size.iterations * power(timeline.end.shape[1] / size.iterations, PIECES)
        more = iterations - timeline.end.shape[1]
        timeline = jax.tree.map(lambda values: np.pad(values, [(0, 0), (0, more)]), timeline)

    def scores(served: Served) -> Metrics:
        # The outcome of one class has the shapes of the whole run and uses the same program.
        with _one_at_a_time:
            given = served, timeline, lengths, blocks, objective
            return jax.device_get(each(serving_metrics, short, *given, quick=True))

    return scores(outcome) | of_classes(outcome, work.traffic.kind, scores)


_one_at_a_time = threading.Lock()
"""So that two threads do not both compile the scores."""


def _shortest(work: Service) -> Service:
    """The workload of the one request that has to fit."""
    traffic = work.traffic
    # Requests without output tokens are absent and do not count.
    there = np.asarray(traffic.osl) > 0.0
    least = int(np.argmin(np.where(there, traffic.isl + traffic.osl, np.inf)))
    only = slice(least, least + 1)
    single = Traffic(arrival=np.zeros(1), isl=traffic.isl[only], osl=traffic.osl[only])
    return dataclasses.replace(work, traffic=single, objective=Objective())


def _bounds(together: Scenario) -> Metrics:
    """`bounds` of stacked points, on NumPy."""
    place, work = (together.hardware, together.model, together.deployment), together.workload
    blocks = cache_blocks(*place, work.policy)
    # The longest that the shortest request gets, in tokens, against the cache in blocks of tokens.
    room = blocks * work.policy.block_size >= work.traffic.isl[:, 0] + work.traffic.osl[:, 0]
    fits, split = weights_fit(*place) & room, legal(*place)
    numbers = {
        "devices": devices(together.deployment),
        "weight_bytes": weight_bytes(together.model, together.deployment),
        "kv_capacity_tokens": kv_capacity_tokens(*place),
        "kv_blocks": blocks,
    }
    arrays = {name: np.asarray(value, float) for name, value in numbers.items()}
    return arrays | {"fits": np.asarray(fits), "legal": np.asarray(split), "feasible": np.asarray(fits & split)}

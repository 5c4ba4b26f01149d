"""Derivatives of a simulated service's metrics by numbers of its scenario, from the record of what it did.

The simulation is not run again: `sweeps.run.simulated.causes` says how metrics depend on durations, and the prices of
the steps that were made, all at once, how durations depend on the scenario. Decisions have no derivative.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxroof.batch import Served, Timeline
from jaxroof.jobs import Scenario
from jaxroof.jobs.scenario import Pool
from jaxroof.jobs.serve import Objective, serving_metrics
from jaxroof.memory.capacity import kv_bytes_per_token
from jaxroof.numerics.arrays import eager, jax
from jaxroof.numerics.arrays import jax_numpy as jnp
from jaxroof.numerics.derivatives import Dual
from jaxroof.numerics.struct import Scalar, given
from jaxroof.numerics.xla_options import LIGHT, QUICK
from jaxroof.prices.prices import step_prices
from jaxroof.prices.tables import Limits, StepPrices
from jaxroof.scheduler.advance import Work, step_times
from jaxroof.scheduler.service.handover import exposed
from sweeps.ask.axes import leaf
from sweeps.run.points import scenario_at
from sweeps.run.simulated.between import link_between, request_delay, waits_for_steps
from sweeps.run.simulated.causes import FIELDS, Causes, Durations
from sweeps.run.simulated.lanes import power
from sweeps.run.simulated.pieces import limits
from sweeps.run.simulated.routes import Routes
from sweeps.run.simulated.service import Serviced, Trace
from sweeps.run.simulated.simulation import drafting_tables

PIECE = 4096
"""Steps that are priced together: of more, what a derivative needs would not stay in a cache."""


class Steps(NamedTuple):
    """Steps of one kind of engine, leaves of shape [steps]; those that only fill up have no weight."""

    work: Work
    number: Any  # that were made
    decodes: Any  # 1: decode steps alone
    swapped: Any  # s
    loading: Any  # s
    overlap: Any  # share of loads that runs beside compute
    tokens: Any  # that were loaded from every tier, shape [steps, tiers]
    bandwidth: Any  # of every tier, tokens/s, shape [steps, tiers]
    weight: Any  # derivative of every metric by their time, shape [steps, metrics]


class Transfers(NamedTuple):
    """Caches that were sent, leaves of shape [transfers]."""

    isl: Any
    spent: Any  # s of the step that completed the prompt
    weight: Any  # shape [transfers, metrics]


RATE = "workload.rate"
"""Path of the rate of requests, which scales the times at which they are sent."""


def slopes(
    found: Serviced,
    scenario: Scenario,
    metrics: Sequence[str],
    paths: Sequence[str],
    routes: Routes,
    also: Sequence[Pool] = (),
    ties: bool = True,
) -> dict[str, dict[str, float]]:
    """Derivatives dy / d ln x of metrics by numbers of a scenario, by metric and path. Needs JAX's 64-bit mode.

    Args:
      found: a service that was simulated with a trace.
      scenario: it was simulated with; its workload is a `Service`.
      metrics: of `jaxroof.jobs.serve.serving_metrics`.
      paths: of real numbers of the scenario, and `RATE`.
      routes, also: it was simulated with; numbers of replicas of other kinds are not turned.
      ties: as of `sweeps.run.simulated.causes.Causes`.

    Raises:
      ValueError: one line, where images are encoded by workers of their own.
    """
    trace = given(found.trace, "trace of the simulation")
    if trace.records.encoded is not None:
        raise ValueError("encoders: times of workers that encode alone have no derivatives; leave encoders out")
    causes = Causes(trace.run, trace.records, scenario.workload.traffic, ties)
    of_requests, of_steps = _by_times(found, causes, scenario, tuple(metrics))
    weights = causes.backwards(of_requests, of_steps)
    link = trace.run.service.transfer
    transfers = None
    if link is not None:
        weights, transfers = _transfers(trace.records, causes, weights, trace.run)
    kinds = trace.kinds[np.asarray(trace.records.engine)[causes.steps]]
    drafting = [place[2].drafts is not None for place in _places(scenario, also)]
    steps = [
        _steps(trace.records, trace.run, causes, weights, np.flatnonzero(kinds == kind), drafts)
        for kind, drafts in enumerate(drafting)
    ]
    by_place = _by_places(trace, scenario, also, routes, found, steps, transfers, weights)

    # Of every number along x, 1 in its own direction of d ln x; and of what follows from it by laws.
    own = [path for path in paths if path != RATE]
    values = [float(leaf(scenario, path)) for path in own]
    along = {path: Dual(x, x * row) for path, x, row in zip(own, values, np.eye(len(own)), strict=True)}
    with eager():
        turned = jax.tree.leaves(_places(scenario_at(scenario, [along]), also))
    found_slopes = np.zeros((len(metrics), len(own)))
    for number, slope in zip(turned, jax.tree.leaves(by_place), strict=True):
        if isinstance(number, Dual):
            found_slopes += np.multiply.outer(slope, number.tangent)
    # A rate divides all times at which requests are sent.
    by_path = dict(zip(own, found_slopes.T, strict=True)) | {RATE: -weights.arrivals}
    return {name: {path: float(by_path[path][i]) for path in paths} for i, name in enumerate(metrics)}


# 1. From metrics to times.


def _by_times(
    found: Serviced, causes: Causes, scenario: Scenario, metrics: tuple[str, ...]
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Derivatives of metrics by times of requests, and by those of steps in the order of `causes.steps`."""
    times = {name: np.asarray(getattr(found.served, name)) for name in FIELDS}
    durations = [np.asarray(one.duration) for one in found.timelines]
    own = scenario.workload
    rest = found.served, tuple(found.timelines), own.traffic, tuple(found.blocks), own.objective
    with jax.numpy_dtype_promotion("standard"):
        of_requests, of_durations = _metric_slopes()(times, durations, *rest, metrics)
    # Timelines have the steps of every engine in their order.
    engine = np.asarray(given(found.trace, "trace").records.engine)[causes.steps]
    of_steps = np.zeros((len(metrics), len(causes.steps)))
    for number, slopes in enumerate(of_durations):
        own_steps = np.flatnonzero(engine == number)
        of_steps[:, own_steps] = np.asarray(slopes)[:, : len(own_steps)]
    return {name: np.nan_to_num(np.asarray(slopes)) for name, slopes in of_requests.items()}, of_steps


@functools.cache
def _metric_slopes() -> Callable[..., Any]:
    def values(
        times: dict[str, Any],
        durations: list[Any],
        served: Served,
        timelines: tuple[Timeline, ...],
        traffic: Any,
        blocks: Any,
        objective: Objective,
        names: tuple[str, ...],
    ) -> Any:
        # An engine's clock passes with its steps: what else it does has no effect on the times between tokens.
        together = []
        for one, duration in zip(timelines, durations, strict=True):
            later = jnp.cumsum(duration)
            end = one.end + (later - jax.lax.stop_gradient(later))
            together.append(dataclasses.replace(one, end=end, duration=duration))
        moved = dataclasses.replace(served, **times)
        metrics = serving_metrics(moved, together, traffic, blocks, objective)
        return jnp.stack([metrics[name] for name in names])

    return jax.jit(jax.jacrev(values, (0, 1)), static_argnums=7, compiler_options=dict(QUICK))


# 2. What steps and transfers have to do, with their weights.


def _steps(records: Any, run: Any, causes: Causes, weights: Durations, chosen: np.ndarray, drafts: bool) -> Steps:
    """Some steps, filled up to a power of two of them."""
    trace, ends, planned = records.trace, causes.steps[chosen], causes.planned[chosen]
    engine = np.asarray(records.engine)[ends]
    number = np.asarray(records.steps, float)[ends]
    rules = run.service.engines.tiers
    tokens, bandwidth = np.zeros((len(ends), 0)), np.ones((len(ends), 0))
    if rules is not None:
        tokens, bandwidth = causes.loaded(records)[chosen], np.asarray(rules.bandwidth)[engine]
    work = jax.tree.map(lambda column: np.asarray(column)[planned], trace.work)
    found = Steps(
        work=work if drafts else work._replace(drafted=None),
        number=number,
        decodes=(np.asarray(records.prompt)[ends] <= 0).astype(float),
        swapped=np.asarray(trace.swapped)[planned],
        loading=np.asarray(trace.loading)[planned],
        overlap=np.zeros(len(ends)) if rules is None else np.asarray(rules.overlap)[engine],
        tokens=tokens,
        bandwidth=bandwidth,
        weight=weights.steps[:, chosen].T,
    )
    more = power(len(ends), 64) - len(ends)

    def filled(column: Any) -> np.ndarray:
        # The last step again, or one of one token, whose weight is 0.
        return np.concatenate([column, np.broadcast_to(column[-1:] if len(column) else 1.0, (more, *column.shape[1:]))])

    return jax.tree.map(filled, found)._replace(weight=np.pad(found.weight, ((0, more), (0, 0))))


def _transfers(records: Any, causes: Causes, weights: Durations, run: Any) -> tuple[Durations, Transfers]:
    """Caches that were sent, and weights with what the steps before them have hidden."""
    link = jax.tree.map(np.asarray, run.service.transfer)
    isl = np.asarray(run.service.engines.isl, float)[np.asarray(records.accepted)[causes.transfers]]
    slower = np.minimum(link.rate[causes.sender], link.rate[causes.receiver])
    takes = link.latency + isl / slower
    pace = np.asarray(records.pace)[causes.steps]
    known = causes.spent >= 0
    spent = np.where(known, pace[np.maximum(causes.spent, 0)] if len(pace) else 0.0, 0.0)
    # A longer step hides more of a cache that is sent layer by layer.
    hides = known & (link.layers > 0.0) & (takes - spent > takes / np.maximum(link.layers, 1.0))
    steps = weights.steps.copy()
    for own, slopes in zip(steps, weights.transfers, strict=True):
        np.subtract.at(own, causes.spent[hides], slopes[hides])
    more = power(len(isl), 64) - len(isl)
    transfers = Transfers(
        isl=np.pad(isl, (0, more)),
        spent=np.pad(spent, (0, more)),
        weight=np.pad(weights.transfers.T, ((0, more), (0, 0))),
    )
    return weights._replace(steps=steps), transfers


# 3. From durations to the numbers of the places where engines run.


def _by_places(
    trace: Trace,
    scenario: Scenario,
    also: Sequence[Pool],
    routes: Routes,
    found: Serviced,
    steps: Sequence[Steps],
    transfers: Transfers | None,
    weights: Durations,
) -> list[Any]:
    """Derivatives of metrics by every number of every kind's place, leaves of shape [metrics, ...]."""
    traffic, policy = scenario.workload.traffic, scenario.workload.policy
    places = jax.tree.map(lambda number: np.asarray(number, float), _places(scenario, also))
    most = limits(trace.size)
    by_place = []
    for place, some, own in zip(places, steps, trace.policies, strict=True):
        beside = own.acceptance, own.hidden_host
        stacked = drafting_tables(place, scenario.workload, trace.size, 1)
        tables = jax.tree.map(lambda leaf: np.asarray(leaf)[0], stacked)
        of_tables, of_place = _step_slopes()(tables, place, some, beside, traffic.encode, most, routes.tier_names)
        through = _table_slopes()(place, traffic.encode, of_tables, most)
        by_place.append(_sum(of_place, through))
    waits = waits_for_steps(found.roles[0], policy)
    numbers = jax.tree.map(lambda number: np.asarray(number, float), (traffic, policy))
    others = _other_slopes()(
        places, transfers, weights.delay, *numbers, found.blocks[0], most, tuple(found.roles), waits, routes.layerwise
    )
    return _sum(by_place, others)


def _sum(one: Any, other: Any) -> Any:
    return jax.tree.map(np.add, *jax.device_get((one, other)))


@functools.cache
def _step_slopes() -> Callable[..., Any]:
    def total(
        tables: StepPrices,
        place: Any,
        steps: Steps,
        beside: tuple[Any, Any],
        encode: Any,
        most: Limits,
        tiers: tuple[str, ...],
    ) -> Any:
        hardware, model, deployment, efficiency = place
        _, price = step_prices(hardware, model, deployment, efficiency, most, *beside, tables, encode=encode)
        faster = [_speed(name, hardware, model, deployment) for name in tiers]

        def weighted(one: Steps) -> Any:
            return one.weight * _duration(one, price, faster)

        return jnp.sum(jax.lax.map(jax.checkpoint(weighted), steps, batch_size=PIECE), axis=0)

    return jax.jit(jax.jacrev(total, (0, 1)), static_argnums=(5, 6), compiler_options=dict(LIGHT))


@functools.cache
def _table_slopes() -> Callable[..., Any]:
    """Derivatives by numbers of a place of what has these derivatives by its price tables."""

    def back(place: Any, encode: Any, slopes: StepPrices, most: Limits) -> Any:
        def tables(place: Any) -> StepPrices:
            hardware, model, deployment, efficiency = place
            lengths = slopes.lengths
            return step_prices(hardware, model, deployment, efficiency, most, encode=encode, lengths=lengths)[0]

        _, pulled = jax.vjp(tables, place)
        return jax.vmap(lambda slope: pulled(slope)[0])(slopes)

    return jax.jit(back, static_argnums=3, compiler_options=dict(QUICK))


@functools.cache
def _other_slopes() -> Callable[..., Any]:
    """Derivatives of what passes outside of steps: requests on their way to a queue, and caches between pools."""

    def total(
        places: list[Any],
        transfers: Transfers | None,
        delay: Any,
        traffic: Any,
        policy: Any,
        blocks: Scalar,
        most: Limits,
        roles: tuple[int, ...],
        waits: bool,
        layerwise: bool,
    ) -> Any:
        beside = policy.acceptance, policy.hidden_host
        hardware, model, deployment, efficiency = places[0]
        price = None
        if waits:
            _, price = step_prices(hardware, model, deployment, efficiency, most, *beside, prompts=False)
        found = delay * request_delay(roles, price, traffic, policy, blocks, efficiency.host.request_time)
        if transfers is None:
            return found
        pools = [Pool(hardware=place[0], deployment=place[2], efficiency=place[3]) for place in places]
        link = link_between(pools[0], pools[1], model, traffic, layerwise)
        return found + exposed(link, transfers.isl, transfers.spent) @ transfers.weight

    return jax.jit(jax.jacrev(total), static_argnums=(6, 7, 8, 9), compiler_options=dict(QUICK))


def _places(scenario: Scenario, also: Sequence[Pool]) -> list[tuple[Any, Any, Any, Any]]:
    """Hardware, model, deployment and efficiency of every kind of engine, as `sweeps.run.simulated.service.kinds`."""
    own = Pool(hardware=scenario.hardware, deployment=scenario.deployment, efficiency=scenario.efficiency)
    pools = [own, *also] if scenario.prefill is None else [scenario.prefill, own]
    return [(pool.hardware, scenario.model, pool.deployment, pool.efficiency) for pool in pools]


def _duration(one: Steps, price: Any, faster: Sequence[Any]) -> Any:
    """s of some steps of an engine, with the cache that is moved and loaded before them."""
    each = step_times(price, one.work)
    first, last = each[0], each[-1]
    slope = jnp.where(one.decodes > 0.0, (last - first) / jnp.maximum(one.work.most - 1.0, 1.0), 0.0)
    time = one.number * first + slope * (0.5 * one.number * (one.number - 1.0))
    loading = one.loading
    for tier, speed in enumerate(faster):
        takes = one.tokens[tier] / one.bandwidth[tier]
        loading = loading + takes * (1.0 / speed - 1.0)
    return time + one.swapped + loading - one.overlap * jnp.minimum(time, loading)


def _speed(tier: str, hardware: Any, model: Any, deployment: Any) -> Any:
    """1, with the derivative of a tier's tokens per second relative to them."""
    path = {"host": hardware.memory.host, "ssd": hardware.memory.storage, "remote": hardware.links.scale_out}[tier]
    rate = (1.0 if path is None else path.bandwidth) / kv_bytes_per_token(model, deployment)
    return rate / jax.lax.stop_gradient(rate)

"""Simulated TTFT and TPOT of measured serving points: the benchmark's closed loop in front of each deployment."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import hwspaces
from jaxroof.batch import Batch, Decode, Prefill
from jaxroof.efficiency import Efficiency
from jaxroof.memory import kv_capacity_tokens
from jaxroof.policy import ORDERS, Policy
from jaxroof.price_tables import Limits
from jaxroof.scheduler import Size, begin, proceed, remaining, served
from jaxroof.struct import Scalar, struct
from jaxroof.traffic import STATUSES, Traffic
from sweeps.measure.validate.relative_errors import grouped
from sweeps.measure.validate.serving.deployment_labels import ENGINES
from sweeps.measure.validate.serving.precisions import has_experts
from sweeps.measure.validate.serving.scores import Prediction
from sweeps.measure.validate.serving.serving_points import ServingPoint
from sweeps.measure.validate.serving.step_tables import Tables, Unit, price
from sweeps.run.simulated.simulation import power
from workloads.traffic import padded

SEED = 1
"""Of the requests' lengths: every point has its own draw, the same in every run."""

PIECE = 1.25
"""Iterations per request between two looks at whether all simulations have ended."""

PIECES = 60
"""Pieces after which a simulation that has not ended counts as it is."""

LANES = 2**19
"""Requests that are simulated together: what their records take stays below 1 GB."""


@struct
class Lane:
    """One simulation."""

    tables: Tables
    traffic: Traffic
    policy: Policy
    blocks: Scalar  # of KV cache, all attention groups together
    delay: Scalar  # s between a request and its place in the queue


def engine_efficiencies(name: str | None = None) -> dict[str, Efficiency]:
    """Engine -> the constants of its kernels and its host: those called `name`, else the learned ones of each."""
    if name is None:
        return {engine: hwspaces.efficiency(f"learned-{engine}").efficiency for engine in ENGINES}
    return dict.fromkeys(ENGINES, hwspaces.efficiency(name).efficiency)  # one object: its kernels are priced together


def units(points: Sequence[ServingPoint], efficiencies: Mapping[str, Efficiency]) -> tuple[list[Unit], list[int]]:
    """What differs between the points in anything but their load, and which of them every point is."""
    found: dict[Any, int] = {}
    made, places = [], []
    for point in points:
        leaves, structure = jax.tree.flatten((point.hardware, point.model, point.deployment))
        key = (tuple(leaves), structure, point.engine)
        if key not in found:
            found[key] = len(made)
            made.append(Unit(point.hardware, point.model, point.deployment, efficiencies[point.engine]))
        places.append(found[key])
    return made, places


def extent(points: Sequence[ServingPoint]) -> Limits:
    """The largest step of any point."""
    rows = max(max(point.preset.budget * _groups(point), point.isl + point.concurrency) for point in points)
    return Limits(
        rows=power(rows, 4),
        sequences=power(max(point.concurrency for point in points), 4),
        context=power(max(point.isl + point.osl for point in points), 4),
    )


def lane_groups(points: Sequence[ServingPoint]) -> list[tuple[int, list[int]]]:
    """Which points are simulated together: their number of clients rounded up, and their indices."""
    groups = grouped(range(len(points)), lambda index: _clients(points[index]))
    return [
        (clients, members[first : first + most])
        for clients, members in sorted(groups.items())
        for most in [max(LANES // (10 * clients), 1)]
        for first in range(0, len(members), most)
    ]


def simulated_points(
    points: Sequence[ServingPoint], known: Sequence[Tables], efficiencies: Mapping[str, Efficiency]
) -> list[Prediction]:
    """The predictions of points that `lane_groups` puts into one group, from the tables of every one; in float64."""
    clients = _clients(points[0])
    lanes = [
        _lane(point, each, efficiencies[point.engine], 10 * clients) for point, each in zip(points, known, strict=True)
    ]
    return [
        Prediction(point, float(mean) + mean_first_time(point), float(tpot), int(answered), float(median))
        for point, mean, median, tpot, answered in zip(points, *_simulated(lanes, clients), strict=True)
    ]


def mean_first_time(point: ServingPoint) -> float:
    """s by which the first requests of all clients raise the mean over all requests."""
    return point.preset.first_time * point.concurrency / point.requests


def _clients(point: ServingPoint) -> int:
    return power(point.concurrency, 4)


def _lane(point: ServingPoint, tables: Tables, efficiency: Efficiency, requests: int) -> Lane:
    rules = policy(point)
    tokens = float(kv_capacity_tokens(point.hardware, point.model, point.deployment)) * _groups(point)
    # The front end works beside the engine's own process: the slower of the two counts.
    tables = dataclasses.replace(
        tables,
        step_time=tables.step_time + point.preset.step_time,
        sequence_time=max(tables.sequence_time, point.preset.token_time),
    )
    return Lane(
        tables=tables,
        traffic=padded(traffic(point, SEED + point.row), requests),
        policy=rules,
        blocks=np.floor(tokens / rules.block_size),
        delay=front_time(point, tables, efficiency),
    )


def front_time(point: ServingPoint, tables: Tables, efficiency: Efficiency) -> float:
    """s between a request and its place in the queue: the engine's front end, and steps that it waits for.

    An engine that launches steps before it has the results of the last one has launched `ahead_steps` of them when it
    finds a request.
    """
    mean = 0.5 * (1.0 + point.preset.low)
    context = mean * (point.isl + 0.5 * point.osl)
    clients = min(point.concurrency, point.preset.max_sequences * _groups(point))
    decode = Batch(
        prefill=Prefill(sequences=0.0, tokens=0.0, past=0.0),
        decode=Decode(sequences=clients, context=clients * context),
        logits=clients,
    )
    step = float(sum(price(tables, point.preset.hidden_host, decode, jnp.asarray(clients))))
    # A request comes at any time between two looks for new ones.
    preset = point.preset
    steps = preset.wait_steps + preset.ahead_steps + preset.first_steps + 0.5 * (preset.poll_steps - 1.0)
    more = preset.mixture_time if has_experts(point.model) else 0.0
    return float(efficiency.host.request_time) + point.preset.client_time + more + steps * step


def traffic(point: ServingPoint, seed: int) -> Traffic:
    """The closed loop of the benchmark: every client at once at 0 s, then a request per answer.

    Prompt and output lengths are independent, whole and uniform from `preset.low` times nominal to nominal, at least 1.

    Args:
      seed: of NumPy's PCG64; the same seed gives the same requests.

    Returns:
      Requests of shape [round(10 * clients)]; times in s.

    Source: `--dataset-name random --random-range-ratio --num-prompts --max-concurrency --request-rate inf` of the
    benchmark scripts of vLLM and InferenceX.
    """
    clients = max(round(point.concurrency), 1)
    count = max(round(point.requests), clients)
    draw = np.random.Generator(np.random.PCG64(seed))
    isl, osl = _lengths(draw, point.isl, point.preset.low, count), _lengths(draw, point.osl, point.preset.low, count)
    return Traffic(arrival=jnp.zeros(count), isl=jnp.asarray(isl), osl=jnp.asarray(osl), clients=float(clients))


def _lengths(draw: np.random.Generator, nominal: float, low: float, count: int) -> np.ndarray:
    """Whole tokens, uniform between low * nominal and nominal, both included, shape [count]."""
    high = max(int(nominal), 1)
    return draw.integers(max(int(nominal * low), 1), high, size=count, endpoint=True).astype(float)


def policy(point: ServingPoint) -> Policy:
    """The scheduler of the point's engine, as its suite started it, for all attention groups together.

    Prefixes are not cached.
    """
    preset, groups = point.preset, _groups(point)
    return Policy(
        order=float(ORDERS.index(preset.order)),
        token_budget=preset.budget * groups,
        max_sequences=preset.max_sequences * groups,
        chunked=float(preset.chunked),
        block_size=preset.block_size,
        reserve=float(preset.reserve),
        prefix_caching=0.0,
        graph_step=preset.graph_step * groups,
        graph_limit=preset.graph_limit * groups,
        hidden_host=float(preset.hidden_host),
    )


def _simulated(lanes: Sequence[Lane], clients: int) -> tuple[np.ndarray, ...]:
    """Mean and median of TTFT and mean TPOT in s of every lane, NaN where nothing was answered, and answered requests.

    Shapes [lanes].
    """
    together = jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf, float) for leaf in leaves]), *lanes)
    start, go, end = _programs(clients, jax.tree.structure(together))
    run = start(together)
    pieces = []
    for _ in range(PIECES):
        run, records, left = go(together, run)
        pieces.append(records)
        if not int(left):
            break
    records = jax.tree.map(lambda *parts: np.concatenate(parts, axis=-1), *jax.device_get(pieces))
    return jax.device_get(end(run, records, together.traffic.osl))


@functools.lru_cache(maxsize=32)
def _programs(clients: int, structure: Any) -> tuple[Callable, Callable, Callable]:
    size = Size(slots=max(clients, 16), iterations=max(int(PIECE * 10 * clients), 64), block=64)

    def start(lane: Lane) -> Any:
        return begin(lane.traffic, lane.policy, lane.blocks, size, lane.delay)

    def go(lane: Lane, run: Any) -> Any:
        priced = functools.partial(price, lane.tables, lane.policy.hidden_host)
        run, records = proceed(priced, run, lane.traffic, lane.policy, size)
        return run, records, remaining(run)

    def together(lanes: Any, runs: Any) -> Any:
        runs, records, left = jax.vmap(go)(lanes, runs)
        return runs, records, jnp.sum(left, dtype=jnp.int32)

    def one(run: Any, records: Any, osl: jax.Array) -> tuple[jax.Array, ...]:
        found, _ = served(run, records)
        done = found.status == STATUSES.index("finished")
        several = done & (osl > 1.5)
        tpot = (found.finish - found.first_token) / jnp.where(several, osl - 1.0, 1.0)
        ttft = found.first_token - found.arrival
        median = jnp.nanmedian(jnp.where(done, ttft, jnp.nan))
        return _mean(ttft, done), median, _mean(tpot, several), jnp.sum(done, dtype=jnp.int32)

    return jax.jit(jax.vmap(start)), jax.jit(together), jax.jit(jax.vmap(one))


def _mean(values: jax.Array, there: jax.Array) -> jax.Array:
    count = jnp.sum(there.astype(float))
    total = jnp.sum(jnp.where(there, values, 0.0))
    return jnp.where(count > 0.0, total / jnp.maximum(count, 1.0), jnp.nan)


def _groups(point: ServingPoint) -> Scalar:
    """Attention groups, which the scheduler treats as one with their budgets together."""
    return point.deployment.attention_dp or 1.0

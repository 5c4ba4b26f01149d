"""Job of a served stream in its steady state, in closed form: latencies, throughput, cost and power under load."""

import functools
from collections.abc import Callable, Iterator, Mapping

from jaxroof.batch import Policy
from jaxroof.deployment import replica_devices
from jaxroof.jobs.economics import economics
from jaxroof.jobs.fit import fit
from jaxroof.jobs.job import Job
from jaxroof.jobs.scenario import Scenario, lower
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import maximum
from jaxroof.numerics.struct import Array, Scalar, struct
from jaxroof.steady.engine import FULL, LEAST_BATCH, engine
from jaxroof.steady.latencies import MEANS, SHARES, wanted_share
from jaxroof.steady.search import batch_at, largest_batch, percentile
from jaxroof.steady.steady_state import Demand, SteadyState
from jaxroof.step.step import Terms

PERCENTILES = (50, 90, 95, 99)

METRICS = {
    "rate_use": lower("1", "requests per second over the most that the engine can answer"),
}
"""Metrics that no simulation has; the others have their names."""


@struct
class SteadyStream:
    """Requests that arrive as a Poisson stream, how engines schedule them, and limits on their latencies."""

    demand: Demand
    policy: Policy
    rate: Scalar | None = None  # requests/s of all replicas; None: the largest that keeps the limits
    limits: Mapping[str, Scalar] | None = None  # s of ttft, tpot, e2e, ttft_p99, tpot_mean ...
    share: Scalar = 0.95  # of the requests that keep the limits on ttft, tpot and e2e


class _Figures(Mapping[str, Scalar]):
    """Metrics that are computed when they are asked for: each is a program's part that others do without."""

    def __init__(self, figures: Mapping[str, Callable[[], Scalar]]):
        self._figures = figures

    def __getitem__(self, name: str) -> Scalar:
        return self._figures[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._figures)

    def __len__(self) -> int:
        return len(self._figures)


def steady_metrics(scenario: Scenario, sums: dict[str, Scalar], tables: dict[str, Terms]) -> Mapping[str, Scalar]:
    """Metrics of a served stream, by name; rates are of all replicas. Differentiable in every leaf.

    At `rate`, or where that is None at the largest rate that keeps the limits. `capacity` is the latter;
    `limit_ratio` is the largest of the latencies over their limits, at the rate, or without one on an idle engine:
    above 1 where no rate keeps them.
    """
    work, hardware, deployment = scenario.workload, scenario.hardware, scenario.deployment
    needs = work.demand
    of = engine(hardware, scenario.model, deployment, scenario.efficiency, needs, work.policy)
    if work.rate is None:
        # Without a rate: the load at which some limit is just kept.
        batch = largest_batch(of, work.limits, work.share)
        state = of.state(batch)
        # Use against the load of a full engine.
        load, use = state.load[..., 0], maximum(state.load / of.state(of.most * FULL).load, state.use)
    else:
        # Replicas are independent; each gets an even share of a Poisson stream.
        load = work.rate / deployment.dp
        batch, state, use = batch_at(of, load)
    tokens = load * needs.output
    figures: dict[str, Callable[[], Scalar]] = {
        "requests_per_second": lambda: load * deployment.dp,
        "rate_use": lambda: use[..., 0],
        "batch_mean": lambda: state.under_way[..., 0],
    }
    for latency in SHARES:
        figures[f"{latency}_mean"] = functools.partial(_mean, state, latency)
        for percent in PERCENTILES:
            figures[f"{latency}_p{percent}"] = functools.partial(_percentile, state, latency, percent / 100.0)
    if work.limits:

        def capacity() -> Scalar:
            largest = batch if work.rate is None else largest_batch(of, work.limits, work.share)
            return of.state(largest).load[..., 0] * deployment.dp

        def ratio() -> Scalar:
            # Without a rate the ratio is that of an idle engine: above 1 no load keeps the limits.
            idle = of.state(jnp.full_like(batch, LEAST_BATCH)) if work.rate is None else state
            return limit_ratio(idle, work.limits, work.share)[..., 0]

        figures |= {"capacity": capacity, "limit_ratio": ratio}
    power = None if of.joules is None else of.power(batch, state)[..., 0]
    # Mean power over mean token rate, of all devices of a replica.
    joules = None if power is None else power * replica_devices(deployment) / tokens
    known = {} if joules is None else {"power": power, "joules_per_token": joules, "tokens_per_joule": 1.0 / joules}
    known |= economics(hardware, deployment, tokens, joules)
    # Memory at the mean number of sequences under way, each of its mean length.
    known |= fit(scenario, needs.held, maximum(state.under_way[..., 0], 1.0), 0.0)
    return _Figures(figures | {name: functools.partial(_same, value) for name, value in known.items()})


def _same(value: Scalar) -> Scalar:
    return value


def _mean(state: SteadyState, latency: str) -> Scalar:
    return MEANS[latency](state)[..., 0]


def _percentile(state: SteadyState, latency: str, share: float) -> Scalar:
    return percentile(state, latency, share)[..., 0]


def limit_ratio(state: SteadyState, limits: Mapping[str, Scalar], share: Scalar) -> Array:
    """The largest of the latencies over their limits, shape [..., 1]."""
    ratios = []
    for name, limit in limits.items():
        latency, wanted = wanted_share(name, share)
        value = MEANS[latency](state) if wanted is None else percentile(state, latency, wanted)
        ratios.append(value / limit)
    return maximum(*ratios)


STEADY = Job("serve", SteadyStream, steady_metrics)

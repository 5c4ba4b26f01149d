"""The question of a served stream: percentiles of latencies, throughput, goodput, use of the engine, cost."""

import math
from collections.abc import Callable, Iterable, Sequence

from jaxroof.batch import STATUSES, Policy, Served, Timeline, Traffic
from jaxroof.jobs.economics import throughput
from jaxroof.jobs.job import Job
from jaxroof.jobs.scenario import Metric, Scenario, higher, lower
from jaxroof.memory import capacity
from jaxroof.numerics.arrays import at_hand, jnp, largest_so_far
from jaxroof.numerics.struct import Array, Scalar, struct
from jaxroof.step.step import Terms

PERCENTILES = (50, 90, 95, 99)

LATENCIES = {
    "ttft": "time to first token",
    "tpot": "time per output token after the first",
    "itl": "time between two tokens of a request",
    "e2e": "end-to-end latency",
    "queueing": "time from arrival to the first step that works on the prompt",
}
"""Latencies with a mean and percentiles: `ttft_mean`, `ttft_p50` ... `queueing_p99`."""

METRICS = {
    **{f"{name}_mean": lower("s", f"mean of the {words}") for name, words in LATENCIES.items()},
    **{
        f"{name}_p{percent}": lower("s", f"{percent}th percentile of the {words}")
        for name, words in LATENCIES.items()
        for percent in PERCENTILES
    },
    "requests_per_second": higher("1/s", "finished requests per second of all replicas, steady part of the run"),
    "prompt_tokens_per_second": higher("1/s", "prompt tokens per second of all replicas, steady part of the run"),
    "goodput": higher("1/s", "requests per second that keep every limit, all replicas, steady part of the run"),
    "run_tokens_per_second": higher("1/s", "output tokens per second of all replicas, whole run with its two ends"),
    "good_share": higher("1", "share of the requests that were sent that keep every limit"),
    "finished": Metric("1", "requests that were answered"),
    "refused": lower("1", "requests that are too long for the KV cache"),
    "rejected": lower("1", "requests that a full queue turned away"),
    "unfinished": lower("1", "requests that were left when the run ended"),
    "preemptions": lower("1", "times that a request's cache was taken away"),
    "cached_share": higher("1", "share of the prompt tokens that the prefix cache had"),
    "duration": Metric("s", "time from the first arrival to the last finish"),
    "utilization": Metric("1", "share of the time in which the engine works"),
    "batch_mean": Metric("1", "mean sequences that decode, while the engine works"),
    "batch_max": Metric("1", "most sequences that decode"),
    "kv_use_mean": Metric("1", "mean share of the KV cache in use, while the engine works"),
    "kv_use_max": Metric("1", "largest share of the KV cache in use"),
    "engine_steps": Metric("1", "steps of the engine"),
    "kv_blocks": higher("1", "blocks of KV cache of one replica"),
}
"""Metrics of a simulated engine."""

RATES = (
    *("requests_per_second", "tokens_per_second", "prompt_tokens_per_second", "goodput"),
    "run_tokens_per_second",
)
"""Metrics that add up over replicas."""

GROWS = 0.01
"""Share of a run's requests that wait on average, at most, for longer than two steps: a load that the engine cannot
sustain makes a queue that grows all the time, by twice this share of the load."""

KEEPS_UP = 0.9
"""Share of the requests that arrive in the steady part that are served in it, at least, where an engine keeps up with
them: less says that more and more run at once."""

SHORTEST = 0.5
"""Mean times of service that a steady part lasts at least."""


@struct
class Objective:
    """Limits in s that a request has to keep to be good: a service-level objective."""

    ttft: Scalar = math.inf
    tpot: Scalar = math.inf
    e2e: Scalar = math.inf


@struct
class Service:
    """Requests that one replica is sent over time, how its engine schedules them, and which of them count as good."""

    traffic: Traffic
    policy: Policy
    objective: Objective = Objective()


def serving_metrics(
    served: Served,
    timeline: Timeline | Sequence[Timeline],
    traffic: Traffic,
    blocks: Scalar | Sequence[Scalar],
    objective: Objective,
) -> dict[str, Array]:
    """Metrics of one simulation, shapes (); s, requests, tokens and shares.

    Latencies are those of finished requests. TPOT is vLLM's, (E2E - TTFT) / (output tokens - 1), of requests with
    more than one; ITL is the time between two tokens of a sequence, over all tokens. A request is good if it is
    finished and keeps every limit of the objective. Rates are those of the steady part: `steady_rate`.

    Differentiable in every time: percentiles have the gradient of the requests that they lie between.

    Args:
      timeline: of the engine, or of each of several that serve the requests together.
      blocks: of KV cache, or of each engine's.
    """
    timelines = (timeline,) if isinstance(timeline, Timeline) else tuple(timeline)
    each_blocks = (blocks,) if isinstance(timeline, Timeline) else tuple(blocks)
    served, timelines, traffic, each_blocks, objective = at_hand((served, timelines, traffic, each_blocks, objective))
    done = served.status == STATUSES.index("finished")
    osl = jnp.asarray(traffic.osl, dtype=float)
    several = done & (osl > 1.5)
    ttft, e2e = served.first_token - served.arrival, served.finish - served.arrival
    # TPOT is not defined for a single token; 1 keeps the quotient finite.
    tpot = (served.finish - served.first_token) / jnp.where(several, osl - 1.0, 1.0)
    # Gaps between tokens are weighted by the sequences that saw them.
    gaps, tokens = (jnp.concatenate(parts) for parts in zip(*map(token_gaps, timelines), strict=True))
    metrics: dict[str, Scalar] = {}
    for name, values, weights in (
        ("ttft", ttft, done.astype(float)),
        ("tpot", tpot, several.astype(float)),
        ("itl", gaps, tokens),
        ("e2e", e2e, done.astype(float)),
        ("queueing", served.admitted - served.arrival, done.astype(float)),
    ):
        metrics |= _distribution(name, values, weights)

    sent = (served.status != STATUSES.index("absent")) & jnp.isfinite(served.arrival)
    # The run begins with the first arrival and ends with the last finish: warm-up and drain are in it.
    begin = jnp.min(jnp.where(sent, served.arrival, jnp.inf))
    over = jnp.max(jnp.where(done, served.finish, -jnp.inf))
    span = jnp.where(over > begin, over - begin, 1.0)
    # Goodput (DistServe): requests that keep every limit.
    good = done & (ttft <= objective.ttft) & (~several | (tpot <= objective.tpot)) & (e2e <= objective.e2e)
    isl = jnp.asarray(traffic.isl, dtype=float)
    prompts = jnp.sum(jnp.where(done, isl, 0.0))
    # Up to two steps of waiting are the grain of the engine, not a queue.
    waits = jnp.maximum(metrics["queueing_mean"] - 2.0 * jnp.nan_to_num(metrics["tpot_mean"]), 0.0)
    rate = steady_rate(served, sent, done, waits, traffic.clients is None)
    tokens = jnp.sum(jnp.where(done, osl, 0.0))
    return metrics | {
        "duration": span,
        "requests_per_second": rate(jnp.ones_like(osl)),
        "tokens_per_second": rate(osl),
        "prompt_tokens_per_second": rate(isl),
        "goodput": rate(good.astype(float)),
        "run_tokens_per_second": tokens / span,
        "good_share": _count(good) / jnp.maximum(_count(sent), 1.0),
        **{name: _count(served.status == code) for code, name in enumerate(STATUSES[:-1])},
        "preemptions": jnp.sum(served.preemptions.astype(float)),
        "cached_share": jnp.sum(jnp.where(done, served.cached.astype(float), 0.0)) / jnp.maximum(prompts, 1.0),
        **_engine_metrics(timelines, each_blocks, span),
    }


def steady_rate(served: Served, sent: Array, done: Array, waits: Scalar, open_loop: bool) -> Callable[[Array], Array]:
    """Rate of anything that requests have, in units per s, in the steady part of a run: without its two ends.

    In an open loop that the engine keeps up with, requests are answered as fast as they arrive: the rate is that of the
    arrivals, from the first to the last of them. It keeps up where no queue grows (`GROWS`) and where it serves what
    arrives (`KEEPS_UP`).

    Elsewhere the rate is that of the work done between two moments: one mean time of service after the first request
    was begun, when as many run as do in the middle, and the begin of the last request, after which the engine drains. A
    request counts by the share of its time of service, from its begin to its last token, that lies between them. It
    begins with the first step that works on it, in a closed loop when its client sends it. Without `SHORTEST` such
    times between the two moments the run has no steady part, and the rate is that of all of it.

    Args:
      served: outcome of the requests, shape [requests].
      sent, done: which of them were sent, and answered; bool, shape [requests].
      waits: s that requests wait on average for longer than two steps.
      open_loop: whether requests arrive when they say, not when others end.

    Returns:
      From amounts of shape [requests] to their rate, shape (). Differentiable in every time.
    """

    def ends(times: Array, known: Array) -> tuple[Array, Array]:
        return jnp.min(jnp.where(known, times, jnp.inf)), jnp.max(jnp.where(known, times, -jnp.inf))

    def positive(value: Array, other: Scalar = 1.0) -> Array:
        return jnp.where(jnp.isfinite(value) & (value > 0.0), value, other)

    first, last = ends(served.arrival, sent)
    over = ends(served.finish, done)[1]
    makespan = positive(over - first)
    begins = served.admitted if open_loop else served.arrival
    begun, ended = jnp.where(done, begins, 0.0), jnp.where(done, served.finish, 0.0)
    # Time in service, from begin to last token; the bound keeps divisions finite.
    service = jnp.where(done, positive(ended - begun, 1e-30), 0.0)
    mean = jnp.sum(service) / jnp.maximum(_count(done), 1.0)
    start, stop = ends(begins, done)
    # After one mean time of service as many sequences run as in the middle.
    start = start + mean
    lasts = jnp.isfinite(start) & (stop - start >= SHORTEST * mean)
    low, high = jnp.where(lasts, start, 0.0), jnp.where(lasts, stop, 1.0)
    inside = jnp.maximum(jnp.minimum(ended, high) - jnp.maximum(begun, low), 0.0)
    # A request counts by the part of its service that lies in the window, so that ends do not bias the rate.
    share = jnp.where(done, inside / jnp.where(done, service, 1.0), 0.0)

    span = positive(last - first)
    arrived = _count(sent & (served.arrival >= low) & (served.arrival < high))
    keeps = open_loop & (last > first) & lasts & (waits <= GROWS * span)
    keeps = keeps & (jnp.sum(share) >= KEEPS_UP * arrived)
    # Arrivals that are all served: throughput is the arrival rate.
    every = (1.0 - 1.0 / jnp.maximum(_count(sent), 1.0)) / span  # n requests are n - 1 intervals

    def rate(amounts: Array) -> Array:
        finished = jnp.where(done, amounts, 0.0)
        part = jnp.where(lasts, jnp.sum(finished * share) / (high - low), jnp.sum(finished) / makespan)
        return jnp.where(keeps, jnp.sum(finished) * every, part)

    return rate


def _engine_metrics(timelines: Sequence[Timeline], blocks: Sequence[Scalar], span: Scalar) -> dict[str, Array]:
    """Use of the engines, their batches and caches; means are over the time in which they work."""

    def all_of(parts: Iterable[Array]) -> Array:
        return jnp.concatenate(list(parts))

    works = [jnp.where(one.steps > 0, one.duration, 0.0) for one in timelines]
    busy = all_of(works)
    # Engines of a pool for prompts never decode.
    decodes = all_of(
        jnp.where(jnp.any(one.decoding > 0), time, 0.0) for time, one in zip(works, timelines, strict=True)
    )
    working = jnp.sum(busy)
    some = jnp.maximum(working, 1e-30)
    batch = all_of(one.decoding.astype(float) for one in timelines)
    shares = zip(timelines, blocks, strict=True)
    used = all_of(one.blocks.astype(float) / jnp.where(there > 0.0, there, 1.0) for one, there in shares)
    return {
        "utilization": working / (span * len(timelines)),
        "batch_mean": jnp.sum(decodes * batch) / jnp.maximum(jnp.sum(decodes), 1e-30),
        "batch_max": jnp.max(batch),
        "kv_use_mean": jnp.sum(busy * used) / some,
        "kv_use_max": jnp.max(used),
        "engine_steps": jnp.sum(all_of(one.steps.astype(float) for one in timelines)),
    }


def token_gaps(timeline: Timeline) -> tuple[Array, Array]:
    """Times in s between two tokens of a sequence, and how many tokens came after each; shapes [3 iterations].

    Of sequences that decoded before, the first of several steps includes what the engine did since: prompts in steps of
    their own. Those whose prompts were completed since then have waited for nothing.
    """
    decodes = (timeline.decoding > 0) & (timeline.steps > 0)
    steps = jnp.where(decodes, timeline.steps, 1).astype(float)
    each = jnp.where(decodes, timeline.duration / steps, 0.0)
    start = timeline.end - timeline.duration
    ends = jnp.where(decodes, timeline.end, -jnp.inf)
    # End of the decode step before, for each iteration: prompts' steps in between lengthen the next gap.
    before = jnp.concatenate([jnp.full(1, -jnp.inf, ends.dtype), largest_so_far(ends)[:-1]])
    held = jnp.where(decodes & jnp.isfinite(before), start - jnp.where(jnp.isfinite(before), before, 0.0), 0.0)
    tokens = jnp.where(decodes, timeline.decoding, 0).astype(float)
    places = jnp.arange(decodes.shape[0], dtype=jnp.int32)
    last = largest_so_far(jnp.where(decodes, places, -1))
    last = jnp.concatenate([jnp.full(1, -1, jnp.int32), last[:-1]])
    joined = jnp.concatenate([jnp.zeros(1), jnp.cumsum(timeline.joined.astype(float))])  # before each iteration
    # Sequences that have just joined have no token before the step: their first gap is the step itself.
    new = jnp.minimum(joined[:-1] - jnp.where(last >= 0, joined[jnp.maximum(last, 0)], 0.0), tokens)
    # First gap of those that decoded before, first gap of new ones, and the other gaps of a run of equal steps.
    return jnp.concatenate([each + held, each, each]), jnp.concatenate([tokens - new, new, tokens * (steps - 1.0)])


def weighted_percentile(values: Array, weights: Array, shares: Array) -> Array:
    """The values below which `shares` of the weight lie, shape [shares]: NaN without any weight.

    Of equal weights, the linear interpolation that NumPy's `percentile` makes.

    Args:
      values, weights: shape [n]; values without weight may be anything.
      shares: from 0 to 1, shape [shares].
    """
    known = weights > 0.0
    # Values without weight go to the end.
    order = jnp.argsort(jnp.where(known, values, jnp.inf), stable=True)
    ordered, weight = jnp.where(known, values, 0.0)[order], jnp.where(known, weights, 0.0)[order]
    # Cumulative weights: each value covers an interval of ranks.
    ends = jnp.cumsum(weight)
    total, least = ends[-1], jnp.min(jnp.where(known, weights, jnp.inf))
    unit = jnp.where(jnp.isfinite(least), least, 1.0)
    # Ranks as if each unit of the least weight were one sample.
    places = shares * (total - jnp.where(jnp.isfinite(least), least, 0.0))  # NumPy's (n - 1) q, in units of weight
    last = jnp.maximum(jnp.sum(known, dtype=jnp.int32) - 1, 0)
    upper = jnp.minimum(jnp.searchsorted(ends, places, side="right").astype(jnp.int32), last)
    # Between the last unit of one value and the first of the next, the value moves from one to the other.
    inside = jnp.where(jnp.isfinite(least), (ends[upper] - places) / unit, 1.0)
    after = jnp.minimum(upper + 1, last)
    share_after = jnp.clip(1.0 - inside, 0.0, 1.0)
    percentiles = ordered[upper] * (1.0 - share_after) + ordered[after] * share_after
    return jnp.where(total > 0.0, percentiles, jnp.nan)


def _distribution(name: str, values: Array, weights: Array) -> dict[str, Array]:
    total = jnp.sum(weights)
    mean = jnp.sum(jnp.where(weights > 0.0, values, 0.0) * weights) / jnp.where(total > 0.0, total, 1.0)
    metrics = {f"{name}_mean": jnp.where(total > 0.0, mean, jnp.nan)}
    percentiles = weighted_percentile(values, weights, jnp.asarray(PERCENTILES, values.dtype) / 100.0)
    return metrics | {f"{name}_p{p}": percentiles[i] for i, p in enumerate(PERCENTILES)}


def _count(condition: Array) -> Array:
    return jnp.sum(condition.astype(float))


def deployed_rates(scenario: Scenario, replica: dict[str, Scalar]) -> dict[str, Scalar]:
    """Rates of all replicas from those of the simulated one, per device, and per watt and dollar.

    Args:
      replica: `serving_metrics`; those of `RATES` are read.
    """
    rates = {name: replica[name] * scenario.deployment.dp for name in RATES}
    return rates | throughput(scenario.hardware, scenario.deployment, replica["tokens_per_second"])


def deployed_metrics(scenario: Scenario, sums: dict[str, Scalar], tables: dict[str, Terms]) -> dict[str, Scalar]:
    """Metrics of a deployment: rates are of all replicas, counts and latencies of the simulated one.

    Args:
      sums: `serving_metrics` of the simulated replica.
    """
    place = scenario.hardware, scenario.model, scenario.deployment
    return {
        **sums,
        **deployed_rates(scenario, sums),
        "weight_bytes": capacity.weight_bytes(scenario.model, scenario.deployment),
        "kv_capacity_tokens": capacity.kv_capacity_tokens(*place),
    }


SERVE = Job("serve", Service, deployed_metrics, simulated=True)

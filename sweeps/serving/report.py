"""Sentences on a simulation: its service-level objective, and requests that were not served."""

import dataclasses
import math

import numpy as np

from hwspaces import formatted
from jaxroof.batch import STATUSES
from jaxroof.numerics.struct import Array, given
from jaxroof.scheduler.service.outcomes import Places
from sweeps.data.labels import number
from sweeps.run.simulated.objective import WORDS, limits, slo_text
from sweeps.serving.run import Simulation, waiting


def request_columns(simulation: Simulation) -> dict[str, Array]:
    """Outcome of every request of the replica, in the order in which they were given. Shape [requests] each."""
    served, stream = simulation.served, simulation.replica.stream
    done = served.status == STATUSES.index("finished")
    decoded = served.finish - served.first_token
    arrival = served.arrival
    # In an open loop the stream says when a request is sent, also where the simulation does not.
    if simulation.load.clients is None:
        arrival = np.where(np.isfinite(arrival), arrival, stream.arrival)
    return {
        "arrival": arrival,
        "ttft": served.first_token - served.arrival,
        # Time per output token is of those after the first.
        "tpot": np.where(stream.osl > 1, decoded / np.maximum(stream.osl - 1, 1), np.nan),
        "e2e": np.where(done, served.finish - served.arrival, np.nan),
        "queueing": served.admitted - served.arrival,
        "isl": stream.isl.astype(np.int32),
        "osl": stream.osl.astype(np.int32),
        "status": served.status.astype(np.int8),
        "preempted": served.preemptions.astype(np.int32),
        "cached": served.cached.astype(np.int32),
        **({} if stream.kind is None else {"request_class": stream.kind.astype(np.int8)}),
        **({} if simulation.places is None else _places(simulation.places)),
    }


def _places(places: Places) -> dict[str, Array]:
    """Engines of every request, those of a decode pool only where there are some."""
    own = {"replica": np.asarray(places.first, np.int32)}
    then = np.asarray(places.then, np.int32)
    return own | ({"decode_replica": then} if (then >= 0).any() else {})


def prompt_shares(simulation: Simulation) -> dict[str, float]:
    """Shares of the prompt tokens of finished requests by where they came from, 1 together.

    `hbm`: the devices' cache; tiers by their names; `again`: computed, though an earlier request had them; `new`:
    computed, as no earlier one had.
    """
    served, stream = simulation.served, simulation.replica.stream
    done = served.status == STATUSES.index("finished")
    names = () if simulation.routes is None else simulation.routes.tier_names
    cached = np.asarray(served.cached, float)
    loaded = np.zeros((len(done), 0)) if simulation.places is None else np.asarray(simulation.places.loaded, float)
    columns = {"hbm": cached - np.sum(loaded, axis=1), **dict(zip(names, loaded.T, strict=True))}
    columns["again"] = np.maximum(stream.shared - cached, 0.0)
    columns["new"] = stream.isl - cached - columns["again"]
    prompts = max(float(np.sum(stream.isl[done])), 1.0)
    return {name: float(np.sum(tokens[done])) / prompts for name, tokens in columns.items()}


def replica_loads(simulation: Simulation) -> np.ndarray:
    """Requests that every replica has which a router sends new ones to, mean over the run, shape [replicas]."""
    served, places = simulation.served, given(simulation.places, "replicas of requests")
    pool = simulation.case.scenario.prefill
    # A replica for prompts has a request until its first token.
    ends = served.finish if pool is None else served.first_token
    spans = np.nan_to_num(np.asarray(ends - served.arrival, float))
    there = np.asarray(places.first) >= 0
    count = simulation.replicas if pool is None else int(pool.deployment.dp)
    return np.bincount(places.first[there], spans[there], count) / max(simulation.metrics["duration"], 1e-30)


def iteration_columns(simulation: Simulation) -> dict[str, np.ndarray]:
    """Timeline of the replica's engine. Shape [iterations] each."""
    timeline = simulation.timeline
    counts = {name: getattr(timeline, name) for name in ("steps", "decoding", "prompt_tokens", "blocks", "running")}
    counts["waiting"] = waiting(simulation)
    if timeline.right is not None:
        counts["right_drafts"] = timeline.right
    times = {"end": timeline.end, "iteration_time": timeline.duration}
    if simulation.engines is not None:
        counts["engine"] = simulation.engines
        if simulation.also and simulation.engine_blocks is not None:
            counts["blocks_there"] = simulation.engine_blocks[simulation.engines]
    return times | {name: values.astype(np.int32) for name, values in counts.items()}


def replica_columns(simulation: Simulation) -> dict[str, np.ndarray]:
    """Replicas over time where they start and stop, from the beginning on. Shape [1 + evaluations] each."""
    found = simulation.scaled
    if found is None:
        return {}
    return {
        "evaluation_time": np.concatenate([[0.0], found.times]),
        "replicas": np.concatenate([[int(found.rule.least)], found.numbers]).astype(np.int32),
    }


@dataclasses.dataclass(frozen=True)
class Nearest:
    """The finished request that comes nearest to an objective that none keeps, and how far the usual one is."""

    request: int  # its place in the stream
    values: dict[str, float]  # limited latency -> its value, s
    medians: dict[str, float]  # limited latency -> its median over finished requests, s
    limits: dict[str, float]  # s

    @property
    def missed(self) -> tuple[str, ...]:
        """Limits that the request misses."""
        return tuple(name for name, value in self.values.items() if value > self.limits[name])


def nearest(simulation: Simulation) -> Nearest | None:
    """The finished request whose worst limit is missed by the smallest factor; None without limits or such a request.

    A request of one output token has no TPOT, and so keeps its limit.
    """
    wanted = limits(simulation.objective)
    columns = request_columns(simulation)
    done = np.flatnonzero(columns["status"] == STATUSES.index("finished"))
    if not wanted or not done.size:
        return None
    values = {name: columns[name][done] for name in wanted}
    # A request is as far off as the limit that it misses most; without a TPOT it keeps that limit.
    ratios = np.stack([np.nan_to_num(values[name] / limit, nan=0.0) for name, limit in wanted.items()])
    best = int(np.argmin(ratios.max(axis=0)))
    return Nearest(
        request=int(done[best]),
        values={name: float(column[best]) for name, column in values.items() if np.isfinite(column[best])},
        medians={name: float(np.nanmedian(column)) for name, column in values.items() if np.isfinite(column).any()},
        limits=wanted,
    )


def slo_lines(simulation: Simulation) -> list[str]:
    """Lines on the requests under the objective; empty without one."""
    wanted = limits(simulation.objective)
    if not wanted:
        return []
    text = slo_text(simulation.objective)
    good = simulation.metrics["good_share"]
    if good > 0.0:
        rate = number(simulation.metrics["goodput"])
        return [f"{text}: {100 * good:.1f} % of the requests keep it, {rate} of them per second"]
    # No request is good: the nearest one and the median say how far off they are.
    lines = [f"{text}: no request keeps it"]
    near = nearest(simulation)
    if near is None:
        return [f"{lines[0]}, because none finished"]
    best = " and ".join(_against(name, near.values[name], near.limits[name]) for name in near.missed)
    median = ", ".join(_against(name, value, near.limits[name]) for name, value in near.medians.items())
    return [*lines, f"nearest: request {near.request} has {best}", f"median: {median}"]


def status_text(simulation: Simulation) -> str:
    """Outcomes of the replica's requests: "998 finished, 2 refused: longer than the KV cache"."""
    counts = {name: int(simulation.metrics[name]) for name in STATUSES[:-1]}
    why = {
        "finished": "",
        "refused": f": prompt and output are more than the KV cache's {number(cache_tokens(simulation))} tokens",
        "rejected": _rejection(simulation),
        "unfinished": " when the run was ended",
    }
    return ", ".join(f"{count:,} {name}{why[name]}" for name, count in counts.items() if count) or "no requests"


def _rejection(simulation: Simulation) -> str:
    """Why requests were rejected."""
    waiting = f"{number(simulation.policy.max_waiting)} others were waiting"
    if simulation.routes is None or simulation.routes.admission is None:
        return f": {waiting}"
    late = "the first token was expected too late"
    return f": {late}" if not math.isfinite(simulation.policy.max_waiting) else f": {late}, or {waiting}"


def cache_tokens(simulation: Simulation) -> float:
    """Tokens of KV cache in whole blocks, of one replica."""
    return simulation.blocks * float(simulation.policy.block_size)


def _against(name: str, value: float, limit: float) -> str:
    """A time against its limit: TTFT 700 ms (40 % above 500 ms)."""
    far = f"{number(100.0 * (value / limit - 1.0))} % above" if value > limit else "within"
    return f"{WORDS[name]} {formatted(value, 's')} ({far} {formatted(limit, 's')})"


# Limit on the requests that a simulated engine runs at once: the KV cache, or the policy's sequences.


BINDING_WORDS = {"kv_cache": "KV cache", "max_sequences": "max_sequences"}
"""Resource -> its name in a sentence."""


@dataclasses.dataclass(frozen=True)
class Binding:
    """The resource that binds, and how many of the requests that are there it lets run."""

    resource: str  # a key of BINDING_WORDS
    running: int  # requests that ran at once
    wanted: int  # requests that were there at once
    preemptions: int

    @property
    def text(self) -> str:
        """The sentence: "KV cache binds: 5 of 16 requests run at once"."""
        more = f", and {self.preemptions:,} lost their cache" if self.preemptions else ""
        return f"{BINDING_WORDS[self.resource]} binds: {self.running:,} of {self.wanted:,} requests run at once{more}"


def binding(simulation: Simulation) -> Binding | None:
    """The resource that keeps requests waiting; None where all that were there ran at once.

    The cache binds where it was too full for another request of mean length while some waited, or where running
    requests lost theirs; the policy where so many sequences ran as it allows. Requests that wait for their turn in a
    step are kept by neither.
    """
    line, policy, stream = simulation.timeline, simulation.policy, simulation.replica.stream
    # Of several engines, each has its own queue.
    if not len(line.end) or simulation.engines is not None:
        return None
    there = line.running + waiting(simulation)
    most, wanted = int(np.max(line.running)), int(np.max(there))
    preemptions = int(simulation.metrics["preemptions"])
    # Requests that lose their cache show that it binds, even where none waits.
    if preemptions:
        # Mean over time: iterations count by their durations, in s.
        usual = float(np.average(line.running, weights=line.duration))
        return Binding("kv_cache", max(min(round(usual), wanted), 1), max(wanted, most), preemptions)
    if most >= wanted:
        return None
    if most >= float(policy.max_sequences):
        return Binding("max_sequences", most, wanted, 0)
    # With `reserve` a request is admitted when blocks for its whole output are free, else for its prompt and a token.
    tokens = np.mean(stream.isl) + (np.mean(stream.osl) if policy.reserve else 1.0)
    needed = math.ceil(tokens / float(policy.block_size))
    full = np.max(line.blocks) + needed > simulation.blocks * (1.0 - float(policy.watermark))
    return Binding("kv_cache", most, wanted, 0) if full else None

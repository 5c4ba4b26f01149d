"""Autoscaling: replicas that start and stop while a service runs, by a rule that is evaluated at fixed intervals.

Replicas have an order. The first `number` of them are on: at the beginning the least number that the rule allows.

- Evaluation: at every multiple of `every` as long as requests are left. It sees what happened before that time, and
  comes before all that happens at it.
- Load, by the rule's signal: of `queue` the requests that wait in replicas that are on; of `queue_tokens` their prompt
  tokens; of `rate` the requests per s that came in the last interval; of `ttft` the replicas that take requests times
  the mean TTFT in s of the first tokens of the last interval.
- Wanted: load / target, rounded up, from `least` to `most`. Of `ttft`, where no first token came: the number that there
  is while requests wait in replicas that are on, else `least`.
- More than there are: the next replicas in order start. A replica takes requests from `start` s later on. One that was
  stopped and has not ended all its requests takes new ones at once.
- Fewer than there are, at so many evaluations in a row that they last `idle` s, one at least: the number becomes the
  most that was wanted at any of them, and counting begins again. The last replicas in order stop.
- A replica that stops takes no new requests. It ends those that it has, waiting ones too; its devices are taken until
  then.
- Routers choose among the replicas that take requests. Waiting requests stay with their replica.
- A replica that starts has an empty prefix cache. Tiers below it keep what they have.
"""

from collections.abc import Callable
from typing import NamedTuple

from jaxroof.numerics.arrays import entry, jax, jnp
from jaxroof.numerics.struct import Array, Scalar
from jaxroof.scheduler.service.tree import PrefixTree
from jaxroof.scheduler.state import NEVER, Clock, State, total_of, whole


class ScalingRule(NamedTuple):
    """Numbers of the rule, shapes ()."""

    signal: Array  # a position in `SIGNALS`, int32
    target: Array  # load per replica: requests, tokens, requests/s or s
    least: Array  # replicas, int32; 1 at least
    most: Array  # replicas, int32; all engines at most
    every: Array  # s between two evaluations
    start: Array  # s until a replica takes requests
    idle: Array  # s for which fewer are enough before replicas stop


class Seen(NamedTuple):
    """What an evaluation sees of a service."""

    waiting: Array  # requests that were not admitted, of every engine, shape [engines]
    queued: Array  # their prompt tokens, shape [engines]
    requests: Array  # that are not answered, of every engine, shape [engines]
    routed: Array  # requests that have come, shape ()


class Evaluated(NamedTuple):
    """What evaluations have decided, and what has come since the last one."""

    number: Array  # replicas that are on, int32
    ready: Array  # s from which each takes requests, infinite: it is off, shape [engines]
    fresh: Array  # bool: started by the last evaluation, with nothing to do, shape [engines]
    next: Array  # s of the next evaluation
    count: Array  # hides tuple.count; evaluations that were made, int32
    low: Array  # evaluations in a row at which fewer were enough, int32
    highest: Array  # the most that was wanted at them, int32
    routed: Array  # requests that had come at the last evaluation, int32
    tokens: Array  # first tokens since then, int32
    ttft: Array  # sum of their TTFT in s


class Scaling(NamedTuple):
    """State of the replicas between two iterations."""

    last: Evaluated
    begun: Array  # bool: whether the first token of a request is there or under way, shape [requests]
    coming: Array  # first tokens at the end of an engine's step, int32, shape [engines]
    sent: Array  # sum of the times in s at which their requests were sent, shape [engines]
    cold: Array  # bool: has started and done nothing, shape [engines]

    def takes(self, time: Array) -> Array:
        """Replicas that take requests at a time in s, bool, shape [engines]."""
        return self.last.ready <= time

    def with_tokens(
        self, engine: Array, begins: Array, until: Clock, produced: Array, sent: Array, happens: Array
    ) -> "Scaling":
        """The state with the first tokens of an engine's instant.

        Args:
          begins: bool: the instant begins, `until`: those of the last step are there.
          produced: request whose prompt is complete with the coming step, if it `happens`.
          sent: time in s at which it was sent.
        """
        # 1. First tokens of the step that has ended.
        came = jnp.where(begins, self.coming[engine], 0)
        time = jax.lax.stop_gradient(until.high + until.low)
        waited = jnp.where(came > 0, came.astype(float) * time - self.sent[engine], 0.0)
        # 2. Those of the coming step; a prompt that lost its cache has had its first token.
        inside = jnp.maximum(produced, 0)
        new = happens & ~entry(self.begun, inside)
        place = jnp.where(new, inside, self.begun.shape[0])
        before = jnp.where(begins, 0.0, self.sent[engine])
        return Scaling(
            last=self.last._replace(tokens=self.last.tokens + came, ttft=self.last.ttft + waited),
            begun=self.begun.at[place].set(True, mode="drop"),
            coming=self.coming.at[engine].add(whole(new) - came),
            sent=self.sent.at[engine].set(before + jnp.where(new, jax.lax.stop_gradient(sent), 0.0)),
            cold=self.cold.at[engine].set(self.cold[engine] & ~begins),
        )

    def started(self, engine: Array, one: State, blocks: Array) -> State:
        """The state of an engine whose cache is empty, if it has started and done nothing.

        Args:
          blocks: of its cache.
        """
        cold = self.cold[engine]
        return one._replace(free=jnp.where(cold, blocks, one.free), idle=jnp.where(cold, 0, one.idle))


def queue(last: Evaluated, rule: ScalingRule, seen: Seen) -> Array:
    """Requests that wait in replicas that are on."""
    return total_of(jnp.where(_on(last), seen.waiting, 0)).astype(float)


def queue_tokens(last: Evaluated, rule: ScalingRule, seen: Seen) -> Array:
    """Prompt tokens that wait in replicas that are on."""
    return total_of(jnp.where(_on(last), seen.queued, 0)).astype(float)


def rate(last: Evaluated, rule: ScalingRule, seen: Seen) -> Array:
    """Requests per s that came since the last evaluation."""
    return (seen.routed - last.routed).astype(float) / rule.every


def ttft(last: Evaluated, rule: ScalingRule, seen: Seen) -> Array:
    """Replicas that take requests times the mean TTFT in s since the last evaluation."""
    mean = last.ttft / jnp.maximum(last.tokens, 1).astype(float)
    taking = total_of(last.ready <= last.next).astype(float)
    waits = jnp.any(_on(last) & (seen.waiting > 0))
    unknown = jnp.where(waits, last.number.astype(float) * rule.target, 0.0)
    return jnp.where(last.tokens > 0, taking * mean, unknown)


def _on(last: Evaluated) -> Array:
    """Replicas that are on, bool, shape [engines]."""
    return jnp.arange(last.ready.shape[0], dtype=jnp.int32) < last.number


SIGNALS: dict[str, Callable[[Evaluated, ScalingRule, Seen], Array]] = {
    "queue": queue,
    "queue_tokens": queue_tokens,
    "rate": rate,
    "ttft": ttft,
}
"""Loads that a rule goes by; a number stands for each."""


def evaluated(rule: ScalingRule, scaling: Scaling, seen: Seen, happens: Array) -> Scaling:
    """The state after the next evaluation of the rule, if it `happens`."""
    # A branch: few iterations evaluate the rule.
    last = jax.lax.cond(happens, _evaluated, lambda rule, last, seen: last, rule, scaling.last, seen)
    return scaling._replace(last=last, cold=scaling.cold | (last.fresh & happens))


def emptied(tree: PrefixTree | None, fresh: Array) -> PrefixTree | None:
    """The prefix tree without blocks in the caches of engines that have started, which nobody uses.

    Args:
      fresh: bool, shape [engines].
    """
    if tree is None:
        return None

    def empty(chain: Array, evicted_in: Array, order: Array, least: Array, fresh: Array) -> tuple[Array, ...]:
        order = jnp.where(fresh[:, None, None], NEVER, order)
        least = jnp.where(fresh[:, None], NEVER, least)
        return jnp.where(fresh, 0, chain), jnp.where(fresh, -1, evicted_in), order, least

    parts = tree.chain, tree.evicted_in, tree.order, tree.least
    chain, evicted_in, order, least = jax.lax.cond(jnp.any(fresh), empty, lambda *parts: parts[:-1], *parts, fresh)
    return tree._replace(chain=chain, evicted_in=evicted_in, order=order, least=least)


def _evaluated(rule: ScalingRule, last: Evaluated, seen: Seen) -> Evaluated:
    time, number, count, on = last.next, last.number, last.count + 1, _on(last)
    # 1. The number that is wanted.
    loads = jnp.stack([one(last, rule, seen) for one in SIGNALS.values()])
    wanted = jnp.ceil(jnp.minimum(loads[rule.signal] / rule.target, 2.0**30)).astype(jnp.int32)
    wanted = jnp.clip(wanted, rule.least, rule.most)
    # 2. The number that there is now: more at once, fewer after a while.
    fewer = wanted < number
    low = jnp.where(fewer, last.low + 1, 0)
    highest = jnp.where(fewer, jnp.maximum(last.highest, wanted), 0)
    stops = fewer & (low.astype(float) * rule.every >= rule.idle)
    now = jnp.where(stops, highest, jnp.maximum(number, wanted))
    # 3. Replicas that start, and those that are off.
    works = seen.requests > 0
    there = jnp.arange(on.shape[0], dtype=jnp.int32) < now
    begins = jnp.where(works, time, time + rule.start)
    return Evaluated(
        number=now,
        ready=jnp.where(there, jnp.where(on, last.ready, begins), jnp.inf),
        fresh=there & ~on & ~works,
        next=(count + 1).astype(float) * rule.every,
        count=count,
        low=jnp.where(stops, 0, low),
        highest=jnp.where(stops, 0, highest),
        routed=seen.routed,
        tokens=jnp.int32(0),
        ttft=jnp.zeros((), float),
    )


def scaling_rule(rule: ScalingRule) -> ScalingRule:
    """Numbers of the rule in the types of the simulator."""

    def count(value: Scalar) -> Array:
        return jnp.asarray(value, jnp.int32)

    def number(value: Scalar) -> Array:
        return jnp.asarray(value, float)

    return ScalingRule(
        signal=count(rule.signal),
        target=number(rule.target),
        least=count(rule.least),
        most=count(rule.most),
        every=number(rule.every),
        start=number(rule.start),
        idle=number(rule.idle),
    )


def begun_scaling(rule: ScalingRule, engines: int, requests: int) -> Scaling:
    """The state before the first iteration: the first `least` replicas are on, and take requests."""
    zero, number = jnp.int32(0), jnp.zeros((), float)
    ready, no = jnp.where(jnp.arange(engines, dtype=jnp.int32) < rule.least, 0.0, jnp.inf), jnp.zeros(engines, bool)
    return Scaling(
        last=Evaluated(rule.least, ready, no, rule.every, zero, zero, zero, zero, zero, number),
        begun=jnp.zeros(requests, bool),
        coming=jnp.zeros(engines, jnp.int32),
        sent=jnp.zeros(engines, float),
        cold=no,
    )

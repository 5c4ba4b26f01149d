"""Routers: the engine that a request is sent to, by what is known of the engines when it comes.

A router is a function of a `View` that gives every engine a score. The lowest wins, of equal ones the first engine.
Admission control turns a request away whose time to first token at that engine is expected to be too long.
"""

from collections.abc import Callable
from typing import NamedTuple

from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.struct import Array
from jaxroof.scheduler.state import total_of, whole


class View(NamedTuple):
    """What a router sees, of every engine in shape [engines]."""

    eligible: Array  # bool: may take the request
    requests: Array  # sent to it and not answered
    tokens: Array  # of their prompts
    queued: Array  # prompt tokens of those that have not been admitted
    hit: Array  # tokens of the request's prompt that its cache has
    weight: Array  # its speed relative to the others
    pace: Array  # s that it takes per prompt token
    isl: Array  # tokens of the request's prompt, shape ()
    request: Array  # number of the request, shape ()
    group: Array  # node of the prefix tree that it belongs to; -1: none, shape ()
    routed: Array  # requests that the router has sent before, shape ()
    seed: Array  # of random choices, shape ()
    prefix_weight: Array  # of a prompt's share in the cache, shape ()
    load_weight: Array  # of an engine's load, shape ()


def round_robin(view: View) -> Array:
    """One engine after the other."""
    return _numbered(view, view.routed)


def random(view: View) -> Array:
    """Any engine, all with the same probability."""
    return _numbered(view, hashed(view.request, view.seed))


SESSIONS = 1_000_003
"""Added to the number of a conversation, so that it is another one than that of any request."""


def session(view: View) -> Array:
    """All requests of one conversation to the same engine, chosen at random."""
    key = jnp.where(view.group >= 0, view.group + SESSIONS, view.request)
    return _numbered(view, hashed(key, view.seed))


def least_requests(view: View) -> Array:
    """The engine with the fewest requests that are not answered, for its speed."""
    return view.requests.astype(float) / view.weight


def least_tokens(view: View) -> Array:
    """The engine with the fewest prompt tokens in requests that are not answered, for its speed."""
    return view.tokens.astype(float) / view.weight


def prefix(view: View) -> Array:
    """The engine whose cache has most of the prompt, weighed against its load.

    score = load_weight load / largest load - prefix_weight hit / isl
    """
    load = view.requests.astype(float) / view.weight
    most = jnp.maximum(jnp.max(jnp.where(view.eligible, load, 0.0)), 1.0)
    share = view.hit.astype(float) / view.isl.astype(float)
    return -(view.prefix_weight * share - view.load_weight * (load / most))


def slo(view: View) -> Array:
    """The engine that is done with the prompt first, by the prompt tokens that wait there and its pace."""
    return (view.queued + view.isl - view.hit).astype(float) * view.pace


def power_of_two(view: View) -> Array:
    """Of two engines at random the one with fewer requests that are not answered, for its speed."""
    number, count = hashed(view.request, view.seed), _count(view)
    second = number // count % jnp.maximum(count - 1, 1)
    # Numbers of the other engines go round the first one.
    picks = _numbered(view, number) * _numbered(view, number % count + 1 + second)
    return jnp.where(picks > 0.0, jnp.inf, least_requests(view))


def late(view: View, engine: Array, limit: Array) -> Array:
    """Whether the engine's time until it is done with the prompt, as `slo` estimates it, is above a limit in s."""
    return slo(view)[engine] > limit


ROUTERS: dict[str, Callable[[View], Array]] = {
    "round_robin": round_robin,
    "random": random,
    "least_requests": least_requests,
    "least_tokens": least_tokens,
    "prefix": prefix,
    "session": session,
    "slo": slo,
    "power_of_two": power_of_two,
}
"""Routers by name; a number stands for each, so that they are an axis like any other."""


def chosen(router: Array, view: View) -> Array:
    """The engine that the request is sent to, int32.

    Args:
      router: its position in `ROUTERS`.
    """
    scores = jnp.stack([one(view) for one in ROUTERS.values()])
    return jnp.argmin(jnp.where(view.eligible, scores[router], jnp.inf)).astype(jnp.int32)


def hashed(key: Array, seed: Array) -> Array:
    """A number that looks random, uint32, of a key and a seed."""
    mixed = key.astype(jnp.uint32) * jnp.uint32(2654435761) + seed.astype(jnp.uint32) * jnp.uint32(40503) + 1
    mixed = mixed ^ (mixed >> 16)
    mixed = mixed * jnp.uint32(0x45D9F3B)
    return mixed ^ (mixed >> 16)


def _numbered(view: View, number: Array) -> Array:
    """0 for the eligible engine of this number, counted round them; else 1."""
    place = jnp.mod(number.astype(jnp.uint32), _count(view)).astype(jnp.int32)
    before = jnp.cumsum(whole(view.eligible)) - 1
    return jnp.where(view.eligible & (before == place), 0.0, 1.0)


def _count(view: View) -> Array:
    """Eligible engines, uint32, 1 at least."""
    return jnp.maximum(total_of(view.eligible), 1).astype(jnp.uint32)

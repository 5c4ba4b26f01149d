"""Drafted tokens of an engine: how many every sequence keeps of them in a step, and blocks of the cache for them.

K tokens are drafted for every decoding sequence in a decode step, and in the decode part of a mixed one, where at most
`limit` sequences decode; else none are, K = 0.

- A sequence with `left` tokens to produce adds 1 + a in the step, with a = min(left - 1, number of k <= K for which
  u < p_1 p_2 ... p_k), where p_k is the probability that draft k is right, given that those before it are. u is a
  number in [0, 1), hashed from the seed, the request's number and the tokens that it has produced so far. It ends with
  the step in which it has all its tokens.
- Before the step it has blocks for all that the step may write: min(context + K, total - 1) tokens, where the context
  has the new token. Blocks for drafts that were wrong stay with it, as in vLLM, until it ends or loses its cache.
- It takes 1 + K tokens of the step's budget.
- The step takes the time of one that verifies 1 + K tokens per sequence, and that of drafting them.

A prompt that is complete with a step adds one token in it.
"""

import math
from typing import NamedTuple

from jaxroof.batch import Policy
from jaxroof.deployment import Deployment, drafted_tokens
from jaxroof.deployment.speculation import chances
from jaxroof.numerics.arrays import entry, jax, jnp
from jaxroof.numerics.struct import Array, Scalar, given
from jaxroof.prices.tables import MOST_DRAFTED
from jaxroof.scheduler.engine import Drafts, Engine
from jaxroof.scheduler.state import Slots, State, blocks_of, is_decoding, total_of

WEYL, FIRST, SECOND = 0x9E3779B9, 0x85EBCA6B, 0xC2B2AE35
"""Factors of a hash: 2^32 over the golden ratio, and those of MurmurHash3."""


def drafts(
    tokens: Scalar, acceptance: Array, limit: Scalar = math.inf, seed: Scalar = 0, depth: Scalar | None = None
) -> Drafts:
    """What an engine drafts.

    Args:
      tokens: per sequence and step, shape [...]; 0: none.
      acceptance: probability that the draft of each position is right, given that those before it are, shape
        [..., most]; those beyond are never right.
      limit: decoding sequences up to which they are drafted; infinite: always.
      seed: of the random numbers.
      depth: of the tokens that may be kept at most, in a tree of them; None: they are a chain.
    """
    # Which drafts are right is a decision without a gradient.
    reached = jnp.cumprod(jax.lax.stop_gradient(jnp.asarray(acceptance, dtype=float)), axis=-1)
    lead, most = reached.shape[:-1], reached.shape[-1]
    tokens = jnp.asarray(tokens, dtype=float).astype(jnp.int32)
    deepest = tokens if depth is None else jnp.asarray(depth, dtype=float).astype(jnp.int32)
    places = jnp.broadcast_to(jnp.arange(most, dtype=jnp.int32), reached.shape)
    reached = jnp.where(places < jnp.broadcast_to(deepest, lead)[..., None], reached, 0.0)
    limit, seed = jnp.asarray(limit, dtype=float), jnp.asarray(seed).astype(jnp.int32)
    return Drafts(reached, *(jnp.broadcast_to(each, lead) for each in (tokens, limit, seed)))


def drafts_of(deployment: Deployment, policy: Policy, seed: Scalar = 0) -> Drafts | None:
    """What an engine drafts by its deployment and its policy; None where nothing can be.

    Of a tree, one draft of each depth is kept at most. Of several engines, `jax.vmap` it over their numbers.
    """
    if deployment.drafts is None:
        return None
    lengths = [len(each) for each in (deployment.tree, policy.acceptance) if isinstance(each, tuple)]
    right = chances(deployment, policy.acceptance, min([MOST_DRAFTED, *lengths]))
    return drafts(drafted_tokens(deployment), right, policy.draft_limit, seed, deployment.drafts)


def drafted(engine: Engine, sequences: Array) -> Array | int:
    """Tokens drafted per sequence in a step in which so many decode."""
    own = engine.drafts
    return 0 if own is None else jnp.where(sequences.astype(float) <= own.limit, own.tokens, 0)


def missing(engine: Engine, state: State) -> Array:
    """Blocks that every slot's sequence lacks for what the coming decode step may write, shape [slots]."""
    slots = state.slots
    left = slots.end - state.count
    # The context with the new token is total - left.
    ahead = jnp.maximum(left - drafted(engine, state.running), 1)
    held = given(slots.held, "blocks of slots")
    # Tokens without a block are few: a quotient of short floats is exact, and quicker than one of whole numbers.
    beyond = jnp.maximum(_total(engine, slots) - ahead - held * engine.size, 0)
    lacking = jnp.ceil(beyond.astype(jnp.float32) / engine.size.astype(jnp.float32)).astype(jnp.int32)
    return jnp.where(_takes_part(slots), lacking, 0)


def missing_of_returned(engine: Engine, state: State, total: Array, target: Array, blocks: Array) -> Array:
    """Blocks that a sequence which is back from host memory lacks for what the coming decode step may write.

    Args:
      total: tokens of its prompt and its output.
      target: tokens in its cache.
      blocks: that it has.
    """
    written = jnp.minimum(target + 1 + drafted(engine, state.running + 1), total - 1)
    return jnp.maximum(blocks_of(written, engine.size) - blocks, 0)


class Progress(NamedTuple):
    """What a step has done to decoding sequences."""

    slots: Slots
    right: Array  # drafts, all sequences together
    begun: Array  # blocks


def progress(engine: Engine, state: State, decodes: Array) -> Progress:
    """Slots after a step, the drafts that were right, and the blocks that it has taken.

    Args:
      decodes: bool: decoding sequences take part.
    """
    slots, own = state.slots, given(engine.drafts, "drafts")
    part = _takes_part(slots) & decodes
    left = slots.end - state.count
    begun = jnp.where(decodes, missing(engine, state), 0)
    request = slots.request if own.number is None else entry(own.number, slots.request)
    luck = uniform(own.seed, request, entry(engine.osl, slots.request) - left)
    right = jnp.minimum(total_of(luck[:, None] < own.reached[None, :], axis=1), left - 1)
    right = jnp.where(part & (drafted(engine, state.running) > 0), right, 0)
    held = given(slots.held, "blocks of slots") + begun
    slots = slots._replace(end=slots.end - right, held=held, joins=jnp.zeros_like(part))
    return Progress(slots, total_of(right), total_of(begun))


def uniform(seed: Array, request: Array, produced: Array) -> Array:
    """A number in [0, 1) that looks random, of a request and the tokens that it has produced."""

    def unsigned(value: Array) -> Array:
        return value.astype(jnp.uint32)

    of_request = _mixed(unsigned(seed) + jnp.uint32(WEYL) * (unsigned(request) + jnp.uint32(1)))
    bits = _mixed(of_request + jnp.uint32(WEYL) * unsigned(produced))
    return (bits >> 8).astype(float) * 2.0**-24


def _mixed(key: Array) -> Array:
    """A number of 32 bits that looks random: the end of MurmurHash3."""
    key = (key ^ (key >> 16)) * jnp.uint32(FIRST)
    key = (key ^ (key >> 13)) * jnp.uint32(SECOND)
    return key ^ (key >> 16)


def _takes_part(slots: Slots) -> Array:
    """Whether a slot's sequence decodes in the coming step, bool, shape [slots]."""
    return is_decoding(slots.end) & ~given(slots.joins, "mark of complete prompts")


def _total(engine: Engine, slots: Slots) -> Array:
    """Tokens of prompt and output of every slot's request, shape [slots]."""
    return entry(engine.isl, slots.request) + entry(engine.osl, slots.request)

"""Drafted tokens of an engine: how many every sequence keeps of them in a step, and blocks of the cache for them.

K tokens are drafted for every decoding sequence in a decode step, and in the decode part of a mixed one, where at most
`limit` sequences decode; else none are, K = 0. K may be another one by the number of sequences that decode (`Lengths`),
as in vLLM (vllm/v1/spec_decode/dynamic/utils.py). Where drafts are looked up in the text, a sequence has K drafts in a
step with the probability `match`, and none otherwise, by a second number that is hashed like u below.

- A sequence with `left` tokens to produce adds 1 + a in the step, with a = min(left - 1, number of k <= K for which
  u < p_1 p_2 ... p_k), where p_k is the probability that draft k is right, given that those before it are. u is a
  number in [0, 1), hashed from the seed, the request's number and the tokens that it has produced so far. It ends with
  the step in which it has all its tokens. The p_k may be those of a table at the step's decoding sequences and the
  sequence's context with the new token (`Measured`, `jaxroof.deployment.acceptance`).
- Before the step it has blocks for all that the step may write: min(context + K, total - 1) tokens, where the context
  has the new token. Blocks for drafts that were wrong stay with it, as in vLLM, until it ends or loses its cache.
- It takes 1 + K tokens of the step's budget. One that comes back from host memory is taken to have drafts.
- The step takes the time of one that verifies 1 + K tokens per sequence, and that of drafting them; with look-ups, of
  the mean K of its sequences.

A prompt that is complete with a step adds one token in it.
"""

import math
from typing import NamedTuple

from jaxroof.batch import Policy, draft_steps
from jaxroof.deployment import Deployment, drafted_tokens
from jaxroof.deployment.acceptance import AcceptanceTable, between
from jaxroof.deployment.speculation import chances, drafting, matched
from jaxroof.numerics.arrays import entry, jax, jnp
from jaxroof.numerics.struct import Array, Scalar, given
from jaxroof.prices.tables import MOST_DRAFTED
from jaxroof.scheduler.engine import Drafts, Engine, Lengths, Measured
from jaxroof.scheduler.state import Slots, State, blocks_of, is_decoding, total_of

WEYL, FIRST, SECOND = 0x9E3779B9, 0x85EBCA6B, 0xC2B2AE35
"""Factors of a hash: 2^32 over the golden ratio, and those of MurmurHash3."""

MATCH = 0x27D4EB2F
"""What the seed of the second number is larger by: a prime of xxHash."""


def drafts(
    tokens: Scalar,
    acceptance: Array,
    limit: Scalar = math.inf,
    seed: Scalar = 0,
    depth: Scalar | None = None,
    measured: Measured | None = None,
    lengths: Lengths | None = None,
    match: Scalar | None = None,
) -> Drafts:
    """What an engine drafts.

    Args:
      tokens: per sequence and step, shape [...]; 0: none.
      acceptance: probability that the draft of each position is right, given that those before it are, shape
        [..., most]; those beyond are never right.
      limit: decoding sequences up to which they are drafted; infinite: always.
      seed: of the random numbers.
      depth: of the tokens that may be kept at most, in a tree of them; None: they are a chain.
      measured: in place of `acceptance`, of a chain; None: that holds everywhere.
      lengths: in place of `tokens`; None: that holds everywhere.
      match: probability that a sequence has drafts in a step; None: all have.
    """
    # Which drafts are right is a decision without a gradient.
    reached = jnp.cumprod(jax.lax.stop_gradient(jnp.asarray(acceptance, dtype=float)), axis=-1)
    lead, most = reached.shape[:-1], reached.shape[-1]
    tokens = jnp.asarray(tokens, dtype=float).astype(jnp.int32)
    deepest = tokens if depth is None else jnp.asarray(depth, dtype=float).astype(jnp.int32)
    places = jnp.broadcast_to(jnp.arange(most, dtype=jnp.int32), reached.shape)
    reached = jnp.where(places < jnp.broadcast_to(deepest, lead)[..., None], reached, 0.0)
    limit, seed = jnp.asarray(limit, dtype=float), jnp.asarray(seed).astype(jnp.int32)
    if match is not None:
        match = jnp.broadcast_to(jnp.asarray(match, dtype=float), lead)
    tokens, limit, seed = (jnp.broadcast_to(each, lead) for each in (tokens, limit, seed))
    return Drafts(reached, tokens, limit, seed, None, measured, lengths, match)


def lengths(starts: Array, tokens: Array, depths: Array | None = None) -> Lengths:
    """Tokens that are drafted by the number of decoding sequences, none with fewer than the first.

    Args:
      starts: decoding sequences from which on so many are drafted, increasing, shape [..., n].
      tokens: per sequence and step, shape [..., n].
      depths: of the tokens that may be kept at most; None: they are chains.
    """
    rises = [
        jnp.diff(jnp.asarray(each, dtype=float).astype(jnp.int32), axis=-1, prepend=0)
        for each in (tokens, tokens if depths is None else depths)
    ]
    return Lengths(jnp.asarray(starts, dtype=float), *rises)


def drafts_of(deployment: Deployment, policy: Policy, seed: Scalar = 0) -> Drafts | None:
    """What an engine drafts by its deployment and its policy; None where nothing can be.

    Of a tree, one draft of each depth is kept at most. Of several engines, `jax.vmap` it over their numbers.

    Raises:
      ValueError: one line, for a tree with a table of acceptance.
    """
    if deployment.drafts is None:
        return None
    right, every, measured = policy.acceptance, matched(deployment), None
    if isinstance(right, AcceptanceTable):
        if deployment.tree is not None:
            raise ValueError("a table of acceptance is of drafts in a chain: give no tree")
        measured = Measured(
            *(jnp.asarray(each, dtype=float) for each in (right.sequences, right.contexts, right.right))
        )
        right = (0.0,) * right.positions  # which nothing reads
    short = [len(each) for each in (deployment.tree, right) if isinstance(each, tuple)]
    found = chances(deployment, right, min([MOST_DRAFTED, *short]))
    own, match = None, deployment.match if deployment.drafter == "ngram" else None
    if steps := draft_steps(policy):
        each = [drafting(deployment, tokens) for _, tokens in steps]
        columns = [start for start, _ in steps], [drafted_tokens(one) for one in each], [one.drafts for one in each]
        own = lengths(*(jnp.stack([jnp.asarray(one, dtype=float) for one in column]) for column in columns))
    if measured is not None:
        measured = measured._replace(right=measured.right[..., : found.shape[-1]])
    return drafts(drafted_tokens(every), found, policy.draft_limit, seed, deployment.drafts, measured, own, match)


def other_lengths(deployment: Deployment, policy: Policy) -> tuple[float, ...]:
    """Numbers of tokens that some steps draft per sequence, beside that of the deployment, increasing.

    Args:
      deployment, policy: with concrete numbers, of any shapes.
    """
    if deployment.drafts is None:
        return ()
    looked_up = deployment.drafter == "ngram" and deployment.match is not None
    found = {0.0} if looked_up or jnp.any(jnp.isfinite(jnp.asarray(policy.draft_limit, dtype=float))) else set()
    found |= {tokens for _, tokens in draft_steps(policy)}
    return tuple(sorted(each for each in found if jnp.any(jnp.asarray(deployment.drafts) > each)))


def drafted(engine: Engine, sequences: Array) -> Array | int:
    """Tokens drafted per sequence in a step in which so many decode; looked up, per sequence that has some."""
    own = engine.drafts
    if own is None:
        return 0
    tokens = own.tokens if own.lengths is None else _level(own.lengths, own.lengths.tokens, sequences)
    return jnp.where(sequences.astype(float) <= own.limit, tokens, 0)


def verified(engine: Engine, state: State) -> Array:
    """Drafted tokens of all decoding sequences in the coming step."""
    made = drafted(engine, state.running)
    own = given(engine.drafts, "drafts")
    if own.match is None:
        return state.running * made
    return made * total_of(_takes_part(state.slots) & _found(engine, state))


def mean_drafted(engine: Engine, state: State, members: Array) -> Array:
    """Drafted tokens per decoding sequence of the coming step in which so many take part, float."""
    own = given(engine.drafts, "drafts")
    if own.match is None:
        return jnp.where(members > 0, drafted(engine, members), 0).astype(float)
    each = verified(engine, state).astype(float) / jnp.maximum(members, 1).astype(float)
    return jnp.where(members > 0, each, 0.0)


def missing(engine: Engine, state: State) -> Array:
    """Blocks that every slot's sequence lacks for what the coming decode step may write, shape [slots]."""
    slots = state.slots
    left = slots.end - state.count
    # The context with the new token is total - left.
    ahead = jnp.maximum(left - _made(engine, state), 1)
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
    luck = uniform(own.seed, *_place(engine, state))
    right = jnp.minimum(_right(own, luck, state.running, _total(engine, slots) - left), left - 1)
    right = jnp.where(part & (_made(engine, state) > 0), right, 0)
    held = given(slots.held, "blocks of slots") + begun
    slots = slots._replace(end=slots.end - right, held=held, joins=jnp.zeros_like(part))
    return Progress(slots, total_of(right), total_of(begun))


def _right(own: Drafts, luck: Array, sequences: Array, context: Array) -> Array:
    """Drafts of every slot that are right, if some are made, int32, shape [slots].

    Args:
      luck: u of every slot.
      sequences: that decode.
      context: tokens of every slot with the new one.
    """
    if own.measured is None and own.lengths is None:
        return total_of(luck[:, None] < own.reached[None, :], axis=1)
    depth = own.tokens if own.lengths is None else _level(own.lengths, own.lengths.depths, sequences)
    rows = None
    if own.measured is not None:
        rows = between(own.measured.sequences, own.measured.right, sequences.astype(float))
    reached, right = jnp.ones_like(luck), jnp.zeros_like(context)
    for place in range(own.reached.shape[0]):
        if rows is None or own.measured is None:
            reached = own.reached[place]
        else:
            reached = reached * between(own.measured.contexts, rows[:, place], context.astype(float))
        right = right + ((luck < reached) & (place < depth)).astype(jnp.int32)
    return right


def _level(lengths: Lengths, rises: Array, sequences: Array) -> Array:
    """The step function at so many decoding sequences."""
    return total_of(jnp.where(lengths.starts <= sequences.astype(float), rises, 0))


def _made(engine: Engine, state: State) -> Array:
    """Tokens drafted for every slot's sequence if it decodes, of shape () or [slots]."""
    made = jnp.asarray(drafted(engine, state.running))
    own = given(engine.drafts, "drafts")
    return made if own.match is None else jnp.where(_found(engine, state), made, 0)


def _found(engine: Engine, state: State) -> Array:
    """Whether the look-up of every slot's sequence finds something, bool, shape [slots]."""
    own = given(engine.drafts, "drafts")
    return uniform(own.seed + jnp.int32(MATCH), *_place(engine, state)) < given(own.match, "share of look-ups")


def _place(engine: Engine, state: State) -> tuple[Array, Array]:
    """The number of every slot's request, and the tokens that it has produced, which are hashed; shapes [slots]."""
    slots, own = state.slots, given(engine.drafts, "drafts")
    request = slots.request if own.number is None else entry(own.number, slots.request)
    return request, entry(engine.osl, slots.request) - (slots.end - state.count)


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

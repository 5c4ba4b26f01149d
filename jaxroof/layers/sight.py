"""Sight of tokens: pairs, cached tokens in reach and visible context, under windows and selections."""

from jaxroof.arrays import jnp
from jaxroof.smooth import maximum, minimum, positive_part
from jaxroof.struct import Array, Scalar, static, struct


@struct
class Sight:
    """Reach of a query over the tokens before it."""

    limit: Scalar | None  # tokens that a query attends to at most; None: all before it
    kind: str | None = static()  # "sliding", "chunked", "selected", or None without a limit
    causal: bool = static(default=True)  # False: later tokens of the same sequence too


def attended_pairs(new: Scalar, past: Scalar, seen: Sight) -> Scalar:
    """Query-key pairs of `new` tokens that follow `past` cached ones; each sees itself and what its sight leaves.

    Full: new past + new (new + 1) / 2. Sliding window w: a query sees at most w tokens, itself included; so does one
    that selects w tokens. Chunked w: a query sees its own chunk of w tokens up to itself. Without causality a query
    sees its sequence, its window or its chunk in both directions. Written without differences of large numbers.
    """
    if not seen.causal:
        return new * _both_ways(new, seen)
    if seen.kind is None:
        return new * past + _triangle(new)
    limit = seen.limit
    if seen.kind == "chunked":
        reach = reachable_past(past, seen)
        first = minimum(new, limit - reach)  # what still fits into the chunk that the past began
        chunks = jnp.floor((new - first) / limit)
        rest = new - first - chunks * limit
        return first * reach + _triangle(first) + chunks * _triangle(limit) + _triangle(rest)
    ramp = minimum(new, positive_part(limit - past))  # queries that see all there is
    return ramp * past + _triangle(ramp) + (new - ramp) * limit


def reachable_past(past: Scalar, seen: Sight) -> Scalar:
    """Of `past` cached tokens, those that the next one can see, or choose from."""
    if seen.kind is None or seen.kind == "selected":
        return past
    if seen.kind == "chunked":
        return past - seen.limit * jnp.floor(past / seen.limit)
    return minimum(past, seen.limit - 1.0)


def visible_context(context: Scalar, seen: Sight) -> Scalar:
    """Tokens that the newest of `context` tokens attends to, itself included; `context` is at least 1."""
    if seen.kind == "selected":
        return minimum(context, seen.limit)
    return reachable_past(context - 1.0, seen) + 1.0


def kept_tokens(context: Scalar, seen: Sight) -> Scalar:
    """Tokens of a sequence of `context` that stay in the cache: a window holds its width, a selection everything."""
    if seen.kind is None or seen.kind == "selected":
        return context
    return minimum(context, seen.limit)


def mean_length(tokens: Scalar, sequences: Scalar) -> Array:
    """Tokens per sequence, shape (), 0 where there is no sequence."""
    return tokens / jnp.where(sequences > 0.0, sequences, 1.0)


def decoded_context(context: Scalar, sequences: Scalar, seen: Sight) -> Scalar:
    """Tokens that the newest tokens of `sequences` sequences attend to, summed, of `context` summed, shape ()."""
    if seen.kind is None:
        return context
    return sequences * visible_context(maximum(mean_length(context, sequences), 1.0), seen)


def _both_ways(length: Scalar, seen: Sight) -> Scalar:
    if seen.kind is None:
        return length
    if seen.kind == "chunked":
        return minimum(length, seen.limit)
    return minimum(length, 2.0 * seen.limit + 1.0)


def _triangle(length: Scalar) -> Scalar:
    return 0.5 * length * (length + 1.0)

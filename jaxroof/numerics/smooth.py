"""Exact maximum, minimum, ceiling and floor, with gradients on both sides of a ridge."""

import contextlib
import contextvars
import functools
import math
import sys
from collections.abc import Iterator
from typing import Any

from jaxroof.numerics.arrays import is_traced, jax, jnp, sloped, straight, with_jax
from jaxroof.numerics.struct import Array, Scalar

SHARPNESS = 49.0
"""Exponent of the gradient's weights; ours: a term 10 % below the largest has less than 1 % of the weight (0.9^49), so
that a gradient says what a tenth more or less does; one 2 % below has a quarter, and optimisers see it coming. Slopes
are powers of 48, which six products give."""

NEGLIGIBLE = 1e-15
"""Weight that no sum of weights, which is 1 or more, would notice."""

_ROUNDED, _ROUNDED_SINGLE = 2.0**-50, 2.0**-21
"""What rounding may take from a share of 1 in double and in single precision: four units in the last place."""

_OUTSIDE: contextvars.ContextVar[float] = contextvars.ContextVar("smoothing", default=SHARPNESS)
"""The exponent outside of JAX's traces."""


@functools.cache
def _chosen() -> Any:
    """The exponent while `smoothing` chooses one, part of the key of JAX's caches: no program outlives its choice."""
    return jax.make_user_context(default_value=None)


with_jax(_chosen)  # a context that is made while something is traced is unknown to its key, and it would be traced anew


def smoothing(exponent: float) -> contextlib.AbstractContextManager[Any]:
    """A context in which gradients are taken with another exponent than `SHARPNESS`; values never change.

    Functions are traced and compiled anew for it, those that JAX keeps compiled too.

    Args:
      exponent: 1 or more, the larger the narrower is the blur around a ridge; or 0 for the exact gradient of the
        piecewise function: all weight on the largest term, shared where several are exactly equal, and 0 of a
        `ceiling`.

    Raises:
      ValueError: one line, for any other number.
    """
    if not (exponent == 0.0 or 1.0 <= exponent < math.inf):
        raise ValueError(f"smoothing = {exponent:g} must be 0, the exact gradient, or a finite exponent of at least 1")
    return _smoothed(float(exponent))


@contextlib.contextmanager
def _smoothed(exponent: float) -> Iterator[None]:
    before = _OUTSIDE.set(exponent)
    # JAX need not be imported for what it does anyway.
    traced = contextlib.nullcontext() if exponent == SHARPNESS and "jax" not in sys.modules else _chosen()(exponent)
    try:
        with traced:
            yield
    finally:
        _OUTSIDE.reset(before)


def _exponent() -> float:
    if not is_traced():
        return _OUTSIDE.get()
    chosen = _chosen().value
    return SHARPNESS if chosen is None else chosen


def _power(share: Array, exponent: float) -> Array:
    """`share` to a constant power; by repeated squaring where that is a whole number."""
    # Repeated squaring is faster than a general power, which takes a logarithm.
    return share ** int(exponent) if exponent == int(exponent) else share**exponent


def _powers(share: Array, exponent: float, beside: float) -> tuple[Array, Array]:
    """share^p and share^(p + beside), `beside` 1 or -1; at p = 0 both are 1 where the share is, and 0 elsewhere."""
    if exponent == 0.0:
        # Programs may round a term and the largest of them differently, so that its share is not exactly 1.
        least = 1.0 - (_ROUNDED_SINGLE if jnp.asarray(share).dtype == "float32" else _ROUNDED)
        power = jnp.where(share >= least, jnp.ones_like(share), 0.0)
        return power, power
    # Powers that do not count are 0: float32 would hold them in numbers too small for fast arithmetic.
    share = jnp.where(share > NEGLIGIBLE ** (1.0 / exponent), share, 0.0)
    if beside > 0.0:
        power = _power(share, exponent)
        return power, power * share
    aside = _power(share, exponent - 1.0)
    return aside * share, aside


# The rules below end in sums of slope * tangent: reverse mode then keeps one number per term.


def _shared(shares: list[Array], unit: Array, tangents: tuple[Any, ...], exponent: float, beside: float) -> Array:
    """Sum of slope * tangent, slopes share^(p + beside) / sum of share^p; `unit` is any positive number."""
    # share^p / sum of share^p: the weights of a p-norm, scale-free as shares are over the largest.
    pairs = [_powers(share, exponent, beside) for share in shares]
    # One of the shares is 1 unless all are 0. XLA repeats products in every loop that takes them, but no division.
    scale = unit * (1.0 / jnp.maximum(sum(power for power, _ in pairs), 0.5))
    return sum(aside * scale / unit * tangent for (_, aside), tangent in zip(pairs, tangents, strict=True))


def _paired(ahead: Array, one: Array, aside: Array, norm: Array, tangents: tuple[Any, ...]) -> Array:
    """Slope of two terms: `one` / `norm` for the one that decides, `aside` / `norm` for the other."""
    first, second = jnp.where(ahead, one, aside) / norm, jnp.where(ahead, aside, one) / norm
    return first * tangents[0] + second * tangents[1]


def maximum(first: Scalar, *others: Scalar, steepness: float = 1.0) -> Scalar:
    """Largest of several non-negative numbers of one unit.

    The value is exact. The gradient is that of the p-norm of the terms, p = `SHARPNESS` or
    what `smoothing` chooses, rescaled so that
    the elasticities with respect to the terms sum to exactly 1:

    d ln y = sum_i w_i d ln x_i,  w_i = x_i^p / sum_j x_j^p

    Args:
      first, *others: terms, shape (), non-negative.
      steepness: factor on p, for terms that are near each other though what decides between them is not: roots of it.

    Returns:
      The largest term, shape (). Where all terms are zero, value and gradient are zero.
      The weights do not depend on the unit, so microseconds and hours are smoothed alike.
    """
    if not others:
        return jnp.asarray(first)
    if _plain(first, *others):
        return max(first, *others)
    return _maximum(_exponent() * steepness, (first, *others))


def _plain(*terms: Scalar) -> bool:
    """Whether all terms are Python numbers, which then stay exact ones."""
    return all(type(term) in (int, float) for term in terms)


@sloped
def _maximum(exponent: float, terms: tuple[Scalar, ...]) -> Scalar:
    # Pairwise, so that a maximum over columns broadcasts.
    largest = terms[0]
    for term in terms[1:]:
        largest = jnp.maximum(largest, term)
    return largest


@_maximum.defjvp
def _maximum_jvp(exponent: Any, primals: Any, tangents: Any) -> Any:
    (terms,), (term_tangents,) = primals, tangents
    largest = _maximum(exponent, terms)
    some = largest > 0
    # Divided by the largest first: powers of microseconds would underflow in float32.
    scale = jnp.where(some, largest, 1.0)
    if len(terms) > 2:
        return largest, _shared([term / scale for term in terms], scale, term_tangents, exponent, -1.0)
    first, second = terms
    # Two terms, the common case, need one power instead of two.
    ratio = jnp.minimum(first, second) / scale
    power, aside = _powers(ratio, exponent, -1.0)
    alike = jnp.where(some, 1.0, 0.0)
    return largest, _paired(first >= second, alike, aside, 1.0 + power, term_tangents)


def minimum(first: Scalar, *others: Scalar) -> Scalar:
    """Smallest of several non-negative numbers of one unit.

    The value is exact. The gradient is the mirror image of `maximum`'s, of the p-norm with exponent -p:

    d ln y = sum_i w_i d ln x_i,  w_i = x_i^-p / sum_j x_j^-p

    Args:
      first, *others: terms, shape (), non-negative.

    Returns:
      The smallest term, shape (). Where it is zero, the gradient is shared by the terms that are zero.
      The weights do not depend on the unit.
    """
    if not others:
        return jnp.asarray(first)
    if _plain(first, *others):
        return min(first, *others)
    return _minimum(_exponent(), (first, *others))


def _smallest(exponent: float, terms: tuple[Scalar, ...]) -> Scalar:
    smallest = terms[0]
    for term in terms[1:]:
        smallest = jnp.minimum(smallest, term)
    return smallest


_minimum = sloped(_smallest)
_cheapest = sloped(_smallest)


@_cheapest.defjvp
@_minimum.defjvp
def _minimum_jvp(exponent: Any, primals: Any, tangents: Any) -> Any:
    (terms,), (term_tangents,) = primals, tangents
    smallest = _minimum(exponent, terms)
    if len(terms) > 2:
        # Shares of a minimum are smallest over term, so that the smallest has share 1.
        shares = [jnp.where(term > 0, smallest / jnp.where(term > 0, term, 1.0), 1.0) for term in terms]
        return smallest, _shared(shares, jnp.where(smallest > 0, smallest, 1.0), term_tangents, exponent, 1.0)
    first, second = terms
    largest = jnp.maximum(first, second)
    ratio = jnp.where(largest > 0, smallest / jnp.where(largest > 0, largest, 1.0), 1.0)
    power, aside = _powers(ratio, exponent, 1.0)
    return smallest, _paired(first <= second, jnp.ones_like(power), aside, 1.0 + power, term_tangents)


def cheapest(*times: Scalar) -> Scalar:
    """Least of the times of alternatives, of which the best one is taken: value and gradient of `minimum`."""
    return _cheapest(_exponent(), times) if len(times) > 1 else jnp.asarray(times[0])


def cheapest_of(times: Array) -> Array:
    """The same of alternatives along the first axis, shape [alternatives, ...] -> [...]: few equations for many."""
    return _least(_exponent(), times)


@sloped
def _least(exponent: float, times: Array) -> Array:
    return jnp.min(times, axis=0)


@_least.defjvp
def _least_jvp(exponent: Any, primals: Any, tangents: Any) -> Any:
    (times,), (tangent,) = primals, tangents
    smallest = _least(exponent, times)
    share = jnp.where(times > 0, smallest[None] / jnp.where(times > 0, times, 1.0), 1.0)
    power, aside = _powers(share, exponent, 1.0)
    return smallest, jnp.sum(aside * tangent, axis=0) / jnp.maximum(jnp.sum(power, axis=0), 0.5)


def positive_part(number: Scalar) -> Array:
    """`number` where it is positive and 0 elsewhere, shape (); its gradient is 1 there and 0 elsewhere."""
    return jnp.maximum(number, 0.0)


def held(number: Scalar, least: Scalar, most: Scalar) -> Array:
    """`number` between two others that rounding alone may take it beyond, shape (); its gradient is its own."""
    return _held(_exponent(), number, least, most)


@sloped
def _held(exponent: float, number: Scalar, least: Scalar, most: Scalar) -> Array:
    return jnp.minimum(jnp.maximum(number, least), most)


@_held.defjvp
def _held_jvp(exponent: Any, primals: Any, tangents: Any) -> Any:
    value, (tangent, _, _) = _held(exponent, *primals), tangents
    return value, jnp.broadcast_to(tangent, jnp.shape(value)) if is_traced() else tangent


def ceiling(number: Scalar) -> Array:
    """The smallest whole number that is not below `number`, shape (); its gradient is that of `number` itself.

    Without smoothing (`smoothing(0)`) the gradient is 0.
    """
    return jnp.ceil(number) if _plain(number) else _ceiling(_exponent(), number)


def floor(number: Scalar) -> Array:
    """The largest whole number that is not above `number`, shape (); its gradient is that of `ceiling`."""
    return -ceiling(-number)


@sloped
def _ceiling(exponent: float, number: Scalar) -> Array:
    return jnp.ceil(number)


@_ceiling.defjvp
def _ceiling_jvp(exponent: Any, primals: Any, tangents: Any) -> Any:
    (tangent,) = tangents
    # The slope of the ramp: a step of a staircase has slope 0, which would hide from an optimiser that more work takes
    # longer.
    return _ceiling(exponent, *primals), tangent if exponent else jnp.zeros_like(tangent)


BENDS = {"rounding": (_ceiling,), "choice": (_cheapest, _least), "limit": (_maximum, _minimum)}
"""Functions whose values leave their gradients behind: whole numbers, choices of the best, and what binds."""


def straightened(*bends: str) -> contextlib.AbstractContextManager[Any]:
    """A context in which functions of some of `BENDS` are straight lines through the first entries of columns.

    On NumPy. A metric then moves as its gradient at the first point says, but for the other bends.
    """
    return straight([function for bend in bends for function in BENDS[bend]])

"""Exact maximum and minimum with a gradient that says something on both sides of a ridge."""

import jax
import jax.numpy as jnp

from jaxroof.struct import Scalar

SHARPNESS = 16.0
"""Exponent of the gradient's weights; ours. Terms 20 % below the largest still get 5 % of its weight."""


def maximum(first: Scalar, *others: Scalar) -> jax.Array:
    """Largest of several non-negative numbers of one unit.

    The value is exact. The gradient is that of the p-norm of the terms, p = `SHARPNESS`, rescaled so that
    the elasticities with respect to the terms sum to exactly 1:

    d ln y = sum_i w_i d ln x_i,  w_i = x_i^p / sum_j x_j^p

    Args:
      first, *others: terms, shape (), non-negative.

    Returns:
      The largest term, shape (). Where all terms are zero, value and gradient are zero.
      The weights do not depend on the unit, so microseconds and hours are smoothed alike.
    """
    if not others:
        return jnp.asarray(first)
    if _plain(first, *others):
        return max(first, *others)
    return _maximum((first, *others))


def _plain(*terms: Scalar) -> bool:
    """Whether all terms are Python numbers, which then stay exact ones."""
    return all(isinstance(term, int | float) for term in terms)


@jax.custom_jvp
def _maximum(terms: tuple[Scalar, ...]) -> jax.Array:
    largest = terms[0]
    for term in terms[1:]:
        largest = jnp.maximum(largest, term)
    return largest


@_maximum.defjvp
def _maximum_jvp(primals, tangents):
    (terms,), (term_tangents,) = primals, tangents
    largest = _maximum(terms)
    scale = jnp.where(largest > 0, largest, 1.0)
    shares = [term / scale for term in terms]
    norm = sum(share**SHARPNESS for share in shares)
    norm = jnp.where(norm > 0, norm, 1.0)
    slope = sum(share ** (SHARPNESS - 1.0) * tangent for share, tangent in zip(shares, term_tangents, strict=True))
    return largest, slope / norm


def minimum(first: Scalar, *others: Scalar) -> jax.Array:
    """Smallest of several non-negative numbers of one unit.

    The value is exact. The gradient is the mirror image of `maximum`'s, of the p-norm with exponent -`SHARPNESS`:

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
    return _minimum((first, *others))


@jax.custom_jvp
def _minimum(terms: tuple[Scalar, ...]) -> jax.Array:
    smallest = terms[0]
    for term in terms[1:]:
        smallest = jnp.minimum(smallest, term)
    return smallest


@_minimum.defjvp
def _minimum_jvp(primals, tangents):
    (terms,), (term_tangents,) = primals, tangents
    smallest = _minimum(terms)
    shares = [jnp.where(term > 0, smallest / jnp.where(term > 0, term, 1.0), 1.0) for term in terms]
    norm = sum(share**SHARPNESS for share in shares)
    slope = sum(share ** (SHARPNESS + 1.0) * tangent for share, tangent in zip(shares, term_tangents, strict=True))
    return smallest, slope / norm


def positive_part(number: Scalar) -> jax.Array:
    """`number` where it is positive and 0 elsewhere, shape (); its gradient is 1 there and 0 elsewhere."""
    return jnp.maximum(number, 0.0)


@jax.custom_jvp
def ceiling(number: Scalar) -> jax.Array:
    """The smallest whole number that is not below `number`, shape (); its gradient is that of `number` itself."""
    return jnp.ceil(number)


@ceiling.defjvp
def _ceiling_jvp(primals, tangents):
    return ceiling(*primals), tangents[0]

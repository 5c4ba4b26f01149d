"""Normal and gamma distributions in closed form, differentiable: shares below a value."""

import math

from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.struct import Array, Scalar


def normal_share(distance: Scalar) -> Array:
    """Share of a normal distribution below `distance` standard deviations above its mean, to 0.0003.

    Source: Page, Applied Statistics 26(1), 1977: 1 / (1 + e^-2y), y = sqrt(2 / pi) (x + 0.044715 x^3).
    """
    # A logistic curve through the normal distribution: a closed form with a slope everywhere, unlike tables of erf.
    y = math.sqrt(2.0 / math.pi) * (distance + 0.044715 * distance**3)
    # Beyond 20 tanh is 1 to the last bit; clipping keeps slopes finite.
    return 0.5 * (1.0 + jnp.tanh(jnp.clip(y, -20.0, 20.0)))


def normal_density(distance: Scalar) -> Array:
    """Density of a normal distribution `distance` standard deviations from its mean, times the deviation."""
    return jnp.exp(-0.5 * distance**2) / math.sqrt(2.0 * math.pi)


def gamma_share(value: Scalar, mean: Scalar, spread: Scalar) -> Array:
    """Share of a gamma distribution of this mean and standard deviation that lies below `value`.

    Source: Wilson & Hilferty, PNAS 17(12), 1931: the cube root is normal.
    """
    # Squared coefficient of variation; its ninth is the variance of the cube root.
    variation = (spread / mean) ** 2
    root = jnp.cbrt(jnp.maximum(value, 0.0) / mean)
    # (X / mean)^(1/3) ~ N(1 - cv^2 / 9, cv^2 / 9).
    return normal_share((root - 1.0 + variation / 9.0) / jnp.sqrt(variation / 9.0))

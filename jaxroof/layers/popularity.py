"""Popularity of experts: load of the busiest device and of the busiest expert, from a power law of their loads."""

from typing import NamedTuple

from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import maximum, minimum
from jaxroof.numerics.struct import Array, Scalar

BUSIEST = 0.8
"""Upper bound of an expert's load before scaling, over the tokens; the lower one is 1."""

SCARCE = 200.0
"""Upper over lower bound where choices are no more than experts."""

NO_ROW = 0.5615
"""Mean rows below which an expert counts as without any: e^-g, g Euler's constant. Exact for an exponent of 1, where
the integral of (1 - e^(-r x)) / x is ln(r H) + g."""

EXPONENT = 0.14
"""Of Tukey's lambda distribution, whose quantiles are a normal's within 0.02: 4.91 (q^0.14 - (1 - q)^0.14)."""


class Load(NamedTuple):
    """Loads relative to the mean, at least 1, and how many experts have any; scalars of shape ()."""

    device: Scalar  # rows of the busiest device over the mean of all
    expert: Scalar  # rows of the busiest expert, or of one of its copies, over the mean of all experts
    touched: Scalar | None = None  # share of the busiest device's experts with rows; None: as without preference


def busiest(
    exponent: Scalar, experts: Scalar, choices: Scalar, devices: Scalar, tokens: Scalar, copies: Scalar | None = None
) -> Load:
    """Expected loads of the busiest device and the busiest expert.

    Loads x of E experts have the density x^-exponent between 1 and H = max(BUSIEST T, SCARCE). With n = E / p experts
    on each of p devices a device's load is close to a gamma distribution of shape n / c^2, c the coefficient of
    variation of x; the largest of p of them, by Wilson and Hilferty with the normal's quantile z at
    (p - 3/8) / (p + 1/4), is

    device = min((1 - c^2 / (9 n) + z c / (3 sqrt(n)))^3, expert)

    expert = the load that one of E + 1 exceeds, over the mean, at most E / k: a token takes an expert once.

    With copies, experts are placed by load: a device is the busiest only where one of its experts has more than a
    device's share. R copies lower the largest load by y = 1 + sqrt(2 R / g) + R / (3 g), g the experts per e-fold of
    load at the top: device = max(1, expert / n), expert = that of the power law / y.

    touched = the share of the busiest device's loads of more than NO_ROW rows.

    Args:
      exponent: 0 or more; larger ones are more uneven in the loads' sum.
      choices: experts of a token.
      devices: that share all experts.
      tokens: of all devices.
      copies: further copies of popular experts over all devices, 0 or more; None: experts lie as they are numbered.

    Returns:
      Differentiable; 1 on one device, and where all experts are equally popular.

    Source: ai-dynamo/aiconfigurator, docs/POWER_LAW_DISTRIBUTION.md, for the distribution; Blom, Statistical Estimates
    and Transformed Beta-Variables, 1958, for the largest of p; DeepSeek-AI, EPLB, for placement with copies. Closed
    form ours, against random draws: tests/jaxroof/test_popularity.py.
    """
    span = jnp.log(maximum(BUSIEST * tokens, jnp.where(tokens * choices > experts, 2.0, SCARCE)))
    # Moments of the truncated power law: integrals of x^(s - 1) from 1 to H.
    whole, first, second = (_integral(power - exponent, span) for power in (1.0, 2.0, 3.0))
    mean = first / whole
    variation = maximum(second / whole / mean**2 - 1.0, 1e-9)

    def touched(device: Scalar) -> Array:
        """Share of the device's loads, as many times the mean ones, that are a row: along their logarithms."""
        idle = jnp.log(NO_ROW * mean * experts / (tokens * choices * device))
        return 1.0 - _integral(1.0 - exponent, minimum(maximum(idle, 0.0), span)) / whole

    largest = maximum(minimum(_exceeded(exponent, whole, span, experts) / mean, experts / choices), 1.0)
    if copies is not None:
        # Experts per e-fold at the top: E H f(H).
        top = experts * jnp.exp((1.0 - exponent) * span) / whole
        ratio = copies / top
        spread = largest / (1.0 + jnp.sqrt(2.0 * ratio + 1e-12) + ratio / 3.0)
        device = maximum(spread * devices / (experts + copies), 1.0)
        return Load(device, maximum(spread, 1.0), touched(device))
    share = variation * devices / experts
    most = maximum(1.0 - share / 9.0 + largest_normal(devices) / 3.0 * jnp.sqrt(share), 0.0) ** 3
    device = maximum(minimum(most, largest), 1.0)
    return Load(device, largest, touched(device))


def largest_normal(count: Scalar) -> Scalar:
    """Expected largest of `count` independent standard normal numbers: the quantile z at (count - 3/8) / (count + 1/4).

    Source: Blom, Statistical Estimates and Transformed Beta-Variables, 1958; Tukey's lambda for the quantile.
    """
    several = maximum(count, 1.0)
    below = (several - 0.375) / (several + 0.25)
    return 4.91 * (below**EXPONENT - (1.0 - below) ** EXPONENT)


def visited(load: Scalar, devices: Scalar, choices: Scalar) -> Array:
    """Tokens that visit the busiest device over those that visit a device of mean load, shape ().

    (1 - (1 - load / p)^k) / (1 - (1 - 1 / p)^k): a token goes once, however many of its experts are there.
    """
    missed = [jnp.log1p(-minimum(part / devices, 1.0 - 1e-6)) for part in (load, 1.0)]
    return jnp.expm1(choices * missed[0]) / jnp.expm1(choices * missed[1])


def _integral(power: Scalar, span: Scalar) -> Array:
    """Integral of x^(power - 1) from 1 to e^span: span (e^y - 1) / y for y = power span."""
    product = power * span
    small = jnp.abs(product) < 1e-6
    safe = jnp.where(small, 1.0, product)
    return span * jnp.where(small, 1.0 + 0.5 * product, jnp.expm1(safe) / safe)


def _exceeded(exponent: Scalar, whole: Scalar, span: Scalar, experts: Scalar) -> Array:
    """Load that one of experts + 1 exceeds: (H^a - a whole / (E + 1))^(1 / a) for a = 1 - exponent."""
    power = 1.0 - exponent
    small = jnp.abs(power) < 1e-6
    safe = jnp.where(small, 1.0, power)
    part = 1.0 / (experts + 1.0)
    steep = jnp.exp(jnp.log(maximum(jnp.exp(safe * span) - safe * part * whole, 1e-30)) / safe)
    return jnp.where(small, jnp.exp(span * (1.0 - part)), steep)

"""Different experts that tokens choose: over all devices, and on the device with most of them."""

from jaxroof.layers.popularity import largest_normal
from jaxroof.model import Experts
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import maximum, minimum
from jaxroof.numerics.struct import Array, Scalar, given


def own_choices(tokens: Scalar, alike: Scalar) -> Array:
    """Tokens that touch as many experts, each choosing on its own, as `tokens` similar ones do: n^alike, shape ().

    Tokens of like texts prefer the same experts, so that distinct ones grow with a power of the tokens. Below one
    token nothing is shared.

    Source: Heaps, Information Retrieval, 1978, section 7.5 (distinct words of a text); popularity of experts is as
    uneven as of words: Jiang et al., arXiv:2401.04088, section 5.
    """
    # Heaps' law V(n) ~ n^alike, written as a factor on n so that below one token it is n itself.
    return tokens * jnp.maximum(tokens, 1.0) ** (alike - 1.0)


def distinct_experts(experts: Scalar, top_k: Scalar, tokens: Scalar) -> Array:
    """Expected number of experts that at least one of `tokens` tokens is routed to, shape ().

    E (1 - (1 - k/E)^tokens), for routers that pick k of E without preference.

    Source: linearity of expectation; as in BLIS's and aiconfigurator's decode bandwidth terms.
    """
    # Occupancy problem: tokens choose independently, so an expert is missed by all of them with probability (1 -
    # k/E)^tokens.
    missed = jnp.log1p(-jnp.minimum(top_k / experts, 1.0 - 1e-6))
    return -experts * jnp.expm1(tokens * missed)


def busiest_experts(experts: Experts, stored: Scalar, tokens: Scalar, devices: Scalar) -> Array:
    """Different experts of which the device with the most has to read the weights, expected, shape ().

    mean + z(ep) sqrt(variance), at least one and at most m, and no more than all devices read together, of m = E / ep
    experts on a device: mean = m (1 - a^n), variance = m a^n (1 - a^n) + m (m - 1) (b^n - a^2n). A token leaves out one
    expert with a = 1 - k/E, and two of a device with b = 1 - 2k/E + p; p is that it takes both: k (k - 1) / (M (M - 1))
    where both are in the groups, of M experts, that it reaches. z(ep) is the expected largest of ep normal numbers.

    Counts of one device are taken to be normal and those of devices independent: within 6 % of random draws from 4
    tokens on, and up to 22 % less at one token.

    Args:
      experts: with `groups` each token reaches a few groups alone, so that devices differ more.
      stored: experts of all devices, copies included.
      tokens: that choose on their own (`own_choices`).
      devices: expert-parallel degree; of one, the mean.

    Source: occupancy with indicators, Feller, An Introduction to Probability Theory, 1968, IX.3; z: G. Blom,
    Statistical Estimates and Transformed Beta-Variables, 1958, with J. W. Tukey's lambda for the normal quantile.
    """
    held = stored / devices
    chosen = minimum(experts.top_k / stored, 1.0 - 1e-6)
    left_out = jnp.exp(tokens * jnp.log1p(-chosen))
    # Taken both is no likelier than taken one, also where choices are more than experts.
    both = minimum(_both(experts, stored, held), chosen)
    both_left_out = jnp.exp(tokens * jnp.log1p(-minimum(2.0 * chosen - both, 1.0 - 1e-6)))
    mean = held * (1.0 - left_out)
    variance = mean * left_out + held * maximum(held - 1.0, 0.0) * (both_left_out - left_out**2)
    # Double `where`: the square root's slope at 0 is infinite, and would make gradients at no tokens nan.
    deviation = jnp.where(variance > 0.0, jnp.where(variance > 0.0, variance, 1.0) ** 0.5, 0.0)
    every = distinct_experts(stored, experts.top_k, tokens)
    return minimum(maximum(mean + largest_normal(devices) * deviation, 1.0), minimum(held, every))


def _both(experts: Experts, stored: Scalar, held: Scalar) -> Array:
    """Probability that a token takes both of two experts of a device that holds `held` of them, shape ()."""
    groups, reached = 1.0, 1.0
    if experts.groups is not None:
        groups, reached = experts.groups, given(experts.reached_groups, "groups that a token reaches")
    allowed = stored * reached / groups
    pairs = experts.top_k * maximum(experts.top_k - 1.0, 0.0) / maximum(allowed * (allowed - 1.0), 1.0)
    # Both of one group, which has to be reached, or of two.
    one = reached / groups
    two = one * (reached - 1.0) / maximum(groups - 1.0, 1.0)
    same = minimum((stored / groups - 1.0) / maximum(held - 1.0, 1.0), 1.0)
    return pairs * (same * one + (1.0 - same) * two)

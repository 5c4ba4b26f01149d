"""Latencies of a steady state: means, the share of requests within a limit, and the distance from keeping one."""

from collections.abc import Callable

from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.struct import Array, Scalar
from jaxroof.steady.distributions import gamma_share
from jaxroof.steady.steady_state import SteadyState

LENGTHS = (-2.85697, -1.35563, 0.0, 1.35563, 2.85697), (0.011257, 0.222076, 0.533333, 0.222076, 0.011257)
"""Standard deviations from the middle of a normal distribution, and their weights: Gauss-Hermite quadrature."""


def mean_ttft(state: SteadyState) -> Array:
    """Mean TTFT in s, with the wait of those that are held back."""
    return state.ttft + state.held_back * state.wait


def ttft_share(state: SteadyState, limit: Scalar) -> Array:
    """Share of requests whose TTFT is at most `limit` s: of those that meet other prompts, and of the others.

    The first have the mean and the spread that are left for them of all requests'.
    """
    # Law of total expectation: what all requests have beyond those that meet no prompt belongs to those that do.
    more = jnp.maximum(state.ttft - state.ttft_alone, 1e-6 * state.ttft)
    square = jnp.maximum(state.ttft_spread**2 - state.ttft_alone_spread**2 + more**2, 0.0) / state.meets
    more = more / state.meets
    spread = jnp.sqrt(jnp.maximum(square - more**2, 1e-3 * more**2) + state.ttft_alone_spread**2)
    alone = gamma_share(limit, state.ttft_alone, state.ttft_alone_spread)
    # A mixture of two gamma distributions: alone, or beside other prompts.
    share = state.meets * gamma_share(limit, state.ttft_alone + more, spread) + (1.0 - state.meets) * alone
    # Of those held back, an exponential wait must fit into the slack that the limit leaves.
    slack = jnp.maximum(limit - state.ttft, 0.0) / state.wait  # waits for a sequence to end are exponential
    return share * (1.0 - state.held_back * jnp.exp(-slack))


def tpot_share(state: SteadyState, limit: Scalar) -> Array:
    """Share of requests whose TPOT is at most `limit` s.

    Outputs are lognormal, by five lengths. Each has the distribution of a Poisson number of equal jumps with the mean,
    the spread and the third moment of its TPOT. Where all lengths are equal the jumps are real: TPOT has no values
    between them.

    Source: ours; Gauss-Hermite quadrature for the lengths.
    """
    # Lognormal lengths with this ratio of means: E[n] E[1/n] = e^(s^2).
    deviation = jnp.sqrt(jnp.log(jnp.maximum(state.briefness, 1.0)))
    share = 0.0
    # Gauss-Hermite: five lengths integrate the share over the distribution of lengths.
    for deviations, weight in zip(*LENGTHS, strict=True):
        length = jnp.exp(deviations * deviation - 0.5 * deviation**2)  # over the mean
        share = share + weight * _jumps_share(state, limit, length)
    return share


def _jumps_share(state: SteadyState, limit: Scalar, length: Scalar) -> Array:
    """Share of requests of one length, over the mean, whose TPOT is at most `limit` s."""
    # A Poisson number of jumps has variance = number x jump^2 and third moment = number x jump^3: both give the jump.
    jumps = state.tpot_jumps**2 / length
    variance = jnp.maximum(jumps + state.tpot_varied**2, 1e-30)
    # Shorter requests average over fewer steps: each prompt that comes meanwhile weighs more.
    jump = jnp.maximum(state.tpot_jump / length * jumps / variance, 1e-3 * jnp.sqrt(variance))
    number = variance / jump**2

    # P(at most n jumps) = 1 - P(n + 1, number), a gamma distribution's share, n continuous but where jumps are real.
    most = (limit - state.tpot) / jump + number  # jumps within the limit
    most = most - 0.5 + state.even * (jnp.floor(most + 1e-6) - most + 0.5)
    shape = jnp.maximum(most + 1.0, 0.25)
    return jnp.where(most > -0.5, 1.0 - gamma_share(number, shape, jnp.sqrt(shape)), 0.0)


def tpot_spread(state: SteadyState) -> Array:
    """Standard deviation of TPOT over requests, in s."""
    # Independent parts: variances add.
    return jnp.sqrt(state.tpot_varied**2 + state.briefness * state.tpot_jumps**2)


def e2e_share(state: SteadyState, limit: Scalar) -> Array:
    """Share of requests whose end-to-end latency is at most `limit` s, of a gamma distribution."""
    waits = state.held_back * state.wait
    decoding = state.decode_steps * state.tpot
    # Mean latency: first token, wait for a slot, then the remaining tokens at TPOT.
    mean = state.ttft + waits + decoding
    lengths = decoding**2 * (1.0 / jnp.asarray(state.output_evenness) - 1.0)
    spread = jnp.sqrt(state.ttft_spread**2 + waits**2 + (state.decode_steps * tpot_spread(state)) ** 2 + lengths)
    return gamma_share(limit, mean, spread)


SHARES = {"ttft": ttft_share, "tpot": tpot_share, "e2e": e2e_share}
"""Share of requests within a limit in s, by latency."""

MEANS: dict[str, Callable[[SteadyState], Array]] = {
    "ttft": mean_ttft,
    "tpot": lambda state: state.tpot,
    "itl": lambda state: state.tpot,
    "e2e": lambda state: mean_ttft(state) + state.decode_steps * state.tpot,
    "queueing": lambda state: state.held_back * state.wait,
}
"""Mean in s, by latency."""


def wanted_share(limit: str, share: Scalar) -> tuple[str, Scalar | None]:
    """The latency of a limit's name, and the share of requests that has to keep it; None: its mean has to.

    Percentiles of what has no distribution in a steady state, ITL and queueing, are limited as if they were means.
    """
    latency, _, of = limit.rpartition("_")
    if not latency:
        return limit, share
    return latency, None if of == "mean" or latency not in SHARES else float(of.removeprefix("p")) / 100.0


def shortfall(state: SteadyState, name: str, limit: Scalar, share: Scalar) -> Array:
    """How far a limit is from being kept: the share of requests that lacks, or mean / limit - 1; > 0 where missed.

    Args:
      name: ttft, tpot, e2e, for a `share` of the requests; of their percentiles and means, ttft_p99, tpot_mean.
      limit: s.
    """
    latency, wanted = wanted_share(name, share)
    if wanted is None:
        return MEANS[latency](state) / limit - 1.0
    return wanted - SHARES[latency](state, limit)

"""Steady state of one engine at a load, or at the largest load that keeps limits on its latencies; pure.

Batches are looked at on a grid, then between two of its nodes, and the last line between two is followed by one step of
Newton's method. That step alone has a derivative: the one of the implicit function.
"""

import functools
from collections.abc import Callable, Mapping

from jaxroof.numerics.arrays import constant, jnp
from jaxroof.numerics.struct import Array, Scalar
from jaxroof.steady.engine import FULL, LEAST_BATCH, SteadyEngine
from jaxroof.steady.latencies import MEANS, SHARES, shortfall
from jaxroof.steady.steady_state import SteadyState

COARSE, FINE = 48, 24
"""Numbers that a search looks at: over the whole range, and between two of these."""

WIDE = 0.02, 60.0
"""Percentiles of a latency, over its mean, lie between."""


def batch_at(of: SteadyEngine, load: Scalar) -> tuple[Array, SteadyState, Array]:
    """The batch at which an engine answers `load` requests/s, shape [..., 1], the state, and the use of the engine.

    Where the use is above 1, no batch answers as many: the batch is then the largest.
    """
    load = jnp.asarray(load)[..., None]
    top, still, wanted = of.most * FULL, constant(of), constant(load)
    # The grid finds the root without derivatives; nothing of it is traced for a gradient.
    batch, slope = _root(lambda batch: still.state(batch).load - wanted, _idle(of), constant(top))
    # One step of Newton's method, x - f(x) / f', carries the derivative: that of the implicit function.
    batch = jnp.clip(batch - (of.state(batch).load - load) / slope, LEAST_BATCH, top)
    state = of.state(batch)
    return batch, state, jnp.maximum(load / of.state(top).load, state.use)


def largest_batch(of: SteadyEngine, limits: Mapping[str, Scalar], share: Scalar) -> Array:
    """The largest batch at which an engine keeps limits, shape [..., 1]; the least there is where it keeps none.

    Args:
      limits: s of ttft, tpot and e2e, for a `share` of the requests; of their percentiles and means, ttft_p99,
        tpot_mean, for the run.
    """
    top = of.most * FULL

    def short(of: SteadyEngine, batch: Array) -> Array:
        """How far from being kept the limit is that is missed most: > 0 where one is missed."""
        state = of.state(batch)
        # The limit that is missed most decides; it grows with the batch, so the root is the largest batch that keeps
        # all.
        missed = [state.use - 1.0, *(shortfall(state, name, limit, share) for name, limit in limits.items())]
        return functools.reduce(jnp.maximum, missed)  # a reduction over an axis has no slope where XLA rounds twice

    still = constant(of)
    batch, slope = _root(lambda batch: short(still, batch), _idle(of), constant(top))
    return jnp.clip(batch - jnp.where(batch < top, short(of, batch) / slope, 0.0), LEAST_BATCH, top)


def percentile(state: SteadyState, latency: str, share: Scalar) -> Array:
    """The latency in s within which a share of the requests stays, shape [..., 1]."""
    still, within = constant(state), SHARES[latency]
    mean = MEANS[latency](still)
    # In logarithms, as latencies span decades; ends are far outside of any percentile.
    ends = (jnp.log(WIDE[0] * mean), jnp.log(WIDE[1] * mean))
    log_time, slope = _root(lambda log_time: within(still, jnp.exp(log_time)) - share, *ends)
    return jnp.exp(log_time - (within(state, jnp.exp(log_time)) - share) / slope)


def _root(function: Callable[[Array], Array], low: Array, high: Array) -> tuple[Array, Array]:
    """Where an increasing function is 0 between two ends, and its slope there.

    The end that is nearer where it is not 0 in between; the slope is then endless where the function is level.

    Args:
      function: of numbers of shape [..., n], without derivatives.
      low, high: shape [..., 1].
    """
    # A coarse grid over the range, then a fine one between two nodes: as many evaluations in two batches, no loop.
    for number, power in ((COARSE, 2.0), (FINE, 1.0)):  # closer where the numbers are small
        nodes = low + (high - low) * jnp.linspace(0.0, 1.0, number) ** power
        values = function(nodes)
        above = jnp.clip(_first(values >= 0.0), 1, number - 1)
        ends = [(_entry(nodes, above - 1), _entry(values, above - 1)), (_entry(nodes, above), _entry(values, above))]
        (low, under), (high, over) = ends
    slope = (over - under) / (high - low)
    slope = jnp.where(slope > 0.0, slope, jnp.inf)
    # Linear interpolation (regula falsi) in the last interval.
    return jnp.clip(low - under / slope, low, high), slope


def _first(condition: Array) -> Array:
    """Place of the first that is true along the last axis, the last one where none is, shape [..., 1]."""
    last = condition.shape[-1] - 1
    return jnp.where(condition.any(axis=-1), jnp.argmax(condition, axis=-1), last)[..., None]


def _entry(values: Array, place: Array) -> Array:
    """Entries at places of the last axis, shape [..., 1]."""
    # A masked sum in place of indexing: the place is data of a batch.
    return jnp.sum(jnp.where(jnp.arange(values.shape[-1]) == place, values, 0.0), axis=-1, keepdims=True)


def _idle(of: SteadyEngine) -> Array:
    return jnp.full_like(of.most, LEAST_BATCH)

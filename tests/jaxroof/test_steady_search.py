"""Steady state at a load and within limits: the search for the batch, percentiles, and derivatives of what is found."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroof.steady.engine import FULL, LADDER, SteadyEngine
from jaxroof.steady.latencies import MEANS, SHARES, wanted_share
from jaxroof.steady.search import batch_at, largest_batch, percentile
from jaxroof.steady.steady_state import Demand, StepTimes

LENGTHS = Demand(
    prompt=1000.0,
    cached=0.0,
    evenness=1.0,
    output=201.0,
    briefness=1.0,
    context=1100.0,
    held=1100.0,
    output_evenness=1.0,
)


def made(base: float = 5e-3, each: float = 2e-5, most: float = 200.0) -> SteadyEngine:
    """An engine whose step takes `base` + `each` s per sequence, and 20 ms per prompt."""
    ladder = 256.0 ** jnp.linspace(0.0, 1.0, LADDER)
    level = jnp.ones(LADDER)
    times = StepTimes(
        decode=base + each * ladder,
        first=0.02 * level,
        further=0.02 * level,
        steps=level,
        full=8.0 * level,
        filled=base + each * ladder + 0.16,
    )
    return SteadyEngine(
        times=times, joules=None, ladder=ladder, demand=LENGTHS, delay=1e-3, static=None, most=jnp.full(1, most)
    )


def test_the_batch_answers_the_load():
    """The load of the batch that is found is the one that was asked for; the mean step is by hand."""
    for load in (0.5, 5.0, 15.0):
        batch, state, use = batch_at(made(), load)
        assert float(state.load[0]) == pytest.approx(load, rel=1e-6) and 0.0 < float(use[0]) < 1.0
        # Of prompts that cost 20 ms each, the step is d + 20 ms a, and the load a / step.
        decode = 5e-3 + 2e-5 * float(batch[0])
        assert float(state.step[0]) == pytest.approx(decode / (1.0 - 0.02 * load), rel=0.02)


def test_a_load_beyond_the_engine_says_so():
    """No batch answers 100 requests/s whose prompts take 20 ms each."""
    batch, _, use = batch_at(made(), 100.0)
    assert float(use[0]) > 1.0 and float(batch[0]) == pytest.approx(200.0 * FULL)


@pytest.mark.parametrize("name", ["ttft", "tpot", "tpot_mean", "ttft_p99", "e2e_mean"])
def test_the_largest_batch_meets_its_limit(name):
    latency, share = wanted_share(name, 0.95)
    of = made()
    idle = of.state(jnp.full(1, 1.0001))
    limit = 1.6 * float(MEANS[latency](idle)[0])
    batch = largest_batch(of, {name: limit}, 0.95)
    state = of.state(batch)
    found = MEANS[latency](state) if share is None else percentile(state, latency, share)
    assert float(found[0]) == pytest.approx(limit, rel=2e-3)
    tighter = largest_batch(of, {name: 0.9 * limit}, 0.95)
    assert float(tighter[0]) < float(batch[0])


def test_percentiles_invert_shares():
    _, state, _ = batch_at(made(), 12.0)
    for latency, within in SHARES.items():
        values = [float(percentile(state, latency, share)[0]) for share in (0.5, 0.9, 0.99)]
        assert values == sorted(values)
        assert float(within(state, values[1])[0]) == pytest.approx(0.9, abs=2e-3)


def test_derivatives_against_differences():
    """Of TPOT, of a percentile of TTFT and of the largest load, by the time of a step and by that per sequence."""

    def figures(x):
        of = made(x[0], x[1])
        _, state, _ = batch_at(of, 10.0)
        largest = largest_batch(of, {"ttft": 0.1, "tpot": 0.012}, 0.95)
        values = [state.tpot, percentile(state, "ttft", 0.95), of.state(largest).load]
        return jnp.log(jnp.concatenate(values))

    with jax.enable_x64(True):
        at = jnp.array([5e-3, 2e-5])
        slopes = np.asarray(jax.jit(jax.jacfwd(figures))(at)) * np.asarray(at)
        function = jax.jit(figures)
        for i in range(2):
            step = np.zeros(2)
            step[i] = 1e-4 * float(at[i])
            change = (function(at + step) - function(at - step)) / 2e-4
            assert slopes[:, i] == pytest.approx(np.asarray(change), rel=0.03, abs=2e-3)


def test_columns_are_the_same_as_numbers():
    """On NumPy a column of engines has the figures of each alone."""
    from jaxroof.numerics.arrays import eager

    with eager():
        one = [made(base) for base in (4e-3, 6e-3)]
        both = jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *one)
        both = dataclasses.replace(both, demand=LENGTHS, delay=1e-3)
        together, _, _ = batch_at(both, np.array([8.0, 8.0]))
        for i, engine in enumerate(one):
            assert together[i] == pytest.approx(np.asarray(batch_at(engine, 8.0)[0]), rel=1e-5)  # float32

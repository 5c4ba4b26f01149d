"""A static batch of requests: latencies against a loop over decode steps, identities, and what makes it slower."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroof import Deployment, Requests, datasheet, decode, prefill, request_cost, step_time
from jaxroof.efficiency import Efficiency, Host, KindEfficiency, LinkEfficiency
from jaxroof.jobs.composition import tokens_per_second

TERSE = 1e-6  # relative: a few float32 roundings


@pytest.fixture(scope="module")
def real() -> Efficiency:
    """Shares below 1 and fixed times, so that every term of the cost is there."""
    kind = KindEfficiency(matrix=0.7, matrix_low=0.6, vector=0.5, bandwidth=0.8, cache_bandwidth=0.9, kernel_time=3e-6)
    return Efficiency(
        linear=kind,
        experts=kind,
        prefill_attention=kind,
        decode_attention=kind,
        elementwise=kind,
        collective=LinkEfficiency(losses=0.0),
        host=Host(step_time=1e-4, sequence_time=1e-6, request_time=8e-3),
    )


@pytest.fixture(scope="module")
def cost():
    """`request_cost`, compiled once for all tests."""
    return jax.jit(request_cost)


def requests(batch=8.0, isl=500.0, osl=100.0, cached=0.0) -> Requests:
    return Requests(batch=batch, isl=isl, osl=osl, cached=cached)


@pytest.mark.parametrize("work", [requests(), requests(64.0, 2000.0, 1000.0), requests(1.0, 10.0, 300.0)])
def test_tpot_is_the_mean_over_decode_steps(chip, dense, single, real, cost, work):
    """The closed form, one step at the mean context, against all osl - 1 steps, each at its own context.

    Step i attends to isl + i tokens. 0.5 %: attention may change what binds it while the context grows.
    """

    def step(i):
        return step_time(chip, dense, single, decode(work.batch, work.isl + i), real)

    steps = jax.vmap(step)(jnp.arange(1.0, work.osl))
    found = cost(chip, dense, single, work, real)
    assert float(found.tpot) == pytest.approx(float(jnp.mean(steps)), rel=5e-3)
    # and so the E2E latency is the first token's and all steps'
    assert float(found.e2e) == pytest.approx(float(found.ttft + jnp.sum(steps)), rel=5e-3)


def test_a_window_closes_during_the_output(chip, dense, single, real):
    """With a window the context is clipped in some steps only; the mean context is still within 0.5 %."""
    local = dataclasses.replace(dense.blocks[0].attention, window=550.0, window_kind="sliding")
    model = dataclasses.replace(dense, blocks=(dataclasses.replace(dense.blocks[0], attention=local),))
    work = requests()
    steps = jax.vmap(lambda i: step_time(chip, model, single, decode(8.0, 500.0 + i), real))(jnp.arange(1.0, 100.0))
    tpot = float(request_cost(chip, model, single, work, real).tpot)
    assert tpot == pytest.approx(float(jnp.mean(steps)), rel=5e-3)


def test_parts_of_the_latency(chip, dense, single, real, cost):
    """TTFT = request time + one prefill of all prompts; TPOT = decode at isl + osl / 2; E2E = TTFT + 99 TPOT."""
    found = cost(chip, dense, single, requests(), real)
    first = float(step_time(chip, dense, single, prefill(8.0, 500.0), real))
    token = float(step_time(chip, dense, single, decode(8.0, 550.0), real))
    assert float(found.ttft) == pytest.approx(8e-3 + first, rel=TERSE)
    assert float(found.tpot) == pytest.approx(token, rel=TERSE)
    assert float(found.e2e) == pytest.approx(8e-3 + first + 99 * token, rel=TERSE)
    # 8 requests of 100 tokens
    assert float(tokens_per_second(found, requests())) == pytest.approx(800 / float(found.e2e), rel=TERSE)


def test_one_output_token(chip, dense, single, real, cost):
    """The prefill samples it: no decode step, and TPOT says what one would take."""
    found = cost(chip, dense, single, requests(osl=1.0), real)
    assert float(found.e2e) == float(found.ttft)
    assert 0.0 < float(found.tpot) < float(found.ttft)


def test_a_cached_prefix_lowers_ttft_only(chip, dense, single, real, cost):
    whole, part, most = (cost(chip, dense, single, requests(cached=c), real) for c in (0.0, 250.0, 490.0))
    assert float(whole.ttft) > float(part.ttft) > float(most.ttft)
    assert float(whole.tpot) == float(part.tpot) == float(most.tpot)


@pytest.mark.parametrize("leaf", ["batch", "isl", "osl"])
def test_more_work_takes_longer(chip, dense, single, real, leaf):
    """E2E latency grows with every request, prompt token and output token."""
    values = np.geomspace(1.0, 4096.0, 40).astype(np.float32)
    e2e = jax.vmap(lambda x: request_cost(chip, dense, single, requests(**{leaf: x}), real).e2e)(values)
    assert (np.diff(np.asarray(e2e)) > 0).all()


def test_throughput_grows_with_the_batch(chip, dense, single, real):
    """Weights are read once for all sequences, so a larger batch serves more tokens per second."""

    def rate(batch):
        work = requests(batch)
        return tokens_per_second(request_cost(chip, dense, single, work, real), work)

    rates = np.asarray(jax.vmap(rate)(np.geomspace(1.0, 256.0, 20).astype(np.float32)))
    assert (np.diff(rates) > 0).all()


def test_better_hardware_is_never_slower(chip, mixture, real):
    """Every rate and capacity of the device doubled, one by one: no latency rises. Doubled link latency costs time, and
    so does half as much bandwidth out of the first switch.
    """

    def times(hardware):
        found = request_cost(hardware, mixture, Deployment(tp=2.0), requests(), real)
        return jnp.stack([found.ttft, found.tpot, found.e2e])

    paths, figures = zip(*jax.tree_util.tree_flatten_with_path(chip)[0], strict=True)
    rows = np.tile(np.float32(figures), (len(figures), 1))
    rows[np.diag_indices(len(figures))] *= 2.0
    unflatten = jax.tree.structure(chip).unflatten
    before, after = times(chip), jax.vmap(lambda row: times(unflatten(list(row))))(rows)
    for path, row in zip(paths, np.asarray(after), strict=True):
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        if name in ("links.scale_up.latency", "links.scale_up.oversubscription"):
            assert (row > before).all(), name
        else:
            # 1e-6: compiled and op-by-op rounding
            assert (row <= before * (1 + 1e-6)).all(), name


def test_ideal_is_a_bound(chip, mixture, single, real, cost):
    ideal, found = (cost(chip, mixture, single, requests(), constants) for constants in (datasheet(), real))
    assert all(float(getattr(ideal, name)) < float(getattr(found, name)) for name in ("ttft", "tpot", "e2e"))

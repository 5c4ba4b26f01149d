"""Two pools: the cache's way between them, what of it is seen, queues, rates, and latencies of splits."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hwspaces
import workloads
from jaxroof import Deployment, Requests, datasheet, request_cost
from jaxroof.jobs.disaggregated import BOTTLENECKS, Handover, disaggregated_cost, step_prompts
from jaxroof.jobs.scenario import Pool
from jaxroof.jobs.splits import Curve, decode_batch_at, exposed_time, split_latency, transfer_bytes, transfer_time
from tests.hand import EXACT
from tests.uncompiled import uncompiled


@pytest.fixture(scope="module")
def pool(chip):
    return Pool(hardware=chip, deployment=Deployment(tp=2.0), efficiency=datasheet())


@pytest.fixture(scope="module")
def cost():
    """`disaggregated_cost`, compiled once for all tests of one structure."""
    return jax.jit(disaggregated_cost)


def work(**given) -> Handover:
    return Handover(**{"batch": 8.0, "isl": 1000.0, "osl": 101.0} | given)


@pytest.mark.parametrize(
    ("name", "held", "time"),
    [
        # 80 layers x 2 x 8 KV heads x 128 x 2 B x 2048 tokens = 671.1 MB; at 50 GB/s 13.42 ms
        ("Llama-2-70B", 671_088_640.0, 13.42e-3),
        # 32 layers x 2 x 32 heads x 128 x 2 B x 2048 tokens = 1,073.7 MB; 21.47 ms
        ("Llama-2-7B", 1_073_741_824.0, 21.47e-3),
    ],
)
def test_scenario_i5_4(name, held, time, float64):
    """4 + 4 x A100, TP4 to TP4, 2048 tokens, over one link of 50 GB/s."""
    hardware = hwspaces.hardware("A100-SXM-80GB").hardware
    nic = dataclasses.replace(hardware.links.scale_out, bandwidth=50e9)
    hardware = dataclasses.replace(hardware, links=dataclasses.replace(hardware.links, scale_out=nic))
    model = workloads.model(name).model
    pool = Pool(hardware=hardware, deployment=Deployment(tp=4.0), efficiency=datasheet())
    assert float(transfer_bytes(model, pool.deployment, 2048.0)) == held
    # 0.1 %: the link's latency of some us
    assert float(transfer_time(pool, pool, model, 2048.0, 1.0)) == pytest.approx(time, rel=1e-3)
    # every device of the four sends its part
    assert float(transfer_time(pool, pool, model, 2048.0)) == pytest.approx(time / 4, rel=2e-3)


def test_the_slower_link_counts(dense, chip, pool):
    """4 layers x 2 x 2 x 100 x 2 B x 1000 tokens = 3.2 MB over 2 lanes at 50 GB/s: 32 us and two hops of 5 us."""
    assert float(transfer_time(pool, pool, dense, 1000.0)) == pytest.approx(42e-6, rel=1e-5)
    slow = dataclasses.replace(chip.links.scale_out, bandwidth=1e10)
    other = dataclasses.replace(
        pool, hardware=dataclasses.replace(chip, links=dataclasses.replace(chip.links, scale_out=slow))
    )
    for pools in ((pool, other), (other, pool)):
        assert float(transfer_time(*pools, dense, 1000.0)) == pytest.approx(170e-6, rel=1e-5)
    # without a scale-out tier the cache goes over the scale-up links: 4 us and two hops of 1 us
    inside = dataclasses.replace(
        pool, hardware=dataclasses.replace(chip, links=dataclasses.replace(chip.links, scale_out=None))
    )
    assert float(transfer_time(inside, inside, dense, 1000.0)) == pytest.approx(6e-6, rel=1e-5)
    nothing = dataclasses.replace(chip.links, scale_out=None, scale_up=None)
    alone = dataclasses.replace(pool, hardware=dataclasses.replace(chip, links=nothing))
    with pytest.raises(ValueError, match="no links to hand a cache over"):
        transfer_time(alone, alone, dense, 1000.0)


def test_what_of_a_transfer_is_seen():
    """10 layers. 20 ms behind a prompt of 100 ms: the last layer's 2 ms; behind 5 ms: 2 + 0.9 * 15 = 15.5 ms."""
    assert float(exposed_time(0.020, 0.1, 10.0, 1.0)) == pytest.approx(0.002, rel=EXACT)
    assert float(exposed_time(0.020, 0.005, 10.0, 1.0)) == pytest.approx(0.0155, rel=EXACT)
    assert float(exposed_time(0.020, 0.1, 10.0, 0.0)) == pytest.approx(0.020, rel=EXACT)


def test_pools_are_request_steps(dense, pool, cost):
    """TTFT is the prompt's of a request alone and the seen transfer; TPOT is that of a static batch."""
    found = cost(pool, pool, dense, work(layerwise=0.0))
    prompt = request_cost(
        pool.hardware, dense, pool.deployment, Requests(batch=1.0, isl=1000.0, osl=1.0, cached=0.0), datasheet()
    )
    batch = request_cost(
        pool.hardware, dense, pool.deployment, Requests(batch=8.0, isl=1000.0, osl=101.0, cached=0.0), datasheet()
    )
    assert float(found.ttft) == pytest.approx(float(prompt.ttft) + 42e-6, rel=1e-5)
    assert float(found.tpot) == pytest.approx(float(batch.tpot), rel=1e-5)
    assert float(found.e2e) == pytest.approx(float(found.ttft + 100 * found.tpot), rel=1e-5)
    # one prompt at a time; 8 sequences of 100 steps; one transfer at a time
    assert float(found.prefill_rate) == pytest.approx(1 / float(prompt.ttft), rel=1e-5)
    assert float(found.decode_rate) == pytest.approx(8 / (100 * float(batch.tpot)), rel=1e-5)
    assert float(found.transfer_rate) == pytest.approx(1 / 42e-6, rel=1e-5)
    rates = [float(found.prefill_rate), float(found.decode_rate), float(found.transfer_rate)]
    assert float(found.rate) == pytest.approx(min(rates), rel=EXACT)
    assert BOTTLENECKS[int(found.bottleneck)] == BOTTLENECKS[int(np.argmin(rates))]


def test_replicas_add_rates_and_share_the_load(dense, pool, cost):
    """Twice the replicas do twice the requests; at the same load of each prompts wait less, as they come in turn."""
    twice = dataclasses.replace(pool, deployment=dataclasses.replace(pool.deployment, dp=2.0))
    one = cost(pool, pool, dense, work(rate=100.0))
    two = cost(twice, twice, dense, work(rate=200.0))
    for name in ("prefill_rate", "decode_rate", "transfer_rate", "rate"):
        assert float(getattr(two, name)) == pytest.approx(2 * float(getattr(one, name)), rel=1e-5)
    assert 0.0 < float(two.wait) < 0.5 * float(one.wait)


def test_gradients(dense, pool, float64):
    """Finite in every leaf, and faster links never make a request slower."""

    def e2e(prefill, decode, handed):
        return disaggregated_cost(prefill, decode, dense, handed).e2e

    slopes = uncompiled(jax.grad(e2e, argnums=(0, 2)))(pool, pool, work(rate=10.0, layerwise=0.0))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))
    assert float(slopes[0].hardware.links.scale_out.bandwidth) <= 0.0
    assert float(slopes[0].hardware.memory.hbm.bandwidth) <= 0.0


CURVE = Curve(
    ttft=0.1,
    first=0.05,
    prompts=1.0,
    service=0.05,
    transfer=0.01,
    batches=np.array([1.0, 2.0, 4.0]),
    tpots=np.array([0.01, 0.01, 0.016]),
    tokens=100.0,
)
"""A decode replica of 1, 2 and 2.5 requests/s at 1, 2 and 4 sequences; a prefill replica of 20 requests/s."""


@pytest.mark.parametrize(("rate", "batch"), [(0.5, 1.0), (1.0, 1.0), (1.5, 1.5), (2.0, 2.0), (2.25, 3.0), (9.0, 4.0)])
def test_a_decode_replica_has_the_sequences_that_are_under_way(rate, batch):
    found = decode_batch_at(jnp.asarray(rate), jnp.asarray(CURVE.batches), jnp.asarray(CURVE.tpots), CURVE.tokens)
    assert float(found) == pytest.approx(batch, rel=1e-5)


def test_latencies_of_a_split(float64):
    """8 requests/s on 1 prefill and 4 decode replicas: prompts wait 0.4 * 0.05 / (2 * 0.6), M/D/1, and for half
    a step of 10 ms where one is under way; 2 sequences each."""
    curve = jax.tree.map(jnp.asarray, CURVE)
    ttft, tpot, use = split_latency(curve, 1.0, 4.0, 8.0)
    assert float(ttft) == pytest.approx(0.1 + 0.4 * 0.05 / 1.2 + 0.005 * (1.0 - np.exp(-2.0)), rel=EXACT)
    assert float(tpot) == pytest.approx(0.01, rel=EXACT)
    # 8 of 4 * 2.5 that decode, of 20 that prefill, of 100 that are handed over
    assert float(use) == pytest.approx(0.8, rel=EXACT)
    assert float(split_latency(curve, 1.0, 4.0, 11.0)[2]) > 1
    assert float(split_latency(curve, 1.0, 40.0, 16.0)[2]) == pytest.approx(0.8, rel=EXACT)


def test_a_step_of_prompts_fills_the_groups_where_nothing_is_said(pool):
    for groups in (1.0, 8.0):
        own = dataclasses.replace(pool, deployment=Deployment(attention_dp=groups))
        assert float(step_prompts(work(), own)) == groups
        assert float(step_prompts(work(prompts=3.0), own)) == 3.0

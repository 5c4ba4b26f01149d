"""Two models on one device: turns, shares of cores and bandwidth, and what is left for both caches."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hwspaces
import workloads
from jaxroof import Deployment, Requests, datasheet, decode, request_cost, step_time
from jaxroof.jobs.colocated import (
    SHARINGS,
    Colocated,
    cache_left,
    colocated_cost,
    colocated_requests,
    memory_demand,
    sequences_left,
    share_of,
)
from jaxroof.jobs.composition import decode_batch
from jaxroof.jobs.scenario import Tenant
from tests.hand import EXACT

TURNS, BESIDE = (float(SHARINGS.index(name)) for name in ("time", "space"))


@pytest.fixture(scope="module")
def cost():
    """`colocated_cost`, compiled once for all tests of one structure."""
    return jax.jit(colocated_cost)


@pytest.fixture(scope="module")
def device(chip):
    """`chip` without the levels inside its memory and exponentials, which take long to compile."""
    memory = dataclasses.replace(chip.memory, l2=None, scratchpad=None, register_capacity=None)
    return dataclasses.replace(chip, memory=memory, cores=dataclasses.replace(chip.cores, exp_rate=None))


def tenant(model, work=None) -> Tenant:
    requests = colocated_requests(work or Colocated(batch=1.0, isl=500.0, osl=11.0))
    return Tenant(model=model, deployment=Deployment(), requests=requests, efficiency=datasheet())


@pytest.fixture(scope="module")
def pair(dense):
    """`dense`, and twice as many of its layers."""
    deeper = dataclasses.replace(dense, blocks=(dataclasses.replace(dense.blocks[0], count=8.0),))
    return tenant(dense), tenant(deeper)


def together(**given) -> Colocated:
    return Colocated(**{"batch": 1.0, "isl": 500.0, "osl": 11.0} | given)


def test_scenario_i4_1(device, cost):
    """Llama-2-7B and 13B on one H100 of 80 GB, one request each.

    Weights without the embedding at 3.35 TB/s: 3.94 and 7.67 ms, so 11.6 ms for a token of each; left for cache
    0.9 * 80 - 13.48 - 26.03 = 32.5 GB.
    """
    # of the H100 only the memory counts, so that `cost` need not be compiled again
    hbm = dataclasses.replace(hwspaces.hardware("H100-SXM").hardware.memory.hbm, capacity=80e9)
    hardware = dataclasses.replace(device, memory=dataclasses.replace(device.memory, hbm=hbm))
    deployment = Deployment(reserve_bytes=0.0, max_batched_tokens=1.0)
    requests = Requests(batch=1.0, isl=1.0, osl=2.0, cached=0.0)
    pair = [
        Tenant(
            model=workloads.model(name, weights="bf16").model,
            deployment=deployment,
            requests=requests,
            efficiency=datasheet(),
        )
        for name in ("Llama-2-7B", "Llama-2-13B")
    ]
    first, second = cost(hardware, *pair, together(sharing=TURNS))
    # 0.5 %: activations and a token of cache
    assert float(first.tpot_alone) == pytest.approx(3.94e-3, rel=5e-3)
    assert float(second.tpot_alone) == pytest.approx(7.67e-3, rel=5e-3)
    assert float(first.tpot) == float(second.tpot) == pytest.approx(11.6e-3, rel=5e-3)
    assert float(cache_left(hardware, *pair)) == pytest.approx(32.5e9, rel=2e-3)


def test_turns(pair, device, cost):
    """A token of each takes both steps; a prompt waits for half a step of the other."""
    first, second = cost(device, *pair, together(sharing=TURNS))
    both = float(first.tpot_alone) + float(second.tpot_alone)
    assert float(first.tpot) == pytest.approx(both, rel=1e-5)
    assert float(second.tpot) == pytest.approx(both, rel=1e-5)
    assert float(first.ttft) == pytest.approx(float(first.ttft_alone) + 0.5 * float(second.tpot_alone), rel=1e-5)
    assert float(first.bandwidth) == 1.0


def test_alone_is_a_request(pair, device, cost, dense):
    first, _ = cost(device, *pair, together())
    alone = request_cost(device, dense, Deployment(), pair[0].requests, datasheet())
    assert float(first.ttft_alone) == pytest.approx(float(alone.ttft), rel=1e-5)
    assert float(first.tpot_alone) == pytest.approx(float(alone.tpot), rel=1e-5)


def test_side_by_side_both_wait_for_the_memory(pair, device, cost):
    """One sequence streams weights all the time, on half of the cores too: each gets half of the bandwidth."""
    first, second = cost(device, *pair, together(sharing=BESIDE))
    # 2 %: ops that something else binds
    assert float(first.bandwidth) == pytest.approx(0.5, rel=0.02)
    assert float(first.tpot) == pytest.approx(2 * float(first.tpot_alone), rel=0.02)
    assert float(second.tpot) == pytest.approx(2 * float(second.tpot_alone), rel=0.02)


def test_bandwidth_is_shared_only_where_it_is_short(pair, device, cost):
    """With endless bandwidth nobody waits for it: each runs as on its own cores."""
    hbm = dataclasses.replace(device.memory.hbm, bandwidth=2e17)
    wide = dataclasses.replace(device, memory=dataclasses.replace(device.memory, hbm=hbm))
    first, _ = cost(wide, *pair, together(sharing=BESIDE, cores=0.25))
    assert float(first.bandwidth) == 1.0
    own = step_time(share_of(wide, 0.25, 1.0), pair[0].model, Deployment(), decode(1.0, 505.5), datasheet())
    assert float(first.tpot) == pytest.approx(float(own), rel=1e-5)
    demand = memory_demand(share_of(wide, 0.25, 1.0), pair[0], decode(1.0, 505.5))
    assert 0.0 < float(demand) < 0.5


def test_demand_is_the_share_of_time_that_memory_is_busy(pair, device, float64):
    """A step that the memory binds alone is busy with it all the time."""
    place = pair[0].requests, pair[0].model, pair[0].deployment
    fast = dataclasses.replace(device, cores=dataclasses.replace(device.cores, vector_flops=1e20))
    assert float(memory_demand(fast, pair[0], decode_batch(*place))) == pytest.approx(1.0, rel=EXACT)


def test_a_part_of_a_device(chip):
    part = share_of(chip, 0.25, 0.5)
    assert part.matrix["bf16"] == 0.25e15
    assert part.cores.count == 25.0
    assert part.memory.hbm.bandwidth == 1e12
    assert part.memory.hbm.capacity == chip.memory.hbm.capacity
    assert (part.memory.l2.bandwidth, part.memory.l2.capacity) == (2.5e12, 1.25e7)
    assert part.power.tdp == 175.0


def test_caches_of_both_fit_in_what_is_left(pair, device):
    """`dense` caches 3,200 B a token, the deeper twice that; 511 tokens each."""
    left = float(cache_left(device, *pair))
    found = sequences_left(device, *pair, together(cache=0.25))
    assert float(found[0]) == np.floor(0.25 * left / (511 * 3200))
    assert float(found[1]) == np.floor(0.75 * left / (511 * 6400))


def test_gradients(pair, device, float64):
    """Finite in the share of the cores; fewer never make the second faster; in turns they do not matter."""

    def tpots(cores, kind):
        first, second = colocated_cost(device, *pair, together(sharing=kind, cores=cores))
        return jnp.stack([first.tpot, second.tpot])

    slopes = jax.jit(lambda kind: jax.jvp(lambda cores: tpots(cores, kind), (0.3,), (1.0,))[1])
    beside = slopes(BESIDE)
    assert np.isfinite(beside).all()
    assert beside[1] >= 0.0
    assert (slopes(TURNS) == 0.0).all()

"""Prices of steps under context parallelism beside the cost model: of random batches, layouts and models."""

import dataclasses

import numpy as np
import pytest

import workloads
from jaxroof.batch import Batch, Decode, Policy, Prefill, Traffic
from jaxroof.deployment import Deployment
from jaxroof.efficiency import datasheet
from jaxroof.jobs.composition import Requests
from jaxroof.jobs.request import request_cost
from jaxroof.memory.capacity import kv_capacity_tokens
from jaxroof.numerics.arrays import eager, jax
from jaxroof.numerics.tree import mapped
from jaxroof.prices.prices import step_prices
from jaxroof.prices.tables import Limits, Parts, price_tables
from jaxroof.scheduler import Size, cache_blocks, simulate
from jaxroof.steady.step_costs import step_costs
from jaxroof.step.step import step_time

LIMITS = Limits(rows=4096, sequences=64, context=4096)

LAYOUTS = {
    "ring": ("dense", {"cp": 2.0}),
    "all_gather": ("dense", {"cp": 4.0, "tp": 2.0, "context_kind": "all_gather"}),
    "halves": ("dense", {"cp": 2.0, "tp": 2.0, "overlap": "two_batch"}),
    "experts": ("mixture", {"cp": 4.0}),
    "experts over groups": ("mixture", {"cp": 2.0, "attention_dp": 2.0, "ep": 4.0}),
    "experts gathered": ("mixture", {"cp": 2.0, "attention_dp": 2.0, "ep": 4.0, "exchange": "all_gather"}),
    "latent": ("DeepSeek-V2-Lite", {"cp": 4.0, "tp": 2.0, "ep": 8.0}),
}


def batch(prompts, tokens, past, sequences, context):
    """A step of sums over all attention groups."""
    return Batch(
        prefill=Prefill(sequences=prompts, tokens=tokens, past=past),
        decode=Decode(sequences=sequences, context=context),
        logits=prompts + sequences,
    )


def drawn(seed: int, number: int = 16):
    """Random steps: prompts alone, decoding alone, and both; prompts of whole tokens on each of 4 devices."""
    draw = np.random.default_rng(seed)
    for i in range(number):
        prompts = 0.0 if i % 4 == 0 else float(draw.integers(1, 5))
        sequences = 0.0 if i % 4 == 1 else float(draw.integers(1, 64))
        tokens = prompts * float(4 * draw.integers(1, 128))
        yield batch(prompts, tokens, tokens * float(draw.integers(0, 3)), sequences, sequences * draw.integers(1, 4096))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_prices_are_those_of_steps(layout, chip, request, float64):
    name, degrees = LAYOUTS[layout]
    model = request.getfixturevalue(name) if name in ("dense", "mixture") else workloads.model(name).model
    place = chip, model, Deployment(**degrees), datasheet()
    with eager():
        _, price = step_prices(*place, LIMITS)
        for each in drawn(seed=len(layout)):
            found = sum(price(each, each.prefill.tokens + each.decode.sequences))
            # 2e-3: tables are linear between nodes, while kernels have whole tiles
            assert found == pytest.approx(float(step_time(*place[:3], each, place[3])), rel=2e-3)


def test_what_each_device_has_of_the_rows(chip, mixture, float64):
    """8 prompt tokens on 4 devices and 3 that decode: 5 rows of a projection, 11 of the experts on all of them."""
    deployment = Deployment(cp=4.0, ep=4.0)
    parts = Parts(chip, mixture, deployment, datasheet())
    rows = parts.rows(batch(1.0, 8.0, 0.0, 3.0, 30.0), 11.0)
    assert (rows.all, rows.each) == (11.0, 5.0)
    kinds = parts.kinds[0]
    assert {"qkv_proj", "o_proj", "router"} <= kinds["split"]
    assert {"expert_up_proj", "expert_down_proj", "dispatch", "return"} <= kinds["rows"]
    assert "context_exchange" in kinds["prompt"] and "context_combine" in kinds["decode"]


def test_without_context_parallelism_there_is_one_table_of_rows(chip, mixture, float64):
    deployment = Deployment(attention_dp=2.0, ep=2.0)
    with eager():
        tables = price_tables(Parts(chip, mixture, deployment, datasheet()), deployment, LIMITS)
        # one context-parallel device has all rows: the same sums from two tables
        own = dataclasses.replace(deployment, cp=1.0)
        split = price_tables(Parts(chip, mixture, own, datasheet()), own, LIMITS)
    assert tables.split is None
    np.testing.assert_allclose(split.rows + split.split, tables.rows, rtol=1e-12)


def test_prices_are_those_of_static_batches(chip, dense, float64):
    """Micro-batches of pipeline stages whose layers are split over two devices, as `request_cost` has them."""
    place = chip, dense, Deployment(cp=2.0, pp=2.0)
    none = {"cached": 0.0, "acceptance": 0.0, "delay": 0.0}
    with eager():
        _, price = step_prices(*place, datasheet(), LIMITS)
        # 16 sequences of 1,536 tokens, one prompt of 2,048: nodes of the tables
        decoded = sum(price(batch(0.0, 0.0, 0.0, 16.0, 16 * 1536.0), 16.0))
        prefilled = sum(price(batch(1.0, 2048.0, 0.0, 0.0, 0.0), 2048.0))
        tpot = request_cost(*place, Requests(batch=16.0, isl=1535.0, osl=2.0, **none), datasheet()).tpot
        ttft = request_cost(*place, Requests(batch=1.0, isl=2048.0, osl=2.0, **none), datasheet()).ttft
    assert decoded == pytest.approx(float(tpot), rel=1e-9)
    assert prefilled == pytest.approx(float(ttft), rel=1e-9)


def test_costs_of_a_steady_state_are_those_of_steps(chip, mixture, float64):
    """On nodes: 112 prompt tokens on 2 devices and 8 that decode are 64 rows; 128 of 8 tokens more on all of them."""
    place = chip, mixture, Deployment(cp=2.0)
    each = batch(2.0, 112.0, 0.0, 8.0, 8 * 512.0)
    with eager():
        costs = step_costs(*place, datasheet(), 512.0, rows=np.array([1.0, 64.0, 120.0, 4096.0]))
        spent, host = costs.cost(mapped(np.atleast_1d, each), np.atleast_1d(120.0))
        exact = step_time(*place, each, datasheet())
    # logits are linear between 8 and 16
    assert spent[0, 0] + host[0] == pytest.approx(float(exact), rel=1e-4)


def test_one_request_at_a_time_is_the_request_job(chip, dense, float64):
    place = chip, dense, Deployment(cp=2.0)
    traffic = Traffic(arrival=np.array([0.0, 100.0]), isl=np.array([512.0, 2000.0]), osl=np.array([16.0, 1.0]))
    number = jax.numpy.asarray
    things = jax.tree.map(lambda leaf: number(leaf, float), (*place, datasheet(), traffic, Policy()))
    size = Size(slots=2, iterations=64, rows=4096, context=4096)
    found, _ = jax.jit(lambda things: simulate(*things, size))(things)
    for i in range(2):
        asked = {"cached": 0.0, "acceptance": 0.0, "delay": 0.0} | {"isl": traffic.isl[i], "osl": traffic.osl[i]}
        with eager():
            cost = request_cost(*place, Requests(batch=1.0, **asked), datasheet())
        assert float((found.first_token - found.arrival)[i]) == pytest.approx(float(cost.ttft), rel=2e-3)
        assert float((found.finish - found.arrival)[i]) == pytest.approx(float(cost.e2e), rel=2e-3)


def test_blocks_of_the_cache_are_spread_over_the_devices(chip, dense, float64):
    """1,600 B per token and device become 800: of the same room twice as many blocks of 16."""
    alone, split = (Deployment(cp=cp, reserve_bytes=3e9, logit_bytes=0.0) for cp in (None, 2.0))
    with eager():
        blocks = [float(cache_blocks(chip, dense, each, Policy(block_size=16.0))) for each in (alone, split)]
        room = float(kv_capacity_tokens(chip, dense, split))
    assert blocks[1] == np.floor(room / 16.0)
    # activations of the profiled prompt are those of its half
    assert blocks[1] / blocks[0] == pytest.approx(2.0, rel=0.05) and blocks[1] >= 2.0 * blocks[0]

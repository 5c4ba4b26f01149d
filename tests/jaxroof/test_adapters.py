"""Serving with low-rank adapters, prompts that are retrieved, and iterations of learning from feedback."""

import dataclasses

import jax
import numpy as np
import pytest

import workloads
from jaxroof import Deployment, Requests, datasheet, decode, mixed, parameter_count, prefill, request_cost, step_time
from jaxroof.deployment import Adapters
from jaxroof.jobs.composition import tokens_per_second
from jaxroof.jobs.feedback import Scorer, feedback_cost, sync_time
from jaxroof.layers.adapters import adapter_elements
from jaxroof.memory.capacity import weight_bytes
from jaxroof.step.forward import step_ops
from tests.hand import EXACT, check
from tests.uncompiled import uncompiled


@pytest.fixture(scope="module")
def cost():
    """`request_cost`, compiled once for all tests of one structure."""
    return jax.jit(request_cost)


def adapted(**given) -> Deployment:
    return Deployment(adapters=Adapters(**{"rank": 16.0, "loaded": 10.0} | given))


def test_parameters_of_llama_2_7b():
    """Scenario T4.2: rank 16 on q and v of 32 layers: 32 x 2 x 16 x (4096 + 4096) = 8.39 M weights of 2 B."""
    model = workloads.model("Llama-2-7B").model
    assert float(adapter_elements(model, adapted(loaded=1.0))) == 8_388_608
    more = float(weight_bytes(model, adapted(loaded=100.0))) - float(weight_bytes(model, Deployment()))
    assert more == pytest.approx(100 * 2 * 8_388_608, rel=1e-4)  # float32 of 13 GB


def test_products_of_a_step(dense):
    """3 sequences of one new token: 10 (1 - 0.9^3) = 2.71 adapters are touched. q: 1000 to 16 to 10 heads x 100."""
    ops = step_ops(dense, adapted(), decode(3.0, 50.0))
    down, up = ops["adapter_q_a"], ops["adapter_q_b"]
    check(down, count=4, matrix_flops=2 * 3 * 1000 * 16, bytes=2.71 * 16_000 * 2 + 3 * 2 * (1000 + 16))
    check(up, count=4, matrix_flops=2 * 3 * 16 * 1000, bytes=2.71 * 16_000 * 2 + 3 * 2 * (16 + 1000))
    # v: 2 heads x 100
    check(ops["adapter_v_b"], matrix_flops=2 * 3 * 16 * 200)
    assert down.kind == "experts"
    assert "adapter_up_a" not in ops
    # prompts and decoding sequences have one each: 10 (1 - 0.9^5)
    both = step_ops(dense, adapted(), mixed(prefill(2.0, 70.0), decode(3.0, 50.0)))["adapter_q_a"]
    check(both, bytes=10 * (1 - 0.9**5) * 32_000 + 143 * 2 * 1016)


def test_tensor_parallel_adapters(dense):
    """On 2 devices B of q, and A of the output projection, are split; the other of each pair is whole."""
    deployment = dataclasses.replace(adapted(targets=("q", "o", "down")), tp=2.0)
    ops = step_ops(dense, deployment, decode(3.0, 50.0))
    check(ops["adapter_q_a"], matrix_flops=2 * 3 * 1000 * 16)
    check(ops["adapter_q_b"], matrix_flops=2 * 3 * 16 * 500)
    check(ops["adapter_o_a"], matrix_flops=2 * 3 * 500 * 16)
    check(ops["adapter_down_a"], matrix_flops=2 * 3 * 1500 * 16)


def test_one_adapter_is_read_once(dense, chip):
    """Of one adapter however many sequences read one; more adapters never make a step quicker."""
    one = step_ops(dense, adapted(loaded=1.0), decode(64.0, 50.0))["adapter_q_a"]
    check(one, bytes=32_000 + 64 * 2 * 1016)
    times = [
        float(step_time(chip, dense, deployment, decode(64.0, 50.0), datasheet()))
        for deployment in (Deployment(), adapted(loaded=1.0), adapted(loaded=200.0))
    ]
    assert times == sorted(times)


def test_a_prompt_that_is_retrieved(dense, chip, single, cost):
    """150 ms later for the client; the devices work for others meanwhile, so their rate is the same."""
    plain = Requests(batch=4.0, isl=100.0, osl=50.0, cached=0.0)
    late = dataclasses.replace(plain, delay=0.15)
    one, two = (cost(chip, dense, single, work, datasheet()) for work in (plain, late))
    assert float(two.ttft) - float(one.ttft) == pytest.approx(0.15, rel=1e-5)
    assert float(two.e2e) - float(one.e2e) == pytest.approx(0.15, rel=1e-5)
    assert float(two.tpot) == float(one.tpot)
    assert float(tokens_per_second(two, late)) == pytest.approx(float(tokens_per_second(one, plain)), rel=1e-4)


def test_parts_of_an_iteration(dense, chip, cost):
    """100 prompts on 2 replicas of 16: 4 batches; read by 8 at a time on one device: 13 batches."""
    work = Requests(batch=16.0, isl=100.0, osl=50.0, cached=0.0)
    deployment = Deployment(dp=2.0)
    scorer = Scorer(model=dense, deployment=Deployment(), batch=8.0)
    found = feedback_cost(
        chip,
        dense,
        deployment,
        work,
        datasheet(),
        prompts=100.0,
        scorers=(scorer, scorer),
        train_time=3.0,
        sync_bandwidth=1e9,
    )
    read = Requests(batch=8.0, isl=150.0, osl=1.0, cached=0.0)
    assert float(found.rollout) == pytest.approx(
        4 * float(cost(chip, dense, deployment, work, datasheet()).e2e), rel=1e-5
    )
    scored = 2 * 13 * float(cost(chip, dense, Deployment(), read, datasheet()).ttft)
    assert float(found.scoring) == pytest.approx(scored, rel=1e-5)
    assert float(found.sync) == pytest.approx(2 * float(parameter_count(dense)) / 1e9, rel=EXACT)
    parts = float(found.rollout) + scored + 3.0 + float(found.sync)
    assert float(found.total) == pytest.approx(parts, rel=1e-5)


def test_scenario_x3_sync():
    """Llama-3.1-8B: 8.03 G parameters at 16 bits are 16 GB; at 400 GB/s 40 ms."""
    model = workloads.model("Llama-3.1-8B").model
    assert float(sync_time(model, 2.0, 1.0)) == pytest.approx(16e9, rel=0.01)
    assert float(sync_time(model, 2.0, 4e11)) == pytest.approx(0.040, rel=0.01)


def test_gradients(dense, chip, float64):
    def time(deployment):
        return step_time(chip, dense, deployment, decode(3.0, 50.0), datasheet())

    slopes = uncompiled(jax.grad(time))(adapted())
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))
    assert float(slopes.adapters.rank) > 0

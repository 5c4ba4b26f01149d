"""`serve` with workers that encode images alone, and with a policy of its own for the pool of prompts."""

import numpy as np
import pytest

from sweeps.run.simulated.spec import serve_spec
from sweeps.serving.run import simulation

pytestmark = [pytest.mark.xdist_group("files"), pytest.mark.usefixtures("standard_promotion")]

SEEING = {"hardware": "H100-SXM", "model": "Qwen2.5-VL-7B", "isl": 64, "osl": 8, "requests": 24, "image": "1036x1036"}
PLACE = {"hardware": "H100-SXM", "model": "Llama-3.1-8B", "rate": 20, "isl": 400, "osl": 16, "requests": 48}


def test_workers_take_images_one_request_after_the_other():
    """All come at once: the n-th of one worker is encoded after n times its time, and gets its first work then."""
    found = simulation(serve_spec(**SEEING, arrivals="once", encoders="1"))
    pool, served = found.routes.encoders, found.served
    assert pool.workers == 1 and pool.time > 0.01 and 0.0 < pool.transfer < pool.time
    front = np.sort(served.admitted)[0] - pool.time - pool.transfer  # of the host and the engine's front end
    assert 0.0 <= front < 0.05
    ready = front + pool.time * np.arange(1, 25) + pool.transfer
    # A step under way is waited for, and steps have room for five prompts.
    admitted = np.sort(served.admitted)
    assert np.all(admitted >= ready - 1e-9) and admitted[-1] < ready[-1] + 0.2
    both = np.sort(simulation(serve_spec(**SEEING, arrivals="once", encoders="2")).served.admitted)
    assert both[0] == both[1] and both[2] >= ready[1] - 1e-9


def test_engines_have_neither_the_encoder_nor_its_work():
    here, there = (
        simulation(serve_spec(**SEEING, rate=1, router="round_robin", **each)) for each in ({}, {"encoders": 1})
    )
    assert there.blocks > here.blocks
    work = there.scenario.workload.traffic
    assert there.scenario.model.encoder is None and work.encode is None
    assert there.metrics["devices"] == 2.0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"encoders": "L40S"}, "encoders = 'L40S' must be a number of devices, or N x an accelerator: 2, 2xL40S"),
        ({"encoders": "0"}, "encoders = '0' must be a number of devices"),
        ({"encoders": "1", "image": None}, "encoders = '1' has no effect: requests have no images"),
        ({"encoders": "1xL41S"}, "'L41S' is neither in the catalogue"),
        (
            {"encoders": "1", "autoscale": "by=queue,target=4", "deployment": {"dp": 4}},
            "encoders cannot be given with autoscale",
        ),
    ],
)
def test_what_encoders_cannot_be(words, message):
    with pytest.raises(ValueError, match=message):
        simulation(serve_spec(**(SEEING | {"rate": 1} | words)))


def test_a_pool_for_prompts_has_a_policy_of_its_own():
    """Of a budget of 64 tokens a prompt of 400 takes seven steps or more, in place of one or two."""
    asked = PLACE | {"prefill": {"dp": 1}}
    plain, alone = (simulation(serve_spec(**asked, prefill_policy=own)) for own in ({}, {"token_budget": 64}))
    assert plain.prefill_policy is None and alone.prefill_policy.token_budget == 64.0
    assert alone.policy == plain.policy
    assert alone.metrics["ttft_p50"] > 1.5 * plain.metrics["ttft_p50"]
    same = simulation(serve_spec(**asked, prefill_policy={"max_sequences": plain.policy.max_sequences}))
    np.testing.assert_allclose(same.served.finish, plain.served.finish, rtol=1e-12)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"prefill_policy": {"block_size": 64}}, "prefill_policy.block_size is no number of the pool for prompts"),
        ({"prefill_policy": {"max_seqs": 64}}, "prefill_policy: there is no policy.max_seqs"),
        ({"prefill_policy": {"max_sequences": 0}}, "prefill_policy: policy.max_sequences = 0 must be a whole number"),
        ({"prefill_policy": {"order": "odd"}}, "prefill_policy: policy.order = 'odd' must be"),
        (
            {"prefill": {}, "prefill_policy": {"chunked": 0}},
            "prefill_policy has no effect without a router or a prefill",
        ),
    ],
)
def test_what_a_policy_of_a_pool_cannot_be(words, message):
    with pytest.raises(ValueError, match=message):
        simulation(serve_spec(**(PLACE | {"prefill": {"dp": 1}} | words)))

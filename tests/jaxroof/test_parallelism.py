"""Every way to spread a model over devices: messages, work and memory of one device, by hand."""

import dataclasses
import math

import jax
import numpy as np
import pytest

from jaxroof import (
    Deployment,
    Requests,
    datasheet,
    decode,
    kv_bytes_per_token,
    mixed,
    prefill,
    request_cost,
    step_cost,
    step_time,
    weight_bytes,
)
from jaxroof.batch import Batch, Decode
from jaxroof.deployment import devices, largest_stage, replica_devices
from jaxroof.fanout import distinct_devices
from jaxroof.memory.capacity import sequence_capacity
from jaxroof.step.forward import step_ops
from tests.hand import EXACT, check
from tests.points import leaves_as
from tests.structures import points

# `dense`, per layer: 11.4 M weights and 2000 norms; embedding and head 20 M each, and 1000. `mixture`: attention 2.4 M,
# router 8000, 8 experts of 1.5 M.
NORMS = 4 * 2000 + 1000


def requests(batch=8.0) -> Requests:
    return Requests(batch=batch, isl=500.0, osl=100.0, cached=0.0)


@pytest.mark.parametrize("structure", ["sliding_fp8", "experts_fp8", "speech"])
def test_degrees_of_one_cost_what_none_does(structure):
    """No degree given, or all of them 1: the same step and the same bytes, to the rounding of a sum's order."""
    drawn = leaves_as(points(structure, 20, seed=5), np.float32)
    one = np.ones(20, np.float32)
    given = {"pp": one, "cp": one, "attention_dp": one, "ep": one, "drafts": 0.0 * one}
    bare = dataclasses.replace(
        drawn.deployment, **dict.fromkeys(given), imbalance=one, exchange="all_to_all", overlap="none"
    )
    spread = dataclasses.replace(bare, **given)

    def cost(deployment, hardware, model, batch, constants):
        time = step_time(hardware, model, deployment, batch, constants)
        return time, weight_bytes(model, deployment), kv_bytes_per_token(model, deployment)

    place = drawn.hardware, drawn.model, drawn.batch, drawn.efficiency
    found = [jax.jit(jax.vmap(cost))(split, *place) for split in (bare, spread)]
    for nothing, ones in zip(*found, strict=True):
        np.testing.assert_allclose(nothing, ones, rtol=2.4e-7)  # two units in the last place


def test_devices():
    split = Deployment(tp=2.0, cp=3.0, attention_dp=4.0, pp=5.0, ep=6.0, dp=7.0)
    assert replica_devices(split) == 120 and devices(split) == 840  # ep spreads experts over devices there are
    assert devices(Deployment()) == 1


def test_stages():
    # 61 layers: 16, 16, 16 and 13; given, the largest counts
    assert float(largest_stage(Deployment(), 61.0)) == 1.0
    assert float(largest_stage(Deployment(pp=4.0), 61.0)) == pytest.approx(16 / 61, rel=EXACT)
    assert float(largest_stage(Deployment(pp=4.0), 64.0)) == pytest.approx(0.25, rel=EXACT)
    given = Deployment(pp=4.0, stages=(14.0, 16.0, 17.0, 14.0))
    assert float(largest_stage(given, 61.0)) == pytest.approx(17 / 61, rel=EXACT)


def test_weights_of_a_stage(dense):
    # two of four layers and one of the two vocabularies
    assert float(weight_bytes(dense, Deployment(pp=2.0))) == 2 * (2 * 11_402_000 + 20_000_000 + 1000)
    # three stages: two layers in the largest; 3 + 1: three
    assert float(weight_bytes(dense, Deployment(pp=3.0))) == 2 * (2 * 11_402_000 + 20_000_000 + 1000)
    uneven = Deployment(pp=2.0, stages=(3.0, 1.0))
    assert float(weight_bytes(dense, uneven)) == pytest.approx(2 * (3 * 11_402_000 + 20_000_000 + 1000), rel=EXACT)
    # cache: 800 B per layer and token
    assert float(kv_bytes_per_token(dense, Deployment(pp=2.0))) == 1600
    assert float(kv_bytes_per_token(dense, uneven)) == pytest.approx(2400, rel=EXACT)


def test_sends_between_stages(dense):
    # 7 tokens of 1000 x 2 B, three times between four stages, each on two tensor-parallel devices
    op = step_ops(dense, Deployment(tp=2.0, pp=4.0), prefill(1.0, 7.0))["stage_send"]
    check(op, count=3, kernels=1, message_bytes=14_000, participants=2, stride=2)
    assert op.operation == "send_recv"
    assert "stage_send" not in step_ops(dense, Deployment(), prefill(1.0, 7.0))


@pytest.mark.parametrize(
    ("split", "batch", "first", "later"),
    [
        ({"pp": 4.0}, 8.0, 1 + 3 / 4, 1.0),  # four micro-batches of 2: three more times through the slowest stage
        ({"pp": 4.0}, 2.0, 1 + 1 / 4, 1.0),  # two micro-batches of 1: half of the stages wait
        ({"pp": 2.0, "stages": (3.0, 1.0)}, 8.0, 1 + 3 / 4, 2 * 3 / 4),  # the stage of 3 layers is never idle
        ({"pp": 3.0}, 9.0, 1 + 2 * 2 / 4, 3 * 2 / 4),  # 2, 2 and 0 layers
    ],
)
def test_latencies_of_micro_batches(chip, dense, split, batch, first, later):
    deployment = Deployment(**split)
    part = batch / min(split["pp"], batch)
    found = request_cost(chip, dense, deployment, requests(batch), datasheet())
    prompts = float(step_time(chip, dense, deployment, prefill(part, 500.0), datasheet()))
    token = float(step_time(chip, dense, deployment, decode(part, 550.0), datasheet()))
    assert float(found.ttft) == pytest.approx(first * prompts, rel=EXACT)
    assert float(found.tpot) == pytest.approx(later * token, rel=EXACT)


def test_a_ring_passes_what_a_gather_does(dense):
    """4 devices with 25 tokens of 100 each: 3 sends of a quarter to the neighbour, as much as each receives at once."""
    ring = step_ops(dense, Deployment(tp=2.0, cp=4.0), prefill(1.0, 100.0))["context_exchange"]
    check(ring, count=4 * 3, message_bytes=100 * 200 * 2 / 4, participants=4, stride=2)
    gather = step_ops(dense, Deployment(tp=2.0, cp=4.0, context_kind="all_gather"), prefill(1.0, 100.0))
    check(gather["context_exchange"], count=4, message_bytes=100 * 200 * 2, participants=4, stride=2)
    sent = float(ring.count * ring.message_bytes)
    received = 4 * float(gather["context_exchange"].message_bytes) * 3 / 4
    assert ring.operation == "send_recv" and sent == pytest.approx(received, rel=EXACT)


def test_prompts_are_split_and_tokens_are_not(dense):
    whole, split = (
        step_ops(dense, Deployment(cp=cp), mixed(prefill(1.0, 100.0), decode(4.0, 50.0))) for cp in (None, 4.0)
    )
    check(split["qkv_proj"], matrix_flops=2 * (25 + 4) * 1000 * 1400)
    check(split["prefill_attention"], matrix_flops=float(whole["prefill_attention"].matrix_flops) / 4)
    # every device reads all of the prompt's keys and values, and a quarter of the cache of what it decodes
    check(split["prefill_attention"], bytes=2 * (100 * 400 + 25 * 2000))
    check(split["decode_attention"], matrix_flops=50 * 4000, bytes=2 * (50 * 400 + 4 * 2000))
    # partial outputs of 4 x 10 heads x 100
    check(split["context_combine"], count=4, message_bytes=4 * 1000 * 2, participants=4)
    assert "context_combine" not in whole


def test_cache_under_context_parallelism(dense, chip):
    assert float(kv_bytes_per_token(dense, Deployment(cp=4.0))) == 800
    assert float(weight_bytes(dense, Deployment(cp=4.0))) == float(weight_bytes(dense, Deployment()))
    # four times the sequences, but for rounding down to whole ones
    ways = [Deployment(cp=cp, reserve_bytes=3e9) for cp in (None, 4.0)]
    one, four = (float(sequence_capacity(chip, dense, deployment, 1000.0)) for deployment in ways)
    assert 4 * one <= four < 4 * (one + 1)


def test_halves_of_an_all_reduce(dense, chip):
    ops = step_ops(dense, Deployment(tp=4.0, sequence_parallel=True), prefill(1.0, 100.0))
    plain = step_ops(dense, Deployment(tp=4.0), prefill(1.0, 100.0))
    for part in ("embedding", "attention", "feedforward"):
        for half in ("reduce_scatter", "all_gather"):
            check(ops[f"{part}_{half}"], message_bytes=100 * 1000 * 2, participants=4)
        assert f"{part}_all_reduce" not in ops
    # a quarter of the rows in the layers' norms
    for name in ("attention_norm", "feedforward_norm"):
        check(ops[name], bytes=25 * 4000 * 2)
        check(plain[name], bytes=100 * 4000 * 2)
    check(ops["qkv_proj"], matrix_flops=float(plain["qkv_proj"].matrix_flops))


@pytest.mark.parametrize(
    ("ep", "experts", "top_k"), [(8, 8, 2), (8, 256, 8), (64, 256, 8), (4, 64, 1), (1, 64, 6), (2, 4, 2), (8, 8, 8)]
)
def test_distinct_devices(ep, experts, top_k):
    """2 of 8 experts on 8 devices are on 2 of them; 8 of 256 on 5.30 of 8 and on 7.68 of 64. 2 %: the middle factor."""
    expected = ep * (1 - math.comb(experts - experts // ep, top_k) / math.comb(experts, top_k))
    found = float(distinct_devices(float(ep), float(experts), float(top_k)))
    few = min(experts // ep, top_k) == 1
    assert found == pytest.approx(expected, rel=1e-5 if few else 0.021)


def test_experts_where_every_device_has_every_token(mixture):
    """Two of eight experts each on four devices: 14 rows of 7 tokens are 3.5, 6.932 touched experts 1.733 in the mean.
    On the busiest device 1.733 + 1.048 sqrt(0.2210) = 2.23, and it has 2.
    """
    ops = step_ops(mixture, Deployment(tp=4.0, ep=4.0), prefill(1.0, 7.0))
    check(ops["expert_up_proj"], matrix_flops=2 * 3.5 * 1000 * 1000, bytes=2 * (2 * 1e6 + 3.5 * 2000))
    assert not {"dispatch", "return"} & set(ops)
    # half by expert, half by width: four of eight experts, 250 wide; 3.466 + 0.5874 sqrt(0.4008) of them on the busier
    touched = 3.8379424158724627
    ops = step_ops(mixture, Deployment(tp=4.0, ep=2.0), prefill(1.0, 7.0))
    check(ops["expert_up_proj"], matrix_flops=2 * 7 * 1000 * 500, bytes=2 * (touched * 5e5 + 7 * 1500))


def exchanged(mixture, kind, **split):
    deployment = Deployment(attention_dp=4.0, exchange=kind, **{"ep": 4.0, **split})
    return step_ops(mixture, deployment, decode(40.0, 50.0))


def test_groups_of_requests(mixture):
    """40 sequences in four groups: 10 tokens in each group's attention, 80 rows over four devices of experts."""
    ops = exchanged(mixture, "all_to_all")
    check(ops["qkv_proj"], matrix_flops=2 * 10 * 1000 * 1400)
    check(ops["router"], matrix_flops=2 * 10 * 1000 * 8)
    check(ops["expert_up_proj"], matrix_flops=2 * 20 * 1000 * 1000)
    check(ops["head"], matrix_flops=2 * 10 * 1000 * 20_000)


def test_messages_to_experts(mixture):
    # once per device that has one of two of eight experts: 4 (1 - (1 - 2 / 7.5)^2) = 1.849 copies of 10 tokens, which
    # stands for 4 (1 - 6/8 x 5/7) = 1.857
    ops = exchanged(mixture, "all_to_all")
    check(ops["dispatch"], count=4, message_bytes=10 * 4 * (1 - (1 - 2 / 7.5) ** 2) * 1000 * 2, participants=4)
    check(ops["return"], message_bytes=10 * 4 * (1 - (1 - 2 / 7.5) ** 2) * 1000 * 2)
    assert ops["dispatch"].operation == ops["return"].operation == "all_to_all"
    # once per expert: 2 copies
    ops = exchanged(mixture, "low_latency")
    check(ops["dispatch"], message_bytes=10 * 2 * 1000 * 2)
    assert (ops["dispatch"].operation, ops["return"].operation) == ("dispatch", "combine")
    # all 40 tokens to all four groups
    ops = exchanged(mixture, "all_gather")
    check(ops["dispatch_all_gather"], message_bytes=40 * 1000 * 2, participants=4, stride=1)
    check(ops["combine_reduce_scatter"], message_bytes=40 * 1000 * 2, participants=4)


def test_messages_at_other_precisions_and_splits(mixture):
    # there at 8 bits, back at 16
    ops = exchanged(mixture, "low_latency", dispatch_bytes=1.0)
    check(ops["dispatch"], message_bytes=20_000)
    check(ops["return"], message_bytes=40_000)
    # tp 2: each of a group's two devices sends half of its tokens, to both devices of an expert
    ops = exchanged(mixture, "low_latency", tp=2.0)
    check(ops["dispatch"], message_bytes=10 / 2 * 2 * 2 * 1000 * 2, participants=8)


def test_imbalance(mixture):
    """The busiest device has 1.5 times the mean's rows and messages, and as many experts."""
    even, uneven = (exchanged(mixture, "low_latency", imbalance=factor) for factor in (1.0, 1.5))
    for name in ("expert_up_proj", "expert_down_proj"):
        check(uneven[name], matrix_flops=1.5 * float(even[name].matrix_flops))
    check(uneven["dispatch"], message_bytes=1.5 * float(even["dispatch"].message_bytes))
    check(uneven["router"], matrix_flops=float(even["router"].matrix_flops))


def test_an_exchange_costs_something_wherever_groups_share_experts(mixture, chip):
    """Experts split by width over four groups: their tokens have to get there whatever the kind of exchange."""
    for kind in ("all_gather", "all_to_all", "low_latency"):
        costs = step_cost(chip, mixture, Deployment(attention_dp=4.0, exchange=kind), decode(40.0, 50.0), datasheet())
        assert sum(float(cost.time) for name, cost in costs.items() if "dispatch" in name) > 0.0, kind


@pytest.mark.parametrize(
    ("split", "weights", "token"),
    [
        ({}, 4 * (2_400_000 + 8000 + 12_000_000) + 40_000_000 + NORMS, 3200),
        ({"tp": 2.0}, 4 * (1_200_000 + 8000 + 6_000_000) + 20_000_000 + NORMS, 1600),
        # five query heads' halves: one KV head on each of five devices; 2 x 100 x 1000 + 2 x 100 x 1000 and 200 x 1000
        ({"tp": 5.0}, 4 * (600_000 + 8000 + 2_400_000) + 8_000_000 + NORMS, 1600),
        ({"attention_dp": 4.0, "ep": 4.0}, 4 * (2_400_000 + 8000 + 3_000_000) + 40_000_000 + NORMS, 3200),
        ({"attention_dp": 4.0, "ep": 2.0}, 4 * (2_400_000 + 8000 + 3_000_000) + 40_000_000 + NORMS, 3200),
        ({"tp": 2.0, "attention_dp": 2.0, "ep": 4.0}, 4 * (1_200_000 + 8000 + 3_000_000) + 20_000_000 + NORMS, 1600),
        ({"cp": 2.0}, 4 * (2_400_000 + 8000 + 6_000_000) + 40_000_000 + NORMS, 1600),
        ({"pp": 4.0}, 2_400_000 + 8000 + 12_000_000 + 20_000_000 + 3000, 800),
    ],
)
def test_memory_of_one_device(mixture, split, weights, token):
    assert float(weight_bytes(mixture, Deployment(**split))) == pytest.approx(2 * weights, rel=EXACT)
    assert float(kv_bytes_per_token(mixture, Deployment(**split))) == pytest.approx(token, rel=EXACT)


def test_every_group_has_a_cache_of_its_own(mixture, chip):
    """Four groups hold four times what one of them does."""
    split = Deployment(attention_dp=4.0, ep=4.0)
    one = Deployment(tp=4.0, ep=4.0)
    assert float(sequence_capacity(chip, mixture, split, 1000.0)) % 4 == 0
    # one group of four devices: a KV head on two devices each, so half the cache per device
    ratio = float(sequence_capacity(chip, mixture, split, 1000.0)) / float(
        sequence_capacity(chip, mixture, one, 1000.0)
    )
    assert ratio == pytest.approx(2.0, rel=0.01)  # the weights differ a little


def test_replicas_change_nothing_of_one(mixture, chip):
    one, four = (request_cost(chip, mixture, Deployment(dp=dp), requests(), datasheet()) for dp in (1.0, 4.0))
    assert float(one.e2e) == float(four.e2e)


def test_an_empty_step_of_a_spread_model_is_free(mixture, chip):
    nothing = Batch(prefill=None, decode=Decode(sequences=0.0, context=0.0), logits=0.0)
    for kind in ("all_gather", "all_to_all", "low_latency"):
        split = Deployment(tp=2.0, cp=2.0, attention_dp=2.0, ep=4.0, pp=2.0, exchange=kind)
        assert float(step_time(chip, mixture, split, nothing, datasheet())) == 0.0

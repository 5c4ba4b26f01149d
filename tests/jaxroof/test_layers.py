"""FLOP, bytes and kernel counts of every layer on one device, worked by hand, and the sums of steps."""

import dataclasses
import itertools
import math
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from jaxroof import Batch, Decode, Deployment, WeightFormat, datasheet, decode, mixed, prefill, step_time
from jaxroof.layers.choices import busiest_experts, distinct_experts
from jaxroof.step.forward import step_ops
from jaxroof.step.step import op_flops

EXACT = 1e-6  # relative: a few float32 roundings


def numbers(op) -> dict[str, float]:
    """Quantities that an op has."""
    fields = ("count", "kernels", "matrix_flops", "vector_flops", "exps", "bytes", "message_bytes", "participants")
    return {name: float(getattr(op, name)) for name in fields if getattr(op, name, None) is not None}


def check(op, **expected):
    found = numbers(op)
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=EXACT)


def with_feedforward(model, feedforward):
    return dataclasses.replace(model, blocks=(dataclasses.replace(model.blocks[0], feedforward=feedforward),))


def test_projections(dense, single):
    """7 new tokens of one prompt on `dense`: hidden 1000, 10 query and 2 KV heads of 100, width 3000."""
    ops = step_ops(dense, single, prefill(1.0, 7.0))
    # fused QKV: n = (10 + 2 x 2) x 100 = 1400; 2 x 7 x 1000 x 1400 FLOP; (1.4 M weights + 7 x 2400 elements) x 2 B
    check(ops["qkv_proj"], count=4, kernels=1, matrix_flops=19.6e6, bytes=2 * (1.4e6 + 7 * 2400))
    check(ops["o_proj"], count=4, matrix_flops=14e6, bytes=2 * (1e6 + 7 * 2000))
    # fused gate and up: n = 6000
    check(ops["up_proj"], count=4, matrix_flops=84e6, bytes=2 * (6e6 + 7 * 7000))
    check(ops["down_proj"], count=4, matrix_flops=42e6, bytes=2 * (3e6 + 7 * 4000))


def test_elementwise(dense, single):
    ops = step_ops(dense, single, prefill(1.0, 7.0))
    # residual and input in, both out: 4 x 1000 elements; 5 FLOP per element
    for name, count in (("attention_norm", 4), ("feedforward_norm", 4), ("final_norm", 1)):
        check(ops[name], count=count, kernels=1, vector_flops=7 * 5000, bytes=7 * 4000 * 2)
    # RoPE over 1000 + 200 elements, 3 FLOP each; reads 1400, writes 1000 queries and 400 to the cache; two kernels
    check(ops["rope_kv_write"], count=4, kernels=2, vector_flops=7 * 3600, bytes=7 * 2800 * 2)
    # gate and up in, product out; 4 FLOP and one exponential per element of the width
    check(ops["activation"], count=4, vector_flops=7 * 12_000, exps=7 * 3000, bytes=7 * 9000 * 2)
    check(ops["embedding"], count=1, kernels=1, bytes=7 * 2000 * 2)


def test_head_and_sampling_see_the_rows_that_sample(dense, single):
    """Two prompts of 7 tokens: 14 tokens in the layers, 2 rows in the head."""
    ops = step_ops(dense, single, prefill(2.0, 7.0))
    check(ops["qkv_proj"], matrix_flops=2 * 14 * 1000 * 1400)
    check(ops["head"], count=1, matrix_flops=2 * 2 * 1000 * 20_000, bytes=2 * (20e6 + 2 * 21_000))
    # logits read twice in float32, one choice written: 40,001 x 4 B; one exponential per logit
    check(ops["sample"], kernels=2, vector_flops=2 * 60_000, exps=2 * 20_000, bytes=2 * 40_001 * 4)


def test_a_sampler_that_sorts_moves_400_bytes_per_logit(dense):
    """3 rows of 20,000 logits, whole on each of two devices: 3 x 20,000 x 400 B, beside the statistics."""
    ops = step_ops(dense, Deployment(tp=2.0, sampler="sort"), prefill(3.0, 7.0))
    check(ops["sort"], count=1, kernels=30, vector_flops=3 * 20_000, bytes=3 * 20_000 * 400)
    assert set(ops) - set(step_ops(dense, Deployment(tp=2.0), prefill(3.0, 7.0))) == {"sort"}


def test_drafts_are_drawn_without_a_sort(dense):
    """Of a draft model, whose own logits are only searched for the largest, and of the model it drafts for."""
    drafting = dataclasses.replace(dense, draft=dense)
    ops = step_ops(drafting, Deployment(drafts=2.0, sampler="sort"), decode(3.0, 30.0))
    check(ops["sort"], bytes=3 * 3 * 20_000 * 400)  # a row of each drafted token that is verified
    assert [name for name in ops if name.endswith("sort")] == ["sort"]


def test_a_cache_at_8_bits_is_written_at_8_bits(dense):
    ops = step_ops(dense, Deployment(kv_bytes=1.0), prefill(1.0, 7.0))
    check(ops["rope_kv_write"], bytes=7 * ((1400 + 1000) * 2 + 400 * 1))


def test_a_layer_without_gate(dense, feedforward, single):
    ops = step_ops(
        with_feedforward(dense, dataclasses.replace(feedforward, up_projections=1.0)), single, prefill(1.0, 7.0)
    )
    check(ops["up_proj"], matrix_flops=42e6, bytes=2 * (3e6 + 7 * 4000))  # n = 3000
    check(ops["activation"], bytes=7 * 6000 * 2)
    check(ops["down_proj"], matrix_flops=42e6)


def test_stored_and_multiplied_precision(dense, feedforward, single):
    # 4.25 bits stored, multiplied at 16: weights 3 M x 0.53125 B, inputs and outputs 2 B
    int4 = dataclasses.replace(feedforward, down=WeightFormat(bytes=0.53125, compute="bf16"))
    op = step_ops(with_feedforward(dense, int4), single, prefill(1.0, 7.0))["down_proj"]
    assert (op.precision, op.operand_bytes) == ("bf16", 2.0)
    check(op, bytes=3e6 * 0.53125 + 7 * (3000 * 2 + 1000 * 2))
    # fp8: inputs are read at 1 B, outputs leave at 2 B
    fp8 = dataclasses.replace(feedforward, down=WeightFormat(bytes=1.0, compute="fp8"))
    op = step_ops(with_feedforward(dense, fp8), single, prefill(1.0, 7.0))["down_proj"]
    assert (op.precision, op.operand_bytes) == ("fp8", 1.0)
    check(op, matrix_flops=42e6, bytes=3e6 + 7 * (3000 * 1 + 1000 * 2))


def test_a_split_replicates_kv_heads_beyond_their_number(dense):
    # tp 2: 5 query heads and 1 KV head: n = (5 + 2) x 100; tp 5: 2 query heads and still 1 KV head: n = 400, not 280
    for tp, n in ((2.0, 700), (5.0, 400)):
        ops = step_ops(dense, Deployment(tp=tp), decode(3.0, 50.0))
        check(ops["qkv_proj"], matrix_flops=2 * 3 * 1000 * n)
        check(ops["decode_attention"], matrix_flops=150 * 4000 / tp, bytes=2 * (150 * 200 + 3 * 2000 / tp))
        check(ops["up_proj"], matrix_flops=2 * 3 * 1000 * 6000 / tp)
        check(ops["head"], matrix_flops=2 * 3 * 1000 * 20_000 / tp)
        check(ops["attention_norm"], bytes=3 * 4000 * 2)  # not split
        check(ops["attention_all_reduce"], count=4, kernels=1, message_bytes=3 * 1000 * 2, participants=tp)
    assert float(step_ops(dense, Deployment(), decode(3.0, 50.0))["attention_all_reduce"].kernels) == 0.0


@pytest.mark.parametrize(("experts", "top_k", "tokens"), [(4, 2, 1), (4, 2, 3), (5, 1, 4), (4, 3, 2), (3, 3, 2)])
def test_distinct_experts_against_all_cases(experts, top_k, tokens):
    """The mean over every routing of `tokens` tokens to `top_k` of `experts`."""
    choices = list(itertools.combinations(range(experts), top_k))
    routings = itertools.product(choices, repeat=tokens)
    mean = sum(len(set().union(*routing)) for routing in routings) / len(choices) ** tokens
    # 1e-5: k = E is taken as E - 1e-6 E so that its logarithm is finite
    assert float(distinct_experts(float(experts), float(top_k), float(tokens))) == pytest.approx(mean, rel=1e-5)


def test_distinct_experts_of_no_and_of_many_tokens():
    assert float(distinct_experts(128.0, 8.0, 0.0)) == 0.0
    assert float(distinct_experts(128.0, 8.0, 1e6)) == 128.0


def router(top_k, groups=None, reached=None):
    return SimpleNamespace(top_k=top_k, groups=groups, reached_groups=reached)


def test_the_busiest_device_by_hand():
    """2 tokens to 1 of 8 experts on 2 devices: m = 4, a = 7/8, b = 6/8.

    mean 4 (1 - 49/64) = 0.9375, variance 4 (49/64) (15/64) + 12 (36/64 - 49^2/64^2) = 0.4335, z(2) = 0.59.
    """
    found = float(busiest_experts(router(1.0), 8.0, 2.0, 2.0))
    assert found == pytest.approx(0.9375 + 0.59 * math.sqrt(0.4335), abs=0.02)  # 1.5 of all cases, 1.33
    # of one device all; of no tokens none; of many all that a device has; a device with any has one
    assert float(busiest_experts(router(1.0), 8.0, 2.0, 1.0)) == float(distinct_experts(8.0, 1.0, 2.0))
    assert float(busiest_experts(router(2.0), 8.0, 0.0, 4.0)) == 0.0
    assert float(busiest_experts(router(2.0), 8.0, 1e6, 4.0)) == 2.0
    assert float(busiest_experts(router(1.0), 256.0, 1.0, 256.0)) == pytest.approx(1.0)


@pytest.mark.parametrize(("experts", "top_k", "groups", "reached", "devices"), [(256, 8, 8, 4, 8), (128, 4, 1, 1, 8)])
@pytest.mark.parametrize("tokens", [4, 32])
def test_the_busiest_device_against_random_routing(experts, top_k, groups, reached, devices, tokens):
    random, size, most = np.random.default_rng(3), experts // groups, []
    for _ in range(200):
        scores = random.random((tokens, groups, size))
        scores += 2.0 * (np.argsort(random.random((tokens, groups))) < reached)[..., None]  # groups that are reached
        chosen = np.argsort(-scores.reshape(tokens, experts))[:, :top_k]
        most.append(np.bincount(np.unique(chosen) * devices // experts, minlength=devices).max())
    limits = router(float(top_k), *((None, None) if groups == 1 else (float(groups), float(reached))))
    found = float(busiest_experts(limits, float(experts), float(tokens), float(devices)))
    assert found == pytest.approx(np.mean(most), rel=0.08)


@pytest.mark.parametrize("tokens", [0.0, 1e-6, 0.5, 3.0, 1e5])
def test_gradients_of_the_busiest_device(tokens):
    for limits in (router(8.0), router(8.0, 8.0, 4.0)):
        for slope in jax.grad(lambda n, d, of=limits: busiest_experts(of, 256.0, n, d), argnums=(0, 1))(tokens, 8.0):
            assert np.isfinite(slope)


def test_experts(mixture, single):
    """7 tokens to 2 of 8 experts of width 500: 14 rows over 8 (1 - (3/4)^7) = 6.932 experts."""
    ops = step_ops(mixture, single, prefill(1.0, 7.0))
    touched = 8 * (1 - 0.75**7)
    check(ops["router"], matrix_flops=2 * 7 * 1000 * 8, bytes=2 * (8000 + 7 * 1008))
    # 8 float32 logits in, 2 indices and 2 weights out; 3 kernels
    check(ops["route"], kernels=3, vector_flops=7 * 24, exps=7 * 8, bytes=7 * (8 + 4) * 4)
    check(ops["expert_up_proj"], count=4, kernels=1, matrix_flops=2 * 14 * 1000 * 1000)
    check(ops["expert_up_proj"], bytes=2 * (touched * 1e6 + 14 * 2000))
    check(ops["expert_activation"], vector_flops=14 * 2000, exps=14 * 500, bytes=14 * 1500 * 2)
    check(ops["expert_down_proj"], matrix_flops=2 * 14 * 500 * 1000, bytes=2 * (touched * 5e5 + 14 * 1500))
    check(ops["combine"], vector_flops=7 * 4000, bytes=7 * 3000 * 2)
    assert ops["expert_up_proj"].kind == "experts" and ops["router"].kind == "linear"
    assert not {"up_proj", "shared_up_proj"} & set(ops)


def test_experts_are_split_and_the_router_is_not(mixture):
    ops = step_ops(mixture, Deployment(tp=2.0), prefill(1.0, 7.0))
    check(ops["router"], matrix_flops=2 * 7 * 1000 * 8)
    check(ops["expert_up_proj"], matrix_flops=2 * 14 * 1000 * 500)
    check(ops["expert_down_proj"], matrix_flops=2 * 14 * 250 * 1000)


def test_shared_experts_see_every_token(mixture, experts, feedforward, single):
    shared = dataclasses.replace(experts, shared=feedforward)
    ops = step_ops(with_feedforward(mixture, shared), single, prefill(1.0, 7.0))
    check(ops["shared_up_proj"], matrix_flops=84e6, bytes=2 * (6e6 + 7 * 7000))
    check(ops["shared_activation"], exps=7 * 3000)
    check(ops["shared_down_proj"], matrix_flops=42e6)
    check(ops["expert_up_proj"], matrix_flops=2 * 14 * 1000 * 1000)


def test_blocks_are_numbered(dense):
    two = dataclasses.replace(dense, blocks=dense.blocks * 2)
    names = list(step_ops(two, Deployment(), decode(1.0, 9.0)))
    assert names[:4] == ["embedding", "embedding_all_reduce", "0.attention_norm", "0.qkv_proj"]
    assert names.index("0.down_proj") < names.index("1.attention_norm") < names.index("final_norm")


def test_a_mixed_step_is_additive(dense, single):
    """GEMMs see 14 + 3 tokens at once and read their weights once; each attention is what it is alone."""
    first, second = prefill(2.0, 7.0, 5.0), decode(3.0, 50.0)
    together = step_ops(dense, single, mixed(first, second))
    alone = step_ops(dense, single, first), step_ops(dense, single, second)
    assert numbers(together["prefill_attention"]) == numbers(alone[0]["prefill_attention"])
    assert numbers(together["decode_attention"]) == numbers(alone[1]["decode_attention"])
    check(together["qkv_proj"], kernels=1, matrix_flops=2 * 17 * 1000 * 1400, bytes=2 * (1.4e6 + 17 * 2400))
    check(together["head"], matrix_flops=2 * 5 * 1000 * 20_000)  # 2 prompts and 3 tokens sample
    for name in set(alone[0]) & set(alone[1]):
        flops = [float(op_flops(ops[name])) for ops in (together, *alone)] if name.endswith("proj") else [0, 0, 0]
        assert math.isclose(flops[0], flops[1] + flops[2], rel_tol=EXACT), name


def test_a_part_without_sequences_launches_nothing(dense, single):
    ops = step_ops(dense, single, decode(0.0, 50.0))
    assert {name: float(op.kernels) for name, op in ops.items() if float(op.kernels)} == {}
    assert sum(float(op_flops(op)) for op in ops.values()) == 0.0


def test_what_is_not_launched_takes_no_time(dense, chip, single):
    """Weights are not read for a GEMM without rows: the head of a step that samples nothing, or a whole empty step."""
    chunk = dataclasses.replace(prefill(1.0, 7.0), logits=0.0)  # all but the last chunk of a prompt
    assert float(step_ops(dense, single, chunk)["head"].bytes) == 0.0
    nothing = Batch(prefill=None, decode=Decode(sequences=0.0, context=0.0), logits=0.0)
    assert float(step_time(chip, dense, single, nothing, datasheet())) == 0.0

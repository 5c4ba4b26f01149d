"""Memory that is neither weights nor cache, and the engines' rules for it, worked by hand on round numbers."""

import dataclasses

import jax
import numpy as np
import pytest

import hwspaces
import workloads
from jaxroof import Deployment, MemoryLevel
from jaxroof.memory.capacity import (
    kv_bytes_per_token,
    kv_capacity_bytes,
    memory_parts,
    memory_use,
    room_for_weights,
    weight_bytes,
    weights_fit,
)
from jaxroof.memory.reserve import other_bytes, sampled_rows, sampler_bytes, static_share

GIB = 2.0**30

RULES = ({}, {"memory_of_free": 1.0}, {"memory_static": 1.0})


def device(name):
    return hwspaces.hardware(name).hardware


def sized(chip, capacity):
    return dataclasses.replace(
        chip, memory=dataclasses.replace(chip.memory, hbm=MemoryLevel(bandwidth=2e12, capacity=capacity))
    )


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("H100-SXM", 1024),
        ("MI300X", 1024),
        ("A100-SXM-80GB", 256),
        ("L40S", 256),
        ("RTX-3090", 256),
        ("RTX-PRO-6000-Server", 1024),
    ],
)
def test_rows_that_are_profiled_follow_the_device(name, rows):
    assert float(sampled_rows(device(name), Deployment())) == rows
    # never more than the step has tokens, and what is given wins
    assert float(sampled_rows(device(name), Deployment(max_batched_tokens=100.0))) == 100
    assert float(sampled_rows(device(name), Deployment(sampled_rows=6.0))) == 6


def test_logits_of_the_sampler(chip, dense):
    # 10 rows x 20,000 words x 38.6 B, and 100 hidden states of 1000 x 2 B
    deployment = Deployment(sampled_rows=10.0, max_batched_tokens=100.0)
    assert float(sampler_bytes(chip, dense, deployment)) == pytest.approx(10 * 20_000 * 38.6 + 100 * 2000)
    # tensor-parallel devices have all logits each
    assert float(sampler_bytes(chip, dense, dataclasses.replace(deployment, tp=4.0))) == pytest.approx(7_920_000)
    assert sampler_bytes(chip, dataclasses.replace(dense, generates=False), deployment) == 0.0


def test_the_larger_of_activations_and_sampler_counts(chip, dense):
    few = memory_parts(chip, dense, Deployment(sampled_rows=1.0, max_batched_tokens=1000.0))
    assert float(few.peak) == float(few.activations) == 1000 * 12_000 * 2
    many = memory_parts(chip, dense, Deployment(sampled_rows=1000.0, max_batched_tokens=1000.0))
    assert float(many.peak) == float(many.sampler) == pytest.approx(1000 * 20_000 * 38.6 + 2e6)


def test_graphs_by_layer(chip, dense):
    assert memory_parts(chip, dense, Deployment()).graphs == 0.0
    assert float(memory_parts(chip, dense, Deployment(graph_bytes=1e6)).graphs) == 4e6
    assert float(memory_parts(chip, dense, Deployment(graph_bytes=1e6, pp=2.0)).graphs) == 2e6


def test_other_memory_by_device():
    """A share u of all memory has its part of what the driver hides: 0.25 GiB + 0.65 %; libraries 0.15 GiB."""
    small = other_bytes(device("RTX-3090"), Deployment(memory_utilization=0.9))
    assert float(small) / GIB == pytest.approx(0.9 * (0.25 + 0.0065 * 24) + 0.15)
    # peers: 0.1 GiB over PCIe, 1 more where a switch adds up and 0.2 per peer; AMD's devices hide nothing
    pair = other_bytes(device("RTX-3090"), Deployment(memory_utilization=0.9, tp=2.0))
    assert float(pair - small) / GIB == pytest.approx(0.1)
    one, *more = (float(other_bytes(device("H100-SXM"), Deployment(tp=tp))) / GIB for tp in (1.0, 2.0, 4.0, 16.0))
    assert [each - one for each in more] == pytest.approx([1.3, 1.7, 2.5])
    assert float(other_bytes(device("MI300X"), Deployment())) / GIB == pytest.approx(0.15)
    # what a user gives replaces all of it
    assert other_bytes(device("H100-SXM"), Deployment(reserve_bytes=1e9, tp=8.0)) == 1e9


def test_three_rules_for_a_share(chip, dense):
    """8 GB, u = 0.9, weights 171.2 MB, peak 24 MB, other 1 GB."""
    hardware = sized(chip, 8e9)
    weights = float(weight_bytes(dense, Deployment()))
    given = {"memory_utilization": 0.9, "reserve_bytes": 1e9, "sampled_rows": 0.0, "max_batched_tokens": 1000.0}
    room = [float(kv_capacity_bytes(hardware, dense, Deployment(**given, **rule))) for rule in RULES]
    assert room[0] == pytest.approx(0.9 * 8e9 - weights - 24e6 - 1e9)
    assert room[1] == pytest.approx(0.9 * (8e9 - weights - 24e6 - 1e9))
    assert room[2] == pytest.approx(0.9 * 8e9 - weights - 1e9)
    least = [float(room_for_weights(hardware, dense, Deployment(**given, **rule))) for rule in RULES]
    assert least == pytest.approx([room[0] + weights, 7e9 - 24e6, room[2] + weights])


@pytest.mark.parametrize("rule", RULES)
def test_use_is_one_where_the_room_is_full(chip, dense, rule):
    deployment = Deployment(memory_utilization=0.8, **rule)
    hardware = sized(chip, 40e9)
    tokens = float(kv_capacity_bytes(hardware, dense, deployment)) / float(kv_bytes_per_token(dense, deployment))
    assert float(memory_use(hardware, dense, deployment, 1.0, tokens)) == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("rule", RULES)
def test_room_grows_with_memory_and_has_a_gradient(chip, dense, rule):
    def room(capacity):
        return kv_capacity_bytes(sized(chip, capacity), dense, Deployment(**rule))

    values, slopes = jax.vmap(jax.value_and_grad(room))(np.geomspace(1e6, 4e11, 60, dtype=np.float32))
    assert np.isfinite(values).all() and np.isfinite(slopes).all()
    assert (values >= 0.0).all() and not bool(weights_fit(sized(chip, 1e6), dense, Deployment(**rule)))
    assert values[0] == 0.0 < values[-1] and (slopes >= 0.0).all()


@pytest.mark.parametrize(
    ("name", "tp", "share"),
    [
        # 80 GiB: 512 + 1.5 x 8192 + 2 x 256 + 128 = 13,440 MiB of 81,920
        ("H100-SXM", 1, 1 - 13_440 / 81_920),
        # 24 GiB: 512 + 1.5 x 2048 + 2 x 24 + 128 = 3,760 MiB of 24,576
        ("RTX-3090", 1, 1 - 3760 / 24_576),
        # 288 GiB, 8 devices: 512 + 1.5 x 16,384 + 2 x 512 + 1024 = 27,136 MiB of 294,912
        ("MI355X", 8, 1 - 27_136 / 294_912),
    ],
)
def test_share_that_sglang_takes_by_itself(name, tp, share):
    assert float(static_share(device(name), Deployment(tp=float(tp)))) == pytest.approx(round(share, 3))


def test_padded_experts_of_gpt_oss():
    """Marlin's tiles: hidden 2880 to 3072, width 2880 to 2944; at 4.25 bits the experts take 1.0904 times their bytes.

    vLLM's log: 65.97 GiB of 60.8 in the files; on two devices the width is 1440, to 1536.
    """
    model = workloads.model("gpt-oss-120b").model
    experts = 36 * 128 * 3 * 2880 * 2880 * 17 / 32
    bare = Deployment(hidden_tile=1.0, expert_tile=1.0)
    more = float(weight_bytes(model, Deployment())) - float(weight_bytes(model, bare))
    assert more == pytest.approx(experts * (3072 * 2944 / 2880**2 - 1), rel=1e-5)
    assert float(weight_bytes(model, Deployment())) / GIB == pytest.approx(65.97, rel=2e-3)
    pair = dataclasses.replace(bare, tp=2.0)
    halves = float(weight_bytes(model, Deployment(tp=2.0))) - float(weight_bytes(model, pair))
    assert halves == pytest.approx(experts / 2 * (3072 * 1536 / (2880 * 1440) - 1), rel=1e-5)
    # other formats keep their size
    plain = workloads.model("gpt-oss-120b", weights="bf16").model
    assert float(weight_bytes(plain, Deployment())) == pytest.approx(float(weight_bytes(plain, bare)), rel=1e-9)


def test_8_bit_cache_of_sparse_latent_attention():
    """DeepSeek-V3.2: 61 layers of 512 + 16 + 64 x 2 + 132 B; without an indexer all 576 elements have 8 bits."""
    sparse, dense = (workloads.model(name).model for name in ("DeepSeek-V3.2", "DeepSeek-V3"))
    assert float(kv_bytes_per_token(sparse, Deployment(kv_bytes=1.0))) == 48_068
    assert float(kv_bytes_per_token(sparse, Deployment(kv_bytes=1.0, selected_cache="plain"))) == 61 * (576 + 132)
    assert float(kv_bytes_per_token(sparse, Deployment())) == 61 * (2 * 576 + 132)
    assert float(kv_bytes_per_token(dense, Deployment(kv_bytes=1.0))) == 61 * 576

"""Memory of a device: parameters, weights under a split, KV cache, capacity, worked by hand on round numbers."""

import dataclasses

import jax
import numpy as np
import pytest

import workloads
from jaxroof import Deployment, MemoryLevel, WeightFormat
from jaxroof.memory.capacity import (
    activation_bytes,
    active_parameter_count,
    kv_bytes_of_sequence,
    kv_bytes_per_token,
    kv_capacity_bytes,
    kv_capacity_tokens,
    parameter_count,
    sequence_capacity,
    weight_bytes,
    weights_fit,
)
from jaxroof.memory.reserve import memory_share

# `dense`, per layer: qkv 1000 x (10 + 2 x 2) x 100 = 1.4 M; o 10 x 100 x 1000 = 1 M; up 2 x 1000 x 3000 = 6 M;
# down 3 M; norms 2000. Four layers of 11.402 M; embedding and head 20 M each; final norm 1000.
DENSE = 4 * 11_402_000 + 2 * 20_000_000 + 1000

# `mixture`, per layer: attention 2.4 M; router 1000 x 8 = 8000; 8 experts of 3 x 1000 x 500 = 1.5 M; norms 2000.
MIXTURE = 4 * (2_400_000 + 8000 + 8 * 1_500_000 + 2000) + 40_001_000
ACTIVE = 4 * (2_400_000 + 8000 + 2 * 1_500_000 + 2000) + 40_001_000


def replaced_block(model, **changes):
    return dataclasses.replace(model, blocks=tuple(dataclasses.replace(block, **changes) for block in model.blocks))


def windowed(model, window, kind):
    """`model` with one more block of as many layers under a window."""
    block = model.blocks[0]
    local = dataclasses.replace(block.attention, window=window, window_kind=kind)
    return dataclasses.replace(model, blocks=(block, dataclasses.replace(block, attention=local)))


def with_capacity(chip, capacity):
    hbm = MemoryLevel(bandwidth=2e12, capacity=capacity)
    return dataclasses.replace(chip, memory=dataclasses.replace(chip.memory, hbm=hbm))


def test_parameters_of_a_dense_model(dense):
    assert parameter_count(dense) == DENSE
    assert active_parameter_count(dense) == DENSE


def test_a_tied_head_is_counted_once(dense, single):
    tied = dataclasses.replace(dense, untied=0.0)
    assert parameter_count(tied) == DENSE - 20_000_000
    assert float(weight_bytes(tied, single)) == 2 * (DENSE - 20_000_000)


def test_parameters_of_experts(mixture, feedforward, experts):
    assert parameter_count(mixture) == MIXTURE
    assert active_parameter_count(mixture) == ACTIVE
    # a shared layer of width 3000 sees every token: 9 M more in each count
    shared = replaced_block(mixture, feedforward=dataclasses.replace(experts, shared=feedforward))
    assert parameter_count(shared) == MIXTURE + 4 * 9_000_000
    assert active_parameter_count(shared) == ACTIVE + 4 * 9_000_000


def test_weights_of_one_device(dense, mixture, single):
    assert float(weight_bytes(dense, single)) == 2 * DENSE
    assert float(weight_bytes(mixture, single)) == 2 * MIXTURE


def test_weights_under_a_split(dense, mixture):
    # tp 2: every matrix halves, 4 x 5.7 M + 20 M; the 4 x 2000 + 1000 norm weights stay whole
    assert float(weight_bytes(dense, Deployment(tp=2.0))) == 2 * (4 * 5_700_000 + 20_000_000 + 9000)
    # experts too, but every device has the router
    assert float(weight_bytes(mixture, Deployment(tp=2.0))) == 2 * (
        4 * (1_200_000 + 8000 + 6_000_000) + 20_000_000 + 9000
    )


def test_kv_heads_are_replicated_beyond_their_number(dense):
    # tp 5 > 2 KV heads: a device holds 2 query heads and one whole KV head: qkv 1000 x (2 + 1 + 1) x 100 = 0.4 M,
    # not 1.4 M / 5; o 0.2 M, feed-forward 9 M / 5 = 1.8 M
    assert float(weight_bytes(dense, Deployment(tp=5.0))) == pytest.approx(
        2 * (4 * (400_000 + 200_000 + 1_800_000) + 8_000_000 + 9000), rel=1e-6
    )
    # cache: 4 layers x 1 head x (100 + 100) x 2 B; the same for 2 devices as for 5
    assert float(kv_bytes_per_token(dense, Deployment(tp=2.0))) == 1600
    assert float(kv_bytes_per_token(dense, Deployment(tp=5.0))) == 1600


def test_weights_of_mixed_formats(dense, single, bf16):
    # feed-forward at 4.25 bits, attention at fp8, embedding and head at 16 bits, norms at 2 B whatever the rest
    int4, fp8 = WeightFormat(bytes=0.53125, compute="bf16"), WeightFormat(bytes=1.0, compute="fp8")
    block = dense.blocks[0]
    mixed = replaced_block(
        dense,
        attention=dataclasses.replace(block.attention, qkv=fp8, output=fp8),
        feedforward=dataclasses.replace(block.feedforward, up=int4, down=int4),
    )
    expected = 4 * (2_400_000 * 1 + 9_000_000 * 0.53125 + 2000 * 2) + 2 * 20_000_000 * 2 + 1000 * 2
    assert float(weight_bytes(mixed, single)) == expected


def test_kv_cache_of_one_token(dense, attention, single):
    # 4 layers x 2 heads x (100 + 100) x 2 B
    assert float(kv_bytes_per_token(dense, single)) == 3200
    assert float(kv_bytes_per_token(dense, Deployment(kv_bytes=1.0))) == 1600
    narrow = replaced_block(dense, attention=dataclasses.replace(attention, value_dim=50.0))
    assert float(kv_bytes_per_token(narrow, single)) == 4 * 2 * 150 * 2


@pytest.mark.parametrize("kind", ["sliding", "chunked"])
def test_kv_cache_of_a_sequence_stops_at_the_window(dense, single, kind):
    # 4 full layers and 4 of window 64: while the context is inside it, both hold it
    model = windowed(dense, 64.0, kind)
    assert float(kv_bytes_of_sequence(model, single, 50.0)) == 50 * 6400
    assert float(kv_bytes_of_sequence(model, single, 1000.0)) == 1000 * 3200 + 64 * 3200


def test_activations_follow_the_widest_layer(dense, mixture):
    # dense: three hidden states 3000, feed-forward (2 + 1) x 3000 = 9000 > attention 10 x 200 + 2 x 200 = 2400
    assert float(activation_bytes(dense, Deployment(max_batched_tokens=100.0))) == 100 * 12_000 * 2
    # experts: top-2 of max(2 x 500, results of 1000) + 500 = 3000 > 2400
    assert float(activation_bytes(mixture, Deployment(max_batched_tokens=100.0))) == 100 * 6000 * 2
    # tp 2: 9000 / 2; hidden states stay whole
    assert float(activation_bytes(dense, Deployment(tp=2.0, max_batched_tokens=100.0))) == 100 * 7500 * 2


def test_capacity(dense, chip):
    # 0.9 x 1 GB - 0.1 GB reserve - 171.218 MB weights - 100 x 24 kB activations = 626.382 MB = 195,744.4 tokens
    deployment = Deployment(max_batched_tokens=100.0, reserve_bytes=1e8, sampled_rows=0.0)
    hardware = with_capacity(chip, 1e9)
    free = 0.9e9 - 1e8 - 2 * DENSE - 2.4e6
    assert float(kv_capacity_bytes(hardware, dense, deployment)) == pytest.approx(free, rel=1e-6)
    assert float(kv_capacity_tokens(hardware, dense, deployment)) == pytest.approx(195_744.4, rel=1e-6)
    # 1000 tokens each: 195 whole sequences
    assert float(sequence_capacity(hardware, dense, deployment, 1000.0)) == 195
    assert bool(weights_fit(hardware, dense, deployment))


def test_whole_sequences_have_the_slope_of_their_ratio(dense, chip):
    """195 of 195.74 sequences: 1 % more memory is 0.9 x 10 MB of 24 bytes x 1000 x 133.3 each, not none."""
    deployment = Deployment(max_batched_tokens=100.0, reserve_bytes=1e8, sampled_rows=0.0)

    def sequences(capacity):
        return sequence_capacity(with_capacity(chip, capacity), dense, deployment, 1000.0)

    def tokens(capacity):
        return kv_capacity_tokens(with_capacity(chip, capacity), dense, deployment)

    assert float(jax.grad(sequences)(1e9)) == pytest.approx(float(jax.grad(tokens)(1e9)) / 1000.0, rel=1e-5)


def test_a_share_in_thousandths_has_the_slope_of_its_reserve(chip):
    """1 - reserve / memory: SGLang's whole thousandths of a device's memory hide no slope."""
    deployment = Deployment(memory_static=1.0, memory_utilization=None)

    def share(capacity):
        return memory_share(with_capacity(chip, capacity), deployment)

    # Between 35 and 60 GiB the reserve is the same: d share = reserve / memory = 1 - share, within half a thousandth.
    memory = 48 * 2.0**30
    assert memory * float(jax.grad(share)(memory)) == pytest.approx(1.0 - float(share(memory)), abs=6e-4)


def test_what_does_not_fit_is_false_and_finite(dense, chip):
    hardware, deployment = with_capacity(chip, 1e8), Deployment(reserve_bytes=0.0)
    assert not bool(weights_fit(hardware, dense, deployment))
    assert float(kv_capacity_tokens(hardware, dense, deployment)) == 0.0
    assert float(sequence_capacity(hardware, dense, deployment, 1000.0)) == 0.0


def test_capacity_is_never_negative_and_grows_with_memory(dense, chip):
    def capacity(size):
        return kv_capacity_tokens(with_capacity(chip, size), dense, Deployment())

    tokens = np.asarray(jax.vmap(capacity)(np.geomspace(1e6, 1e12, 100, dtype=np.float32)))
    assert (tokens >= 0).all() and (np.diff(tokens) >= 0).all() and tokens[0] == 0 < tokens[-1]


def test_gradient_of_capacity_is_finite_where_nothing_fits(dense, chip):
    """Infeasible designs are points of a search too: value 0, and a gradient that is a number."""

    def capacity(size):
        return kv_capacity_bytes(with_capacity(chip, size), dense, Deployment(reserve_bytes=3e9))

    value, slope = jax.vmap(jax.value_and_grad(capacity))(np.geomspace(1e6, 1e12, 25, dtype=np.float32))
    assert np.isfinite(value).all() and np.isfinite(slope).all()
    assert float(slope[-1]) == pytest.approx(0.9, rel=1e-5)  # memory_utilization, once all else fits


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("Llama-2-7B", 6_738_415_616),  # checkpoint's index, as the two below
        ("Llama-2-13B", 13_015_864_320),
        ("Llama-2-70B", 68_976_648_192),
    ],
)
def test_published_counts(name, parameters):
    model = workloads.model(name).model
    assert parameter_count(model) == parameters  # Python floats in, exact out
    # 2 B each; float32 in `maximum` rounds the KV heads' share
    assert float(weight_bytes(model, Deployment())) == pytest.approx(2 * parameters, rel=1e-6)

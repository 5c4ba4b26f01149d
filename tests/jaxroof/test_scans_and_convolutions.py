"""Selective scans, short convolutions and two mixers side by side: sizes, work, shares of tp, and gradients by hand."""

import dataclasses

import jax
import pytest

from jaxroof import Block, Deployment, Model, Training, datasheet, decode, kv_bytes_per_token, prefill, step_time
from jaxroof.layers.attention import Attention
from jaxroof.layers.composite import SideBySide
from jaxroof.layers.linear_attention import LinearAttention, ShortConvolution
from jaxroof.layers.selective_scan import SelectiveScan
from jaxroof.memory.capacity import kv_bytes_of_sequence, parameter_count, state_bytes_of_sequence
from jaxroof.memory.legality import broken_rule
from jaxroof.step.forward import step_ops
from jaxroof.training import iteration_cost
from tests.hand import EXACT, check

HIDDEN = 1024.0


def model_of(mixer, bf16) -> Model:
    """Four layers of the mixer alone."""
    return Model(
        hidden=HIDDEN,
        vocabulary=1000.0,
        blocks=(Block(count=4.0, attention=mixer, feedforward=None, other_parameters=0.0),),
        embedding=bf16,
        head=bf16,
        untied=0.0,
        other_parameters=0.0,
    )


@pytest.fixture(scope="module")
def scan(bf16) -> SelectiveScan:
    return SelectiveScan(channels=2048.0, state=16.0, rank=64.0, taps=4.0, input=bf16, selection=bf16, output=bf16)


@pytest.fixture(scope="module")
def convolution(bf16) -> ShortConvolution:
    return ShortConvolution(channels=1024.0, taps=3.0, input=bf16, output=bf16)


@pytest.fixture(scope="module")
def beside(bf16) -> SideBySide:
    attention = Attention(heads=8.0, kv_heads=2.0, head_dim=128.0, value_dim=128.0, window=None, qkv=bf16, output=bf16)
    mamba2 = LinearAttention(
        heads=16.0,
        key_heads=1.0,
        key_dim=64.0,
        value_dim=64.0,
        gates=65.0,
        gate_rank=None,
        convolution=4.0,
        rule="decay",
        input=bf16,
        output=bf16,
    )
    return SideBySide(attention=attention, recurrence=mamba2)


def test_sizes_of_a_scan(scan, bf16):
    model = model_of(scan, bf16)
    # 1024 to 2 x 2048, 2048 to 64 + 2 x 16, 64 to 2048, 2048 to 1024
    layer = 1024 * 4096 + 2048 * 96 + 64 * 2048 + 2048 * 1024
    assert parameter_count(model) == 4 * layer + 1000 * 1024
    # 2048 channels of 16 numbers of 4 B, and three tokens of 2 B to look back on
    assert state_bytes_of_sequence(model, Deployment()) == 4 * (2048 * 16 * 4 + 3 * 2048 * 2)
    assert kv_bytes_per_token(model, Deployment()) == 0.0
    assert state_bytes_of_sequence(model, Deployment(tp=4.0)) == 2048 * 16 * 4 + 3 * 2048 * 2


def test_work_of_a_scan(scan, bf16):
    model = model_of(scan, bf16)
    ops = step_ops(model, Deployment(), prefill(1.0, 100.0))
    check(ops["x_proj"], count=4, matrix_flops=2 * 100 * 2048 * 96)
    check(ops["dt_proj"], matrix_flops=2 * 100 * 64 * 2048)
    # 7 operations and a decay per state element; channels, time steps, gates and outputs, B and C; one state in and out
    check(ops["prefill_scan"], vector_flops=100 * 7 * 2048 * 16, exps=100 * (2048 * 16 + 2 * 2048))
    check(ops["prefill_scan"], bytes=2 * 2048 * 16 * 4 + 100 * (4 * 2048 + 32) * 2, kernels=1, count=4)
    check(step_ops(model, Deployment(), decode(3.0, 50.0))["decode_scan"], vector_flops=3 * 7 * 2048 * 16)
    # with tp channels are shared, and what a token selects is summed over the devices
    ops = step_ops(model, Deployment(tp=2.0), prefill(1.0, 100.0))
    check(ops["x_proj"], matrix_flops=100 * 2048 * 96)
    check(ops["selection_all_reduce"], message_bytes=100 * 96 * 2, participants=2)


def test_sizes_and_work_of_a_short_convolution(convolution, bf16):
    model = model_of(convolution, bf16)
    assert parameter_count(model) == 4 * (1024 * 3072 + 1024 * 1024) + 1000 * 1024
    assert state_bytes_of_sequence(model, Deployment()) == 4 * 2 * 1024 * 2
    ops = step_ops(model, Deployment(), prefill(2.0, 50.0))
    check(ops["in_proj"], matrix_flops=2 * 100 * 1024 * 3072)
    # three taps and two gates of 1024 channels; three vectors in, one out
    check(ops["convolution"], vector_flops=100 * (2 * 3 + 2) * 1024, bytes=100 * 4 * 1024 * 2, kernels=1)
    check(ops["convolution_state"], bytes=2 * 2 * 2 * 1024 * 2, kernels=0)
    check(step_ops(model, Deployment(tp=4.0), decode(8.0, 50.0))["convolution_state"], bytes=8 * 2 * 2 * 256 * 2)


def test_two_mixers_are_the_sum_of_both(beside, bf16):
    both = model_of(beside, bf16)
    alone = [model_of(part, bf16) for part in (beside.attention, beside.recurrence)]
    rest = 1000 * 1024
    assert parameter_count(both) - rest == sum(parameter_count(one) - rest for one in alone)
    for deployment in (Deployment(), Deployment(tp=2.0)):
        for value in (kv_bytes_per_token, state_bytes_of_sequence):
            assert value(both, deployment) == sum(value(one, deployment) for one in alone)
        held = [kv_bytes_of_sequence(one, deployment, 700.0) for one in (both, *alone)]
        assert held[0] == pytest.approx(held[1] + held[2], rel=EXACT)
        for batch in (prefill(2.0, 64.0), decode(4.0, 100.0)):
            ops, parts = step_ops(both, deployment, batch), [step_ops(one, deployment, batch) for one in alone]
            assert set(ops) == set(parts[0]) | set(parts[1])
            for part in parts:
                for name in ("qkv_proj", "in_proj", "prefill_attention", "decode_linear_attention", "out_proj"):
                    if name in part:
                        assert float(ops[name].bytes) == float(part[name].bytes)


@pytest.mark.parametrize("kind", ["scan", "convolution", "beside"])
def test_time_training_and_gradients(request, kind, bf16, chip, float64):
    model = model_of(request.getfixturevalue(kind), bf16)

    def time(hidden):
        wider = dataclasses.replace(model, hidden=hidden)
        return step_time(chip, wider, Deployment(), prefill(1.0, 512.0), datasheet())

    # Every op's bytes and operations are linear in the hidden size, and no maximum changes sides in a step of 1e-3.
    slope, step = float(jax.grad(time)(HIDDEN)), 1e-3 * HIDDEN
    assert (
        slope == pytest.approx(float(time(HIDDEN + step) - time(HIDDEN - step)) / (2.0 * step), rel=1e-3) and slope > 0
    )
    assert float(step_time(chip, model, Deployment(tp=2.0), decode(8.0, 300.0), datasheet())) > 0.0
    training = Training(global_batch=8.0, seq=128.0)
    assert float(iteration_cost(chip, model, Deployment(), training, datasheet()).time) > 0.0


def test_rules(scan, beside, bf16, chip):
    assert (
        broken_rule(chip, model_of(scan, bf16), Deployment(tp=3.0)) == "tp = 3 does not divide the 2048 attention heads"
    )
    assert broken_rule(chip, model_of(beside, bf16), Deployment(tp=2.0)) is None
    assert (
        broken_rule(chip, model_of(beside, bf16), Deployment(tp=16.0))
        == "tp = 16 does not divide the 8 attention heads"
    )

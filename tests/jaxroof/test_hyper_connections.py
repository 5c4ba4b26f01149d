"""Residual streams that layers mix: kernels around sublayers by hand, at the ends, in training, and their gradients."""

import dataclasses

import jax
import numpy as np
import pytest

import workloads
from jaxroof import Deployment, Training, datasheet, decode, prefill, step_time
from jaxroof.model import Streams
from jaxroof.step.forward import step_ops
from jaxroof.training.memory import layer_activations
from tests.hand import check


@pytest.fixture(scope="module")
def model():
    return workloads.model("DeepSeek-V4-Flash").model


def test_kernels_around_a_sublayer(model):
    ops = step_ops(model, Deployment(), prefill(1.0, 100.0))
    # four streams of 4096 read twice and one input written; weights of 24 coefficients of 4 x 4096 inputs at 4 B
    mix = ops["1.attention_mix"]
    check(mix, kernels=3, bytes=100 * 9 * 4096 * 2 + 24 * 4 * 4096 * 4, matrix_flops=2 * 100 * 24 * 4 * 4096)
    check(mix, exps=100 * 24)
    # four streams and an output read, four written
    check(ops["1.attention_spread"], kernels=1, bytes=100 * 9 * 4096 * 2, vector_flops=100 * 2 * 4 * 5 * 4096)
    assert "1.attention_norm" not in ops and "1.feedforward_mix" in ops and "1.feedforward_spread" in ops
    # one stream becomes four before all layers, and four one after
    check(ops["streams_expand"], bytes=100 * 5 * 4096 * 2, count=1)
    check(ops["streams_contract"], bytes=100 * 5 * 4096 * 2, count=1)


def test_a_step_without_tokens_mixes_nothing(model):
    ops = step_ops(model, Deployment(), decode(0.0, 0.0))
    for name in ("1.attention_mix", "1.attention_spread", "streams_expand"):
        check(ops[name], kernels=0, bytes=0)


def test_sequence_parallel_devices_mix_their_share(model):
    deployment = Deployment(tp=2.0, sequence_parallel=True)
    check(step_ops(model, deployment, prefill(1.0, 100.0))["1.attention_spread"], bytes=50 * 9 * 4096 * 2)


def test_training_keeps_every_stream(model):
    block, training = model.blocks[0], Training(global_batch=1.0, seq=16.0)
    one = dataclasses.replace(block, streams=None)
    kept = [float(layer_activations(each, 4096.0, Deployment(), training)) for each in (block, one)]
    # three more inputs of 4096 at 2 B for both sublayers and 16 tokens
    assert kept[0] - kept[1] == 2 * 3 * 16 * 4096 * 2


def test_gradient_in_the_number_of_streams(model, chip):
    def time(count):
        streams = Streams(count=count, iterations=20.0)
        blocks = tuple(dataclasses.replace(block, streams=streams) for block in model.blocks)
        bf16 = dataclasses.replace(model, blocks=blocks, prediction=None)
        return step_time(chip, bf16, Deployment(), prefill(1.0, 4096.0), datasheet())

    slope = jax.grad(time)(4.0)
    assert np.isfinite(slope) and slope > 0.0

"""Frozen weights of fewer bits in training: bytes, conversions before each product, and what is refused."""

import dataclasses

import pytest

from jaxroof.deployment import Deployment
from jaxroof.model import WeightFormat
from jaxroof.training.memory import training_memory
from jaxroof.training.passes import backward_pass, forward_pass
from jaxroof.training.training import LoRA, Training

NF4 = WeightFormat(bytes=0.5, compute="bf16", dequantised=True)
ADAPTERS = Training(global_batch=1.0, seq=1000.0, lora=LoRA(rank=8.0, targets=("q", "v")))


def quantised(model):
    """The dense model with its feed-forward layers stored in 4 bits."""
    blocks = tuple(
        dataclasses.replace(block, feedforward=dataclasses.replace(block.feedforward, up=NF4, down=NF4))
        for block in model.blocks
    )
    return dataclasses.replace(model, blocks=blocks)


def test_bytes_of_frozen_weights(dense):
    """Elements up and down lose 1.5 of 2 B each; the largest matrix is there once more, converted."""
    wide, narrow = (training_memory(model, Deployment(), ADAPTERS) for model in (dense, quantised(dense)))
    layer = dense.blocks[0].feedforward
    up = float(layer.up_projections * layer.intermediate * dense.hidden)
    down = float(layer.intermediate * dense.hidden)
    layers = sum(float(block.count) for block in dense.blocks)
    assert float(wide.weights) - float(narrow.weights) == pytest.approx(1.5 * layers * (up + down))
    assert float(narrow.buffers) - float(wide.buffers) == pytest.approx(2.0 * max(up, down))
    assert (float(narrow.optimizer), float(narrow.gradients)) == (float(wide.optimizer), float(wide.gradients))


def test_zero_3_splits_stored_bytes(dense):
    sharded = dataclasses.replace(ADAPTERS, zero=3.0)
    whole, split = (training_memory(quantised(dense), Deployment(dp=4.0), one) for one in (ADAPTERS, sharded))
    assert float(split.weights) == pytest.approx(float(whole.weights) / 4.0)


def test_conversions_come_before_both_products(dense):
    """0.5 B read and 2 B written per weight, forward and backward; the products read 2 B."""
    forward = forward_pass(quantised(dense), Deployment(), ADAPTERS)
    backward = backward_pass(forward, ADAPTERS)
    shape = forward.layers["down_proj"].shape
    elements = float(shape.inputs * shape.outputs)
    for name, ops in (("down_proj_dequantize", forward.layers), ("down_proj_dequantize_again", backward.layers)):
        assert float(ops[name].bytes) == pytest.approx(2.5 * elements)
        assert float(ops[name].vector_flops) == pytest.approx(2.0 * elements)
    plain = forward_pass(dense, Deployment(), ADAPTERS)
    assert float(forward.layers["down_proj"].bytes) == pytest.approx(float(plain.layers["down_proj"].bytes))
    same = backward.layers["down_proj_dgrad"], backward_pass(plain, ADAPTERS).layers["down_proj_dgrad"]
    assert float(same[0].bytes) == pytest.approx(float(same[1].bytes)) and same[0].vector_flops is None
    assert not [name for name in backward.layers if name.endswith("_dequantize_backward")]


def test_weights_of_16_bits_are_converted_by_nothing(dense):
    names = forward_pass(dense, Deployment(), ADAPTERS).layers
    assert not [name for name in names if "dequantize" in name]

"""Storage and products of weights: bytes with scales, weights that kernels convert, inputs that are quantised."""

import dataclasses

import pytest

from jaxroof import Deployment, WeightFormat, datasheet, decode, prefill, step_time, weight_bytes
from jaxroof.batch import Batch, Decode
from jaxroof.step.forward import step_ops
from tests.hand import EXACT, check

NVFP4 = WeightFormat(bytes=9 / 16, compute="fp4")  # 4 bits, and 8 bits of scale for 16 weights
W4A16 = WeightFormat(bytes=0.5 + 2 / 128, compute="bf16", dequantised=True)  # 4 bits, and 16 bits for 128 weights
FP8 = WeightFormat(bytes=1.0, compute="fp8")


def with_down(model, weights):
    block = model.blocks[0]
    layer = dataclasses.replace(block.feedforward, down=weights)
    return dataclasses.replace(model, blocks=(dataclasses.replace(block, feedforward=layer),))


def quantising(model, batch) -> set[str]:
    ops = step_ops(model, Deployment(), batch)
    return {name.removesuffix("_quantize") for name in ops if name.endswith("_quantize")}


def test_bytes_per_weight(dense):
    # 3 M weights in each of four layers: 9/16 B, 33/64 B and 2 B
    plain = float(weight_bytes(dense, Deployment()))
    assert float(weight_bytes(with_down(dense, NVFP4), Deployment())) == plain - 4 * 3e6 * (2 - 0.5625)
    assert float(weight_bytes(with_down(dense, W4A16), Deployment())) == plain - 4 * 3e6 * (2 - 0.515625)


def test_a_weight_only_kernel_converts_weights(dense):
    # 7 rows: one tile, 2 FLOP for each of 3 M weights; read at 33/64 B, multiplied at 16 bits
    op = step_ops(with_down(dense, W4A16), Deployment(), prefill(1.0, 7.0))["down_proj"]
    check(op, matrix_flops=2 * 7 * 3e6, vector_flops=2 * 3e6, bytes=3e6 * 0.515625 + 2 * 7 * 4000)
    assert op.precision == "bf16"
    # 64 rows are one tile still, 6400 are a hundred
    for rows, tiles in ((64.0, 1), (6400.0, 100)):
        op = step_ops(with_down(dense, W4A16), Deployment(), prefill(1.0, rows))["down_proj"]
        check(op, vector_flops=2 * 3e6 * tiles)
    assert step_ops(dense, Deployment(), prefill(1.0, 7.0))["down_proj"].vector_flops is None


def test_every_expert_that_is_touched_is_converted(mixture, experts):
    """7 tokens to 2 of 8 experts: 6.932 are touched, each with 2 rows; 5120 tokens: 1280 rows, 20 tiles, in each."""
    layer = dataclasses.replace(experts, up=W4A16)
    model = dataclasses.replace(mixture, blocks=(dataclasses.replace(mixture.blocks[0], feedforward=layer),))
    few = step_ops(model, Deployment(), prefill(1.0, 7.0))["expert_up_proj"]
    check(few, vector_flops=2 * 1e6 * 8 * (1 - 0.75**7))
    many = step_ops(model, Deployment(), prefill(1.0, 5120.0))["expert_up_proj"]
    check(many, vector_flops=2 * 1e6 * 8 * 20)


def test_quantising_kernels(dense):
    # 7 rows of 3000: read at 2 B, written at 1 B or half a byte; 4 FLOP each
    for weights, size in ((FP8, 1.0), (NVFP4, 0.5)):
        ops = step_ops(with_down(dense, weights), Deployment(), prefill(1.0, 7.0))
        check(ops["down_proj_quantize"], count=4, kernels=1, vector_flops=4 * 21_000, bytes=21_000 * (2 + size))
        names = list(ops)
        assert names.index("down_proj_quantize") + 1 == names.index("down_proj")
    # at int8 likewise
    assert quantising(with_down(dense, WeightFormat(bytes=1.0, compute="int8")), decode(1.0, 9.0)) == {"down_proj"}


def test_what_is_quantised(dense, mixture, experts, attention):
    """Inputs of products at 8 bits or less, and of no other: not of 16-bit nor of weight-only formats."""
    assert quantising(dense, decode(1.0, 9.0)) == set()
    assert quantising(with_down(dense, W4A16), decode(1.0, 9.0)) == set()
    layer = dataclasses.replace(experts, up=FP8, down=FP8)
    mixer = dataclasses.replace(attention, qkv=FP8, output=FP8)
    block = dataclasses.replace(mixture.blocks[0], attention=mixer, feedforward=layer)
    model = dataclasses.replace(mixture, blocks=(block,))
    assert quantising(model, decode(1.0, 9.0)) == {"qkv_proj", "o_proj", "expert_up_proj", "expert_down_proj"}
    # a token is quantised once for both of its experts; what leaves the first product is a row per expert
    ops = step_ops(model, Deployment(), prefill(1.0, 7.0))
    check(ops["expert_up_proj_quantize"], bytes=7 * 1000 * 3)
    check(ops["expert_down_proj_quantize"], bytes=14 * 500 * 3)


def test_an_empty_step_costs_nothing_in_any_format(dense, mixture, experts, chip):
    """No rows, no touched experts, nothing to convert: zero and not a quotient of zeros."""
    nothing = Batch(prefill=None, decode=Decode(sequences=0.0, context=0.0), logits=0.0)
    for weights in (NVFP4, W4A16, FP8):
        layer = dataclasses.replace(experts, up=weights, down=weights)
        sparse = dataclasses.replace(mixture, blocks=(dataclasses.replace(mixture.blocks[0], feedforward=layer),))
        for model in (with_down(dense, weights), sparse):
            assert float(step_time(chip, model, Deployment(), nothing, datasheet())) == 0.0


def test_activations_between_kernels(dense):
    """At 1 B per activation what a product writes and a kernel reads is half; what is multiplied at 16 bits stays."""
    op = step_ops(dense, Deployment(activation_bytes=1.0), prefill(1.0, 7.0))["down_proj"]
    check(op, bytes=2 * 3e6 + 7 * (3000 * 2 + 1000))
    assert float(op.bytes) == pytest.approx(6e6 + 49_000, rel=EXACT)

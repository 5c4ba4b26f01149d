"""Convolutions as products: padded channels, minimal filtering, systolic arrays, and the algorithm that is fastest."""

import dataclasses

import pytest

import hwspaces
from jaxroof.efficiency import datasheet
from jaxroof.efficiency.convolution import filtered_product, implicit_product
from jaxroof.memory.traffic import matrix_traffic
from jaxroof.numerics.arrays import eager
from jaxroof.op import ConvolutionShape, Kernel
from jaxroof.roofline import op_time

PLACES = 8 * 14 * 14


def convolution(channels=64.0, filters=64.0, edge=3.0, precision="fp32", operand_bytes=4.0, **shape):
    """8 images of 14 x 14 places."""
    inputs = channels * edge * edge
    given = {"height": 14.0, "width": 14.0, "window": edge * edge, "minimal": edge == 3.0} | shape
    return Kernel(
        kind="convolution",
        precision=precision,
        count=1.0,
        kernels=1.0,
        matrix_flops=2.0 * PLACES * inputs * filters,
        operand_bytes=operand_bytes,
        bytes=operand_bytes * (PLACES * (channels + filters) + inputs * filters),
        shape=ConvolutionShape(
            rows=float(PLACES),
            outputs=filters,
            inputs=inputs,
            matrices=1.0,
            weight_bytes=operand_bytes,
            output_bytes=operand_bytes,
            **given,
        ),
    )


def hardware(name="V100-SXM"):
    return hwspaces.hardware(name).hardware


def padded_inputs(op, device="V100-SXM"):
    with eager():
        return float(implicit_product(op, hardware(device)).shape.inputs)


def test_channels_are_padded_to_16_bytes_and_those_of_images_to_4():
    assert padded_inputs(convolution(channels=20.0)) == 9 * 20  # five times four numbers of 4 B
    assert padded_inputs(convolution(channels=20.0, precision="fp16", operand_bytes=2.0)) == 9 * 24
    assert padded_inputs(convolution(channels=20.0, precision="int8", operand_bytes=1.0), "T4") == 9 * 32
    assert padded_inputs(convolution(channels=3.0, precision="int8", operand_bytes=1.0), "T4") == 9 * 4


def test_a_systolic_array_is_filled_along_both_edges():
    """Edge TPU: 4 TOP/s at 500 MHz are 63.2 x 63.2 multipliers: 180 inputs take three edges, 20 filters one."""
    op = convolution(channels=20.0, filters=20.0, precision="int8", operand_bytes=1.0)
    with eager():
        shape = implicit_product(op, hardware("Edge-TPU")).shape
    edge = (0.5 * 4e12 / 500e6) ** 0.5
    assert (float(shape.inputs), float(shape.outputs)) == pytest.approx((3 * edge, edge))


def test_minimal_filtering_multiplies_less():
    """Tiles of 2 x 2: 16 products for 36, the transforms take 32 FLOP per tile and channel and 24 per filter. Of 4 x 4:
    36 for 144; 14 places need four tiles of 4, so 16 / 14 as many on each axis.
    """
    op, device = convolution(), hardware()
    with eager():
        (two, adding), (four, _) = (filtered_product(op, edge, 1.0, device) for edge in (2.0, 4.0))
    assert float(op.matrix_flops / two.matrix_flops) == pytest.approx(2.25)
    assert float(op.matrix_flops / four.matrix_flops) == pytest.approx(4.0 * (14 / 16) ** 2)
    assert float(adding) == pytest.approx(8 * 7 * 7 * 64 * (32 + 24) / (0.5 * 15.7e12))
    assert float(two.bytes) == op.bytes and float(four.kernels) == 3.0
    assert float(four.bytes) == pytest.approx(op.bytes + 2 * 36 * 8 * 16 * 4 * (64 + 64))


def test_the_fastest_algorithm_runs():
    """Many channels: tiles of 4 x 4 at the datasheet's peak take 4 (14 / 16)^2 times less, plus the transforms. One
    place apart and 3 x 3 alone; without the share there is no such kernel.
    """
    op, device, ideal = convolution(512.0, 512.0), hardware(), datasheet()
    without = dataclasses.replace(ideal, convolution=dataclasses.replace(ideal.convolution, winograd=None))
    with eager():
        plain, filtered = float(op_time(op, device, without)), float(op_time(op, device, ideal))
        strided = dataclasses.replace(op, shape=dataclasses.replace(op.shape, minimal=False))
        assert float(op_time(strided, device, ideal)) == plain
    adding = 8 * 4 * 4 * 512 * (156 + 90) / (0.5 * 15.7e12)
    assert plain == pytest.approx(op.matrix_flops / 15.7e12)
    assert filtered == pytest.approx(plain / (4 * (14 / 16) ** 2) + adding)


def test_a_library_that_has_no_kernels_for_convolutions_runs_them_as_products():
    op, device = convolution(), hardware("H100-SXM")
    op = dataclasses.replace(op, precision="bf16", operand_bytes=2.0)
    learned = hwspaces.efficiency("learned").efficiency
    with eager():
        as_product = op_time(dataclasses.replace(op, kind="linear"), device, learned)
        assert float(op_time(op, device, learned)) == float(as_product)


def test_windows_that_overlap_are_read_fewer_times():
    """9 windows of stride 1 share a place: what does not fit is read a third as often, of stride 2 x 2 two thirds."""
    op = convolution(1024.0, 1024.0)
    product = dataclasses.replace(op, shape=None)
    apart = dataclasses.replace(op, shape=dataclasses.replace(op.shape, stride=4.0))
    with eager():
        traffic = [float(matrix_traffic(one, 4096.0, 4.0)) for one in (product, op, apart)]
    assert traffic[1] == pytest.approx(traffic[0] / 3.0) and traffic[2] == pytest.approx(traffic[0] / 1.5)

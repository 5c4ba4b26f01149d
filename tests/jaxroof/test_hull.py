"""Hulls of evidence: distances worked by hand, spreads that grow with them, and times that do not change."""

import dataclasses
import math

import jax
import pytest

import hwspaces
from jaxroof.efficiency import Hull
from jaxroof.efficiency.hull import (
    FORMAT,
    KIND,
    SHAPE,
    FittedRange,
    error_growth,
    hull_distance,
    hull_excesses,
    kind_difference,
    precision_distance,
)
from jaxroof.jobs.job import Part, spreads
from jaxroof.jobs.step import StepWork, step_batch
from jaxroof.layers.linear import OPERAND_BYTES, linear
from jaxroof.model import WeightFormat
from jaxroof.roofline import least_time, op_deviation, op_extrapolation, op_time
from sweeps.ask.cases import case
from sweeps.run.answer import answer
from sweeps.run.evidence import beyond, without_hulls

HULL = Hull(
    ranges=(
        FittedRange("cores", 108.0, 188.0),
        FittedRange("core_flops_per_clock", 1000.0, 4100.0),
        FittedRange("core_bytes_per_clock", 2.4, 20.0),
        FittedRange("rows", 8.0, 512.0),
        FittedRange("outputs", 256.0, 4096.0),
    ),
    precisions=("bf16",),
    growth=0.1,
)


@pytest.fixture(scope="module")
def h100():
    return hwspaces.hardware("H100-SXM").hardware


def product(rows=512.0, compute="bf16", outputs=4096.0):
    weights = WeightFormat(bytes=OPERAND_BYTES[compute], compute=compute)
    return linear(rows, 4096.0, outputs, weights, 2.0, 1.0)


def with_peaks(hardware, peak=1.0, bandwidth=1.0):
    """A device with so many times the matrix peaks and the HBM bandwidth, on the same cores."""
    hbm = dataclasses.replace(hardware.memory.hbm, bandwidth=bandwidth * hardware.memory.hbm.bandwidth)
    matrix = {precision: peak * rate for precision, rate in hardware.matrix.items()}
    return dataclasses.replace(hardware, matrix=matrix, memory=dataclasses.replace(hardware.memory, hbm=hbm))


def test_distance_is_that_of_the_furthest_figure_of_the_device(h100):
    assert float(hull_distance(HULL, product(), h100)) == 0.0
    # 4 x 4096 FLOP per clock and core against 4100: 1.9986 octaves; 16 x 13.87 B against 20: 3.47
    four = with_peaks(h100, peak=4.0)
    flops = four.matrix["bf16"] / (four.cores.count * four.cores.clock)
    assert float(hull_distance(HULL, product(), four)) == pytest.approx(math.log2(flops / 4100.0))
    rate = 16.0 * h100.memory.hbm.bandwidth / (h100.cores.count * h100.cores.clock)
    both = with_peaks(h100, peak=4.0, bandwidth=16.0)
    assert float(hull_distance(HULL, product(), both)) == pytest.approx(math.log2(rate / 20.0))
    small = with_peaks(h100, bandwidth=0.01)
    assert float(hull_excesses(HULL, product(), small)["core_bytes_per_clock"]) == pytest.approx(
        math.log2(rate / 1600.0 / 2.4)
    )


def test_shapes_count_for_a_part_and_add_to_devices_as_squares(h100):
    assert float(hull_distance(HULL, product(outputs=16384.0), h100)) == pytest.approx(SHAPE * 2.0)
    far = with_peaks(h100, bandwidth=16.0)
    device = float(hull_distance(HULL, product(), far))
    assert float(hull_distance(HULL, product(outputs=16384.0), far)) == pytest.approx(math.hypot(device, SHAPE * 2.0))
    assert float(hull_distance(HULL, product(rows=1.0), h100)) == pytest.approx(SHAPE * 3.0)
    assert float(hull_distance(HULL, product(rows=1e6), h100)) == 0.0  # more rows are more of the same tiles
    assert float(hull_distance(HULL, product(rows=0.0), h100)) == 0.0  # no work has no shape


def test_a_precision_that_was_not_measured_is_outside():
    """A factor of two in width is one octave; another format of a measured width is half of one."""
    assert precision_distance(HULL, product()) == precision_distance(HULL, product(compute="fp16")) == 0.0
    assert [precision_distance(HULL, product(compute=name)) for name in ("fp8", "fp4", "fp32")] == [1.0, 2.0, 1.0]
    low = dataclasses.replace(HULL, precisions=("bf16", "fp8"))
    assert precision_distance(low, product(compute="int8")) == FORMAT
    assert precision_distance(dataclasses.replace(HULL, precisions=()), product(compute="fp4")) == 0.0


def test_spread_grows_with_distance_and_time_does_not_change(h100):
    learned = hwspaces.efficiency("learned-vllm").efficiency
    kernel = learned.linear.wide
    far, op = with_peaks(h100, peak=8.0), product(rows=4096.0)
    octaves = float(op_extrapolation(op, far, learned))
    assert 2.0 < octaves < 3.1 and float(op_extrapolation(op, h100, learned)) == 0.0
    time = float(op_time(op, far, learned))
    inside = kernel.spread.short if time < 30e-6 else kernel.spread.long
    # 3 matrices of 4096^2 at 3.35 TB/s take 30 us at least, the FLOP at 8 x 989 TFLOP/s 17 us; the rest is uncertain
    least = 3.0 * 2.0 * 4096.0**2 / h100.memory.hbm.bandwidth
    assert float(least_time(op, far)) == pytest.approx(least)
    reach = octaves / math.hypot(1.0, octaves)  # 0.9 of the growth: errors grow little beyond the first octave
    expected = time * math.hypot(inside, (1.0 - least / time) * kernel.hull.growth * reach)
    assert float(op_deviation(op, far, learned)) == pytest.approx(expected)
    assert float(op_deviation(op, h100, learned)) == pytest.approx(inside * float(op_time(op, h100, learned)), rel=0.3)
    assert time == float(op_time(op, far, without_hulls(learned)))


def test_errors_grow_with_the_first_octave_and_with_the_kind_of_cores(h100):
    """0.1 far outside, 0.0707 at one octave; a kind of cores adds `KIND` as squares, waves of 64 threads half of it."""
    found = [float(error_growth(HULL, octaves, 1.0, h100)) for octaves in (0.0, 1.0, 1e3)]
    assert found == pytest.approx([0.0, 0.1 / math.sqrt(2.0), 0.1], rel=1e-5)
    compiled, waved = (hwspaces.hardware(name).hardware for name in ("TPU-v7x", "MI300X"))
    assert float(kind_difference(HULL, hwspaces.hardware("Arc-Pro-B60").hardware)) == 1.0
    assert float(kind_difference(HULL, compiled)) == 1.0 and float(kind_difference(HULL, waved)) == 0.5
    quarter = float(error_growth(HULL, 1e3, 0.25, compiled))  # of a time of which a quarter is lost
    assert quarter == pytest.approx(math.hypot(0.025, 0.5 * KIND), rel=1e-5)
    slope = jax.grad(lambda octaves: error_growth(HULL, octaves, 1.0, h100))(0.0)
    assert float(slope) == pytest.approx(0.1, rel=1e-5)


def test_a_step_errs_between_all_ops_alike_and_each_on_its_own():
    """Two ops of 3 and 4 s: 0.5 7^2 + 0.5 (3^2 + 4^2) = 37 s^2 of 10 s, with 2 s beyond the evidence 41 s^2."""
    learned = hwspaces.efficiency("learned-vllm").efficiency
    part = Part(runs=1.0, deviation=7.0, variance=25.0, beyond=2.0, least=2.0)
    found = spreads("tpot", 10.0, (part,), learned)
    assert float(found["tpot_spread"]) == pytest.approx(0.1 * math.sqrt(41.0)) and float(found["tpot_least"]) == 2.0
    assert spreads("tpot", 10.0, (part,), hwspaces.efficiency("half").efficiency) == {}


def test_traced_and_plain_distances_are_one(h100):
    op, far = product(outputs=16384.0), with_peaks(h100, peak=8.0)
    traced = jax.jit(lambda op, hardware: hull_distance(HULL, op, hardware))(op, far)
    assert float(traced) == pytest.approx(float(hull_distance(HULL, op, far)), rel=1e-5)


def test_every_shipped_hull_holds_the_devices_it_was_fitted_on():
    for name in ("learned-vllm", "learned-trtllm", "learned-sglang", "derated"):
        device = case("step", "H200-SXM", "Llama-3.1-8B", workload={"decode": 16, "context": 2048}, efficiency=name)
        found = beyond(device.scenario, step_batch(device.scenario.workload, device.scenario.model))
        assert found.octaves is not None and found.octaves < 0.1, (name, found)


@pytest.mark.parametrize("name", ["datasheet", "kernel", "half"])
def test_constants_without_evidence_say_so(name):
    asked = case("step", "H100-SXM", "Llama-3.1-8B", workload={"decode": 16, "context": 2048}, efficiency=name)
    assert "step_extrapolation" not in answer(asked).metrics
    found = beyond(asked.scenario, step_batch(asked.scenario.workload, asked.scenario.model))
    assert found.octaves is None and found.marked and "nothing is known" in found.text


def test_an_extrapolated_step_names_what_is_furthest_out():
    """40 TB/s and 8 PFLOP/s on the cores of H100: both figures are 2.5 to 3 octaves beyond the largest measured."""
    given = {"hardware.memory.hbm.bandwidth": "40TB/s", "hardware.matrix.bf16": "8PFLOP/s"}
    work = {"prefill": 2048.0}
    near, far = (
        case("step", "H100-SXM", "Llama-3.1-8B", workload=work, overrides=overrides, efficiency="learned-vllm")
        for overrides in ({}, given)
    )
    metrics = answer(far).metrics
    found = beyond(far.scenario, step_batch(StepWork(**work), far.scenario.model))
    assert found.octaves == pytest.approx(metrics["step_extrapolation"], rel=1e-6) and 2.0 < found.octaves < 3.2
    assert len(found.causes) == 2
    assert all(" above the largest measured" in cause for cause in found.causes)
    scenario = dataclasses.replace(far.scenario, efficiency=without_hulls(far.scenario.efficiency))
    inside = dataclasses.replace(far, scenario=scenario)
    assert metrics["step_time_spread"] > 1.03 * answer(inside).metrics["step_time_spread"]
    assert answer(near).metrics["step_extrapolation"] < 0.1

"""fp32 products by a library's kernels: worked times, rereading, throttled clocks, tiles by class of cores."""

import dataclasses

import jax
import numpy as np
import pytest

import hwspaces
from jaxroof.efficiency.sgemm import BATCHED_TILES, TILES, SgemmKernel, library_classes, sgemm_timing
from jaxroof.hardware import Cores, Energy, Hardware, Links, Memory, MemoryLevel, Power
from jaxroof.layers.linear import linear
from jaxroof.model import WeightFormat
from sweeps.measure.validate.training_passes import device

FP32 = WeightFormat(bytes=4.0, compute="fp32")

PLAIN = SgemmKernel(
    matrix=1.0,
    small=0.0,
    tile_cycles=0.0,
    lone=0.0,
    bandwidth=1.0,
    kept=1.0,
    flight=1.0,
    unaligned=0.0,
    stored=0.0,
    single=0.0,
    split_cycles=1e9,
    split_traffic=0.0,
    launch_cycles=0.0,
    process_energy=1.0,
    idle_power=0.0,
    onset_time=0.0,
    scattered=0.0,
    far=0.0,
    reach=1e9,
)
"""Nothing is lost but whole tiles, and no product is split."""

CORES = Cores(count=100.0, vector_flops=2e11, exp_rate=2e10, clock=1e9)

ENERGY = Energy(
    matrix={"fp32": 1e-12}, vector=1e-12, exp=0.0, hbm=0.0, l2=0.0, scratchpad=0.0, scale_up=None, scale_out=None
)


def hardware(bandwidth=1e15, l2=1e12, tdp=None, **cores):
    """20 TFLOP/s on 100 cores at 1 GHz; memory that does not bind."""
    return Hardware(
        matrix={"fp32": 2e13},
        cores=dataclasses.replace(CORES, **cores),
        memory=Memory(
            hbm=MemoryLevel(bandwidth=bandwidth, capacity=1e11),
            l2=MemoryLevel(bandwidth=1e13, capacity=l2),
            scratchpad=None,
            register_capacity=None,
        ),
        links=Links(scale_up=None, scale_out=None),
        power=Power(tdp=tdp),
        price=None,
        energy=ENERGY,
    )


def product(rows, inputs, outputs, matrices=1.0):
    return linear(rows * matrices, inputs, outputs, FP32, 4.0, 1.0, matrices=matrices)


def time(kernel, op, device):
    return float(sgemm_timing(kernel, op, device).total)


def test_a_wave_that_is_not_full_has_no_slope_in_cores():
    """64 x 64 on 100 cores: a few tiles of any size; more cores at the same rate of each do nothing."""

    def seconds(count):
        device = hardware()
        cores = dataclasses.replace(device.cores, count=count)
        matrix = {"fp32": 2e11 * count}
        return sgemm_timing(
            PLAIN, product(64.0, 1000.0, 64.0), dataclasses.replace(device, cores=cores, matrix=matrix)
        ).total

    assert 100.0 * float(jax.grad(seconds)(100.0)) / float(seconds(100.0)) == pytest.approx(0.0, abs=1e-3)


def test_whole_waves_by_hand():
    """1280 x 1280 x 1000: 100 tiles of 128 x 128, one wave: 2 x 128^2 x 1000 / 0.2 TFLOP/s = 163.84 us; one row more
    takes tiles of 32 x 32: 41 x 40 = 1640 on 100 cores, 17 waves of 10.24 us.
    """
    assert time(PLAIN, product(1280.0, 1000.0, 1280.0), hardware()) == pytest.approx(163.84e-6, rel=1e-3)
    assert time(PLAIN, product(1281.0, 1000.0, 1280.0), hardware()) == pytest.approx(17 * 10.24e-6, rel=1e-3)


def test_many_products_have_one_tile_since_ampere():
    """A hundred of 10 x 10: each takes a whole tile of 128 x 128; Volta's library has one of 32 x 128,
    Pascal's of 64 x 128, AMD's of 16 x 16.
    """
    small = product(10.0, 1000.0, 10.0, matrices=100.0)
    assert time(PLAIN, small, hardware()) == pytest.approx(163.84e-6, rel=1e-3)
    volta = hardware(register_copies=1.0)
    assert time(PLAIN, small, volta) == pytest.approx(40.96e-6, rel=1e-3)
    pascal = hardware(register_copies=1.0, shared_issue=1.0)
    assert time(PLAIN, small, pascal) == pytest.approx(81.92e-6, rel=1e-3)
    amd = hardware(wide_waves=1.0)
    assert time(PLAIN, small, amd) == pytest.approx(163.84e-6 / 64, rel=1e-3)


def test_inputs_are_split_where_tiles_are_few():
    """One tile of 32 x 32 on 100 cores: 102.4 us for 10,000 inputs; 32 parts of 313, rounded to 320, take 3.28 us."""
    free = dataclasses.replace(PLAIN, split_cycles=0.0)
    op = product(32.0, 10000.0, 32.0)
    assert time(PLAIN, op, hardware()) == pytest.approx(102.4e-6, rel=1e-3)
    assert time(free, op, hardware()) == pytest.approx(102.4e-6 * 320 / 10000, rel=1e-3)
    many = product(32.0, 10000.0, 32.0, matrices=2.0)
    assert time(free, many, hardware()) == pytest.approx(16 * 102.4e-6, rel=1e-3)  # whole tiles of 128 x 128


def test_operands_are_read_again_by_every_wave():
    """12800 x 1024 x 128 on cores that read 100 tiles of 128 x 128 at once, one wave: rows and columns once. With all
    of L2 lost a second wave of as many rows reads the columns again.
    """
    slow = hardware(bandwidth=1e9, l2=1.0)
    read = 4.0 * 1024 * (12800 + 128)
    written = 4.0 * 12800 * 128
    assert time(PLAIN, product(12800.0, 1024.0, 128.0), slow) == pytest.approx((read + written) / 1e9, rel=1e-2)
    twice = time(PLAIN, product(25600.0, 1024.0, 128.0), slow)
    assert twice == pytest.approx(2 * (read + written) / 1e9, rel=1e-2)


def test_pascal_reads_rows_in_pieces():
    slow = hardware(bandwidth=1e9, shared_issue=1.0, register_copies=1.0)
    pieces = dataclasses.replace(PLAIN, scattered=2.0)
    op = product(4096.0, 64.0, 32.0)
    read, written = 4.0 * 64 * (4096 + 32), 4.0 * 4096 * 32
    assert time(pieces, op, slow) == pytest.approx((3 * read + written) / 1e9, rel=1e-2)
    assert time(pieces, op, hardware(bandwidth=1e9)) == pytest.approx((read + written) / 1e9, rel=1e-2)


def test_a_throttled_clock_by_hand():
    """20 TFLOP/s x 1 pJ x (1 GHz / 1.4 GHz)^2 = 10.2 W of 0.85 x 12 W: excess 1, 2^(-1/8) of the rate; far beyond,
    power is shared.
    """
    op = product(12800.0, 1024.0, 12800.0)
    free, held = time(PLAIN, op, hardware()), time(PLAIN, op, hardware(tdp=20 / 1.96 / 0.85))
    assert held / free == pytest.approx(2 ** (1 / 8), rel=1e-3)
    assert time(PLAIN, op, hardware(tdp=2 / 1.96 / 0.85)) / free == pytest.approx(10.0, rel=1e-3)


def test_single_loads_take_slots_where_copies_pass_registers():
    """1281 rows are no multiple of 8: a tenth more on cores that load through registers."""
    single, op = dataclasses.replace(PLAIN, single=0.1), product(1281.0, 1000.0, 1280.0)
    volta = hardware(register_copies=1.0)
    assert time(single, op, volta) / time(PLAIN, op, volta) == pytest.approx(1.1, rel=1e-3)
    assert time(single, op, hardware()) == time(PLAIN, op, hardware())


@jax.jit
def slopes(chip, op, kernel):
    """Derivatives of the time with respect to every figure of the chip; compiled once for all of them."""
    return jax.grad(lambda chip: sgemm_timing(kernel, op, chip).total)(chip)


@pytest.mark.parametrize("name", ["P4", "T4", "V100-PCIe", "A100-PCIe-40GB", "H100-SXM", "L4", "MI100"])
def test_gradients_are_finite_and_more_is_never_slower(name):
    kernel, chip = hwspaces.efficiency("eager_fp32").efficiency.linear.wide, jax.tree.map(np.float32, device(name))
    rates = {"fp32": chip.matrix["fp32"] / (chip.cores.count * chip.cores.clock)}  # of all chips, of one structure
    chip = dataclasses.replace(chip, cores=dataclasses.replace(chip.cores, matrix_flops_per_clock=rates))
    for op in (product(513.0, 777.0, 1000.0), product(64.0, 512.0, 512.0, matrices=96.0)):
        slope = slopes(chip, op, kernel)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slope))
        assert float(slope.memory.hbm.bandwidth) <= 0.0 and float(slope.matrix["fp32"]) <= 1e-30


def test_every_class_has_tiles():
    classes = {"modern", "volta", "pascal", "amd"}
    assert {name for name, tiles in TILES.items() if tiles} == classes
    assert {name for name, tiles in BATCHED_TILES.items() if tiles} == classes
    assert set(library_classes(CORES)) == classes


@pytest.mark.parametrize(
    ("name", "own"),
    [("P4", "pascal"), ("T4", "volta"), ("V100-PCIe", "volta"), ("A100-SXM", "modern"), ("MI300X", "amd")],
)
def test_the_class_of_an_accelerator(name, own):
    classes = library_classes(hwspaces.hardware(name).hardware.cores)
    assert {label: float(share) for label, share in classes.items() if share} == {own: 1.0}

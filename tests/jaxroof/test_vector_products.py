"""Devices whose vector units multiply matrices: rows that are not padded, by hand, and better rates never slower."""

import dataclasses
import itertools

import pytest

from jaxroof.efficiency import decode, gemm
from jaxroof.efficiency.tiles import VECTOR_SHARE, matrix_time
from jaxroof.hardware import Cores, Hardware, Links, Memory, MemoryLevel, Power
from jaxroof.layers.linear import linear
from jaxroof.model import WeightFormat
from jaxroof.numerics.arrays import eager
from jaxroof.op import AttentionShape, Kernel
from sweeps.ask.axes import leaf, replaced

VECTORS = Hardware(
    matrix={"fp16": 4e11},
    cores=Cores(count=4.0, vector_flops=5e10, exp_rate=None, clock=2e9, vector_products=1.0),
    memory=Memory(hbm=MemoryLevel(bandwidth=2e10, capacity=8e9), l2=None, scratchpad=None, register_capacity=None),
    links=Links(scale_up=None, scale_out=None),
    power=Power(tdp=None),
    price=None,
)
"""Four cores at 2 GHz with 50 FLOP per clock, and 20 GB/s."""

MATRICES = dataclasses.replace(VECTORS, cores=dataclasses.replace(VECTORS.cores, vector_products=None))
FP16 = WeightFormat(bytes=2.0, compute="fp16")


def products(hardware: Hardware, rows: float) -> float:
    """s on the cores of `rows` rows times 1024 x 1024, on kernels whose tiles cost nothing beside their main loop."""
    kernel = dataclasses.replace(gemm.published(), tile_cycles=0.0, store_cycles=0.0, softness=0.0)
    with eager():
        return float(matrix_time(kernel, hardware, 4e11, "fp16", 2.0, lambda tile: -(-rows // tile), 1024.0, 1024.0))


@pytest.mark.parametrize("rows", [1.0, 2.0, 4.0, 8.0, 512.0])
def test_rows_are_not_padded(rows):
    """2 rows 1024^2 FLOP at 78 % of 400 GFLOP/s: 6.7 us for one row."""
    assert products(VECTORS, rows) == pytest.approx(2.0 * rows * 1024.0**2 / (VECTOR_SHARE * 4e11))


def test_matrix_units_pad_one_row_to_sixteen():
    """And lose more on narrow tiles: that is `small`."""
    assert products(MATRICES, 1.0) == products(MATRICES, 16.0) > 16.0 * VECTOR_SHARE * products(VECTORS, 1.0)


def test_decode_attention_pads_no_rows():
    """One row of query per head, 16 wanted: a compute-bound kernel takes 16 times as long on matrix units."""
    shape = AttentionShape(
        sequences=8.0,
        queries=1.0,
        keys=1e5,
        pairs=1e5,
        heads=8.0,
        kv_heads=8.0,
        key_width=64.0,
        value_width=64.0,
        kv_bytes=2.0,
    )
    op = Kernel(
        kind="decode_attention",
        precision="fp16",
        count=1.0,
        kernels=1.0,
        shape=shape,
        matrix_flops=8 * 8e5 * 256.0,
        operand_bytes=2.0,
        bytes=1.0,
        exps=0.0,
    )
    kernel = dataclasses.replace(decode.published(), least_rows=16.0)
    with eager():
        vectors, matrices = (decode.decode_timing(kernel, op, one).resources["matrix"] for one in (VECTORS, MATRICES))
    assert float(matrices) == pytest.approx(16.0 * float(vectors))


@pytest.mark.parametrize("rows", [1.0, 3.0, 40.0, 1000.0])
@pytest.mark.parametrize("path", ["memory.hbm.bandwidth", "cores.clock", "matrix.fp16"])
def test_a_better_rate_is_never_slower(rows, path):
    op = linear(rows, 2048.0, 3000.0, FP16, 2.0, 1.0)
    with eager():
        better = [replaced(VECTORS, path, by * leaf(VECTORS, path)) for by in (1.0, 1.1, 2.0, 8.0)]
        times = [float(gemm.gemm_timing(gemm.published(), op, hardware).total) for hardware in better]
    assert all(after <= before * (1.0 + 1e-9) for before, after in itertools.pairwise(times)), times

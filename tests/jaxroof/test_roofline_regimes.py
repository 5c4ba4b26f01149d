"""One op on one device: a hand-worked number for every resource that can bind it, and for the re-read rule."""

import dataclasses

import pytest

from jaxroof import BOUNDS, Collective, Kernel, datasheet
from jaxroof.collectives import ALGORITHMS
from jaxroof.efficiency import KindEfficiency
from jaxroof.hardware import matrix_peak
from jaxroof.memory.traffic import matrix_traffic
from jaxroof.roofline import op_algorithm, op_bound, op_time, op_timing

EXACT = 1e-6  # relative: a few float32 roundings

# A matrix product of 1 TFLOP on 100 MB of operands, of the `chip` fixture:
#   matrix      1e12 / 1e15                                                    = 1 ms
#   vector      5e9 / (100 x 5e11)                                             = 0.1 ms
#   exp         4e8 / (100 x 4e10)                                             = 0.1 ms
#   HBM         L2 holds 5e7 / 2 = 2.5e7 operands, a square of side 5000:
#               max(1e8, 1e12 x 2 / 5000 = 4e8) / 2e12                         = 0.2 ms
#   L2          a scratchpad holds 1.8e5 / 2 = 9e4, side 300:
#               1e12 x 2 / 300 = 6.667e9, / 1e13                               = 0.6667 ms
#   scratchpad  registers hold 2.5e5 / 4 = 62500 accumulators, side 250:
#               1e12 x 2 / 250 = 8e9, / (100 x 2e11)                           = 0.4 ms
PRODUCT = Kernel(
    kind="linear",
    precision="bf16",
    count=3.0,
    kernels=1.0,
    matrix_flops=1e12,
    operand_bytes=2.0,
    vector_flops=5e9,
    exps=4e8,
    bytes=1e8,
)
TIMES = {"matrix": 1e-3, "vector": 1e-4, "exp": 1e-4, "hbm": 2e-4, "l2": 2e-3 / 3, "scratchpad": 4e-4, "launch": 0.0}


def bound(op, hardware, efficiency=None) -> str:
    return BOUNDS[int(op_bound(op, hardware, efficiency or datasheet()))]


def with_kernel_time(seconds: float):
    """The datasheet with a fixed time per kernel of every kind."""
    ideal = datasheet()
    return dataclasses.replace(ideal, linear=dataclasses.replace(ideal.linear, kernel_time=seconds))


def test_time_of_every_resource(chip):
    times = op_timing(PRODUCT, chip, datasheet()).resources
    assert {name: float(time) for name, time in times.items()} == pytest.approx(TIMES, rel=EXACT)


def test_matrix_binds(chip):
    assert float(op_time(PRODUCT, chip, datasheet())) == pytest.approx(1e-3, rel=EXACT)
    assert bound(PRODUCT, chip) == "matrix"


@pytest.mark.parametrize(
    ("resource", "path", "figure", "time"),
    [
        ("vector", ("cores", "vector_flops"), 5e9, 5e9 / (100 * 5e9)),  # 10 ms
        ("exp", ("cores", "exp_rate"), 4e8, 4e8 / (100 * 4e8)),  # 10 ms
        ("hbm", ("memory", "hbm", "bandwidth"), 1e11, 4e8 / 1e11),  # 4 ms
        ("l2", ("memory", "l2", "bandwidth"), 1e12, 2e12 / 300 / 1e12),  # 6.667 ms
        ("scratchpad", ("memory", "scratchpad", "bandwidth"), 1e10, 8e9 / (100 * 1e10)),  # 8 ms
    ],
)
def test_the_slowest_resource_binds(chip, resource, path, figure, time):
    """Each resource made slow enough to take longer than the matrix units' 1 ms."""
    slow = _replaced(chip, path, figure)
    assert float(op_time(PRODUCT, slow, datasheet())) == pytest.approx(time, rel=EXACT)
    assert bound(PRODUCT, slow) == resource


def test_launch_adds_and_binds_when_it_is_longest(chip):
    # fixed time first, then the slowest resource: 4 kernels x 0.2 ms + 1 ms; the launch binds only above 1 ms
    op = dataclasses.replace(PRODUCT, kernels=4.0)
    assert float(op_time(op, chip, with_kernel_time(2e-4))) == pytest.approx(1.8e-3, rel=EXACT)
    assert bound(op, chip, with_kernel_time(2e-4)) == "matrix"
    assert float(op_time(op, chip, with_kernel_time(3e-4))) == pytest.approx(2.2e-3, rel=EXACT)
    assert bound(op, chip, with_kernel_time(3e-4)) == "launch"


def test_link_binds_a_collective(chip):
    # 4 devices, in two stages: 2 hops x 1 us + 2 x 3/4 x 8 MB / 4e11 = 2 us + 30 us
    op = Collective(operation="all_reduce", count=1.0, kernels=1.0, message_bytes=8e6, participants=4.0)
    assert float(op_time(op, chip, datasheet())) == pytest.approx(32e-6, rel=EXACT)
    assert bound(op, chip) == "link"
    assert ALGORITHMS[int(op_algorithm(op, chip, datasheet()))] == "two_shot"
    # at once: 1 hop and 3 x 40 kB / 4e11 = 0.3 us, less than the hop that an empty message takes
    small = dataclasses.replace(op, message_bytes=4e4)
    assert float(op_time(small, chip, datasheet())) == pytest.approx(1.3e-6, rel=EXACT)
    assert bound(small, chip) == "launch"
    assert float(op_time(dataclasses.replace(op, kernels=0.0), chip, datasheet())) == 0.0
    assert int(op_algorithm(PRODUCT, chip, datasheet())) == -1


def test_op_without_work_takes_no_time(chip):
    nothing = Kernel(kind="elementwise", count=4.0, kernels=0.0, vector_flops=0.0, bytes=0.0)
    assert float(op_time(nothing, chip, datasheet())) == 0.0
    assert bound(nothing, chip) == "launch"


def test_operands_that_fit_are_moved_once():
    # 5e7 B = 2.5e7 operands, side 5000; 1e11 FLOP would re-read 1e11 x 2 / 5000 = 4e7 B, less than the 1e8 B there are
    small = dataclasses.replace(PRODUCT, matrix_flops=1e11)
    assert float(matrix_traffic(small, 5e7, 2.0)) == pytest.approx(1e8, rel=EXACT)
    assert float(matrix_traffic(PRODUCT, 5e7, 2.0)) == pytest.approx(4e8, rel=EXACT)


def test_traffic_falls_with_the_root_of_the_capacity():
    # four times the capacity doubles the side of the tile and halves what is read again
    assert float(matrix_traffic(PRODUCT, 2e8, 2.0)) == pytest.approx(2e8, rel=EXACT)
    assert float(matrix_traffic(PRODUCT, 1e12, 2.0)) == pytest.approx(1e8, rel=EXACT)


def test_traffic_without_matrix_work_or_capacity():
    copy = Kernel(kind="elementwise", count=1.0, kernels=1.0, bytes=1e8)
    assert matrix_traffic(copy, 10.0, None) == 1e8
    assert matrix_traffic(PRODUCT, None, 2.0) == 1e8


def test_unknown_levels_never_bind(chip):
    """An unknown level is left out, and the level outside it is filtered by the next one known, of all cores."""
    memory = dataclasses.replace(chip.memory, l2=None)
    times = op_timing(PRODUCT, dataclasses.replace(chip, memory=memory), datasheet()).resources
    assert "l2" not in times
    assert float(times["hbm"]) == pytest.approx(2e12 / 3000 / 2e12, rel=EXACT)  # 6.667e8 B, a tile of 100 pads

    memory = dataclasses.replace(chip.memory, l2=None, scratchpad=None, register_capacity=None)
    bare = dataclasses.replace(chip, memory=memory, cores=dataclasses.replace(chip.cores, exp_rate=None))
    times = op_timing(PRODUCT, bare, datasheet()).resources
    assert set(times) == {"matrix", "vector", "hbm", "launch"}
    assert float(times["hbm"]) == pytest.approx(1e8 / 2e12, rel=EXACT)  # nothing known to re-read for


def test_every_share_derates_its_resource(chip):
    kind = KindEfficiency(matrix=0.5, matrix_low=0.25, vector=0.8, bandwidth=0.4, cache_bandwidth=0.1, kernel_time=7e-6)
    efficiency = dataclasses.replace(datasheet(), linear=kind)
    shares = {"matrix": 0.5, "vector": 0.8, "exp": 0.8, "hbm": 0.4, "l2": 0.1, "scratchpad": 0.1}
    times = op_timing(PRODUCT, chip, efficiency).resources
    expected = {name: TIMES[name] / share for name, share in shares.items()} | {"launch": 7e-6}
    assert {name: float(time) for name, time in times.items()} == pytest.approx(expected, rel=EXACT)
    # at 8 bits: twice the peak and the share of low precisions, 1e12 / (2e15 x 0.25) = 2 ms
    low = dataclasses.replace(PRODUCT, precision="fp8", operand_bytes=1.0)
    assert float(op_timing(low, chip, efficiency).resources["matrix"]) == pytest.approx(2e-3, rel=EXACT)


def test_missing_precision_is_refused(chip):
    """A throughput that nobody published is never made up from another one."""
    op = dataclasses.replace(PRODUCT, precision="int8")
    with pytest.raises(ValueError, match=r"^the hardware has no matrix peak for int8; it has bf16, fp4, fp8"):
        op_time(op, chip, datasheet())
    with pytest.raises(ValueError, match="it has none"):
        matrix_peak(dataclasses.replace(chip, matrix={}), "bf16")


def _replaced(struct, path, value):
    inner = value if len(path) == 1 else _replaced(getattr(struct, path[0]), path[1:], value)
    return dataclasses.replace(struct, **{path[0]: inner})

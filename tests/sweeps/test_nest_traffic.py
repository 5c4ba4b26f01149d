"""One idea of traffic: a product's loop nest in square tiles moves what the GPU's roofline charges for it."""

import math

import pytest

import hwspaces
from jaxroof.memory.traffic import ACCUMULATOR_BYTES, inner_capacities, matrix_traffic
from jaxroof.nests import Mapping, NestMachine, NestMemory, nest_cost
from jaxroof.op import Kernel
from sweeps.studies.map import found_mapping
from workloads.nests.checks import TENSORS, matmul

WIDTH = 2.0
"""B of an element."""

INSIDE = {"hbm": "l2", "l2": "scratchpad", "scratchpad": "registers"}
"""A level, and the one that it fills, where there is an L2."""


def levels(name: str) -> dict[tuple[str, str], tuple[float, float]]:
    """Capacity of what each level of a device fills, and what holds one element of a tile there, both in B."""
    hardware = hwspaces.hardware(name).hardware
    held = {INSIDE[level]: float(room) for level, room in inner_capacities(hardware).items() if room is not None}
    return {
        (name, level): (room, ACCUMULATOR_BYTES if level == "registers" else WIDTH)
        for level, room in held.items()
        if room >= LEAST
    }


LEAST = 4096.0
"""B below which a level holds no tile worth the name."""

EVERY = {key: value for name in hwspaces.names() for key, value in levels(name).items()}
"""Of all devices of the catalogue."""

LEVELS = {(round(room), width): key for key, (room, width) in EVERY.items()}
"""Different capacities, each with a device and a level that has it."""

SEARCHED = ("H100-SXM", "MI300X", "TPU-v6e")
"""Devices whose levels are searched for better mappings, which takes a while."""

SHAPES = [(8192, 8192, 8192), (4096, 14336, 4096), (16384, 4096, 2048), (128, 4096, 4096)]


def product(m, n, k):
    return Kernel(
        count=1.0, kind="linear", kernels=1.0, matrix_flops=2.0 * m * n * k, operand_bytes=WIDTH,
        bytes=WIDTH * (m * k + k * n + m * n),
    )  # fmt: skip


def machine(room):
    memories = NestMemory(name="outside", read_energy=1.0, update_energy=1.0), NestMemory(name="level", capacity=room)
    return NestMachine(nodes=memories)


@pytest.mark.parametrize(("device", "level"), LEVELS.values())
@pytest.mark.parametrize("shape", SHAPES)
def test_a_square_tile_moves_what_the_roofline_says(shape, device, level):
    capacity, width = EVERY[device, level]
    m, n, k = shape
    # The largest square tile of results whose sides divide the product, as large as the level.
    side = max(each for each in range(1, math.isqrt(int(capacity / width)) + 1) if m % each == n % each == 0)
    mapping = Mapping(
        factors=({"M": m / side, "N": n / side, "K": float(k)}, {"M": float(side), "N": float(side)}),
        orders=(("M", "N", "K"), ("M", "N")),
        kept=(TENSORS, TENSORS),
    )
    cost = nest_cost(matmul(m, n, k), machine(side**2 + 2 * side), mapping)
    assert cost.fits  # a row and a column of operands stand beside the results: 2 / side more than the rule has
    moved = WIDTH * sum(cost.accesses["outside", name][1] for name in ("Weights", "Inputs"))
    results = WIDTH * cost.accesses["outside", "Outputs"].updates
    ruled = matrix_traffic(product(m, n, k), side**2 * width, width)
    blocked = 2.0 * m * n * k * WIDTH / side
    assert moved == pytest.approx(blocked, rel=1e-12) and results == WIDTH * m * n
    # Where operands are read again, the rule leaves out the results, side / (2 k) of the operands; else it is exact.
    once = WIDTH * (m * k + k * n + m * n)
    assert ruled == pytest.approx(max(moved, once), rel=1e-6)
    assert (moved + results) / ruled <= 1.0 + side / (2.0 * k) + 1e-9


@pytest.mark.parametrize(("device", "level"), [key for key in EVERY if key[0] in SEARCHED and key[1] != "registers"])
@pytest.mark.parametrize("shape", SHAPES)
def test_no_mapping_beats_the_rule_and_the_best_comes_close(shape, device, level):
    capacity, width = EVERY[device, level]
    room, problem = capacity / width, matmul(*shape)
    found = found_mapping(problem, machine(room), (TENSORS, TENSORS), objective="energy", mappings=30_000)
    m, n, k = shape
    moved = WIDTH * sum(sum(cost[1:]) for (memory, _), cost in found.cost.accesses.items() if memory == "outside")
    ruled = float(matrix_traffic(product(m, n, k), capacity, width))
    # Results come on top of operands that are read again, and sides of tiles are divisors: of 8,192 cubed in the L2 a
    # tile has 4,096 squared in place of 5,120, 5 matrices' bytes in place of 3.2.
    assert 1.0 - 1e-6 <= moved / ruled <= 1.6

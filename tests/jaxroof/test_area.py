"""Die area against numbers worked out by hand, and what it does when a figure changes."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

from jaxroof import (
    Areas,
    Cores,
    Hardware,
    Link,
    Links,
    Memory,
    MemoryLevel,
    Power,
    Process,
    Silicon,
    area_parts,
    die_area,
)
from jaxroof.chip.area import dies, matrix_width, memory_stacks
from tests.silicon_examples import AREAS, COSTS, SILICON

EXACT = 1e-6
"""Relative: a few float32 roundings."""


def invented(**changes) -> Hardware:
    """100 cores at 1 GHz: 200,000 16-bit FLOP per cycle, 20,000 float32, 256 KB per core, 64 MB of L2, 4 stacks."""
    silicon = dataclasses.replace(SILICON, **changes)
    return Hardware(
        matrix={"bf16": 200e12, "fp8": 400e12, "fp32": 20e12},
        cores=Cores(count=100.0, vector_flops=0.2e12, exp_rate=None, clock=1e9),
        memory=Memory(
            hbm=MemoryLevel(bandwidth=4e12, capacity=60e9),
            l2=MemoryLevel(bandwidth=10e12, capacity=64e6),
            scratchpad=MemoryLevel(bandwidth=1e11, capacity=128e3),
            register_capacity=128e3,
        ),
        links=Links(scale_up=Link(bandwidth=400e9, latency=1e-6, devices=8.0), scale_out=None),
        power=Power(tdp=600.0),
        price=None,
        silicon=silicon,
        costs=COSTS,
    )


# mm2: 2e5 * 2e-4, 2e4 * 4e-3, none, none, 100 * 0.5, 100 * 256e3 * 1e-6, 64e6 * 0.5e-6, 4 * 10, 400e9 * 5e-11, 30
BY_HAND = {
    **{"matrix": 40.0, "vector": 80.0, "double": 0.0, "graphics": 0.0, "core": 50.0, "core_memory": 25.6},
    **{"l2": 32.0, "stacks": 40.0, "links": 20.0, "fixed": 30.0, "base": 0.0},
}


def test_parts_by_hand():
    found = {name: float(area) * 1e6 for name, area in area_parts(invented()).items()}
    assert found == pytest.approx(BY_HAND, rel=EXACT)
    assert float(die_area(invented())) * 1e6 == pytest.approx(317.6, rel=EXACT)


def test_process_layout_and_what_is_switched_off():
    """Logic x 2, SRAM x 3, I/O x 1.5; half the cores off doubles logic and core memory, layout 1.5 logic alone."""
    process = Process(logic=2.0, sram=3.0, analog=1.5)
    changes = {"core_process": process, "shared_process": process, "cores_used": 0.5, "layout": 1.5}
    found = {name: float(area) * 1e6 for name, area in area_parts(invented(**changes, l2_used=0.8)).items()}
    logic = 2.0 * 1.5 / 0.5
    expected = {name: BY_HAND[name] * logic for name in ("matrix", "vector", "double", "graphics", "core")}
    expected |= {"core_memory": 25.6 * 3 / 0.5, "l2": 32.0 * 3 / 0.8, "stacks": 60.0, "links": 30.0, "fixed": 90.0}
    expected |= {"base": 0.0}
    assert found == pytest.approx(expected, rel=EXACT)


def test_lanes_that_float32_and_float64_share_are_counted_once():
    """20,000 float32 FLOP per cycle take 80 mm2; 10,000 of float64 at 6e-3 mm2 60: apart 140, shared the larger."""
    areas = dataclasses.replace(AREAS, double=6e-9)
    apart, shared = (invented(areas=areas, double_flops=1e13, shared_lanes=lanes) for lanes in (0.0, 1.0))
    assert [float(area_parts(apart)[part]) * 1e6 for part in ("vector", "double")] == pytest.approx([80.0, 60.0])
    assert [float(area_parts(shared)[part]) * 1e6 for part in ("vector", "double")] == pytest.approx([80.0, 0.0])
    more = invented(areas=areas, double_flops=2e13, shared_lanes=1.0)
    assert float(area_parts(more)["vector"]) * 1e6 == pytest.approx(120.0)


def test_dies_under_those_with_cores_are_as_large_as_they_are():
    """195.6 mm2 of cores: 1.5 times that is 293.4, of which caches and control need 62; PHYs and links come on top."""
    stacked = {"separate": 1.0, "dies": 8.0, "shared_dies": 2.0, "base_ratio": 1.5}
    assert float(area_parts(invented(**stacked))["base"]) * 1e6 == pytest.approx(293.4 - 62.0, rel=EXACT)
    cores, others = dies(invented(**stacked))
    assert [float(cores.area) * 1e6, float(others.area) * 1e6] == pytest.approx([195.6, 293.4 + 60.0], rel=EXACT)
    # Caches that need more than the dies above them cover: nothing is added. Side by side: neither.
    for changes in (stacked | {"base_ratio": 0.3}, stacked | {"separate": 0.0}):
        assert float(area_parts(invented(**changes))["base"]) == pytest.approx(0.0, abs=1e-12)


def test_the_widest_precision_counts():
    """2e14 bf16 and 4e14 fp8 are one unit; 8e14 fp8 are twice as much."""
    hardware = invented()
    assert float(matrix_width(hardware)) == pytest.approx(2e5, rel=EXACT)
    wide = dataclasses.replace(hardware, matrix=hardware.matrix | {"fp8": 800e12})
    assert float(matrix_width(wide)) == pytest.approx(4e5, rel=EXACT)


@pytest.mark.parametrize(("bandwidth", "capacity", "stacks"), [(4e12, 60e9, 4), (4.1e12, 60e9, 5), (1e12, 65e9, 5)])
def test_stacks_hold_bandwidth_and_capacity(bandwidth, capacity, stacks):
    hardware = invented()
    hbm = MemoryLevel(bandwidth=bandwidth, capacity=capacity)
    memory = dataclasses.replace(hardware.memory, hbm=hbm)
    assert float(memory_stacks(dataclasses.replace(hardware, memory=memory))) == stacks


@pytest.mark.parametrize(("changes", "expected"), [
    ({}, ((317.6, 1), (0.0, 0))),
    ({"largest_die": 150e-6}, ((317.6, 3), (0.0, 0))),
    ({"dies": 4.0}, ((317.6, 4), (0.0, 0))),
    ({"separate": 1.0, "dies": 8.0, "shared_dies": 2.0}, ((195.6, 8), (122.0, 2))),
])  # fmt: skip
def test_dies(changes, expected):
    found = dies(invented(**changes))
    assert [(float(kind.area) * 1e6, float(kind.count)) for kind in found] == [pytest.approx(e) for e in expected]


def test_unknown_levels_take_no_area():
    hardware = invented()
    memory = dataclasses.replace(hardware.memory, l2=None, scratchpad=None, register_capacity=None)
    bare = dataclasses.replace(hardware, memory=memory, links=Links(scale_up=None, scale_out=None))
    found = area_parts(bare)
    assert [float(found[name]) for name in ("core_memory", "l2", "links")] == [0.0, 0.0, 0.0]
    with pytest.raises(ValueError, match="no silicon"):
        die_area(dataclasses.replace(hardware, silicon=None))


def test_gradients_against_central_differences():
    """d ln A / d ln x of every leaf that nothing is rounded in; 1e-5: differences of float64 at 1e-4.

    Whole stacks and the two matrix precisions that tie have gradients of their own, which are only finite here.
    """
    with jax.enable_x64():
        found, structure = jax.tree.flatten_with_path(invented(double_flops=1e13, graphics=1.0, other_memory=1e6))
        paths, leaves = zip(*((jax.tree_util.keystr(path), leaf) for path, leaf in found), strict=True)
        leaves = jnp.asarray(leaves, jnp.float64)
        logs = jnp.log(jnp.where(leaves > 0.0, leaves, 1.0))

        def log_area(logs):
            return jnp.log(die_area(jax.tree.unflatten(structure, list(jnp.exp(logs)))))

        slopes = jax.jit(jax.grad(log_area))(logs)
        steps = 1e-4 * jnp.eye(len(leaves))
        both = jax.jit(jax.vmap(lambda step: (log_area(logs + step) - log_area(logs - step)) / 2e-4))(steps)
        smooth = jnp.asarray([not any(part in path for part in (".hbm", ".stack_", ".matrix[")) for path in paths])
        assert bool(jnp.all(jnp.isfinite(slopes))) and int(smooth.sum()) > 50
        assert float(jnp.max(jnp.abs(jnp.where(smooth, slopes - both, 0.0)))) < 1e-5


def test_stacks_have_the_gradient_of_their_ratio():
    """Four whole stacks: the area grows with the bandwidth as their part of it, 40 of 317.6 mm2."""

    def log_area(bandwidth):
        hardware = invented()
        hbm = dataclasses.replace(hardware.memory.hbm, bandwidth=bandwidth, capacity=1e9)
        memory = dataclasses.replace(hardware.memory, hbm=hbm)
        return jnp.log(die_area(dataclasses.replace(hardware, memory=memory)))

    assert 4e12 * float(jax.grad(log_area)(4e12)) == pytest.approx(40.0 / 317.6, rel=1e-5)


def test_euler_over_areas_per_unit():
    """The area is linear in the areas per unit: their elasticities sum to 1."""
    hardware = invented(double_flops=1e13, graphics=1.0)

    def area(areas: Areas):
        return die_area(dataclasses.replace(hardware, silicon=dataclasses.replace(hardware.silicon, areas=areas)))

    slopes = jax.grad(area)(jax.tree.map(jnp.asarray, AREAS))
    total = sum(jax.tree.leaves(jax.tree.map(lambda slope, leaf: slope * leaf, slopes, AREAS)))
    assert float(total / area(AREAS)) == pytest.approx(1.0, rel=1e-5)


def test_silicon_is_data():
    """Two devices of different silicon are one structure, so that they stack."""
    other = invented(separate=1.0, shared_dies=2.0, dies=8.0)
    assert jax.tree.structure(other) == jax.tree.structure(invented())
    assert isinstance(other.silicon, Silicon)

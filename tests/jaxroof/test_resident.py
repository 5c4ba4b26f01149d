"""Weights that stay in on-chip memory: bytes and times by hand, shares; the same in steps, requests and services."""

import dataclasses

import jax
import pytest

import hwspaces
import workloads
from jaxroof import Deployment, datasheet, decode, step_time
from jaxroof.chip.area import area_parts
from jaxroof.energy.energy import joules_of
from jaxroof.hardware import OnChip
from jaxroof.memory.capacity import weight_bytes
from jaxroof.memory.placement import resident_share
from jaxroof.numerics.arrays import eager
from jaxroof.op import Kernel
from jaxroof.step.placed import device_ops

ONE = decode(1.0, 1024.0)


@pytest.fixture(scope="module")
def model():
    return workloads.model("Llama-3.1-8B").model


def device(capacity: float | None, keeps: float = 1.0, l2: float = 1e15):
    """An H100 with a cache too fast to bind, and with on-chip memory."""
    hardware = hwspaces.hardware("H100-SXM").hardware
    memory = dataclasses.replace(hardware.memory, l2=dataclasses.replace(hardware.memory.l2, bandwidth=l2))
    scratchpad = dataclasses.replace(memory.scratchpad, bandwidth=l2)
    on_chip = None if capacity is None else OnChip(capacity=capacity, keeps_weights=keeps)
    return dataclasses.replace(hardware, memory=dataclasses.replace(memory, scratchpad=scratchpad, on_chip=on_chip))


def time(hardware, model, efficiency=None, deployment=None) -> float:
    with eager():
        return float(step_time(hardware, model, deployment or Deployment(), ONE, efficiency or datasheet()))


def product_bytes(hardware, model) -> float:
    """B of weights that products of a step read."""
    shapes = [
        (op.count, op.shape)
        for op in device_ops(hardware, model, Deployment(), ONE).values()
        if isinstance(op, Kernel) and op.kind == "linear"
    ]
    return sum(float(count * s.matrices * s.inputs * s.outputs * s.weight_bytes) for count, s in shapes)


def test_half_of_the_weights_on_the_chip_saves_half_of_their_bytes(model):
    """A decode step of one sequence reads 15 GB of products' weights at 3.35 TB/s: 4.48 ms, of which half goes."""
    stored, streamed = float(weight_bytes(model, Deployment())), product_bytes(device(None), model)
    assert streamed == pytest.approx(15.0e9, rel=0.01)
    whole, half = time(device(None), model), time(device(0.5 * stored), model)
    assert whole - half == pytest.approx(0.5 * streamed / 3.35e12, rel=1e-4)


def test_what_is_resident_is_not_streamed_and_passes_the_levels_inside(model):
    none, every = device(None), device(1e12)
    assert float(resident_share(every, model, Deployment())) == 1.0
    assert time(every, model) < 0.1 * time(none, model)
    # 15 GB at 10 TB/s of the L2: 1.5 ms, whatever HBM does.
    slow = device(1e12, l2=1e13)
    assert time(slow, model) == pytest.approx(product_bytes(none, model) / 1e13, rel=0.06)


def test_a_memory_that_keeps_nothing_changes_nothing(model):
    assert time(device(1e12, keeps=0.0), model) == time(device(None), model)


@pytest.mark.parametrize("name", ["derated", "kernel", "learned"])
def test_steps_are_never_slower_with_more_on_the_chip(name, model):
    efficiency = hwspaces.efficiency(name).efficiency
    times = [time(device(capacity), model, efficiency) for capacity in (1.0, 1e9, 4e9, 8e9, 16e9, 64e9)]
    assert times == sorted(times, reverse=True)
    assert times[-1] < 0.75 * times[0]


def test_more_devices_keep_more(model):
    hardware = device(1e9)
    shares = [float(resident_share(hardware, model, Deployment(tp=tp))) for tp in (1.0, 2.0, 4.0)]
    assert shares[1] / shares[0] == pytest.approx(2.0, rel=0.01)
    assert shares[2] / shares[0] == pytest.approx(4.0, rel=0.01)


def test_resident_weights_take_no_energy_of_device_memory(model):
    energies = [joules_of(device_ops(one, model, Deployment(), ONE), one) for one in (device(None), device(1e12))]
    saved = float(energies[0].other) - float(energies[1].other)
    per_byte = hwspaces.hardware("H100-SXM").hardware.energy.hbm
    assert saved == pytest.approx(per_byte * product_bytes(device(None), model), rel=1e-3)
    assert float(energies[0].core) == pytest.approx(float(energies[1].core), rel=1e-6)


def test_the_slope_in_the_capacity_is_that_of_the_bytes(model, float64):
    """d time / d capacity = -(streamed / stored) / bandwidth, while a part fits."""

    def of_capacity(capacity):
        return step_time(device(capacity), model, Deployment(), ONE, datasheet())

    slope = float(jax.grad(of_capacity)(2e9))
    streamed, stored = product_bytes(device(None), model), float(weight_bytes(model, Deployment()))
    assert slope == pytest.approx(-streamed / stored / 3.35e12, rel=0.02)


def test_a_service_of_one_request_at_a_time_has_the_step_times_of_a_request():
    """Price tables of the simulator keep the same weights."""
    import sweeps

    words = {"hardware": "sram-heavy", "model": "Qwen3-0.6B", "efficiency": "derated"}
    lengths = {"isl": 512, "osl": 64}
    request = sweeps.sweep(job="request", workload={"batch": 1, **lengths}, **words)
    served = sweeps.serve(rate=0.01, requests=4, isl="512", osl="64", **words).dataset
    assert float(served.tpot.mean()) == pytest.approx(float(request.tpot), rel=0.02)


def test_on_chip_memory_takes_area_where_it_is_larger_than_the_cache(model):
    """H100: 1.2 mm2 per MiB in its process; 1 GiB more than the 60 MiB of its dies."""
    none, small, large = (area_parts(device(capacity))["l2"] for capacity in (None, 2.0**20, 2.0**30))
    assert float(small) == float(none)
    assert float(large) / float(none) == pytest.approx(2.0**30 / device(None).memory.l2.capacity, rel=0.3)

"""Machines with other memories: several beside one another, units in memory, several dies, meshes; by hand."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hwspaces
import workloads
from jaxroof import Deployment, datasheet, decode, prefill, step_time
from jaxroof.deployment.deployment import PLACEMENTS
from jaxroof.efficiency import mesh
from jaxroof.energy.energy import joules_of
from jaxroof.hardware import Beside, Dies, Near
from jaxroof.memory.capacity import kv_capacity_bytes, weight_bytes, weights_fit
from jaxroof.memory.placement import expert_bytes, filled, placement, spread
from jaxroof.numerics.arrays import eager
from jaxroof.op import PRODUCTS, Kernel
from jaxroof.roofline import op_timing
from jaxroof.step.placed import device_ops
from jaxroof.step.step import step_times

LPDDR = Beside(bandwidth=0.5e12, capacity=480e9)
DENSE, SPARSE = "Llama-3.1-70B", "Qwen3-235B-A22B"


def named(name: str):
    return hwspaces.efficiency(name).efficiency


def model(name: str):
    return workloads.model(name).model


def device(**memory):
    """An H100 whose caches are too fast to bind, with other memories."""
    hardware = hwspaces.hardware("H100-SXM").hardware
    own = hardware.memory
    fast = {
        "l2": dataclasses.replace(own.l2, bandwidth=1e15),
        "scratchpad": dataclasses.replace(own.scratchpad, bandwidth=1e13),
    }
    return dataclasses.replace(hardware, memory=dataclasses.replace(own, **fast, **memory))


def with_cores(hardware, **cores):
    return dataclasses.replace(hardware, cores=dataclasses.replace(hardware.cores, **cores))


def seconds(hardware, model, batch, efficiency=None, deployment=None) -> float:
    with eager():
        return float(step_time(hardware, model, deployment or Deployment(), batch, efficiency or datasheet()))


# Memories beside device memory.


def test_weights_that_do_not_fit_are_read_from_the_memory_beside():
    """Weights of 141 GB, of which LPDDR holds what HBM has no room for: it alone sets the time, 0.5 TB/s."""
    hardware, dense, where = device(beside={"lpddr": LPDDR}), model(DENSE), Deployment()
    with eager():
        place = placement(hardware, dense, where)
        ops = device_ops(hardware, dense, where, decode(1.0, 1024.0))
        plain = device_ops(device(), dense, where, decode(1.0, 1024.0))
    share = float(place.weights["lpddr"])
    room = 0.9 * 80e9  # and what is reserved: the share in LPDDR is a little more
    assert 1.0 - room / 141.1e9 < share < 1.05 * (1.0 - room / 141.1e9) + 0.02
    assert float(sum(place.weights.values())) == pytest.approx(1.0)
    products = [name for name, op in ops.items() if isinstance(op, Kernel) and op.kind in PRODUCTS]
    sizes = [(plain[name].count, plain[name].shape) for name in products]
    stored = sum(float(count * shape.inputs * shape.outputs * shape.weight_bytes) for count, shape in sizes)
    beside = sum(float(ops[name].count * ops[name].beside_bytes["lpddr"]) for name in products)
    assert beside == pytest.approx(share * stored)
    whole = seconds(hardware, dense, decode(1.0, 1024.0))
    assert whole == pytest.approx(share * stored / 0.5e12, rel=0.02)
    # With a bandwidth in proportion to the shares both memories end together.
    balanced = dataclasses.replace(LPDDR, bandwidth=share / (1.0 - share) * 3.35e12)
    assert seconds(device(beside={"lpddr": balanced}), dense, decode(1.0, 1024.0)) == pytest.approx(
        (1.0 - share) * stored / 3.35e12, rel=0.03
    )


def test_latency_and_sharing_of_a_memory_beside():
    late, shared = (dataclasses.replace(LPDDR, **change) for change in ({"latency": 1e-6}, {"devices": 2.0}))
    dense, batch = model(DENSE), decode(1.0, 1024.0)
    plain = seconds(device(beside={"lpddr": LPDDR}), dense, batch)
    with eager():
        ops = device_ops(device(beside={"lpddr": late}), dense, Deployment(), batch)
    reading = sum(float(op.count * op.kernels) for op in ops.values() if isinstance(op, Kernel) and op.beside_bytes)
    more = seconds(device(beside={"lpddr": late}), dense, batch) - plain
    assert more == pytest.approx(1e-6 * reading, rel=0.2)  # cache in device memory waits for none
    halved = dataclasses.replace(LPDDR, bandwidth=LPDDR.bandwidth / 2, capacity=LPDDR.capacity / 2)
    assert seconds(device(beside={"lpddr": shared}), dense, batch) == seconds(
        device(beside={"lpddr": halved}), dense, batch
    )


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.0, 10.0), st.sampled_from([1.0, 2.0, 3.0])), min_size=1, max_size=4),
    st.floats(0.1, 20.0),
    st.booleans(),
)
def test_memories_are_filled_in_order_of_bandwidth(levels, size, slowest_first):
    size, rooms = 1e9 * size, {f"m{i}": 1e9 * room for i, (room, _) in enumerate(levels)}
    rates = {f"m{i}": rate for i, (_, rate) in enumerate(levels)}
    with eager():
        in_order = {k: float(v) for k, v in filled(size, rooms, rates, slowest_first).items()}
        together = {k: float(v) for k, v in spread(size, rooms, rates).items()}
    # By hand: one after the other.
    left, expected = size, {}
    for name in sorted(rooms, key=lambda n: (rates[n] if slowest_first else -rates[n], n)):
        expected[name] = min(left, rooms[name])
        left -= expected[name]
    assert in_order == pytest.approx(expected, abs=1.0)
    for taken in (in_order, together):
        assert all(0.0 <= taken[name] <= rooms[name] + 1.0 for name in rooms)
        assert sum(taken.values()) == pytest.approx(min(size, sum(rooms.values())), abs=2.0)


def test_experts_in_the_slow_memory_are_worth_it_where_few_are_read():
    """8 of 128 experts are read at one sequence, so that they may lie in LPDDR while the cache keeps the HBM."""
    hardware, sparse = device(beside={"lpddr": dataclasses.replace(LPDDR, capacity=960e9)}), model(SPARSE)
    context = decode(16.0, 32768.0)
    times = {way: seconds(hardware, sparse, context, None, Deployment(placement=way)) for way in PLACEMENTS}
    with eager():
        experts = float(expert_bytes(sparse, Deployment()))
        last = placement(hardware, sparse, Deployment(placement="experts_last"))
        first = placement(hardware, sparse, Deployment(placement="weights_first"))
    assert experts / float(weight_bytes(sparse, Deployment())) > 0.9
    assert float(last.experts["lpddr"]) == pytest.approx(1.0)
    assert float(last.rooms["hbm"]) > 50e9 > float(first.rooms["hbm"])
    # Cache of 16 x 32k in HBM instead of LPDDR.
    assert times["experts_last"] < times["weights_first"]
    with eager():
        assert float(kv_capacity_bytes(hardware, sparse, Deployment(placement="experts_last"))) == float(
            kv_capacity_bytes(hardware, sparse, Deployment())
        )


def test_interleaving_ends_all_memories_together():
    hardware, dense = device(beside={"lpddr": dataclasses.replace(LPDDR, bandwidth=3.35e12)}), model("Llama-3.1-8B")
    one, both = (
        seconds(hardware, dense, decode(1.0, 1024.0), None, Deployment(placement=way))
        for way in ("weights_first", "interleaved")
    )
    assert both == pytest.approx(0.5 * one, rel=0.02)


def test_capacity_counts_every_memory_that_may_hold_what_is_asked_for():
    dense, where = model(DENSE), Deployment()
    with eager():
        own = float(kv_capacity_bytes(device(), dense, where))
        both = float(kv_capacity_bytes(device(beside={"lpddr": LPDDR}), dense, where))
        no_weights = device(beside={"lpddr": dataclasses.replace(LPDDR, weights=0.0)})
        no_cache = device(beside={"lpddr": dataclasses.replace(LPDDR, cache=0.0)})
        assert own == 0.0 and not weights_fit(device(), dense, where)
        stored = float(weight_bytes(dense, where))
        assert both == pytest.approx(480e9 - (stored - 0.9 * 80e9), rel=0.02)
        assert not weights_fit(no_weights, dense, where)
        # The cache may use what weights leave of the HBM: nothing beyond it.
        assert weights_fit(no_cache, dense, where)
        assert float(kv_capacity_bytes(no_cache, dense, where)) < 0.9 * 80e9


def test_bytes_of_a_memory_beside_take_its_own_energy():
    dense, batch = model(DENSE), decode(1.0, 1024.0)

    def joules(energy):
        hardware = device(beside={"lpddr": dataclasses.replace(LPDDR, energy=energy)})
        with eager():
            return float(joules_of(device_ops(hardware, dense, Deployment(), batch), hardware).other)

    with eager():
        ops = device_ops(device(beside={"lpddr": LPDDR}), dense, Deployment(), batch)
    read = sum(float(op.count * op.beside_bytes["lpddr"]) for op in ops.values() if getattr(op, "beside_bytes", None))
    assert joules(2e-10) - joules(1e-10) == pytest.approx(1e-10 * read, rel=1e-3)
    assert joules(None) == pytest.approx(joules(hwspaces.hardware("H100-SXM").hardware.energy.hbm))


# Units in the memory, dies, meshes, hosts.


def test_units_in_the_memory_serve_what_is_read_once():
    """A decode step reads 16 GB at 20 TB/s inside the memory; a prompt of 4,096 tokens stays with the cores."""
    near = device(near=Near(bandwidth=20e12, flops=20e12))
    dense = model("Llama-3.1-8B")
    plain, inside = (seconds(h, dense, decode(1.0, 1024.0)) for h in (device(), near))
    assert plain / inside == pytest.approx(20.0 / 3.35, rel=0.05)
    assert seconds(device(), dense, prefill(1.0, 4096.0)) == pytest.approx(
        seconds(near, dense, prefill(1.0, 4096.0)), rel=0.01
    )


def test_bytes_of_other_dies_pass_the_links_between_them():
    """Of 16 GB half is on the other die: 8 GB at 1 TB/s, twice as long as HBM takes for all of them."""
    dense, batch = model("Llama-3.1-8B"), decode(1.0, 1024.0)
    two = device(dies=Dies(bandwidth=1e12, count=2.0))
    fast = device(dies=Dies(bandwidth=1e15, count=2.0))
    assert seconds(two, dense, batch) / seconds(device(), dense, batch) == pytest.approx(3.35 / 2.0, rel=0.02)
    assert seconds(fast, dense, batch) == pytest.approx(seconds(device(), dense, batch), rel=1e-6)
    for name in ("derated", "kernel", "learned-vllm"):
        constants = named(name)
        assert seconds(two, dense, batch, constants) >= 0.99 * 0.5 * 15.0e9 / 1e12


def test_a_mesh_pays_crossings_and_neither_launches_nor_a_host():
    """Llama-3.1-8B on 10,000 cores with hops of 1 ns: 4 products and 2 of attention a layer and the head, 200 hops."""
    hardware = with_cores(device(), count=1e4, hop_time=1e-9)
    dense, batch = model("Llama-3.1-8B"), decode(1.0, 128.0)
    constants = named("learned-vllm")
    with eager():
        times = step_times(hardware, dense, Deployment(), batch, constants)
        ops = device_ops(hardware, dense, Deployment(), batch)
        launches = {
            name: float(op_timing(op, hardware, constants).resources["launch"])
            for name, op in ops.items()
            if isinstance(op, Kernel)
        }
    assert float(times["host"]) == 0.0
    assert launches["qkv_proj"] == pytest.approx(200e-9)
    assert sum(float(ops[name].count) * each for name, each in launches.items()) == pytest.approx(193 * 200e-9)
    # Bytes are read at the share of the bandwidth that papers of such machines state.
    streaming = 15.0e9 / (3.35e12 * mesh.published().bandwidth)
    assert sum(map(float, times.values())) == pytest.approx(streaming + 193 * 200e-9, rel=0.02)
    # The bound of the datasheet has no fixed times.
    assert seconds(hardware, dense, batch) == pytest.approx(15.0e9 / 3.35e12, rel=0.02)


def test_a_host_half_as_fast_takes_twice_as_long():
    dense, batch, constants = model("Llama-3.1-8B"), decode(64.0, 1024.0), named("learned-vllm")
    slow = dataclasses.replace(device(), host_speed=0.5)
    with eager():
        times, others = (step_times(h, dense, Deployment(), batch, constants) for h in (slow, device()))
    assert float(times.pop("host")) == pytest.approx(2.0 * float(others.pop("host"))) != 0.0
    assert {k: float(v) for k, v in times.items()} == {k: float(v) for k, v in others.items()}


LEAVES = {
    "memory.beside.lpddr.bandwidth": -1,
    "memory.beside.lpddr.capacity": 0,
    "memory.beside.lpddr.latency": 1,
    "memory.near.bandwidth": -1,
    "memory.near.flops": -1,
    "memory.dies.bandwidth": -1,
    "memory.dies.count": 1,
    "cores.hop_time": 1,
    "host_speed": -1,
}
"""New numbers, and the way that a decode step's time goes with more of each."""


@pytest.mark.parametrize("path", LEAVES)
@pytest.mark.parametrize("name", ["derated", "learned-vllm"])
def test_each_number_of_such_machines_has_an_effect_of_the_right_sign_and_a_gradient(path, name):
    from jaxroof.numerics.tree import leaf_at, replaced

    parts = {
        "beside": {"lpddr": dataclasses.replace(LPDDR, latency=3e-7)},
        "near": Near(bandwidth=6e12, flops=300e12),
        "dies": Dies(bandwidth=1e12, count=2.0),
    }
    kind = path.split(".")[1] if path.startswith("memory.") else ""
    hardware = device(**({kind: parts[kind]} if kind else {}))
    hardware = dataclasses.replace(hardware, host_speed=1.0) if path == "host_speed" else hardware
    hardware = with_cores(hardware, hop_time=1e-9) if path == "cores.hop_time" else hardware
    dense, constants = model(DENSE), named(name)
    own = float(leaf_at(hardware, path))
    way = LEAVES[path]

    def of(factor):
        changed = replaced(hardware, path, own * factor)
        return step_time(changed, dense, Deployment(), decode(8.0, 1024.0), constants)

    with eager():
        ladder = [float(of(factor)) for factor in (0.02, 0.1, 0.5, 1.0, 2.0, 10.0, 50.0)]
    steps = np.diff(ladder)
    assert (steps >= -1e-12).all() if way > 0 else (steps <= 1e-12).all() if way < 0 else True
    assert way == 0 or abs(ladder[-1] / ladder[0] - 1.0) > 1e-4
    slope = float(jax.grad(lambda f: jnp.log(of(jnp.exp(f))))(0.0))
    assert math.isfinite(slope) and slope * way >= 0.0

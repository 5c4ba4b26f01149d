"""No efficiency is faster than the datasheet: every level and unit has an effect, in the right direction."""

import dataclasses

import numpy as np
import pytest

import hwspaces
import workloads
from jaxroof import Deployment, datasheet, decode, prefill, step_time
from jaxroof.numerics.arrays import eager
from jaxroof.op import Kernel
from jaxroof.roofline import op_time, op_timing
from jaxroof.step.forward import as_run, step_ops

LEAVES = (
    "memory.hbm.bandwidth",
    "memory.l2.bandwidth",
    "memory.l2.capacity",
    "memory.scratchpad.bandwidth",
    "memory.scratchpad.capacity",
    "memory.register_capacity",
    "cores.vector_flops",
    "cores.exp_rate",
    "matrix.bf16",
)

DEVICES = ("H100-SXM", "B200-SXM", "MI300X", "MI355X", "L4", "TPU-v6e", "Trainium2", "Gaudi3")

EFFICIENCIES = ("datasheet", "derated", "kernel", "learned")

STEPS = {"decode": decode(32.0, 4096.0), "prefill": prefill(1.0, 4096.0)}

FACTORS = (0.01, 0.1, 0.5, 2.0, 100.0)


def scaled(struct, path: str, factor: float):
    """The struct with one leaf times a factor; None where it has no such leaf."""
    name, _, rest = path.partition(".")
    value = struct.get(name) if isinstance(struct, dict) else getattr(struct, name)
    if value is None:
        return None
    inner = scaled(value, rest, factor) if rest else value * factor
    if inner is None:
        return None
    return {**struct, name: inner} if isinstance(struct, dict) else dataclasses.replace(struct, **{name: inner})


@pytest.mark.parametrize("efficiency", EFFICIENCIES)
def test_more_of_a_resource_is_never_slower_and_each_has_an_effect(efficiency):
    model, constants = workloads.model("Llama-3.1-8B").model, hwspaces.efficiency(efficiency).efficiency
    largest = dict.fromkeys(LEAVES, 0.0)
    for name in DEVICES:
        hardware = hwspaces.hardware(name).hardware
        for batch in STEPS.values():
            for leaf in LEAVES:
                designs = [scaled(hardware, leaf, factor) for factor in (*FACTORS[:3], 1.0, *FACTORS[3:])]
                if designs[0] is None:
                    continue
                with eager():
                    times = np.array([float(step_time(d, model, Deployment(), batch, constants)) for d in designs])
                assert np.all(np.diff(times) <= 1e-3 * times[1:]), (name, leaf, times)
                largest[leaf] = max(largest[leaf], times[0] / times[3])
    without = [leaf for leaf, ratio in largest.items() if ratio < 1.0005]
    assert without == [], largest


@pytest.mark.parametrize("efficiency", EFFICIENCIES[1:])
@pytest.mark.parametrize("leaf", ["memory.l2.bandwidth", "memory.scratchpad.bandwidth", "cores.vector_flops"])
def test_no_kernel_is_faster_than_its_levels_and_units(leaf, efficiency):
    """Of a starved device, whose kernels no model was fitted to; HBM may be spared what a cache still holds."""
    model, constants = workloads.model("Qwen3-30B-A3B").model, hwspaces.efficiency(efficiency).efficiency
    for name in DEVICES:
        hardware = scaled(hwspaces.hardware(name).hardware, leaf, 0.02)
        if hardware is None:
            continue
        for batch in STEPS.values():
            with eager():
                ops = step_ops(as_run(model, hardware), Deployment(), batch)
                for what, op in ops.items():
                    if not isinstance(op, Kernel):
                        continue
                    least = dict(op_timing(op, hardware, datasheet()).resources)
                    least.pop("hbm"), least.pop("launch")
                    time = float(op_time(op, hardware, constants))
                    assert time >= (1.0 - 1e-6) * max(map(float, least.values()), default=0.0), (name, what)


@pytest.mark.parametrize("efficiency", ["kernel", "learned"])
@pytest.mark.parametrize("name", ["H100-SXM", "MI300X", "L4"])
def test_a_tiny_scratchpad_costs_what_blocking_says(name, efficiency):
    """Where no tile fits, products take a few times what the best blocking of such a level moves, not thousands."""
    model, constants = workloads.model("Llama-3.1-8B").model, hwspaces.efficiency(efficiency).efficiency
    own = hwspaces.hardware(name).hardware
    starved = scaled(own, "memory.scratchpad.capacity", 0.05)
    with eager():
        bound, modelled = (
            float(step_time(starved, model, Deployment(), STEPS["prefill"], each))
            / float(step_time(own, model, Deployment(), STEPS["prefill"], each))
            for each in (datasheet(), constants)
        )
    assert 1.0 < bound < modelled * 1.05 and modelled < 5.0 * bound

"""Job of one run of a function: its time, work, power and memory, from ops that are functions of sizes."""

import dataclasses
import functools
from collections.abc import Collection, Iterator, Mapping
from typing import Protocol

from jaxroof.deployment.rule import Rule
from jaxroof.energy.energy import joules_of, power_known
from jaxroof.energy.governor import limited_time, mean_power
from jaxroof.hardware import OnChip
from jaxroof.jobs.economics import binding, clocks, step_joules
from jaxroof.jobs.job import Job, extrapolations
from jaxroof.jobs.scenario import Metric, Scenario, lower
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import maximum
from jaxroof.numerics.struct import Scalar, static, struct
from jaxroof.op import RESOURCES, Kernel, Ops
from jaxroof.roofline import op_extrapolation, op_time_by_bound
from jaxroof.step.step import (
    Lazy,
    Terms,
    evidence_known,
    evidence_of,
    matrix_floors,
    memory_floors,
    op_cost,
    op_flops,
    op_times,
)

METRICS = {
    "time": lower(
        "s",
        "time of one run of the function, kernel after kernel, under the limit of electrical power, or of the host "
        "that launches them",
    ),
    "flops": Metric("1", "FLOP of one run of the function, matrix and vector units together"),
    "moved_bytes": Metric("B", "bytes that the kernels of one run read and write"),
    "kernels": lower("1", "kernels that one run of the function launches"),
    "peak_bytes": lower("B", "memory that arrays of the function take at once at most, inputs and results included"),
    "fits_memory": Metric("1", "arrays of the function fit in device memory"),
    "run_extrapolation": lower(
        "1", "binary logarithm of the factor beyond the evidence, mean over the function's time"
    ),
    "energy": lower("J", "energy of one run of the function on one device, static power included"),
}
"""Metrics of a function beside those that it shares with a step."""


class FunctionKernels(Protocol):
    """What a function is for the cost model."""

    def ops(self, sizes: Mapping[str, Scalar], matrix: Collection[str], on_chip: OnChip | None) -> Ops:
        """Its ops where symbols have these values, on hardware with these matrix precisions and on-chip memory."""

    def peak_bytes(self, sizes: Mapping[str, Scalar]) -> Scalar:
        """B that its arrays take at once at most."""


@struct
class FunctionWork:
    """One run of a function."""

    sizes: dict[str, Scalar]  # of the symbols in the shapes of its arguments
    function: FunctionKernels = static()


@dataclasses.dataclass(frozen=True)
class FunctionJob(Job):
    """The job of a function: sums and tables over its own ops, on one device, without an engine's host."""

    def sums(self, scenario: Scenario) -> Lazy:
        """Terms whose totals the metrics are functions of, by name."""
        hardware, efficiency = scenario.hardware, scenario.efficiency
        # Ops are made once for all sums that are asked for.
        ops = functools.cache(lambda: function_ops(scenario))
        times = functools.cache(lambda: op_times(ops(), hardware, efficiency))
        terms: Lazy = {
            "run": times,
            "run_by_bound": lambda: {
                name: jnp.asarray(op.count)[..., None] * op_time_by_bound(op, hardware, efficiency)
                for name, op in ops().items()
            },
            "run_matrix_floor": lambda: matrix_floors(ops(), hardware),
            "run_memory_floor": lambda: memory_floors(ops(), hardware),
            "run_flops": lambda: {name: op.count * op_flops(op) for name, op in ops().items()},
            "run_bytes": lambda: {
                name: op.count * op.bytes
                for name, op in ops().items()
                if isinstance(op, Kernel) and op.bytes is not None
            },
            "run_kernels": lambda: {name: op.count * op.kernels for name, op in ops().items()},
        }
        if evidence_known(efficiency):
            terms["run_extrapolation"] = lambda: {
                name: times()[name] * op_extrapolation(op, hardware, efficiency)
                for name, op in ops().items()
                if evidence_of(op, efficiency)
            }
        if power_known(hardware):
            joules = functools.cache(lambda: joules_of(ops(), hardware))
            terms["run_core_energy"] = lambda: {"all": joules().core}
            terms["run_other_energy"] = lambda: {"all": joules().other}
        return terms

    def tables(self, scenario: Scenario) -> Lazy:
        """Costs of every op, by field."""
        hardware, efficiency = scenario.hardware, scenario.efficiency
        costs = functools.cache(
            lambda: {n: op_cost(op, hardware, efficiency) for n, op in function_ops(scenario).items()}
        )
        fields = ("time", "flops", "bytes", "bound", "algorithm", *(("energy",) if power_known(hardware) else ()))

        def column(field: str) -> Terms:
            return {name: getattr(cost, field) for name, cost in costs().items()}

        return {f"op_{field}": functools.partial(column, field) for field in fields}


def function_ops(scenario: Scenario) -> Ops:
    """The ops of a scenario's function on its hardware."""
    hardware, work = scenario.hardware, scenario.workload
    return work.function.ops(work.sizes, tuple(hardware.matrix), hardware.memory.on_chip)


def function_metrics(scenario: Scenario, sums: dict[str, Scalar], tables: dict[str, Terms]) -> dict[str, Scalar]:
    """Metrics of one run of a function, by name, from terms that are summed over its ops."""
    hardware, time, drawn = scenario.hardware, sums["run"], {}
    energy = step_joules(sums, "run")
    # The run is one step: its mean power is held at TDP.
    if energy is not None:
        limited, power = limited_time(time, energy, hardware), mean_power(time, energy, hardware)
        drawn = {
            "power": power,
            "slowdown": limited / time,
            **clocks(hardware, {"clock": time / limited}),
            "energy": power * limited,
        }
        time = limited
    bound, host = binding(sums, "run", time), scenario.efficiency.host.kernel_time
    if host is not None:  # it launches kernel after kernel, ahead of the device where that is slower
        # An asynchronous launch queue: the host runs ahead where kernels are long, and the device waits where they are
        # short.
        launching = host * sums["run_kernels"]
        bound = jnp.where(launching > time, jnp.int8(RESOURCES.index("launch")), bound)
        time = maximum(time, launching)
    peak = scenario.workload.function.peak_bytes(scenario.workload.sizes)
    return {
        "time": time,
        **extrapolations(sums, "run"),
        **drawn,
        "mfu": sums["run_matrix_floor"] / time,
        "mbu": sums["run_memory_floor"] / time,
        "flops": sums["run_flops"],
        "moved_bytes": sums["run_bytes"],
        "kernels": sums["run_kernels"],
        "peak_bytes": peak,
        "fits_memory": peak <= hardware.memory.hbm.capacity,
        "bound": bound,
    }


def _no_rules(scenario: Scenario) -> Iterator[Rule]:
    return iter(())


FUNCTION = FunctionJob("function", FunctionWork, function_metrics, rules=_no_rules)
"""The answer to one run of a function; in no specification's list of jobs, for it needs code."""

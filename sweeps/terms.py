"""What is known of every op of one step of a scenario: terms of sums and tables, computed where they are used."""

import functools

from jaxroof.batch import Batch
from jaxroof.energy import energies_of, power_known
from jaxroof.overlap import overlapped_ops
from jaxroof.step import (
    Lazy,
    deviations_of,
    extrapolated_times,
    matrix_floors,
    memory_floors,
    step_cost,
    tables_known,
    times_by_bound,
    times_of,
)
from sweeps.job import Scenario


def _setting(scenario: Scenario, batch: Batch) -> tuple:
    return scenario.hardware, scenario.model, scenario.deployment, batch, scenario.efficiency


def op_tables(prefix: str, scenario: Scenario, batch: Batch) -> Lazy:
    """What every op of one step costs, by field; names begin with `prefix`."""
    costs = functools.cache(lambda: step_cost(*_setting(scenario, batch)))
    fields = ("time", "flops", "bytes", "bound", "algorithm", *(("energy",) if power_known(scenario.hardware) else ()))
    return {
        f"{prefix}op_{field}": lambda field=field: {name: getattr(cost, field) for name, cost in costs().items()}
        for field in fields
    }


def step_terms(prefix: str, scenario: Scenario, batch: Batch) -> Lazy:
    """What is added up over the ops of one step: time, time by what binds it, and floors of matrix and memory time."""
    hardware, deployment, efficiency = scenario.hardware, scenario.deployment, scenario.efficiency
    ops = functools.cache(lambda: overlapped_ops(scenario.model, deployment, batch))
    beyond = {}
    if tables_known(efficiency):
        beyond[f"{prefix}_extrapolated"] = lambda: extrapolated_times(ops(), hardware, deployment, efficiency)
    if power_known(hardware):
        # Cheap to compute and of few axes: one term, so that a grid adds one number per point and not one per kind.
        beyond[f"{prefix}_energy"] = lambda: {"all": sum(energies_of(ops(), hardware).values())}
    return beyond | {
        prefix: lambda: times_of(ops(), hardware, deployment, batch, efficiency),
        f"{prefix}_by_bound": lambda: times_by_bound(ops(), hardware, deployment, batch, efficiency),
        f"{prefix}_matrix_floor": lambda: matrix_floors(ops(), hardware),
        f"{prefix}_memory_floor": lambda: memory_floors(ops(), hardware),
        f"{prefix}_deviation": lambda: deviations_of(ops(), hardware, deployment, efficiency),
        f"{prefix}_variance": lambda: {
            name: deviation * deviation
            for name, deviation in deviations_of(ops(), hardware, deployment, efficiency).items()
        },
    }

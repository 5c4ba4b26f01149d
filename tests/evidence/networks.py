"""Whole networks against published silicon: `python -m tests.evidence.networks`."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

import hwspaces
import workloads.networks
from jaxroof.arrays import eager
from jaxroof.efficiency import Efficiency
from jaxroof.hardware import Hardware
from jaxroof.jobs.function import FunctionWork
from jaxroof.jobs.scenario import Scenario
from sweeps.studies.functions.question import answered
from tests.evidence.network_bench import Bench
from tests.evidence.network_rows import ENGINES, Row
from workloads.networks import Network, training_step
from workloads.traced.function import Traced, traced

DTYPES = {"fp32": "float32", "tf32": "float32", "fp16": "float16", "int8": "int8"}
"""Precision of a row -> type of the network's products."""


TRAINED = "framework"
"""Fusion policy of training: libraries have a kernel each for a norm's sums, its result and its gradient."""


@functools.cache
def traced_network(network: str, precision: str, batch: int, policy: str, training: bool, size: int | None) -> Traced:
    """A network at one batch, traced once."""
    found: Network = dataclasses.replace(getattr(workloads.networks, network), dtype=DTYPES[precision])
    found = found if size is None else dataclasses.replace(found, size=size)
    more: dict[str, Any] = {"policy": policy, "float32": "tf32" if precision == "tf32" else "fp32", "name": network}
    weights = dataclasses.replace(found, dtype="float32").weights()  # mixed precision converts them in every pass
    if not training:
        weights = weights if policy == "operators" else found.weights()
        return traced(found, weights, found.input(batch), **more)
    classes = jax.ShapeDtypeStruct((batch,), jnp.int32)
    step = functools.partial(training_step, found)
    return traced(step, weights, weights, found.input(batch), classes, **more)


def hardware_of(row: Row) -> Hardware:
    """The device of a row, with as many cores at the clock that it ran with."""
    hardware = hwspaces.hardware(row.device).hardware
    cores = hardware.cores
    count = cores.count if row.cores is None else float(row.cores)
    clock = cores.clock if row.clock is None else row.clock
    faster, share = clock / cores.clock, count / cores.count
    return dataclasses.replace(
        hardware,
        matrix={name: peak * faster * share for name, peak in hardware.matrix.items()},
        cores=dataclasses.replace(cores, count=count, clock=clock, vector_flops=cores.vector_flops * faster),
    )


def network_of(row: Row) -> Traced:
    """The traced network of a row."""
    policy = ENGINES[row.engine][0]
    return traced_network(row.network, row.precision, row.batch, policy, row.training, row.size)


def predicted(row: Row, efficiency: Efficiency | None = None) -> float:
    """Time of a row in s; by its engine's constants where none are given."""
    constants = hwspaces.efficiency(ENGINES[row.engine][1]).efficiency if efficiency is None else efficiency
    work = FunctionWork(sizes={}, function=network_of(row))
    with eager():
        scenario = Scenario(
            hardware=hardware_of(row), model=None, deployment=None, workload=work, efficiency=constants  # type: ignore[arg-type]
        )  # fmt: skip
    return float(answered(scenario).metrics["time"])


def bench_of(chosen: Sequence[Row]) -> Bench:
    """Rows with their kernels on their devices."""

    def ops(row: Row) -> Any:
        hardware = hardware_of(row)
        return network_of(row).ops({}, tuple(hardware.matrix), hardware.memory.on_chip)

    return Bench(chosen, ops, hardware_of)

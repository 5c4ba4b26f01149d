"""The answer to one case as plain numbers: its metrics, and what every op of its steps costs."""

import dataclasses
import math
from typing import Any

import jax

from jaxroof.batch import Batch
from jaxroof.forward import step_ops
from jaxroof.op import BOUNDS
from jaxroof.request import Requests, decode_batch, prefill_batch
from jaxroof.step import HOST, step_cost
from sweeps.api import precision
from sweeps.cases import Case
from sweeps.dataset import variable
from sweeps.jobs import JOBS, Scenario, step_batch


@dataclasses.dataclass(frozen=True)
class OpAnswer:
    """What one op costs over all its runs in one step, on one device."""

    name: str
    count: float  # runs per step: layers
    precision: str | None  # of its matrix products
    time: float  # s
    flops: float  # FLOP, matrix and vector
    bytes: float  # B, each operand once
    message_bytes: float  # B, buffers of collectives
    bound: str  # one of `jaxroof.op.BOUNDS`

    @property
    def intensity(self) -> float | None:
        """FLOP per B; None for an op that moves nothing through memory."""
        return self.flops / self.bytes if self.bytes > 0 else None


@dataclasses.dataclass(frozen=True)
class Answer:
    """Metrics by name, bounds as text; and the ops that run, in order, of each step: `step`, or `prefill`, `decode`."""

    metrics: dict[str, float | bool | str]
    steps: dict[str, tuple[OpAnswer, ...]]

    def bound_shares(self, step: str) -> dict[str, float]:
        """Share of a step's time that every resource binds, largest first; resources that bind nothing are left out."""
        total = sum(op.time for op in self.steps[step])
        shares = {bound: sum(op.time for op in self.steps[step] if op.bound == bound) / total for bound in BOUNDS}
        return {bound: share for bound, share in sorted(shares.items(), key=lambda item: -item[1]) if share > 0}


def answer(case: Case) -> Answer:
    """Evaluate one case in float64, in one compiled call. The same job as a sweep's, so that both agree."""
    order: dict[str, Any] = {}

    def evaluated(scenario: Scenario) -> tuple[list, list]:
        job = next(job for job in JOBS.values() if isinstance(scenario.workload, job.workload))
        sums = {name: sum(terms().values()) for name, terms in job.sums(scenario).items()}
        metrics = job.metrics(scenario, sums, {name: terms() for name, terms in job.tables(scenario).items()})
        place = scenario.hardware, scenario.model, scenario.deployment
        tables, order["metrics"], order["steps"] = [], tuple(metrics), {}  # JAX keeps the order of lists, not of keys
        for step, batch in step_batches(scenario).items():
            ops = step_ops(*place[1:], batch)
            costs = step_cost(*place, batch, scenario.efficiency)
            order["steps"][step] = tuple((name, ops[name].precision if name in ops else None) for name in costs)
            tables.append([(1.0 if name == HOST else ops[name].count, cost) for name, cost in costs.items()])
        return list(metrics.values()), tables

    with precision("float64"):
        metrics, tables = jax.device_get(jax.jit(evaluated)(case.scenario))
    steps = {
        step: tuple(_op(name, kind, count, cost) for (name, kind), (count, cost) in zip(names, table, strict=True))
        for (step, names), table in zip(order["steps"].items(), tables, strict=True)
    }
    return Answer(
        metrics={name: _plain(name, value) for name, value in zip(order["metrics"], metrics, strict=True)},
        steps={step: tuple(op for op in ops if op.time > 0) for step, ops in steps.items()},
    )


def step_batches(scenario: Scenario) -> dict[str, Batch]:
    """The engine steps that a scenario is made of, by name."""
    work = scenario.workload
    if isinstance(work, Requests):
        return {"prefill": prefill_batch(work), "decode": decode_batch(work)}
    return {"step": step_batch(work)}


def _op(name: str, kind: str | None, count: Any, cost: Any) -> OpAnswer:
    return OpAnswer(
        name=name,
        count=float(count),
        precision=kind,
        time=float(cost.time),
        flops=float(cost.flops),
        bytes=float(cost.bytes),
        message_bytes=float(cost.message_bytes),
        bound=BOUNDS[int(cost.bound)],
    )


def _plain(name: str, value: Any) -> float | bool | str:
    flags = variable(name).flags
    if flags:
        return flags[int(value)]
    if value.dtype == bool:
        return bool(value)
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{name} is {number}: the case is outside of what the model can price")
    return number

"""The answer to one case as plain numbers: its metrics, and the cost of every op of its steps."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

from jaxroof.collectives import ALGORITHMS
from jaxroof.forward import step_ops
from jaxroof.jobs import Job, Scenario, job_of
from jaxroof.jobs.job import table_prefix
from jaxroof.op import BOUNDS, AnyOp, Collective, Kernel
from jaxroof.overlap import HIDDEN
from jaxroof.tree import structure
from sweeps.ask.cases import Case
from sweeps.ask.names import variable
from sweeps.run.evaluate import at_base


@dataclasses.dataclass(frozen=True)
class OpAnswer:
    """Cost of one op over all its runs in one step, on one device."""

    name: str
    count: float  # runs per step: layers
    precision: str | None  # of its matrix products
    time: float  # s
    flops: float  # FLOP, matrix and vector
    bytes: float  # B, each operand once
    message_bytes: float  # B, buffers of collectives
    bound: str  # one of `jaxroof.op.BOUNDS`
    algorithm: str | None  # of a collective, the one that was chosen
    energy: float | None = None  # J beside static power; None where the hardware's is unknown
    layer: str = ""  # that it is of, which its name begins with; "" where a model has one block

    @property
    def plain_name(self) -> str:
        """Its name inside its layer."""
        return self.name[len(self.layer) :]

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
        """Share of the ops' time that every resource binds, largest first; resources that bind nothing are left out."""
        ops = [op for op in self.steps[step] if op.name != HIDDEN]
        total = sum(op.time for op in ops)
        shares = {bound: sum(op.time for op in ops if op.bound == bound) / total for bound in BOUNDS}
        return {bound: share for bound, share in sorted(shares.items(), key=lambda item: -item[1]) if share > 0}


def answer(case: Case) -> Answer:
    """Evaluate one case in float64, on NumPy. The same job as a sweep's, so that both agree."""
    function, orders = _described(job_of(case.scenario))
    metrics, steps = at_base(function, case.scenario)
    metric_names, op_names = orders[structure(case.scenario)]
    found = {
        step: tuple(_op(name, *row) for name, row in zip(names, rows, strict=True))
        for (step, names), rows in zip(op_names.items(), steps, strict=True)
    }
    return Answer(
        metrics={name: _plain(name, value) for name, value in zip(metric_names, metrics, strict=True)},
        steps={step: tuple(op for op in ops if op.time != 0) for step, ops in found.items()},
    )


@functools.cache
def _described(job: Job) -> tuple[Callable[[Scenario], tuple[list, list]], dict[Any, tuple]]:
    """A function of a scenario to its metrics and to the ops of its steps; and the names of both, by structure.

    JAX keeps the order of lists, not of keys: names are left where the function is traced.
    """
    orders: dict[Any, tuple] = {}

    def described(scenario: Scenario) -> tuple[list, list]:
        sums = {name: sum(terms().values()) for name, terms in job.sums(scenario).items()}
        tables = {name: terms() for name, terms in job.tables(scenario).items()}
        metrics = job.metrics(scenario, sums, tables)
        steps = {}
        places = job.steps(scenario)
        for step, (place, batch) in places.items():
            ops = step_ops(place.model, place.deployment, batch)
            prefix = table_prefix(step, places)
            fields = ("time", "flops", "bytes", "bound", "algorithm", "energy")
            columns = [tables[f"{prefix}op_{field}"] for field in fields if f"{prefix}op_{field}" in tables]
            steps[step] = {name: (ops.get(name), *(column[name] for column in columns)) for name in columns[0]}
        names = tuple(metrics), {step: tuple(rows) for step, rows in steps.items()}
        orders[structure(scenario)] = names
        return list(metrics.values()), [list(rows.values()) for rows in steps.values()]

    return described, orders


def _op(
    name: str, op: AnyOp | None, time: Any, flops: Any, moved: Any, bound: Any, algorithm: Any, energy: Any = None
) -> OpAnswer:
    """One op as plain numbers; the host is none of the model's ops and runs once."""
    count = 1.0 if op is None else float(op.count)
    return OpAnswer(
        name=name,
        count=count,
        precision=op.precision if isinstance(op, Kernel) else None,
        time=float(time),
        flops=float(flops),
        bytes=float(moved),
        message_bytes=0.0 if op is None or isinstance(op, Kernel) else count * float(op.message_bytes),
        bound=BOUNDS[int(bound)],
        algorithm=ALGORITHMS[int(algorithm)] if isinstance(op, Collective) else None,
        energy=None if energy is None else float(energy),
        layer="" if op is None else op.layer,
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

"""The answer to one case as plain numbers: its metrics, and the cost of every op of its steps."""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

from jaxroof.collectives import ALGORITHMS
from jaxroof.energy.energy import power_known
from jaxroof.hardware import Hardware
from jaxroof.jobs import Job, Scenario, job_of
from jaxroof.jobs.job import table_prefix
from jaxroof.numerics.struct import given
from jaxroof.numerics.tree import structure
from jaxroof.op import BOUNDS, RESOURCES, AnyOp, Collective, Kernel
from jaxroof.step.forward import as_run, step_ops
from jaxroof.step.overlap import HIDDEN
from jaxroof.step.step import HOST
from jaxroof.tracing import remembering
from sweeps.ask.cases import Case
from sweeps.ask.names import variable
from sweeps.ask.offered_load import without_output
from sweeps.run.evaluate import at_base


@dataclasses.dataclass(frozen=True)
class OpAnswer:
    """Cost of one op over all its runs in one step, on one device at full clock."""

    name: str
    count: float  # runs per step: layers
    precision: str | None  # of its matrix products
    time: float  # s
    flops: float  # FLOP, matrix and vector
    bytes: float  # B, each operand once
    message_bytes: float  # B, buffers of collectives
    bound: str  # one of `jaxroof.op.BOUNDS`: power where a step is slowed for what this op and others draw
    algorithm: str | None  # of a collective, the one that was chosen
    energy: float | None = None  # J beside static power; None where the hardware's is unknown
    power: float | None = None  # W that the device draws while it runs, static power included
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
        """`bound_shares` of a step's ops."""
        return bound_shares(self.steps[step])


def bound_shares(ops: Iterable[OpAnswer]) -> dict[str, float]:
    """Share of the ops' time that every resource binds, largest first; resources that bind nothing are left out."""
    # The time that overlap saves is a negative entry among the ops: nothing binds it.
    ops = [op for op in ops if op.name != HIDDEN]
    total = sum(op.time for op in ops)
    shares = {bound: sum(op.time for op in ops if op.bound == bound) / total for bound in BOUNDS}
    return {bound: share for bound, share in sorted(shares.items(), key=lambda item: -item[1]) if share > 0}


def answer(case: Case) -> Answer:
    """Evaluate one case in float64, on NumPy. The same job as a sweep's, so that both agree."""
    return answer_of(case.scenario)


def request_answer(case: Case) -> Answer:
    """The same of a static batch, in whose answer no decode step is where there is none."""
    found, work = answer(case), case.scenario.workload
    if work.osl > 1.0:
        return found
    # With at most one output token metrics are of requests and of prompt tokens.
    metrics = without_output(found.metrics, float(work.isl))
    return Answer(metrics, {"prefill": found.steps["prefill"]})


def answer_of(scenario: Scenario) -> Answer:
    """Evaluate one scenario as `answer` does."""
    job = job_of(scenario)
    # One traced function serves every scenario of a structure; its names were stored while it was traced.
    function, orders = _described(job)
    with remembering():
        values, steps = at_base(function, scenario)
    metric_names, op_names = orders[structure(scenario)]
    metrics = {name: _plain(name, value) for name, value in zip(metric_names, values, strict=True)}
    answers_by_step = {}
    for (step, names), rows, (place, _) in zip(op_names.items(), steps, job.steps(scenario).values(), strict=True):
        ops = (op_answer(name, *row) for name, row in zip(names, rows, strict=True))
        # Above 1, the clock was lowered in this step so that its mean power stays at TDP.
        slowed = float(metrics.get("slowdown" if step == "step" else f"{step}_slowdown", 1.0)) > 1.0
        answers_by_step[step] = tuple(_drawing(op, place.hardware, slowed) for op in ops if op.time != 0)
    return Answer(metrics, answers_by_step)


def _drawing(op: OpAnswer, hardware: Hardware, slowed: bool) -> OpAnswer:
    """The op with the power that it draws, which binds it where that is above TDP in a step that is slowed for it."""
    # Neither the host's time nor the time that overlap saves is work of the device, so that no power belongs to it.
    if op.energy is None or op.name in (HOST, HIDDEN) or not power_known(hardware):
        return op
    static, tdp = given(hardware.power.static, "static power"), given(hardware.power.tdp, "TDP")
    # W: dynamic energy over the op's time, plus the power that the device draws anyway.
    power = op.energy / op.time + float(static)
    return dataclasses.replace(op, power=power, bound="power" if slowed and power > tdp else op.bound)


@functools.cache
def _described(job: Job) -> tuple[Callable[[Scenario], tuple[list[Any], list[Any]]], dict[Any, tuple[Any, ...]]]:
    """A function of a scenario to its metrics and to the ops of its steps; and the names of both, by structure.

    JAX keeps the order of lists, not of keys: names are left where the function is traced.
    """
    orders: dict[Any, tuple[Any, ...]] = {}

    # Sums and tables are lazy terms: each is computed once here and handed to the metrics.
    def described(scenario: Scenario) -> tuple[list[Any], list[Any]]:
        sums = {name: sum(terms().values()) for name, terms in job.sums(scenario).items()}
        tables = {name: terms() for name, terms in job.tables(scenario).items()}
        metrics = job.metrics(scenario, sums, tables)
        steps = {}
        places = job.steps(scenario)
        for step, (place, batch) in places.items():
            # The ops are those of the model as it runs on this hardware, so that their names match the tables' keys.
            ops = step_ops(as_run(place.model, place.hardware), place.deployment, batch)
            prefix = table_prefix(step, places)
            fields = ("time", "flops", "bytes", "bound", "algorithm", "energy")
            # Energy has a table only where the hardware's energies are known.
            columns = [tables[f"{prefix}op_{field}"] for field in fields if f"{prefix}op_{field}" in tables]
            steps[step] = {name: (ops.get(name), *(column[name] for column in columns)) for name in columns[0]}
        names = tuple(metrics), {step: tuple(rows) for step, rows in steps.items()}
        # This runs while the function is traced: names cannot be part of a result that JAX transforms.
        orders[structure(scenario)] = names
        return list(metrics.values()), [list(rows.values()) for rows in steps.values()]

    return described, orders


def op_answer(
    name: str, op: AnyOp | None, time: Any, flops: Any, moved: Any, bound: Any, algorithm: Any, energy: Any = None
) -> OpAnswer:
    """One op as plain numbers; the host is none of the model's ops and runs once."""
    # The host is listed beside the ops without being one: it has no count and no message.
    count = 1.0 if op is None else float(op.count)
    return OpAnswer(
        name=name,
        count=count,
        precision=op.precision if isinstance(op, Kernel) else None,
        time=float(time),
        flops=float(flops),
        bytes=float(moved),
        message_bytes=0.0 if op is None or isinstance(op, Kernel) else count * float(op.message_bytes),
        bound=RESOURCES[int(bound)],
        algorithm=ALGORITHMS[int(algorithm)] if isinstance(op, Collective) else None,
        energy=None if energy is None else float(energy),
        layer="" if op is None else op.layer,
    )


def _plain(name: str, value: Any) -> float | bool | str:
    # A metric such as a bound is stored as a code, the position of its text in the flags.
    flags = variable(name).flags
    if flags:
        return flags[int(value)]
    if value.dtype == bool:
        return bool(value)
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{name} is {number}: the case is outside of what the model can price")
    return number

"""A question that can be asked at a point: its workload, engine steps, sums over ops, metrics and rules."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from jaxroof.batch import Batch
from jaxroof.collectives import ALGORITHMS
from jaxroof.deployment.rule import Rule
from jaxroof.efficiency import Efficiency
from jaxroof.energy.energy import joules_of, power_known
from jaxroof.jobs.scenario import Metric, Scenario, lower
from jaxroof.memory.legality import holds, rules
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.struct import Scalar
from jaxroof.op import RESOURCES
from jaxroof.step.placed import device_ops
from jaxroof.step.step import (
    Lazy,
    Terms,
    beyond_of,
    deviations_of,
    evidence_known,
    extrapolated_times,
    least_times,
    matrix_floors,
    memory_floors,
    spread_known,
    step_cost,
    times_by_bound,
    times_of,
)

Steps = dict[str, tuple[Scenario, Batch]]
"""Engine steps by name, each with the scenario of the devices that it runs on."""


METRICS = {
    "op_time": lower("s", "time of an op over all its runs in the step"),
    "op_flops": Metric("1", "FLOP of an op over all its runs in the step, per device"),
    "op_bytes": Metric("B", "bytes of an op over all its runs in the step, each operand once, per device"),
    "op_energy": Metric("J", "energy of an op over all its runs in the step, per device, beside static power"),
    "op_bound": Metric("1", "resource that binds an op at full clock", RESOURCES),
    "op_algorithm": Metric("1", "how a collective runs; -1 for other ops", ALGORITHMS),
    **{
        f"{name}_spread": lower("1", f"standard deviation of the logarithm of {name}, its kernels' errors combined")
        for name in ("ttft", "tpot", "e2e", "step_time")
    },
    **{
        f"{name}_least": lower("s", f"least {name} that the datasheet's rates allow")
        for name in ("ttft", "tpot", "e2e", "step_time")
    },
    **{
        f"{step}_extrapolation": lower(
            "1", f"binary logarithm of the factor beyond the evidence, mean over {words} time"
        )
        for step, words in (("step", "the step's"), ("prefill", "the prefill's"), ("decode", "the decode step's"))
    },
}
"""What every op costs, how certain times are, and how far they are beyond what constants were fitted to."""


def op_tables(prefix: str, scenario: Scenario, batch: Batch) -> Lazy:
    """Costs of every op of one step, by field; names begin with `prefix`."""
    place = scenario.hardware, scenario.model, scenario.deployment
    costs = functools.cache(lambda: step_cost(*place, batch, scenario.efficiency))
    fields = ("time", "flops", "bytes", "bound", "algorithm", *(("energy",) if power_known(scenario.hardware) else ()))

    def column(field: str) -> Terms:
        return {name: getattr(cost, field) for name, cost in costs().items()}

    return {f"{prefix}op_{field}": functools.partial(column, field) for field in fields}


def step_terms(prefix: str, scenario: Scenario, batch: Batch) -> Lazy:
    """Terms that are summed over the ops of one step: time, time by bound, and floors of matrix and memory time."""
    hardware, deployment, efficiency = scenario.hardware, scenario.deployment, scenario.efficiency
    # Shared by all terms of a step, and made only when one of them is asked for.
    ops = functools.cache(lambda: device_ops(hardware, scenario.model, deployment, batch))
    times = functools.cache(lambda: times_of(ops(), hardware, deployment, batch, efficiency))
    deviations = functools.cache(lambda: deviations_of(ops(), hardware, deployment, efficiency))
    beyond = {}
    if evidence_known(efficiency):
        beyond[f"{prefix}_extrapolation"] = lambda: extrapolated_times(ops(), times(), hardware, deployment, efficiency)
    if power_known(hardware):
        # Cheap to compute and of few axes: one term, so that a grid adds one number per point and not one per kind.
        joules = functools.cache(lambda: joules_of(ops(), hardware))
        beyond[f"{prefix}_core_energy"] = lambda: {"all": joules().core}
        beyond[f"{prefix}_other_energy"] = lambda: {"all": joules().other}
    return beyond | {
        prefix: times,
        f"{prefix}_by_bound": lambda: times_by_bound(ops(), hardware, deployment, batch, efficiency),
        f"{prefix}_matrix_floor": lambda: matrix_floors(ops(), hardware),
        f"{prefix}_memory_floor": lambda: memory_floors(ops(), hardware),
        f"{prefix}_deviation": deviations,
        f"{prefix}_variance": lambda: {name: deviation * deviation for name, deviation in deviations().items()},
        f"{prefix}_beyond": lambda: beyond_of(ops(), hardware, deployment, efficiency),
        f"{prefix}_least": lambda: least_times(ops(), hardware, deployment),
    }


def extrapolations(sums: dict[str, Scalar], *steps: str) -> dict[str, Scalar]:
    """Octaves beyond the evidence, means over the time of steps; nothing where no evidence is known."""
    names = [f"{step}_extrapolation" for step in steps]
    # A step without time has no mean; 1 in its place keeps the quotient finite.
    times = [jnp.where(sums[step] > 0.0, sums[step], 1.0) for step in steps]
    return {name: sums[name] / time for name, time in zip(names, times, strict=True) if name in sums}


CORRELATION = 0.5
"""Correlation between the errors of two ops of a step on devices that were measured: they share the device, its clock
and the engine's release.

Source: ours, `python -m tests.evidence.intervals`: TPOT of served models. Intervals of 90 % hold 91 % of it, and 87 to
96 % by constants that lack the device's architecture; with 0.3 they hold 88 and 85 to 93."""


class Part(NamedTuple):
    """Steps of one kind that a time consists of: how often they run, and sums over the ops of one."""

    runs: Scalar
    deviation: Scalar  # s, sum of standard deviations
    variance: Scalar  # s^2, sum of their squares
    beyond: Scalar  # s, sum of those outside of the evidence
    least: Scalar  # s by the datasheet's rates

    @classmethod
    def of(cls, runs: Scalar, sums: dict[str, Scalar], step: str) -> "Part":
        """`runs` steps by their sums."""
        # Op by op, and of the whole step, whose bytes include those of small kernels.
        floors = (sums[f"{step}_{name}"] for name in ("least", "matrix_floor", "memory_floor"))
        least = functools.reduce(jnp.maximum, map(jnp.asarray, floors))
        deviation, variance, beyond = (sums[f"{step}_{name}"] for name in ("deviation", "variance", "beyond"))
        return cls(runs, deviation, variance, beyond, least)


def spreads(name: str, time: Scalar, parts: tuple[Part, ...], efficiency: Efficiency) -> dict[str, Scalar]:
    """Standard deviation of the logarithm of `time`, and the least that it can be in s.

    deviation^2 = CORRELATION (sum of deviations)^2 + (1 - CORRELATION) sum of variances + (sum of those beyond)^2

    All runs of one op err alike, and so do all ops in what they lose on a device that is outside of the evidence.
    Nothing where the efficiency does not know its errors.
    """
    if not spread_known(efficiency):
        return {}
    # Fully correlated errors add; independent ones add as squares.
    alike = sum(part.runs * part.deviation for part in parts)
    squares = sum(part.runs * part.runs * part.variance for part in parts)
    beyond = sum(part.runs * part.beyond for part in parts)
    square = CORRELATION * alike * alike + (1.0 - CORRELATION) * squares + beyond * beyond
    least = sum(part.runs * part.least for part in parts)
    # Double `where`: nothing may run that errs, and the slope of a root is infinite at 0.
    some = square > 0.0
    deviation = jnp.where(some, jnp.sqrt(jnp.where(some, square, 1.0)), 0.0)
    return {f"{name}_spread": deviation / time, f"{name}_least": jnp.asarray(least)}


def deployment_rules(scenario: Scenario) -> Iterator[Rule]:
    """Rules of the scenario's own deployment on its own hardware."""
    return rules(scenario.hardware, scenario.model, scenario.deployment)


@dataclasses.dataclass(frozen=True)
class Job:
    """A question: what is known of every op, and metrics that are functions of it and of the scenario.

    Sums and tables are kept apart from metrics because their terms depend on few axes each: the engine
    evaluates every term over its own axes only. Of a sum it keeps nothing but the total; a table is kept op
    by op, and is a variable of the dataset when the breakdown is asked for.
    """

    name: str
    workload: type  # of `Scenario.workload`
    metrics: Callable[[Scenario, dict[str, Scalar], dict[str, Terms]], Mapping[str, Scalar]]  # or computed when asked
    steps: Callable[[Scenario], Steps] = lambda scenario: {}  # engine steps that the metrics are composed of
    others: Callable[[Scenario], Lazy] = lambda scenario: {}  # sums over ops that are of no engine step
    rules: Callable[[Scenario], Iterator[Rule]] = deployment_rules  # what a scenario has to keep to be possible
    simulated: bool = False  # whether the metrics are of a simulation's outcome, in place of sums over ops

    def sums(self, scenario: Scenario) -> Lazy:
        """Terms whose totals the metrics are functions of, by name."""
        terms = dict(self.others(scenario))
        for name, (place, batch) in self.steps(scenario).items():
            terms |= step_terms(name, place, batch)
        return terms

    def tables(self, scenario: Scenario) -> Lazy:
        """Costs of every op of every engine step, by field."""
        steps = self.steps(scenario)
        costs: Lazy = {}
        for name, (place, batch) in steps.items():
            costs |= op_tables(table_prefix(name, steps), place, batch)
        return costs


def table_prefix(step: str, steps: Steps) -> str:
    """Prefix of the names of one engine step's tables: none where it is the only step."""
    return "" if len(steps) == 1 else f"{step}_"


def some_terms(job: Job, scenario: Scenario) -> tuple[dict[str, Scalar], dict[str, Terms]]:
    """Any numbers in place of the sums and tables of `job`: enough to learn which metrics it has, and of what."""
    return dict.fromkeys(job.sums(scenario), 1.0), {name: {"some op": 1.0} for name in job.tables(scenario)}


@functools.cache
def legality(job: Job) -> Job:
    """Only whether a scenario of `job` is possible: what is asked before anything is computed."""
    return Job(
        # Rules alone: a search asks them of many layouts before it prices any.
        f"{job.name} legality",
        job.workload,
        metrics=lambda scenario, sums, tables: {"legal": jnp.asarray(holds(job.rules(scenario)))},
    )

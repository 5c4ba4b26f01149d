"""A question that can be asked at a point: its workload, engine steps, sums over ops, metrics and rules."""

import dataclasses
import functools
from collections.abc import Callable, Iterator

from jaxroof.arrays import jnp
from jaxroof.jobs.scenario import Scenario
from jaxroof.jobs.terms import Steps, op_tables, step_terms
from jaxroof.legality import holds, rules
from jaxroof.rule import Rule
from jaxroof.step import Lazy, Terms
from jaxroof.struct import Scalar


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
    metrics: Callable[[Scenario, dict[str, Scalar], dict[str, Terms]], dict[str, Scalar]]
    steps: Callable[[Scenario], Steps] = lambda scenario: {}  # engine steps that the metrics are composed of
    others: Callable[[Scenario], Lazy] = lambda scenario: {}  # sums over ops that are of no engine step
    rules: Callable[[Scenario], Iterator[Rule]] = deployment_rules  # what a scenario has to keep to be possible
    simulated: bool = False  # whether the metrics are of a simulation's outcome, in place of sums over ops

    def sums(self, scenario: Scenario) -> Lazy:
        """Terms whose totals the metrics are functions of, by name."""
        found = dict(self.others(scenario))
        for name, (place, batch) in self.steps(scenario).items():
            found |= step_terms(name, place, batch)
        return found

    def tables(self, scenario: Scenario) -> Lazy:
        """Costs of every op of every engine step, by field."""
        steps = self.steps(scenario)
        found: Lazy = {}
        for name, (place, batch) in steps.items():
            found |= op_tables(table_prefix(name, steps), place, batch)
        return found


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
        f"{job.name} legality",
        job.workload,
        metrics=lambda scenario, sums, tables: {"legal": jnp.asarray(holds(job.rules(scenario)))},
    )

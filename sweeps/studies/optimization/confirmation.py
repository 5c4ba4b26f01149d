"""One simulation of every served stream at an optimum, beside the closed form that was optimised."""

import dataclasses
from collections.abc import Mapping

import jax
import numpy as np

from jaxroof.jobs.serve import Objective, Service
from sweeps.run.precision import precision
from sweeps.run.simulated.grid import outcomes
from sweeps.studies.optimization.problem import Member, Problem

ALWAYS = ("ttft_mean", "ttft_p95", "tpot_mean", "tpot_p95", "power")
"""Figures that are compared whatever the goals are."""

LARGEST = ("capacity", "rate_use", "limit_ratio")
"""Figures of the closed form that one simulation does not give."""


@dataclasses.dataclass(frozen=True)
class Confirmation:
    """One served stream at a design: figures in closed form and of one simulation, by metric."""

    member: str
    rate: float  # requests/s that are sent to all replicas
    requests: int  # of the replica that was simulated
    closed: Mapping[str, float]
    simulated: Mapping[str, float]


def confirmations(problem: Problem, design: np.ndarray) -> tuple[Confirmation, ...]:
    """Every served stream at a design, shape [d], simulated once; none of a problem without streams."""
    return tuple(_confirmed(problem, member, design[member.columns]) for member in problem.flat if member.stream)


def _confirmed(problem: Problem, member: Member, design: np.ndarray) -> Confirmation:
    closed = {name: float(values[0]) for name, values in member.evaluator.metrics(design[np.newaxis]).items()}
    scenario = member.evaluator.scenario(design)
    work, replicas = scenario.workload, int(scenario.deployment.dp)
    rate = closed["requests_per_second"]
    requests = member.stream.requests
    number = requests.number(replicas * closed["batch_mean"])
    drawn = requests.drawn(number)
    one = drawn.replica(replicas).traffic
    one = dataclasses.replace(one, arrival=one.arrival * (requests.rate(number) / rate))
    limits = {name: value for name, value in (work.limits or {}).items() if "_" not in name}
    service = Service(traffic=one, policy=jax.tree.map(float, work.policy), objective=Objective(**limits))
    with precision("float64"):
        found = outcomes([dataclasses.replace(scenario, workload=service)])
    goals = [goal.name for goal in problem.objectives] + [one.name for one in problem.constraints]
    names = [name for name in dict.fromkeys((*ALWAYS, *goals)) if name in closed and name in found]
    return Confirmation(
        member=member.name,
        rate=rate,
        requests=len(one.isl),
        closed={name: closed[name] for name in names if name not in LARGEST},
        simulated={name: float(found[name][0]) for name in names if name not in LARGEST},
    )

"""One simulation of every served stream at an optimum, beside the closed form that was optimised."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from jaxroof.jobs.serve import Objective, Service
from jaxroof.numerics.arrays import jax
from jaxroof.numerics.struct import given
from sweeps.run.precision import precision
from sweeps.run.simulated.grid import outcomes
from sweeps.studies.optimize.descent import KEPT, worst
from sweeps.studies.optimize.problem import Member, Problem

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
    requests = given(member.stream, "served stream").requests
    # Enough requests for the number of sequences that run at once, on all replicas together.
    number = requests.number(replicas * closed["batch_mean"])
    drawn = requests.drawn(number)
    one = drawn.replica(replicas).traffic
    # The stream is drawn at a rate of its own: times of arrival are scaled to that of the design.
    one = dataclasses.replace(one, arrival=one.arrival * (requests.rate(number) / rate))
    # Limits such as ttft_p95 are of a statistic; a simulation's objective has limits of single requests.
    limits = {name: value for name, value in (work.limits or {}).items() if "_" not in name}
    service = Service(traffic=one, policy=jax.tree.map(float, work.policy), objective=Objective(**limits))
    with precision("float64"):
        figures = outcomes([dataclasses.replace(scenario, workload=service)])
    goals = [goal.name for goal in problem.objectives] + [one.name for one in problem.constraints]
    names = [name for name in dict.fromkeys((*ALWAYS, *goals)) if name in closed and name in figures]
    return Confirmation(
        member=member.name,
        rate=rate,
        requests=len(one.isl),
        closed={name: closed[name] for name in names if name not in LARGEST},
        simulated={name: float(figures[name][0]) for name in names if name not in LARGEST},
    )


# Price of robustness: the robust optimum and the nominal one in every scenario.


@dataclasses.dataclass(frozen=True)
class Robustness:
    """Two designs in every scenario; the first scenario is the nominal one, for which one of the designs is best."""

    scenarios: tuple[str, ...]
    nominal_design: np.ndarray  # [d]
    nominal: np.ndarray  # [scenarios], the objective as users read it
    robust: np.ndarray  # [scenarios]
    nominal_keeps: np.ndarray  # bool: the scenario's constraints, by the nominal design
    nominal_excess: np.ndarray  # the largest of ln(value / limit) there

    @property
    def price(self) -> np.ndarray:
        """Robust over nominal objective, less 1, shape [scenarios]."""
        return self.robust / self.nominal - 1.0


def robustness(problem: Problem, robust: np.ndarray, nominal: np.ndarray) -> Robustness:
    """Both designs, shapes [d], in every scenario of a problem of one objective."""
    designs = np.stack([nominal, robust])
    (cases,) = problem.cases(designs)
    _, constraints = problem.evaluate(designs[:1])
    # Which constraints each scenario has, [scenarios, constraints].
    own = np.array([[one.member.scenario == name for one in problem.kept] for name in problem.scenarios])
    # What depends on the hardware alone is kept once, for all.
    own |= np.array([one.constraint.of_device and not one.constraint.of for one in problem.kept])
    excess = np.array([worst(constraints[:, mine])[0] for mine in own])
    return Robustness(
        scenarios=problem.scenarios,
        nominal_design=nominal,
        nominal=cases.values[0],
        robust=cases.values[1],
        nominal_keeps=excess <= KEPT,
        nominal_excess=excess,
    )


# Conditions of optimality: what holds a design, what more of it is worth, and rates of exchange between objectives.


HEAVY = 1e3
"""Weight of a rule for a sum against the slopes, over the largest of these. Ours."""

ACTIVE = 1e-3
"""A constraint or bound is active where it is met up to this much, in logarithms or shares of the range."""


@dataclasses.dataclass(frozen=True)
class Active:
    """One active constraint or bound."""

    name: str  # of the constraint as text, or of the variable
    limit: float  # SI: the constraint's limit, or the bound
    unit: str
    kind: str  # "constraint", "upper bound" or "lower bound"
    member: str  # whose constraint it is; "" where there is one alone
    elasticity: float  # d ln objective / d ln limit, of the objective that is made small or large

    def bought(self, objective: float) -> float:
        """Change of an objective of that value per unit of the limit."""
        return self.elasticity * objective / self.limit


@dataclasses.dataclass(frozen=True)
class Balance:
    """The combination of slopes that leaves least at a design."""

    active: tuple[Active, ...]  # the strongest first
    weights: np.ndarray  # of the logarithms of the objectives, shape [objectives], whose sum is 1
    scenarios: np.ndarray  # share of every scenario in the weight of the objectives, shape [scenarios]
    residual: float  # length of what is left over that of the slopes of the objectives: 0 at a smooth optimum
    forces: np.ndarray  # of every constraint of the problem, shape [constraints]; 0 where it is not active
    pull: np.ndarray  # d ln objective per share of each range, active constraints held, shape [d]; 0 of choices


def balance(problem: Problem, design: np.ndarray, weights: np.ndarray | None = None) -> Balance:
    """What balances the slopes of the objectives at a design, shape [d].

    At an optimum the slopes of the objective are a non-negative combination of those of what is active (Karush, Kuhn
    and Tucker). On a Pareto front the slopes of the objectives themselves are combined, with weights that are found;
    of scenarios that are equally bad, each has a share. All are found by non-negative least squares over the variables
    that may move.

    Args:
      weights: of the logarithms of the objectives, shape [objectives]; None: those that leave least.
    """
    from scipy.optimize import nnls

    gradients = problem.value_and_grad(design[np.newaxis])
    constraints = gradients.constraints[0]
    # Choices, whole numbers and lists cannot move a little, so that their slopes need no balance.
    moving = np.array([not (v.choice or v.whole or v.allowed is not None) for v in problem.variables])
    moving &= problem.upper > problem.lower
    # Change of each value per share of its range: it turns slopes by values into slopes by shares.
    inner = np.array([v.slope(design[i : i + 1])[0] for i, v in enumerate(problem.variables)])
    columns, names, owners, every, kept = [], [], [], [], []
    # Slopes of the objectives, in every scenario that is as bad as the worst one.
    for j, one in enumerate(gradients.cases):
        several = one.values.shape[1] > 1
        for s in np.flatnonzero(one.logs[0] > one.logs[0].max() - ACTIVE):
            every.append(one.log_slopes[0, s] * inner)
            columns.append(every[-1][moving])
            owners.append((j, s if several else -1))
    # Slopes of active constraints. A larger upper limit improves the objective, a larger lower one does not.
    for i, entry in enumerate(problem.kept):
        if constraints[i] > -ACTIVE:
            constraint, sign = entry.constraint, 1.0 if entry.constraint.at_least else -1.0
            every.append(gradients.constraint_slopes[0, i] * inner)
            columns.append(every[-1][moving])
            kept.append(i)
            member = entry.member.name if entry.text != constraint.text else ""
            names.append((entry.text, constraint.limit, constraint.unit, "constraint", member, sign))
    # Bounds are constraints on one share, with a unit vector as their slope.
    places = np.flatnonzero(moving)
    for j, i in enumerate(places):
        variable = problem.variables[i]
        share = variable.shares(design[i : i + 1])[0]
        for side, kind, limit in ((1.0, "upper bound", variable.high), (-1.0, "lower bound", variable.low)):
            if side * (share - 0.5) >= 0.5 - ACTIVE:
                columns.append(side * np.eye(len(places))[j])
                unit = variable.axis.coordinates[0].unit
                # From a change per share of the range to one per logarithm of the bound.
                factor = -side * limit / variable.slope(np.array([limit]))[0]
                names.append((variable.name, limit, unit, kind, "", factor))
    matrix, number = np.stack(columns, axis=1), len(owners)

    # Weights of an objective in all its scenarios have a known sum, or those of all objectives have the sum 1.
    objective = np.array([j for j, _ in owners])
    groups = [np.ones(number, bool)] if weights is None else [objective == j for j in range(len(problem.objectives))]
    sums = np.ones(1) if weights is None else np.asarray(weights, float)
    # Rows of a large weight make the sums hold in the least-squares solution.
    heavy = HEAVY * max(float(np.abs(matrix).max(initial=0.0)), 1e-12)
    rules = np.zeros((len(groups), matrix.shape[1]))
    for row, members in enumerate(groups):
        rules[row, :number][members] = heavy
    forces, _ = nnls(np.concatenate([matrix, rules]), np.concatenate([np.zeros(len(matrix)), heavy * sums]))
    left = float(np.linalg.norm(matrix @ forces))
    # The first forces are of objectives, in the order of `owners`; those of what is active follow.
    pulls = np.array([forces[:number][objective == j].sum() for j in range(len(problem.objectives))])
    # The size that slopes of objectives have without cancelling each other.
    size = float(np.linalg.norm(np.linalg.norm(matrix[:, :number] * forces[:number], axis=0)))
    shares = np.zeros(len(problem.members))
    for force, (_, scenario) in zip(forces, owners, strict=False):
        if scenario >= 0:
            shares[scenario] += force
    held = [
        Active(name, limit, unit, kind, member, float(factor * force))
        for (name, limit, unit, kind, member, factor), force in zip(names, forces[number:], strict=True)
    ]
    total = shares.sum()
    # Slopes of objectives and active constraints come first; unit vectors of bounds follow.
    of_constraints = np.zeros(len(problem.kept))
    of_constraints[kept] = forces[number : number + len(kept)]
    pull = np.where(problem.choice, 0.0, forces[: len(every)] @ np.stack(every))
    return Balance(
        active=tuple(sorted(held, key=lambda one: -abs(one.elasticity))),
        weights=pulls / max(pulls.sum(), 1e-300),
        scenarios=shares / total if total else shares,
        residual=left / size if size else 0.0,
        forces=of_constraints,
        pull=pull,
    )

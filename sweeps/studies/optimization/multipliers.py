"""Conditions of optimality: what holds a design, what more of it is worth, and rates of exchange between objectives."""

import dataclasses

import numpy as np

from sweeps.studies.optimization.problem import Problem

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

    found = problem.value_and_grad(design[np.newaxis])
    constraints = found.constraints[0]
    moving = np.array([not (v.choice or v.whole or v.allowed is not None) for v in problem.variables])
    moving &= problem.upper > problem.lower
    inner = np.array([v.slope(design[i : i + 1])[0] for i, v in enumerate(problem.variables)])
    columns, names, owners = [], [], []
    for j, one in enumerate(found.cases):
        several = one.values.shape[1] > 1
        for s in np.flatnonzero(one.logs[0] > one.logs[0].max() - ACTIVE):
            columns.append((one.log_slopes[0, s] * inner)[moving])
            owners.append((j, s if several else -1))
    for i, kept in enumerate(problem.kept):
        if constraints[i] > -ACTIVE:
            constraint, sign = kept.constraint, 1.0 if kept.constraint.at_least else -1.0
            columns.append((found.constraint_slopes[0, i] * inner)[moving])
            member = kept.member.name if kept.text != constraint.text else ""
            names.append((kept.text, constraint.limit, constraint.unit, "constraint", member, sign))
    places = np.flatnonzero(moving)
    for j, i in enumerate(places):
        variable = problem.variables[i]
        share = variable.shares(design[i : i + 1])[0]
        for side, kind, limit in ((1.0, "upper bound", variable.high), (-1.0, "lower bound", variable.low)):
            if side * (share - 0.5) >= 0.5 - ACTIVE:
                columns.append(side * np.eye(len(places))[j])
                unit = variable.axis.coordinates[0].unit
                factor = -side * limit / variable.slope(np.array([limit]))[0]
                names.append((variable.name, limit, unit, kind, "", factor))
    matrix, number = np.stack(columns, axis=1), len(owners)

    # Weights of an objective in all its scenarios have a known sum, or those of all objectives have the sum 1.
    objective = np.array([j for j, _ in owners])
    groups = [np.ones(number, bool)] if weights is None else [objective == j for j in range(len(problem.objectives))]
    sums = np.ones(1) if weights is None else np.asarray(weights, float)
    heavy = HEAVY * max(float(np.abs(matrix).max(initial=0.0)), 1e-12)
    rules = np.zeros((len(groups), matrix.shape[1]))
    for row, members in enumerate(groups):
        rules[row, :number][members] = heavy
    forces, _ = nnls(np.concatenate([matrix, rules]), np.concatenate([np.zeros(len(matrix)), heavy * sums]))
    left = float(np.linalg.norm(matrix @ forces))
    pulls = np.array([forces[:number][objective == j].sum() for j in range(len(problem.objectives))])
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
    return Balance(
        active=tuple(sorted(held, key=lambda one: -abs(one.elasticity))),
        weights=pulls / max(pulls.sum(), 1e-300),
        scenarios=shares / total if total else shares,
        residual=left / size if size else 0.0,
    )

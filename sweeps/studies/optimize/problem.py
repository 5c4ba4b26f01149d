"""A design problem as arrays: batches of designs to objectives and constraints, with their gradients."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jaxroof.numerics.arrays import jax
from jaxroof.numerics.arrays import jax_numpy as jnp
from sweeps.run.ways import Way
from sweeps.run.ways import designs as designs_way
from sweeps.studies.optimize.evaluator import Evaluator
from sweeps.studies.optimize.goals import Cases, Constraint, Goal, mean, mean_slopes, worst_traced
from sweeps.studies.optimize.served import ServedCase
from sweeps.studies.optimize.variables import Variable

MOST_LOOPED = 6
"""Members up to which each has loops of its own, which compile in a fifth of the time of a program that more share."""


@dataclasses.dataclass(frozen=True)
class Gradients:
    """Objectives and constraints of n designs of d variables, with their derivatives by every variable.

    Choices have no derivative: theirs is 0.
    """

    objectives: np.ndarray  # [n, objectives], to be made small
    constraints: np.ndarray  # [n, constraints], kept where <= 0
    objective_slopes: np.ndarray  # [n, objectives, d]
    constraint_slopes: np.ndarray  # [n, constraints, d]
    cases: tuple[Cases, ...]  # every objective in every scenario


@dataclasses.dataclass(frozen=True, eq=False)
class Member:
    """One workload of the mix in one scenario: what is computed there, from some columns of a design."""

    scenario: str
    workload: str
    weight: float
    evaluator: Evaluator
    columns: np.ndarray  # of a design of the problem that are the evaluator's
    stream: ServedCase | None = None  # of a served stream, what a simulation of it takes

    @property
    def name(self) -> str:
        """Its names together; "" where it is alone."""
        return " ".join(filter(None, (self.workload, self.scenario)))


@dataclasses.dataclass(frozen=True)
class Kept:
    """One constraint of one member."""

    constraint: Constraint
    member: Member
    text: str


class Problem:
    """Designs X, shape [n, d], to objectives and constraints; float64.

    A column of X is a number in SI units, or, of a choice, the position in its list (rounded to the nearest). With a
    mix of workloads an objective is their mean, with scenarios the worst of them; constraints are of every member.

    Attributes:
      names: of the variables.
      lower, upper: their bounds, shape [d].
      choice: which columns are choices, shape [d].
      choices: labels of the positions of every variable that is a choice, by name.
      whole: which columns take whole numbers in the end, shape [d].
      members: by scenario, then workload.
      weights: of the workloads, shape [workloads], whose sum is 1.
      objective_names, constraint_names: of the columns of what `evaluate` returns.
      evaluations, gradients: designs that were evaluated so far, without and with their gradient.
    """

    def __init__(
        self,
        members: tuple[tuple[Member, ...], ...],
        variables: tuple[Variable, ...],
        objectives: tuple[Goal, ...],
        constraints: tuple[Constraint, ...],
        attributes: Mapping[str, Any],
    ):
        self.members, self.variables, self.objectives = members, variables, objectives
        self.constraints, self.attributes = constraints, dict(attributes)
        self.names = tuple(variable.name for variable in variables)
        self.lower = np.array([variable.low for variable in variables])
        self.upper = np.array([variable.high for variable in variables])
        self.choice = np.array([variable.choice for variable in variables])
        self.choices = {v.name: v.labels for v in variables if v.choice}
        self.whole = self.choice | np.array([variable.whole for variable in variables])
        # Every scenario has the same workloads: weights of the first one stand for all.
        weights = np.array([member.weight for member in members[0]])
        self.weights = weights / weights.sum()
        self.kept = tuple(_kept(members, constraints))
        self.objective_names = tuple(objective.text for objective in objectives)
        self.constraint_names = tuple(one.text for one in self.kept)
        self.evaluations = self.gradients = 0
        self._shared = len(self.flat) > 1  # members of one structure share programs
        self._loops = len(self.flat) <= MOST_LOOPED

    @property
    def scenarios(self) -> tuple[str, ...]:
        """Names of the scenarios; the first is the nominal one."""
        return tuple(row[0].scenario for row in self.members)

    @property
    def flat(self) -> tuple[Member, ...]:
        """All members, the first scenario's first."""
        return tuple(member for row in self.members for member in row)

    def nominal(self) -> "Problem":
        """The problem of the first scenario alone; limits of others are left out."""
        # Names that mean something without the other scenarios.
        names = {self.scenarios[0], *(member.workload for member in self.members[0]), ""}
        limits = tuple(one for one in self.constraints if one.of in names)
        goals = tuple(one for one in self.objectives if one.of in names) or self.objectives
        problem = Problem(self.members[:1], self.variables, goals, limits, self.attributes)
        # It evaluates the same members, so that it takes the programs that exist already.
        problem._shared, problem._loops = self._shared, self._loops
        return problem

    def evaluate(self, designs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Objectives, shape [n, objectives], and constraints, shape [n, constraints].

        Objectives are to be made small: one to be maximised is negated. A constraint is kept where its value,
        ln(quantity / limit) or ln(limit / quantity), is not positive.

        Args:
          designs: shape [n, d].

        Raises:
          ValueError: one line, for another shape, a number that is not finite, or one beyond its bounds.
        """
        designs = self._checked(designs)
        self.evaluations += len(designs)
        values = {m: m.evaluator.values(designs[:, m.columns], self._way(False)) for m in self.flat}
        return np.stack([one.worst for one in self._cases(values)], axis=1), self._excesses(values)

    def cases(self, designs: np.ndarray) -> tuple[Cases, ...]:
        """Every objective in every scenario, without derivatives."""
        designs = self._checked(designs)
        values = {m: m.evaluator.values(designs[:, m.columns], self._way(False)) for m in self.flat}
        return tuple(self._cases(values))

    def value_and_grad(self, designs: np.ndarray) -> Gradients:
        """As `evaluate`, with every derivative by every variable, of the smoothed functions
        (`jaxroof.numerics.smooth`).
        """
        designs = self._checked(designs)
        self.gradients += len(designs)
        values, slopes = {}, {}
        for member in self.flat:
            # A member has some of the problem's variables: slopes by all others are 0.
            values[member], own = member.evaluator.slopes(designs[:, member.columns], self._way(True))
            slopes[member] = np.zeros((*own.shape[:2], len(self.variables)))
            slopes[member][:, :, member.columns] = own
        cases = self._cases(values, slopes)
        excess_slopes = np.zeros((len(designs), len(self.kept), len(self.variables)))
        for k, one in enumerate(self.kept):
            # Derivative of ln(quantity / limit): that of the quantity over itself, negated for a least value.
            name = one.member.evaluator.names.index(one.constraint.name)
            side = -1.0 if one.constraint.at_least else 1.0
            excess_slopes[:, k] = side * slopes[one.member][:, name] / values[one.member][:, name, np.newaxis]
        return Gradients(
            np.stack([one.worst for one in cases], axis=1),
            self._excesses(values),
            np.stack([one.worst_slopes for one in cases], axis=1),
            excess_slopes,
            tuple(cases),
        )

    def prepare(self, designs: np.ndarray) -> None:
        """Compile what `evaluate` and `value_and_grad` need for these designs, several programs at once."""
        designs = self._checked(designs)
        for member in self.flat:
            member.evaluator.prepare(designs[:, member.columns], self._way(False), self._way(True))

    def function(self, design: np.ndarray) -> Callable[[jax.Array], jax.Array]:
        """Objectives, then constraints, at the choices of `design`, shape [d], as a pure JAX function of the numbers.

        The function takes the columns that are no choices, shape [numbers], and returns shape [objectives +
        constraints]; for `jit`, `grad` and `vmap`, in the precision that JAX is set to. Bounds are not checked.
        """
        design = self._checked(np.asarray(design, float)[np.newaxis])[0]
        functions = {m: m.evaluator.function(design[m.columns]) for m in self.flat}
        # Positions of the numbers among the columns that are no choices.
        place = np.cumsum(~self.choice) - 1
        own = {m: place[m.columns][~self.choice[m.columns]] for m in self.flat}

        def goals(numbers: jax.Array) -> jax.Array:
            values = {m: functions[m](numbers[own[m]]) for m in self.flat}
            outputs = []
            for goal in self.objectives:
                figures = [mean(goal, jnp.stack(row), self._shares(goal)) for row in self._figures(goal, values)]
                outputs.append(worst_traced(goal, figures))
            for one in self.kept:
                value = values[one.member][one.member.evaluator.names.index(one.constraint.name)]
                outputs.append(_excess(one.constraint, value, jnp))
            return jnp.stack(outputs)

        return goals

    def legal(self, designs: np.ndarray) -> np.ndarray:
        """Whether the deployments of the designs can be for every member, shape [n]."""
        designs = self._checked(designs)
        return np.all([m.evaluator.legal(designs[:, m.columns]) for m in self.flat], axis=0)

    def label(self, variable: Variable, value: float) -> Any:
        """A column's value as people know it: the choice's name, or the number."""
        return variable.labels[int(round(value))] if variable.choice else float(value)

    def _way(self, gradients: bool) -> Way:
        """How designs are evaluated; programs that are shared have no numbers as constants."""
        return dataclasses.replace(designs_way(gradients), constants=not self._shared, loops=self._loops)

    def _checked(self, designs: np.ndarray) -> np.ndarray:
        designs = np.asarray(designs, float)
        if designs.ndim != 2 or designs.shape[1] != len(self.variables):
            raise ValueError(f"designs have shape {designs.shape}; it must be (n, {len(self.variables)})")
        # Values beyond a bound by a rounding error are clipped, not refused.
        slack = 1e-9 * (np.abs(self.lower) + np.abs(self.upper))
        wrong = ~((designs >= self.lower - slack) & (designs <= self.upper + slack))
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise ValueError(
                f"design {row}: {self.names[column]} = {designs[row, column]:g} must be from "
                f"{self.lower[column]:g} to {self.upper[column]:g}"
            )
        return np.clip(designs, self.lower, self.upper)

    def _shares(self, goal: Goal) -> np.ndarray:
        """Shares of the workloads that an objective is the mean of."""
        # An objective of one workload is no mean; one of a scenario is over the whole mix.
        alone = goal.of and goal.of not in self.scenarios
        return np.ones(1) if alone else self.weights

    def _figures(self, goal: Goal, of: Mapping[Member, Any]) -> list[list[Any]]:
        """What `of` has for an objective, by scenario and workload; [..., quantities, ...] along the quantities."""
        name = self.flat[0].evaluator.names.index(goal.name)
        rows = [[of[m][..., name] for m in row if goal.of in ("", m.workload, m.scenario)] for row in self.members]
        return [row for row in rows if row]

    def _cases(
        self, values: Mapping[Member, np.ndarray], slopes: Mapping[Member, np.ndarray] | None = None
    ) -> list[Cases]:
        """Every objective in every scenario; slopes of shape [n, quantities, d]."""
        cases = []
        for goal in self.objectives:
            weights = self._shares(goal)
            figures = [np.stack(row, axis=-1) for row in self._figures(goal, values)]  # [n, workloads] each
            means = np.stack([mean(goal, row, weights) for row in figures], axis=1)
            if slopes is None:
                cases.append(Cases(goal, means))
                continue
            # Quantities become the last axis, from which `_figures` takes one.
            turned = {m: np.moveaxis(own, 1, -1) for m, own in slopes.items()}  # [n, d, quantities]
            own = [np.stack(row, axis=1) for row in self._figures(goal, turned)]  # [n, workloads, d] each
            each = [mean_slopes(goal, row, slope, weights) for row, slope in zip(figures, own, strict=True)]
            cases.append(Cases(goal, means, np.stack(each, axis=1)))
        return cases

    def _excesses(self, values: Mapping[Member, np.ndarray]) -> np.ndarray:
        """Every constraint, shape [n, constraints]."""
        excesses = []
        for one in self.kept:
            value = values[one.member][:, one.member.evaluator.names.index(one.constraint.name)]
            # A quantity of 0 is infinitely far from its limit.
            with np.errstate(divide="ignore", invalid="ignore"):
                excesses.append(_excess(one.constraint, value, np))
        return np.stack(excesses, axis=1)


def _excess(constraint: Constraint, value: Any, numpy: Any) -> Any:
    """ln(value / limit), or its negative where the limit is a least value."""
    excess = numpy.log(value / constraint.limit)
    return -excess if constraint.at_least else excess


def _kept(members: tuple[tuple[Member, ...], ...], constraints: tuple[Constraint, ...]) -> list[Kept]:
    """Every constraint of every member that has to keep it; once where it depends on the hardware alone."""
    flat = [member for row in members for member in row]
    rows = []
    for constraint in constraints:
        own = [m for m in flat if constraint.of in ("", m.workload, m.scenario)]
        # A constraint on the hardware is the same for all members where they have the same hardware.
        hardware = jax.tree.leaves(own[0].evaluator.base.hardware)
        if constraint.of_device and all(jax.tree.leaves(m.evaluator.base.hardware) == hardware for m in own):
            own = own[:1]
        alone = len(own) == 1 and (len(flat) == 1 or constraint.of_device)
        plain = dataclasses.replace(constraint, of="").text
        rows += [Kept(constraint, m, plain if alone else f"{m.name}: {plain}") for m in own]
    return rows

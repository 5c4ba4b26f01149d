"""A design problem as arrays: batches of designs to objectives and constraints, with their gradients."""

import concurrent.futures
import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxroof.jobs import JOBS, Scenario
from jaxroof.legality import legal
from sweeps.ask.axes import Segment, segments
from sweeps.ask.paths import leaf
from sweeps.run.compiled import prepared
from sweeps.run.evaluate import evaluate, gathered
from sweeps.run.point import answers, answers_at, scenario_at
from sweeps.run.points import Points
from sweeps.run.precision import precision
from sweeps.run.ways import EAGERLY, Way
from sweeps.run.ways import designs as designs_way
from sweeps.studies.optimization.goals import Constraint, Goal, require_answered
from sweeps.studies.optimization.variables import Variable

COMPILERS = 4
"""Programs that are compiled at once."""


@dataclasses.dataclass(frozen=True)
class Gradients:
    """Objectives and constraints of n designs of d variables, with their derivatives by every variable.

    Choices have no derivative: theirs is 0.
    """

    objectives: np.ndarray  # [n, objectives], to be made small
    constraints: np.ndarray  # [n, constraints], kept where <= 0
    objective_slopes: np.ndarray  # [n, objectives, d]
    constraint_slopes: np.ndarray  # [n, constraints, d]


class Problem:
    """Designs X, shape [n, d], to objectives and constraints; float64.

    A column of X is a number in SI units, or, of a choice, the position in its list (rounded to the nearest).

    Attributes:
      names: of the variables.
      lower, upper: their bounds, shape [d].
      choice: which columns are choices, shape [d].
      choices: labels of the positions of every variable that is a choice, by name.
      whole: which columns take whole numbers in the end, shape [d].
      objective_names, constraint_names: of the columns of what `evaluate` returns.
      evaluations, gradients: designs that were evaluated so far, without and with their gradient.
    """

    def __init__(
        self,
        job: str,
        base: Scenario,
        variables: tuple[Variable, ...],
        objectives: tuple[Goal, ...],
        constraints: tuple[Constraint, ...],
        attributes: Mapping[str, Any],
    ):
        self.job, self.base, self.variables = job, base, variables
        self.objectives, self.constraints, self.attributes = objectives, constraints, dict(attributes)
        self.names = tuple(variable.name for variable in variables)
        self.lower = np.array([variable.low for variable in variables])
        self.upper = np.array([variable.high for variable in variables])
        self.choice = np.array([variable.choice for variable in variables])
        self.choices = {v.name: v.labels for v in variables if v.choice}
        self.whole = self.choice | np.array([variable.whole for variable in variables])
        self.objective_names = tuple(objective.name for objective in objectives)
        self.constraint_names = tuple(constraint.text for constraint in constraints)
        self.evaluations = self.gradients = 0
        self._numbers = jax.tree.map(np.float64, base)
        self._paths = [tuple(variable.axis.columns) for variable in variables if not variable.choice]
        self._segments = [tuple(segments(variable.axis)) if variable.choice else () for variable in variables]
        names = [goal.name for goal in objectives] + [constraint.name for constraint in constraints]
        with precision("float64"):
            answers = jax.eval_shape(functools.partial(answers_at, JOBS[job]), base)
            require_answered(names, answers, base, job)

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
        values = self._evaluated(self._goals, designs, designs_way(gradients=False))["goals"]
        return values[:, : len(self.objectives)], values[:, len(self.objectives) :]

    def value_and_grad(self, designs: np.ndarray) -> Gradients:
        """As `evaluate`, with every derivative by every variable, of the smoothed functions (`jaxroof.smooth`)."""
        designs = self._checked(designs)
        self.gradients += len(designs)
        found = self._evaluated(self._slopes, designs, designs_way(gradients=True))
        values, slopes, count = found["goals"], found["slopes"], len(self.objectives)
        return Gradients(values[:, :count], values[:, count:], slopes[:, :count], slopes[:, count:])

    def prepare(self, designs: np.ndarray) -> None:
        """Compile what `evaluate` and `value_and_grad` need for these designs, several programs at once."""
        ways = (self._slopes, designs_way(gradients=True)), (self._goals, designs_way(gradients=False))
        tasks = [(points, *how) for points in self._points(self._checked(designs)) for how in ways]
        with precision("float64"), concurrent.futures.ThreadPoolExecutor(COMPILERS) as pool:
            list(pool.map(lambda task: prepared(task[1], self._numbers, task[0], task[2]), tasks))

    def function(self, design: np.ndarray) -> Callable[[jax.Array], jax.Array]:
        """Objectives, then constraints, at the choices of `design`, shape [d], as a pure JAX function of the numbers.

        The function takes the columns that are no choices, shape [numbers], and returns shape [objectives +
        constraints]; for `jit`, `grad` and `vmap`, in the precision that JAX is set to. Bounds are not checked.
        """
        (points,) = self._points(self._checked(np.asarray(design, float)[np.newaxis]))
        *settings, _ = jax.tree.map(lambda leaf: leaf[0] if np.ndim(leaf) else leaf, points.settings)

        def goals(numbers: jax.Array) -> jax.Array:
            return self._goals(scenario_at(self._numbers, [*settings, self._set(numbers)]))["goals"]

        return goals

    def metrics(self, designs: np.ndarray, names: tuple[str, ...] | None = None) -> dict[str, np.ndarray]:
        """Metrics of the job at every design, shapes [n]; NaN, False or -1 where a design's parts have none.

        Args:
          names: of those that are wanted and known; None: all.
        """
        return self._evaluated(answers(JOBS[self.job], names), self._checked(designs), EAGERLY)

    def legal(self, designs: np.ndarray) -> np.ndarray:
        """Whether the deployments of the designs can be, shape [n]."""
        return self._evaluated(_legal, self._checked(designs), EAGERLY)["legal"]

    def label(self, variable: Variable, value: float) -> Any:
        """A column's value as people know it: the choice's name, or the number."""
        return variable.labels[int(round(value))] if variable.choice else float(value)

    def _checked(self, designs: np.ndarray) -> np.ndarray:
        designs = np.asarray(designs, float)
        if designs.ndim != 2 or designs.shape[1] != len(self.variables):
            raise ValueError(f"designs have shape {designs.shape}; it must be (n, {len(self.variables)})")
        slack = 1e-9 * (np.abs(self.lower) + np.abs(self.upper))
        wrong = ~((designs >= self.lower - slack) & (designs <= self.upper + slack))
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise ValueError(
                f"design {row}: {self.names[column]} = {designs[row, column]:g} must be from "
                f"{self.lower[column]:g} to {self.upper[column]:g}"
            )
        return np.clip(designs, self.lower, self.upper)

    def _evaluated(self, function: Callable, designs: np.ndarray, way: Way) -> dict[str, np.ndarray]:
        """What a function of a scenario returns at every design, in float64."""
        with precision("float64"):
            return gathered(evaluate(function, self._numbers, self._points(designs), way), len(designs))

    def _points(self, designs: np.ndarray) -> list[Points]:
        """Designs, structure by structure: the settings of every choice, then the columns that are numbers."""
        numbers = designs[:, ~self.choice]
        return [
            Points(rows, [*self._choices(key, designs[rows]), self._set(numbers[rows].T)])
            for rows, key in self._structures(designs)
        ]

    def _structures(self, designs: np.ndarray) -> list[tuple[np.ndarray, tuple[int, ...]]]:
        """Rows of every combination of segments, with the numbers of the segments."""
        columns = []
        for i, parts in enumerate(self._segments):
            if not parts:
                continue
            of_position = np.empty(len(self.variables[i].labels), int)
            for number, part in enumerate(parts):
                of_position[part.positions] = number
            columns.append(of_position[np.round(designs[:, i]).astype(int)])
        if not columns:
            return [(np.arange(len(designs)), ())]
        keys, which = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
        which = which.reshape(-1)
        return [(np.flatnonzero(which == number), tuple(map(int, key))) for number, key in enumerate(keys)]

    def _chosen(self, key: tuple[int, ...]) -> dict[int, Segment]:
        """The segment of every choice, by its column."""
        columns = [i for i, parts in enumerate(self._segments) if parts]
        return {i: self._segments[i][number] for i, number in zip(columns, key, strict=True)}

    def _choices(self, key: tuple[int, ...], designs: np.ndarray) -> list[dict[str, Any]]:
        """The settings of every choice at designs of one structure; a leaf that all its positions share is a number."""
        settings = []
        for i, segment in self._chosen(key).items():
            places = np.searchsorted(segment.positions, np.round(designs[:, i]).astype(int))
            settings.append(jax.tree.map(lambda leaf, places=places: _at(leaf, places), segment.settings))
        return settings

    def _set(self, numbers: Any) -> dict[str, Any]:
        """The settings of variables that are numbers, from a value or a column for each of them."""
        return {path: numbers[i] for i, paths in enumerate(self._paths) for path in paths}

    def _goals(self, scenario: Scenario) -> dict[str, jax.Array]:
        """Objectives, then constraints, of one design."""
        names = [goal.name for goal in self.objectives] + [constraint.name for constraint in self.constraints]
        answers = answers_at(JOBS[self.job], scenario, names)

        def value(name: str) -> jax.Array:
            return jnp.asarray(answers[name] if name in answers else leaf(scenario, name), float)

        found = [objective.sign * value(objective.name) for objective in self.objectives]
        for constraint in self.constraints:
            kept = jnp.log(value(constraint.name) / constraint.limit)
            found.append(-kept if constraint.at_least else kept)
        return {"goals": jnp.stack(found)}

    def _slopes(self, scenario: Scenario) -> dict[str, jax.Array]:
        """The goals of one design, and their derivatives by every variable.

        Forward mode. A design has few numbers, and XLA compiles it in half the time of reverse mode.
        """
        numbers = jnp.stack([jnp.asarray(leaf(scenario, paths[0]), float) for paths in self._paths])
        values, along = jax.linearize(lambda n: self._goals(scenario_at(scenario, [self._set(n)]))["goals"], numbers)
        rows = jax.vmap(along, out_axes=1)(jnp.eye(len(numbers)))
        columns = np.flatnonzero(~self.choice)
        slopes = jnp.zeros((len(values), len(self.variables))).at[:, columns].set(rows)
        return {"goals": values, "slopes": slopes}


def _legal(scenario: Scenario) -> dict[str, jax.Array]:
    return {"legal": jnp.asarray(legal(scenario.hardware, scenario.model, scenario.deployment))}


def _at(leaf: Any, places: np.ndarray) -> np.ndarray:
    """A leaf of every design; the number itself where all share it."""
    values = np.asarray(leaf, float)
    return values[places] if values.ndim else values

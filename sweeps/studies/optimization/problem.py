"""A design problem as arrays: batches of designs to objectives and constraints, with their gradients."""

import concurrent.futures
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxroof.jobs import JOBS, Scenario
from jaxroof.legality import legal
from sweeps.ask.axes import Segment, segments
from sweeps.ask.paths import leaf
from sweeps.run.point import answers_at, scenario_at
from sweeps.run.precision import precision
from sweeps.studies.optimization.goals import Constraint, Objective, require_answered
from sweeps.studies.optimization.variables import Variable

CALL, GRADIENT_CALL = 4096, 64
"""Designs of every call, without and with gradients: fewer are filled up, so that one program is compiled of each."""

COMPILERS = 4
"""Programs that are compiled at once."""

QUICKLY = {"xla_cpu_use_fusion_emitters": False}
"""Options of XLA under which programs of gradients compile in half the time and run a little slower, on a CPU."""


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
        objectives: tuple[Objective, ...],
        constraints: tuple[Constraint, ...],
        attributes: Mapping[str, Any],
    ):
        self.job, self.base, self.variables = job, base, variables
        self.objectives, self.constraints, self.attributes = objectives, constraints, dict(attributes)
        self.names = tuple(variable.name for variable in variables)
        self.lower = np.array([variable.low for variable in variables])
        self.upper = np.array([variable.high for variable in variables])
        self.choices = {v.name: v.labels for v in variables if v.choice}
        self.whole = np.array([variable.whole or variable.choice for variable in variables])
        self.objective_names = tuple(objective.name for objective in objectives)
        self.constraint_names = tuple(constraint.text for constraint in constraints)
        self.evaluations = self.gradients = 0
        self._choice = np.array([variable.choice for variable in variables])
        self._segments = [tuple(segments(variable.axis)) if variable.choice else () for variable in variables]
        names = [goal.name for goal in (*objectives, *constraints)]
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
        values = self._by_structure(designs, self._values, CALL, (len(self.objectives) + len(self.constraints),))
        return values[:, : len(self.objectives)], values[:, len(self.objectives) :]

    def value_and_grad(self, designs: np.ndarray) -> Gradients:
        """As `evaluate`, with every derivative by every variable, of the smoothed functions (`jaxroof.smooth`)."""
        designs = self._checked(designs)
        self.gradients += len(designs)
        shape = len(self.objectives) + len(self.constraints), 1 + len(self.variables)
        found = self._by_structure(designs, self._slopes, GRADIENT_CALL, shape)
        values, slopes, count = found[:, :, 0], found[:, :, 1:], len(self.objectives)
        return Gradients(values[:, :count], values[:, count:], slopes[:, :count], slopes[:, count:])

    def prepare(self, designs: np.ndarray) -> None:
        """Compile what `evaluate` and `value_and_grad` need for these designs, several programs at once."""
        tasks = []
        for rows, key in self._structures(self._checked(designs)):
            for program, lanes in ((self._slopes(key), GRADIENT_CALL), (self._values(key), CALL)):
                tasks.append((program, self._arguments(key, np.tile(designs[rows[0]], (lanes, 1)))))
        with precision("float64"), concurrent.futures.ThreadPoolExecutor(COMPILERS) as pool:
            list(pool.map(lambda task: jax.block_until_ready(task[0](*task[1])), tasks))

    def function(self, design: np.ndarray) -> Callable[[jax.Array], jax.Array]:
        """Objectives, then constraints, at the choices of `design`, shape [d], as a pure JAX function of the numbers.

        The function takes the columns that are no choices, shape [numbers], and returns shape [objectives +
        constraints]; for `jit`, `grad` and `vmap`, in the precision that JAX is set to. Bounds are not checked.
        """
        row = self._checked(np.asarray(design, float)[np.newaxis])
        ((_, key),) = self._structures(row)
        settings = jax.tree.map(lambda leaf: leaf[0] if leaf.ndim else leaf, self._arguments(key, row)[1])
        return lambda numbers: self._goals(numbers, settings)

    def metrics(self, designs: np.ndarray) -> dict[str, np.ndarray]:
        """Every metric of the job at every design, shapes [n]; NaN, False or -1 where a design's parts have none."""
        designs = self._checked(designs)
        parts = []
        for rows, key, arguments in self._groups(designs):

            def answers(numbers: jax.Array, settings: list[dict[str, Any]]) -> dict[str, jax.Array]:
                return answers_at(JOBS[self.job], self._scenario(numbers, settings))

            with precision("float64"):
                parts.append((rows, jax.device_get(jax.jit(self._mapped(key, answers))(*arguments))))
        found: dict[str, np.ndarray] = {}
        for rows, answers in parts:
            for name, values in answers.items():
                blank = {"f": np.nan, "b": False}.get(values.dtype.kind, -1)
                found.setdefault(name, np.full(len(designs), blank, values.dtype))[rows] = values
        return found

    def legal(self, designs: np.ndarray) -> np.ndarray:
        """Whether the deployments of the designs can be, shape [n]."""
        designs = self._checked(designs)
        found = np.zeros(len(designs), bool)
        for rows, key, arguments in self._groups(designs):

            def split(numbers: jax.Array, settings: list[dict[str, Any]]) -> jax.Array:
                scenario = self._scenario(numbers, settings)
                return legal(scenario.hardware, scenario.model, scenario.deployment)

            with precision("float64"):
                found[rows] = jax.jit(self._mapped(key, split))(*arguments)
        return found

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

    def _by_structure(self, designs: np.ndarray, program_of: Callable, most: int, shape: tuple) -> np.ndarray:
        """What a program returns for every design, called for designs of one structure at a time."""
        found = np.empty((len(designs), *shape))
        for rows, key in self._structures(designs):
            for low in range(0, len(rows), most):
                part = rows[low : low + most]
                filled = designs[np.concatenate([part, np.full(most - len(part), part[-1])])]
                with precision("float64"):
                    found[part] = np.asarray(program_of(key)(*self._arguments(key, filled)))[: len(part)]
        return found

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

    def _arguments(self, key: tuple[int, ...], designs: np.ndarray) -> tuple[np.ndarray, list[dict[str, Any]]]:
        """Columns that are numbers, shape [n, numbers], and the settings of every choice."""
        settings = []
        for i, segment in self._chosen(key).items():
            places = np.searchsorted(segment.positions, np.round(designs[:, i]).astype(int))
            settings.append(jax.tree.map(lambda leaf, places=places: _at(leaf, places), segment.settings))
        return designs[:, ~self._choice], settings

    def _mapped(self, key: tuple[int, ...], function: Callable) -> Callable:
        """`function` of one design over many, which share the leaves that are the same in all of a segment."""
        settings = [segment.settings for segment in self._chosen(key).values()]
        return jax.vmap(function, in_axes=(0, jax.tree.map(lambda leaf: 0 if np.ndim(leaf) else None, settings)))

    def _groups(self, designs: np.ndarray) -> Iterator[tuple[np.ndarray, tuple[int, ...], tuple]]:
        for rows, key in self._structures(designs):
            yield rows, key, self._arguments(key, designs[rows])

    def _scenario(self, numbers: jax.Array, settings: list[dict[str, Any]]) -> Scenario:
        free = [v for v in self.variables if not v.choice]
        own = {path: numbers[i] for i, v in enumerate(free) for path in v.axis.columns}
        return scenario_at(jax.tree.map(np.float64, self.base), [*settings, own])

    def _goals(self, numbers: jax.Array, settings: list[dict[str, Any]]) -> jax.Array:
        """Objectives, then constraints, of one design."""
        scenario = self._scenario(numbers, settings)
        answers = answers_at(JOBS[self.job], scenario, [goal.name for goal in (*self.objectives, *self.constraints)])

        def value(name: str) -> jax.Array:
            return jnp.asarray(answers[name] if name in answers else leaf(scenario, name), float)

        found = [objective.sign * value(objective.name) for objective in self.objectives]
        for constraint in self.constraints:
            kept = jnp.log(value(constraint.name) / constraint.limit)
            found.append(-kept if constraint.at_least else kept)
        return jnp.stack(found)

    @functools.cache  # noqa: B019 - a problem lives as long as its programs
    def _values(self, key: tuple[int, ...]) -> Callable:
        return _jitted(self._mapped(key, self._goals))

    @functools.cache  # noqa: B019
    def _slopes(self, key: tuple[int, ...]) -> Callable:
        columns = np.flatnonzero(~self._choice)

        def slopes(numbers: jax.Array, settings: list[dict[str, Any]]) -> jax.Array:
            # Forward mode: a design has few numbers, and XLA compiles it in half the time of reverse mode.
            values, along = jax.linearize(lambda n: self._goals(n, settings), numbers)
            rows = jax.vmap(along, out_axes=1)(jnp.eye(len(numbers)))
            spread = jnp.zeros((len(values), len(self.variables))).at[:, columns].set(rows)
            return jnp.concatenate([values[:, jnp.newaxis], spread], axis=1)

        return _jitted(self._mapped(key, slopes))


def _at(leaf: Any, places: np.ndarray) -> np.ndarray:
    """A leaf of every design; the number itself where all share it."""
    values = np.asarray(leaf, float)
    return values[places] if values.ndim else values


def _jitted(function: Callable) -> Callable:
    return jax.jit(function, compiler_options=QUICKLY if jax.default_backend() == "cpu" else None)

"""Named quantities of one scenario at many designs: values, and slopes in every variable."""

import concurrent.futures
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxroof.jobs import Job, Scenario
from jaxroof.memory.legality import legal
from jaxroof.numerics.arrays import jax
from jaxroof.numerics.arrays import jax_numpy as jnp
from sweeps.ask.axes import leaf, segments
from sweeps.run.compiled import prepared
from sweeps.run.evaluate import evaluate, gathered
from sweeps.run.points import Points, answers, answers_at, scenario_at
from sweeps.run.precision import precision
from sweeps.run.ways import EAGERLY, Way
from sweeps.studies.optimize.goals import require_answered
from sweeps.studies.optimize.variables import Variable

COMPILERS = 4
"""Programs that are compiled at once."""

Function = Callable[[Scenario], dict[str, jax.Array]]


class Evaluator:
    """Quantities, metrics of a job or leaves by path, of designs X of shape [n, d]; float64.

    Attributes:
      job, base: the job, and the scenario that designs start from.
      variables: of the columns of X.
      names: of the quantities.
    """

    def __init__(self, job: Job, base: Scenario, variables: tuple[Variable, ...], names: tuple[str, ...]):
        self.job, self.base, self.variables, self.names = job, base, variables, names
        self._choice = np.array([variable.choice for variable in variables])
        self._numbers = jax.tree.map(np.float64, base)
        self._paths = tuple(tuple(variable.axis.columns) for variable in variables if not variable.choice)
        self._segments = [tuple(segments(variable.axis)) if variable.choice else () for variable in variables]
        with precision("float64"):
            shapes = jax.eval_shape(functools.partial(answers_at, job), base)
        require_answered(list(names), shapes, base, job.name)

    def values(self, designs: np.ndarray, way: Way) -> np.ndarray:
        """Every quantity at every design, shape [n, quantities]."""
        return self._evaluated(quantities(self.job, self.names), designs, way)["values"]

    def slopes(self, designs: np.ndarray, way: Way) -> tuple[np.ndarray, np.ndarray]:
        """Quantities, shape [n, quantities], and their derivatives, shape [n, quantities, d]; 0 by a choice."""
        if not self._paths:
            values = self.values(designs, way)
            return values, np.zeros((*values.shape, len(self.variables)))
        arrays = self._evaluated(quantity_slopes(self.job, self.names, self._paths), designs, way)
        slopes = np.zeros((*arrays["values"].shape, len(self.variables)))
        slopes[:, :, ~self._choice] = arrays["slopes"]
        return arrays["values"], slopes

    def prepare(self, designs: np.ndarray, values: Way, slopes: Way) -> None:
        """Compile what `values` and `slopes` need for these designs, several programs at once."""
        ways = [(quantities(self.job, self.names), values)]
        if self._paths:
            # Programs of gradients first, because they take longer to compile.
            ways.insert(0, (quantity_slopes(self.job, self.names, self._paths), slopes))
        tasks = [(points, *how) for points in self._points(designs) for how in ways]
        with precision("float64"), concurrent.futures.ThreadPoolExecutor(COMPILERS) as pool:
            # `list` waits for all programs, and raises the error of one that failed.
            list(pool.map(lambda task: prepared(task[1], self._numbers, task[0], task[2]), tasks))

    def function(self, design: np.ndarray) -> Callable[[jax.Array], jax.Array]:
        """Quantities at the choices of `design`, shape [d], as a pure JAX function of the columns that are numbers."""
        (points,) = self._points(design[np.newaxis])
        # The last settings are the numbers, which the function sets from its argument.
        *settings, _ = jax.tree.map(lambda leaf: leaf[0] if np.ndim(leaf) else leaf, points.settings)
        of = quantities(self.job, self.names)
        return lambda numbers: of(scenario_at(self._numbers, [*settings, _set(self._paths, numbers)]))["values"]

    def metrics(self, designs: np.ndarray) -> dict[str, np.ndarray]:
        """Every metric of the job at every design, shapes [n]; NaN, False or -1 where a design's parts have none."""
        return self._evaluated(answers(self.job), designs, EAGERLY)

    def legal(self, designs: np.ndarray) -> np.ndarray:
        """Whether the deployments of the designs can be, shape [n]."""
        return self._evaluated(_legal, designs, EAGERLY)["legal"]

    def scenario(self, design: np.ndarray) -> Scenario:
        """The scenario of one design, shape [d]."""
        (points,) = self._points(design[np.newaxis])
        return scenario_at(
            self._numbers, jax.tree.map(lambda leaf: leaf[0] if np.ndim(leaf) else leaf, points.settings)
        )

    def _evaluated(self, function: Function, designs: np.ndarray, way: Way) -> dict[str, np.ndarray]:
        """What a function of a scenario returns at every design, in float64."""
        with precision("float64"):
            return gathered(evaluate(function, self._numbers, self._points(designs), way), len(designs))

    def _points(self, designs: np.ndarray) -> list[Points]:
        """Designs, structure by structure: the settings of every choice, then the columns that are numbers."""
        numbers = designs[:, ~self._choice]
        return [
            Points(rows, [*self._choices(key, designs[rows]), _set(self._paths, numbers[rows].T)])
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
        # Designs with the same segments of all choices have the same structure.
        keys, which = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
        # Flat, because the shape of the inverse differs between versions of NumPy.
        which = which.reshape(-1)
        return [(np.flatnonzero(which == number), tuple(map(int, key))) for number, key in enumerate(keys)]

    def _choices(self, key: tuple[int, ...], designs: np.ndarray) -> list[dict[str, Any]]:
        """The settings of every choice at designs of one structure; a leaf that all its positions share is a number.

        Args:
          key: number of the segment of every choice.
        """
        settings = []
        columns = [i for i, parts in enumerate(self._segments) if parts]
        for i, number in zip(columns, key, strict=True):
            segment = self._segments[i][number]
            # Where the position of each design stands in its segment.
            places = np.searchsorted(segment.positions, np.round(designs[:, i]).astype(int))
            settings.append(jax.tree.map(lambda leaf, places=places: _at(leaf, places), segment.settings))
        return settings


@functools.cache
def quantities(job: Job, names: tuple[str, ...]) -> Function:
    """Quantities of a scenario, shape [quantities]: the same function for the same job and names."""

    def values(scenario: Scenario) -> dict[str, jax.Array]:
        metrics = answers_at(job, scenario, names)
        numbers = [jnp.asarray(metrics[name] if name in metrics else leaf(scenario, name), float) for name in names]
        return {"values": jnp.stack(numbers)}

    return values


@functools.cache
def quantity_slopes(job: Job, names: tuple[str, ...], paths: tuple[tuple[str, ...], ...]) -> Function:
    """As `quantities`, with the derivatives by the numbers at `paths`, shape [quantities, numbers].

    Forward mode. A design has few numbers, and XLA compiles it in half the time of reverse mode.
    """
    of = quantities(job, names)

    def slopes(scenario: Scenario) -> dict[str, jax.Array]:
        # All paths of a variable have the same number: the first one stands for it.
        numbers = jnp.stack([jnp.asarray(leaf(scenario, own[0]), float) for own in paths])
        values, along = jax.linearize(lambda n: of(scenario_at(scenario, [_set(paths, n)]))["values"], numbers)
        # One linearisation, applied to the unit vector of every number.
        return {"values": values, "slopes": jax.vmap(along, out_axes=1)(jnp.eye(len(numbers)))}

    return slopes


def _set(paths: tuple[tuple[str, ...], ...], numbers: Any) -> dict[str, Any]:
    """The settings of variables that are numbers, from a value or a column for each of them."""
    return {path: numbers[i] for i, own in enumerate(paths) for path in own}


def _legal(scenario: Scenario) -> dict[str, jax.Array]:
    return {"legal": jnp.asarray(legal(scenario.hardware, scenario.model, scenario.deployment))}


def _at(leaf: Any, places: np.ndarray) -> np.ndarray:
    """A leaf of every design; the number itself where all share it."""
    values = np.asarray(leaf, float)
    return values[places] if values.ndim else values

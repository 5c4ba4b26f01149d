"""A job over axes on NumPy: every axis in a dimension of its own, so that each term is computed over its own axes."""

from typing import Any

import numpy as np

from jaxroof.jobs import Scenario
from jaxroof.numerics.arrays import eager, jnp
from jaxroof.numerics.derivatives import Marked, marked
from jaxroof.numerics.tree import leaves, mapped
from sweeps.ask.question import Question
from sweeps.run.points import along, in_dtype, scenario_at, used_terms

FLOAT64 = np.dtype("float64")

Settings = list[dict[str, Any]]
"""For every axis, the trees that it sets, by path; leaves that vary along it have one leading dimension."""


class Columns:
    """A question about settings of one structure, which is computed in float64 whenever it is called.

    Args:
      question: what to compute.
      settings: one dictionary per axis.
      dtype: of every float that is returned.

    Attributes:
      names: of the outputs, in the job's order.
      dims: numbers of the axes that each output depends on.
      ops: labels of the ops of every output that is a table.
      dtypes: type of every output.
    """

    def __init__(self, question: Question, settings: Settings, dtype: np.dtype):
        self.question = question
        base = in_dtype(question.base, FLOAT64)
        # One point stands for the structure: which terms are used does not depend on values.
        point = mapped(lambda leaf: np.asarray(leaf, float).reshape(-1)[0], settings)
        # Leaves that vary along axis i are marked with i; a leaf of shape () varies along none.
        marks = [
            mapped(lambda leaf, i=i: frozenset({i} if np.ndim(leaf) else ()), setting)
            for i, setting in enumerate(settings)
        ]
        self._used = used_terms(question.job, scenario_at(base, point), self._answers)
        # The marks are propagated through the job, so that every output knows the axes that it depends on.
        outputs = marked(
            lambda base, point: self._found(scenario_at(base, point)),
            (base, point),
            (mapped(lambda _: frozenset(), base), marks),
        )
        self.names = tuple(outputs)
        self.ops = {name: tuple(values) for name, values in outputs.items() if isinstance(values, dict)}
        self.dims = {name: frozenset().union(*map(_marks, leaves(values))) for name, values in outputs.items()}
        kinds = {name: np.result_type(*map(_dtype, leaves(values))) for name, values in outputs.items()}
        self.dtypes = {name: dtype if kind.kind == "f" else kind for name, kind in kinds.items()}

    def __call__(self, base: Scenario, settings: Settings) -> dict[str, np.ndarray]:
        """Every output over `settings`; dimensions are its axes in order, then ops."""
        # Positions along every axis: the length of its varying leaves, or 1 where none varies.
        sizes = [max((len(leaf) for leaf in leaves(setting) if np.ndim(leaf)), default=1) for setting in settings]
        # Each axis gets a dimension of its own, so that NumPy broadcasts terms over the axes that they need only.
        placed = [
            mapped(lambda leaf, i=i: along(leaf, i, len(settings)), setting) for i, setting in enumerate(settings)
        ]
        with eager():
            outputs = self._found(scenario_at(in_dtype(base, FLOAT64), placed))
        return {name: self._over_axes(name, values, sizes) for name, values in outputs.items()}

    def _over_axes(self, name: str, values: Any, sizes: list[int]) -> np.ndarray:
        """An output over the axes that it depends on, and over ops."""
        over = [i in self.dims[name] for i in range(len(sizes))]
        # Two shapes: one that broadcasts with size 1 along unused axes, and one without these axes.
        shape = [size if known else 1 for size, known in zip(sizes, over, strict=True)]
        own = [size for size, known in zip(sizes, over, strict=True) if known]
        tables = [np.broadcast_to(value, shape).reshape(own) for value in leaves(values)]
        return (np.stack(tables, axis=-1) if name in self.ops else tables[0]).astype(self.dtypes[name])

    def _found(self, scenario: Scenario) -> dict[str, Any]:
        """Metrics of the job, and its tables where they are asked for, as dicts by op."""
        job = self.question.job
        lazy = job.sums(scenario), job.tables(scenario)
        # Terms that no wanted metric needs are replaced by zeros instead of being computed.
        sums = {name: sum(terms().values()) if name in self._used else 0.0 for name, terms in lazy[0].items()}
        tables = {name: terms() if name in self._used else {"": 0.0} for name, terms in lazy[1].items()}
        return self._answers(scenario, sums, tables)

    def _answers(self, scenario: Scenario, sums: dict[str, Any], tables: dict[str, dict[str, Any]]) -> dict[str, Any]:
        question = self.question
        answers = question.job.metrics(scenario, sums, tables)
        if question.names is not None:
            answers = {name: answers[name] for name in question.names if name in answers}
        metrics = {name: jnp.asarray(value) for name, value in answers.items()}
        return metrics | (tables if question.breakdown else {})


def _marks(value: Any) -> frozenset[Any]:
    return value.marks if isinstance(value, Marked) else frozenset()


def _dtype(value: Any) -> np.dtype:
    return np.asarray(value.value if isinstance(value, Marked) else value).dtype

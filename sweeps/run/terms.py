"""A question at a point that is being traced: the terms of its job, and what is answered from their sums."""

import collections
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jaxroof.jobs import Scenario
from jaxroof.numerics.arrays import jnp
from sweeps.ask.question import Question
from sweeps.run.point import scenario_at, used_terms

Settings = list[dict[str, Any]]
"""For every axis, the trees that it sets, by path; leaves that vary along it have one leading dimension."""

Dims = frozenset[int]
"""Numbers of the axes that a value depends on."""


class Terms:
    """Functions of one point, shapes (), for JAX to trace.

    Args:
      question: what to compute.
      base: what the axes start from.
      settings: one dictionary per axis.
      dtype: of every float.

    Attributes:
      names: of the outputs, in the job's order; known once `answers` has run.
      ops: labels of the ops of every output that is a table; known once `terms` has run.
      point: settings of the first point.
    """

    def __init__(self, question: Question, base: Scenario, settings: Settings, dtype: np.dtype):
        self.question = question
        self.dtype = dtype
        self.names: tuple[str, ...] = ()
        self.ops: dict[str, tuple[str, ...]] = {}
        self.point = jax.tree.map(lambda leaf: leaf.reshape(-1)[0] if leaf.ndim else leaf, settings)
        scenario, job = scenario_at(base, self.point), question.job
        self._sums, self._tables = tuple(job.sums(scenario)), tuple(job.tables(scenario))
        self._used = used_terms(job, scenario, self._answers)

    def terms(self, base: Scenario, settings: Settings) -> dict[str, dict[str, dict[str, Any]]]:
        """Every term that is used, by sum or table and then by op."""
        scenario, job = scenario_at(base, settings), self.question.job
        sums = {name: terms() for name, terms in job.sums(scenario).items() if name in self._used}
        tables = {name: terms() for name, terms in job.tables(scenario).items() if name in self._used}
        self.ops = {name: tuple(terms) for name, terms in tables.items()}
        return {"sums": sums, "tables": tables}

    def answers(self, base: Scenario, settings: Settings, found: dict[str, dict[str, Any]]) -> dict[str, Any]:
        """Outputs by name, from the parts of every sum, and from tables term by term."""
        unused = jnp.zeros((), self.dtype)
        sums = {name: sum(found["sums"].get(name, [unused])) for name in self._sums}
        tables = {
            name: {op: found["tables"][name][op] for op in self.ops[name]} if name in self.ops else {"": unused}
            for name in self._tables
        }
        return self._answers(scenario_at(base, settings), sums, tables)

    def _answers(self, scenario: Scenario, sums: dict[str, Any], tables: dict[str, dict[str, Any]]) -> dict[str, Any]:
        question = self.question
        answers = question.job.metrics(scenario, sums, tables)
        if question.names is not None:
            answers = {name: answers[name] for name in question.names if name in answers}
        if question.breakdown:
            answers |= {name: jnp.stack([*map(jnp.asarray, terms.values())]) for name, terms in tables.items()}
        self.names = tuple(answers)
        return {name: jnp.asarray(value) for name, value in answers.items()}


def groups(dims: dict[str, Dims]) -> list[Dims]:
    """The sets of axes that the terms of one sum depend on, small ones first: terms of one set are summed together."""
    return sorted(set(dims.values()), key=lambda own: (len(own), sorted(own)))


def kept(make: Callable[..., Any], question: Question, settings: Settings, dtype: np.dtype) -> Any:
    """The program `make(question, settings, dtype)`: one that is there already, where only numbers differ."""
    varies = jax.tree.map(lambda leaf: bool(leaf.ndim), settings)
    leaves, structure = jax.tree.flatten(varies)
    own = make, question.job, question.names, question.breakdown, jax.tree.structure(question.base)
    key = *own, structure, tuple(leaves), dtype, jax.config.jax_enable_x64  # type: ignore[attr-defined]
    if key in _KEPT:
        _KEPT.move_to_end(key)
        return _KEPT[key]
    _KEPT[key] = make(question, settings, dtype)
    if len(_KEPT) > MOST_KEPT:
        _KEPT.popitem(last=False)
    return _KEPT[key]


MOST_KEPT = 64
"""Programs that are kept for the next sweep of the same structure."""

_KEPT: collections.OrderedDict[tuple, Any] = collections.OrderedDict()

"""A job over axes as two functions: every term over its own axes only, then sums and metrics by broadcasting.

Nested `vmap`, one per axis, leaves each value with the axes that it depends on; but one compiled function would fuse
all of it into the final loop and compute every term again at every point. Two functions meet in arrays instead.
"""

import collections
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxroof.jobs import Scenario
from jaxroof.numerics.arrays import jax, jax_setting, jnp
from jaxroof.numerics.derivatives import example, output_dependence
from jaxroof.tracing import apart
from sweeps.ask.question import Question
from sweeps.run.points import in_dtype, scenario_at, used_terms

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
        # One point stands for all: shapes and names are the same at each.
        self.point = jax.tree.map(lambda leaf: leaf.reshape(-1)[0] if leaf.ndim else leaf, settings)
        scenario, job = scenario_at(base, self.point), question.job
        self._sums, self._tables = tuple(job.sums(scenario)), tuple(job.tables(scenario))
        self._used = used_terms(job, scenario, self._answers)

    def terms(self, base: Scenario, settings: Settings) -> dict[str, dict[str, dict[str, Any]]]:
        """Every term that is used, by sum or table and then by op."""
        scenario, job = scenario_at(base, settings), self.question.job
        sums = {name: terms() for name, terms in job.sums(scenario).items() if name in self._used}
        tables = {name: terms() for name, terms in job.tables(scenario).items() if name in self._used}
        # Stored while JAX traces, because names cannot be part of a traced result.
        self.ops = {name: tuple(terms) for name, terms in tables.items()}
        return {"sums": sums, "tables": tables}

    def answers(self, base: Scenario, settings: Settings, found: dict[str, dict[str, Any]]) -> dict[str, Any]:
        """Outputs by name, from the parts of every sum, and from tables term by term."""
        # Sums and tables that nothing depends on are zeros.
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
            # Ops become the last dimension of a table.
            columns = {name: jnp.stack([*map(jnp.asarray, terms.values())]) for name, terms in tables.items()}
            answers = {**answers, **columns}
        self.names = tuple(answers)
        return {name: jnp.asarray(value) for name, value in answers.items()}


def groups(dims: dict[str, Dims]) -> list[Dims]:
    """The sets of axes that the terms of one sum depend on, small ones first: terms of one set are summed together."""
    return sorted(set(dims.values()), key=lambda own: (len(own), sorted(own)))


def kept(make: Callable[..., Any], question: Question, settings: Settings, dtype: np.dtype) -> Any:
    """The program `make(question, settings, dtype)`: one that is there already, where only numbers differ."""
    # Two questions share a program where they differ in numbers only.
    varies = jax.tree.map(lambda leaf: bool(leaf.ndim), settings)
    leaves, structure = jax.tree.flatten(varies)
    own = make, question.job, question.names, question.breakdown, jax.tree.structure(question.base)
    key = *own, structure, tuple(leaves), dtype, jax_setting("jax_enable_x64")
    if key in _KEPT:
        # The order of use decides which program is dropped first.
        _KEPT.move_to_end(key)
        return _KEPT[key]
    _KEPT[key] = make(question, settings, dtype)
    if len(_KEPT) > MOST_KEPT:
        _KEPT.popitem(last=False)
    return _KEPT[key]


MOST_KEPT = 64
"""Programs that are kept for the next sweep of the same structure."""

_KEPT: collections.OrderedDict[tuple[Any, ...], Any] = collections.OrderedDict()


class XlaProgram:
    """A question as two functions for settings of one structure; `sweeps.run.device_calls` compiles and calls them.

    The first is of a base and settings, the second of these and of what the first returned. Outputs have a dimension
    for each of their axes in order, then ops.

    Args:
      question: what to compute.
      settings: one dictionary per axis.
      dtype: of every float.

    Attributes:
      names: of the outputs, in the job's order.
      dims: axes that each output depends on.
      ops: labels of the ops of every output that is a table.
      dtypes: type of every output.
      functions: both, to be compiled.
      first_dims: axes of what the first returns, in its structure; `between`: the same without it.
      base: of the structure that the functions take, in `dtype`; `example`: such settings, of one position each.
      executables: what has been compiled of them.
    """

    def __init__(self, question: Question, settings: Settings, dtype: np.dtype):
        self.base = base = in_dtype(question.base, dtype)
        self.dtype = dtype
        self.executables: dict[Any, Any] = {}
        self.example = jax.tree.map(lambda leaf: np.zeros((1,) * leaf.ndim, dtype), settings)
        self._terms = Terms(question, base, settings, dtype)
        point = self._terms.point
        # Every varying leaf is marked with its axis; marks tell which axes a term depends on.
        axis_of = [
            jax.tree.map(lambda leaf, i=i: frozenset({i} if leaf.ndim else ()), setting)
            for i, setting in enumerate(settings)
        ]
        term_dims = output_dependence(self._terms.terms, (base, point), (_unmarked(base), axis_of))
        # Terms over the same axes are added before the sums meet over all axes.
        self._groups = {name: groups(dims) for name, dims in term_dims["sums"].items()}
        self._dims_of_terms = term_dims["sums"]
        first_dims = {"sums": self._groups, "tables": term_dims["tables"]}
        # Shapes and types alone: nothing is computed here.
        shapes = jax.eval_shape(self._first_at_a_point, base, point)
        self.dims: dict[str, Dims] = output_dependence(
            self._terms.answers, (base, point, example(shapes)), (_unmarked(base), axis_of, first_dims)
        )
        results = jax.eval_shape(self._terms.answers, base, point, shapes)
        self.dtypes = {name: result.dtype for name, result in results.items()}
        self.names, self.ops = self._terms.names, self._terms.ops
        self.first_dims = first_dims
        self.between = jax.tree.leaves(first_dims, is_leaf=lambda dims: isinstance(dims, frozenset))
        self.functions = self._over_axes(settings, first_dims)

    def _first_at_a_point(self, base: Scenario, settings: Settings) -> dict[str, dict[str, Any]]:
        """Sums of the terms that depend on the same axes, and tables term by term."""
        # Each term is mapped over the axes that it depends on: ops of one kind may depend on different ones.
        with apart():
            terms, dims = self._terms.terms(base, settings), self._dims_of_terms
        # One partial sum for each set of axes that terms of this sum depend on.
        sums = {
            name: [
                sum(
                    jnp.asarray(term, self._terms.dtype)
                    for op, term in terms["sums"][name].items()
                    if dims[name][op] == own
                )
                for own in self._groups[name]
            ]
            for name in self._groups
        }
        return {"sums": sums, "tables": jax.tree.map(jnp.asarray, terms["tables"])}

    def _over_axes(self, settings: Settings, first_dims: Any) -> tuple[Any, ...]:
        """Both functions, one `vmap` per axis, innermost last axis first."""
        varies = jax.tree.map(lambda leaf: 0 if leaf.ndim else None, settings)
        first, second = self._first_at_a_point, self._terms.answers
        # The last axis is mapped first, and thus innermost, so that dimensions come in the order of the axes.
        for i in reversed(range(len(settings))):
            here = [varies[j] if j == i else None for j in range(len(settings))]
            # An axis along which no leaf varies needs no mapping.
            if not jax.tree.leaves(here):
                continue
            # Results that do not depend on this axis get no dimension for it.
            over = jax.tree.map(
                lambda d, i=i: 0 if i in d else None, first_dims, is_leaf=lambda d: isinstance(d, frozenset)
            )
            out = {name: 0 if i in dims else None for name, dims in self.dims.items()}
            first = jax.vmap(first, in_axes=(None, here), out_axes=over)
            second = jax.vmap(second, in_axes=(None, here, over), out_axes=out)
        return first, second


def _unmarked(tree: Any) -> Any:
    return jax.tree.map(lambda _: frozenset(), tree)

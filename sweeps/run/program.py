"""A job over axes as two compiled functions: every term over its own axes only, then sums and metrics by broadcasting.

Nested `vmap`, one per axis, leaves each value with the axes that it depends on; but one compiled function would fuse
all of it into the final loop and compute every term again at every point. Two functions meet in arrays instead.
"""

from typing import Any

import jax
import numpy as np

from jaxroof.jobs import Scenario
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.derivatives import example, output_dependence
from sweeps.ask.question import Question
from sweeps.run.point import in_dtype
from sweeps.run.terms import Dims, Settings, Terms, groups


class Program:
    """A question compiled for settings of one structure.

    Args:
      question: what to compute.
      settings: one dictionary per axis.
      dtype: of every float.

    Attributes:
      names: of the outputs, in the job's order.
      dims: axes that each output depends on.
      ops: labels of the ops of every output that is a table.
      dtypes: type of every output.
    """

    def __init__(self, question: Question, settings: Settings, dtype: np.dtype):
        base = in_dtype(question.base, dtype)
        self._terms = Terms(question, base, settings, dtype)
        point = self._terms.point
        axis_of = [
            jax.tree.map(lambda leaf, i=i: frozenset({i} if leaf.ndim else ()), setting)
            for i, setting in enumerate(settings)
        ]
        term_dims = output_dependence(self._terms.terms, (base, point), (_unmarked(base), axis_of))
        self._groups = {name: groups(dims) for name, dims in term_dims["sums"].items()}
        self._dims_of_terms = term_dims["sums"]
        first_dims = {"sums": self._groups, "tables": term_dims["tables"]}
        shapes = jax.eval_shape(self._first_at_a_point, base, point)
        self.dims: dict[str, Dims] = output_dependence(
            self._terms.answers, (base, point, example(shapes)), (_unmarked(base), axis_of, first_dims)
        )
        results = jax.eval_shape(self._terms.answers, base, point, shapes)
        self.dtypes = {name: result.dtype for name, result in results.items()}
        self.names, self.ops = self._terms.names, self._terms.ops
        self._first, self._second = self._over_axes(settings, first_dims)

    def __call__(self, base: Scenario, settings: Settings) -> dict[str, jax.Array]:
        """Every output over `settings`; dimensions are its axes in order, then ops.

        Args:
          base: what the axes start from, of the question's structure, in `dtype`.
        """
        return self._second(base, settings, self._first(base, settings))

    def _first_at_a_point(self, base: Scenario, settings: Settings) -> dict[str, dict[str, Any]]:
        """Sums of the terms that depend on the same axes, and tables term by term."""
        terms, dims = self._terms.terms(base, settings), self._dims_of_terms
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

    def _over_axes(self, settings: Settings, first_dims: Any) -> tuple:
        """Both functions, one `vmap` per axis, innermost last axis first."""
        varies = jax.tree.map(lambda leaf: 0 if leaf.ndim else None, settings)
        first, second = self._first_at_a_point, self._terms.answers
        for i in reversed(range(len(settings))):
            here = [varies[j] if j == i else None for j in range(len(settings))]
            if not jax.tree.leaves(here):
                continue
            over = jax.tree.map(
                lambda d, i=i: 0 if i in d else None, first_dims, is_leaf=lambda d: isinstance(d, frozenset)
            )
            out = {name: 0 if i in dims else None for name, dims in self.dims.items()}
            first = jax.vmap(first, in_axes=(None, here), out_axes=over)
            second = jax.vmap(second, in_axes=(None, here, over), out_axes=out)
        return jax.jit(first), jax.jit(second)


def _unmarked(tree: Any) -> Any:
    return jax.tree.map(lambda _: frozenset(), tree)

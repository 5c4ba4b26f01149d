"""Scalars of many engines as rows of two arrays: one gather and one write for all of them."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from jaxroof.numerics.arrays import jax, jnp
from jaxroof.numerics.struct import Array

T = TypeVar("T")


def apart(rows: Callable[[], T], always: Array) -> T:
    """Rows of arrays that are written later, read once.

    XLA reads rows again wherever they are used, and copies the arrays where that is after they are written; it does not
    so with what a branch reads and returns.

    Args:
      rows: without arguments.
      always: bool: true, which XLA does not know.
    """
    return jax.lax.cond(always, rows, lambda: jax.tree.map(jnp.zeros_like, jax.eval_shape(rows)))


class Rows(NamedTuple):
    """Scalars of every engine."""

    wholes: Array  # int32, shape [engines, whole numbers and conditions]
    floats: Array  # shape [engines, floats]

    def at(self, engine: Array, like: Any, always: Array) -> Any:
        """The tree of one engine's scalars.

        Args:
          like: a tree of this structure and these types.
          always: as of `apart`.
        """
        leaves, structure = jax.tree.flatten(like)
        wholes, floats = apart(lambda: (self.wholes[engine], self.floats[engine]), always)
        found, places = [], [0, 0]
        for leaf in leaves:
            real = jnp.issubdtype(leaf.dtype, jnp.floating)
            row = floats if real else wholes
            found.append(row[places[real]].astype(leaf.dtype))
            places[real] += 1
        return jax.tree.unflatten(structure, found)

    def with_row(self, engine: Array, tree: Any) -> "Rows":
        """The rows with the scalars of one engine."""
        wholes, floats = _kinds([jnp.asarray(leaf) for leaf in jax.tree.leaves(tree)])
        return Rows(self.wholes.at[engine].set(jnp.stack(wholes)), self.floats.at[engine].set(jnp.stack(floats)))


def rows(tree: Any, engines: int) -> Rows:
    """Rows of engines that begin with these scalars, of shape () or [engines]."""
    leaves = [jnp.broadcast_to(jnp.asarray(leaf), (engines,)) for leaf in jax.tree.leaves(tree)]
    wholes, floats = _kinds(leaves)
    return Rows(jnp.stack(wholes, axis=1), jnp.stack(floats, axis=1))


def _kinds(leaves: list[Array]) -> tuple[list[Array], list[Array]]:
    """Whole numbers and conditions, as int32, and floats, in their order."""
    real = [jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves]
    wholes = [leaf.astype(jnp.int32) for leaf, is_float in zip(leaves, real, strict=True) if not is_float]
    return wholes, [leaf for leaf, is_float in zip(leaves, real, strict=True) if is_float]

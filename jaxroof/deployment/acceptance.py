"""Acceptance of drafted tokens as a measured table: by position, decoding sequences and context.

The probability p_k that the draft of position k is right, given that those before it are, is linear between the nodes
of the table, first along the sequences that decode together, then along the context; beyond the first and the last node
it is that of the node. Positions that the table lacks are never right. Probabilities are interpolated, not their
products.

A step goes by the number of sequences that decode in it, and of every sequence by its context with the new token. A
closed form goes by its batch and its mean context.
"""

from collections.abc import Sequence
from typing import Any

from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.struct import Array, Scalar, static, struct


@struct
class AcceptanceTable:
    """Probabilities that drafts are right, at all pairs of batch and context; structure, not data."""

    sequences: tuple[float, ...] = static()  # that decode together, increasing
    contexts: tuple[float, ...] = static()  # tokens with the new one, increasing
    right: tuple[tuple[tuple[float, ...], ...], ...] = static()  # by sequences, context and position

    @property
    def positions(self) -> int:
        """Positions that it has."""
        return len(self.right[0][0])

    def at(self, sequences: Scalar, context: Scalar) -> tuple[Array, ...]:
        """Probabilities by position, of the shape that `sequences` and `context` have together.

        Args:
          sequences: that decode together.
          context: tokens with the new one, of one sequence.
        """
        positions = range(self.positions)
        rows = [[[each[place][k] for each in self.right] for k in positions] for place in range(len(self.contexts))]
        found = [[between(self.sequences, row[k], sequences) for row in rows] for k in positions]
        return tuple(jnp.asarray(between(self.contexts, each, context)) for each in found)


def between(nodes: Any, values: Sequence[Any] | Array, place: Scalar) -> Array:
    """What is linear between `values` at `nodes`, and level beyond them.

    Args:
      nodes: increasing, shape [n].
      values: at them, shape [n, ...].
      place: of a shape that broadcasts with one of the values.
    """
    found = values[0]
    for i in range(len(values) - 1):
        # 0 up to the node, 1 from the next one on: exact at both.
        share = jnp.clip((place - nodes[i]) / (nodes[i + 1] - nodes[i]), 0.0, 1.0)
        found = found * (1.0 - share) + values[i + 1] * share
    return found

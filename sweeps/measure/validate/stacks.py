"""Structs of one structure as one struct of arrays, so that one compiled function prices them all."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from sweeps.measure.validate.relative_errors import grouped


def stack(trees: Sequence[Any]) -> Any:
    """Trees of one structure as one tree whose leaves have a first axis of shape [trees]."""
    return jax.tree.map(lambda *leaves: np.asarray(leaves, dtype=float), *trees)


def positions_by_structure(trees: Sequence[Any]) -> list[list[int]]:
    """Positions of the trees of each structure, in the order in which structures come first."""
    return list(grouped(range(len(trees)), lambda position: jax.tree.structure(trees[position])).values())


def stacked(trees: Sequence[Any]) -> tuple[np.ndarray, list[Any]]:
    """Trees of one structure as one tree of arrays each; and where in their concatenation each of `trees` stands."""
    kinds = positions_by_structure(trees)
    return np.argsort(np.concatenate(kinds)), [stack([trees[i] for i in positions]) for positions in kinds]

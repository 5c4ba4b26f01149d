"""Representative part of a large sample, for pictures and statistics, the same every time."""

import numpy as np

MOST_POINTS = 20_000
"""Points that are drawn at most: more only hide one another."""


def picked(size: int) -> np.ndarray:
    """Positions of the points of `size` that stand for all: all of a few, else as many as are useful, in order."""
    if size <= MOST_POINTS:
        return np.arange(size)
    return np.unique(np.random.default_rng(0).integers(0, size, MOST_POINTS))


def distinct(values: np.ndarray) -> np.ndarray:
    """The different values among those that stand for all, sorted."""
    return np.unique(values[picked(values.size)])

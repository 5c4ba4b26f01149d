"""Several objectives at once: designs on the Pareto front, and weights that spread a search over them."""

import numpy as np


def nondominated(objectives: np.ndarray) -> np.ndarray:
    """Rows that no other row beats in every objective, along the first one; rows that are not finite are left out.

    Args:
      objectives: to be made small, shape [n, objectives].
    """
    rows = np.flatnonzero(np.isfinite(objectives).all(axis=1))
    order = rows[np.lexsort(objectives[rows].T[::-1])]
    front: list[int] = []
    for row in order:
        values = objectives[row]
        if not any((objectives[other] <= values).all() for other in front):
            front.append(int(row))
    return np.array(front, int)


def spread_weights(objectives: int, n: int) -> np.ndarray:
    """`n` weights of the objectives that sum to 1, evenly over the simplex, shape [n, objectives]."""
    if objectives == 1:
        return np.ones((n, 1))
    if objectives == 2:
        shares = np.linspace(0.02, 0.98, n)
        return np.stack([shares, 1.0 - shares], axis=1)
    from scipy.stats import qmc

    draws = -np.log(qmc.Sobol(objectives, scramble=False).random_base2(max(int(np.ceil(np.log2(n + 1))), 1))[1 : n + 1])
    return draws / draws.sum(axis=1, keepdims=True)

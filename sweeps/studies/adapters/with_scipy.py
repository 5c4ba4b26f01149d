"""A design problem as arguments of scipy.optimize.minimize."""

from typing import Any

import numpy as np

from sweeps.studies.optimize.cube import Shares


def arguments(shares: Shares, start: np.ndarray | None = None, method: str = "SLSQP") -> dict[str, Any]:
    """Arguments of `scipy.optimize.minimize`: minimize(**arguments(shares), options={..}).

    The objective is in logarithms and every number a share of its range, so that the solver sees slopes of order 1;
    objective, constraints and both their derivatives at one point cost one evaluation of the problem.

    Args:
      shares: the problem's numbers at given choices; `shares.designs(result.x)` is the design that was found.
      start: where to begin, shares of shape [k]; None: the middle of every range.
      method: "SLSQP" or "trust-constr", which both take bounds, constraints and their derivatives.
    """
    from scipy.optimize import BFGS, Bounds, NonlinearConstraint

    if method not in ("SLSQP", "trust-constr"):
        raise ValueError(
            f'method = {method!r} must be "SLSQP" or "trust-constr", which keep constraints by derivatives'
        )

    class Curvature(BFGS):
        """Curvature of functions that may be straight lines in these coordinates, as a bandwidth's logarithm is."""

        def update(self, change: np.ndarray, slope_change: np.ndarray) -> None:
            # SciPy warns of every update of a slope that did not change, which is no fault of a straight line.
            if np.any(slope_change):
                super().update(change, slope_change)

    constraint = NonlinearConstraint(
        lambda x: shares.goals(x).constraints,
        -np.inf,
        0.0,
        jac=lambda x: shares.goals(x).constraint_slopes,
        hess=Curvature(),
    )
    return {
        # `Shares.goals` keeps its last answer: value, slopes and constraints at one point are one evaluation.
        "fun": lambda x: shares.goals(x).score,
        "x0": shares.start if start is None else np.asarray(start, float),
        "jac": lambda x: shares.goals(x).slopes,
        "bounds": Bounds(0.0, 1.0, keep_feasible=True),
        "constraints": [constraint],
        "method": method,
    } | ({"hess": Curvature()} if method == "trust-constr" else {})

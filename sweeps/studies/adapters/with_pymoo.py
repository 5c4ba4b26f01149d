"""A design problem as a vectorised problem of pymoo."""

from typing import Any

import numpy as np

from sweeps.studies.adapters.libraries import library
from sweeps.studies.optimize.cube import Cube
from sweeps.studies.optimize.problem import Problem


def pymoo_problem(problem: Problem) -> Any:
    """A `pymoo.core.problem.Problem`: one call per population, constraints as inequalities, every variable from 0 to 1.

    Choices, counts and lists are rounded inside, so that any algorithm on real variables will do;
    `pymoo_problem(..).designs(result.X)` are the designs, shape [n, d]. Objectives are to be made small: one to be
    maximised is negated.

    Raises:
      ValueError: one line with the command that installs pymoo, where it is missing.
    """
    core = library("pymoo.core.problem", "pymoo")
    cube = Cube(problem)

    class Designs(core.Problem):  # type: ignore[name-defined]
        """Populations of points of the unit cube."""

        def __init__(self) -> None:
            super().__init__(
                n_var=len(problem.names),
                n_obj=len(problem.objectives),
                n_ieq_constr=len(cube.constraint_names),
                xl=0.0,
                xu=1.0,
            )

        def _evaluate(self, x: np.ndarray, out: dict[str, Any], *args: Any, **kwargs: Any) -> None:
            # pymoo's own names of objectives, shape [n, objectives], and of inequalities, shape [n, constraints].
            out["F"], out["G"] = cube.evaluate(x)

        def designs(self, x: np.ndarray) -> np.ndarray:
            """Designs of points, shape [n, d]."""
            return cube.designs(np.atleast_2d(x))

    return Designs()

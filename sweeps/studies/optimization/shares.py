"""The numbers of a design problem at given choices, scaled for solvers: shares of their ranges, goals in logarithms."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from hwspaces.quantities.units import nearest
from sweeps.studies.optimization.problem import Problem


@dataclasses.dataclass(frozen=True)
class Goals:
    """Goals of one design for a solver, in logarithms, with the derivatives by every share."""

    objective: float  # to be made small
    score: float  # its logarithm
    constraints: np.ndarray  # [constraints], kept where <= 0
    slopes: np.ndarray  # [k]
    constraint_slopes: np.ndarray  # [constraints, k]


class Shares:
    """The k numbers of a problem as shares of their ranges: 0 is the lower bound, 1 the upper; ratios where positive.

    Bandwidths in 1e12 B/s beside core counts in 1e2 then weigh the same, and a power law is a straight line.

    Attributes:
      problem: the problem.
      names: of the numbers.
      start: the middle of every range, shape [k].
    """

    def __init__(self, problem: Problem, choices: Mapping[str, Any] | None = None):
        """At `choices`, the label of every variable that is a choice, by name; one that has one label may be left out.

        Raises:
          ValueError: one line: there are several objectives, or a choice is missing, unknown or has no such label.
        """
        if len(problem.objectives) != 1:
            raise ValueError(f"a solver has one objective; there are {', '.join(problem.objective_names)}")
        self.problem = problem
        self._base = _chosen(problem, choices or {})
        self.columns = np.array([i for i, v in enumerate(problem.variables) if not v.choice], int)
        self.names = tuple(problem.names[i] for i in self.columns)
        self.start = np.full(len(self.columns), 0.5)
        self._last: tuple[bytes, Goals] | None = None

    @property
    def base(self) -> np.ndarray:
        """A design with the choices, its numbers at their lower bounds, shape [d]."""
        return self._base.copy()

    def designs(self, shares: np.ndarray) -> np.ndarray:
        """Designs of the problem, shape [..., d], at shares of shape [..., k]; shares beyond 0 and 1 are clipped."""
        shares = np.clip(np.asarray(shares, float), 0.0, 1.0)
        found = np.broadcast_to(self._base, (*shares.shape[:-1], len(self._base))).copy()
        for j, i in enumerate(self.columns):
            found[..., i] = self.problem.variables[i].unit_values(shares[..., j])
        return found

    def goals(self, shares: np.ndarray) -> Goals:
        """Goals at shares of shape [k]; the last answer is kept, so that a solver may ask for its parts one by one."""
        key = np.asarray(shares, float).tobytes()
        if self._last is None or self._last[0] != key:
            self._last = key, self._computed(shares)
        return self._last[1]

    def _computed(self, shares: np.ndarray) -> Goals:
        design = self.designs(shares)
        found = self.problem.value_and_grad(design[np.newaxis])
        moved = [self.problem.variables[i].slope(design[i : i + 1])[0] for i in self.columns]
        value = found.objectives[0, 0]
        return Goals(
            float(value),
            float(np.sign(value) * np.log(np.abs(value))),
            found.constraints[0],
            found.objective_slopes[0, 0, self.columns] * moved / np.abs(value),
            found.constraint_slopes[0][:, self.columns] * moved,
        )


def _chosen(problem: Problem, choices: Mapping[str, Any]) -> np.ndarray:
    """A design with the positions of the choices."""
    for name in choices:
        if name not in problem.choices:
            raise ValueError(f"choices: {name} is not a choice of this problem{nearest(name, list(problem.choices))}")
    design = problem.lower.copy()
    for i, variable in enumerate(problem.variables):
        if not variable.choice:
            continue
        labels = list(variable.labels)
        shown = ", ".join(str(label) for label in labels)
        if variable.name not in choices:
            if len(labels) > 1:
                raise ValueError(f"choices: {variable.name} is missing; it must be one of {shown}")
            continue
        if choices[variable.name] not in labels:
            raise ValueError(f"choices: {variable.name} = {choices[variable.name]!r} must be one of {shown}")
        design[i] = labels.index(choices[variable.name])
    return design

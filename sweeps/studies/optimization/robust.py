"""Price of robustness: the robust optimum and the nominal one in every scenario."""

import dataclasses

import numpy as np

from sweeps.studies.optimization.descent import KEPT, worst
from sweeps.studies.optimization.problem import Problem


@dataclasses.dataclass(frozen=True)
class Robustness:
    """Two designs in every scenario; the first scenario is the nominal one, for which one of the designs is best."""

    scenarios: tuple[str, ...]
    nominal_design: np.ndarray  # [d]
    nominal: np.ndarray  # [scenarios], the objective as users read it
    robust: np.ndarray  # [scenarios]
    nominal_keeps: np.ndarray  # bool: the scenario's constraints, by the nominal design
    nominal_excess: np.ndarray  # the largest of ln(value / limit) there

    @property
    def price(self) -> np.ndarray:
        """Robust over nominal objective, less 1, shape [scenarios]."""
        return self.robust / self.nominal - 1.0


def robustness(problem: Problem, robust: np.ndarray, nominal: np.ndarray) -> Robustness:
    """Both designs, shapes [d], in every scenario of a problem of one objective."""
    designs = np.stack([nominal, robust])
    (cases,) = problem.cases(designs)
    _, constraints = problem.evaluate(designs[:1])
    own = np.array([[one.member.scenario == name for one in problem.kept] for name in problem.scenarios])
    # What depends on the hardware alone is kept once, for all.
    own |= np.array([one.constraint.of_device and not one.constraint.of for one in problem.kept])
    excess = np.array([worst(constraints[:, mine])[0] for mine in own])
    return Robustness(
        scenarios=problem.scenarios,
        nominal_design=nominal,
        nominal=cases.values[0],
        robust=cases.values[1],
        nominal_keeps=excess <= KEPT,
        nominal_excess=excess,
    )

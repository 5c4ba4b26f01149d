"""An optimum as a labelled dataset: the designs with all their metrics, and slices through the best of them."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from sweeps.ask.names import UDUNITS, variable, variable_attributes
from sweeps.data.pieces import blank
from sweeps.studies.optimize import optimum
from sweeps.studies.optimize.descent import worst
from sweeps.studies.optimize.goals import ROOTS, Goal, harmonic, unit_of
from sweeps.studies.optimize.optimum import Optimum
from sweeps.studies.optimize.problem import Problem
from sweeps.studies.optimize.variables import Variable

STEPS = 41
"""Designs of one slice."""

EXTRAPOLATIONS = tuple(f"{step}_extrapolation" for step in ("step", "prefill", "decode"))
"""Metrics that say how far engine steps are beyond the evidence."""


@dataclasses.dataclass(frozen=True)
class Slice:
    """The first objective along one variable through a design, everything else as it is there."""

    variable: Variable
    values: np.ndarray  # [STEPS] or one per choice: the column of the design
    objective: np.ndarray  # as users read it
    violation: np.ndarray  # the largest constraint; kept where <= 0
    worst: np.ndarray  # which constraint that is, its position
    at: float  # the design's own value
    octaves: np.ndarray  # beyond the evidence of the constants, the step that is furthest; 0 where none is known


def _octaves(problem: Problem, designs: np.ndarray) -> np.ndarray:
    """Octaves beyond the evidence of the constants of every design, of the member and step that is furthest; [n]."""
    furthest = np.zeros(len(designs))
    for member in problem.flat:
        known = member.evaluator.metrics(designs[:, member.columns])
        for name in EXTRAPOLATIONS:
            # A job without this step, or without known evidence, counts as 0.
            furthest = np.maximum(furthest, np.nan_to_num(known.get(name, 0.0)))
    return furthest


def slices(problem: Problem, design: np.ndarray) -> tuple[Slice, ...]:
    """One slice per variable."""
    columns = []
    for own in problem.variables:
        columns.append(
            np.arange(len(own.labels), dtype=float) if own.choice else own.unit_values(np.linspace(0.0, 1.0, STEPS))
        )
    # All slices are evaluated in one batch, and cut apart afterwards.
    designs = np.concatenate([_along(design, i, column) for i, column in enumerate(columns)])
    objectives, constraints = problem.evaluate(designs)
    legal = problem.legal(designs)
    # A deployment that cannot be violates by infinity.
    violations = np.where(legal, worst(constraints), np.inf)
    values, largest = problem.objectives[0].sign * objectives[:, 0], np.argmax(constraints, axis=1)
    cuts = np.cumsum([len(column) for column in columns])[:-1]
    parts = zip(
        *(columns, *(np.split(every, cuts) for every in (values, violations, largest, _octaves(problem, designs)))),
        strict=True,
    )
    return tuple(
        Slice(problem.variables[i], column, value, violation, which, float(design[i]), far)
        for i, (column, value, violation, which, far) in enumerate(parts)
    )


def dataset(found: Optimum) -> xr.Dataset:
    """Every design of the search, the best first, along `design`.

    Returns:
      Per design its variables as coordinates, every metric of the job, `feasible`, and per constraint
      ln(value / limit), which is not positive where it is kept; SI units. Attributes hold the specification, what is
      active with its elasticity, the best point of the grid, versions, effort and seconds.
    """
    problem = found.problem
    columns, labels = _metrics(problem, found.designs)
    for i, objective in enumerate(problem.objectives):
        # An objective that is no metric, or the mean or worst case of several members, has a column of its own.
        if objective.name not in columns or len(problem.flat) > 1:
            values = objective.sign * found.objectives[:, i]
            columns["objective" if i == 0 else f"objective_{i + 1}"] = (("design",), values, _goal(objective, problem))
    meaning = {"units": "1", "long_name": "ln(value / limit) of a constraint, kept where not positive"}
    columns["constraint_excess"] = (("design", "constraint"), found.constraints, meaning)
    columns["keeps_constraints"] = (("design",), found.feasible, {"units": "1", "long_name": "keeps every constraint"})
    labels["constraint"] = (("constraint",), np.array(problem.constraint_names, object))
    for i, own in enumerate(problem.variables):
        label = own.axis.coordinates[0]
        values = np.array([problem.label(own, value) for value in found.designs[:, i]])
        text = values.dtype.kind not in "fiu"
        unit = UDUNITS.get(label.unit, label.unit)
        attributes = {"units": "1" if text else unit, "long_name": label.long_name}
        # A variable may be called as a metric is.
        name = own.name if own.name not in columns else f"variable_{own.name}"
        labels[name] = (("design",), values.astype(object) if text else values.astype(float), attributes)
    gradients, names = optimum.columns(found)
    return xr.Dataset(columns | gradients, labels | names, _attributes(found))


def record(optimum: Optimum) -> dict[str, Any]:
    """The search's result for machines: SI numbers."""
    problem = optimum.problem
    designs = []
    for i in range(len(optimum.designs)):
        designs.append(
            {
                "variables": design_record(problem, optimum.designs[i]),
                "objectives": {
                    objective.text: float(objective.sign * optimum.objectives[i, j])
                    for j, objective in enumerate(problem.objectives)
                },
                "keeps_constraints": bool(optimum.feasible[i]),
            }
        )
    grid = None
    if optimum.grid_design is not None and optimum.grid_objectives is not None:
        grid = {
            "variables": design_record(problem, optimum.grid_design),
            "objective": float(problem.objectives[0].sign * optimum.grid_objectives[0]),
            "points": len(optimum.grid[0]),
            "sampled": optimum.sampled,
        }
    exchange = trade_off_record(optimum) if len(problem.objectives) > 1 else None
    return {
        "designs": designs,
        "trade_offs": exchange,
        "whole_numbers": gap_record(optimum),
        "robustness": robustness_record(optimum),
        "simulations": [dataclasses.asdict(one) for one in optimum.confirmations] or None,
        "active": [dataclasses.asdict(one) for one in optimum.active],
        "ends": [dataclasses.asdict(one) for one in optimum.ends],
        "optimality_residual": optimum.residual,
        "best_grid_point": grid,
        "evaluations": optimum.evaluations,
        "gradients": optimum.gradients,
        "seconds": {name: round(value, 3) for name, value in optimum.seconds.items()},
    }


def trade_off_record(found: Optimum) -> list[dict[str, float | None]]:
    """Rates of exchange of every design of a front: "d a / d b" by both names."""
    names, every = found.problem.objective_names, optimum.trade_offs(found)
    return [
        {
            # NaN is no value in JSON.
            f"d {one} / d {other}": None if np.isnan(table[j, k]) else float(table[j, k])
            for j, one in enumerate(names)
            for k, other in enumerate(names)
            if j != k
        }
        for table in every
    ]


def gap_record(optimum: Optimum) -> dict[str, Any] | None:
    """Cost of whole numbers; None where there are none."""
    gap = optimum.gap
    if gap is None:
        return None
    return {
        "gap": gap.value,
        "certainty": gap.certainty,
        "left_open": gap.left,
        "relaxed_objective": gap.relaxed,
        "relaxed_design": design_record(optimum.problem, gap.design),
        "nodes": gap.nodes,
    }


def robustness_record(optimum: Optimum) -> list[dict[str, Any]] | None:
    """Both optima in every scenario; None of one scenario."""
    comparison = optimum.robustness
    if comparison is None:
        return None
    return [
        {
            "scenario": name,
            "nominal_objective": float(comparison.nominal[i]),
            "nominal_keeps_constraints": bool(comparison.nominal_keeps[i]),
            "robust_objective": float(comparison.robust[i]),
            "price_of_robustness": float(comparison.price[i]),
            "share_of_the_bind": float(optimum.balances[0].scenarios[i]),
        }
        for i, name in enumerate(comparison.scenarios)
    ]


def design_record(problem: Problem, design: np.ndarray) -> dict[str, float | str]:
    """A design by the names of its variables: numbers in SI units, and names of choices."""
    by_name = {}
    for own, value in zip(problem.variables, design, strict=True):
        label = problem.label(own, value)
        by_name[own.name] = label if isinstance(label, str) else float(label)
    return by_name


def _along(design: np.ndarray, i: int, values: np.ndarray) -> np.ndarray:
    designs = np.tile(design, (len(values), 1))
    designs[:, i] = values
    return designs


def _metrics(problem: Problem, designs: np.ndarray) -> tuple[dict[str, Any], dict[str, Any]]:
    """Every metric, along `design`, and along `member` where there are several; and the labels of these."""
    per_member = [m.evaluator.metrics(designs[:, m.columns]) for m in problem.flat]
    if len(per_member) == 1:
        return {name: (("design",), v, variable_attributes(name, v.dtype)) for name, v in per_member[0].items()}, {}
    columns: dict[str, Any] = {}
    for name in dict.fromkeys(name for one in per_member for name in one):
        first = next(one[name] for one in per_member if name in one)
        # A metric that a member does not have is blank there, of the type that others have.
        filled = [one.get(name, np.full(len(designs), blank(first.dtype), first.dtype)) for one in per_member]
        columns[name] = (("design", "member"), np.stack(filled, axis=1), variable_attributes(name, first.dtype))
    parts = {"member": "name", "scenario": "scenario", "workload": "workload"}
    labels: dict[str, Any] = {
        label: (("member",), np.array([getattr(m, part) for m in problem.flat], object))
        for label, part in parts.items()
    }
    # Shares of the workloads, repeated for every scenario.
    shares = np.concatenate([problem.weights] * len(problem.members))
    labels["token_share"] = (("member",), shares, {"units": "1", "long_name": "share of the tokens of the mix"})
    return columns, labels


def _goal(goal: Goal, problem: Problem) -> dict[str, str]:
    """Attributes of an objective's figure."""
    unit, words = unit_of(goal.name), goal.text if goal.name.startswith(ROOTS) else variable(goal.name).long_name
    if len(problem.weights) > 1 and not goal.of:
        words += f", {'harmonic' if harmonic(goal) else 'arithmetic'} mean of the mix"
    if len(problem.members) > 1:
        words += ", worst scenario"
    return {"units": UDUNITS.get(unit, unit), "long_name": words}


def _attributes(optimum: Optimum) -> Mapping[str, Any]:
    plain = record(optimum)
    return optimum.problem.attributes | {
        "objectives": ", ".join(
            f"{'maximise' if one.maximise else 'minimise'} {one.text}" for one in optimum.problem.objectives
        ),
        "active": json.dumps(plain["active"]),
        "ends": json.dumps(plain["ends"]),
        "whole_numbers": json.dumps(plain["whole_numbers"]),
        "robustness": json.dumps(plain["robustness"]),
        "simulations": json.dumps(plain["simulations"]),
        "best_grid_point": json.dumps(plain["best_grid_point"]),
        "optimality_residual": optimum.residual,
        "evaluations": optimum.evaluations,
        "gradients": optimum.gradients,
    }

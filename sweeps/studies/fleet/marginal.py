"""Marginal values of a fleet: one more device of each kind, more traffic, more budget; as duals and solved again."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from sweeps.studies.fleet.program import COST, SHARE, LinearProgram, Matrices, ProgramOptimum, needed_hours, optimum

MORE = 0.1
"""Share by which traffic or budget grows where a program is solved again: one more request would change nothing."""

MOST = 8
"""Supplies whose worth is told: those in use, and those that are worth most beside what they cost."""


@dataclasses.dataclass(frozen=True)
class Marginal:
    """What one more of something gains: by the dual of the relaxed program, and by solving the whole one again."""

    dual: float
    again: float | None = None  # None: not solved again; NaN: the limits do not allow it
    error: float = 0.0  # by which `again` may be off, as both solutions are within a gap of the best


@dataclasses.dataclass(frozen=True)
class Worth:
    """Marginal values of one device of a supply, each in USD/year; or in requests/day where not all are served."""

    name: str
    step: int  # devices that are added where the program is solved again: a whole replica's or machine's
    rent: float  # USD/year of a device rented for the year; inf: none is rented
    given: Marginal  # of one more device at no cost
    available: Marginal | None  # of one more device that can be rented; None: there is no limit


@dataclasses.dataclass(frozen=True, eq=False)
class Marginals:
    """Marginal values of a fleet."""

    unit: str  # "USD/year", or "requests/day"
    supplies: tuple[Worth, ...]  # those in use, and those nearest to being worth their rent
    classes: dict[str, Marginal]  # USD/year of `MORE` more traffic of a class; none where not all is served
    hours: np.ndarray  # share of the cost, or of the loss, that each hour of the day is the cause of, shape [24]
    budget: Marginal | None  # requests/day of `MORE` more budget; None: it does not limit
    power: float | None  # per kW of a higher power limit; None: there is none


class Duals:
    """Duals of the program without whole numbers: by how much the objective falls per unit of a limit.

    given      of a device at no cost, shape [S]
    available  of a device that can be rented, shape [S]
    growth     of the need of a class in an hour, as a share of itself: by how much the objective rises, shape [C, T]
    budget     of USD/year, and `power` of W
    value      of the objective
    """

    def __init__(self, program: LinearProgram, goal: str):
        from scipy.optimize import linprog

        # Whole numbers have no duals: machines and replicas may be fractions here.
        matrices = Matrices(program, goal, whole=False)
        lower, upper = matrices.bounds
        solution = linprog(
            matrices.objective,
            A_ub=matrices.rows,
            b_ub=matrices.limits,
            bounds=np.stack([lower, upper], axis=1),
            method="highs",
        )
        self.value = float(solution.fun)
        # SciPy's marginals are d objective / d limit, at most 0 where the objective is made small.
        falls = -solution.ineqlin.marginals
        size = len(program.owned)
        places = {name: np.array(rows, int) for name, rows in matrices.places.items()}
        self.power = float(falls[places["power"]].sum())
        self.budget = float(falls[places["budget"]].sum())
        # A device that is given relaxes its row in every hour, and takes its TDP from the power limit.
        self.given = falls[places["devices"]].reshape(size, -1).sum(axis=1) - self.power * program.tdp
        self.available = np.zeros(size)
        limited = np.isfinite(program.available)
        if limited.any():
            self.available[limited] = falls[places["available"]]
        # Rows of loads are divided by the need: a need that grows by a share tightens its row by that share.
        self.growth = np.zeros(program.load.shape)
        self.growth[program.need > 0.0] = falls[places["load"]]


def marginals(
    program: LinearProgram,
    goal: str,
    best: ProgramOptimum,
    names: tuple[list[str], list[str]],
    gap: float,
    seconds: float,
    progress: Callable[[str], None] = lambda text: None,
) -> Marginals:
    """Marginal values of a program whose best fleet is known.

    Where not everything is served, one device more changes the share by less than the solver's gap: its worth is the
    dual alone.

    Args:
      program: over all hours of the day.
      goal: COST or SHARE.
      best: the best fleet.
      names: of supplies, and of classes.
      gap, seconds: of every solution, as `optimum` takes them.
      progress: called with what is solved next.
    """
    # In USD/year of the cost, or, of a share of the day's requests, in requests/day weighted by their value.
    reduced, where = needed_hours(program, goal)
    duals = Duals(reduced, goal)
    scale = 1.0 if goal == COST else float(program.requests.sum())

    def again(text: str, sign: float = 1.0, **changed: Any) -> tuple[float, float]:
        """Gain of a changed program, and by how much it may be off."""
        progress(text)
        other, _ = needed_hours(dataclasses.replace(program, **changed), goal)
        solution = optimum(other, goal, gap, seconds)
        if solution is None:
            return float("nan"), 0.0
        gain = (best.value - solution.value) if goal == COST else (solution.value - best.value)
        return sign * gain * scale, max(best.gap, solution.gap) * scale

    supplies = []
    for s in _worthwhile(program, best, duals):
        name = names[0][s]
        on = program.of_supply == s
        machine = int(program.machine[s])
        # The fewest whole machines that hold the smallest replica: fewer devices could not change the fleet.
        step = machine * -(-int(program.devices[on].min() if on.any() else 1) // machine)
        more = np.zeros(len(names[0]))
        more[s] = step
        given = Marginal(duals.given[s] * scale)
        limit = Marginal(duals.available[s] * scale) if np.isfinite(program.available[s]) else None
        if goal == COST:
            gain, error = again(f"one more {name}", owned=program.owned + more)
            given = Marginal(given.dual, gain / step, error / step)
            # A limit that the best fleet does not come near to gains nothing when it is raised.
            if limit is not None and program.available[s] - program.machine[s] * best.machines[s] < step:
                gain, error = again(f"one more {name} to rent", available=program.available + more)
                limit = Marginal(limit.dual, gain / step, error / step)
        supplies.append(Worth(name, step, float(program.year[s]), given, limit))

    # More load makes the cost rise, which `again` has as a negative gain: the sign makes it a positive number.
    classes = {}
    for c, name in enumerate(names[1]) if goal == COST else ():
        load = program.load.copy()
        load[c] *= 1.0 + MORE
        gain, error = again(f"more of {name}", -1.0, load=load)
        classes[name] = Marginal(MORE * float(duals.growth[c].sum()), gain, error)
    budget = None
    if goal == SHARE and np.isfinite(program.budget):
        dual = MORE * program.budget * duals.budget * scale
        budget = Marginal(dual, *again("more budget", budget=program.budget * (1.0 + MORE)))
    # Equal hours stand in the program as one: its value is spread evenly over them.
    by_hour = np.where(where >= 0, (duals.growth.sum(axis=0) / reduced.weights)[where], 0.0)
    return Marginals(
        unit="USD/year" if goal == COST else "requests/day",
        supplies=tuple(supplies),
        classes=classes,
        hours=by_hour / (by_hour.sum() or 1.0),
        budget=budget,
        power=1000.0 * duals.power * scale if np.isfinite(program.power_limit) else None,
    )


def _worthwhile(program: LinearProgram, best: ProgramOptimum, duals: Duals) -> list[int]:
    """Supplies whose worth is told: those in use, then those nearest to being worth their rent."""
    # Worth of a device over its rent, which only the order depends on; 1 for supplies that cannot be rented.
    used = (best.machines > 0) | (program.owned > 0)
    worth = np.where(np.isfinite(program.year), duals.given / program.year, 1.0)
    has_options = np.isin(np.arange(len(used)), program.of_supply)
    order = np.lexsort((-worth, ~used))
    return [int(s) for s in order if has_options[s]][:MOST]

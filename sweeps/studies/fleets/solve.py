"""Solutions of the integer program of a fleet: the best one, and its replicas in every hour."""

import dataclasses

import numpy as np

from sweeps.studies.fleets.program import COST, ECONOMY, Matrices, Program

TOLERANCE = 1e-5
"""Share of a load by which rounded numbers may miss it: ten times the solver's own tolerance."""


@dataclasses.dataclass(frozen=True, eq=False)
class Optimum:
    """A fleet, and a bound on what any fleet can reach."""

    machines: np.ndarray  # shape [S]
    served: np.ndarray  # share of each class's load, shape [C, T]
    cost: float  # USD/year
    value: float  # what was sought: USD/year, or the share of the requests
    bound: float  # no fleet costs less, or serves a larger share

    @property
    def gap(self) -> float:
        """What a better fleet could gain at most, in the unit of `value`."""
        return abs(self.value - self.bound)


def needed_hours(program: Program, goal: str = COST) -> tuple[Program, np.ndarray]:
    """The program over the hours that decide the fleet, and of every hour of the day its place there, or -1.

    Equal hours are one hour of a larger weight. Where everything is served, an hour in which no class has more load
    than in another one needs no device of its own.
    """
    loads, place, counts = np.unique(program.load.T, axis=0, return_inverse=True, return_counts=True)
    weights = np.bincount(place.ravel(), program.weights, len(counts))
    kept = np.ones(len(loads), bool)
    if goal == COST:
        below = (loads[:, None, :] <= loads[None, :, :]).all(axis=2)
        kept = below.sum(axis=1) == 1  # an hour is below itself alone
    where = np.where(kept, np.cumsum(kept) - 1, -1)[place.ravel()]
    return dataclasses.replace(program, load=loads[kept].T, weights=weights[kept]), where


def optimum(program: Program, goal: str, gap: float, seconds: float) -> Optimum | None:
    """The best fleet of a program, in whole machines and replicas.

    Args:
      program: over the hours that count.
      goal: COST or SHARE.
      gap: share of the answer by which a better fleet may exist.
      seconds: after which the best fleet so far is taken.

    Returns:
      The fleet; None where no fleet keeps the limits.

    Raises:
      ValueError: one line, where none was found within `seconds`.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp  # half a second to import

    made = Matrices(program, goal, whole=True)
    lower, upper = made.bounds
    found = milp(
        made.objective,
        integrality=made.integrality,
        bounds=Bounds(lower, upper),
        constraints=LinearConstraint(made.rows, -np.inf, made.limits),
        options={"mip_rel_gap": gap, "time_limit": seconds},
    )
    if found.status == 2:
        return None
    if found.x is None:
        if found.status == 1:
            raise ValueError(f"no fleet was found within {seconds:g} s; give more seconds or fewer accelerators")
        raise ValueError(f"the solver found no fleet: {found.message}")
    machines, _, served = made.parts(found.x)
    machines = np.round(machines)
    cost = float(program.machine_price @ machines)
    if goal == COST:
        return Optimum(machines, served, cost, cost, min(float(found.mip_dual_bound), cost))
    share = float((served * program.requests).sum() / program.requests.sum())
    bound = min(ECONOMY - float(found.mip_dual_bound), 1.0)  # the cost's part of the objective is at most ECONOMY
    return Optimum(machines, served, cost, share, max(bound, share))


def replicas(program: Program, devices: np.ndarray, served: np.ndarray) -> np.ndarray:
    """Replicas of every option in every hour on given devices, shape [O, T]: few starts, and then little power.

    From the hour of the largest load on, every hour starts replicas on as few devices as it can; of the ways to do so
    it takes the one whose devices have the least TDP together.

    Args:
      program: over all hours.
      devices: that there are of every supply, shape [S].
      served: share of each class's load, shape [C, T].
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    # Columns: replicas of each option, and those of them that start. All of the power weighs less than one start.
    size, hours = len(program.capacity), program.load.shape[1]
    each = program.tdp if (program.tdp > 0.0).all() else np.ones(len(program.tdp))
    power = each[program.of_supply] * program.devices / (2.0 * max(float(each @ devices), 1.0))
    uses = (program.of_supply == np.arange(len(program.owned))[:, None]) * program.devices
    serves = (program.of_class == np.arange(len(program.value))[:, None]) * program.capacity
    nothing, one = np.zeros_like, np.eye(size)
    rows = np.block([[uses, nothing(uses)], [-serves, nothing(serves)], [one, -one]])
    bounds = Bounds(0.0, np.tile(np.floor(devices[program.of_supply] / program.devices), 2))
    whole = np.repeat([1, 0], size)
    found = np.zeros((size, hours))
    first = int((program.need * served / program.need.max(axis=1, keepdims=True).clip(1e-300)).sum(axis=0).argmax())
    for hour in np.roll(np.arange(hours), -first):
        need = program.need[:, hour] * served[:, hour]
        scale = np.where(need > 0.0, need, 1.0)[:, None]  # so that the solver's tolerance is a share of the load
        rows[len(devices) : len(devices) + len(need), :size] = -np.minimum(serves / scale, 1.0)
        starts = program.devices * (1.0 if hour != first else 0.0)
        limits = np.concatenate([devices, np.where(need > 0.0, TOLERANCE - 1.0, 0.0), found[:, hour - 1]])
        made = milp(
            np.concatenate([power, starts]),
            integrality=whole,
            bounds=bounds,
            constraints=LinearConstraint(rows, -np.inf, limits),
        )
        if made.x is None:
            raise RuntimeError(f"the fleet does not serve hour {hour}")
        found[:, hour] = np.abs(np.round(made.x[:size]))
    return found

"""Integer program of a fleet: machines rented for the year, and replicas in every hour."""

import dataclasses
from typing import Any

import numpy as np

COST, SHARE = "cost", "share"
"""What is sought: the least cost of serving everything, or the largest share of the requests within the limits."""

ECONOMY = 1e-5
"""Weight of the cost beside the share of the requests that is served: of equal shares, the cheaper fleet. Ours."""

LARGEST = 1e6
"""Loads that one replica takes at most in the program without whole numbers, for the solver's sake."""


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class LinearProgram:
    """Numbers of the program. C classes, T hours, S supplies (kinds of accelerators), O options (kinds of replicas)."""

    load: np.ndarray  # requests/s, shape [C, T]
    headroom: float  # capacity above the load, as a share of it
    value: np.ndarray  # of one request, shape [C]
    capacity: np.ndarray  # requests/s of one replica, shape [O]
    devices: np.ndarray  # of one replica, shape [O]
    of_class: np.ndarray  # class that an option serves, shape [O]
    of_supply: np.ndarray  # supply that an option runs on, shape [O]
    year: np.ndarray  # USD/year of a device rented for the year, shape [S]; inf: none is rented
    owned: np.ndarray  # devices at no cost, shape [S]
    machine: np.ndarray  # devices of a machine, shape [S]
    available: np.ndarray  # devices that can be rented, shape [S]; inf: any number
    tdp: np.ndarray  # W of a device, shape [S]; 0 where unknown
    power_limit: float = np.inf  # W of all devices, rented and owned
    budget: float = np.inf  # USD/year
    weights: np.ndarray = dataclasses.field(default_factory=lambda: np.ones(24))  # hours of a day, shape [T]

    @property
    def need(self) -> np.ndarray:
        """Capacity that is needed, requests/s, shape [C, T]."""
        return self.load * (1.0 + self.headroom)

    @property
    def requests(self) -> np.ndarray:
        """Value of the requests of a day, shape [C, T]."""
        return self.load * self.value[:, None] * self.weights * 3600.0

    @property
    def dearest(self) -> float:
        """USD/year that no sensible fleet costs: every class at its peak on its dearest replicas."""
        # USD/year per request/s of every option; each class takes its dearest one.
        prices = (self.machine_price / self.machine)[self.of_supply] * self.devices / self.capacity
        classes = self.of_class == np.arange(len(self.value))[:, None]
        return float((self.need.max(axis=1) * (classes * prices).max(axis=1)).sum()) or 1.0

    @property
    def machine_price(self) -> np.ndarray:
        """USD/year of a machine, shape [S]; 0 where none is rented."""
        return np.where(np.isfinite(self.year), self.year, 0.0) * self.machine


def never_needed(program: LinearProgram) -> np.ndarray:
    """Options that another option of their class replaces at no cost, shape [O].

    The other one takes at least as many requests, costs at most as much, and any number of its devices can be rented.
    """
    size = len(program.capacity)
    out = np.zeros(size, bool)
    if np.isfinite(program.power_limit):
        return out
    # The replacement has to be rentable one device at a time, in any number.
    free = ~np.isfinite(program.available) & (program.machine == 1)
    price = program.year[program.of_supply] * program.devices
    for one in range(size):
        # Devices that are owned cost nothing, and the rest of a machine may be free for another class.
        if program.owned[program.of_supply[one]] > 0 or program.machine[program.of_supply[one]] > 1:
            continue
        rival = (
            (program.of_class == program.of_class[one])
            & (program.of_supply != program.of_supply[one])
            & free[program.of_supply]
            & (program.capacity >= program.capacity[one])
            & (price <= price[one])
            # Of two options that could replace each other, the second one stays.
            & ~out
        )
        out[one] = rival.any()
    return out


class Matrices:
    """The program as arrays, in `whole` numbers or without.

    Columns: machines [S], replicas [O, T], shares of the loads that are served [C, T].

    rows @ columns <= limits:
      devices    replicas' devices - machine size x machines <= owned                  [S, T]
      load       share served - replicas' capacity / need <= 0                        [C, T], where there is load
      available  machine size x machines <= available                                 [S], where limited
      power      TDP x machine size x machines <= limit - TDP of those that are owned  where limited
      budget     cost <= budget                                                       where there is one
    """

    def __init__(self, program: LinearProgram, goal: str, whole: bool):
        from scipy.sparse import coo_array

        self.program, self.goal, self.whole = program, goal, whole
        self.sizes = len(program.owned), program.load.shape[1], len(program.capacity), len(program.value)
        supplies, hours, options, classes = self.sizes
        starts = np.cumsum([0, supplies, options * hours, classes * hours])
        self.starts, self.width = starts[:-1], int(starts[-1])
        # Triples of row, column and value: almost all entries of the matrix are 0.
        self.entries: list[tuple[int, int, float]] = []
        self.right: list[float] = []
        self.places: dict[str, list[int]] = {name: [] for name in ("devices", "load", "available", "power", "budget")}
        self._declare()
        row, column, value = (np.array(part) for part in zip(*self.entries, strict=True))
        self.rows = coo_array((value, (row, column)), shape=(len(self.right), self.width)).tocsr()
        self.limits = np.array(self.right)

    def _declare(self) -> None:
        # One row after the other, in the order of the table of the class; `places` has the numbers of the rows.
        program, (supplies, hours, _, classes) = self.program, self.sizes
        for s in range(supplies):
            # Devices in use in every hour are at most those that are owned and rented.
            on = np.flatnonzero(program.of_supply == s)
            for t in range(hours):
                used = [(self._replica(o, t), program.devices[o]) for o in on]
                self._row("devices", [*used, (s, -program.machine[s])], program.owned[s])
        most = 1.0 if self.whole else LARGEST  # one whole replica that takes more than a load serves all of it
        for c in range(classes):
            on = np.flatnonzero(program.of_class == c)
            for t in np.flatnonzero(program.need[c] > 0.0):
                # The share that is served needs as much capacity, over the need: all such rows are of order 1.
                taken = [(self._replica(o, t), -min(program.capacity[o] / program.need[c, t], most)) for o in on]
                self._row("load", [*taken, (self._served(c, t), 1.0)], 0.0)
        for s in np.flatnonzero(np.isfinite(program.available)):
            self._row("available", [(s, program.machine[s])], program.available[s])
        if np.isfinite(program.power_limit):
            # All devices count at their TDP, in use or idle; those that are owned come off the limit.
            drawn = [(s, program.tdp[s] * program.machine[s]) for s in range(supplies)]
            self._row("power", drawn, program.power_limit - float(program.tdp @ program.owned))
        if np.isfinite(program.budget):
            self._row("budget", list(enumerate(program.machine_price)), program.budget)

    def _row(self, name: str, entries: list[tuple[Any, Any]], right: float) -> None:
        self.places[name].append(len(self.right))
        self.entries += [(len(self.right), int(column), float(value)) for column, value in entries]
        self.right.append(float(right))

    def _replica(self, o: Any, t: Any) -> int:
        return int(self.starts[1] + o * self.sizes[1] + t)

    def _served(self, c: Any, t: Any) -> int:
        return int(self.starts[2] + c * self.sizes[1] + t)

    def parts(self, columns: np.ndarray) -> tuple[np.ndarray, ...]:
        """Machines [S], replicas [O, T] and shares served [C, T]; views of `columns`."""
        supplies, hours, options, classes = self.sizes
        parts = np.split(columns, self.starts[1:])
        shapes = ((supplies,), (options, hours), (classes, hours))
        return tuple(part.reshape(shape) for part, shape in zip(parts, shapes, strict=True))

    @property
    def objective(self) -> np.ndarray:
        """What is made small: the cost, or minus the share of the requests, and a little of the cost."""
        coefficients, program = np.zeros(self.width), self.program
        machines, _, served = self.parts(coefficients)
        # Views of one vector: assigning to a part sets the coefficients of its columns.
        machines[:] = program.machine_price
        if self.goal == SHARE:
            # The cost is scaled to at most ECONOMY, so that it only decides between fleets of nearly equal shares.
            machines *= ECONOMY / program.dearest
            served[:] = -program.requests / program.requests.sum()
        return coefficients

    @property
    def integrality(self) -> np.ndarray:
        """1 for whole numbers: all but the shares."""
        return (np.arange(self.width) < self.starts[2]).astype(int)

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Least and most of each column; of whole replicas, what the search needs not to look beyond."""
        program, lower, upper = self.program, np.zeros(self.width), np.full(self.width, np.inf)
        machines, count, served = self.parts(upper)
        machines[~np.isfinite(program.year)] = 0.0
        served[:] = 1.0
        if self.whole:
            # More replicas than serve the whole load of an hour alone are never needed.
            count[:] = np.ceil(program.need[program.of_class] / program.capacity[:, None])
            count[never_needed(program)] = 0.0
        if self.goal == COST:
            # Everything is served: the least share of every class and hour is 1.
            self.parts(lower)[2][:] = 1.0
        return lower, upper


# Solutions of the integer program of a fleet: the best one, and its replicas in every hour.


TOLERANCE = 1e-5
"""Share of a load by which rounded numbers may miss it: ten times the solver's own tolerance."""


@dataclasses.dataclass(frozen=True, eq=False)
class ProgramOptimum:
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


def needed_hours(program: LinearProgram, goal: str = COST) -> tuple[LinearProgram, np.ndarray]:
    """The program over the hours that decide the fleet, and of every hour of the day its place there, or -1.

    Equal hours are one hour of a larger weight. Where everything is served, an hour in which no class has more load
    than in another one needs no device of its own.
    """
    # Hours with the same load of every class become one, which counts as often as there are of them.
    loads, place, counts = np.unique(program.load.T, axis=0, return_inverse=True, return_counts=True)
    weights = np.bincount(place.ravel(), program.weights, len(counts))
    decisive = np.ones(len(loads), bool)
    if goal == COST:
        # below[i, j]: hour i has at most the load of hour j in every class, so a fleet for j serves i.
        below = (loads[:, None, :] <= loads[None, :, :]).all(axis=2)
        decisive = below.sum(axis=1) == 1  # an hour is below itself alone
    where = np.where(decisive, np.cumsum(decisive) - 1, -1)[place.ravel()]
    return dataclasses.replace(program, load=loads[decisive].T, weights=weights[decisive]), where


def optimum(program: LinearProgram, goal: str, gap: float, seconds: float) -> ProgramOptimum | None:
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

    matrices = Matrices(program, goal, whole=True)
    lower, upper = matrices.bounds
    solution = milp(
        matrices.objective,
        integrality=matrices.integrality,
        bounds=Bounds(lower, upper),
        constraints=LinearConstraint(matrices.rows, -np.inf, matrices.limits),
        options={"mip_rel_gap": gap, "time_limit": seconds},
    )
    # Status of scipy.optimize.milp: 2 is infeasible, 1 is the limit of time or iterations.
    if solution.status == 2:
        return None
    if solution.x is None:
        if solution.status == 1:
            raise ValueError(f"no fleet was found within {seconds:g} s; give more seconds or fewer accelerators")
        raise ValueError(f"the solver found no fleet: {solution.message}")
    # Whole numbers come back within the solver's tolerance of one.
    machines, _, served = matrices.parts(solution.x)
    machines = np.round(machines)
    cost = float(program.machine_price @ machines)
    if goal == COST:
        return ProgramOptimum(machines, served, cost, cost, min(float(solution.mip_dual_bound), cost))
    # The objective holds the cost, too: the share is taken from the solution itself.
    share = float((served * program.requests).sum() / program.requests.sum())
    bound = min(ECONOMY - float(solution.mip_dual_bound), 1.0)  # the cost's part of the objective is at most ECONOMY
    return ProgramOptimum(machines, served, cost, share, max(bound, share))


def replicas(program: LinearProgram, devices: np.ndarray, served: np.ndarray) -> np.ndarray:
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
    # Where one TDP is unknown, devices are counted in place of watts.
    each = program.tdp if (program.tdp > 0.0).all() else np.ones(len(program.tdp))
    power = each[program.of_supply] * program.devices / (2.0 * max(float(each @ devices), 1.0))
    # Constraints of one hour: devices in use, the load of every class, and starts = replicas - those before.
    uses = (program.of_supply == np.arange(len(program.owned))[:, None]) * program.devices
    serves = (program.of_class == np.arange(len(program.value))[:, None]) * program.capacity
    nothing, one = np.zeros_like, np.eye(size)
    rows = np.block([[uses, nothing(uses)], [-serves, nothing(serves)], [one, -one]])
    bounds = Bounds(0.0, np.tile(np.floor(devices[program.of_supply] / program.devices), 2))
    integrality = np.repeat([1, 0], size)
    counts = np.zeros((size, hours))
    # The hour of the largest load, as the sum of every class's part of its own peak, fixes the replicas to begin with.
    first = int((program.need * served / program.need.max(axis=1, keepdims=True).clip(1e-300)).sum(axis=0).argmax())
    for hour in np.roll(np.arange(hours), -first):
        need = program.need[:, hour] * served[:, hour]
        scale = np.where(need > 0.0, need, 1.0)[:, None]  # so that the solver's tolerance is a share of the load
        # One replica that takes more than the whole load counts as one that takes it all.
        rows[len(devices) : len(devices) + len(need), :size] = -np.minimum(serves / scale, 1.0)
        starts = program.devices * (1.0 if hour != first else 0.0)
        limits = np.concatenate([devices, np.where(need > 0.0, TOLERANCE - 1.0, 0.0), counts[:, hour - 1]])
        solution = milp(
            np.concatenate([power, starts]),
            integrality=integrality,
            bounds=bounds,
            constraints=LinearConstraint(rows, -np.inf, limits),
        )
        if solution.x is None:
            raise RuntimeError(f"the fleet does not serve hour {hour}")
        # The magnitude turns a rounded -0 into 0.
        counts[:, hour] = np.abs(np.round(solution.x[:size]))
    return counts

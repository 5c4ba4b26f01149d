"""Answer to the question of a fleet: accelerators to rent, replicas in every hour, the cost, the reasons."""

import dataclasses
import functools
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sweeps.ask.keys import values
from sweeps.ask.words import ClassWords, FleetWords
from sweeps.studies.fleet.marginal import Marginals, marginals
from sweeps.studies.fleet.options import FoundOptions, Option, kept, method
from sweeps.studies.fleet.options import options as options_of
from sweeps.studies.fleet.program import COST, SHARE, LinearProgram, ProgramOptimum, needed_hours, optimum, replicas
from sweeps.studies.fleet.question import HOURS, FleetQuestion, question

YEAR = 31557600.0
"""s: 365.25 days, of which each has the same 24 hours."""

GAP = 1e-4
"""Share of the cost by which a better fleet may exist, where nothing is said."""

SHARE_GAP = 1e-3
"""Share of the requests that a better fleet may serve beside: fleets of nearly equal shares are many. Ours."""

SECONDS = 20.0
"""s of every solution, where nothing is said."""


@dataclasses.dataclass(frozen=True, eq=False)
class FleetPlan:
    """A fleet. C classes, S supplies, O options, 24 hours."""

    question: FleetQuestion
    options: tuple[Option, ...]  # O
    program: LinearProgram  # over all hours
    left_out: Mapping[str, Mapping[str, str]]  # class -> accelerator -> why it does not serve the class
    goal: str  # COST: everything is served; SHARE: as much as the limits allow
    least_cost: float | None  # USD/year of the cheapest fleet that serves everything; None: the limits allow none
    rented: np.ndarray  # devices rented for the year, shape [S]
    replicas: np.ndarray  # shape [O, 24]
    served: np.ndarray  # share of the load, shape [C, 24]
    cost: float  # USD/year
    bound: float  # no fleet costs less (COST), or serves a larger share of the requests (SHARE)
    marginals: Marginals | None
    method: str  # how the loads of replicas were found
    seconds: float  # that the answer took

    def rent(self, supply: int) -> float:
        """USD/year of the devices of a supply that are rented."""
        return float(self.rented[supply] * self.program.machine_price[supply] / self.program.machine[supply])

    @property
    def capacity(self) -> np.ndarray:
        """Requests/s that replicas take, by class and supply, shape [C, S, 24]."""
        return self._summed(self.replicas * self.program.capacity[:, None])

    @property
    def in_use(self) -> np.ndarray:
        """Devices that serve, by class and supply, shape [C, S, 24]."""
        return self._summed(self.replicas * self.program.devices[:, None])

    @property
    def share(self) -> float:
        """Share of the day's requests that is served."""
        load = self.program.load
        return float((self.served * load).sum() / load.sum())

    @property
    def shares(self) -> np.ndarray:
        """Share of a class's requests of a day that each option serves, shape [O]; replicas share by capacity."""
        # Replicas of one class share its load in proportion to what each can take: shape [O, 24], requests/s.
        taken = self.replicas * self.program.capacity[:, None]
        of_class = self.capacity.sum(axis=1)[self.program.of_class]
        load = (self.served * self.program.load)[self.program.of_class]
        served = np.divide(taken * load, of_class, out=np.zeros_like(taken), where=of_class > 0.0).sum(axis=1)
        # The floor only avoids 0 / 0 for a class without any request.
        return served / np.maximum(self.program.load.sum(axis=1), 1e-300)[self.program.of_class]

    @property
    def energy(self) -> float | None:
        """J of a year of the devices that serve; None where one of them has no figure. Idle devices are not counted."""
        # Device hours of one day, shape [O]; one hour of the day lasts YEAR / 24 s in a year.
        used = self.replicas.sum(axis=1) * self.program.devices
        power = [option.power for option in self.options]
        if any(watts is None for watts, count in zip(power, used, strict=True) if count):
            return None
        return float(sum((watts or 0.0) * count for watts, count in zip(power, used, strict=True)) * YEAR / HOURS)

    def _summed(self, values: np.ndarray) -> np.ndarray:
        sums = np.zeros((len(self.question.classes), len(self.question.supplies), HOURS))
        # Several options may belong to one class and supply, which plain indexing would overwrite.
        np.add.at(sums, (self.program.of_class, self.program.of_supply), values)
        return sums


def fleet(
    source: str | Path | Mapping[str, Any],
    budget: str | float | None = None,
    *,
    gap: float = GAP,
    seconds: float = SECONDS,
    with_marginals: bool = True,
    simulated: int = 0,
    prices: str | None = None,
    node: int | None = None,
    options: Callable[..., FoundOptions] = options_of,
    progress: Callable[[str], None] = lambda text: None,
) -> FleetPlan:
    """The cheapest fleet that serves every class within its limits at every hour of the day.

    Where a budget, the number of available devices or the power does not allow that, the fleet that serves the largest
    share of the requests.

    Args, as of `sweeps.fleet`:
      seconds: of every solution; the best fleet so far is taken then.
      options: finds the replicas that a class can be served by, as `sweeps.studies.fleet.options.options`.
    """
    start = time.perf_counter()
    fleet_question = question(source, budget, prices, node)
    options = functools.partial(options, simulated=simulated) if simulated else options
    # Replicas that can serve each class, by default from the served comparison; the program chooses among them.
    class_options, left_out = _options(fleet_question, options, progress)
    program = _program(fleet_question, class_options)

    # The least cost; and where that cannot be had, the largest share.
    progress("the cheapest fleet")
    goal = COST
    # The budget is left out at first, so that the least cost is known even where it is above the budget.
    plain = dataclasses.replace(program, budget=np.inf)
    reduced, where = needed_hours(plain, goal)
    best = optimum(reduced, goal, gap, seconds)
    least = None if best is None else best.cost
    # Not even a fleet without a budget serves everything, or the cheapest one that does costs too much.
    if best is None or best.cost > program.budget:
        progress("the largest share of the requests")
        goal = SHARE
        reduced, where = needed_hours(program, goal)
        gap = max(gap, SHARE_GAP)
        best = optimum(reduced, goal, gap, seconds)
        if best is None:
            raise ValueError(f"{fleet_question.where}: power_limit is below what the owned devices draw")
    # From the hours that decide back to all 24, with as few replicas started as possible.
    chosen = program if goal == SHARE else plain
    machines, served, count = _every_hour(chosen, best, where)
    cost = float(program.machine_price @ machines)

    # One more device, more traffic or more budget: each needs a solution of its own.
    values = None
    if with_marginals:
        names = [one.name for one in fleet_question.supplies], [one.name for one in fleet_question.classes]
        values = marginals(chosen, goal, best, names, gap, seconds, progress)
    return FleetPlan(
        question=fleet_question,
        options=tuple(option for _, option in class_options),
        program=program,
        # Reasons by class and accelerator, of the comparison that made the options.
        left_out=left_out,
        goal=goal,
        least_cost=least,
        rented=machines * program.machine,
        replicas=count,
        served=served,
        cost=cost,
        bound=min(best.bound, cost) if goal == COST else best.bound,
        marginals=values,
        method=method(simulated),
        seconds=time.perf_counter() - start,
    )


def _options(
    asked: FleetQuestion, options: Callable[..., FoundOptions], progress: Callable[[str], None]
) -> tuple[list[tuple[int, Option]], dict[str, Mapping[str, str]]]:
    """Class and option of everything that is worth choosing from, and what is left out of each class."""
    every: list[tuple[int, Option]] = []
    left_out: dict[str, Mapping[str, str]] = {}
    for c, one in enumerate(asked.classes):
        progress(f"replicas of {one.name}")
        where = f"{asked.where}: class {one.name}"
        try:
            candidates = options(
                one.model,
                one.isl,
                one.osl,
                one.slo,
                [supply.source for supply in asked.supplies],
                **values(one, ClassWords),
                **values(asked, FleetWords),
                max_devices=asked.max_devices,
            )
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        # Fewer options keep the integer program small: it has a whole number for each of them in every hour.
        best = kept(candidates.options)
        if not best and max(one.load) > 0.0:
            name, reason = next(iter(candidates.left_out.items()), ("", "none was found"))
            raise ValueError(f"{where}: no accelerator keeps {one.slo}: {name}: {reason}"[:400])
        every += [(c, option) for option in best]
        left_out[one.name] = candidates.left_out
    return every, left_out


def _program(asked: FleetQuestion, found: list[tuple[int, Option]]) -> LinearProgram:
    places = {supply.name: s for s, supply in enumerate(asked.supplies)}
    supplies = asked.supplies

    def column(values: list[float | None], absent: float) -> np.ndarray:
        return np.array([absent if value is None else value for value in values], float)

    # Prices become USD/year here; what is absent becomes no limit, or a price that nothing is rented at.
    return LinearProgram(
        load=np.array([one.load for one in asked.classes]),
        headroom=asked.headroom,
        value=np.array([one.value for one in asked.classes]),
        capacity=np.array([option.requests_per_second for _, option in found]),
        devices=np.array([option.devices for _, option in found]),
        of_class=np.array([c for c, _ in found]),
        of_supply=np.array([places[option.hardware] for _, option in found]),
        year=YEAR * column([one.price for one in supplies], np.inf),
        owned=np.array([one.owned for one in supplies]),
        machine=np.array([one.machine for one in supplies]),
        available=column([one.available for one in supplies], np.inf),
        tdp=column([one.tdp for one in supplies], 0.0),
        power_limit=np.inf if asked.power_limit is None else asked.power_limit,
        budget=np.inf if asked.budget is None else asked.budget * YEAR,
    )


def _every_hour(program: LinearProgram, best: ProgramOptimum, where: np.ndarray) -> tuple[np.ndarray, ...]:
    """Machines [S], shares served [C, 24] and replicas [O, 24] of a solution.

    Within the gap of the solver a fleet may have machines that no hour uses: they are given back.
    """
    # An hour outside the program has another above it in every class, and is served where that one is.
    served = np.where(where >= 0, best.served[:, where], 1.0)
    count = replicas(program, program.owned + program.machine * best.machines, served)
    # Machines that the busiest hour needs beside the devices that are owned.
    used = np.zeros((len(program.owned), HOURS))
    np.add.at(used, program.of_supply, count * program.devices[:, None])
    beside = np.maximum(used.max(axis=1) - program.owned, 0.0)
    return np.minimum(best.machines, np.ceil(beside / program.machine)), served, count

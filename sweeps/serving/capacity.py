"""The largest load that engines can take: bisection of all of them together, with the same requests at every load."""

import dataclasses
import itertools
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from sweeps.ask.names import STATES, variable_attributes
from sweeps.ask.offered_load import without_output
from sweeps.ask.spaces import specification
from sweeps.run.precision import precision
from sweeps.run.simulated.classes import target_of
from sweeps.run.simulated.grid import Metrics
from sweeps.run.simulated.objective import SHARE, Target, limits
from sweeps.run.simulated.spec import serve_spec
from sweeps.serving.curve import curve_dataset, loads_of
from sweeps.serving.fleet import Fleet, FleetPlace, fleet
from sweeps.serving.target import keeps, keeps_all_at_once, missed_text, usual_clients, usual_rates
from workloads.streams.classes import classes_of

HOUR = 3600.0

TOLERANCE = 0.02
"""By how much more load an engine would fail at most: how far apart the two ends of its bracket are in the end."""

MET, MORE, NEVER = STATES


@dataclasses.dataclass(frozen=True, eq=False)
class Capacity:
    """Capacity of one deployment."""

    place: FleetPlace
    state: str  # MET, MORE or NEVER
    load: float  # the largest that keeps the target, requests per s or clients, of MORE the largest tried; NaN: none
    fails: float  # the smallest above it that does not; NaN where none was found
    metrics: Mapping[str, float]  # at `load`; where there is none, at the lowest load
    missed: str  # what the lowest load misses, or what stops the load from being larger; "" where nothing does

    @property
    def censored(self) -> bool:
        """Whether the largest load that was tried is still kept: `load` is a bound, and compares to nothing."""
        return self.state == MORE

    @property
    def per_device(self) -> float:
        """`load` per device; NaN where there is none."""
        return self.load / self.place.devices

    @property
    def per_dollar(self) -> float:
        """Requests per US dollar at `load`; NaN without a price, and where `load` is a bound."""
        return self.metrics["requests_per_second"] / self.place.price if self.state == MET else math.nan

    @property
    def cost(self) -> dict[str, float]:
        """US dollars of the rented devices per hour, and of tokens at `load`; NaN as `per_dollar`."""
        tokens = self.metrics["usd_per_million_tokens"] if self.state == MET else math.nan
        return {"usd_per_hour": HOUR * self.place.price, "usd_per_million_tokens": tokens}


@dataclasses.dataclass(frozen=True, eq=False)
class Search:
    """Capacities, and the curve that the search started from.

    First those that are bounds, by name; then the largest per device; then deployments that keep the target at no load.
    """

    capacities: tuple[Capacity, ...]
    fleet: Fleet
    target: Target
    curve: xr.Dataset  # over hardware and load
    tolerance: float
    rounds: int
    simulations: int
    seconds: float
    idle: frozenset[str]  # deployments that keep the target even with all requests there at once
    longer: bool  # whether more requests were drawn than by default, so that deployments have a limit

    @property
    def ranked(self) -> bool:
        """Whether the order of the capacities says which is larger: not where some are bounds."""
        return not any(one.censored for one in self.capacities)

    @property
    def closed(self) -> bool:
        """Whether loads are clients, not requests per s."""
        return self.fleet.rate is None

    @property
    def output(self) -> bool:
        """Whether tokens follow the one with the prompt."""
        return float(np.max(self.fleet.requests.stream.osl)) > 1.0

    def cost(self, one: Capacity) -> dict[str, float]:
        """`Capacity.cost`; of requests without output, of their prompts."""
        if self.output:
            return one.cost
        prompt = one.metrics["prompt_tokens_per_second"] / one.metrics["requests_per_second"]
        return without_output(one.cost, prompt)


def capacity(
    model: str,
    hardware: str | Iterable[str],
    slo: str | Mapping[str, Any],
    *,
    share: float | str = SHARE,
    rates: Sequence[float] | None = None,
    concurrencies: Sequence[float] | None = None,
    closed: bool = False,
    tp: int | Sequence[int] | None = None,
    node: int | None = None,
    tolerance: float = TOLERANCE,
    begun: Callable[[int], Callable[[int], None]] = lambda simulations: lambda done: None,
    **keys: Any,
) -> Search:
    """The largest rate, or number of clients, at which every accelerator keeps the objective.

    Where neither rates nor the number of requests are given, more requests are drawn until each of them has a limit.
    A curve over loads brackets it: between the last load before the first that fails, and that one. Then all brackets
    are halved together, those of rates in the ratio of their ends, so many times that the ends are within `tolerance`.
    Requests are the same at every load and for every engine, with their times stretched; so a difference is none of
    chance.

    Args, as of `sweeps.capacity`:
      hardware: those that cannot serve the model are left out with the reason.
      slo, share: requests that are refused, rejected or left are never good.
      rates: rising; None: from a twentieth of the slowest engine's throughput to twice the fastest one's.
      closed: with neither rates nor concurrencies: clients, from 1 to as many as run at once.
      tolerance: of fewer than 1 / `tolerance` clients, one client.
      **keys: of `sweeps.run.simulated.spec.ServeSpec`.
    """
    start = time.perf_counter()
    if not 1e-4 <= tolerance < 1.0:
        raise ValueError(f"tolerance = {tolerance:g} must be from 0.0001 to below 1")
    traffic = keys.get("traffic")
    target = target_of(slo, share, () if traffic is None else classes_of(str(specification(traffic))))
    # `top` holds metrics at the largest load where they are known already; `extra` counts simulations beside the curve.
    given, top, extra, longer = None, [], 0, 0
    if rates is not None or concurrencies is not None:
        given, closed = loads_of(rates, concurrencies)
    # The name of the hardware is a placeholder, which `fleet` does not read.
    spec = serve_spec(hardware="-", model=model, **keys, **({"concurrency": 1} if closed else {}))
    with precision("float64"):
        if given is None and not closed:
            # Every round of `usual_rates` simulates twice; only the last one at the largest load is of the curve.
            engines, loads, last, longer = usual_rates(spec, hardware, tp, node, target)
            top, extra = [last], 1 + 2 * longer
        else:
            engines = fleet(spec, hardware, tp, node)
            loads = usual_clients(engines) if given is None else given
        count, rounds = len(engines.places), _rounds(loads, tolerance, closed)
        # The curve first, then all brackets are halved together.
        progress = begun(count * (len(loads) - len(top) + rounds))
        lower = loads[: len(loads) - len(top)]
        curve_metrics = [engines.outcomes([load] * count, target.objective, progress) for load in lower] + top
        ends = _bisected(engines, target, loads, curve_metrics, rounds, progress)
        idle, bounds = np.zeros(count, bool), any(one.censored for one in ends)
        # Where no rate that was tried fails, one more simulation tells whether any could.
        if bounds and not closed:
            idle, extra = keeps_all_at_once(engines, target), extra + 1
        curve = curve_dataset(engines, loads, curve_metrics)
    capacities = sorted(ends, key=_order)
    simulations = count * (len(loads) + rounds + extra)
    return Search(
        capacities=tuple(capacities),
        fleet=engines,
        target=target,
        curve=curve,
        tolerance=tolerance,
        rounds=rounds,
        simulations=simulations,
        seconds=time.perf_counter() - start,
        longer=longer > 0,
        idle=frozenset(where.label for where, never in zip(engines.places, idle, strict=True) if never),
    )


def _order(one: Capacity) -> tuple[Any, ...]:
    """Sort key of a capacity: bounds first, in an order that says nothing of their size."""
    # The size of a bound means nothing, so that bounds are ordered by name alone.
    size = 0.0 if one.censored else -np.nan_to_num(one.per_device, nan=-1.0)
    return not one.censored, size, one.place.label


def dataset(search: Search) -> xr.Dataset:
    """The curve with the capacity of every accelerator, in the order of the capacities per device."""
    # Everything along `hardware` in the order of the capacities.
    ordered = search.curve.sel(hardware=[one.place.label for one in search.capacities])
    prefix = "client_" if search.closed else ""
    columns = {
        f"{prefix}capacity": [one.load for one in search.capacities],
        f"{prefix}capacity_per_device": [one.per_device for one in search.capacities],
        "rented_devices": [one.place.rented_devices for one in search.capacities],
        "usd_per_hour": [one.cost["usd_per_hour"] for one in search.capacities],
        "requests_per_usd": [one.per_dollar for one in search.capacities],
        "state": np.array([STATES.index(one.state) for one in search.capacities], np.int8),
    }
    arrays = {name: np.asarray(values) for name, values in columns.items()}
    variables = {name: ("hardware", values, variable_attributes(name, values.dtype)) for name, values in arrays.items()}
    limited = limits(search.target.objective) | dict(search.target.limits)
    attributes: dict[str, Any] = {f"limit_{name}": value for name, value in limited.items()}
    attributes |= {"target": search.target.text, "share": search.target.share, "tolerance": search.tolerance}
    attributes |= {"idle": ", ".join(sorted(search.idle))}
    return ordered.assign(variables).assign_attrs(attributes)


def _rounds(loads: np.ndarray, tolerance: float, closed: bool) -> int:
    """Halvings after which the ends of every bracket between two of the loads are within the tolerance."""
    pairs = list(itertools.pairwise(loads.tolist()))
    if closed:
        return max((_whole_rounds(low, high, tolerance) for low, high in pairs), default=0)
    ratio = max((high / low for low, high in pairs), default=1.0)
    # n halvings of ln(ratio) leave the 2^n-th root of the ratio, which is to be at most 1 + tolerance.
    return max(math.ceil(math.log2(math.log(ratio) / math.log1p(tolerance))), 0) if ratio > 1.0 else 0


def _whole_rounds(low: float, high: float, tolerance: float) -> int:
    """Halvings of a bracket of clients at most: those of whole numbers leave one part larger than the other."""
    if high <= max(low + 1.0, low * (1.0 + tolerance)):
        return 0
    # Halves of a whole number may differ by one, so that the longer branch counts.
    middle = float(_middle(low, high, True))
    return 1 + max(_whole_rounds(low, middle, tolerance), _whole_rounds(middle, high, tolerance))


def _middle(low: Any, high: Any, closed: bool) -> np.ndarray:
    """Loads that halve brackets: rates in their ratio; clients in their number, `low` where none is in between."""
    return np.floor((low + high) / 2.0) if closed else np.sqrt(low * high)


def _bisected(
    engines: Fleet,
    target: Target,
    loads: np.ndarray,
    curve: Sequence[Metrics],
    rounds: int,
    progress: Callable[[int], None],
) -> list[Capacity]:
    """The capacity of every deployment, from its curve."""
    fine = np.stack([keeps(metrics, target) for metrics in curve])  # [loads, deployments]
    first = np.where(fine.all(axis=0), len(loads), (~fine).argmax(axis=0))  # the load that fails first
    every = np.arange(fine.shape[1])
    # The bracket is the last load that holds and the first that fails; clipped where all or none do.
    below, above = np.maximum(first - 1, 0), np.minimum(first, len(loads) - 1)
    low, high = loads[below].copy(), loads[above].copy()
    inside = (first > 0) & (first < len(loads))
    # Metrics at the lower and at the upper end of every bracket.
    best = {name: np.stack([metrics[name] for metrics in curve])[below, every] for name in curve[0]}
    worst = {name: np.stack([metrics[name] for metrics in curve])[above, every] for name in curve[0]}
    for _ in range(rounds):
        # Deployments without a bracket are simulated at their own load once more, so that one batch serves all.
        middle = np.where(inside, _middle(low, high, engines.rate is None), low)
        metrics = engines.outcomes(middle, target.objective, progress)
        good = keeps(metrics, target)
        # Clients next to each other have no number in between: their bracket stays as it is.
        met, missed = inside & good, inside & ~good & (middle > low)
        low, high = np.where(met, middle, low), np.where(missed, middle, high)
        best = {name: np.where(met, metrics[name], best[name]) for name in best}
        worst = {name: np.where(missed, metrics[name], worst[name]) for name in worst}
    capacities = []
    for i, member in enumerate(engines.places):
        state = NEVER if first[i] == 0 else MORE if first[i] == len(loads) else MET
        figures = {name: float(values[i]) for name, values in best.items()}
        stops = {name: float(values[i]) for name, values in worst.items()}
        capacities.append(
            Capacity(
                place=member,
                state=state,
                load=math.nan if state == NEVER else float(low[i]),
                fails=math.nan if state == MORE else float(high[i]),
                metrics=figures,
                # What the lowest load misses, or else what the upper end of the bracket does.
                missed=missed_text(figures if state == NEVER else stops, target),
            )
        )
    return capacities

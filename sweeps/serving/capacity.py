"""The largest load that engines can take: bisection of all of them together, with the same requests at every load."""

import dataclasses
import itertools
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from hwspaces import formatted
from jaxroof.serving import PERCENTILES, Objective
from sweeps.api import precision
from sweeps.dataset import STATES, variable_attributes
from sweeps.serving.curve import curve_dataset, loads_of
from sweeps.serving.fleet import Fleet, Place, fleet
from sweeps.serving.grid import Metrics
from sweeps.serving.objective import LIMITS, SHARE, Target, figure_text, parse_target
from sweeps.serving.question import question

TOLERANCE = 0.02
"""By how much more load an engine would fail at most: how far apart the two ends of its bracket are in the end."""

POINTS = 12
"""Loads of the curve that brackets start from."""

BELOW, ABOVE = 1 / 20, 2.0
"""The curve's ends where none are given: shares of the throughput with all requests there at once, of the slowest
engine and of the fastest."""

MET, MORE, NEVER = STATES


@dataclasses.dataclass(frozen=True, eq=False)
class Capacity:
    """What one place can take."""

    place: Place
    state: str  # MET, MORE or NEVER
    load: float  # the largest that keeps the target, requests per s or clients; NaN where there is none
    fails: float  # the smallest above it that does not; NaN where none was found
    metrics: Mapping[str, float]  # at `load`; where there is none, at the lowest load
    missed: str  # what the lowest load misses, or what stops the load from being larger; "" where nothing does

    @property
    def per_device(self) -> float:
        """`load` per device; NaN where there is none."""
        return self.load / self.place.devices

    @property
    def per_dollar(self) -> float:
        """Requests per US dollar at `load`; NaN without a price."""
        rate = self.metrics["requests_per_second"]
        return rate / self.place.price if math.isfinite(self.load) else math.nan


@dataclasses.dataclass(frozen=True, eq=False)
class Search:
    """Capacities, the largest per device first, and the curve that the search started from."""

    capacities: tuple[Capacity, ...]
    fleet: Fleet
    target: Target
    curve: xr.Dataset  # over hardware and load
    tolerance: float
    rounds: int
    simulations: int
    seconds: float

    @property
    def closed(self) -> bool:
        """Whether loads are clients, not requests per s."""
        return self.fleet.rate is None


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
    tolerance: float = TOLERANCE,
    begun: Callable[[int], Callable[[int], None]] = lambda simulations: lambda done: None,
    **keys: Any,
) -> Search:
    """The largest rate, or number of clients, at which every accelerator keeps the objective.

    A curve over loads brackets it: between the last load before the first that fails, and that one. Then all brackets
    are halved together, those of rates in the ratio of their ends, so many times that the ends are within `tolerance`.
    Requests are the same at every load and for every engine, with their times stretched; so a difference is none of
    chance.

    Args:
      model: catalogue name or config file.
      hardware: accelerators; those that cannot serve the model are left out with the reason.
      slo: what has to be kept: limits of requests, "ttft=500ms,tpot=40ms", of which a `share` has to be good, and
        limits of figures of the run, "ttft_p99=1s,tpot_mean=30ms". Requests that are refused, rejected or left are
        never good.
      share: of all requests, above 0 and at most 1.
      rates: loads of the curve in requests per s, rising; None: from a twentieth of the slowest engine's throughput to
        twice the fastest one's.
      concurrencies: in its place, clients of a closed loop.
      closed: with neither of them: clients, from 1 to as many as run at once.
      tp: tensor-parallel degree, or several; None: the smallest power of two at which the model fits on each.
      tolerance: of the capacity, relative; of fewer than 1 / `tolerance` clients, one client.
      begun: called with the number of simulations to come; returns what is called with those that are done.
      **keys: of `sweeps.serving.question.Question`, as of `latency_curve`.

    Raises:
      ValueError: one line that names what is wrong, its value and what is allowed.
    """
    start = time.perf_counter()
    if not 1e-4 <= tolerance < 1.0:
        raise ValueError(f"tolerance = {tolerance:g} must be from 0.0001 to below 1")
    target = parse_target(slo, share)
    given = None
    if rates is not None or concurrencies is not None:
        given, closed = loads_of(rates, concurrencies)
    asked = question(hardware="-", model=model, **keys, **({"concurrency": 1} if closed else {}))
    names = [hardware] if isinstance(hardware, str) else list(hardware)
    with precision("float64"):
        engines = fleet(asked, names, [tp] if isinstance(tp, int) else tp)
        count = len(engines.places)
        if given is None and closed:
            given = _usual_clients(engines)
        supposed = np.geomspace(1.0, 2.0**POINTS, POINTS) if given is None else given
        progress = begun(count * (len(supposed) + _rounds(supposed, tolerance, closed) + (given is None)))
        loads = _usual_rates(engines, target.objective, progress) if given is None else given
        rounds = _rounds(loads, tolerance, closed)
        found = [engines.outcomes([load] * count, target.objective, progress) for load in loads]
        ends = _bisected(engines, target, loads, found, rounds, progress)
        curve = curve_dataset(engines, loads, found)
    made = sorted(ends, key=lambda one: (-np.nan_to_num(one.per_device, nan=-1.0), one.place.label))
    simulations = count * (len(loads) + rounds + (given is None))
    return Search(
        capacities=tuple(made),
        fleet=engines,
        target=target,
        curve=curve,
        tolerance=tolerance,
        rounds=rounds,
        simulations=simulations,
        seconds=time.perf_counter() - start,
    )


def dataset(found: Search) -> xr.Dataset:
    """The curve with the capacity of every accelerator, in the order of the capacities per device."""
    ordered = found.curve.sel(hardware=[one.place.label for one in found.capacities])
    prefix = "client_" if found.closed else ""
    columns = {
        f"{prefix}capacity": [one.load for one in found.capacities],
        f"{prefix}capacity_per_device": [one.per_device for one in found.capacities],
        "requests_per_usd": [one.per_dollar for one in found.capacities],
        "state": np.array([STATES.index(one.state) for one in found.capacities], np.int8),
    }
    made = {name: np.asarray(values) for name, values in columns.items()}
    variables = {name: ("hardware", values, variable_attributes(name, values.dtype)) for name, values in made.items()}
    limits = {name: getattr(found.target.objective, name) for name in LIMITS} | dict(found.target.limits)
    attributes = {f"limit_{name}": value for name, value in limits.items() if math.isfinite(value)}
    attributes |= {"target": found.target.text, "share": found.target.share, "tolerance": found.tolerance}
    return ordered.assign(variables).assign_attrs(attributes)


def kept(metrics: Metrics, target: Target) -> np.ndarray:
    """Whether the target is kept, shape [places]."""
    found = good_share(metrics) >= target.share
    for name, limit in target.limits.items():
        found &= metrics[name] <= limit  # NaN where nothing was answered: not kept
    return found


def good_share(metrics: Metrics) -> np.ndarray:
    """Share of all requests that are good, shape [places]: refused, rejected and unfinished ones are not."""
    requests = sum(metrics[name] for name in ("finished", "refused", "rejected", "unfinished"))
    return metrics["goodput"] * metrics["duration"] / np.maximum(requests, 1.0) * (1.0 + 1e-12)


def missed_text(metrics: Mapping[str, float], target: Target) -> str:
    """What a run misses, by how much; "" where it keeps the target."""
    parts = []
    share = good_share_of(metrics)
    if not share >= target.share:
        parts.append(f"{100 * share:.1f} % of the requests are good, of {100 * target.share:g} %")
        percent = next((p for p in PERCENTILES if p >= 100 * target.share - 1e-9), PERCENTILES[-1])
        for name in LIMITS:
            limit, value = getattr(target.objective, name), metrics[f"{name}_p{percent}"]
            if value > limit:
                parts.append(f"{figure_text(f'{name}_p{percent}')} {formatted(value, 's')} of {formatted(limit, 's')}")
        for name, words in (("refused", "too long for the cache"), ("rejected", "turned away"), ("unfinished", "left")):
            if metrics[name]:
                parts.append(f"{metrics[name]:,.0f} {words}")
    for name, limit in target.limits.items():
        if not metrics[name] <= limit:
            parts.append(f"{figure_text(name)} {formatted(metrics[name], 's')} of {formatted(limit, 's')}")
    return ", ".join(parts)


def _usual_clients(engines: Fleet) -> np.ndarray:
    """Clients of the curve where none are given."""
    most = min(float(engines.policy.max_sequences), len(engines.requests.stream))
    return np.unique(np.geomspace(1.0, max(most, 1.0), POINTS).round())


def _usual_rates(engines: Fleet, objective: Objective, progress: Callable[[int], None]) -> np.ndarray:
    """Rates of the curve where none are given."""
    at_once = engines.outcomes([1e6 * engines.rate] * len(engines.places), objective, progress)
    rates = at_once["requests_per_second"]
    return _readable(np.geomspace(BELOW * np.nanmin(rates), ABOVE * np.nanmax(rates), POINTS))


def _readable(loads: np.ndarray) -> np.ndarray:
    """Loads of three digits."""
    return np.array([float(f"{load:.3g}") for load in loads])


def _rounds(loads: np.ndarray, tolerance: float, closed: bool) -> int:
    """Halvings after which the ends of every bracket between two of the loads are within the tolerance."""
    pairs = list(itertools.pairwise(loads.tolist()))
    if closed:
        return max((_whole_rounds(low, high, tolerance) for low, high in pairs), default=0)
    ratio = max((high / low for low, high in pairs), default=1.0)
    return max(math.ceil(math.log2(math.log(ratio) / math.log1p(tolerance))), 0) if ratio > 1.0 else 0


def _whole_rounds(low: float, high: float, tolerance: float) -> int:
    """Halvings of a bracket of clients at most: those of whole numbers leave one part larger than the other."""
    if high <= max(low + 1.0, low * (1.0 + tolerance)):
        return 0
    middle = float(_middle(low, high, True))
    return 1 + max(_whole_rounds(low, middle, tolerance), _whole_rounds(middle, high, tolerance))


def _middle(low: Any, high: Any, closed: bool) -> np.ndarray:
    """Loads that halve brackets: rates in their ratio; clients in their number, `low` where none is in between."""
    return np.floor((low + high) / 2.0) if closed else np.sqrt(low * high)


def _bisected(
    engines: Fleet,
    target: Target,
    loads: np.ndarray,
    found: Sequence[Metrics],
    rounds: int,
    progress: Callable[[int], None],
) -> list[Capacity]:
    """The capacity of every place, from its curve."""
    fine = np.stack([kept(metrics, target) for metrics in found])  # [loads, places]
    first = np.where(fine.all(axis=0), len(loads), (~fine).argmax(axis=0))  # the load that fails first
    place = np.arange(fine.shape[1])
    below, above = np.maximum(first - 1, 0), np.minimum(first, len(loads) - 1)
    low, high = loads[below].copy(), loads[above].copy()
    inside = (first > 0) & (first < len(loads))
    best = {name: np.stack([metrics[name] for metrics in found])[below, place] for name in found[0]}
    worst = {name: np.stack([metrics[name] for metrics in found])[above, place] for name in found[0]}
    for _ in range(rounds):
        middle = np.where(inside, _middle(low, high, engines.rate is None), low)
        metrics = engines.outcomes(middle, target.objective, progress)
        keeps = kept(metrics, target)
        met, missed = inside & keeps, inside & ~keeps & (middle > low)
        low, high = np.where(met, middle, low), np.where(missed, middle, high)
        best = {name: np.where(met, metrics[name], best[name]) for name in best}
        worst = {name: np.where(missed, metrics[name], worst[name]) for name in worst}
    made = []
    for i, where in enumerate(engines.places):
        state = NEVER if first[i] == 0 else MORE if first[i] == len(loads) else MET
        figures = {name: float(values[i]) for name, values in best.items()}
        stops = {name: float(values[i]) for name, values in worst.items()}
        made.append(
            Capacity(
                place=where,
                state=state,
                load=math.nan if state == NEVER else float(low[i]),
                fails=math.nan if state == MORE else float(high[i]),
                metrics=figures,
                missed=missed_text(figures if state == NEVER else stops, target),
            )
        )
    return made


def good_share_of(metrics: Mapping[str, float]) -> float:
    """Share of all requests of one run that are good."""
    return float(good_share({name: np.asarray(value) for name, value in metrics.items()}))

"""Obstacles of points of a comparison: the first obstacle of each, and its sentence."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

import numpy as np

from hwspaces import formatted
from jaxroof.jobs.function import METRICS as OF_FUNCTIONS
from sweeps.ask.names import VARIABLES, variable
from sweeps.data.labels import amount, number
from sweeps.run.simulated.objective import limits_of

UNTRIED, ILLEGAL, UNEVEN, WEIGHTS, CACHE, SLO, UNPRICED, FEASIBLE = range(8)
"""How far a point gets: beyond what the links connect and not asked for; a split that cannot be; a batch that its
attention groups cannot share evenly; weights, then KV cache, that do not fit; a limit that is missed; a device without
the figure that points are sorted by; or all the way."""

Arrays = Mapping[str, np.ndarray]
"""Variables of the request job over (hardware, deployment, batch)."""


def limits(text: str | Mapping[str, Any] | None) -> dict[str, float]:
    """Limits by metric in SI units, of "ttft=500ms,tpot=40ms" or the same as a dictionary.

    Raises:
      ValueError: one line, for a name that is no metric, one given twice, or a value with a wrong unit.
    """
    return limits_of(text, {name: variable(name).unit for name in RANKED}, "metric", "METRIC=VALUE")


RANKED = tuple(
    name
    for name, meaning in VARIABLES.items()
    if meaning.higher_is_better is not None
    and name not in ("step_time", "mfu", "mbu", *OF_FUNCTIONS)
    and not name.startswith("op_")
)
"""Metrics of a request that are better higher or lower."""


def stages(arrays: Arrays, tried: np.ndarray, even: np.ndarray, slo: Mapping[str, float], metric: str) -> np.ndarray:
    """Stage that every point reaches, one of the codes above; int, shape (hardware, deployment, batch)."""
    obstacles = (
        (UNTRIED, ~tried),
        (ILLEGAL, ~arrays["legal"]),
        (UNEVEN, ~even),
        (WEIGHTS, ~(arrays["kv_capacity_tokens"] > 0)),
        (CACHE, ~arrays["fits"]),
        (SLO, ~(excess(arrays, slo) <= 1.0)),
        (UNPRICED, ~np.isfinite(arrays[metric])),
    )
    codes, masks = zip(*obstacles, strict=True)
    shape = np.broadcast_shapes(*(mask.shape for mask in masks))
    return np.select([np.broadcast_to(mask, shape) for mask in masks], codes, FEASIBLE)


def excess(arrays: Arrays, slo: Mapping[str, float]) -> np.ndarray:
    """By what factor a point misses the limit that it misses most; at most 1 where it meets all of them."""
    worst = np.zeros(arrays["ttft"].shape)
    for name, limit in slo.items():
        values = arrays[name].astype(float)
        worst = np.maximum(worst, limit / values if variable(name).higher_is_better else values / limit)
    return worst


def distances(arrays: Arrays, stage: np.ndarray, batches: np.ndarray, slo: Mapping[str, float]) -> np.ndarray:
    """Distance of every point from passing its obstacle; comparable between points of one stage."""
    room = np.maximum(arrays["sequence_capacity"], 0.5)
    far = {WEIGHTS: arrays["weight_bytes"], CACHE: batches / room, SLO: excess(arrays, slo)}
    return np.select([stage == code for code in far], list(far.values()), 0.0)


@dataclasses.dataclass(frozen=True)
class Obstructed:
    """Facts of a point that its sentence needs."""

    stage: int
    metrics: Mapping[str, float]
    batch: int
    devices: int
    groups: int  # attention groups
    capacity: float  # B of one device's memory
    usable: float  # B of it that weights and cache may take
    whole: float  # B of the model's weights on a single device
    reach: float  # devices that the links connect


def sentence(point: Obstructed, slo: Mapping[str, float], metric: str, broken: Callable[[], str | None]) -> str:
    """Why `point` is none to choose, in words; `broken` gives the rule that an illegal one breaks."""
    if point.stage == ILLEGAL:
        return broken() or "the split is not possible"
    if point.stage == UNEVEN:
        return f"{point.groups} attention groups cannot share a batch of {point.batch} evenly"
    if point.stage == WEIGHTS:
        weights = (
            f"weights {formatted(point.metrics['weight_bytes'], 'B')} of {formatted(point.capacity, 'B')} per device"
        )
        least = math.ceil(point.whole / point.usable) if point.usable > 0 else 0
        needs = f", needs at least {least} devices" if least > point.devices else ""
        linked = f"; its links connect {number(point.reach)}" if least > point.reach else ""
        return f"does not fit: {weights}{needs}{linked}"
    if point.stage == CACHE:
        room = number(point.metrics["sequence_capacity"])
        return f"does not fit: KV cache for {room} such sequences, batch {point.batch}"
    if point.stage == SLO:
        return " and ".join(_missed(name, point.metrics[name], slo[name]) for name in slo if _misses(name, point, slo))
    return "no price" if metric == "usd_per_million_tokens" else f"no figure for {metric}"


def _misses(name: str, point: Obstructed, slo: Mapping[str, float]) -> bool:
    value = point.metrics[name]
    return not (value >= slo[name] if variable(name).higher_is_better else value <= slo[name])


def _missed(name: str, value: float, limit: float) -> str:
    return f"{word(name)} {amount(value, variable(name).unit)} misses {amount(limit, variable(name).unit)}"


def limit_text(name: str, limit: float) -> str:
    """A limit for people: "TTFT <= 500 ms"."""
    sign = ">=" if variable(name).higher_is_better else "<="
    return f"{word(name)} {sign} {amount(limit, variable(name).unit)}"


def word(name: str) -> str:
    """A metric as people write it."""
    return {"ttft": "TTFT", "tpot": "TPOT", "e2e": "E2E"}.get(name, name)


class Ranked(Protocol):
    """A row of a comparison."""

    @property
    def hardware(self) -> str:
        """Name of the accelerator."""

    @property
    def stage(self) -> int:
        """How far it gets."""

    @property
    def distance(self) -> float:
        """What separates it from the next stage."""


R = TypeVar("R", bound=Ranked)


def nearest_misses(rows: Iterable[R], infeasible: Iterable[R]) -> tuple[R, ...]:
    """For every accelerator without any of `rows`, the infeasible one that came nearest to being one."""
    served, nearest = {row.hardware for row in rows}, dict[str, R]()
    for row in infeasible:
        before = nearest.get(row.hardware, row)
        if row.hardware not in served and (-row.stage, row.distance) <= (-before.stage, before.distance):
            nearest[row.hardware] = row
    return tuple(nearest.values())

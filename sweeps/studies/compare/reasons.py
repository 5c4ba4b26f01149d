"""Obstacles of points of a comparison: the first obstacle of each, and its sentence."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jaxroof.jobs.function import METRICS as OF_FUNCTIONS
from sweeps.ask.names import VARIABLES, variable
from sweeps.data.labels import amount, number
from sweeps.run.simulated.objective import limits_of
from sweeps.studies.compare.ranking import (
    CACHE,
    FEASIBLE,
    ILLEGAL,
    LIMIT,
    PRICE,
    UNEVEN,
    UNPRICED,
    UNTRIED,
    WEIGHTS,
    too_large,
)

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
    # In the order of the stages: np.select takes the first mask that holds, which is the first obstacle.
    obstacles = (
        (UNTRIED, ~tried),
        (ILLEGAL, ~arrays["legal"]),
        (UNEVEN, ~even),
        # Negated comparisons, so that NaN counts as an obstacle.
        (WEIGHTS, ~(arrays["kv_capacity_tokens"] > 0)),
        (CACHE, ~arrays["fits"]),
        (LIMIT, ~(excess(arrays, slo) <= 1.0)),
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
        # A ratio above 1 is by what factor the limit is missed, for figures of either direction.
        worst = np.maximum(worst, limit / values if variable(name).higher_is_better else values / limit)
    return worst


def distances(arrays: Arrays, stage: np.ndarray, batches: np.ndarray, slo: Mapping[str, float]) -> np.ndarray:
    """Distance of every point from passing its obstacle; comparable between points of one stage."""
    # Sequences that fit: half a one at least, so that the ratio stays finite.
    room = np.maximum(arrays["sequence_capacity"], 0.5)
    # B of weights per device, batch over room, factor of the worst limit: each orders points of its own stage.
    far = {WEIGHTS: arrays["weight_bytes"], CACHE: batches / room, LIMIT: excess(arrays, slo)}
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
    all_weights: float  # B of the model's weights on a single device
    reach: float  # devices that the links connect


def sentence(point: Obstructed, slo: Mapping[str, float], metric: str, broken: Callable[[], str | None]) -> str:
    """Why `point` is none to choose, in words; `broken` gives the rule that an illegal one breaks."""
    if point.stage == ILLEGAL:
        return broken() or "the split is not possible"
    if point.stage == UNEVEN:
        return f"{point.groups} attention groups cannot share a batch of {point.batch} evenly"
    if point.stage == WEIGHTS:
        weights = point.metrics["weight_bytes"], point.capacity, point.all_weights
        return too_large(*weights, point.usable, point.devices, point.reach)
    if point.stage == CACHE:
        room = number(point.metrics["sequence_capacity"])
        return f"does not fit: KV cache for {room} such sequences, batch {point.batch}"
    if point.stage == LIMIT:
        return " and ".join(_missed(name, point.metrics[name], slo[name]) for name in slo if _misses(name, point, slo))
    return "no price" if metric == PRICE else f"no figure for {metric}"


def _misses(name: str, point: Obstructed, slo: Mapping[str, float]) -> bool:
    value = point.metrics[name]
    # NaN misses every limit.
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

"""Limits and metrics of every class of requests in a stream that mixes several."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hwspaces import formatted
from jaxroof.batch import STATUSES, Served
from jaxroof.jobs.serve import LATENCIES, PERCENTILES, Objective
from sweeps.run.simulated.objective import LIMITS, SHARE, Target, figure_text, limits, parse_target, slo_text
from workloads.streams.classes import RequestClass

KNOWN = tuple(name for name in LATENCIES if name != "itl")
"""Latencies that are known of every class: the time between two tokens is one of the engine's steps."""

CLASS_METRICS = (
    *(f"{name}_{of}" for name in KNOWN for of in ("mean", *(f"p{percent}" for percent in PERCENTILES))),
    *("good_share", "goodput", "duration", *STATUSES[:-1]),
)
"""Metrics of every class; the others are of all requests together."""


def class_metric(position: int, name: str) -> str:
    """Name of a metric of the class at this position."""
    return f"class_{position}_{name}"


def is_of_class(name: str) -> bool:
    """Whether a metric is one of a class."""
    return name.startswith("class_")


def of_classes(
    served: Served, kind: np.ndarray | None, scores: Callable[[Served], Mapping[str, Any]]
) -> dict[str, Any]:
    """Metrics of every class, those of a run in which the requests of the others are absent, by `class_metric`.

    Args:
      served: outcome of every request, shape [..., requests].
      kind: class of every request, shape [requests] or that of `served`; None: there are no classes.
      scores: `jaxroof.jobs.serve.serving_metrics` of the run, from what became of its requests.
    """
    metrics: dict[str, Any] = {}
    for position in range(0 if kind is None else int(np.max(kind)) + 1):
        # Requests of other classes become absent, so that the same function scores the rest.
        status = np.where(kind == position, served.status, STATUSES.index("absent")).astype(served.status.dtype)
        values = scores(dataclasses.replace(served, status=status))
        metrics |= {class_metric(position, name): values[name] for name in CLASS_METRICS}
    return metrics


def metrics_of_class(metrics: Mapping[str, Any], position: int) -> dict[str, Any]:
    """Metrics of the class at this position by their own names; NaN where none of its requests came."""
    return {name: metrics.get(class_metric(position, name), math.nan) for name in CLASS_METRICS}


def target_of(slo: str | Mapping[str, Any] | None, share: Any, classes: Sequence[RequestClass]) -> Target:
    """The target of a run: of its classes where there are some, each judged by itself.

    Args:
      slo: limits of all requests, or of the classes without limits of their own.
      share: of the requests of each class that have to keep the limits of requests.

    Raises:
      ValueError: one line that names the class, what is wrong, its value and what is allowed.
    """
    if not classes:
        return parse_target(slo, share)
    # Each class is judged by its own limits, or by the common ones where it has none.
    targets = {one.name: _target(one, slo, share) for one in classes}
    common = [target for one, target in zip(classes, targets.values(), strict=True) if one.slo is None]
    return Target(common[0].objective if common else Objective(), next(iter(targets.values())).share, {}, targets)


def _target(one: RequestClass, slo: str | Mapping[str, Any] | None, share: Any) -> Target:
    # A class without limits would count every request as good.
    if one.slo is None and not slo:
        raise ValueError(f"slo is missing: class {one.name} has no limits of its own, such as slo = 'ttft=1s'")
    try:
        target = parse_target(dotless(one.slo) if one.slo is not None else slo, share)
    except ValueError as error:
        raise ValueError(str(error) if one.slo is None else f"class {one.name}: {error}") from None
    for name in target.limits:
        if name.rpartition("_")[0] not in KNOWN:
            raise ValueError(
                f"class {one.name}: slo {name}: it is known of all requests together only; limit {', '.join(KNOWN)}"
            )
    return target


def dotless(slo: str | Mapping[str, Any]) -> str | Mapping[str, Any]:
    """Limits with the figures of a run as Python names them: ttft.p99 as ttft_p99."""
    return slo.replace(".p", "_p").replace(".mean", "_mean") if isinstance(slo, str) else slo


def objective_of(kind: np.ndarray | None, classes: Sequence[RequestClass], common: Objective) -> Objective:
    """Limits of every request, each of shape [requests]: those of its class, or the common ones; scalars, shape (),
    where there are no classes.

    Args:
      kind: class of every request, shape [requests].
    """
    if kind is None:
        return common
    each = class_objectives(classes, common)
    # One array per limit, indexed by the class of each request.
    return Objective(**{name: np.array([float(getattr(one, name)) for one in each])[kind] for name in LIMITS})


def class_objectives(classes: Sequence[RequestClass], common: Objective) -> list[Objective]:
    """Limits of the requests of every class: its own, or the common ones."""
    return [common if one.slo is None else _target(one, None, SHARE).objective for one in classes]


def limits_text(one: RequestClass, common: Objective) -> str:
    """Limits of a class for people: "TTFT <= 1 s, TTFT p99 <= 5 s"."""
    target = Target(common) if one.slo is None else _target(one, None, SHARE)
    parts = [slo_text(target.objective)] if limits(target.objective) else []
    parts += [f"{figure_text(name)} <= {formatted(value, 's')}" for name, value in target.limits.items()]
    return ", ".join(parts) or "none"


def padded_objective(objective: Objective, requests: int) -> Objective:
    """Limits of every request with those of absent ones, so that they are as many as the traffic's."""
    if not np.ndim(objective.ttft):
        return objective
    # Absent requests have no limits: infinity.
    more = max(requests - len(np.asarray(objective.ttft)), 0)
    columns = {name: np.pad(getattr(objective, name), (0, more), constant_values=np.inf) for name in LIMITS}
    return dataclasses.replace(objective, **columns) if more else objective

"""Served models under load, as parts of the matrix: one engine, by day, pools and drafts."""

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import hwspaces
from sweeps.measure.validate.relative_errors import grouped
from sweeps.measure.validate.serving.attempt import attempted
from sweeps.measure.validate.serving.launches import INFERENCEX
from sweeps.measure.validate.serving.scores import METRICS, ServingPrediction, band, throughput
from sweeps.measure.validate.serving.serving_points import SEED, ServingPoint, points
from sweeps.measure.validate.serving.suspects import checked
from tests.evidence import amd_fit, inferencex_points, pools
from tests.evidence.matrix_rows.part import Left, Measured, Part, single

SAMPLE = "e2e/silicon_sample.csv"

SERVING_FIT = ("H100-SXM", "H200-SXM", "B200-SXM")
"""Devices of whose served models `serving_fit` has seen the TPOT."""


POOLED = 4
"""One deployment with pools or drafts in so many is scored where time is short: each has a program of its own."""


def served(data: Measured) -> Iterator[Part]:
    """Served models of the silicon sample whose labels nothing speaks against."""
    found, left = points(data.folder / SAMPLE)
    if not data.share:
        data.leave(left)
    for one in _predicted(data, [point for point in checked(found) if point.suspect is None]):
        for metric in METRICS:
            yield _part("served models", metric, one.point, _fit(one.point, metric), one.ratio(metric))


def _fit(point: ServingPoint, metric: str) -> str:
    """The fit that has seen a metric of a point of the sample; the throughput there follows from both latencies."""
    if metric == "ttft":
        return "first_token" if point.family == INFERENCEX else ""
    return "serving_fit" if point.gpu in SERVING_FIT else ""


def dated(data: Measured) -> Iterator[Part]:
    """Served models of InferenceX by day: TTFT is the median, TPOT the mean where there is one.

    TPOT is fitted where the silicon sample has the deployment, and on AMD's devices under SGLang.
    """
    found, left = inferencex_points.published(data.folder)
    if not data.share:
        data.leave(left)
    seen = _sampled(data.folder)
    # One draw of lengths for all days of a point: equal simulations are run once.
    runs = [dataclasses.replace(run, point=_with_seed(run.point)) for run in found]
    known = {one.point.spec.text(): one for one in _predicted(data, _distinct(run.point for run in runs))}
    for run in runs:
        point, one = run.point, known.get(run.point.spec.text())
        if one is None or one.median_ttft is None:
            continue
        fit = "serving_fit" if _deployment(point) in seen else ""
        fit = "amd_fit" if point.vendor == "AMD" and point.engine == amd_fit.ENGINE else fit
        measured = throughput(point, point.ttft, point.tpot)
        values = {
            "ttft": ("first_token", one.median_ttft / run.median_ttft),
            "tpot": (fit, one.tpot / point.tpot),
            "throughput": (fit, throughput(point, one.ttft, one.tpot) / measured),
        }
        for metric, (by, ratio) in values.items():
            part = _part("served models by day", metric, point, by, ratio)
            engine = "atom" if run.framework == "atom" else part.engine
            yield part._replace(engine=engine, model=f"{part.model}, {run.precision}")


def _with_seed(point: ServingPoint) -> ServingPoint:
    return dataclasses.replace(point, spec=dataclasses.replace(point.spec, seed=SEED))


def _distinct(found: Iterable[ServingPoint]) -> list[ServingPoint]:
    return list({point.spec.text(): point for point in found}.values())


@functools.cache
def _sampled(folder: Path) -> frozenset[tuple]:
    """Deployments of the silicon sample whose TPOT `serving_fit` has seen."""
    found = (point for point in points(folder / SAMPLE)[0] if point.gpu in SERVING_FIT)
    return frozenset(_deployment(point) for point in found)


def _deployment(point: ServingPoint) -> tuple:
    return point.gpu, point.engine, point.model_name, point.precision, point.isl, point.osl


def pooled(data: Measured) -> Iterator[Part]:
    """Pools for prompts and decoding, and drafting engines: InferenceX's deployments of even number are fitted."""
    every = list(pools.read(data.folder, clients=float("inf"), every=True))
    if not data.share:
        data.left += [Left(reason, 0) for point, reason in every if point is None]
    found = [point for point, _ in every if point is not None]
    seen = {_pools(point) for point in found if pools.group(point) == "fitted"}
    found += (point for point in points(data.folder / SAMPLE, pools=True)[0] if point.prompts is not None)
    found = data.sample(found, lambda point: str(_pools(point)), POOLED)
    known = {one.point.spec.text(): one for one in _predicted(data, _distinct(found))}
    for point in found:
        if point.spec.text() in known:
            one = dataclasses.replace(known[point.spec.text()], point=point)
            waits = point.suspect == pools.FASTER
            kind = f"{pools.kind(point)}, prompts wait" if waits else pools.kind(point)
            fit = "pools" if _pools(point) in seen else ""
            for metric in METRICS:
                yield _part(kind, metric, point, fit, one.ratio(metric))


def _pools(point: ServingPoint) -> tuple:
    """What a deployment's loads and days have in common."""
    return _deployment(point), point.layout, point.replicas, point.prompts, point.prompt_replicas, point.drafting


def _part(kind: str, metric: str, point: ServingPoint, fit: str, ratio: float) -> Part:
    release = point.launch.engine.partition("@")[2] or hwspaces.engine(point.engine).version
    return single(
        kind=kind,
        case=metric,
        device=point.gpu,
        engine=point.engine,
        release=release,
        fit=fit,
        predicted=ratio,
        measured=1.0,
        model=point.model_name,
        load=f"{band(point)} clients",
        date=point.date,
    )


def _predicted(data: Measured, found: Sequence[ServingPoint]) -> list[ServingPrediction]:
    """Predictions of the points of this share: those that share programs are of one.

    They are those of one model under one engine; of pools and drafts those of one deployment.
    """

    def program(point: ServingPoint) -> tuple:
        alone = point.prompts is None and not point.drafting
        return (point.engine, point.model_name) if alone else _pools(point)

    groups = grouped(found, program)
    own = groups_of_share(list(groups.values()), data.share, data.shares)
    made, left = attempted([point for group in own for point in group])
    data.leave(left)
    return made


def groups_of_share(groups: Sequence[list[ServingPoint]], share: int, shares: int) -> list[list[ServingPoint]]:
    """Groups of one share: each, the one with most requests first, is of the share that has least so far."""
    loads, own = [0] * shares, []
    for group in sorted(groups, key=_requests, reverse=True):
        least = loads.index(min(loads))
        loads[least] += _requests(group)
        own += [group] if least == share else []
    return own


def _requests(group: Sequence[ServingPoint]) -> int:
    return sum(point.requests for point in group)

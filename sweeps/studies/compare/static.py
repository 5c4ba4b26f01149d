"""A ranking of accelerators, their number and parallelism for one model, over a grid of all of them."""

import dataclasses
import functools
import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import hwspaces
import workloads
from jaxroof.memory.capacity import room_for_weights, weight_bytes
from jaxroof.memory.legality import broken_rule
from sweeps.ask import engines
from sweeps.ask.axes import Axis
from sweeps.ask.cases import cache_precision, cache_text, model_deployment, under
from sweeps.ask.deployments import with_settings
from sweeps.ask.flag_text import counts, several
from sweeps.ask.keys import question_of
from sweeps.ask.layouts import Layout, groups_of, label, possible, powers_of_two, reach
from sweeps.ask.leaves import leaf_number
from sweeps.ask.names import variable_attributes
from sweeps.ask.precisions import compute_precisions, device_notes, sorted_out, without_cache_units
from sweeps.ask.question import alike_devices, asking
from sweeps.ask.spec import spec
from sweeps.ask.words import NAMED, StaticWords
from sweeps.data.labels import known
from sweeps.run.asked import answers_over, asked, labelled
from sweeps.studies.compare import reasons
from sweeps.studies.compare.candidates import accelerators, layouts_of
from sweeps.studies.compare.ranking import (
    FEASIBLE,
    RATE,
    UNTRIED,
    ascending,
    default_metric,
    first_of_each,
    nearest_misses,
    ranks,
)

if TYPE_CHECKING:
    import xarray as xr

METRICS = (
    *("ttft", "tpot", "e2e", "devices", "tokens_per_second", "tokens_per_second_per_request"),
    *("tokens_per_second_per_device", "tokens_per_joule_at_tdp", "usd_per_million_tokens"),
    *("weight_bytes", "kv_capacity_tokens", "sequence_capacity", "fits", "legal", "feasible"),
    *("prefill_extrapolation", "decode_extrapolation"),
)
"""Variables of every comparison; the one that it is sorted by comes to them."""

AXES = ("hardware", "deployment", "batch")
BATCHES = tuple(2**i for i in range(10))
"""Requests at once that are tried by default: powers of two up to 512."""


@dataclasses.dataclass(frozen=True)
class StaticCandidate:
    """One accelerator, a number of devices and a layout, at its best batch; or why it is none to choose."""

    hardware: str
    devices: int
    layout: str
    batch: int
    metrics: Mapping[str, float]  # SI units; NaN where the accelerator has no figure for it
    capacity: float  # B of one device's memory
    stage: int  # one of the codes of `sweeps.studies.compare.reasons`
    distance: float  # from being feasible, between rows of one stage; 0 for feasible ones
    reason: str | None  # None: feasible


@dataclasses.dataclass(frozen=True, repr=False)
class StaticComparison:
    """Result of a static comparison: every row that was tried, best first."""

    sizes: Mapping[str, int]  # of hardware, deployment and batch; none where nothing was tried
    metric: str  # what rows are sorted by
    chosen: str  # why by that one: "asked for", or how the default came about
    rows: tuple[StaticCandidate, ...]  # every feasible (hardware, devices, layout), best first
    infeasible: tuple[StaticCandidate, ...]  # every other one that was tried, in the order of the hardware
    lacking: Mapping[str, str]  # accelerators that lack a matrix precision -> which, and what they have
    announced: frozenset[str]  # accelerators that cannot be bought yet
    prices: Mapping[str, hwspaces.Price]  # of the accelerators that have one
    refused: Mapping[str, str]  # layouts that the model does not allow -> the broken rule
    model: workloads.ModelEntry
    isl: float  # prompt tokens of every request
    osl: float  # output tokens
    slo: Mapping[str, float]  # limit by metric, SI units
    kv: str  # precision of the KV cache in words
    efficiency: str  # name of the constants that every point was computed with
    points: int
    seconds: float
    notes: tuple[str, ...]
    grid: Callable[[], "xr.Dataset"]  # makes `dataset`

    def __repr__(self) -> str:
        best = f", best {self.rows[0].hardware} as {self.rows[0].layout}" if self.rows else ""
        rows = f"{len(self.rows)} rows of {self.points:,} points"
        return f"<StaticComparison of {self.model.name} by {self.metric}: {rows}{best}>"

    @functools.cached_property
    def dataset(self) -> "xr.Dataset":
        """Every point, over hardware, deployment and batch; made when it is first asked for."""
        return self.grid()

    @property
    def best_layouts(self) -> tuple[StaticCandidate, ...]:
        """Of `rows`, the best of every (hardware, devices)."""
        return first_of_each(self.rows, lambda row: (row.hardware, row.devices))

    @property
    def nearest_misses(self) -> tuple[StaticCandidate, ...]:
        """For every accelerator without any feasible row, the row that came nearest to one."""
        return nearest_misses(self.rows, self.infeasible)

    @property
    def accelerators(self) -> int:
        """Number of accelerators that were looked at."""
        return len({row.hardware for row in (*self.rows, *self.infeasible)}) + len(self.lacking)


def compare_static(
    model: str,
    isl: float | str,
    osl: float | str,
    *,
    begun: Callable[[int], Callable[[int], None]] = lambda points: lambda done: None,
    **words: Any,
) -> StaticComparison:
    """Price a static batch of requests on every accelerator, number of devices, layout and batch, and rank them.

    Args are those of `sweeps.compare_static`; `sweeps.ask.layouts.layouts` says which layouts are tried.
    """
    start = time.perf_counter()

    # What is asked: limits, the model and its deployment, accelerators that can run it, the metric to rank by.
    own = question_of(StaticWords, **words)
    wanted = reasons.limits(own.slo)
    if own.sort is not None:
        known(own.sort, reasons.RANKED, "metric")
    entry = workloads.model(model, weights=own.weights)
    given = dict(own.overrides or {})
    of = engines.chosen(None, own.efficiency)
    plain = model_deployment(entry, own.kv, engine=of.engine)
    asked_for = with_settings(plain, under(given, "deployment"))
    constants = of.constants
    names = None if own.hardware is None else several(own.hardware, "hardware")
    tried_devices, left_out = accelerators(names, given, own.prices)
    needed = compute_precisions((entry.model, asked_for))
    runnable, lacking = sorted_out(list(tried_devices.items()), entry.model, asked_for)
    # Neither without the arithmetic of the model nor without that of its cache does an accelerator run it.
    lacking |= left_out | without_cache_units(runnable, cache_precision(entry, own.kv, of.engine))
    runnable = [pair for pair in runnable if pair[1].name not in lacking]
    metric, chosen = _metric(own.sort, [device for _, device in runnable])

    # Layouts on every number of devices, without those that the model does not allow.
    numbers = (
        powers_of_two(own.max_devices) if own.devices is None else list(dict.fromkeys(counts(own.devices, "devices")))
    )
    candidates = layouts_of(numbers, entry.model)
    # Rules of the model do not depend on the accelerator, of which the check needs any one.
    base = runnable[0][1].hardware if runnable else hwspaces.hardware("H100-SXM").hardware
    tried, refused = possible(candidates, base, entry.model, plain)
    notes = (f"weights {entry.precision} (from {entry.precision_source})", *entry.notes)
    notes = (*notes, *(note for _, device in runnable for note in device_notes(device, entry.model)))
    # The answer where nothing can be tried; otherwise rows, points and times are added to it.
    nothing = StaticComparison(
        sizes={},
        metric=metric,
        chosen=chosen,
        rows=(),
        infeasible=(),
        lacking=lacking,
        announced=frozenset(device.name for _, device in runnable if device.status == "announced"),
        prices={device.name: device.price for _, device in runnable if device.price is not None},
        refused=refused,
        model=entry,
        isl=leaf_number("workload.isl", isl),
        osl=leaf_number("workload.osl", osl),
        slo=wanted,
        kv=cache_text(asked_for, cache_precision(entry, own.kv, of.engine)),
        efficiency=constants.name,
        points=0,
        seconds=time.perf_counter() - start,
        notes=notes,
        grid=_empty,
    )
    if not runnable or not tried:
        return nothing

    # Every accelerator under every layout at every batch.
    source: dict[str, Any] = {
        "hardware": [name for name, _ in runnable],
        "model": model,
        "workload": {
            "isl": isl,
            "osl": osl,
            "batch": list(BATCHES if own.batch is None else counts(own.batch, "batch")),
        },
        "deployments": tried,
        # Points that cannot be are masked, so that their reasons are told.
        "output": {"illegal": "mask"},
        # Keys that are not given stay out, so that the sweep has its own defaults.
        **({"set": given} if given else {}),
        **{name: value for name in NAMED if name not in AXES and (value := getattr(own, name, None)) is not None},
    }
    points = len(runnable) * len(tried) * len(source["workload"]["batch"])
    # The metric to sort by and every limited one are computed beside the usual figures.
    figures = tuple(dict.fromkeys((*METRICS, metric, *wanted)))
    # Accelerators of one structure make one sweep, whatever figures each of them lacks.
    question = asking(alike_devices(asked(spec(source)), needed), figures)
    answers = answers_over(question.computed, question.axes, begun(points))
    deployment = question.computed.base.deployment
    batches = next(axis.coordinates[0].values for axis in question.axes if axis.name == "batch")
    sizes = dict(zip(AXES, (len(runnable), len(tried), len(batches)), strict=True))
    # Figures that no accelerator has, such as a price, are NaN everywhere.
    blank = np.full(tuple(sizes.values()), np.nan, np.float32)
    arrays = {name: _in_order(answers[name], question.axes) if name in answers else blank for name in figures}

    # Rows: each accelerator and layout at its best batch, or the reason why there is none.
    setting = _Setting(
        [device for _, device in runnable],
        tried,
        # Numbers of devices that a user names are tried beyond the links, too, and refused with the rule.
        np.array([reach(device.hardware) for _, device in runnable]) if own.devices is None else None,
        float(weight_bytes(entry.model, plain)),
        lambda h, d: float(room_for_weights(runnable[h][1].hardware, entry.model, with_settings(deployment, tried[d]))),
        lambda h, d: broken_rule(runnable[h][1].hardware, entry.model, with_settings(plain, tried[d])),
    )
    rows, infeasible = _rows(arrays, batches, setting, wanted, metric)

    # The Dataset takes xarray and time, so that it is only made for those who read it.
    def grid() -> "xr.Dataset":
        swept = labelled(answers, question.axes, question.attributes)
        return _with_blanks(_relabelled(swept, [device.name for _, device in runnable], tried), figures)

    seconds = time.perf_counter() - start
    return dataclasses.replace(
        nothing, sizes=sizes, rows=rows, infeasible=infeasible, points=points, seconds=seconds, grid=grid
    )


def _empty() -> "xr.Dataset":
    import xarray as xr

    return xr.Dataset()


def _in_order(values: np.ndarray, axes: Iterable[Axis]) -> np.ndarray:
    """Values over `axes`, over AXES: an axis that is not there has one position."""
    names = [axis.name for axis in axes]
    # Axes that are there in the order of AXES, then an axis of length 1 for each of the others.
    there = values.transpose([names.index(name) for name in AXES if name in names])
    return there[tuple(slice(None) if name in names else np.newaxis for name in AXES)]


@dataclasses.dataclass(frozen=True)
class _Setting:
    """Facts from which the sentences of infeasible rows are made."""

    devices: list[hwspaces.HardwareEntry]
    layouts: list[Layout]
    reached: np.ndarray | None  # devices that the links of each accelerator connect; None: larger ones were asked for
    all_weights: float  # B of the model's weights on one device
    usable: Callable[[int, int], float]  # B of an accelerator that weights and cache may take under a layout
    broken: Callable[[int, int], str | None]  # rule that a layout breaks on an accelerator


def _metric(sort: str | None, devices: list[hwspaces.HardwareEntry]) -> tuple[str, str]:
    if sort is not None:
        return sort, "asked for"
    metric, priced = default_metric(devices)
    said = f"default: {priced or 'none'} of {len(devices)} accelerators {'has' if priced < 2 else 'have'} a price"
    return metric, said


def _relabelled(swept: "xr.Dataset", names: list[str], tried: list[Layout]) -> "xr.Dataset":
    """The sweep with all three dimensions, and layouts labelled without degrees of 1."""
    labels = {"hardware": names, "deployment": [label(layout) for layout in tried]}
    for dim, values in labels.items():
        attributes = swept[dim].attrs if dim in swept.coords else {"units": "1", "long_name": dim}
        # An axis of one value is no dimension of the sweep, but is one of a comparison.
        swept = swept if dim in swept.dims else swept.expand_dims(dim)
        swept = swept.assign_coords({dim: (dim, np.array(values, object), attributes)})
    return swept


def _with_blanks(grid: "xr.Dataset", figures: Iterable[str]) -> "xr.Dataset":
    """The grid with NaN for figures that no accelerator has, such as those per joule without a TDP."""
    # A blank has the full shape, so that every figure of the question is there to be read.
    shape = tuple(grid.sizes[dim] for dim in AXES)
    blank = np.full(shape, np.nan, np.float32)
    lacking = [name for name in figures if name not in grid]
    return grid.assign({name: (AXES, blank, variable_attributes(name, blank.dtype)) for name in lacking})


def _rows(
    arrays: Mapping[str, np.ndarray], batches: np.ndarray, setting: _Setting, slo: Mapping[str, float], metric: str
) -> tuple[tuple[StaticCandidate, ...], tuple[StaticCandidate, ...]]:
    """Every (hardware, layout) at its best batch, ranked; and those without a feasible batch, in order."""
    shape = arrays[metric].shape
    groups = np.array([groups_of(layout) for layout in setting.layouts])
    # Devices of a layout: the product of its degrees without ep, which uses devices of the others again.
    used = np.array([math.prod(layout[name] for name in layout if name != "ep") for layout in setting.layouts])

    # How far each point gets: tried, legal, within memory, within limits. A batch has to divide among the groups.
    tried = np.ones(shape, bool) if setting.reached is None else used[:, None] <= setting.reached[:, None, None]
    even = np.mod(batches, groups[:, None])[None] == 0
    stage = reasons.stages(arrays, tried, even, slo, metric)
    furthest = stage.max(axis=2)

    # Of each (hardware, layout) the best feasible batch, or the one that came nearest to being feasible.
    better = ranks(ascending(arrays[metric], metric), ascending(arrays[RATE], RATE))  # of equals, by throughput
    best = np.where(stage == FEASIBLE, better, np.inf).argmin(axis=2)
    distance = reasons.distances(arrays, stage, batches, slo)
    nearest = np.where(stage == furthest[:, :, None], distance, np.inf).argmin(axis=2)
    chosen = np.where(furthest == FEASIBLE, best, nearest)

    def row(h: int, d: int) -> StaticCandidate:
        # h, d and b are positions of hardware, deployment (layout) and batch.
        b = int(chosen[h, d])
        hardware = setting.devices[h].hardware
        capacity = float(hardware.memory.hbm.capacity)
        point = reasons.Obstructed(
            stage=int(furthest[h, d]),
            metrics={name: float(array[h, d, b]) for name, array in arrays.items()},
            batch=int(batches[b]),
            devices=int(used[d]),
            groups=int(groups[d]),
            capacity=capacity,
            usable=setting.usable(h, d),
            all_weights=setting.all_weights,
            reach=reach(hardware),
        )
        reason = None
        if point.stage != FEASIBLE:
            reason = reasons.sentence(point, slo, metric, lambda: setting.broken(h, d))
        return StaticCandidate(
            hardware=setting.devices[h].name,
            devices=point.devices,
            layout=label(setting.layouts[d]),
            batch=point.batch,
            metrics=point.metrics,
            capacity=capacity,
            stage=point.stage,
            distance=float(distance[h, d, b]),
            reason=reason,
        )

    # Ranks of the chosen batches, shape [hardware, deployment], and places by rising rank.
    value = np.take_along_axis(better, chosen[:, :, None], axis=2)[:, :, 0]
    order = [divmod(int(i), shape[1]) for i in np.argsort(value, axis=None, kind="stable")]
    ranked = tuple(row(h, d) for h, d in order if furthest[h, d] == FEASIBLE)
    # Layouts beyond the links were never asked for and need no reason.
    others = [(h, d) for h, d in np.ndindex(furthest.shape) if UNTRIED < furthest[h, d] < FEASIBLE]
    return ranked, tuple(row(h, d) for h, d in others)

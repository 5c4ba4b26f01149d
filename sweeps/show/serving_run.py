"""One simulated deployment in panels: latencies, the queue, steps and cache, TPOT and replicas over time."""

import json
import math
from typing import Any

import numpy as np
import xarray as xr

from hwspaces import formatted
from sweeps.data.labels import number
from sweeps.show import style
from sweeps.show.plane import picked
from workloads.streams.stream import TIME_UNITS

BINS = 120
"""Ranges of time at most, of which each has a mean."""

CURVE = 1000
"""Points of a distribution at most."""

BLUE, ORANGE, GREEN, PINK = style.SERIES_COLOURS[:4]


@style.styled
def serving_run(data: xr.Dataset) -> Any:
    """A figure of a dataset that `sweeps.serve` returned, in four panels, and one more where replicas start and stop.

    Distributions of TTFT and E2E latency, requests that run and wait, tokens per step beside the share of the KV cache
    in use, TPOT of every request over time, and replicas; limits of the objective as dashed lines.

    Raises:
      ValueError: for a dataset that holds no simulation, or one in which no request finished.
    """
    if data.attrs.get("job") != "serve" or not {"request", "iteration"} <= set(data.dims):
        raise ValueError("the dataset holds no simulation; sweeps.serve makes one")
    if not float(data.finished):
        raise ValueError(f"no request finished, so there is nothing to draw: {_left(data)}")
    scaled = "replicas" in data
    fig = style.figure(
        10.0, 9.4 if scaled else 6.6, _title(data), _details(data), f"{data.attrs['load']}: {data.attrs['stream']}"
    )
    limits = json.loads(data.attrs["slo"])
    panels = fig.subplots(2, 2) if not scaled else fig.subplot_mosaic([[0, 1], [2, 3], [4, 4]])
    latencies, queue, steps, output, *more = panels.values() if scaled else panels.flat
    _latencies(latencies, data, limits)
    _queue(queue, data)
    _steps(steps, data)
    _output(output, data, limits)
    for axes in more:
        _replicas(axes, data)
    return fig


def _title(data: xr.Dataset) -> str:
    ttft, tpot = (formatted(float(data[f"{name}_p50"]), "s") for name in ("ttft", "tpot"))
    rate = number(float(data.requests_per_second))
    # A run without output tokens has no TPOT.
    if not math.isfinite(float(data.tpot_p50)):
        return f"{rate} requests per second, the median request with TTFT {ttft}"
    return f"{rate} requests per second, the median request with TTFT {ttft} and TPOT {tpot}"


def _details(data: xr.Dataset) -> str:
    model, hardware, engine = (data.attrs[name] for name in ("model", "hardware", "engine"))
    parts = [f"{model} on {number(float(data.devices))} x {hardware}, {engine}."]
    parts.append(f"{number(float(data.tokens_per_second))} output tokens per second;")
    parts.append(f"TTFT at p99 {formatted(float(data.ttft_p99), 's')}.")
    if json.loads(data.attrs["slo"]):
        share = float(data.good_share)
        parts.append(f"{f'{100 * share:.1f} %' if share else 'None'} keep every limit (dashed).")
    return " ".join([*parts, *([f"{_left(data)}."] if _left(data) else [])])


def _left(data: xr.Dataset) -> str:
    """Number of requests that did not finish, and why: "3 refused, 5 rejected"."""
    counts = {name: int(data[name]) for name in ("refused", "rejected", "unfinished")}
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)


def _latencies(axes: Any, data: xr.Dataset, limits: dict[str, float]) -> None:
    """Share of finished requests with at most a latency, which is on a logarithmic axis."""
    axes.set_title("How long requests take")
    drawn = []
    for name, words, colour in (("ttft", "TTFT", BLUE), ("e2e", "E2E", ORANGE)):
        values = np.sort(data[name].values[np.isfinite(data[name].values)])
        shares = 100.0 * np.arange(1, len(values) + 1) / len(values)
        # Enough points for a smooth curve, without a file of every request.
        picks = np.unique(np.linspace(0, len(values) - 1, CURVE).astype(int))
        axes.step(values[picks], shares[picks], where="post", color=colour, lw=1.6, label=words)
        drawn.append(values)
        if name in limits:
            label = f"{words} limit, {formatted(limits[name], 's')}"
            axes.axvline(limits[name], color=colour, lw=1.0, ls="--", label=label)
            drawn.append(np.array([limits[name]]))
    everything = np.concatenate(drawn)
    everything = everything[everything > 0.0]
    ends = np.array([everything.min() / 1.2, everything.max() * 1.2])
    axes.set_ylim(0.0, 102.0)
    style.quantity_axis(axes, "x", "latency", "s", ends, True, ends)
    axes.set_ylabel("Share of requests with at most that (%)")
    axes.legend(loc="best")
    style.grid_behind(axes)


def _queue(axes: Any, data: xr.Dataset) -> None:
    """Requests that run and that wait, means over ranges of time."""
    axes.set_title("Requests in the engine")
    edges, unit, scale = _ranges(data)
    most = 1.0
    for name, words, colour in (("running", "running", GREEN), ("waiting", "waiting", ORANGE)):
        means = _means(data, data[name].values.astype(float), edges, of_each=name == "waiting")
        most = max(most, float(np.nanmax(means)))
        axes.stairs(np.nan_to_num(means), edges / scale, baseline=None, color=colour, lw=1.6, label=words)
    _over_time(axes, edges, unit, scale)
    axes.set_ylim(0.0, 1.08 * most)
    axes.set_ylabel("Requests (mean)")
    axes.legend(loc="best")


def _steps(axes: Any, data: xr.Dataset) -> None:
    """Tokens of a step on the left, prompts on top of output; share of the KV cache in use on the right."""
    axes.set_title("Tokens per step and KV cache in use")
    edges, unit, scale = _ranges(data)
    steps = data.steps.values.astype(float)
    # Steps in each range of time; the floor avoids a division by zero.
    count = np.maximum(_sums(data, steps, edges), 1e-30)
    # Means per step: tokens in the range over steps in the range.
    tokens = steps * data.decoding.values
    output = _sums(data, tokens + data.right_drafts.values if "right_drafts" in data else tokens, edges) / count
    prompt = _sums(data, data.prompt_tokens.values.astype(float), edges) / count
    times = edges / scale
    axes.stairs(output + prompt, times, baseline=output, fill=True, color=BLUE, alpha=0.35, lw=0, label="prompt tokens")
    axes.stairs(output, times, fill=True, color=BLUE, alpha=0.8, lw=0, label="output tokens")
    top = 1.25 * max(float((output + prompt).max()), 1.0)
    axes.set_ylim(0.0, top)
    style.scaled_ticks(axes.yaxis, np.array([0.0, top]), "1", False)
    axes.set_ylabel("Tokens per step (mean)")
    _over_time(axes, edges, unit, scale)
    right = axes.twinx()
    there = data.blocks_there.values if "blocks_there" in data else float(data.kv_blocks)
    used = 100.0 * _means(data, data.blocks.values / there, edges, of_each=True)
    right.stairs(np.nan_to_num(used), times, baseline=None, color=PINK, lw=1.6, label="KV cache (right)")
    right.set_ylim(0.0, 125.0)
    right.set_yticks([0, 25, 50, 75, 100])
    right.set_ylabel("KV cache in use (%)")
    right.spines["right"].set_visible(True)
    handles = [*axes.get_legend_handles_labels()[0], *right.get_legend_handles_labels()[0]]
    axes.legend(handles=handles, loc="upper center", ncols=3, columnspacing=1.2, handletextpad=0.5)


def _output(axes: Any, data: xr.Dataset, limits: dict[str, float]) -> None:
    """TPOT of every request, by when its first token came."""
    axes.set_title("Time per output token")
    edges, unit, scale = _ranges(data)
    values, begun = data.tpot.values, (data.arrival + data.ttft).values
    there = np.flatnonzero(np.isfinite(values))
    there = there[picked(there.size)]
    shown = values[there]
    axes.scatter(begun[there] / scale, shown, s=9, lw=0, alpha=0.5, color=BLUE, label="a request")
    if "tpot" in limits:
        shown = np.append(shown, limits["tpot"])
        label = f"limit, {formatted(limits['tpot'], 's')}"
        axes.axhline(limits["tpot"], color=BLUE, lw=1.0, ls="--", label=label)
    axes.legend(loc="upper right", ncols=2, handletextpad=0.3)
    _over_time(axes, edges, unit, scale)
    axes.set_xlabel(f"When the first token came ({unit})")
    top = np.array([0.0, 1.2 * float(shown.max(initial=0.0)) or 1.0])
    style.quantity_axis(axes, "y", "TPOT", "s", top, False, top)


def _replicas(axes: Any, data: xr.Dataset) -> None:
    """Replicas that are on, from one evaluation of their rule to the next."""
    axes.set_title("Replicas")
    edges, unit, scale = _ranges(data)
    times = np.append(data.evaluation_time.values, max(edges[-1], float(data.evaluation_time[-1])))
    axes.stairs(data.replicas.values, times / scale, baseline=None, color=GREEN, lw=1.6, label="on")
    mean = float(data.replicas_mean)
    axes.axhline(mean, color=GREEN, lw=1.0, ls="--", label=f"taken on average: {number(mean)}")
    _over_time(axes, edges, unit, scale)
    axes.set_ylim(0.0, 1.15 * float(data.replicas.max()))
    axes.set_ylabel("Replicas")
    axes.legend(loc="best")


def _over_time(axes: Any, edges: np.ndarray, unit: str, scale: float) -> None:
    """A time axis from the first range to the last."""
    ends = np.array([edges[0], edges[-1]]) / scale
    axes.set_xlim(ends)
    style.scaled_ticks(axes.xaxis, ends, "1", False)
    axes.set_xlabel(f"Time ({unit})")
    style.grid_behind(axes)


def _ranges(data: xr.Dataset) -> tuple[np.ndarray, str, float]:
    """Edges of ranges of time in s over the whole run, and the unit that suits it with its seconds."""
    last = float(data.end[-1])
    # The largest unit of which the run lasts at least two.
    unit, seconds = next((one for one in TIME_UNITS if last >= 2.0 * one[1]), TIME_UNITS[-1])
    # At least four iterations in a range, and not fewer than eight ranges.
    return np.linspace(0.0, last, min(BINS, max(data.sizes["iteration"] // 4, 8)) + 1), unit, seconds


def _means(data: xr.Dataset, values: np.ndarray, edges: np.ndarray, of_each: bool = False) -> np.ndarray:
    """Means over time of what holds during iterations, by range. Shape [ranges].

    Args:
      of_each: of several engines the mean, instead of the sum.
    """
    ends, lasts = data.end.values, data.iteration_time.values
    # Ends of iterations, with the start of the first one before them.
    before = np.concatenate([[ends[0] - lasts[0]], ends])
    # The running integral over time, interpolated at the edges of the ranges.
    area = np.concatenate([[0.0], np.cumsum(values * lasts)])
    lengths = np.diff(edges)
    if of_each and "engine" in data:
        lengths = np.diff(np.interp(edges, before, np.concatenate([[0.0], np.cumsum(lasts)])))
    return np.diff(np.interp(edges, before, area)) / np.maximum(lengths, 1e-30)


def _sums(data: xr.Dataset, values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Sums by range of what iterations add up to, spread evenly over each. Shape [ranges]."""
    ends, lasts = data.end.values, data.iteration_time.values
    before = np.concatenate([[ends[0] - lasts[0]], ends])
    # The running sum grows evenly within an iteration, and is interpolated at the edges.
    return np.diff(np.interp(edges, before, np.concatenate([[0.0], np.cumsum(values)])))

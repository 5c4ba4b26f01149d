"""A request stream in pictures: arrivals over time, and lengths of prompts and outputs."""

import math
from typing import Any

import numpy as np

from sweeps.data.labels import number
from sweeps.show import style
from workloads.streams.stream import TIME_UNITS, Stream, span_text
from workloads.streams.streams import LengthSummary, Summary, summary

TIME_BINS = 120
"""Ranges of time at most, of which each has a rate."""

LENGTH_BINS = 50
"""Ranges of lengths over all decades at most."""

MOST_TICKS = 6

ROUND = (1.0, 2.0, 5.0)


@style.styled
def trace(stream: Stream) -> Any:
    """A figure of up to three panels: requests per second over time, and histograms of prompt and output tokens.

    Requests that all arrive at one time have no rate, and so no first panel.
    """
    numbers = summary(stream)
    timed = numbers.duration > 0.0
    fig = style.figure(
        9.0, 6.4 if timed else 3.4, _title(numbers), _details(numbers), f"{stream.name}: {stream.source}"
    )
    grid = fig.add_gridspec(1 + timed, 2)
    if timed:
        _rate_panel(fig.add_subplot(grid[0, :]), stream, numbers)
    sides = (("Prompts", stream.isl, numbers.isl), ("Outputs", stream.osl, numbers.osl))
    for column, (name, tokens, lengths) in enumerate(sides):
        _length_panel(fig.add_subplot(grid[-1, column]), tokens, lengths, name, style.SERIES_COLOURS[column])
    return fig


def _title(summary: Summary) -> str:
    lengths = f"{number(summary.isl.mean)} prompt and {number(summary.osl.mean)} output tokens on average"
    if not math.isfinite(summary.rate):
        return f"{summary.requests:,} requests at one time: {lengths}"
    return f"{number(summary.rate)} requests per second for {span_text(summary.duration)}: {lengths}"


def _details(summary: Summary) -> str:
    parts = [f"{summary.requests:,} requests."]
    if math.isfinite(summary.burstiness):
        parts.append(
            f"They arrive {_evenness(summary.burstiness)}: the times between them have a standard deviation of "
            f"{number(summary.burstiness)} times their mean."
        )
    if summary.cacheable > 0.0:
        parts.append(f"A prefix cache could have {100.0 * summary.cacheable:.1f} % of the prompt tokens.")
    return " ".join(parts)


def _evenness(burstiness: float) -> str:
    if burstiness < 0.05:
        return "evenly"
    if 0.9 < burstiness < 1.1:
        return "as a Poisson process would"
    return f"{'burstier' if burstiness > 1.0 else 'more evenly'} than a Poisson process"


def _rate_panel(axes: Any, stream: Stream, summary: Summary) -> None:
    axes.set_title("Requests over time")
    # The largest unit of which the stream lasts at least two.
    unit, seconds = next((one for one in TIME_UNITS if summary.duration >= 2.0 * one[1]), TIME_UNITS[-1])
    # Width of a range in s: a round number for some eight requests in each, within bounds.
    width = _round_above(summary.duration / min(TIME_BINS, max(len(stream) / 8.0, 8.0)))
    ends = np.append(np.arange(0.0, summary.duration, width), summary.duration)
    if len(ends) > 2 and ends[-1] - ends[-2] < width / 2.0:  # a range that has hardly begun is part of the one before
        ends = np.delete(ends, -2)
    rates = np.histogram(stream.arrival - stream.arrival[0], ends)[0] / np.diff(ends)
    times = ends / seconds
    colour = style.SERIES_COLOURS[2]
    axes.stairs(rates, times, fill=True, color=colour, alpha=0.35, lw=0)
    axes.stairs(rates, times, color=colour, lw=1.2)
    axes.axhline(summary.rate, color=style.INK, lw=1.0, ls="--")
    axes.annotate(
        f"mean {number(summary.rate)}",
        (1.0, summary.rate),
        xycoords=("axes fraction", "data"),
        xytext=(4, 0),
        textcoords="offset points",
        va="center",
        color=style.INK,
        annotation_clip=False,
    )
    axes.set_xlim(0.0, times[-1])
    axes.set_ylim(0.0, max(float(rates.max()), summary.rate) * 1.08)
    axes.set_xlabel(f"Time ({unit})")
    axes.set_ylabel(f"Requests per second,\nin ranges of {span_text(width)}")
    for axis, limit in ((axes.xaxis, times[-1]), (axes.yaxis, axes.get_ylim()[1])):
        style.scaled_ticks(axis, np.array([0.0, limit]), "1", False)
    style.grid_behind(axes)


def _length_panel(axes: Any, tokens: np.ndarray, length_summary: LengthSummary, name: str, colour: str) -> None:
    """Shares of requests by length on a logarithmic axis; lines at the median and the 99th percentile."""
    edges = _length_edges(float(tokens.min()), length_summary.max)
    shares = 100.0 * np.histogram(tokens, edges)[0] / len(tokens)
    axes.set_xscale("log")
    axes.stairs(shares, edges, fill=True, color=colour, alpha=0.35, lw=0)
    axes.stairs(shares, edges, color=colour, lw=1.2)
    top, low, high = 1.08 * float(shares.max()), edges[0], edges[-1]
    axes.set_ylim(0.0, top)
    axes.set_xlim(low, high)
    words = f"all {number(length_summary.max)} tokens"
    if length_summary.max > tokens.min():
        words = (
            f"mean {number(length_summary.mean)}, largest {number(length_summary.max)}\n"
            f"median {number(length_summary.p50)} (dashed), 99 % up to {number(length_summary.p99)} (dotted)"
        )
        axes.axvline(length_summary.p50, color=style.INK, lw=1.0, ls="--")
        axes.axvline(length_summary.p99, color=style.INK, lw=1.0, ls=":")
    axes.set_title(name, pad=28)
    below = axes.text(0.0, 1.02, words, transform=axes.transAxes, va="bottom", fontsize=8.0, color=style.INK)
    below.set_in_layout(False)  # the title's padding makes its room
    axes.set_xlabel(f"{name[:-1]} tokens (logarithmic)")
    axes.set_ylabel("Share of requests (%)")
    _decades(axes.xaxis, max(low, 1.0), high)
    style.scaled_ticks(axes.yaxis, np.array([0.0, top]), "1", False)
    style.grid_behind(axes)


def _length_edges(low: float, high: float) -> np.ndarray:
    """Edges of ranges of lengths between whole numbers, as even as they can be on a logarithmic axis."""
    # Room for a factor of 1.5 on both sides of the lengths.
    low, high = low / 1.5, high * 1.5
    # Edges halfway between whole numbers: a length lies in one range only.
    edges = np.floor(np.geomspace(max(low, 0.5), high, LENGTH_BINS + 1)) + 0.5
    return np.unique(np.append(edges, math.ceil(high) + 0.5))


def _decades(axis: Any, low: float, high: float) -> None:
    """Ticks of a logarithmic axis: round numbers, powers of ten alone where those are too many for their labels."""
    ticks = style.round_numbers(low, high, True)
    # Powers of ten among the ticks, in case there are too many.
    tens = ticks[np.isclose(np.log10(ticks) % 1.0, 0.0)]
    ticks = tens if len(ticks) > MOST_TICKS and len(tens) > 1 else ticks
    axis.set_minor_locator(style.matplotlib().ticker.NullLocator())
    axis.set_ticks(ticks, [style.tick_text(tick) for tick in ticks])


def _round_above(value: float) -> float:
    """The next of 1, 2, 5, 10 ... that is not less."""
    power = 10.0 ** math.floor(math.log10(value))
    # The tolerance keeps rounding from skipping a number that is just reached.
    return next((power * one for one in ROUND if power * one >= value * 0.999), 10.0 * power)

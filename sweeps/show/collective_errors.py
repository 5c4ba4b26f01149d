"""Pictures of measured collectives beside predicted ones, by message size."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxroof.numerics.struct import given
from sweeps.measure.validate.collective_errors import ScoredCollective, family_name, kind_name, summary
from sweeps.measure.validate.relative_errors import grouped
from sweeps.show import style
from sweeps.show.collectives import bus_bandwidth, log_axes

COLUMNS = 3


@style.styled
def measured_against_predicted(device: str, scored: Sequence[ScoredCollective]) -> Any:
    """A figure with a panel per collective and library: bus bandwidth, measured (dots) and predicted (lines)."""
    panels = grouped(scored, _name)
    error = summary(scored)
    title = f"{device}: collectives are predicted to {error['median_ape']:.0%} (median), {error['mape']:.0%} (mean)"
    fig, drawn = style.panels(
        len(panels),
        COLUMNS,
        (11.0 / COLUMNS, 2.7),
        (0.0, 0.3),
        title,
        "Bus bandwidth over message size; dots are measured, lines predicted, the dashes the link's datasheet. "
        "Beside each name: median and mean error.",
        f"{error['rows']} rows of {', '.join(dict.fromkeys(kind_name(s.row) for s in scored))}",
    )
    for i, (axes, (name, part)) in enumerate(zip(drawn, panels.items(), strict=True)):
        _panel(axes, name, part)
        # Only panels at the left and at the bottom have labels of axes, which are the same for all.
        if i < len(drawn) - COLUMNS:
            axes.set_xlabel("")
        if i % COLUMNS:
            axes.set_ylabel("")
    return fig


def _name(scored: ScoredCollective) -> str:
    kind, family = scored.row.kind.replace("_", "-"), family_name(scored.row)
    return kind if family == "nccl" else f"{kind}, {family}"


def _panel(axes: Any, name: str, scored: Sequence[ScoredCollective]) -> None:
    # A line for every group of devices, apart for those that cross nodes.
    groups = grouped(scored, lambda row: (row.row.participants, row.row.crosses))
    for (participants, crosses), colour in zip(sorted(groups), style.SERIES_COLOURS, strict=False):
        part = sorted(groups[participants, crosses], key=lambda s: s.row.message_bytes)
        size = np.array([s.row.message_bytes for s in part])
        kind = part[0].row.kind
        # Bus bandwidth in B/s makes groups of any size comparable with the link.
        measured = bus_bandwidth(kind, participants, size, np.array([s.row.seconds for s in part]))
        axes.plot(size, measured, ".", ms=4, color=colour, alpha=0.75)
        # Rows of different algorithms are predicted along lines of their own.
        for types in dict.fromkeys(s.row.algorithms for s in part):
            line = [s for s in part if s.row.algorithms == types]
            at = np.array([s.row.message_bytes for s in line])
            predicted = bus_bandwidth(kind, participants, at, np.array([s.predicted for s in line]))
            axes.plot(at, predicted, "-", lw=1.2, color=colour)
        # An empty line brings the dot and the line into one entry of the legend.
        axes.plot([], [], "o-", ms=4, color=colour, label=f"{participants:g} devices{' across nodes' * crosses}")
    link = given(scored[0].row.links.scale_up, "scale-up link")
    axes.axhline(link.bandwidth, color=style.QUIET, lw=0.9, ls="--", zorder=1)
    error = summary(scored)
    axes.set_title(f"{name}: {error['median_ape']:.0%}, {error['mape']:.0%}", fontsize=9)
    size = np.array([s.row.message_bytes for s in scored])
    speeds = [
        bus_bandwidth(s.row.kind, s.row.participants, s.row.message_bytes, seconds)
        for s in scored
        for seconds in (s.row.seconds, s.predicted)
    ]
    log_axes(axes, size, np.array(speeds), "B/s", "bus bandwidth")
    axes.legend(loc="lower right", fontsize=7.5)

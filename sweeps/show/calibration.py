"""A calibration in a picture: measured against simulated TTFT and E2E of every request, before and after."""

from typing import Any

import numpy as np

from sweeps.serving.calibration.fit import Calibration
from sweeps.show import style

PANELS = {"ttft": "TTFT", "e2e": "E2E latency"}
WIDE = 0.2
"""Share by which the outer lines are off."""


@style.styled
def calibration(found: Calibration) -> Any:
    """A figure with a panel per latency; a dot per request: grey before, blue and orange (held out) after."""
    before, after = (found.errors["validation"][when].error for when in ("before", "after"))
    made = style.figure(
        9.6,
        4.1,
        f"Calibration takes the error of held-out requests from {before:.1%} to {after:.1%}",
        "Simulated against measured time, a dot per request. Lines: equal, and 20 % off. Beside each name: mean "
        "absolute error.",
        f"{found.run.name}: {len(found.run.stream):,} requests, {int(found.run.held_out.sum()):,} of them held out",
    )
    for axes, (metric, name) in zip(made.subplots(1, 2), PANELS.items(), strict=True):
        _panel(axes, found, metric)
        axes.set_title(name)
    return made


def _panel(axes: Any, found: Calibration, metric: str) -> None:
    measured, held = found.run.latencies[metric], found.run.held_out
    times = {when: found.simulated[when][metric] for when in ("before", "after")}
    known = np.isfinite(measured) & np.isfinite(times["before"]) & np.isfinite(times["after"])
    every = np.concatenate([measured[known], times["before"][known], times["after"][known]])
    style.equal_axes(axes, every, ("measured", "simulated"), WIDE, 1.2)
    series = (
        ("before", "before", known, style.CLOUD),
        ("training, after", "after", known & ~held, style.SERIES_COLOURS[0]),
        ("held out, after", "after", known & held, style.SERIES_COLOURS[1]),
    )
    for label, when, part, colour in series:
        error = np.mean(np.abs(times[when][part] / measured[part] - 1.0))
        places = (measured[part], times[when][part])
        axes.scatter(*places, s=9, lw=0, alpha=0.6, color=colour, label=f"{label}: {error:.1%}", rasterized=True)
    axes.legend(loc="upper left", handletextpad=0.1, markerscale=1.8)

"""Layouts of a training run in a picture: memory of a device against the time of an iteration."""

from typing import Any

import numpy as np

from hwspaces import formatted
from sweeps.ask.cases import Case
from sweeps.show import style
from sweeps.studies.train import RankedLayouts

NAMED = ("tp", "pp", "cp", "ep", "dp")
"""Degrees that name a layout."""


@style.styled
def drawn(case: Case, found: RankedLayouts, devices: int) -> Any:
    """A figure of every layout that fits, with the fastest one marked.

    Raises:
      ValueError: one line, where no layout fits.
    """
    if not len(found.order):
        raise ValueError("no layout fits: there is nothing to draw")
    best = found.rows(1)[0]
    layout = " ".join(f"{name}{best[name]:g}" for name in NAMED if best[name] != 1.0) or "tp1"
    work, time = case.scenario.workload, found.metrics["iteration_time"]
    size = f"{work.global_batch:,.0f} sequences of {work.seq:,.0f} tokens"
    fig = style.figure(
        8.0,
        3.6,
        f"{layout} is the fastest layout of {case.model.name} on {devices:,} x {case.hardware.name}: "
        f"{formatted(best['iteration_time'], 's')} per iteration",
        f"{size}; each dot is one of {len(found.order):,} layouts that fit, of {len(found.layouts):,}.",
        f"weights {case.model.precision}; efficiency {case.efficiency.name}",
    )
    axes, times, memory = fig.subplots(), time[found.order], found.metrics["training_memory"][found.order]
    axes.scatter(times, memory, s=9, alpha=0.5, color=style.SERIES_COLOURS[0], lw=0)
    axes.scatter([best["iteration_time"]], [best["training_memory"]], s=60, color=style.SERIES_COLOURS[1])
    capacity = float(case.scenario.hardware.memory.hbm.capacity)
    style.quantity_axis(axes, "x", "time of an iteration", "s", times)
    style.quantity_axis(axes, "y", "memory of a device", "B", np.append(memory, capacity), log=False)
    axes.axhline(capacity, color="grey", lw=0.8, ls="--")
    axes.text(1.0, capacity, formatted(capacity, "B"), transform=axes.get_yaxis_transform(), va="bottom", ha="right")
    return fig

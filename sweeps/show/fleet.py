"""Day of a fleet: load and capacity of every class over the hours, and devices in use."""

from typing import Any

import numpy as np

from sweeps.show import style
from sweeps.studies.fleet.answer import FleetPlan
from sweeps.studies.fleet.program import COST

SOME = 0.05
"""Share of the cost from which an hour is marked as one that sets it."""

EDGES = np.arange(25)
"""Ends of the hours."""


@style.styled
def day(plan: FleetPlan) -> Any:
    """A panel per class: its load and the capacity of its replicas, stacked by accelerator; below, devices in use."""
    classes, supplies = plan.question.classes, plan.question.supplies
    # Kinds that are neither rented nor in use at any hour have no colour.
    shown = [s for s in range(len(supplies)) if plan.in_use[:, s].any() or plan.rented[s]]
    colours = {s: style.SERIES_COLOURS[i % len(style.SERIES_COLOURS)] for i, s in enumerate(shown)}
    fig = style.figure(9.6, 2.2 * (len(classes) + 1) + 0.3, *_heading(plan, shown))
    panels = fig.subplots(len(classes) + 1, 1, sharex=True, squeeze=False)[:, 0]
    for c, (axes, one) in enumerate(zip(panels, classes, strict=False)):
        _stacked(axes, plan.capacity[c], shown, colours)
        # Requests/s that replicas have to serve: the load and the headroom above it.
        need = np.array(one.load) * (1.0 + plan.question.headroom)
        axes.stairs(one.load, EDGES, baseline=None, color=style.INK, lw=2.0)
        axes.stairs(need, EDGES, baseline=None, color=style.INK, lw=1.0, ls="--")
        top = max(need.max(), plan.capacity[c].sum(axis=0).max(), 1e-9)
        axes.set(ylim=(0.0, 1.08 * top), ylabel="requests/s")
        axes.set_title(f"{one.name}: {one.model}, {one.slo}")
        style.grid_behind(axes)
    _devices(panels[-1], plan, shown, colours)
    panels[0].legend(
        handles=_handles(plan, shown, colours), loc="upper left", bbox_to_anchor=(1.01, 1.02), borderaxespad=0.0
    )
    panels[-1].set_xlim(0, 24)
    panels[-1].set_xticks(range(0, 25, 3), [f"{hour:02}:00" for hour in range(0, 25, 3)])
    panels[-1].set_xlabel("time of day")
    return fig


def _stacked(axes: Any, values: np.ndarray, shown: list[int], colours: dict[int, str]) -> np.ndarray:
    """Steps of [supply, hour], one on the other; their sum."""
    below = np.zeros(values.shape[-1])
    for s in shown:
        above = below + values[s]
        if values[s].any():
            axes.stairs(above, EDGES, baseline=below, fill=True, color=colours[s], alpha=0.75, lw=0)
        below = above
    return below


def _devices(axes: Any, plan: FleetPlan, shown: list[int], colours: dict[int, str]) -> None:
    """Devices in use of each kind, and how many there are."""
    # Devices by kind and hour, over all classes: shape [supply, hour].
    used = plan.in_use.sum(axis=0)
    _stacked(axes, used, shown, colours)
    there = plan.rented + plan.program.owned
    total = float(there.sum())
    axes.axhline(total, color=style.INK, lw=1.0, ls=":")
    # Hours that set the cost are known by the duals of a plan for the least cost.
    if plan.marginals is not None and plan.goal == COST:
        for hour in np.flatnonzero(plan.marginals.hours > SOME):
            axes.axvspan(hour, hour + 1, color=style.QUIET, alpha=0.25, lw=0)
    axes.set(ylim=(0.0, 1.12 * max(total, 1.0)), ylabel="devices")
    axes.set_title("all classes: devices in use")
    style.grid_behind(axes)


def _handles(plan: FleetPlan, shown: list[int], colours: dict[int, str]) -> list[Any]:
    package = style.matplotlib()
    from matplotlib.lines import Line2D

    patch = package.patches.Patch
    names = [one.name for one in plan.question.supplies]
    # Reversed: the legend lists from top to bottom what is stacked from bottom to top.
    handles = [patch(color=colours[s], alpha=0.75, lw=0, label=f"capacity of {names[s]}") for s in reversed(shown)]
    headroom = f"load and {100 * plan.question.headroom:g} % headroom"
    handles += [
        Line2D([], [], color=style.INK, lw=2.0, label="load"),
        Line2D([], [], color=style.INK, lw=1.0, ls="--", label=headroom),
        Line2D([], [], color=style.INK, lw=1.0, ls=":", label="devices rented and owned"),
    ]
    if plan.marginals is not None and plan.goal == COST:
        handles.append(patch(color=style.QUIET, alpha=0.25, lw=0, label="hours that set the cost"))
    return handles


def _heading(plan: FleetPlan, shown: list[int]) -> tuple[str, str, str]:
    """Title, details and source."""
    requests = plan.program.load.sum() * 3600.0
    parts = []
    for s in shown:
        supply = plan.question.supplies[s]
        counts = f"{plan.rented[s]:,.0f}" if plan.rented[s] else ""
        owned = f"{supply.owned:,} owned" if supply.owned else ""
        parts.append(f"{' + '.join(part for part in (counts, owned) if part)} {supply.name}")
    if plan.goal == COST:
        title = f"{plan.cost:,.0f} USD a year serve {requests:,.0f} requests a day"
    else:
        title = f"{plan.cost:,.0f} USD a year serve {100 * plan.share:.3g} % of {requests:,.0f} requests a day"
    details = f"Fleet: {', '.join(parts)}. Whole replicas in every hour, rented for the year."
    return title, details, f"jaxroof fleet; loads of replicas by {plan.method}"

"""Pictures of an optimum: slices through the best design along every variable, or a Pareto front."""

import textwrap
from typing import Any

import numpy as np

from hwspaces import formatted
from jaxroof.efficiency.hull import BEYOND
from sweeps.ask.leaves import leaf_long_name
from sweeps.data import labels
from sweeps.show import evidence, style
from sweeps.studies.optimization.descent import KEPT, worst
from sweeps.studies.optimization.goals import ROOTS, unit_of
from sweeps.studies.optimization.result import Slice, slices
from sweeps.studies.optimization.search import Optimum

COLUMNS, LABEL = 3, 44
"""Slices side by side, and letters of a line below them."""


@style.styled
def optimum(found: Optimum) -> Any:
    """Figure of a search's result."""
    return _front(found) if len(found.problem.objectives) > 1 else _slices(found)


def words(name: str) -> str:
    """A metric's or leaf's meaning in a few words."""
    return leaf_long_name(name) if name.startswith(ROOTS) else labels.words(name)


def _slices(found: Optimum) -> Any:
    problem = found.problem
    cut = slices(problem, found.designs[0])
    objective = problem.objectives[0]
    value = objective.sign * found.objectives[0, 0]
    unit = unit_of(objective.name)
    kept = ", ".join(constraint.text for constraint in problem.constraints)
    details = (
        f"Slices through the best design, everything else as it is there. Dashed: a constraint is broken ({kept})."
    )
    if any((one.octaves >= BEYOND).any() for one in cut):
        details += f" Dots, and choices in italics: {evidence.WORDS}."
    title = f"Best design: {words(objective.name)} {formatted(value, unit)}"
    heading = title, details, problem.attributes["title"]
    made, panels = style.panels(len(cut), COLUMNS, (9.0 / COLUMNS, 2.3), (0.0, 0.0), *heading)
    finite = [one.objective[np.isfinite(one.objective)] for one in cut]
    everything = np.concatenate([*finite, [value]])
    for panel, one in zip(panels, cut, strict=True):
        _slice(panel, one, value)
        _limits(panel, everything, value, unit)
        if found.grid_design is not None:
            i = problem.variables.index(one.variable)
            best = objective.sign * found.grid_objectives[0]
            panel.plot(found.grid_design[i], best, "D", ms=5, mfc="none", mec=style.QUIET, zorder=4)
    made.supylabel(style.quantity_label(words(objective.name), unit, everything), fontsize=9, color=style.INK)
    handles = [
        style.matplotlib().lines.Line2D([], [], marker="o", ls="", color=style.SERIES_COLOURS[1], label="best design")
    ]
    if found.grid_design is not None:
        points = f"best of {len(found.grid[0]):,} {'sampled' if found.sampled else 'grid'} points"
        grid = style.matplotlib().lines.Line2D([], [], marker="D", ls="", mfc="none", mec=style.QUIET, label=points)
        handles.append(grid)
    made.legend(handles=handles, loc="outside lower right", ncols=2)
    return made


def _slice(panel: Any, one: Slice, value: float) -> None:
    variable = one.variable
    label = variable.axis.coordinates[0]
    kept = one.violation <= KEPT
    colour = style.SERIES_COLOURS[0]
    if variable.choice:
        places = np.arange(len(one.values))
        panel.plot(places[kept], one.objective[kept], "o", color=colour, ms=4)
        panel.plot(places[~kept], one.objective[~kept], "o", mfc="none", mec=colour, ms=4)
        panel.set_xticks(places, [f"{name:g}" if isinstance(name, float) else str(name) for name in variable.labels])
        panel.set_xlim(-0.5, len(places) - 0.5)
    else:
        panel.plot(one.values, np.where(kept, one.objective, np.nan), color=colour, lw=1.7)
        panel.plot(one.values, one.objective, color=colour, lw=0.9, ls=(0, (3, 2)), zorder=1)
        if variable.log and variable.high / variable.low > 4:
            panel.set_xscale("log")
        style.scaled_ticks(
            panel.xaxis, np.array([variable.low, variable.high]), label.unit, panel.get_xscale() == "log"
        )
    _mark(panel, one)
    panel.plot(one.at, value, "o", color=style.SERIES_COLOURS[1], ms=6, zorder=5, clip_on=False)
    limits = np.array([variable.low, variable.high])
    text = (
        label.long_name.partition(",")[0]
        if variable.choice
        else style.quantity_label(label.long_name, label.unit, limits)
    )
    panel.set_xlabel(textwrap.fill(text, LABEL), fontsize=8)
    style.grid_behind(panel)


def _mark(panel: Any, one: Slice) -> None:
    """Dots behind what is beyond the evidence of a slice of numbers; names of such choices in italics."""
    there = one.octaves >= BEYOND
    if one.variable.choice:
        for far, label in zip(there, panel.get_xticklabels(), strict=True):
            label.set_style("italic" if far else "normal")
        return
    middle = np.concatenate([one.values[:1], 0.5 * (one.values[1:] + one.values[:-1]), one.values[-1:]])
    ends = np.flatnonzero(np.diff(np.concatenate([[False], there, [False]]).astype(int)))
    for first, last in ends.reshape(-1, 2):
        look = {"fill": False, "hatch": evidence.HATCH, "lw": 0.0, "edgecolor": style.CLOUD, "zorder": 0}
        panel.axvspan(middle[first], middle[last], **look)


def _limits(panel: Any, everything: np.ndarray, value: float, unit: str) -> None:
    """The same limits in all slices: around the best value, what is far from it left out."""
    low, high = max(everything.min(), value / 4), min(everything.max(), value * 4)
    low, high = low / 1.1, high * 1.1
    log = high / low > 4
    panel.set_yscale("log" if log else "linear")
    style.scaled_ticks(panel.yaxis, np.array([low, high]), unit, log)
    panel.set_ylim(low, high)


def _front(found: Optimum) -> Any:
    problem = found.problem
    first, second = problem.objectives[:2]
    _designs, objectives, constraints = found.grid
    kept = worst(constraints) <= KEPT
    title = f"What no other design beats: {words(first.name)} against {words(second.name)}"
    limits = ", ".join(constraint.text for constraint in problem.constraints)
    cloud = f"{'sampled' if found.sampled else 'grid'} points that keep {limits}"
    made = style.figure(
        7.5,
        5.0,
        title,
        f"{len(found.designs)} designs by gradients; grey: {int(kept.sum()):,} {cloud}",
        problem.attributes["title"],
    )
    panel = made.add_subplot()
    x, y = first.sign * objectives[kept, 0], second.sign * objectives[kept, 1]
    panel.scatter(x, y, s=3, lw=0, color=style.CLOUD, alpha=0.5, rasterized=True)
    across, up = first.sign * found.objectives[:, 0], second.sign * found.objectives[:, 1]
    panel.plot(across, up, "o-", color=style.SERIES_COLOURS[1], lw=1.2, ms=4, mec="white", mew=0.5)
    for side, one, values, others in (("x", first, across, x), ("y", second, up, y)):
        shown = np.concatenate([values, np.quantile(others, [0.0, 0.7])]) if kept.any() else values
        limits = shown.min() / 1.05, shown.max() * 1.05
        log = limits[1] / limits[0] > 4
        style.quantity_axis(panel, side, words(one.name), unit_of(one.name), values, log, limits)
    style.grid_behind(panel, "both")
    return made

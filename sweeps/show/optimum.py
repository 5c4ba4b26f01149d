"""Pictures of an optimum: slices through the best design along every variable, or a Pareto front."""

import textwrap
from typing import Any

import numpy as np

from hwspaces import formatted
from jaxroof.efficiency.hull import BEYOND
from sweeps.ask.leaves import leaf_long_name
from sweeps.data import labels
from sweeps.show import plane, style
from sweeps.studies.optimize.descent import KEPT, worst
from sweeps.studies.optimize.goals import ROOTS, unit_of
from sweeps.studies.optimize.optimum import Optimum
from sweeps.studies.optimize.problem import Problem
from sweeps.studies.optimize.result import Slice, slices

COLUMNS, LABEL = 3, 44
"""Slices side by side, and letters of a line below them."""

LETTERS = 34
"""Letters of a line beside one row of slices."""

FAR, LEAST = 3.0, 1.02
"""Ratios to the best value: what is farther is out of the picture, and an axis shows at least so much."""

NARROW = 0.06
"""Share of a slice from which a shaded range has room for the constraint's name."""


@style.styled
def optimum(optimum: Optimum) -> Any:
    """Figure of a search's result."""
    return _front(optimum) if len(optimum.problem.objectives) > 1 else _slices(optimum)


def words(name: str) -> str:
    """A metric's or leaf's meaning in a few words."""
    return leaf_long_name(name) if name.startswith(ROOTS) else labels.words(name)


def _slices(optimum: Optimum) -> Any:
    problem = optimum.problem
    # One variable at a time is moved through its range, from the best design.
    cut = slices(problem, optimum.designs[0])
    objective = problem.objectives[0]
    # Objectives are stored so that smaller is better; the sign gives the figure back.
    value = objective.sign * optimum.objectives[0, 0]
    unit = unit_of(objective.name)
    limits = ", ".join(dict.fromkeys(constraint.text for constraint in problem.constraints))
    details = (
        "Slices through the best design: one number changes, all others stay. Shaded: a constraint is broken, with "
        f"the one that is broken most ({limits})."
    )
    if any((one.octaves >= BEYOND).any() for one in cut):
        details += f" Dots, and choices in italics: {plane.BEYOND_WORDS}."
    title = f"Best design: {words(objective.name)} {formatted(value, unit)}"
    heading = title, details, problem.attributes["title"]
    fig, panels = style.panels(len(cut), COLUMNS, (10.5 / COLUMNS, 2.6), (0.0, 0.0), *heading)
    for panel, one in zip(panels, cut, strict=True):
        shown = _shown(one, value)
        _slice(panel, one, value, shown)
        _limits(panel, one, shown, value, unit)
        _broken(panel, one, problem)
        # Units that words say need no label at every panel.
        if unit not in style.PLAIN_UNITS:
            panel.set_ylabel(style.quantity_label("", unit, shown).strip(), fontsize=8)
        # The best point of the grid, for comparison; it need not lie on the slice.
        if optimum.grid_design is not None and optimum.grid_objectives is not None:
            i = problem.variables.index(one.variable)
            best = objective.sign * optimum.grid_objectives[0]
            panel.plot(optimum.grid_design[i], best, "D", ms=5, mfc="none", mec=style.QUIET, zorder=4)
    # One row of panels has room for a few words, two rows for twice as many.
    letters = LETTERS * -(-len(cut) // COLUMNS)
    fig.supylabel(textwrap.fill(words(objective.name), letters), fontsize=9, color=style.INK)
    lines = style.matplotlib().lines
    patch = style.matplotlib().patches.Patch(color=style.INFEASIBLE, label="breaks a constraint")
    handles = [lines.Line2D([], [], marker="o", ls="", color=style.SERIES_COLOURS[1], label="best design"), patch]
    if optimum.grid_design is not None:
        points = f"best of {len(optimum.grid[0]):,} {'sampled' if optimum.sampled else 'grid'} points"
        handles.append(lines.Line2D([], [], marker="D", ls="", mfc="none", mec=style.QUIET, label=points))
    fig.legend(handles=handles, loc="outside lower right", ncols=3)
    return fig


def _shown(one: Slice, value: float) -> np.ndarray:
    """Figures of a slice that its own axis has to show: those that keep the constraints, and what is not far off."""
    # Values beyond a factor of FAR would flatten the rest of the curve.
    near = np.isfinite(one.objective) & (one.objective < FAR * value) & (one.objective > value / FAR)
    return np.concatenate([one.objective[near], [value]])


def _slice(panel: Any, one: Slice, value: float, shown: np.ndarray) -> None:
    variable = one.variable
    label = variable.axis.coordinates[0]
    # Within the tolerance up to which a constraint counts as kept.
    feasible = one.violation <= KEPT
    colour = style.SERIES_COLOURS[0]
    if variable.choice:
        places = np.arange(len(one.values))
        panel.plot(places[feasible], one.objective[feasible], "o", color=colour, ms=4)
        panel.plot(places[~feasible], one.objective[~feasible], "o", mfc="none", mec=colour, ms=4)
        panel.set_xticks(places, [f"{name:g}" if isinstance(name, float) else str(name) for name in variable.labels])
        panel.set_xlim(-0.5, len(places) - 0.5)
    else:
        panel.plot(one.values, np.where(feasible, one.objective, np.nan), color=colour, lw=1.9)
        panel.plot(one.values, one.objective, color=colour, lw=0.9, ls=(0, (3, 2)), zorder=1)
        log = variable.log and variable.high / variable.low > 4
        panel.set_xscale("log" if log else "linear")
        panel.set_xlim(*_room(variable.low, variable.high, log))
        style.scaled_ticks(panel.xaxis, np.array([variable.low, variable.high]), label.unit, log)
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
    # Borders halfway between samples, with both ends of the slice.
    middle = np.concatenate([one.values[:1], 0.5 * (one.values[1:] + one.values[:-1]), one.values[-1:]])
    # Starts and ends of runs: places where the flag changes, in pairs.
    ends = np.flatnonzero(np.diff(np.concatenate([[False], there, [False]]).astype(int)))
    for first, last in ends.reshape(-1, 2):
        look = {"fill": False, "hatch": plane.HATCH, "lw": 0.0, "edgecolor": style.CLOUD, "zorder": 0}
        panel.axvspan(middle[first], middle[last], **look)


def _room(low: float, high: float, log: bool) -> tuple[float, float]:
    """Ends of an axis a little beyond those of a range, so that a mark at an end is whole."""
    if log:
        return low * (high / low) ** -0.03, high * (high / low) ** 0.03
    return low - 0.03 * (high - low), high + 0.03 * (high - low)


def _limits(panel: Any, one: Slice, shown: np.ndarray, value: float, unit: str) -> None:
    """Limits of a slice's own axis: a little beyond what it shows, and no narrower than it is worth a look."""
    # At least a factor of LEAST to both sides, so that rounding does not fill the axis.
    low, high = min(shown.min(), value / LEAST), max(shown.max(), value * LEAST)
    log = high / low > 4
    low, high = _room(low, high, log)
    panel.set_yscale("log" if log else "linear")
    style.scaled_ticks(panel.yaxis, np.array([low, high]), unit, log)
    panel.set_ylim(low, high)


def _broken(panel: Any, one: Slice, problem: Problem) -> None:
    """Shade the ranges in which a constraint is broken, each with the one that is broken most."""
    feasible = one.violation <= KEPT
    if one.variable.choice:
        edges = np.arange(len(one.values) + 1) - 0.5
    else:
        low, high = panel.get_xlim()
        # Halfway between samples on the axis: geometric means on a logarithmic one.
        middles = np.sqrt(one.values[1:] * one.values[:-1]) if panel.get_xscale() == "log" else None
        middles = (one.values[1:] + one.values[:-1]) / 2.0 if middles is None else middles
        edges = np.concatenate([[low], middles, [high]])
    # Where a range of kept or of broken samples begins; the first sample counts as if a kept one were before it.
    starts = np.flatnonzero(np.diff(np.concatenate([[True], feasible])))
    for start in starts[~feasible[starts]]:
        after = np.flatnonzero(feasible[start:])
        end = start + after[0] if len(after) else len(feasible)
        panel.axvspan(edges[start], edges[end], color=style.INFEASIBLE, lw=0, zorder=0)
        middle = (start + end - 1) // 2
        # The constraint that is broken most in the middle of the range names it.
        which = one.worst[middle]
        text = problem.kept[which].constraint.name.split(".")[-1] if np.isfinite(one.violation[middle]) else "illegal"
        wide = (end - start) / len(feasible)
        if wide > NARROW:
            x = np.sqrt(edges[start] * edges[end]) if panel.get_xscale() == "log" else (edges[start] + edges[end]) / 2
            panel.annotate(
                text,
                (x, 0.98),
                xycoords=("data", "axes fraction"),
                ha="center",
                va="top",
                fontsize=7,
                color=style.QUIET,
                rotation=0 if wide > len(text) * 0.025 else 90,
            )


def _front(optimum: Optimum) -> Any:
    problem = optimum.problem
    first, second = problem.objectives[:2]
    _designs, objectives, constraints = optimum.grid
    feasible = worst(constraints) <= KEPT
    title = f"What no other design beats: {words(first.name)} against {words(second.name)}"
    limits = ", ".join(dict.fromkeys(constraint.text for constraint in problem.constraints))
    cloud = f"{'sampled' if optimum.sampled else 'grid'} points that keep {limits}"
    fig = style.figure(
        7.5,
        5.0,
        title,
        f"{len(optimum.designs)} designs by gradients; grey: {int(feasible.sum()):,} {cloud}",
        problem.attributes["title"],
    )
    panel = fig.add_subplot()
    x, y = first.sign * objectives[feasible, 0], second.sign * objectives[feasible, 1]
    panel.scatter(x, y, s=3, lw=0, color=style.CLOUD, alpha=0.5, rasterized=True)
    across, up = first.sign * optimum.objectives[:, 0], second.sign * optimum.objectives[:, 1]
    panel.plot(across, up, "o-", color=style.SERIES_COLOURS[1], lw=1.2, ms=4, mec="white", mew=0.5)
    for side, one, values, others in (("x", first, across, x), ("y", second, up, y)):
        # The axis spans the front and the better 70 % of the cloud, whose other tail would squeeze both.
        better = [0.0, 0.7] if one.sign > 0 else [0.3, 1.0]
        shown = np.concatenate([values, np.quantile(others, better)]) if feasible.any() else values
        limits = shown.min() / 1.05, shown.max() * 1.05
        log = bool(limits[1] / limits[0] > 4)
        style.quantity_axis(panel, side, words(one.name), unit_of(one.name), values, log, limits)
    style.grid_behind(panel, "both")
    return fig

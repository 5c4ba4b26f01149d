"""Text of `jaxroof optimize`: the designs, the best point of the grid, and the active constraints and bounds."""

from typing import Any

from hwspaces import formatted
from sweeps.cli.optimize_parts import means, robustness, simulations, trade_offs, whole_numbers
from sweeps.cli.tables import console, percent, table
from sweeps.studies.optimize.goals import unit_of
from sweeps.studies.optimize.optimum import Optimum

SHOWN = 4
"""Designs side by side."""

LEAST = 1e-4
"""Elasticity from which on what is active is shown."""


def printed(found: Optimum, seconds: float) -> None:
    """Print everything."""
    problem, out = found.problem, console()
    out.print(problem.attributes["title"])
    goals = [f"{'maximise' if one.maximise else 'minimise'} {one.text}" for one in problem.objectives]
    out.print(f"{', '.join(goals)}, with {', '.join(problem.constraint_names)}", end="\n\n")
    several = len(problem.objectives) > 1
    out.print(_designs(found, several))
    if several:
        out.print(trade_offs(found))
    elif any(abs(one.elasticity) >= LEAST for one in found.active):
        out.print(_held(found))
    elif found.residual < 0.05:
        out.print("nothing holds it there: an optimum inside the bounds")
    if found.robustness is not None:
        out.print(robustness(found))
    for shown in simulations(found):
        out.print(shown)
    for line in (*means(problem), *whole_numbers(found)):
        out.print(line)
    if not several and found.residual > 0.05:
        out.print(
            f"note    {percent(found.residual)} of the slopes are not balanced by what is active: the optimum is on a "
            "ridge between two regimes, where slopes are smoothed, or counts hold it"
        )
    for note in filter(None, problem.attributes["notes"].split(" | ")):
        out.print(f"note    {note}")
    stages = ", ".join(f"{name} {value:.1f} s" for name, value in found.seconds.items() if value > 0.05)
    out.print(
        f"{found.evaluations:,} designs and {found.gradients:,} gradients in {seconds:.1f} s, compilation included "
        f"({stages})"
    )


def _designs(found: Optimum, several: bool) -> Any:
    """Variables, then goals, of the best designs and of the best point of the grid, side by side."""
    problem = found.problem
    count = len(found.designs) if several else min(len(found.designs), SHOWN)
    picks = sorted({round(i * (count - 1) / max(min(count, 6) - 1, 1)) for i in range(min(count, 6))})
    heads = [f"design {pick + 1}" for pick in picks] if several else ["best", *(f"{i + 1}." for i in picks[1:])]
    columns = [found.designs[pick] for pick in picks]
    values = [found.objectives[pick] for pick in picks]
    kept = [bool(found.feasible[pick]) for pick in picks]
    if found.grid_design is not None:
        heads.append(f"best of {len(found.grid[0]):,}\n{'sampled' if found.sampled else 'grid'} points")
        columns.append(found.grid_design)
        values.append(found.grid_objectives)
        kept.append(True)
    made = table("", *heads, "bounds", numbers=heads)
    for i, variable in enumerate(problem.variables):
        cells = [_shown(problem.label(variable, design[i]), variable) for design in columns]
        bounds = (
            "choice" if variable.choice else f"{_shown(variable.low, variable)} to {_shown(variable.high, variable)}"
        )
        made.add_row(variable.name, *cells, bounds)
    made.add_section()
    for j, objective in enumerate(problem.objectives):
        unit = unit_of(objective.name)
        made.add_row(
            objective.text, *(formatted(objective.sign * value[j], unit, 4) for value in values), "", style="bold"
        )
    if not several:
        best = values[0][0]
        made.add_row(
            "against the best", *("" if i == 0 else _ratio(value[0], best) for i, value in enumerate(values)), ""
        )
    made.add_row("keeps constraints", *("yes" if one else "no" for one in kept), "")
    return made


def _held(found: Optimum) -> Any:
    """Active constraints and bounds at the best design, and the gain from one per cent more of each."""
    objective = found.problem.objectives[0]
    value = abs(found.objectives[0, 0])
    unit = unit_of(objective.name)
    made = table(
        "held by", "at", "1 % more of it", "changes the objective by", numbers=("at", "changes the objective by")
    )
    for one in found.active:
        if abs(one.elasticity) < LEAST:
            continue
        step = 0.01 * one.limit
        change = 0.01 * one.elasticity * value
        name = one.name if one.kind == "constraint" else f"{one.name}, {one.kind}"
        made.add_row(
            name,
            formatted(one.limit, one.unit),
            f"+{formatted(step, one.unit)}",
            f"{'-' if change < 0 else '+'}{formatted(abs(change), unit)} ({one.elasticity:+.2f} %)",
        )
    return made


def _ratio(value: float, best: float) -> str:
    """Distance from the best, as a ratio."""
    return f"{100.0 * (value / best - 1.0):+.3g} %"


def _shown(value: Any, variable: Any) -> str:
    if isinstance(value, str):
        return value
    return formatted(float(value), variable.axis.coordinates[0].unit or "1")

"""Parts of the text of `jaxroof optimize`: exchange between objectives, scenarios, mixes, whole numbers."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from hwspaces import formatted
from jaxroof.numerics.struct import given
from sweeps.answers.brief import Brief, packed
from sweeps.answers.shared import margin_text
from sweeps.answers.tables import console, percent, print_lines, table
from sweeps.ask.names import variable
from sweeps.studies.optimize.ends import FURTHER
from sweeps.studies.optimize.goals import harmonic, unit_of
from sweeps.studies.optimize.optimum import Optimum
from sweeps.studies.optimize.optimum import trade_offs as rates
from sweeps.studies.optimize.problem import Problem

UNBALANCED = 0.1
"""Share of the slopes that may be unbalanced where a rate of exchange is printed without a mark."""

END = 1.0
"""Relative change of an objective for 1 % of the other from which on a design is at the end of its front."""


def trade_offs(optimum: Optimum) -> Any:
    """Every design of a front on a line: its objectives, and what 1 % more of the first changes of each other one."""
    problem = optimum.problem
    first, *others = problem.objectives
    heads = [f"changes {goal.text} by" for goal in others]
    names, more = problem.objective_names, f"1 % more {first.text}"
    exchange = table("front", *names, more, *heads, numbers=(*names, more, *heads))
    # Entry [i, j, 0]: change of objective j for each unit of the first one, along the front at design i.
    every = rates(optimum)
    for i, row in enumerate(optimum.objectives):
        # Objectives are stored so that smaller is better; their sign gives the figure back.
        figures = [goal.sign * value for goal, value in zip(problem.objectives, row, strict=True)]
        cells = [formatted(v, unit_of(g.name), 4) for v, g in zip(figures, problem.objectives, strict=True)]
        cells.append(f"+{formatted(0.01 * figures[0], unit_of(first.name))}")
        # A rate assumes balanced slopes: where they are not, it is marked as approximate.
        mark = "~" if optimum.balances[i].residual > UNBALANCED else ""
        for j, goal in enumerate(others, 1):
            change = every[i, j, 0] * 0.01 * figures[0]
            share = change / figures[j]
            if not np.isfinite(share) or abs(share) > END:
                cells.append("end of the front")
                continue
            sign = "-" if change < 0.0 else "+"
            cells.append(f"{mark}{sign}{formatted(abs(change), unit_of(goal.name))} ({100 * share:+.2f} %)")
        exchange.add_row(f"design {i + 1}", *cells)
    return exchange


def robustness(optimum: Optimum) -> Any:
    """The robust and the nominal optimum in every scenario."""
    comparison = given(optimum.robustness, "robust optimum")
    unit = unit_of(optimum.problem.objectives[0].name)
    heads = ("nominal optimum", "robust optimum", "price")
    shown = table("scenario", *heads, "nominal keeps constraints", "binds", numbers=heads)
    for i, name in enumerate(comparison.scenarios):
        # Excess is stored as a logarithm; expm1 turns it into a relative one.
        misses = "" if comparison.nominal_keeps[i] else f"no, by {percent(np.expm1(comparison.nominal_excess[i]))}"
        # Weight of the scenario among those that decide: 1 where it alone does, 0 where it does not.
        share = optimum.balances[0].scenarios[i]
        binds = "" if share < 1e-3 else "yes" if share > 1.0 - 1e-3 else f"{percent(share)} of it"
        shown.add_row(
            name,
            formatted(comparison.nominal[i], unit, 4),
            formatted(comparison.robust[i], unit, 4),
            f"{100 * comparison.price[i]:+.3g} %",
            misses or "yes",
            binds,
        )
    return shown


def simulations(optimum: Optimum) -> Iterator[Any]:
    """Every served stream at the best design: in closed form, and as one simulation has it."""
    for one in optimum.confirmations:
        head = f"{one.member + ': ' if one.member else ''}{one.rate:.4g} requests/s"
        heads = ("closed form", f"{one.requests:,} requests simulated", "difference")
        shown = table(head, *heads, numbers=heads)
        for name, value in one.closed.items():
            other = one.simulated[name]
            apart = f"{100 * (value / other - 1.0):+.1f} %" if np.isfinite(other) and other else ""
            figures = [formatted(v, variable(name).unit, 4) if np.isfinite(v) else "-" for v in (value, other)]
            shown.add_row(name, *figures, apart)
        yield shown


def means(problem: Problem) -> Iterator[str]:
    """What an objective is the mean of, and of which scenarios it is the worst."""
    if len(problem.weights) > 1:
        # Every scenario weighs the same mix, so the members of the first one name its parts.
        parts = zip(problem.members[0], problem.weights, strict=True)
        shares = ", ".join(f"{member.workload} {percent(share)}" for member, share in parts)
        # Rates per second average harmonically over tokens, times and costs per token arithmetically.
        kinds = {("harmonic" if harmonic(goal) else "arithmetic") for goal in problem.objectives if not goal.of}
        yield f"mix     {' and '.join(sorted(kinds))} mean by share of the tokens: {shares}"
    if len(problem.members) > 1:
        yield f"robust  the objective is the worst of {', '.join(problem.scenarios)}; constraints hold in all"


def limits(optimum: Optimum) -> Iterator[str]:
    """Every variable at an end of what it may be, and what lies beyond."""
    for one in optimum.ends:
        where = f"{one.name} is at its {'most' if one.upper else 'least'}, {formatted(one.value, one.unit or '1')}"
        further = f"{100 * FURTHER:.0f} % {'more' if one.upper else 'less'}"
        by = "" if one.step is None else f", by the step from {formatted(one.step, one.unit or '1')}"
        if abs(one.change) < LEAST:
            yield f"limit   {where}: {further} would change the objective by less than {100 * LEAST:.2g} %{by}"
            continue
        word = "better" if one.better else "worse"
        yield f"limit   {where}: {further} would change the objective by {100 * one.change:+.2g} %, {word}{by}"


def money(problem: Problem) -> Iterator[str]:
    """The margin that money is at, where an objective or a limit is money, for each that the scenarios have."""
    names = [goal.name for goal in problem.objectives] + [one.name for one in problem.constraints]
    if not any("usd" in name or name == "device_price" for name in names):
        return
    # A margin that varies is a variable of its own.
    if any(variable.path == "hardware.costs.margin" for variable in problem.variables):
        return
    costs = [member.evaluator.base.hardware.costs for member in problem.flat]
    for margin in dict.fromkeys(float(one.margin) for one in costs if one is not None):
        yield f"money   {margin_text(margin)}"


def whole_numbers(optimum: Optimum) -> Iterator[str]:
    """The gap of whole numbers."""
    gap = optimum.gap
    if gap is None:
        return
    if gap.proved:
        yield f"whole   the best of all {gap.nodes:,} designs (proved)"
        return
    # Counts relaxed to real numbers can only be better: the gap bounds what whole ones cost.
    text = (
        f"whole   whole numbers cost {percent(gap.value)} at most ({gap.certainty}: the relaxed optimum is by descent)"
    )
    if gap.left > 1e-6:
        text += f"; {percent(gap.left)} is left open after {gap.nodes} relaxed problems"
    yield text


# Text of `jaxroof optimize`: the designs, the best point of the grid, and the active constraints and bounds.


SHOWN = 4
"""Designs side by side."""

LEAST = 1e-4
"""Elasticity from which on what is active is shown."""


def printed(optimum: Optimum, seconds: float) -> None:
    """Print everything."""
    problem, out = optimum.problem, console()
    if out.short(lambda: _brief(optimum)):
        return
    out.print(problem.attributes["title"])
    goals = [f"{'maximise' if one.maximise else 'minimise'} {one.text}" for one in problem.objectives]
    out.print(f"{', '.join(goals)}, with {', '.join(problem.constraint_names)}", end="\n\n")
    several = len(problem.objectives) > 1
    out.print(_designs(optimum, several))
    if several:
        out.print(trade_offs(optimum))
    elif any(abs(one.elasticity) >= LEAST for one in optimum.active):
        out.print(_held(optimum))
    elif optimum.residual < 0.05:
        out.print("nothing holds it there: an optimum inside the bounds")
    if optimum.robustness is not None:
        out.print(robustness(optimum))
    for shown in simulations(optimum):
        out.print(shown)
    for line in (*means(problem), *limits(optimum), *whole_numbers(optimum), *money(problem)):
        out.print(line)
    print_lines(out, "note", _notes(optimum))
    # Stages that would round to 0.0 s are left out.
    stages = ", ".join(f"{name} {value:.1f} s" for name, value in optimum.seconds.items() if value > 0.05)
    out.print(
        f"{optimum.evaluations:,} designs and {optimum.gradients:,} gradients in {seconds:.1f} s, compilation included "
        f"({stages})"
    )


def _brief(optimum: Optimum) -> Brief:
    """The best design on a screen: its objective, its variables, what holds it."""
    problem, several, notes = optimum.problem, len(optimum.problem.objectives) > 1, _notes(optimum)
    limits = f"with {', '.join(problem.constraint_names)}"
    if several:
        goals = " and ".join(f"{'most' if one.maximise else 'least'} {one.text}" for one in problem.objectives)
        sentence = f"{len(optimum.designs)} designs of the Pareto front of {goals}, {limits}"
        return Brief(problem.attributes["title"], answer=sentence, table=_designs(optimum, several), notes=notes)
    first = problem.objectives[0]
    value = formatted(first.sign * optimum.objectives[0][0], unit_of(first.name), 4)
    best = f"the {'most' if first.maximise else 'least'}" if bool(optimum.feasible[0]) else "which breaks a limit,"
    values = zip(problem.variables, optimum.designs[0], strict=True)
    settings = [f"{knob.name} {_shown(problem.label(knob, found), knob)}" for knob, found in values]
    held = [one for one in optimum.active if abs(one.elasticity) >= LEAST]
    holds = ", ".join(f"{one.name} ({one.elasticity:+.2f} % for 1 % more)" for one in held)
    grid = []
    if optimum.grid_objectives is not None:
        ratio = _ratio(optimum.grid_objectives[0], optimum.objectives[0][0])
        kind = "sampled" if optimum.sampled else "grid"
        grid = [("grid", f"best of {len(optimum.grid[0]):,} {kind} points: {ratio}")]
    return Brief(
        asked=problem.attributes["title"],
        answer=f"{first.text} {value}, {best} {limits}",
        facts=(
            *(("design", text) for text in packed(settings)),
            *((("held by", holds),) if holds else ()),
            *grid,
        ),
        notes=notes,
    )


def _notes(optimum: Optimum) -> tuple[str, ...]:
    notes = tuple(filter(None, optimum.problem.attributes["notes"].split(" | ")))
    if len(optimum.problem.objectives) > 1 or optimum.residual <= 0.05:
        return notes
    ridge = "the optimum is on a ridge between two regimes, where slopes are smoothed, or counts hold it"
    return (f"{percent(optimum.residual)} of the slopes are not balanced by what is active: {ridge}", *notes)


def _designs(optimum: Optimum, several: bool) -> Any:
    """Variables, then goals, of the best designs and of the best point of the grid, side by side."""
    problem = optimum.problem
    # A front is shown over its whole length; of a single objective only the first designs.
    count = len(optimum.designs) if several else min(len(optimum.designs), SHOWN)
    # At most six, evenly spaced in their order, with the first and the last.
    picks = sorted({round(i * (count - 1) / max(min(count, 6) - 1, 1)) for i in range(min(count, 6))})
    heads = [f"design {pick + 1}" for pick in picks] if several else ["best", *(f"{i + 1}." for i in picks[1:])]
    columns = [optimum.designs[pick] for pick in picks]
    values = [optimum.objectives[pick] for pick in picks]
    feasible = [bool(optimum.feasible[pick]) for pick in picks]
    # The best point of the grid beside them shows what the descent has gained.
    if optimum.grid_design is not None:
        heads.append(f"best of {len(optimum.grid[0]):,}\n{'sampled' if optimum.sampled else 'grid'} points")
        columns.append(optimum.grid_design)
        values.append(optimum.grid_objectives)
        feasible.append(True)
    designs = table("", *heads, "bounds", numbers=heads)
    for i, knob in enumerate(problem.variables):
        cells = [_shown(problem.label(knob, design[i]), knob) for design in columns]
        bounds = "choice" if knob.choice else f"{_shown(knob.low, knob)} to {_shown(knob.high, knob)}"
        designs.add_row(knob.name, *cells, bounds)
    designs.add_section()
    for j, objective in enumerate(problem.objectives):
        unit = unit_of(objective.name)
        designs.add_row(
            objective.text, *(formatted(objective.sign * value[j], unit, 4) for value in values), "", style="bold"
        )
    if not several:
        best = values[0][0]
        designs.add_row(
            "against the best", *("" if i == 0 else _ratio(value[0], best) for i, value in enumerate(values)), ""
        )
    designs.add_row("keeps constraints", *("yes" if one else "no" for one in feasible), "")
    return designs


def _held(optimum: Optimum) -> Any:
    """Active constraints and bounds at the best design, and the gain from one per cent more of each."""
    objective = optimum.problem.objectives[0]
    value = abs(optimum.objectives[0, 0])
    unit = unit_of(objective.name)
    active = table(
        "held by", "at", "1 % more of it", "changes the objective by", numbers=("at", "changes the objective by")
    )
    for one in optimum.active:
        if abs(one.elasticity) < LEAST:
            continue
        # One per cent of the limit, and the change of the objective to first order by its elasticity.
        step = 0.01 * one.limit
        change = 0.01 * one.elasticity * value
        name = one.name if one.kind == "constraint" else f"{one.name}, {one.kind}"
        active.add_row(
            name,
            formatted(one.limit, one.unit),
            f"+{formatted(step, one.unit)}",
            f"{'-' if change < 0 else '+'}{formatted(abs(change), unit)} ({one.elasticity:+.2f} %)",
        )
    return active


def _ratio(value: float, best: float) -> str:
    """Distance from the best, as a ratio."""
    return f"{100.0 * (value / best - 1.0):+.3g} %"


def _shown(value: Any, variable: Any) -> str:
    if isinstance(value, str):
        return value
    return formatted(float(value), variable.axis.coordinates[0].unit or "1")

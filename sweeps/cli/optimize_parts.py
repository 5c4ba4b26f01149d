"""Parts of the text of `jaxroof optimize`: exchange between objectives, scenarios, mixes, whole numbers."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from hwspaces import formatted
from jaxroof.numerics.struct import given
from sweeps.ask.names import variable
from sweeps.cli.tables import percent, table
from sweeps.studies.optimize.goals import harmonic, unit_of
from sweeps.studies.optimize.optimum import Optimum
from sweeps.studies.optimize.optimum import trade_offs as rates
from sweeps.studies.optimize.problem import Problem

UNBALANCED = 0.1
"""Share of the slopes that may be unbalanced where a rate of exchange is printed without a mark."""

END = 1.0
"""Relative change of an objective for 1 % of the other from which on a design is at the end of its front."""


def trade_offs(found: Optimum) -> Any:
    """Every design of a front on a line: its objectives, and what 1 % more of the first changes of each other one."""
    problem = found.problem
    first, *others = problem.objectives
    heads = [f"changes {goal.text} by" for goal in others]
    names, more = problem.objective_names, f"1 % more {first.text}"
    made = table("front", *names, more, *heads, numbers=(*names, more, *heads))
    every = rates(found)
    for i, row in enumerate(found.objectives):
        figures = [goal.sign * value for goal, value in zip(problem.objectives, row, strict=True)]
        cells = [formatted(v, unit_of(g.name), 4) for v, g in zip(figures, problem.objectives, strict=True)]
        cells.append(f"+{formatted(0.01 * figures[0], unit_of(first.name))}")
        mark = "~" if found.balances[i].residual > UNBALANCED else ""
        for j, goal in enumerate(others, 1):
            change = every[i, j, 0] * 0.01 * figures[0]
            share = change / figures[j]
            if not np.isfinite(share) or abs(share) > END:
                cells.append("end of the front")
                continue
            sign = "-" if change < 0.0 else "+"
            cells.append(f"{mark}{sign}{formatted(abs(change), unit_of(goal.name))} ({100 * share:+.2f} %)")
        made.add_row(f"design {i + 1}", *cells)
    return made


def robustness(found: Optimum) -> Any:
    """The robust and the nominal optimum in every scenario."""
    made = given(found.robustness, "robust optimum")
    unit = unit_of(found.problem.objectives[0].name)
    heads = ("nominal optimum", "robust optimum", "price")
    shown = table("scenario", *heads, "nominal keeps constraints", "binds", numbers=heads)
    for i, name in enumerate(made.scenarios):
        misses = "" if made.nominal_keeps[i] else f"no, by {percent(np.expm1(made.nominal_excess[i]))}"
        share = found.balances[0].scenarios[i]
        binds = "" if share < 1e-3 else "yes" if share > 1.0 - 1e-3 else f"{percent(share)} of it"
        shown.add_row(
            name,
            formatted(made.nominal[i], unit, 4),
            formatted(made.robust[i], unit, 4),
            f"{100 * made.price[i]:+.3g} %",
            misses or "yes",
            binds,
        )
    return shown


def simulations(found: Optimum) -> Iterator[Any]:
    """Every served stream at the best design: in closed form, and as one simulation has it."""
    for one in found.confirmations:
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
        parts = zip(problem.members[0], problem.weights, strict=True)
        shares = ", ".join(f"{member.workload} {percent(share)}" for member, share in parts)
        kinds = {("harmonic" if harmonic(goal) else "arithmetic") for goal in problem.objectives if not goal.of}
        yield f"mix     {' and '.join(sorted(kinds))} mean by share of the tokens: {shares}"
    if len(problem.members) > 1:
        yield f"robust  the objective is the worst of {', '.join(problem.scenarios)}; constraints hold in all"


def whole_numbers(found: Optimum) -> Iterator[str]:
    """The gap of whole numbers."""
    gap = found.gap
    if gap is None:
        return
    if gap.proved:
        yield f"whole   the best of all {gap.nodes:,} designs (proved)"
        return
    text = (
        f"whole   whole numbers cost {percent(gap.value)} at most ({gap.certainty}: the relaxed optimum is by descent)"
    )
    if gap.left > 1e-6:
        text += f"; {percent(gap.left)} is left open after {gap.nodes} relaxed problems"
    yield text

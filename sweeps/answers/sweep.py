"""Text of a sweep: the question, the files written, and the best feasible point by every key metric."""

import sys
from typing import Any

from sweeps.answers.answer import say
from sweeps.ask.text import escaped, rate_text

RATED_POINTS = 100_000
"""Points from which a rate says something: fewer are outweighed by compilation."""


def speed_text(points: int, seconds: float) -> str:
    """Seconds of a whole run, compiling and writing with it, and the points per second that these are."""
    rate = f", {rate_text(points / seconds)} points/s with compiling and writing" if points >= RATED_POINTS else ""
    return f"{seconds:.1f} s{rate}"


def print_asked(asked: Any, plan: Any) -> None:
    """Print what a sweep will compute, before it does."""
    say(escaped(asked.attributes["title"], breaks=True))
    # Points that are drawn have one axis: its first label is the number, the others are what is drawn.
    drawn = [label.name for axis in plan.axes for label in axis.coordinates if axis.name == "point"][1:]
    sizes = " x ".join(f"{axis.size:,} {axis.name}" for axis in plan.axes) or "no axes"
    say(f"{plan.points:,} points: {', '.join(drawn) or sizes}; {len(plan.outputs)} variables")
    for note in asked.notes:
        say(f"note  {escaped(note, breaks=True)}")
    # Flushed, so that the question is visible while the sweep computes.
    sys.stdout.flush()


def print_found(output: str, written: str) -> None:
    """Print the files written, then the best feasible point by every key metric, read back lazily."""
    from sweeps.answers.tables import console, table
    from sweeps.ask.names import variable
    from sweeps.data import best, labels
    from sweeps.data.keep.rows import as_sample
    from sweeps.data.opened import opened

    out = console()
    with opened(output) as stored:
        dataset = as_sample(stored)
        # A sweep that kept counts alone has no points to compare.
        if dataset is None:
            out.print(f"{output}: {written}")
            return
        optima = [best.best(dataset, metric) for metric in best.key_metrics(dataset)]
        places = {point.metric: best.coordinates(dataset, point) for point in optima if point is not None}
        feasible, points = best.feasible_points(dataset)
        heads = {name: f"{'highest' if variable(name).higher_is_better else 'lowest'}\n{name}" for name in places}
        points_table = table("of the feasible points", *heads.values(), numbers=heads.values())
        values = [labels.text(dataset, point.metric, point.value) for point in optima if point is not None]
        points_table.add_row("value", *values, style="bold")
        for name in labels.axes(dataset):
            points_table.add_row(f"at {name}", *(place[name] for place in places.values()))
    out.print(f"{output}: {written}")
    # A sample of the points does not tell which share of all is feasible.
    if dataset is stored:
        out.print(f"{feasible:,} points ({100 * feasible / points:.0f} %) are feasible")
    else:
        out.print(f"{points:,} points are kept")
    if places:
        out.print()
        out.print(points_table)
    out.print(f"\n`jaxroof plot {output}` draws it.")

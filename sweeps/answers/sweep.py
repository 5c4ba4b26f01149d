"""Text of a sweep: the question, the files written, and the best feasible point by every key metric."""

import dataclasses
import sys
from collections.abc import Mapping
from typing import Any

from sweeps.ask.text import escaped, rate_text

MOST_TABLES = 4
"""Values of the conditions up to which each has a table of its best points; of more, each has a row."""

MOST_ROWS = 20
"""Rows of that table."""

RATED_POINTS = 100_000
"""Points from which a rate says something: fewer are outweighed by compilation."""


def speed_text(points: int, seconds: float) -> str:
    """Seconds of a whole run, compiling and writing with it, and its points per second."""
    rate = f", {rate_text(points / seconds)}/s" if points >= RATED_POINTS else ""
    return f"{seconds:.1f} s{rate}"


def pruned_text(attributes: Mapping[str, Any]) -> str:
    """How many points of a pruned sweep were computed; nothing of another one."""
    from sweeps.data.keep.rows import COMPUTED

    computed, points = attributes.get(COMPUTED), attributes.get("points")
    if computed is None or not points:
        return ""
    others = "bounds rule out the others" if computed < points else "bounds rule out none"
    return f"; {int(computed):,} of {int(points):,} were computed: {others}"


def print_asked(asked: Any, plan: Any) -> None:
    """Print what a sweep will compute, before it does."""
    from sweeps.answers.tables import console, print_lines

    out = console()
    out.print(escaped(asked.attributes["title"], breaks=True))
    # Points that are drawn have one axis: its first label is the number, the others are what is drawn.
    drawn = [label.name for axis in plan.axes for label in axis.coordinates if axis.name == "point"][1:]
    sizes = " x ".join(f"{axis.size:,} {axis.name}" for axis in plan.axes) or "no axes"
    out.print(f"{plan.points:,} points: {', '.join(drawn) or sizes}; {len(plan.outputs)} variables")
    print_lines(out, "note", asked.notes)
    # Flushed, so that the question is visible while the sweep computes.
    sys.stdout.flush()


def print_found(output: str, written: str) -> None:
    """Print the files written, then the best feasible point by every key metric, read back lazily.

    The best is per value of each condition, such as the model.
    """
    from sweeps.answers.brief import Brief
    from sweeps.answers.tables import console
    from sweeps.data import best
    from sweeps.data.conditions import conditions, parts, said
    from sweeps.data.keep.rows import as_sample
    from sweeps.data.opened import opened

    out = console()
    with opened(output) as stored:
        dataset = as_sample(stored)
        # A sweep that kept counts alone has no points to compare.
        if dataset is None:
            out.print(f"{output}: {written}")
            return
        feasible, points = best.feasible_points(dataset)
        names, metrics = conditions(dataset), best.key_metrics(dataset)
        usual = conditions(dataset.assign_attrs(per=None))
        optima = [
            (values, part, [point for metric in metrics if (point := best.best(part, metric)) is not None])
            for values, part in parts(dataset, names)
        ]
        pruned = pruned_text(stored.attrs)
        # Also where somebody has said that what is usually a condition is a freedom.
        per = [said(names)] if names or usual else []
        brief = Brief(
            asked=dataset.attrs.get("title", output),
            answer=f"{written}{pruned or f'; {feasible:,} ({100 * feasible / points:.0f} %) are feasible'}",
            facts=(("file", output), *(("best of", text) for text in per)),
            next=f"jaxroof plot {output}",
        )
        if out.short(lambda: _with_best(brief, dataset, metrics, optima)):
            return
        shown = _tables(dataset, metrics, optima)
    out.print(f"{output}: {written}")
    # A sample of the points does not tell which share of all is feasible.
    if dataset is stored:
        out.print(f"{feasible:,} points ({100 * feasible / points:.0f} %) are feasible")
    else:
        out.print(f"{points:,} points are kept{pruned}")
    for text in per:
        out.print(text)
    for points_table in shown:
        out.print()
        out.print(points_table)
    if len(shown) == 1 and len(optima) > MOST_ROWS:
        out.print(f"and {len(optima) - MOST_ROWS:,} more: `jaxroof query {output} --sort METRIC --where CONDITION`")
    out.print(f"\n`jaxroof plot {output}` draws it.")


def _with_best(brief: Any, dataset: Any, metrics: tuple[str, ...], optima: list[Any]) -> Any:
    """A short answer with the best points: a table where there are many conditions, else in words."""
    if len(optima) > MOST_TABLES:
        return dataclasses.replace(brief, table=_tables(dataset, metrics, optima)[0])
    return dataclasses.replace(brief, facts=(*brief.facts, *_facts(dataset, optima)))


def _facts(dataset: Any, optima: list[Any]) -> list[tuple[str, str]]:
    """The best point by every key metric in words, over lines that have one label."""
    from sweeps.answers.brief import packed
    from sweeps.ask.names import variable
    from sweeps.data import best, labels
    from sweeps.data.conditions import where_text

    facts = []
    for values, part, points in optima:
        for point in points:
            place = best.coordinates(part, point)
            first, *others = [f"{name} {place[name]}" for name in labels.axes(dataset) if name not in values]
            of = f" of {where_text(dataset, values)}" if values else ""
            head = f"{point.metric} {labels.text(part, point.metric, point.value)}{of} at {first}"
            label = "highest" if variable(point.metric).higher_is_better else "lowest"
            facts += [(label if not row else " ", text) for row, text in enumerate(packed([head, *others]))]
    return facts


def _tables(dataset: Any, metrics: tuple[str, ...], optima: list[Any]) -> list[Any]:
    """Tables of best points: one for every value of the conditions, or one with a row for each of many."""
    from sweeps.answers.tables import table
    from sweeps.ask.names import variable
    from sweeps.data import best, labels
    from sweeps.data.conditions import where_text

    heads = {name: f"{'highest' if variable(name).higher_is_better else 'lowest'}\n{name}" for name in metrics}
    if len(optima) > MOST_TABLES:
        rows = table("best of", *heads.values(), numbers=heads.values())
        for values, part, points in optima[:MOST_ROWS]:
            by_metric = {point.metric: labels.text(part, point.metric, point.value) for point in points}
            rows.add_row(where_text(dataset, values), *(by_metric.get(name, "none") for name in metrics))
        return [rows]
    tables = []
    for values, part, points in optima:
        if not points:
            continue
        own = [heads[point.metric] for point in points]
        of = f" of {where_text(dataset, values)}" if values else ""
        one = table(f"of the feasible points{of}", *own, numbers=own)
        one.add_row("value", *(labels.text(part, point.metric, point.value) for point in points), style="bold")
        places = [best.coordinates(part, point) for point in points]
        for name in labels.axes(dataset):
            if name not in values:
                one.add_row(f"at {name}", *(place[name] for place in places))
        tables.append(one)
    return tables

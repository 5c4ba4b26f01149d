"""Text of `jaxroof sensitivity`: knobs by real change, the gradient beside it, bounds, pairs of knobs."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hwspaces import formatted
from sweeps.answers.brief import Brief
from sweeps.answers.tables import console, metric_text, print_lines, shares_text, short_table, table
from sweeps.ask.names import units
from sweeps.data.labels import number
from sweeps.studies.sensitivity.knobs import Knob, pairs
from sweeps.studies.sensitivity.point import FLAT, Sensitivities
from sweeps.studies.sensitivity.ranking import Ranking
from sweeps.studies.sensitivity.turns import FACTORS, TOLERANCE, Turn, ranked

if TYPE_CHECKING:
    import xarray as xr

PAIRS = 10
CHECKED = 8
"""Rows of a table of pairs, and of each metric's own table where there are several metrics."""

MARK = " *"
"""After a change that the gradient does not predict."""


def show(ranking: Ranking, top: int, every: bool) -> None:
    """Print the tables."""
    out, point = console(), ranking.point
    if out.short(lambda: _brief(ranking)):
        return
    out.print(ranking.heading, end="\n\n")
    names, moving = list(point.metrics), ranked(ranking.checks)
    shown = list(moving[:top])
    if every:
        shown = [*moving, *(knob for knob in point.knobs if knob not in moving)]
    if len(names) == 1:
        out.print(_one_metric(point, names[0], shown, ranking.checks[names[0]]))
    else:
        out.print(_all_metrics(point, ranking.checks, shown))
        for name in names:
            out.print(f"\n{name}: real changes and those that the gradient predicts")
            rows = ranked(ranking.checks, [name])[: None if every else CHECKED]
            out.print(_one_metric(point, name, rows, ranking.checks[name]))
    out.print()
    # Each turn evaluates the metrics again, so that of many knobs only those with large elasticities are turned.
    turned = len(ranking.checks[names[0]])
    few = "" if every or top >= len(moving) else f"; the {top} with the largest changes are shown"
    if turned < len(point.knobs):
        out.print(f"knobs   {turned} of {len(point.knobs)} were turned, those with the largest elasticities{few}")
    else:
        out.print(f"knobs   {len(moving)} of {turned} have an effect, {turned - len(moving)} have none{few}")
    for name in names:
        # The gradient is judged by knobs that have an effect: the others agree in any case.
        rows = [row for row in ranking.checks[name] if row.effect]
        marked = [row for row in rows if not row.agrees]
        out.print(
            f"agree   {name}: gradient and real change within {100 * TOLERANCE:g} % for {len(rows) - len(marked)} of "
            f"{len(rows)} knobs{f', not for {_listed(marked)}' if marked else ''}"
        )
    for step, shares in point.bounds.items():
        out.print(f"bound   {step}: {_shares(shares)} of its time")
    for reason, words in (("0", "0: a share of nothing"), ("switch", "switches"), ("unknown", "not set or unknown")):
        paths = [path for path, why in point.left_out.items() if why == reason]
        if paths:
            out.print(f"none    {', '.join(paths)}: {words}, no elasticity")
    print_lines(out, "note", _notes(ranking))
    for name, (knobs, values) in ranking.curvatures.items():
        _show_pairs(out, name, knobs, point, values)


def _brief(ranking: Ranking) -> Brief:
    """The knobs that matter most, on a screen: what a change of each does to every metric."""
    point, names = ranking.point, list(ranking.point.metrics)[:4]
    # Knobs whose gradient tells the real change come first, the steepest of them before the others.
    apart = {row.knob for rows in ranking.checks.values() for row in rows if not row.agrees}
    steepest = {knob: max(abs(_slope(point, name, knob)) for name in names) for knob in ranked(ranking.checks)}
    moving = sorted(steepest, key=lambda knob: (knob in apart, -steepest[knob]))
    heads = {name: NAMES.get(name, name) for name in names}
    listing = short_table("1 % more of", *heads.values(), texts=("1 % more of",))
    for knob in moving:
        listing.add_row(knob.path, *(f"{_text(_slope(point, name, knob))} %" for name in names))
    asked, _, setting = ranking.heading.partition("\n")
    first = moving[0] if moving else None
    sentence = "No number has an effect."
    if first is not None:
        most = ", ".join(f"{heads[name]} by {_text(_slope(point, name, first))} %" for name in names)
        sentence = f"{first.path} matters most: 1 % more of it changes {most}."
    bounds = [f"{step} by {_shares(shares)}" for step, shares in point.bounds.items()]
    return Brief(
        asked=asked,
        setting=setting,
        answer=sentence,
        facts=(("limited", "; ".join(bounds)),) if bounds else (),
        table=listing,
        notes=_notes(ranking),
        next="a picture: --plot tornado.png",
    )


def _notes(ranking: Ranking) -> tuple[str, ...]:
    # Without smoothing the gradient at a ridge is that of the regime which holds there.
    exact = "exact piecewise gradients: no smoothing at ridges, none of rounded-up counts"
    return (*((exact,) if ranking.point.smoothing == 0.0 else ()), *ranking.notes)


NAMES = {
    "ttft": "TTFT",
    "tpot": "TPOT",
    "e2e": "E2E",
    "tokens_per_second": "tokens/s",
    "tokens_per_second_per_device": "tokens/s/device",
    "joules_per_token": "J/token",
    "step_time": "time",
}
"""Metrics in a short answer, which has room for few letters."""


def _shares(shares: Mapping[str, float]) -> str:
    """Shares of a step's time; one below FLAT counts as none."""
    return shares_text({bound: share for bound, share in shares.items() if share >= FLAT})


def _listed(marked: Sequence[Turn]) -> str:
    """Paths of turns with the reasons for their marks."""
    return ", ".join(f"{row.knob.path} ({row.reason})" for row in sorted(marked, key=lambda row: -row.size))


def show_maps(found: "xr.Dataset") -> None:
    """Print what the maps span: of every metric and knob the lowest, middle and highest elasticity."""
    out = console()
    sizes = " x ".join(f"{size:,} {dim}" for dim, size in found.sizes.items() if dim != "knob")
    out.print(f"{found.attrs['title']}\n{sizes} points, {found.sizes['knob']} knobs", end="\n\n")
    for name, array in found.data_vars.items():
        if not str(name).startswith("elasticity_of_"):
            continue
        columns = ("lowest", "median", "highest")
        ranges = table(str(name).removeprefix("elasticity_of_"), *columns, numbers=columns)
        for knob in found["knob"].values:
            values = array.sel(knob=knob).values
            # Points at which an elasticity does not exist are not finite.
            known = values[np.isfinite(values)]
            ends = [f"{value:+.3f}" for value in np.quantile(known, (0.0, 0.5, 1.0))] if known.size else ["-"] * 3
            ranges.add_row(str(knob), *ends)
        out.print(ranges)
        out.print()


def record(ranking: Ranking) -> dict[str, Any]:
    """Everything for machines: SI numbers; an elasticity that does not exist is null."""
    point = ranking.point
    return {
        "job": point.job,
        "case": ranking.heading,
        "notes": list(ranking.notes),
        "smoothing": point.smoothing,
        "metrics": {name: float(value) for name, value in point.metrics.items()},
        "units": units(point.metrics),
        "knobs": [
            {
                "path": point.knobs[i].path,
                "value": point.knobs[i].value,
                "unit": point.knobs[i].unit,
                "count": point.knobs[i].count,
                "elasticities": {name: float(point.elasticities[name][i]) for name in point.metrics},
            }
            for i in point.order()
        ],
        "without_elasticity": dict(point.left_out),
        "bounds": {step: dict(shares) for step, shares in point.bounds.items()},
        "checks": {
            name: [
                {"path": row.knob.path, "factor": factor, "value": value, "predicted": predicted, "actual": actual}
                | {"agrees": row.agrees, "reason": row.reason}
                for row in rows
                for factor, value, predicted, actual in zip(FACTORS, row.values, row.predicted, row.actual, strict=True)
            ]
            for name, rows in ranking.checks.items()
        },
        "pairs": {
            name: [
                vars(p) | {"first": p.first.path, "second": p.second.path, "kind": p.kind}
                for p in pairs(name, knobs, _slopes(point, name, knobs), values)
            ]
            for name, (knobs, values) in ranking.curvatures.items()
        },
    }


# Signed percentages of the factors, for the heads of columns.
SIGNS = tuple(f"{factor - 1.0:+.0%}".replace("%", " %") for factor in FACTORS)


def _all_metrics(point: Sensitivities, checks: Mapping[str, Sequence[Turn]], shown: Sequence[Knob]) -> Any:
    """Real changes of every metric with a knob turned down and up."""
    columns = [f"{name}\n{', '.join(SIGNS)}" for name in checks]
    changes = table("knob", "value", *columns, numbers=("value", *columns))
    changes.add_row("", "", *(metric_text(name, point.metrics[name]) for name in checks), style="bold")
    # A knob need not be turned for every metric, so that a row may lack some.
    rows = {name: {row.knob: row for row in turned} for name, turned in checks.items()}
    for knob in shown:
        turns = [rows[name].get(knob) for name in checks]
        # A knob is turned to the same values for every metric; the first one gives them.
        changes.add_row(knob.path, _turned_text(knob, turns[0]), *map(_both_text, turns))
    return changes


def _one_metric(point: Sensitivities, name: str, shown: Sequence[Knob], rows: Sequence[Turn]) -> Any:
    """Real changes of one metric, the changes that the gradient predicts beside them, and why they differ."""
    by_path = {row.knob: row for row in rows}
    columns = [f"knob {sign}:\n{word}" for sign in SIGNS for word in ("change", "gradient")]
    numbers = ("value", *columns, "elasticity")
    changes = table("knob", "value", *columns, "elasticity", "difference", numbers=numbers)
    changes.add_row(name, metric_text(name, point.metrics[name]), *([""] * (2 + len(columns))), style="bold")
    for knob in shown:
        row = by_path.get(knob)
        cells = ["-"] * len(columns)
        if row is not None:
            # For each factor the real change, then the one that the gradient predicts.
            cells = [_change(x) for pair in zip(row.actual, row.predicted, strict=True) for x in pair]
        reason = f"* {row.reason}" if row is not None and not row.agrees else ""
        changes.add_row(knob.path, _turned_text(knob, row), *cells, _text(_slope(point, name, knob)), reason)
    return changes


def _both_text(row: Turn | None) -> str:
    if row is None or not row.effect:
        return "0" if row is not None else "-"
    return f"{', '.join(map(_change, row.actual))}{'' if row.agrees else MARK}"


def _change(change: float) -> str:
    # Adding 0.0 turns a negative zero into a positive one, which prints without a minus sign.
    return "-" if math.isnan(change) else f"{100 * change + 0.0:+.2f} %"


def _turned_text(knob: Knob, row: Turn | None) -> str:
    """The knob's value; of a count also what it is turned to."""
    # A count can only become another whole number, so that the heads of columns do not tell its value.
    if row is None or not knob.count:
        return value_text(knob)
    ends = ", ".join("-" if math.isnan(value) else number(value) for value in row.values)
    return f"{value_text(knob)} ({ends})"


def _show_pairs(out: Any, name: str, knobs: Sequence[Knob], point: Sensitivities, values: np.ndarray) -> None:
    shown_pairs = pairs(name, knobs, _slopes(point, name, knobs), values)[:PAIRS]
    out.print(f"\n{name}: pairs of knobs, both turned to the better")
    # Second derivative of the metric's logarithm by the logarithms of both knobs.
    columns = ("d2 ln y", "gain")
    listing = table("knob", "and", *columns, "", numbers=columns)
    for pair in shown_pairs:
        listing.add_row(pair.first.path, pair.second.path, f"{pair.curvature:+.3f}", f"{pair.gain:+.3f}", pair.kind)
    out.print(listing)


def value_text(knob: Knob) -> str:
    """The knob's value with its unit."""
    return number(knob.value) if knob.unit in ("1", "") else formatted(knob.value, knob.unit)


def _slope(point: Sensitivities, name: str, knob: Knob) -> float:
    return float(point.elasticities[name][point.knobs.index(knob)])


def _slopes(point: Sensitivities, name: str, knobs: Sequence[Knob]) -> np.ndarray:
    return np.array([_slope(point, name, knob) for knob in knobs])


def _text(slope: float) -> str:
    if math.isnan(slope):
        return "-"
    return "0" if abs(slope) < FLAT else f"{slope:+.3f}"

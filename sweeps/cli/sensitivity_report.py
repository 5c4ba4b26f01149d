"""Text of `jaxroof sensitivity`: knobs by elasticity, accuracy of first order, bounds, pairs of knobs."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hwspaces import formatted
from sweeps.cli.answers import units
from sweeps.cli.tables import console, metric_text, percent, print_lines, table
from sweeps.data.labels import number
from sweeps.studies.elasticity.knobs import Knob
from sweeps.studies.elasticity.point import FACTORS, FLAT, Sensitivities, Turn
from sweeps.studies.elasticity.second_order import pairs

if TYPE_CHECKING:
    import xarray as xr

PAIRS = 10
CHECKED = 8
"""Rows of a table of pairs, and of each metric's checks where there are several metrics."""


@dataclasses.dataclass(frozen=True)
class Found:
    """All that one call finds."""

    heading: str
    notes: Sequence[str]
    point: Sensitivities
    checks: Mapping[str, Sequence[Turn]]
    curvatures: Mapping[str, tuple[Sequence[Knob], np.ndarray]]


def show(found: Found, top: int, every: bool, files: Sequence[str]) -> None:
    """Print the tables, and which files are written."""
    out, point = console(), found.point
    out.print(found.heading, end="\n\n")
    names = list(point.metrics)
    shown = [point.knobs[i] for i in point.order()] if every else list(point.top(top))
    if len(names) == 1:
        out.print(_one_metric(point, names[0], shown, found.checks[names[0]]))
    else:
        out.print(_all_metrics(point, names, shown))
        for name in names:
            rows = [row for row in found.checks[name] if abs(_slope(point, name, row.knob)) >= FLAT]
            rows = sorted(rows, key=lambda row: -abs(_slope(point, name, row.knob)))[:CHECKED]
            if rows:
                out.print(f"\n{name}: first order against the model")
                out.print(_one_metric(point, name, [row.knob for row in rows], rows))
    out.print()
    flat = [knob for knob in point.knobs if all(abs(_slope(point, name, knob)) < FLAT for name in names)]
    matter = len(point.knobs) - len(flat)
    out.print(f"knobs   {matter} of {len(point.knobs)} matter; {_shown_text(len(shown), matter, every)}")
    for step, shares in point.bounds.items():
        words = ", ".join(f"{bound} {percent(share)}" for bound, share in shares.items() if share >= 5e-4)
        out.print(f"bound   {step}: {words} of its time; a knob of anything else is flat")
    if flat:
        listed = ", ".join(knob.path for knob in flat[:6])
        out.print(f"flat    {listed}{f' and {len(flat) - 6} more (--all)' if len(flat) > 6 else ''}: elasticity 0")
    for reason, words in (("0", "0: a share of nothing"), ("switch", "switches"), ("unknown", "not set or unknown")):
        paths = [path for path, why in point.left_out.items() if why == reason]
        if paths:
            out.print(f"none    {', '.join(paths)}: {words}, no elasticity")
    if any(knob.count for knob in shown):
        out.print("note    * a count, taken as a real number; degrees and domains are not changed by a tenth")
    if point.smoothing == 0.0:
        out.print("note    exact piecewise gradients: no smoothing at ridges, none of rounded-up counts")
    print_lines(out, "note", found.notes)
    for name, (knobs, values) in found.curvatures.items():
        _show_pairs(out, name, knobs, point, values)
    print_lines(out, "file", files)


def show_maps(found: "xr.Dataset", files: Sequence[str]) -> None:
    """Print what the maps span: of every metric and knob the lowest, middle and highest elasticity; and the files."""
    out = console()
    sizes = " x ".join(f"{size:,} {dim}" for dim, size in found.sizes.items() if dim != "knob")
    out.print(f"{found.attrs['title']}\n{sizes} points, {found.sizes['knob']} knobs", end="\n\n")
    for name, array in found.data_vars.items():
        if not str(name).startswith("elasticity_of_"):
            continue
        columns = ("lowest", "median", "highest")
        made = table(str(name).removeprefix("elasticity_of_"), *columns, numbers=columns)
        for knob in found["knob"].values:
            values = array.sel(knob=knob).values
            known = values[np.isfinite(values)]
            ends = [f"{value:+.3f}" for value in np.quantile(known, (0.0, 0.5, 1.0))] if known.size else ["-"] * 3
            made.add_row(str(knob), *ends)
        out.print(made)
        out.print()
    print_lines(out, "file", files)


def record(found: Found) -> dict[str, Any]:
    """Everything for machines: SI numbers; an elasticity that does not exist is null."""
    point = found.point
    return {
        "job": point.job,
        "case": found.heading,
        "notes": list(found.notes),
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
                {"path": row.knob.path, "factor": factor, "predicted": predicted, "actual": actual}
                for row in rows
                for factor, predicted, actual in zip(FACTORS, row.predicted, row.actual, strict=True)
            ]
            for name, rows in found.checks.items()
        },
        "pairs": {
            name: [
                vars(p) | {"first": p.first.path, "second": p.second.path, "kind": p.kind}
                for p in pairs(name, knobs, _slopes(point, name, knobs), values)
            ]
            for name, (knobs, values) in found.curvatures.items()
        },
    }


def _all_metrics(point: Sensitivities, names: list[str], shown: Sequence[Knob]) -> Any:
    made = table("knob", "value", *names, numbers=("value", *names))
    made.add_row("", "", *(metric_text(name, point.metrics[name]) for name in names), style="bold")
    for knob in shown:
        made.add_row(_name(knob), value_text(knob), *(_text(_slope(point, name, knob)) for name in names))
    return made


def _one_metric(point: Sensitivities, name: str, shown: Sequence[Knob], rows: Sequence[Turn]) -> Any:
    """Elasticities of one metric, and for every factor the change that they predict beside the one that is."""
    by_path = {row.knob.path: row for row in rows}
    signs = [f"{factor - 1.0:+.0%}".replace("%", " %") for factor in FACTORS]
    columns = [f"knob {sign}:\n{word}" for sign in signs for word in ("predicted", "actual")]
    made = table("knob", "value", "elasticity", *columns, numbers=("value", "elasticity", *columns))
    made.add_row(name, metric_text(name, point.metrics[name]), *([""] * (1 + len(columns))), style="bold")
    for knob in shown:
        row = by_path.get(knob.path)
        cells = ["-"] * len(columns)
        if row is not None:
            changes = zip(row.predicted, row.actual, strict=True)
            cells = [f"{100 * change + 0.0:+.2f} %" for pair in changes for change in pair]
        made.add_row(_name(knob), value_text(knob), _text(_slope(point, name, knob)), *cells)
    return made


def _show_pairs(out: Any, name: str, knobs: Sequence[Knob], point: Sensitivities, values: np.ndarray) -> None:
    found = pairs(name, knobs, _slopes(point, name, knobs), values)[:PAIRS]
    out.print(f"\n{name}: pairs of knobs, both turned to the better")
    columns = ("d2 ln y", "gain")
    made = table("knob", "and", *columns, "", numbers=columns)
    for pair in found:
        made.add_row(pair.first.path, pair.second.path, f"{pair.curvature:+.3f}", f"{pair.gain:+.3f}", pair.kind)
    out.print(made)


def _shown_text(shown: int, matter: int, every: bool) -> str:
    if every:
        return "all are shown"
    return f"the {shown} with the largest elasticities are shown" if shown < matter else "they are shown"


def value_text(knob: Knob) -> str:
    """The knob's value with its unit."""
    return number(knob.value) if knob.unit in ("1", "") else formatted(knob.value, knob.unit)


def _name(knob: Knob) -> str:
    return f"{knob.path} *" if knob.count else knob.path


def _slope(point: Sensitivities, name: str, knob: Knob) -> float:
    return float(point.elasticities[name][point.knobs.index(knob)])


def _slopes(point: Sensitivities, name: str, knobs: Sequence[Knob]) -> np.ndarray:
    return np.array([_slope(point, name, knob) for knob in knobs])


def _text(slope: float) -> str:
    if math.isnan(slope):
        return "-"
    return "0" if abs(slope) < FLAT else f"{slope:+.3f}"

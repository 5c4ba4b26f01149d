"""Section of a validation: predicted against measured numbers, and their errors by group."""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sweeps.reports.blocks import Chart, Column, Section, Table, heading, is_number, quantity, row_columns, said, words
from sweeps.reports.error_groups import (
    ABSOLUTE,
    FIRST_ROWS,
    HEADS,
    Group,
    error_groups,
    error_tables,
    first_error,
    group_bands,
    rows_of,
)
from sweeps.reports.errors_chart import MOST, NEAR, NEAR_TEXT, Band, against, bands
from sweeps.reports.facts import beside, listed

MOST_ROWS = 2000
"""Rows of a file at most that are drawn and listed, evenly over it."""

LABELS = ("fit", "gpu", "hardware", "model", "engine", "mode", "device", "die")
"""Words of a row by which points are told apart: the first that has several, but not too many, values."""

PLAIN = {"s": "step time", "m2": "area", "forward": "forward time", "backward": "backward time"}
"""Words of a metric whose key is not said."""

MOST_KINDS = 8
"""Kinds of points at most."""

ENDS = (0.1, 0.9)
"""Quantiles of the errors of a group, which are the ends of its band."""


@dataclasses.dataclass(frozen=True)
class Pair:
    """A number that was measured and predicted."""

    name: str  # of the metric
    measured: str  # key of the rows
    predicted: str
    unit: str


def validation_section(record: Mapping[str, Any]) -> Section:
    """The section of a record of `validate` with any kind of data."""
    rows = record["rows"] if isinstance(record.get("rows"), list) else []
    rows = [{"fit": _fit(row), **row} if "known_is_a_limit" in row else row for row in rows]
    shown = [rows[i] for i in np.linspace(0, len(rows) - 1, min(len(rows), MOST_ROWS)).astype(int)] if rows else []
    groups = list(error_groups(record))
    pairs = _pairs(shown)
    blocks: list[Table | Chart] = []
    table = _row_table(shown, pairs, len(rows))
    for i, pair in enumerate(pairs):
        blocks += _charts(shown, pair, table if i == 0 else None)
    # Bands are of the rows where these are told apart.
    told = any(isinstance(block, Chart) and block.title.startswith("Errors") for block in blocks)
    blocks += [] if told else group_bands(groups)
    blocks += error_tables(groups)
    blocks += [table] if table is not None else []
    blocks += _left(record)
    source = str(record.get("path") or record.get("file") or "published die areas")
    facts = [("Measured data", source), ("Hardware", str(record.get("hardware") or ""))]
    facts += [(name.capitalize(), str(record[name])) for name in ("efficiency", "engine") if record.get(name)]
    facts.append(("Rows", f"{_count(record, rows, groups):,}"))
    title = f"Predictions beside {pathlib.PurePath(source).name}"
    about_file = beside(record)
    about_file["notes"] += [f"{one['assumption']} ({one['rows']} rows)" for one in record.get("assumptions") or ()]
    return Section(
        "validation", title, _answer(shown, pairs, groups), [one for one in facts if one[1]], blocks, **about_file
    )


def _fit(row: Mapping[str, Any]) -> str:
    """Whether constants were fitted to a published area."""
    return "fitted" if row["fitted"] else "upper limit" if row["known_is_a_limit"] else "not fitted"


def _pairs(rows: Sequence[Mapping[str, Any]]) -> list[Pair]:
    """Numbers of the rows that stand beside their prediction."""
    keys = dict.fromkeys(key for row in rows for key in row)
    found = []
    for key in keys:
        if "predicted" not in key:
            continue
        others = [key.replace("predicted", word) for word in ("measured", "known")] + [key.removeprefix("predicted_")]
        measured = next((other for other in others if other in keys and other != key), None)
        if measured is None or not any(_both(row, measured, key) for row in rows):
            continue
        name = key.replace("predicted", "").replace("__", "_").strip("_")
        unit = "m2" if name.endswith("m2") else "1/s" if "per_second" in name else "s"
        plain = name.removesuffix("_s").removesuffix("_m2") or "time"
        found.append(Pair(PLAIN.get(plain, plain), measured, key, unit))
    return found


def _both(row: Mapping[str, Any], measured: str, predicted: str) -> bool:
    values = row.get(measured), row.get(predicted)
    return all(is_number(value) and value > 0 for value in values)


def _charts(rows: Sequence[Mapping[str, Any]], pair: Pair, table: Table | None) -> list[Chart]:
    """Points of a metric, and bands of their errors."""
    there = [row for row in rows if _both(row, pair.measured, pair.predicted)]
    every = [row[key] for row in there for key in (pair.measured, pair.predicted)]
    # One unit for both, so that the line of equals is the diagonal.
    scale = _quantity(pair, every)
    measured, predicted = (
        dataclasses.replace(scale, name=key, values=[row[key] for row in there])
        for key in (pair.measured, pair.predicted)
    )
    errors = np.array(predicted.values, float) / np.array(measured.values, float) - 1.0
    label = _label(there)
    head = HEADS.get(label, label)
    kind = words(label, head, _kinds([str(row.get(label)) for row in there]))
    more = [Column("error", "error (%)", errors.tolist(), 0.01, "1")]
    more += [one for one in row_columns(there, TIPS) if one.name in TIPS and one.name != label]
    name = _words(pair)
    near = float(np.mean(np.abs(errors) <= NEAR))
    description = (
        f"Predicted against measured {name} of {len(there):,} rows, by {head}; {near:.0%} of them are within "
        f"{NEAR_TEXT}. The solid line is of equals, the dashed ones are {NEAR_TEXT} off."
    )
    linked = table if table is not None and table.axes is not None else None
    note = f"Solid line: predicted as measured; dashed: {NEAR_TEXT} above and below."
    note += " Drag over an area to keep only its rows in the table." if linked is not None else ""
    spec = against(measured, predicted, kind, more, description)
    made = [Chart(f"Predicted against measured {name}", spec, description, note, linked)]
    names = [str(row.get(label)) for row in there]
    if len(set(names)) == 1:
        return made
    shown = _bands_of(names, errors)
    described = ", ".join(f"{one.name} {one.middle:+.1%}" for one in shown[:4])
    description = f"Errors of {name} by {head}: median on the band that holds the middle 80 %. {described}."
    note = "Error: predicted / measured - 1. Mark: median; bar: the middle 80 % of the rows."
    return [*made, Chart(f"Errors of {name} by {head}", bands(shown, description), description, note)]


NAMES = ("fit", "model", "experiment", "name", "device", "die", "gpu", "engine", "mode")
"""Words of a row that say what it is."""

TIPS = (*NAMES, "tp", "isl", "osl", "concurrency", "row")
"""What a pointer over a point shows of its row."""


def _bands_of(names: Sequence[str], errors: np.ndarray) -> list[Band]:
    labels = np.array(names)
    every = list(dict.fromkeys(names))
    counts = {name: int((labels == name).sum()) for name in every}
    kept = sorted(every, key=lambda name: -counts[name])[:MOST]
    return [_band("all", errors), *(_band(name, errors[labels == name]) for name in kept)]


def _band(name: str, errors: np.ndarray) -> Band:
    low, middle, high = np.quantile(errors, (ENDS[0], 0.5, ENDS[1]))
    return Band(name, float(low), float(middle), float(high), f"{errors.size:,} rows")


def _label(rows: Sequence[Mapping[str, Any]]) -> str:
    """The key of the rows by which points are told apart."""
    counts = {
        key: len({str(row[key]) for row in rows if key in row}) for key in LABELS if any(key in row for row in rows)
    }
    several = [key for key, count in counts.items() if 1 < count <= MOST_KINDS]
    return next(iter([*several, *(key for key, count in counts.items() if count > 1), *counts, "row"]))


def _kinds(names: Sequence[str]) -> list[str]:
    """Names as kinds of points: all but the commonest share one."""
    ranked = sorted(set(names), key=lambda name: (-names.count(name), name))
    if len(ranked) <= MOST_KINDS:
        return list(names)
    kept = set(ranked[: MOST_KINDS - 1])
    return [name if name in kept else "others" for name in names]


def _quantity(pair: Pair, values: Sequence[float]) -> Column:
    # A prefix of a square is none of its unit: areas of dies are mm2.
    if pair.unit == "m2":
        return Column(pair.name, "area (mm2)", values, 1e-6, "m2")
    return quantity(pair.name, _words(pair), values, pair.unit)


def _words(pair: Pair) -> str:
    return heading(pair.name) if pair.unit != "m2" else "area"


def _row_table(rows: Sequence[Mapping[str, Any]], pairs: Sequence[Pair], count: int) -> Table | None:
    """Every row; an area of the first chart chooses them."""
    if not rows:
        return None
    known = {}
    for pair in pairs:
        values = [row.get(key) for row in rows for key in (pair.measured, pair.predicted)]
        scale = _quantity(pair, [value for value in values if is_number(value)])
        for key, what in ((pair.measured, "measured"), (pair.predicted, "predicted")):
            unit = scale.title[scale.title.rfind("(") :] if scale.title.endswith(")") else ""
            title = f"{_words(pair)}, {what} {unit}".strip()
            known[key] = dataclasses.replace(scale, name=key, title=title, values=[row.get(key) for row in rows])
    plain = [{key: value for key, value in row.items() if key not in known} for row in rows]
    label = _label(rows)
    columns = row_columns(plain, (label, *TIPS))
    # Both numbers stand behind the names, before the settings.
    names = [one for one in columns if one.name in (label, *NAMES)]
    others = [one for one in columns if one not in names]
    others = [
        dataclasses.replace(one, scale=0.01, title=f"{one.title} (%)") if one.name.endswith("error") else one
        for one in others
    ]
    columns = [dataclasses.replace(one, title=HEADS.get(one.name, one.title)) for one in names]
    columns += [*known.values(), *others]
    axes = (known[pairs[0].measured], known[pairs[0].predicted]) if pairs else None
    note = f"{len(rows):,} of {count:,} rows, evenly over the file." if count > len(rows) else ""
    return Table("Rows", columns, note, axes, FIRST_ROWS)


def _left(record: Mapping[str, Any]) -> list[Table]:
    """Rows without a prediction, by reason."""
    counts: dict[str, int] = {}
    for name in ("left_out", "unpredicted"):
        for one in record.get(name) or ():
            counts[str(one["reason"])] = counts.get(str(one["reason"]), 0) + int(one.get("rows", 1))
    if not counts:
        return []
    ranked = sorted(counts.items(), key=lambda item: -item[1])
    columns = [words("reason", "reason", [name for name, _ in ranked]), Column("rows", "rows", [n for _, n in ranked])]
    return [Table("Rows that are not predicted", columns, first=FIRST_ROWS)]


def _count(record: Mapping[str, Any], rows: Sequence[Any], groups: Sequence[Group]) -> int:
    if rows:
        return len(rows)
    errors = record.get("errors")
    if isinstance(errors, Mapping) and "rows" in errors:
        return int(errors["rows"])
    return max((rows_of(one) for _, one in groups), default=0)


def _answer(rows: Sequence[Mapping[str, Any]], pairs: Sequence[Pair], groups: Sequence[Group]) -> str:
    parts = []
    for pair in pairs:
        there = [row for row in rows if _both(row, pair.measured, pair.predicted)]
        errors = np.abs([row[pair.predicted] / row[pair.measured] - 1.0 for row in there])
        parts.append(f"{_words(pair)} {said('mfu', float(np.median(errors)))} of {len(there):,} rows")
    if not parts:
        whole = next(
            (errors for labels, errors in groups if labels.get("group") == "all"), groups[0][1] if groups else {}
        )
        size = first_error(whole, ABSOLUTE)
        parts = [] if size is None else [f"{said('mfu', size)} of {rows_of(whole):,} rows"]
    return f"Median absolute error: {listed(parts)}." if parts else "Nothing was predicted."

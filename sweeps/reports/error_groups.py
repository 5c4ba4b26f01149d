"""Errors of a validation by group: bands of the groups, and a table for every way in which they are told apart."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sweeps.reports.blocks import Chart, Column, Table, is_number, words
from sweeps.reports.errors_chart import MOST, NEAR_TEXT, Band, bands
from sweeps.reports.facts import listed

Group = tuple[dict[str, str], dict[str, Any]]
"""Labels that tell a group apart, and its errors by name."""

FIRST_ROWS = 20
"""Rows of a table that are shown at first."""

HEADS = {"gpu": "accelerator", "hardware": "accelerator", "device": "accelerator", "fit": "use of the area"}
"""Words of those whose key is not said."""

SHARES = {
    "mape": "MAPE (%)",
    "mean_absolute_error": "MAPE (%)",
    "median_ape": "median (%)",
    "median": "median (%)",
    "signed_median": "signed median (%)",
    "signed": "signed median (%)",
    "mean_error": "signed mean (%)",
    "coverage_90": "within 90 % interval (%)",
    "hits": f"within {NEAR_TEXT} (%)",
    "own_time_median_ape": "median at predicted time (%)",
    "own_time_mape": "MAPE at predicted time (%)",
    "over_tdp": "over TDP (%)",
}
"""Key of an error -> head of its column; spellings of the same error share a head."""

SIGNED, ABSOLUTE = ("signed_median", "signed", "mean_error"), ("median_ape", "median", "mean_absolute_error")


def error_groups(record: Mapping[str, Any]) -> Iterator[Group]:
    """Labels and errors of every group of a record, that of all rows first."""
    for one in record.get("groups") or ():
        labels = {key: str(value) for key, value in one.items() if not is_number(value) and not isinstance(value, dict)}
        yield labels, {key: value for key, value in one.items() if is_number(value)}
    if isinstance(errors := record.get("errors"), Mapping):
        for path, one in _leaves(errors, ()):
            yield dict(zip(DEPTHS, path, strict=False)) or {"group": "all"}, one


def _leaves(errors: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    if any(is_number(value) for value in errors.values()):
        yield path, {key: value for key, value in errors.items() if is_number(value)}
        return
    for name, below in errors.items():
        if isinstance(below, Mapping):
            yield from _leaves(below, (*path, str(name)))


DEPTHS = ("group", "subgroup", "metric")
"""Heads of names under names."""


def first_error(errors: Mapping[str, Any], names: Sequence[str]) -> float | None:
    """The first of several errors that is there."""
    return next((float(errors[name]) for name in names if name in errors), None)


def rows_of(errors: Mapping[str, Any]) -> int:
    """How many rows an error is of."""
    return int(errors.get("rows", errors.get("n", 0)))


def _views(groups: Sequence[Group]) -> dict[tuple[str, ...], list[Any]]:
    """Groups by what tells them apart: views with few labels first."""
    views: dict[tuple[str, ...], list[Any]] = {}
    for labels, errors in groups:
        views.setdefault(tuple(labels), []).append((labels, errors))
    ranked = sorted(views.items(), key=lambda item: (len(item[0]), len(item[1])))
    kept: dict[tuple[str, ...], list[Any]] = {}
    for labels, found in ranked:
        # A label more that divides no group says nothing new.
        if not any(set(other) < set(labels) and len(kept[other]) == len(found) for other in kept):
            kept[labels] = found
    return kept


def group_bands(groups: Sequence[Group]) -> list[Chart]:
    """Errors of the groups of the first view that has several: signed, on a bar of the absolute ones."""
    view = next((found for found in _views(groups).values() if len(found) > 1), None)
    if view is None:
        return []
    ranked = sorted(view, key=lambda one: -rows_of(one[1]))[:MOST]
    shown = []
    for labels, errors in ranked:
        middle, size = first_error(errors, SIGNED), first_error(errors, ABSOLUTE)
        if middle is not None and size is not None:
            shown.append(Band(", ".join(labels.values()), -size, middle, size, f"{rows_of(errors):,} rows"))
    if not shown:
        return []
    named = listed([HEADS.get(name, name) for name in view[0][0]])
    described = ", ".join(f"{one.name} {one.middle:+.1%}" for one in shown[:4])
    description = f"Errors by {named} of {len(shown)} of {len(view)} groups, those of the most rows first: {described}."
    note = "Error: predicted / measured - 1. Mark: signed median; bar: median of the absolute errors, to both sides."
    return [Chart(f"Errors by {named}", bands(shown, description), description, note, wide=True)]


def error_tables(groups: Sequence[Group]) -> list[Table]:
    """A table of errors for every way in which groups are told apart."""
    made = []
    for labels, view in _views(groups).items():
        columns = [
            words(label, HEADS.get(label, label.replace("_", " ")), [one[label] for one, _ in view]) for label in labels
        ]
        columns.append(Column("rows", "rows", [rows_of(errors) for _, errors in view]))
        for key in dict.fromkeys(key for _, errors in view for key in errors):
            if key not in ("rows", "n"):
                values = [errors.get(key) for _, errors in view]
                columns.append(Column(key, SHARES.get(key, f"{key.replace('_', ' ')} (%)"), values, 0.01, "1"))
        by = (
            f" by {listed([label.replace('_', ' ') for label in labels])}"
            if len(view) > 1 and "group" not in labels
            else ""
        )
        made.append(Table(f"Errors{by}", columns, "Error: predicted / measured - 1.", first=FIRST_ROWS))
    return made

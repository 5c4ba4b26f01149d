"""Sections of records and datasets that have no section of their own: their facts, and tables of all that they hold."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from sweeps.reports.blocks import Column, Section, Table, column, is_number, metric_table, row_columns, words
from sweeps.reports.facts import about, beside, listed, of_attributes

FIRST_ROWS = 20
"""Rows of a table that are shown at first."""

MOST_ROWS = 1000
"""Rows of a table at most; files have the others."""

MOST_WORDS, LONGEST = 12, 160
"""Values of a list that are written out, and characters of all of them together."""

POINT = "point of a table"
"""Dimension of the points of a table; no file has one of this name."""

APART = ("notes", "command", "jaxroof_version", "units")
"""Keys that a section shows elsewhere."""


def record_section(record: Mapping[str, Any]) -> Section:
    """The section of any record of jaxroof, whose numbers are in SI units."""
    title = str(record.get("title") or record.get("name") or record.get("function") or record.get("model") or "")
    verb = _verb(record)
    plain = {key: value for key, value in record.items() if key not in APART}
    singles = {key: _single(value) for key, value in plain.items() if _single(value) is not None}
    maps = {key: value for key, value in plain.items() if isinstance(value, Mapping) and value}
    tables = [_facts(singles, record.get("units"))] if singles else []
    tables += _maps(maps)
    for key, value in plain.items():
        if isinstance(value, list) and value and key not in singles:
            tables.append(_rows(_words(key), value))
    more = tables[bool(singles) :]
    counts = [f"{len(singles):,} facts"] if singles else []
    # Of a single table its rows are counted.
    counts += [f"{len(more):,} tables"] if len(more) > 1 else [f"{len(one.columns[0].values):,} rows" for one in more]
    answer = f"{listed(counts)}; numbers are in SI units."
    return Section(
        verb or "record",
        title or (f"Answer of jaxroof {verb}" if verb else "Record"),
        answer,
        about(record),
        tables,
        **beside(record),
    )


def dataset_section(data: xr.Dataset) -> Section:
    """The section of any dataset of jaxroof: a table for the variables of every set of dimensions."""
    by_dims: dict[tuple[str, ...], list[str]] = {}
    for name, array in data.data_vars.items():
        by_dims.setdefault(tuple(map(str, array.dims)), []).append(str(name))
    singles = {name: data[name].values.item() for name in by_dims.pop((), [])}
    tables = [metric_table(singles, "Facts")] if singles else []
    for dims, names in sorted(by_dims.items(), key=lambda item: len(item[0])):
        count = data[names[0]].size
        title = f"By {', '.join(map(_words, dims))}"
        note = f"{MOST_ROWS:,} of {count:,} rows; the file has the others." if count > MOST_ROWS else ""
        # The first points alone are read, along the last dimension first.
        places = np.unravel_index(np.arange(min(count, MOST_ROWS)), [data.sizes[dim] for dim in dims])
        flat = data[names].isel({dim: xr.DataArray(one, dims=POINT) for dim, one in zip(dims, places, strict=True)})
        labels = [str(name) for name in flat.coords if flat[name].dims == (POINT,)]
        columns = [column(name, flat[name].values.tolist()) for name in (*labels, *names)]
        tables.append(Table(title, columns, note, first=FIRST_ROWS))
    attributes = [(_title(str(name)), str(value)) for name, value in data.attrs.items() if name not in ATTRIBUTES]
    title = str(data.attrs.get("title") or "Dataset")
    sizes = ", ".join(f"{size:,} {_words(str(dim))}" for dim, size in data.sizes.items())
    return Section(
        "dataset",
        title,
        f"{len(data.data_vars):,} variables: {sizes or 'single numbers'}.",
        attributes,
        tables,
        **of_attributes(data.attrs),
    )


def _facts(singles: Mapping[str, Any], units: Any) -> Table:
    """Facts with their units, where the record states them."""
    values = [words("", "", ()).text(value) for value in singles.values()]
    columns = [words("fact", "fact", [_words(name) for name in singles]), words("value", "value", values)]
    if isinstance(units, Mapping):
        columns.append(words("unit", "unit", [str(units.get(name, "")) for name in singles]))
    columns.append(Column("si_value", "SI value", list(singles.values()), extra=True))
    return Table("Facts", columns)


ATTRIBUTES = ("Conventions", "title", "source", "command", "jaxroof_version", "notes", "spec", "question")


def _verb(record: Mapping[str, Any]) -> str:
    words = str(record.get("command") or "").split()
    return words[1] if len(words) > 1 else ""


def _single(value: Any) -> Any:
    """A value that takes one cell; None for all others, and for what there is not."""
    if isinstance(value, str | bool) or is_number(value):
        return value
    if isinstance(value, list) and value and not any(isinstance(one, list | dict) for one in value):
        text = ", ".join(str(one) for one in value)
        return text if len(value) <= MOST_WORDS and len(text) <= LONGEST else None
    return None


def _maps(maps: Mapping[str, Mapping[str, Any]]) -> list[Table]:
    """Tables of numbers by name; those of mostly the same names share one, a column each."""
    made, flat = (
        [],
        {key: value for key, value in maps.items() if not any(isinstance(one, Mapping) for one in value.values())},
    )
    while flat:
        first = next(iter(flat))
        names = set(flat[first])
        together = [key for key, value in flat.items() if 2 * len(names & set(value)) > max(len(names), len(value))]
        every = list(dict.fromkeys(name for key in together for name in flat[key]))
        columns = [words("name", "name", every)]
        columns += [column(key, [_cell(flat[key].get(name)) for name in every]) for key in together]
        made.append(Table(_title(" and ".join(together)), columns, first=FIRST_ROWS))
        flat = {key: value for key, value in flat.items() if key not in together}
    for key, value in maps.items():
        if any(isinstance(one, Mapping) for one in value.values()):
            rows = [
                {"name": name, **(one if isinstance(one, Mapping) else {"value": one})} for name, one in value.items()
            ]
            made.append(_rows(_words(key), rows))
    return made


def _rows(title: str, rows: Sequence[Any]) -> Table:
    plain = [_flat(row, "") if isinstance(row, Mapping) else {"value": _cell(row)} for row in rows[:MOST_ROWS]]
    names = list(dict.fromkeys(name for row in plain for name in row))
    note = f"{MOST_ROWS:,} of {len(rows):,} rows; the file has the others." if len(rows) > MOST_ROWS else ""
    return Table(_title(title), row_columns(plain, names[:SHOWN]), note, first=FIRST_ROWS)


SHOWN = 10
"""Columns of a table that are shown at first."""

MOST_NAMES = 12
"""Values below a key that have a column each; of more their count is said."""


def _flat(row: Mapping[str, Any], before: str) -> dict[str, Any]:
    """A row whose nested values stand beside the others, by names with points between."""
    made: dict[str, Any] = {}
    for key, value in row.items():
        name = f"{before}{key}"
        if isinstance(value, Mapping) and 0 < len(value) <= MOST_NAMES:
            made |= _flat(value, f"{name}.")
        else:
            made[name] = _cell(value)
    return made


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, str | bool) or is_number(value):
        return value
    single = _single(value)
    return single if single is not None else f"{len(value):,} values" if value else None


def _words(key: str) -> str:
    return key.replace("_", " ")


def _title(key: str) -> str:
    # Names keep their capitals.
    return f"{key[:1].upper()}{_words(key[1:])}"

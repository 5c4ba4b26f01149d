"""Content of a report's page: sections of facts, tables and charts, before any HTML."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np

from sweeps.ask.names import VARIABLES, variable
from sweeps.data.labels import number
from sweeps.show.style import prefix

SHORT = {
    "ttft": "TTFT",
    "tpot": "TPOT",
    "e2e": "E2E",
    "mfu": "MFU",
    "hfu": "HFU",
    "mbu": "MBU",
    "usd_per_million_tokens": "USD/M tokens, rented",
    "owning_usd_per_million_tokens": "USD/M tokens, owned",
    "tokens_per_second": "tokens/s",
    "tokens_per_second_per_device": "tokens/s/device",
    "tokens_per_second_per_request": "tokens/s/request",
    "training_tokens_per_second_per_device": "tokens/s/device",
    "requests_per_second": "requests/s",
    "capacity": "requests/s",
    "load": "requests/s/replica",
    "usd_per_hour": "USD/h",
    "tp": "tp",
}
"""Heads of columns that are shorter than the variable's name."""

PERCENT = ("mfu", "hfu", "mbu", "_share", "_use", "utilization", "_use_mean", "_use_max")
"""Ends of names of shares, which are shown in per cent."""

DASH = "\u2013"


@dataclasses.dataclass(frozen=True)
class Column:
    """One column of a table, or one number of the points of a chart."""

    name: str  # in CSV files
    title: str  # with the unit of the cells
    values: Sequence[Any]  # SI numbers, words, booleans; None: there is none
    scale: float = 1.0  # SI units in one unit of the cells
    unit: str = ""  # SI unit, of the numbers in CSV files
    meaning: str = ""
    extra: bool = False  # shown only where all columns are asked for

    @property
    def numeric(self) -> bool:
        """Whether cells are numbers."""
        return any(is_number(value) for value in self.values)

    def scaled(self, value: Any) -> float | None:
        """A number in the unit of the cells; None where there is none."""
        return float(value) / self.scale if is_number(value) and np.isfinite(value) else None

    def text(self, value: Any) -> str:
        """A cell as people read it."""
        if isinstance(value, bool | np.bool_):
            return "yes" if value else "no"
        if is_number(value):
            # Adding zero turns a negative zero into a plain one.
            return number(float(value) / self.scale + 0.0) if np.isfinite(value) else DASH
        return DASH if value is None else str(value)


@dataclasses.dataclass(frozen=True)
class Table:
    """A table that can be sorted and saved as CSV."""

    title: str
    columns: Sequence[Column]
    note: str = ""
    axes: tuple[Column, Column] | None = None  # of the chart whose selected area chooses rows
    first: int | None = None  # rows that are shown while no area is selected; None: all


@dataclasses.dataclass(frozen=True)
class Chart:
    """A chart; what it shows stands in its title, its note and its description."""

    title: str
    spec: Mapping[str, Any]  # of Vega-Lite
    description: str  # for readers who do not see it
    note: str = ""
    table: Table | None = None  # whose rows a selected area chooses
    wide: bool = False  # takes the whole width of the page


@dataclasses.dataclass(frozen=True)
class Section:
    """What one result holds."""

    kind: str  # in words: "comparison"
    title: str
    answer: str  # one sentence
    facts: Sequence[tuple[str, str]] = ()  # name and value, about the question
    blocks: Sequence[Table | Chart] = ()
    notes: Sequence[str] = ()  # assumptions
    question: str = ""  # all of it, for whoever asks again
    command: str = ""
    file: str = ""
    written: str = ""  # when
    version: str = ""  # of jaxroof


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether a value is a number; truth values are none."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool | np.bool_)


def column(name: str, values: Sequence[Any], extra: bool = False, title: str = "") -> Column:
    """A column of a variable of ours, in the unit that suits its values; of any other name, as it is."""
    try:
        known = variable(name)
    except (KeyError, ValueError):
        return Column(name, title or name.replace("_", " "), values, extra=extra)
    words = title or _short(name)
    numbers = [value for value in values if is_number(value)]
    # Shares have no unit, and per cent suits them.
    if name.endswith(PERCENT) and known.unit == "1":
        return Column(name, f"{words} (%)", values, 0.01, "1", known.long_name, extra)
    return quantity(name, words, values, known.unit if numbers else "", known.long_name, extra)


def heading(name: str) -> str:
    """Head of a metric's column, without its unit."""
    return column(name, [0.0]).title.partition(" (")[0]


def quantity(name: str, words: str, values: Sequence[Any], unit: str, meaning: str = "", extra: bool = False) -> Column:
    """A column of numbers in an SI unit, in the prefix that suits them."""
    numbers = np.array([float(value) for value in values if is_number(value)])
    letter, scale = prefix(numbers, unit)
    plain = unit in ("", "1", "1/s", "1/J")
    shown = "USD/h" if unit == "USD/s" else f"{letter}{unit}"
    return Column(name, words if plain else f"{words} ({shown})", values, scale, unit, meaning, extra)


def words(name: str, title: str, values: Sequence[Any], meaning: str = "", extra: bool = False) -> Column:
    """A column of words."""
    return Column(name, title, values, meaning=meaning, extra=extra)


def row_columns(rows: Sequence[Mapping[str, Any]], shown: Sequence[str]) -> list[Column]:
    """Columns of records with the same keys: those of `shown` that are there first, other numbers as extra ones."""
    there = dict.fromkeys(name for row in rows for name, value in row.items() if not isinstance(value, dict | list))
    names = [name for name in dict.fromkeys(shown) if name in there]
    names += [name for name in there if name not in names]
    columns = [column(name, [row.get(name) for row in rows], name not in shown) for name in names]
    # A column without any value says nothing.
    return [one for one in columns if any(value not in (None, "") for value in one.values)]


def metric_table(metrics: Mapping[str, Any], title: str = "All figures") -> Table:
    """Every metric of a record: value, unit and meaning."""
    names = [name for name, value in metrics.items() if isinstance(value, int | float | str | bool)]
    singles = [column(name, [metrics[name]]) for name in names]
    # The unit of every figure stands behind it, as their units differ.
    units = [one.title[one.title.rfind("(") + 1 : -1] if one.title.endswith(")") else "" for one in singles]
    return Table(
        title,
        [
            words("figure", "figure", names),
            words("value", "value", [one.text(one.values[0]) for one in singles]),
            words("unit", "unit", units),
            words("meaning", "meaning", [one.meaning for one in singles]),
            Column("si_value", "SI value", [metrics[name] for name in names], extra=True),
        ],
    )


def said(name: str, value: Any) -> str:
    """A figure with its unit: "41.6 ms", "36.4 %"; a dash where there is none."""
    if not is_number(value):
        return DASH if value is None else str(value)
    one = column(name, [value])
    unit = one.title[one.title.rfind("(") + 1 : -1] if one.title.endswith(")") else ""
    # A space that does not break keeps the unit with its number.
    return f"{one.text(value)}\u00a0{unit}".strip()


def meaning(name: str) -> str:
    """What a variable of ours is, up to the first comma or colon; of any other, its name."""
    if name not in VARIABLES:
        return name.replace("_", " ")
    return variable(name).long_name.partition(":")[0].partition(",")[0]


def phrase(name: str, value: Any) -> str:
    """A figure in a sentence: "time to first token 643 ms", "0.24 US dollars per million tokens"."""
    words, number = meaning(name), said(name, value)
    # Counted things stand behind their number, others before it.
    return (
        f"{number} {words}" if words.startswith(("US dollars", "tokens", "requests", "output")) else f"{words} {number}"
    )


def _short(name: str) -> str:
    if name in SHORT:
        return SHORT[name]
    # Statistics of a latency: "ttft_p99" is "TTFT p99".
    plain, _, which = name.rpartition("_")
    if plain in SHORT and (which == "mean" or which[:1] == "p"):
        return f"{SHORT[plain]} {which}"
    return name.replace("_", " ")

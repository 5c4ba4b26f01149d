"""Figures of the matrix by cell: errors of pooled rows, a file that is kept, and what of it has become worse."""

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxroof.efficiency.timing import NINETY_PERCENT
from sweeps.measure.validate.relative_errors import errors, grouped
from tests.evidence.matrix_rows.part import LABELS, Part

KEPT = Path(__file__).with_name("figures.csv")
"""Figures of the shipped constants on all measured data."""

VIEWS = (("device", "engine", "release"), ("model",), ("load",))
"""Labels that cells are told apart by besides kind, case and fit; rows are pooled over all others."""

WORSE, SHARE = 2.0, 0.1
"""Percentage points, and share of the error before, by which both an error is worse."""

FEWEST = 10
"""Rows of a cell that is judged."""

LOST = 0.1
"""Share of a cell's rows that may go without a word."""


class Figures(NamedTuple):
    """Errors of rows in %, and of those with a stated interval how many are inside of it and how wide it is."""

    rows: int
    median: float  # of the absolute errors, predicted / measured - 1
    mape: float  # mean of the absolute errors
    signed: float  # median of the errors
    coverage: float  # % inside the 90 % interval; NaN: none is stated
    width: float  # factor either way of that interval, median; NaN: none is stated


class Cell(NamedTuple):
    """What rows have in common; "" where they are pooled."""

    kind: str
    case: str
    fit: str
    device: str = ""
    engine: str = ""
    release: str = ""
    model: str = ""
    load: str = ""

    def __str__(self) -> str:
        return ", ".join(part for part in (*self[:2], *self[3:]) if part)


Cells = dict[Cell, Figures]


def figures(parts: Sequence[Part]) -> Figures:
    """Figures of all rows of the parts together."""
    predicted, measured = (np.concatenate([getattr(p, name) for p in parts]) for name in ("predicted", "measured"))
    spread = np.concatenate([np.broadcast_to(part.spread, part.measured.shape) for part in parts])
    found, known = errors(predicted, measured), np.isfinite(spread)
    inside, width = math.nan, math.nan
    if known.any():
        logs = np.abs(np.log(predicted[known] / measured[known]))
        inside = 100.0 * float(np.mean(logs <= NINETY_PERCENT * spread[known]))
        width = float(np.exp(NINETY_PERCENT * np.median(spread[known])))
    shares = (100.0 * share for share in (found.median, found.mape, found.signed))
    return Figures(len(measured), *shares, inside, width)


def cells(parts: Iterable[Part]) -> Cells:
    """Figures of every cell of every view that some row has a label for."""
    parts = [part for part in parts if len(part.measured)]
    found: Cells = {}
    for view in VIEWS:
        groups = grouped(parts, lambda part, view=view: _cell(part, view))
        found |= {cell: figures(group) for cell, group in groups.items() if any(getattr(cell, name) for name in view)}
    return found


def _cell(part: Part, view: Sequence[str]) -> Cell:
    return Cell(part.kind, part.case, part.fit, **{name: getattr(part, name) for name in view})


def table_by(parts: Iterable[Part], labels: Sequence[str]) -> dict[tuple[str, ...], Figures]:
    """Figures by kind, case, fit and any of `LABELS`.

    Raises:
      ValueError: one line, for a label that there is not.
    """
    for name in labels:
        if name not in LABELS:
            raise ValueError(f"{name!r} is not a label; known: {', '.join(LABELS)}")
    names = dict.fromkeys(("kind", "case", *labels, "fit"))
    groups = grouped((p for p in parts if len(p.measured)), lambda part: tuple(getattr(part, name) for name in names))
    return {key: figures(group) for key, group in sorted(groups.items())}


# The file that is kept.


def text_of(found: Cells) -> str:
    """The figures as CSV, one cell a line, in an order of their labels."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow((*Cell._fields, *Figures._fields))
    for cell, each in sorted(found.items()):
        percents = (f"{value:.1f}" for value in (each.median, each.mape, each.signed))
        stated = ("", "") if math.isnan(each.coverage) else (f"{each.coverage:.0f}", f"{each.width:.2f}")
        writer.writerow((*cell, each.rows, *percents, *stated))
    return out.getvalue()


def read(path: Path) -> Cells:
    """The figures of such a file.

    Raises:
      ValueError: one line: no such file, or another form.
    """
    if not path.is_file():
        raise ValueError(f"{path}: no such file; --write makes it")
    found: Cells = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            try:
                numbers = [float(row[name] or "nan") for name in Figures._fields]
                found[Cell(*(row[name] for name in Cell._fields))] = Figures(int(numbers[0]), *numbers[1:])
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"{path}: not a file of figures: {error}") from None
    return found


# What has moved since.


class Move(NamedTuple):
    """A cell whose figures are others than those that are kept."""

    cell: Cell
    before: Figures | None
    now: Figures | None
    why: str
    fails: bool


def moves(found: Cells, kept: Cells, kinds: Sequence[str] | None = None) -> Iterator[Move]:
    """Cells that are worse or better than they were, those that have gone and those that have lost rows.

    An error is worse by more than `WORSE` points and `SHARE` of what it was: the median or the mean of the absolute
    errors. Cells that no constant was fitted to fail if they are worse, gone or smaller; fitted ones never do.

    Args:
      kinds: those that were scored; None: all.
    """
    for cell, before in sorted(kept.items()):
        if before.rows < FEWEST or (kinds is not None and cell.kind not in kinds):
            continue
        now, left_out = found.get(cell), not cell.fit
        if now is None:
            seen = sorted(other.fit for other in found if other.fit and other._replace(fit="") == cell)
            why = f"gone: {', '.join(seen)} has seen it" if seen and left_out else "gone"
            yield Move(cell, before, None, why, left_out)
        elif now.rows < (1.0 - LOST) * before.rows:
            yield Move(cell, before, now, "rows are missing", left_out)
        elif _worse(before, now):
            yield Move(cell, before, now, "worse", left_out)
        elif _worse(now, before):
            yield Move(cell, before, now, "better", False)


def _worse(before: Figures, now: Figures) -> bool:
    pairs: Iterable[tuple[float, float]] = ((before.median, now.median), (before.mape, now.mape))
    return any(new > old + WORSE and new > old * (1.0 + SHARE) for old, new in pairs)


def summary(found: Mapping[Cell, Figures]) -> str:
    """How many cells there are, and how many of them are judged."""
    judged = sum(not cell.fit and each.rows >= FEWEST for cell, each in found.items())
    return f"{len(found):,} cells, {judged:,} of them left out of every fit and of {FEWEST} rows or more"

"""Page of the matrix: tables of errors in Markdown, fitted rows and others apart."""

import datetime
import math
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from sweeps.measure.validate.relative_errors import grouped
from tests.evidence.figures import figures
from tests.evidence.matrix_rows.part import Left, Part

PREFACE = """# Errors on measured data

Made at commit `{commit}`, {day}.

Every measured row of the evidence against its prediction under the constants that ship, in %: median and mean of the
absolute errors, median of the errors with their sign, the share of rows inside the stated 90 % interval, and the factor
either way that the interval has. *Left out* are rows that no constant was fitted to; errors of *fitted* rows are no
accuracy. {green} median error up to {good} %, {yellow} up to {fair} %, {red} more.

`make evidence DATA=DIR` scores all rows again and fails where a cell that was left out has become worse by 2 points and
a tenth; `make evidence DATA=DIR WRITE=--write` writes this page and the figures of all cells,
[figures.csv](../../tests/evidence/figures.csv).
"""

GOOD, FAIR = 10.0, 20.0
"""Largest median errors in % of the two better colours."""

GREEN, YELLOW, RED = "\U0001f7e9", "\U0001f7e8", "\U0001f7e5"

Label = Callable[[Part], tuple[str, ...]]

TABLES: tuple[tuple[tuple[str, ...], Label], ...] = (
    (("device", "engine"), lambda part: (part.device, part.engine or "-")),
    (("what was measured",), lambda part: (part.case,)),
    (("model",), lambda part: (part.model,)),
    (("load",), lambda part: (part.load,)),
)
"""Heads of the tables of every kind, and the labels of a row; without a label there is no table."""


def _commit() -> str:
    """The checkout's commit, abbreviated."""
    words = ["git", "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(words, cwd=Path(__file__).parent, capture_output=True, text=True, check=True).stdout.strip()


def page(parts: Sequence[Part], left: Sequence[Left] = ()) -> str:
    """Tables of every kind; rows are pooled over everything else."""
    parts = [part for part in parts if len(part.measured)]
    lines = [
        PREFACE.format(
            commit=_commit(),
            day=datetime.date.today(),
            green=GREEN,
            yellow=YELLOW,
            red=RED,
            good=f"{GOOD:g}",
            fair=f"{FAIR:g}",
        )
    ]
    for kind, own in grouped(parts, lambda part: part.kind).items():
        lines.append(f"## {kind[0].upper()}{kind[1:]}\n")
        for heads, label in TABLES:
            if any(any(label(part)) for part in own):
                lines += _table(heads, own, label)
    if left:
        lines.append("## Rows without a prediction\n\n| reason | rows |\n|---|---|")
        lines += [f"| {reason} | {rows or ''} |" for reason, rows in _reasons(left)] + [""]
    return "\n".join(lines)


def _reasons(left: Sequence[Left]) -> list[tuple[str, int]]:
    groups = grouped(left, lambda one: one.reason.replace("|", "/"))
    return sorted(((reason, sum(one.rows for one in each)) for reason, each in groups.items()), key=lambda one: -one[1])


def _table(heads: tuple[str, ...], parts: Sequence[Part], label: Label) -> Iterator[str]:
    """Lines of one table, rows that were left out beside those that were fitted, where there are some."""
    sides = [
        (words, own)
        for words, fitted in (("left out", False), ("fitted", True))
        if (own := [part for part in parts if bool(part.fit) == fitted])
    ]
    columns = [*heads]
    for words, _ in sides:
        columns += [f"{words}: rows", "", "median, MAPE", "signed", "in 90 %", "factor"]
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    groups = [grouped(own, label) for _, own in sides]
    for names in sorted({name for each in groups for name in each}):
        yield f"| {' | '.join((*names, *(_cells(each.get(names, [])) for each in groups)))} |"
    yield ""


def _cells(parts: Sequence[Part]) -> str:
    if not parts:
        return " | ".join(" " * 6)
    found = figures(parts)
    median = round(found.median, 1)
    colour = GREEN if median <= GOOD else YELLOW if median <= FAIR else RED
    stated = "- | -" if math.isnan(found.coverage) else f"{found.coverage:.0f} | {found.width:.2f}"
    return f"{found.rows:,} | {colour} | {found.median:.1f}, {found.mape:.1f} | {found.signed:+.1f} | {stated}"

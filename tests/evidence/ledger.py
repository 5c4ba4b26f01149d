"""Ledger of predictions: systems of which nothing is published, asked as a user asks `jaxroof serve`, row by row.

    python -m tests.evidence.ledger              rows that are new or predict something else are appended
    python -m tests.evidence.ledger --check      what would be appended; nothing is written

The questions are those of `ledger.toml`. A row of `docs/evidence/ledger.md` is never changed: where a command's figures
have moved, a new row says which one it supersedes. Every row has the hash of itself and of the row before it, so that a
row that was rewritten or taken away is found. Figures that are published later go into `[[measured]]` of the same TOML
file; the page then has their errors.
"""

import argparse
import contextlib
import datetime
import hashlib
import io
import json
import math
import re
import shlex
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import hwspaces
from sweeps.answers.shared import time_range
from sweeps.cli import main as jaxroof
from tests.evidence.harness import command, flag

ROOT = Path(__file__).parents[2]
SUITE = Path(__file__).with_suffix(".toml")
PAGE = ROOT / "docs" / "evidence" / "ledger.md"

FIGURES = {"ttft": "TTFT, s", "tpot": "TPOT, ms", "tokens": "output tokens/s per device"}
"""Figure of a row -> its column: means over all requests, and the steady part of the run."""

SCALE = {"ttft": 1.0, "tpot": 1e3, "tokens": 1.0}
"""What a figure in SI units is multiplied with in its column."""

CONSTANTS = ("efficiencies/*.toml", "engines/*.toml", "technology/*.toml")
"""Files of `hwspaces` that a prediction depends on beside the device's own."""

COLUMNS = ("row", "date", "question", "command", *FIGURES.values(), "constants", "supersedes", "hash")
HEAD = f"| {' | '.join(COLUMNS)} |"
RULE = f"{'|---' * len(COLUMNS)}|"
"""The two lines above the rows."""

NUMBER = re.compile(r"[\d.,]*\d")
"""A figure of a row, and the ends of its interval."""

LENGTH = 12
"""Digits of a hash that the page shows and compares."""


class Question(NamedTuple):
    """One system, model and load."""

    title: str
    words: tuple[str, ...]  # of the command, without `jaxroof serve`
    case: tuple[str, ...]  # of them, those that are not of the load
    load: tuple[str, ...]

    @property
    def command(self) -> str:
        """What a user types."""
        return shlex.join(("jaxroof", "serve", *self.words))


class Predicted(NamedTuple):
    """A figure with its 90 % interval, in the units of its column."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{_digits(self.value)} ({_digits(self.low)} to {_digits(self.high)})"


class Row(NamedTuple):
    """One line of the page, as text."""

    number: int
    date: str
    question: str
    command: str
    figures: tuple[str, ...]  # of `FIGURES`, "-" where there is none
    constants: str
    supersedes: str  # number of a row, or "-"
    hash: str

    @property
    def line(self) -> str:
        """As it stands in the page."""
        cells = (str(self.number), self.date, self.question, f"`{self.command}`", *self.figures)
        return f"| {' | '.join((*cells, self.constants, self.supersedes, self.hash))} |"


class Measured(NamedTuple):
    """A figure that was published after its row."""

    row: int
    figure: str  # a key of `FIGURES`
    value: float  # in the unit of its column
    source: str
    date: str


def questions(suite: dict[str, Any]) -> Iterator[Question]:
    """All questions of the suite in its order."""
    for system in suite["system"].values():
        for load_name, load in suite["load"].items():
            for model in load["models"]:
                # A system that a model is not asked about has no layout for it.
                if model not in system["model"]:
                    continue
                case = (*shlex.split(system["flags"]), "--model", model, *shlex.split(system["model"][model]))
                flags = tuple(shlex.split(load["flags"]))
                device = case[case.index("--hardware") + 1]
                yield Question(f"{device}, {model}, {load_name}", (*case, *flags), case, flags)


def predicted(question: Question) -> dict[str, Predicted]:
    """Figures of a question; none where the command refuses it.

    The interval is that of `jaxroof request` with the same case and a batch as large as the mean one of the simulation.
    """
    served = _answer(("serve", *question.words))
    if served is None:
        return {}
    metrics = served["metrics"]
    flags = dict(zip(question.load[::2], question.load[1::2], strict=True))
    batch = str(max(round(metrics["batch_mean"]), 1))
    lengths = ("--isl", flags["--isl"], "--osl", flags["--osl"])
    request = _answer(("request", *question.case, *lengths, "--batch", batch))
    if request is None:
        return {}
    factors = {}
    for name in ("ttft", "tpot", "e2e"):
        low, high = time_range(name, request["metrics"])
        factors[name] = low / request["metrics"][name], high / request["metrics"][name]
    longer = factors["e2e"]
    found = {
        "ttft": Predicted(metrics["ttft_mean"], *(metrics["ttft_mean"] * share for share in factors["ttft"])),
        "tpot": Predicted(metrics["tpot_mean"], *(metrics["tpot_mean"] * share for share in factors["tpot"])),
        "tokens": Predicted(
            metrics["tokens_per_second_per_device"],
            *(metrics["tokens_per_second_per_device"] / share for share in reversed(longer)),
        ),
    }
    # Of requests that are all there at once the first token is a matter of the queue alone.
    if "--arrivals" in question.load:
        found = {"tokens": found["tokens"]}
    return {name: Predicted(*(SCALE[name] * part for part in one)) for name, one in found.items()}


def _answer(words: Sequence[str]) -> dict[str, Any] | None:
    """The JSON of a command, run here; None where it ends with another status than 0."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        status = jaxroof([*words, "--json"])
    if status:
        return None
    answer: dict[str, Any] = json.loads(out.getvalue())
    return answer


def constants_hash(question: Question) -> str:
    """Digest of the files of constants that a question depends on."""
    device = hwspaces.hardware(question.case[question.case.index("--hardware") + 1])
    folder = Path(hwspaces.__file__).parent
    files = [ROOT / str(device.file), *sorted(path for pattern in CONSTANTS for path in folder.glob(pattern))]
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:LENGTH]


def rows_of(page: str) -> list[Row]:
    """The rows of a page.

    Raises:
      ValueError: a line of the table is none.
    """
    rows = []
    lines = page.partition(f"{RULE}\n")[2].split("\n\n")[0].splitlines()
    for line in lines:
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) != len(COLUMNS):
            raise ValueError(f"{PAGE.name}: {line!r} is not a row")
        number, date, question, words, *rest = cells
        figures, (constants, supersedes, own) = tuple(rest[:-3]), rest[-3:]
        rows.append(Row(int(number), date, question, words.strip("`"), figures, constants, supersedes, own))
    return rows


def row_hash(row: Row, before: str) -> str:
    """Hash of a row's text and of the row before it."""
    text = row._replace(hash="").line + before
    return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]


def faults(rows: Sequence[Row]) -> list[str]:
    """What is wrong with rows that may only be appended: numbers, hashes, and what they supersede."""
    found, before, newest = [], "", dict[str, int]()
    for place, row in enumerate(rows, 1):
        if row.number != place:
            found.append(f"row {row.number} stands at place {place}")
        if row.hash != row_hash(row, before):
            found.append(f"row {row.number} was changed, or a row before it")
        if row.supersedes != str(newest.get(row.command, "-")):
            found.append(f"row {row.number} supersedes {row.supersedes}, the last of its command is another")
        before = row.hash
        newest[row.command] = row.number
    return found


def appended(rows: Sequence[Row], question: Question, figures: dict[str, Predicted], date: str) -> Row | None:
    """The row that a question adds; None where the newest one of its command says the same."""
    last = next((row for row in reversed(rows) if row.command == question.command), None)
    texts = tuple(str(figures[name]) if name in figures else "-" for name in FIGURES)
    if last is not None and last.figures == texts:
        return None
    supersedes = "-" if last is None else str(last.number)
    row = Row(len(rows) + 1, date, question.title, question.command, texts, constants_hash(question), supersedes, "")
    return row._replace(hash=row_hash(row, rows[-1].hash if rows else ""))


def measured_of(suite: dict[str, Any]) -> list[Measured]:
    """Figures that were published after their rows."""
    return [
        Measured(int(one["row"]), str(one["figure"]), float(one["value"]), str(one["source"]), str(one["date"]))
        for one in suite.get("measured", ())
    ]


def error_lines(rows: Sequence[Row], measured: Sequence[Measured]) -> list[str]:
    """Table of predictions beside what was published after them; empty without any."""
    if not measured:
        return []
    lines = ["## Published since", "", "| row | question | figure | predicted | measured | error | inside | source |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for one in sorted(measured):
        row = rows[one.row - 1]
        text = row.figures[list(FIGURES).index(one.figure)]
        value, low, high = (float(part.replace(",", "")) for part in NUMBER.findall(text))
        error, inside = value / one.value - 1.0, "yes" if low <= one.value <= high else "no"
        cells = (str(one.row), row.question, FIGURES[one.figure], text, _digits(one.value), f"{error:+.0%}", inside)
        lines.append(f"| {' | '.join((*cells, f'{one.source}, {one.date}'))} |")
    return [*lines, ""]


def page_text(page: str, rows: Sequence[Row], measured: Sequence[Measured]) -> str:
    """The page with these rows and errors, its words kept."""
    top, _, rest = page.partition(HEAD)
    after = rest.partition("\n\n")[2].partition("## Published since")[0].rstrip()
    table = "\n".join([HEAD, RULE, *(row.line for row in rows)])
    parts = [top + table, after, "\n".join(error_lines(rows, measured)).rstrip()]
    return "\n\n".join(part for part in parts if part) + "\n"


def _digits(value: float) -> str:
    """Three digits, of large numbers all before the point."""
    if not (value > 0.0 and math.isfinite(value)):
        return "-"
    places = max(2 - math.floor(math.log10(value)), 0)
    return f"{round(value, places):,.{places}f}" if value < 1e3 else f"{float(f'{value:.3g}'):,.0f}"


@command(
    flag("--check", action="store_true", help="write nothing; exit with 1 where a row would be appended"),
    flag("--only", metavar="TEXT", default="", help="questions with this text alone"),
)
def main(options: argparse.Namespace) -> int:
    """Append rows, and write the errors of those that were measured since."""
    suite = tomllib.loads(SUITE.read_text(encoding="utf-8"))
    page = PAGE.read_text(encoding="utf-8")
    rows = rows_of(page)
    if wrong := faults(rows):
        raise ValueError(f"{PAGE}: {wrong[0]}")
    date, new = datetime.date.today().isoformat(), 0
    for question in questions(suite):
        if options.only not in question.title:
            continue
        figures = predicted(question)
        if not figures:
            print(f"refused   {question.command}", flush=True)
            continue
        row = appended(rows, question, figures, date)
        if row is None:
            continue
        new += 1
        rows.append(row)
        print(row.line, flush=True)
        if not options.check:
            PAGE.write_text(page_text(page, rows, measured_of(suite)), encoding="utf-8")
    if not options.check:
        PAGE.write_text(page_text(page, rows, measured_of(suite)), encoding="utf-8")
    print(f"{new} rows {'would be ' if options.check else ''}appended, {len(rows)} in all")
    return int(bool(options.check and new))


if __name__ == "__main__":
    raise SystemExit(main())

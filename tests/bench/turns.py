"""Cases of a benchmark in this checkout and in another, in turns, and those that became slower."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

SLOWER = 0.95
"""Share of the other checkout's rate below which a case became slower."""

ROUNDS = 3
"""In which a case is measured at most: again where it seems slower, since other programs slow down either side."""


class Beside(NamedTuple):
    """A case in both checkouts: the best of all turns."""

    name: str
    rates: tuple[float, float]  # work per second of the other checkout and of this one
    compile_s: tuple[float, float]

    @property
    def ratio(self) -> float:
        """This checkout's rate over the other's."""
        return self.rates[1] / self.rates[0]


def in_own_process(module: str, words: Sequence[str], folder: str | None = None) -> dict[str, Any]:
    """The row that a module prints last, in a fresh interpreter, of the checkout in `folder`.

    Raises:
      SystemExit: the last line that it printed, where it fails.
    """
    command = [sys.executable, "-W", "ignore", "-m", module, *words]
    # The checkout's own packages come before an installed one's: Python looks in the working folder first.
    environment = os.environ if folder is None else os.environ | {"PYTHONPATH": folder}
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {(done.stderr.strip().splitlines() or ['no word why'])[-1]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def beside(names: Sequence[str], measured: Callable[[str, str | None], dict], work: str, folder: str) -> list[Beside]:
    """Every case that both checkouts have, run in turns: other, this, this, other.

    Args:
      measured: the row of a case in a checkout, None being this one.
      work: key of a row's work; `best_s` are the seconds that it took at best, `compile_s` those before.
    """
    rows = []
    for name in names:
        other: list[dict] = []
        this: list[dict] = []
        for _ in range(ROUNDS):
            try:
                other.append(measured(name, folder))
            except SystemExit as why:
                print(f"{name}: left out, {folder} has no figure: {why}", file=sys.stderr)
                break
            this += [measured(name, None), measured(name, None)]
            other.append(measured(name, folder))
            row = Beside(name, (_best(other, work), _best(this, work)), (_quickest(other), _quickest(this)))
            if row.ratio >= SLOWER:
                break
        if this:
            rows.append(row)
    return rows


def _best(rows: Sequence[dict], work: str) -> float:
    return max(row[work] / row["best_s"] for row in rows)


def _quickest(rows: Sequence[dict]) -> float:
    return min(row["compile_s"] for row in rows)


def judged(rows: Sequence[Beside], work: str, folder: str, as_json: bool) -> int:
    """Print the cases; 1 where one became slower."""
    if as_json:
        print(json.dumps([row._asdict() | {"ratio": row.ratio} for row in rows], indent=1))
    else:
        table = Table(title=f"{work}/s and compile time, {folder} beside this checkout, best of turns")
        for heading in ("case", "other", "this", "this / other", "compile, other", "compile, this"):
            table.add_column(heading, justify="left" if heading == "case" else "right")
        for row in rows:
            rates = (f"{rate / 1e6:,.3f} M" for rate in row.rates)
            compiles = (f"{seconds:.1f} s" for seconds in row.compile_s)
            table.add_row(row.name, *rates, f"{row.ratio:.2f}", *compiles)
        Console(width=120).print(table)
    slower = [row for row in rows if row.ratio < SLOWER]
    for row in slower:
        print(f"slower  {row.name} at {row.ratio:.2f} of {folder}, after {ROUNDS} rounds", file=sys.stderr)
    return int(bool(slower))

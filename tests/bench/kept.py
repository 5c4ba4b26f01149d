"""Both benchmarks beside their kept figures, and what fell: `python -m tests.bench.kept`, `make bench`.

Figures are multiples of what plain NumPy, and the plain simulator of the tests, do in the same run, so that those of
one machine serve on another one. `--keep` replaces the kept ones.
"""

import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

FILE = pathlib.Path(__file__).with_name("kept.json")

FELL = 0.9
"""Share of a kept figure below which it fell: runs of one tree differ by less on a quiet machine."""

BENCHES = {
    "sweeps": ("tests.bench", "numpy", "points", "best_s"),
    "simulations": ("tests.bench.serving", "plain", "requests", "best_s"),
}
"""Benchmark -> its module, the case that others are multiples of, and the keys of work and seconds in its rows."""


def main() -> int:
    """A table per benchmark; 1 where a figure fell."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.kept", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="replace the kept figures by those of this run")
    parser.add_argument("--repeats", type=int, default=7, help="timed runs of every case after a warm-up")
    options = parser.parse_args()
    kept = json.loads(FILE.read_text()) if FILE.exists() else {}
    console, found, down = Console(width=110), {}, []
    for name in BENCHES:
        figures, rates = measured(name, options.repeats)
        found[name] = figures
        shown(console, name, figures, rates, kept.get(name, {}))
        for case, figure, share in fallen(figures, kept.get(name, {})):
            down.append(f"{name}: {case} at {share:.2f} of {figure:,.4g}")
    if options.keep:
        made = {"commit": commit(), "date": datetime.date.today().isoformat(), "cores": os.cpu_count()}
        FILE.write_text(json.dumps({"made": made, **found}, indent=1) + "\n")
    for line in down:
        console.print(f"fell    {line}", highlight=False)
    if kept and not down:
        made = kept["made"]
        console.print(f"nothing fell below {FELL:.0%} of {made['commit']}, {made['date']}", highlight=False)
    return int(bool(down))


def measured(name: str, repeats: int) -> tuple[dict[str, float], dict[str, float]]:
    """Multiples of the plain case, and work per second, of every case of a benchmark."""
    module, plain, work, seconds = BENCHES[name]
    command = [sys.executable, "-W", "ignore", "-m", module, "--json", "--repeats", str(repeats)]
    rows = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    rates = {row["name"]: row[work] / row[seconds] for row in rows}
    return multiples(rates, plain), rates


def multiples(rates: Mapping[str, float], plain: str) -> dict[str, float]:
    """Every rate over that of the plain case, which is left out, to four digits."""
    return {case: float(f"{rate / rates[plain]:.4g}") for case, rate in rates.items() if case != plain}


def fallen(figures: Mapping[str, float], kept: Mapping[str, float]) -> list[tuple[str, float, float]]:
    """Cases whose figure is below `FELL` of the kept one: case, kept figure, share of it."""
    shares = {case: figures[case] / figure for case, figure in kept.items() if case in figures}
    return [(case, kept[case], share) for case, share in shares.items() if share < FELL]


def commit() -> str:
    """The commit that is checked out, in short."""
    return subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()


def shown(
    console: Console, name: str, figures: Mapping[str, float], rates: Mapping[str, float], kept: Mapping[str, float]
) -> None:
    """The table of one benchmark."""
    _, plain, work, _ = BENCHES[name]
    table = Table(title=f"{name}: {work} per second, and multiples of {plain}")
    for heading in ("case", f"{work}/s", f"x {plain}", "kept", "this / kept"):
        table.add_column(heading, justify="left" if heading == "case" else "right")
    for case, figure in figures.items():
        before = kept.get(case)
        shares = ("", "") if before is None else (f"{before:,.4g}", f"{figure / before:.2f}")
        table.add_row(case, f"{rates[case]:,.0f}", f"{figure:,.4g}", *shares)
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())

"""Points per second, compile time and memory of sweeps, beside plain NumPy: `python -m tests.bench`.

Every case runs in a process of its own, so that its peak memory is its own. Nothing is asserted.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys

from rich.console import Console
from rich.table import Table

from tests.bench.cases import CASES


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="multiply the points of every case")
    parser.add_argument("--repeats", type=int, default=7, help="timed runs of every case after a warm-up")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--against", metavar="FOLDER", help="another checkout, measured in turns with this one")
    parser.add_argument("--case", metavar="NAME", action="append", help="only this case; may be given several times")
    options = parser.parse_args()
    names = options.case or ["numpy", *(case.name for case in CASES)]
    if options.against is not None:
        against(names, options)
        return
    rows = [in_own_process(name, options) for name in names]
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        shown(rows)


def against(names: list[str], options: argparse.Namespace) -> None:
    """A table of this checkout beside another, run in turns: other, this, this, other. Cases it lacks are left out."""
    rows = []
    for name in names:
        try:
            turns = [in_own_process(name, options, folder) for folder in (options.against, None, None, options.against)]
        except SystemExit:
            continue
        other, this = ([turns[i] for i in places] for places in ((0, 3), (1, 2)))
        rates = [statistics.mean(row["points"] / row["best_s"] for row in pair) for pair in (other, this)]
        compiles = [min(row["compile_s"] for row in pair) for pair in (other, this)]
        rows.append({"name": name, "points_per_s": rates, "ratio": rates[1] / rates[0], "compile_s": compiles})
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    table = Table(title=f"points/s and compile time, {options.against} beside this checkout, in turns")
    for heading in ("case", "other", "this", "this / other", "compile, other", "compile, this"):
        table.add_column(heading, justify="left" if heading == "case" else "right")
    for row in rows:
        rates = (f"{rate / 1e6:,.1f} M" for rate in row["points_per_s"])
        compiles = (f"{seconds:.1f} s" for seconds in row["compile_s"])
        table.add_row(row["name"], *rates, f"{row['ratio']:.2f}", *compiles)
    Console(width=110).print(table)


def in_own_process(name: str, options: argparse.Namespace, folder: str | None = None) -> dict:
    """One row, measured by `tests.bench.measure` in a fresh interpreter, of the checkout in `folder`."""
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "tests.bench.measure",
        name,
        str(options.scale),
        str(options.repeats),
    ]
    # The checkout's own packages come before an installed one's: Python looks in the working folder first.
    environment = os.environ if folder is None else os.environ | {"PYTHONPATH": folder}
    finished = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
    if finished.returncode:
        raise SystemExit(f"{name}: {finished.stderr.strip().splitlines()[-1]}")
    return json.loads(finished.stdout.strip().splitlines()[-1])


def shown(rows: list[dict]) -> None:
    """The table: points per second against the target where there is one, and the ratio to NumPy in this run."""
    numpy = rows[0]
    device = rows[-1]["device"]
    table = Table(title=f"Llama-3.1-70B, prefill and decode totals; {device}, {platform.machine()}; beside NumPy and C")
    for heading in (
        "case",
        "efficiency",
        "points",
        "points/s",
        "best",
        "target",
        "x NumPy",
        "/ C",
        "compile",
        "peak RSS",
    ):
        table.add_column(heading, justify="left" if heading == "case" else "right")
    targets = {case.name: case.target if device == "cpu" else case.gpu_target for case in CASES}
    efficiencies = {case.name: case.efficiency for case in CASES}
    for row in rows:
        rate, best = row["points"] / row["median_s"], row["points"] / row["best_s"]
        target = targets.get(row["name"])
        table.add_row(
            row["name"],
            efficiencies.get(row["name"], ""),
            f"{row['points']:,}",
            f"{rate / 1e6:,.1f} M",
            f"{best / 1e6:,.1f} M",
            "" if target is None else f"{target / 1e6:,.0f} M {'met' if rate >= target else 'missed'}",
            f"{rate * numpy['median_s'] / numpy['points']:,.0f}",
            f"{rate / row['c_points_per_s']:.2f}" if "c_points_per_s" in row else "",
            f"{row['compile_s']:.1f} s",
            f"{row['peak_rss'] / 1e9:.2f} GB",
        )
    Console(width=130).print(table)


if __name__ == "__main__":
    main()

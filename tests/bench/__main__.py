"""Points per second, compile time and memory of sweeps, beside plain NumPy: `python -m tests.bench`.

Every case runs in a process of its own, so that its peak memory is its own. `--against` ends with 1 where a case is
slower than in another checkout.
"""

import argparse
import json
import platform
import sys

from rich.console import Console
from rich.table import Table

from tests.bench import turns
from tests.bench.cases import CASES


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="multiply the points of every case")
    parser.add_argument("--repeats", type=int, default=7, help="timed runs of every case after a warm-up")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--against", metavar="FOLDER", help="another checkout, measured in turns with this one")
    parser.add_argument("--case", metavar="NAME", action="append", help="only this case; may be given several times")
    options = parser.parse_args()
    names = options.case or ["numpy", *(case.name for case in CASES)]
    if options.against is not None:
        rows = turns.beside(
            names, lambda name, folder: in_own_process(name, options, folder), "points", options.against
        )
        return turns.judged(rows, "points", options.against, options.json)
    found = [in_own_process(name, options) for name in names]
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        shown(found)
    return 0


def in_own_process(name: str, options: argparse.Namespace, folder: str | None = None) -> dict:
    """One row, measured by `tests.bench.measure`, of the checkout in `folder`."""
    return turns.in_own_process("tests.bench.measure", [name, str(options.scale), str(options.repeats)], folder)


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
    sys.exit(main())

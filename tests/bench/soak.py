"""Sweeps without a pause in one process, and whether it grows or tires: `python -m tests.bench.soak --minutes 30`.

A round is another sweep each time - the question is the same, its numbers are not: five million points written to a
folder, read again and merged, and a hundred million reduced on the fly. Each minute's line has the rounds that ended in
it, their points per second and per second of processor time, which other programs slow less, and the resident memory;
the last lines compare the first third with the last. Nothing is asserted.
"""

import argparse
import os
import pathlib
import shutil
import statistics
import tempfile
import time

import sweeps
from sweeps.ask.spec import content
from sweeps.run.shards.run import run
from sweeps.run.shards.work import ShardWork
from tests.bench.scale import SPECS, grid, resident

MINUTE_SECONDS = 60.0

WARM_ROUNDS = 2
"""Rounds before the clock starts: they compile."""


def one_round(number: int, folder: pathlib.Path) -> int:
    """Write, read, merge and reduce once; returns points."""
    written = grid(5_000_000)
    written["workload"]["isl"] = 1024 + number
    work = ShardWork(written)
    run(folder / "written", work)
    with sweeps.open(folder / "written") as data:
        assert float(data.tpot[0, 0, 0].max()) > 0.0
    sweeps.merge(folder / "written", folder / "merged.nc")
    kept = content(SPECS / "billion.toml")
    kept["deployment"]["tp"] = kept["deployment"]["tp"][:1]
    kept["workload"]["isl"] = 2048 + number
    kept["axes"]["hardware.memory.hbm.bandwidth"]["n"] = 4
    reduced = ShardWork(kept)
    run(folder / "kept", reduced)
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return work.plan.points + reduced.plan.points


def main() -> None:
    """Print a line per minute, and what became of speed and memory."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="how long (default 30)")
    parser.add_argument("--folder", metavar="DIR", default=".", help="where to write (default: here)")
    options = parser.parse_args()
    rates: list[float] = []
    worked: list[float] = []
    memory: list[float] = []
    print("| minute | rounds | points/s | points per s of processors | resident memory (MB) |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = pathlib.Path(name)
        for number in range(WARM_ROUNDS):
            one_round(number, folder)
        start, number = time.perf_counter(), WARM_ROUNDS
        while (minute := len(rates)) < options.minutes:
            begun, busy, rounds, points = time.perf_counter(), time.process_time(), 0, 0
            while time.perf_counter() - start < (minute + 1) * MINUTE_SECONDS:
                points += one_round(number, folder)
                number, rounds = number + 1, rounds + 1
            rates.append(points / (time.perf_counter() - begun))
            worked.append(points / (time.process_time() - busy))
            memory.append(resident(os.getpid()))
            both = f"{rates[-1] / 1e6:.1f} M | {worked[-1] / 1e6:.1f} M"
            print(f"| {minute + 1} | {rounds} | {both} | {memory[-1] / 1e6:,.0f} |", flush=True)
    third = max(1, len(rates) // 3)
    found = {"points/s (M)": rates, "points per s of processors (M)": worked, "memory (MB)": memory}
    for what, values in found.items():
        early, late = (statistics.mean(part) / 1e6 for part in (values[:third], values[-third:]))
        print(f"{what}: {early:,.1f} in the first third, {late:,.1f} in the last ({late / early - 1:+.1%})")


if __name__ == "__main__":
    main()

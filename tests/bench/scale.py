"""Times sweeps that do not fit, beside those that do: `python -m tests.bench.scale`.

Points in memory, in a folder of shards, and reduced on the fly, in one process and on Dask workers; each case in a
process of its own, whose resident memory is sampled as it runs. Core seconds are those of a process and its workers,
which other work on the machine changes little; workers' start is in them. `NPROC=1` gives every process one core:
`NPROC=1 python -m tests.bench.scale --only Dask` says what a second worker adds. Nothing is asserted.
"""

import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

import numpy as np

from sweeps.ask.spec import content

SPECS = pathlib.Path(__file__).parents[2] / "sweeps" / "specs"

SAMPLE_SECONDS = 0.2
"""s between two looks at the resident memory."""


def grid(points: int) -> dict[str, Any]:
    """TPOT and TTFT of Llama-3.1-70B on eight devices over four axes, about `points` points, both over all axes."""
    return {
        "hardware": "H100-SXM",
        "model": "Llama-3.1-70B",
        "efficiency": "derated",
        "deployment": {"tp": 8},
        "workload": {"batch": {"from": 1, "to": 256, "n": max(1, points // 800_000)}, "isl": 2048, "osl": 256},
        "axes": {
            "hardware.memory.hbm.bandwidth": {"from": "1 TB/s", "to": "16 TB/s", "n": 100, "scale": "log"},
            "hardware.matrix.bf16": {"from": "250 TFLOP/s", "to": "4 PFLOP/s", "n": 100, "scale": "log"},
            "hardware.links.scale_up.bandwidth": {"from": "50 GB/s", "to": "1.8 TB/s", "n": 80, "scale": "log"},
        },
        "output": {"variables": ["tpot", "ttft"]},
    }


def case(name: str, scale: float, folder: pathlib.Path) -> dict[str, Any]:
    """Run one case in this process: points, seconds without planning and compiling, bytes."""
    if name.endswith("one core"):
        os.sched_setaffinity(0, {0})  # before JAX begins, which has a thread per core
    from sweeps.ask.spec import spec
    from sweeps.run.shards.api import executor
    from sweeps.run.shards.run import run
    from sweeps.run.shards.work import ShardWork
    from sweeps.run.sweep import planned

    if name == "in memory":
        plan = planned(spec(grid(int(1e8 * scale))))[1]
        target = {key: np.zeros(output.shape, output.dtype) for key, output in plan.outputs.items()}
        for piece in plan.pieces(boxes=[next(plan.boxes())]):
            target[piece.name][piece.index] = piece.values
        begun, spent = time.perf_counter(), core_seconds()
        for piece in plan.pieces():
            target[piece.name][piece.index] = piece.values
        seconds, spent = time.perf_counter() - begun, core_seconds() - spent
        return {"points": plan.points, "seconds": seconds, "core seconds": spent, "bytes": 0}
    source = content(SPECS / "billion.toml") if name.startswith("kept") else grid(int(1e8 * scale))
    if name.startswith("kept"):
        source["deployment"]["tp"] = source["deployment"]["tp"][: max(1, round(3 * scale))]
        if name == "kept, counts too":
            source["output"]["keep"] += ["histogram", "quantiles"]
    work = ShardWork(source)
    workers = int(name.rpartition(" ")[2]) if "Dask" in name else None
    for _ in work.plan.pieces(boxes=[next(work.plan.boxes())]):
        pass
    begun, spent = time.perf_counter(), core_seconds()
    run(folder / "sweep", work, None, executor("dask" if workers else None, workers))
    seconds, spent = time.perf_counter() - begun, core_seconds() - spent
    size = sum(path.stat().st_size for path in (folder / "sweep").iterdir())
    return {"points": work.plan.points, "seconds": seconds, "core seconds": spent, "bytes": size}


def core_seconds() -> float:
    """s that cores have worked for this process and for those of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def disk(folder: pathlib.Path, size: int) -> float:
    """s that the disk takes to write so many bytes and keep them."""
    block = np.random.default_rng(0).bytes(64_000_000)
    begun = time.perf_counter()
    with open(folder / "raw", "wb") as file:
        for _ in range(0, size, len(block)):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    seconds = time.perf_counter() - begun
    (folder / "raw").unlink()
    return seconds


def watched(name: str, scale: float, folder: pathlib.Path) -> dict[str, Any]:
    """One case in a process of its own, with the resident memory of it and its workers over time, in bytes."""
    words = [sys.executable, "-m", "tests.bench.scale", "--case", name, "--scale", str(scale), "--folder", str(folder)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    samples: list[float] = []

    def watch() -> None:
        while process.poll() is None:
            samples.append(sum(map(resident, family(process.pid))))
            time.sleep(SAMPLE_SECONDS)

    thread = threading.Thread(target=watch)
    thread.start()
    said, _ = process.communicate()
    thread.join()
    return {**json.loads(said.splitlines()[-1]), "resident": samples}


def family(number: int) -> list[int]:
    """A process and all below it, whichever of its threads began them."""
    try:
        tasks = list(pathlib.Path(f"/proc/{number}/task").glob("*/children"))
        below = [child for task in tasks for child in task.read_text().split()]
    except OSError:
        return [number]
    return [number, *(other for child in below for other in family(int(child)))]


def resident(number: int) -> float:
    """B of a process's resident memory."""
    try:
        return int(pathlib.Path(f"/proc/{number}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0.0


CASES = ("in memory", "folder", "kept", "kept, counts too", "kept, one core", *(f"kept, Dask {n}" for n in (1, 2, 4)))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scale", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="multiply the points of every case")
    parser.add_argument("--only", metavar="WORD", default="", help=f"cases with this word: {', '.join(CASES)}")
    parser.add_argument("--case", metavar="NAME", help=argparse.SUPPRESS)  # one of them, in this process
    parser.add_argument("--folder", metavar="DIR", help="where to write (default: a temporary folder here)")
    options = parser.parse_args()
    if options.case:
        print(json.dumps(case(options.case, options.scale, pathlib.Path(options.folder))))
        return
    columns = "case", "points", "s", "points/s", "core ns per point", "written"
    print(f"| {' | '.join(columns)} | resident memory: at 25, 50, 75 % of the run, peak (GB) |")
    print("|---|---|---|---|---|---|---|")
    for name in (name for name in CASES if options.only in name):
        with tempfile.TemporaryDirectory(dir=options.folder or ".") as folder:
            row = watched(name, options.scale, pathlib.Path(folder))
            raw = f" ({disk(pathlib.Path(folder), row['bytes']):.1f} s raw)" if row["bytes"] > 1e8 else ""
        seen = np.array(row["resident"]) / 1e9
        marks = ", ".join(f"{seen[int(share * len(seen))]:.2f}" for share in (0.25, 0.5, 0.75))
        rate = row["points"] / row["seconds"]
        line = f"| {name} | {row['points'] / 1e6:,.0f} M | {row['seconds']:.1f} | {rate / 1e6:,.1f} M "
        line += f"| {1e9 * row['core seconds'] / row['points']:.1f} "
        print(f"{line}| {row['bytes'] / 1e6:,.1f} MB{raw} | {marks}, {seen.max():.2f} |", flush=True)


if __name__ == "__main__":
    main()

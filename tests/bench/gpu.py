"""Check and measure jaxroof on JAX's devices, GPUs or TPUs: `python -m tests.bench.gpu`, `make gpu`.

Values first, beside NumPy in float64; then rates beside their targets, with what limits them. On a CPU it runs a
hundredth of the points, to show that it runs. `--profile DIR` writes what `tensorboard --logdir DIR` or
https://ui.perfetto.dev shows of the grid. Nothing is asserted but the values.
"""

import argparse
import json
import math
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

import sweeps
from sweeps.ask.spec import content
from sweeps.data.shards import manifest
from sweeps.run import compilers, engine
from sweeps.run.device_calls import DEVICE_SHARE, device_bytes
from sweeps.run.engine import Plan
from tests.bench import cases, serving
from tests.bench.scale import SPECS, grid

TOLERANCE = 1e-4
"""Relative difference of float32 on a device from float64 on NumPy, at most."""

TARGETS = {"grid": 20e9, "sample": 1e9, "simulations": 5e6}
"""Points/s, points/s and requests/s of one GPU of 2024, without copies to the host."""

Row = dict[str, Any]


def main(words: list[str] | None = None) -> int:
    """Print a line for each check; 1 where a value is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.gpu", description=__doc__)
    cpu = jax.default_backend() == "cpu"
    parser.add_argument("--scale", type=float, default=0.01 if cpu else 1.0, help="multiply the points of every check")
    parser.add_argument("--only", metavar="WORD", default="", help=f"checks with this word: {', '.join(CHECKS)}")
    parser.add_argument("--profile", metavar="DIR", help="a profile of the grid is written there")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    options = parser.parse_args(words)
    compilers.loops_known = lambda: False
    engine.chosen = lambda sizes, most_eager: "xla"
    rows, right = [], True
    for row in (row for name in CHECKS if options.only in name for row in CHECKS[name](options)):
        rows.append(row)
        right &= row.get("right", True)
        if not options.json:
            print(line(row), flush=True)
    if options.json:
        print(json.dumps(rows, indent=1))
    return int(not right)


def line(row: Row) -> str:
    """A row as text."""
    said = ", ".join(f"{name} {value}" for name, value in row.items() if name not in ("check", "rate", "right"))
    if "rate" in row:
        target = TARGETS.get(row["check"])
        beside = (
            "" if target is None else f" (target {target / 1e6:,.0f} M: {'met' if row['rate'] >= target else 'missed'})"
        )
        said = f"{row['rate'] / 1e6:,.2f} M/s{beside}; {said}"
    return f"{row['check']:14}{said}"


def devices(options: argparse.Namespace) -> Iterator[Row]:
    """What JAX computes on, and the bytes of one call there."""
    local = jax.local_devices()
    stats = local[0].memory_stats() or {}
    yield {
        "check": "devices",
        "kind": local[0].device_kind,
        "number": len(local),
        "jax": jax.__version__,
        "memory": f"{stats.get('bytes_limit', math.nan) / 1e9:.1f} GB",
        "share of a call": DEVICE_SHARE,
        "call": f"{device_bytes(local) / 2**20:,.0f} MiB",
    }


def values(options: argparse.Namespace) -> Iterator[Row]:
    """Samples and grids in float32 beside NumPy in float64 at the same points, and once more: the same bits."""
    makers = {"sample": cases.sample, "grid": cases.output_grid, "experts": cases.experts_sample}
    for name, make in makers.items():
        question, axes = make(4000)
        found, again = (gathered(Plan(question, axes, compiler="xla")) for _ in range(2))
        exact = gathered(Plan(question, axes, "float64", compiler="numpy"))
        worst = max(float(np.max(np.abs(found[key] / exact[key] - 1.0))) for key in found)
        same = all(np.array_equal(found[key], again[key], equal_nan=True) for key in found)
        right = same and worst < TOLERANCE
        yield {"check": "values", "of": name, "largest difference": f"{worst:.2g}", "same bits": same, "right": right}


def gathered(plan: Plan) -> dict[str, np.ndarray]:
    """Every output of a plan, whole."""
    target = {name: np.zeros(output.shape, output.dtype) for name, output in plan.outputs.items()}
    for piece in plan.pieces():
        target[piece.name][piece.index] = piece.values
    return target


def rates(name: str, make: Callable[[int], cases.Sweep], points: float) -> Callable[..., Iterator[Row]]:
    """Points/s of a sweep: on the devices alone, and copied to the host's memory."""

    def check(options: argparse.Namespace) -> Iterator[Row]:
        question, axes = make(int(points * options.scale))
        begun = time.perf_counter()
        plan = Plan(question, axes, compiler="xla")
        compiled = time.perf_counter() - begun
        calls = plan._blocks[0]
        used = calls.chunks._executables  # type: ignore[attr-defined]

        def on_devices() -> None:
            last = [view.array for _, views in plan.values() for view in views.values()][
                -2 * len(jax.local_devices()) :
            ]
            jax.block_until_ready(last)

        seconds = least(on_devices)
        about = {
            "points": f"{plan.points:,}",
            "calls": math.prod(calls.counts),
            "a call": f"{seconds / math.prod(calls.counts) * 1e3:.2f} ms",
            "its buffers": f"{used.bytes / 2**20:,.1f} MiB",
            "reused": f"{used.aliased / 2**20:,.1f} MiB",
            "compilation": f"{compiled:.1f} s",
        }
        yield {"check": name, "rate": plan.points / seconds, **about}
        if options.profile and name == "grid":
            with jax.profiler.trace(options.profile):
                on_devices()
        target = {key: np.zeros(output.shape, output.dtype) for key, output in plan.outputs.items()}

        def to_host() -> None:
            for piece in plan.pieces():
                target[piece.name][piece.index] = piece.values

        seconds = least(to_host)
        moved = sum(array.nbytes for array in target.values())
        yield {"check": f"{name}, host", "rate": plan.points / seconds, "copies": f"{moved / seconds / 1e9:.2f} GB/s"}

    return check


def least(run: Callable[[], None], repeats: int = 3) -> float:
    """s of the quickest of some runs after a warm-up."""
    run()
    seconds = []
    for _ in range(repeats):
        begun = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begun)
    return min(seconds)


def file(options: argparse.Namespace) -> Iterator[Row]:
    """10^8 points into a netCDF file: computed, copied and written side by side."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        path = pathlib.Path(folder) / "sweep.nc"
        begun = [0.0]

        def ready(asked: Any, plan: Any) -> Callable[[int], None]:
            begun[0] = time.perf_counter()
            return lambda points: None

        asked = grid(int(1e8 * options.scale))
        sweeps.sweep_to_file(path, asked, ready)
        seconds, size = time.perf_counter() - begun[0], path.stat().st_size
    points = size / 8.0  # two outputs of 4 B
    yield {
        "check": "file",
        "rate": points / seconds,
        "points": f"{points:,.0f}",
        "written": f"{size / seconds / 1e9:.2f} GB/s",
    }


def front(options: argparse.Namespace) -> Iterator[Row]:
    """10^9 designs of a space to their Pareto front and the thousand best."""
    source = content(SPECS / "billion.toml")
    # Fewer degrees and batches first, of which each is 29 million designs; then fewer ports.
    share = 36.0 * min(1.0, options.scale)
    work, ports = source["workload"], source["axes"]["hardware.design.ports"]
    source["deployment"]["tp"] = source["deployment"]["tp"][: max(1, round(share / 12.0))]
    work["batch"] = work["batch"][: max(1, min(12, round(share)))]
    ports["n"] = max(2, min(31, round(31.0 * share)))
    with tempfile.TemporaryDirectory(dir=".") as folder:
        begun = time.perf_counter()
        sweeps.sweep_to_folder(f"{folder}/sweep", source)
        seconds = time.perf_counter() - begun
        designs = sum(shard.points for shard in manifest.read(pathlib.Path(folder) / "sweep").shards.values())
    yield {"check": "front", "rate": designs / seconds, "designs": f"{designs:,}", "whole command": f"{seconds:.1f} s"}


def simulations(options: argparse.Namespace) -> Iterator[Row]:
    """Simulated requests/s of many accelerators side by side, 1,000 requests each."""
    number = max(2, int(4096 * options.scale))
    case = serving.CASES["many"]._replace(simulations=number)
    jax.config.update("jax_enable_x64", True)
    try:
        run, *_ = serving.compiled(case)
        seconds = least(run, 1)
    finally:
        jax.config.update("jax_enable_x64", False)
    yield {
        "check": "simulations",
        "rate": number * case.requests / seconds,
        "at once": number,
        "seconds": f"{seconds:.2f}",
    }


CHECKS: dict[str, Callable[[argparse.Namespace], Iterator[Row]]] = {
    "devices": devices,
    "values": values,
    "grid": rates("grid", cases.output_grid, 1e9),
    "sample": rates("sample", cases.sample, 4e6),
    "file": file,
    "front": front,
    "simulations": simulations,
}
"""Check -> its rows."""


if __name__ == "__main__":
    sys.exit(main())

"""`jaxroof bench`: kernels of the device that JAX sees, measured into a netCDF file, and a check of that file."""

import argparse
import time
from typing import Any

from sweeps.answers.to_json import print_json
from sweeps.cli.common import command_words, given, json_argument, known_names, whole_setting
from sweeps.cli.outputs import output_argument
from sweeps.cli.progress import Line
from sweeps.run.compile_cache import compilation_cache

FAMILIES = ("bandwidth", "gemm", "prefill", "decode", "elementwise", "copy", "collective")
"""What `--only` may name."""

PRECISIONS = ("bf16", "fp16", "fp32", "tf32", "fp8", "int8")
"""What `--precision` may name."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    what = "the netCDF file; it appears when it is whole"
    output_argument(parser, "-o", "--output", kinds=("surfaces",), metavar="OUT.nc", help=what)
    what = "also the device as a hardware entry, as measured"
    output_argument(parser, "--hardware-out", kinds=("hardware",), metavar="OUT.toml", help=what)
    parser.add_argument("--budget", metavar="TIME", help="about how long it may take (default 3min)")
    parser.add_argument("--precision", metavar="LIST", help=f"of {', '.join(PRECISIONS)} (default bf16,fp32)")
    parser.add_argument("--only", metavar="LIST", help=f"of {', '.join(FAMILIES)} (default all)")
    parser.add_argument("--attention", metavar="HEADS,KV_HEADS,WIDTH", help="of attention layers (default 32,8,128)")
    parser.add_argument("--seed", metavar="N", help="of the numbers that are multiplied, and of fresh shapes")
    parser.add_argument("--check", metavar="FILE.nc", help="instead: time shapes that FILE.nc lacks, and compare")
    parser.add_argument("--points", metavar="N", help="with --check: fresh shapes of every table (default 12)")
    parser.add_argument("--hardware", metavar="NAME", help="with --check: the device that the file was measured on")
    parser.add_argument("--efficiency", metavar="NAME", help="with --check: constants below the file (default learned)")
    json_argument(parser)


def run(options: argparse.Namespace) -> None:
    """Measure and write, or check."""
    seed = whole_setting(options, "seed", 0, zero=True)
    # A check reads the file that --check names: flags of a measurement contradict it.
    if options.check is not None:
        if foreign := given(options, ("output", "hardware_out", "budget", "attention")):
            raise ValueError(f"--check measures what its file holds; it takes no {foreign[0]}")
        compilation_cache()
        return _check(options, seed)
    # The reverse: flags of a check have no meaning for a measurement.
    if of_check := given(options, ("points", "hardware", "efficiency")):
        raise ValueError(f"{of_check[0]} belongs to --check FILE.nc")
    if options.output is None:
        raise ValueError("-o OUT.nc is missing")
    request = _asked(options, seed)
    compilation_cache()
    _measure(options, request)


class BenchProgress(Line):
    """What is being measured, and how much is left of the budget in s, or of the shapes where they are `counted`."""

    def __init__(self, total: float, counted: bool = False):
        super().__init__(remaining=False)
        self.total, self.counted, self.start, self.done = total, counted, time.perf_counter(), 0

    def add(self, name: str, count: int) -> None:
        """One more shape is done, the `count`-th of `name`."""
        self.done += 1
        # The floor keeps the first shape from a division by zero.
        passed = max(time.perf_counter() - self.start, 1e-9)
        # Of a known number of shapes the time left follows from the rate, of a budget by subtraction.
        left = (self.total - self.done) * passed / self.done if self.counted else max(0.0, self.total - passed)
        text = f"{name}: {count} shapes; in all {self.done}, {self.done / passed:.2g}/s, ETA {left:,.0f} s"
        self.show(text, self.done if self.counted else min(passed, self.total), self.total)


def _asked(options: argparse.Namespace, seed: int) -> Any:
    from hwspaces import quantity
    from sweeps.measure.microbench.kernels import Heads
    from sweeps.measure.microbench.run import BenchRequest

    # Query heads must be a multiple of the heads of keys and values: groups of them share one.
    heads = [text.strip() for text in (options.attention or "32,8,128").split(",")]
    if len(heads) != 3 or not all(text.isdigit() and int(text) for text in heads) or int(heads[0]) % int(heads[1]):
        raise ValueError(f"--attention {options.attention!r} must be HEADS,KV_HEADS,WIDTH, such as 32,8,128")
    return BenchRequest(
        budget=quantity(options.budget or "3min", "s", "--budget"),
        precisions=known_names("--precision", options.precision or "bf16,fp32", PRECISIONS),
        families=known_names("--only", options.only or ",".join(FAMILIES), FAMILIES),
        heads=Heads(*map(int, heads)),
        seed=seed,
    )


def _measure(options: argparse.Namespace, asked: Any) -> None:
    from sweeps.answers import bench as report
    from sweeps.measure.microbench.device import seen_device
    from sweeps.measure.microbench.file import written
    from sweeps.measure.microbench.run import bench

    device, start = seen_device(), time.perf_counter()
    # A hardware entry needs a matrix peak and a memory bandwidth, which these two families measure.
    if options.hardware_out and not {"gemm", "bandwidth"} <= set(asked.families):
        raise ValueError("--hardware-out needs both gemm and bandwidth in --only")
    with BenchProgress(asked.budget) as bar:
        result = bench(asked, device, bar.add)
    # The file repeats the command that made it: these are the flags that matter to it.
    flags = ("output", "hardware_out", "budget", "precision", "only", "attention", "seed")
    command = " ".join(["jaxroof", "bench", *command_words(options, flags)])
    written(options.output, asked, device, result, command, options.hardware_out, options.force)
    seconds = time.perf_counter() - start
    if options.json:
        return print_json(report.record(options, asked, device, result, seconds))
    report.print_found(options, asked, device, result, seconds)


def _check(options: argparse.Namespace, seed: int) -> None:
    from sweeps.answers.bench import print_check
    from sweeps.measure.microbench.check import check_errors, checked_file

    points = whole_setting(options, "points", 12)
    # All families and precisions: those that the file lacks have no table to check.
    families = known_names("--only", options.only or ",".join(FAMILIES), FAMILIES)
    precisions = known_names("--precision", options.precision or ",".join(PRECISIONS), PRECISIONS)
    check = checked_file(options.check, families, precisions, options.hardware, options.efficiency)
    with BenchProgress(points * len(check.tables), counted=True) as bar:
        rows = check.rows(points, seed + 1, bar.add)  # not the numbers that the file was made with
    if options.json:
        return print_json({"errors": check_errors(rows), "rows": [row._asdict() for row in rows]})
    print_check(rows, options.check, check.base.name)

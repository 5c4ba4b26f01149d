"""`jaxroof bench`: kernels of the device that JAX sees, measured into a netCDF file, and a check of that file."""

import argparse
import os
import time
from collections.abc import Sequence
from typing import Any

from sweeps.answers.to_json import print_json
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
    parser.add_argument("--json", action="store_true", help="one JSON object with SI numbers instead of tables")


def run(options: argparse.Namespace) -> None:
    """Measure and write, or check."""
    from sweeps.cli.common import whole_number

    seed = int(whole_number("--seed", options.seed or "0", zero=True))
    if options.check is not None:
        given = [flag for flag in ("output", "hardware_out", "budget", "attention") if getattr(options, flag)]
        if given:
            raise ValueError(f"--check measures what its file holds; it takes no --{given[0].replace('_', '-')}")
        compilation_cache()
        _check(options, seed)
        return
    for flag in ("points", "hardware", "efficiency"):
        if getattr(options, flag) is not None:
            raise ValueError(f"--{flag} belongs to --check FILE.nc")
    if options.output is None:
        raise ValueError("-o OUT.nc is missing")
    asked = _asked(options, seed)
    compilation_cache()
    _measure(options, asked)


class BenchProgress(Line):
    """What is being measured, and how much is left of the budget in s, or of the shapes where they are `counted`."""

    def __init__(self, total: float, counted: bool = False):
        super().__init__(remaining=False)
        self.total, self.counted, self.start, self.done = total, counted, time.perf_counter(), 0

    def add(self, name: str, count: int) -> None:
        """One more shape is done, the `count`-th of `name`."""
        self.done += 1
        passed = max(time.perf_counter() - self.start, 1e-9)
        left = (self.total - self.done) * passed / self.done if self.counted else max(0.0, self.total - passed)
        text = f"{name}: {count} shapes; in all {self.done}, {self.done / passed:.2g}/s, ETA {left:,.0f} s"
        self.show(text, self.done if self.counted else min(passed, self.total), self.total)


def _asked(options: argparse.Namespace, seed: int) -> Any:
    from hwspaces import quantity
    from sweeps.measure.microbench.kernels import Heads
    from sweeps.measure.microbench.run import BenchRequest

    heads = [text.strip() for text in (options.attention or "32,8,128").split(",")]
    if len(heads) != 3 or not all(text.isdigit() and int(text) for text in heads) or int(heads[0]) % int(heads[1]):
        raise ValueError(f"--attention {options.attention!r} must be HEADS,KV_HEADS,WIDTH, such as 32,8,128")
    return BenchRequest(
        budget=quantity(options.budget or "3min", "s", "--budget"),
        precisions=_listed("--precision", options.precision or "bf16,fp32", PRECISIONS),
        families=_listed("--only", options.only or ",".join(FAMILIES), FAMILIES),
        heads=Heads(*map(int, heads)),
        seed=seed,
    )


def _measure(options: argparse.Namespace, asked: Any) -> None:
    import datetime

    from hwspaces.performance.surface import write_surfaces
    from sweeps.measure.microbench.device import hardware_toml, seen_device
    from sweeps.measure.microbench.run import bench

    device, start = seen_device(), time.perf_counter()
    if options.hardware_out and not {"gemm", "bandwidth"} <= set(asked.families):
        raise ValueError("--hardware-out needs both gemm and bandwidth in --only")
    with BenchProgress(asked.budget) as bar:
        found = bench(asked, device, bar.add)
    date = datetime.date.today().isoformat()
    toml = hardware_toml(device, found.figures, date) if options.hardware_out else None
    stored, beside = _stored(found.tables)
    provenance = _provenance(options, asked, device, found, date) | beside
    write_surfaces(options.output, stored, provenance, found.figures.bandwidths, options.force)
    if toml is not None:
        _written(options.hardware_out, toml, options.force)
    from sweeps.answers import bench as report

    seconds = time.perf_counter() - start
    if options.json:
        return print_json(report.record(options, asked, device, found, seconds))
    report.print_found(options, asked, device, found, seconds)


def _check(options: argparse.Namespace, seed: int) -> None:
    import hwspaces
    from hwspaces.performance.surface import read_surfaces
    from hwspaces.performance.surface_efficiency import surface_efficiency
    from sweeps.answers import bench as report
    from sweeps.cli.common import whole_number
    from sweeps.measure.microbench.check import check_errors, checked_rows
    from sweeps.measure.microbench.device import seen_device

    file = read_surfaces(options.check)
    points = int(whole_number("--points", options.points or "12"))
    families = _listed("--only", options.only or ",".join(FAMILIES), FAMILIES)
    precisions = _listed("--precision", options.precision or ",".join(PRECISIONS), PRECISIONS)
    tables = tuple(
        table
        for table in file.tables
        if table.name.partition("_")[0] in families and table.precision in precisions and _benched(table)
    )
    if not tables:
        raise ValueError(f"{options.check}: no table of `jaxroof bench` among those asked for")
    base = hwspaces.efficiency(options.efficiency)
    try:
        entry = hwspaces.hardware(options.hardware or file.provenance.get("device", ""))
    except ValueError as error:
        raise ValueError(f"--hardware, the device of {options.check}, is needed: {error}") from None
    surfaces = surface_efficiency(options.check, base, entry.hardware)
    implementations = {table.name: file.provenance.get(f"{table.name}_implementation", "xla") for table in tables}
    device, total = seen_device(options.hardware), points * len(tables)
    efficiencies = surfaces.efficiency, base.efficiency
    fresh = seed + 1  # not the numbers that the file was made with
    with BenchProgress(total, counted=True) as bar:
        rows = checked_rows(tables, entry.hardware, *efficiencies, device, implementations, points, fresh, bar.add)
    if options.json:
        return print_json({"errors": check_errors(rows), "rows": [row._asdict() for row in rows]})
    report.print_check(rows, options.check, base.name)


def _benched(table: Any) -> bool:
    from sweeps.measure.microbench.run import KINDS

    return KINDS.get(table.name.partition("_")[0]) == table.kind


def _provenance(options: argparse.Namespace, asked: Any, device: Any, found: Any, date: str) -> dict[str, str]:
    """What a file says of its origin; `device` is what an efficiency looks up: a catalogue's name, an entry's file."""
    entry = device.entry.name if device.entry else None
    lookup = entry or (os.path.abspath(options.hardware_out) if options.hardware_out else device.name)
    spreads = {f"{name}_spread": f"{spread:.4f}" for name, spread in found.spreads.items()}
    kernels = {f"{name}_implementation": text for name, text in found.implementations.items()}
    messages = {}
    for name in sorted({message.name for message in found.collectives}):
        own = [message for message in found.collectives if message.name == name]
        messages[f"{name}_seconds"] = _pairs([m.bytes for m in own], [m.measurement.seconds for m in own])
    return {
        "title": f"kernels measured on {device.name}",
        "device": lookup,
        "device_kind": device.name,
        "platform": device.platform,
        "devices": str(device.count),
        **device.versions,
        "date": date,
        "command": " ".join(_command(options)),
        "seed": str(asked.seed),
        "repeats": "5 samples (3 of a long kernel) or 80 ms of samples per shape; a time is their fastest tenth",
        "measures": "device time of one call among several in one compiled program, dispatch taken off; weights and "
        "caches cold, activations warm",
        "dispatch": f"{found.dispatch:.4g} s per program beside its calls, not in the times",
        **spreads,
        **kernels,
        **messages,
    }


def _command(options: argparse.Namespace) -> list[str]:
    words = ["jaxroof", "bench"]
    for flag in ("output", "hardware_out", "budget", "precision", "only", "attention", "seed"):
        if getattr(options, flag) is not None:
            words += [f"--{flag.replace('_', '-')}", str(getattr(options, flag))]
    return words


def _stored(tables: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, str]]:
    """The tables of a file, and others as attributes: only one of them can price element-wise ops, norms the best."""
    beside = {}
    if any(table.name.startswith("elementwise") for table in tables):
        beside = {
            f"{table.name}_seconds": _pairs(table.axes["bytes"], table.seconds)
            for table in tables
            if table.name.startswith("copy")
        }
    return tuple(table for table in tables if f"{table.name}_seconds" not in beside), beside


def _pairs(sizes: Any, seconds: Any) -> str:
    """Sizes in B and times in s as text."""
    return " ".join(f"{size:.0f}:{time:.4g}" for size, time in zip(sizes, seconds, strict=True))


def _listed(flag: str, text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """The names in a list with commas, each once, in the order given."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in names:
        if name not in known:
            raise ValueError(f"{flag} {name!r} is not known; known: {', '.join(known)}")
    if not names:
        raise ValueError(f"{flag} {text!r} names nothing; known: {', '.join(known)}")
    return names


def _written(path: str, text: str, force: bool) -> None:
    from hwspaces.files.output import replacing

    with replacing(path, ("hardware",), force=force) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.write(text)

"""All measured data against predictions, by cell: `python -m tests.evidence.matrix --data DIR`.

Rows that constants were fitted to and rows that they were not never share a cell. The scores go into a dataset of rows,
`evidence.nc`, from which `--from` makes tables again; `--write` keeps the figures of all cells in
tests/evidence/figures.csv and writes docs/evidence/matrix.md; `--check` compares with what is kept, and fails where a
cell that was left out of every fit has become worse by 2 points and a tenth.
"""

import argparse
import concurrent.futures
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xarray as xr
from rich.console import Console
from rich.table import Table

from hwspaces.files import unfinished
from jaxroof.numerics.arrays import jax
from sweeps.measure.validate.relative_errors import grouped
from sweeps.run.compile_cache import compilation_cache
from tests.evidence.figures import KEPT, Move, cells, moves, read, summary, table_by, text_of
from tests.evidence.harness import command, flag, several
from tests.evidence.matrix_page import page
from tests.evidence.matrix_rows import SOURCES
from tests.evidence.matrix_rows.part import LABELS, Left, Measured, Part

PAGE = Path(__file__).parents[2] / "docs" / "evidence" / "matrix.md"

TOTALS = "kind,case"
"""What rows are told apart by where nothing else is asked for."""

LIMITED = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Of the environment: threads of one process, which has a core of its own."""


class Scored(NamedTuple):
    """What became of one share of a source."""

    name: str
    parts: list[Part]
    left: list[Left]
    seconds: float
    working: float  # s of a core


def scored(name: str, folder: Path, share: int, whole: bool = True) -> Scored:
    """The rows of one share of a source; a source that cannot be read is left out with its reason."""
    begun, working, entry = time.perf_counter(), time.process_time(), SOURCES[name]
    data = Measured(folder, share, entry.shares, whole)
    parts: list[Part] = []
    try:
        parts += (part._replace(source=name) for part in entry.parts(data) if len(part.measured))
    except (ValueError, OSError) as error:  # what was read of it before counts
        data.left.append(Left(f"{name} ends: {error}", 0))
    jax.clear_caches()  # of programs of a gigabyte and more, which later shares do not run
    return Scored(name, _joined(parts), data.left, time.perf_counter() - begun, time.process_time() - working)


def _joined(parts: Sequence[Part]) -> list[Part]:
    """Parts of the same labels as one."""
    found = []
    for labels, each in grouped(parts, lambda part: tuple(getattr(part, name) for name in LABELS)).items():
        arrays = {
            name: np.concatenate([np.broadcast_to(getattr(part, name), part.measured.shape) for part in each])
            for name in ("predicted", "measured", "spread")
        }
        found.append(Part(**dict(zip(LABELS, labels, strict=True)), **arrays))
    return found


def every(names: Sequence[str], folder: Path, jobs: int, whole: bool) -> Iterator[Scored]:
    """All shares of the sources as they end, on so many processes."""
    tasks = [(name, share) for name in names for share in range(SOURCES[name].shares)]
    if jobs == 1 or len(tasks) == 1:
        yield from (scored(name, folder, share, whole) for name, share in tasks)
        return
    context = multiprocessing.get_context("spawn")
    # Processes are not replaced after some tasks: in Python 3.12.1 the executor then waits forever.
    with concurrent.futures.ProcessPoolExecutor(jobs, context, initializer=compilation_cache) as pool:
        running = [pool.submit(scored, name, folder, share, whole) for name, share in tasks]
        for done in concurrent.futures.as_completed(running):
            try:
                yield done.result()
            except concurrent.futures.BrokenExecutor:
                raise ValueError("a process was ended from outside, as where memory is short: --jobs 1") from None


# The dataset of rows.


def dataset(parts: Sequence[Part], left: Sequence[Left] = ()) -> xr.Dataset:
    """Every row along `row`, in the order of its part along `part`: ratios and spreads, with labels of parts."""
    columns = {name: np.array([getattr(part, name) for part in parts], object) for name in LABELS}
    ratios = [part.predicted / part.measured for part in parts]
    spreads = [np.broadcast_to(part.spread, part.measured.shape) for part in parts]
    words = {"long_name": "predicted / measured", "units": "1"}, {"long_name": "claimed sd of its logarithm"}
    return xr.Dataset(
        {
            "ratio": ("row", np.concatenate(ratios).astype(np.float32), words[0]),
            "spread": ("row", np.concatenate(spreads).astype(np.float32), words[1]),
            "rows": ("part", np.array([len(part.measured) for part in parts]), {"long_name": "rows of the part"}),
            "without": ("reason", np.array([one.rows for one in left], int), {"long_name": "rows without prediction"}),
        },
        {name: ("part", column) for name, column in columns.items()}
        | {"reason": ("reason", np.array([one.reason for one in left], object))},
    )


def parts_of(found: xr.Dataset) -> tuple[list[Part], list[Left]]:
    """The parts of such a dataset, measured values 1, and rows without a prediction."""
    ends = np.cumsum(found.rows.values)
    ratios, spreads = (np.split(found[name].values.astype(float), ends[:-1]) for name in ("ratio", "spread"))
    labels = [[str(value) for value in found[name].values] for name in LABELS]
    parts = [
        Part(**dict(zip(LABELS, own, strict=True)), predicted=ratio, measured=np.ones(len(ratio)), spread=spread)
        for *own, ratio, spread in zip(*labels, ratios, spreads, strict=True)
    ]
    pairs = zip(found.reason.values, found.without.values, strict=True)
    return parts, [Left(str(reason), int(rows)) for reason, rows in pairs]


# The command.


@command(
    flag("--data", type=Path, metavar="DIR", help="folder of the measured files"),
    flag("--from", dest="kept", type=Path, metavar="FILE", help="rows of an earlier run in place of --data"),
    several("--only", SOURCES, "this source alone"),
    flag("--all", action="store_true", help="every row, in place of samples of what takes longest"),
    flag("--by", metavar="LABELS", help=f"print errors by some of {', '.join(LABELS)} (default: {TOTALS})"),
    flag("--write", action="store_true", help="keep the figures, and write the page"),
    flag(
        "--check",
        nargs="?",
        const=KEPT,
        type=Path,
        metavar="FILE",
        help="compare with the figures that are kept, or with those of a file; 1 where a cell is worse",
    ),
    flag("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (default: one per core)"),
    flag("-o", "--output", type=Path, default=Path("evidence.nc"), help="dataset of all rows (default: evidence.nc)"),
)
def main(options: argparse.Namespace) -> int:
    """Score, print, and write or check the figures."""
    if (options.data is None) == (options.kept is None):
        raise ValueError("give either --data DIR or --from FILE")
    if options.write and options.only:
        raise ValueError("--write keeps figures of all sources: it goes without --only")
    parts, left = _read(options) if options.data is None else _scored(options)
    if not parts:
        raise ValueError(f"no row has a prediction: {left[0].reason if left else 'no source'}")
    console = Console(width=160)
    _print_table(console, parts, (options.by or TOTALS).split(","))
    for one in left:
        console.print(f"left out: {f'{one.rows} rows: ' * (one.rows > 0)}{one.reason} {one.names}", highlight=False)
    found = cells(parts)
    console.print(summary(found))
    if options.write:
        _replace(KEPT, text_of(found))
        _replace(PAGE, page(parts, left))
        console.print(f"{KEPT} and {PAGE} are written")
    if options.check is None:
        return 0
    kept = read(options.check)
    console.print(f"{len(found.keys() - kept.keys())} cells are new")
    return _checked(console, list(moves(found, kept, _kinds(options, parts))))


def _read(options: argparse.Namespace) -> tuple[list[Part], list[Left]]:
    with xr.open_dataset(options.kept) as found:
        parts, left = parts_of(found.load())
    return [part for part in parts if not options.only or part.source in options.only], left


def _scored(options: argparse.Namespace) -> tuple[list[Part], list[Left]]:
    if not options.data.is_dir():
        raise ValueError(f"{options.data}: no such folder")
    os.environ.update(dict.fromkeys(LIMITED, "1"))
    compilation_cache()
    parts: list[Part] = []
    left: list[Left] = []
    begun = time.perf_counter()
    for one in every(options.only or list(SOURCES), options.data, options.jobs, options.all):
        rows = sum(len(part.measured) for part in one.parts)
        took = f"{one.seconds:.0f} s, {one.working:.0f} s of a core"
        print(f"{one.name}: {rows:,} rows in {took}", file=sys.stderr, flush=True)
        parts, left = parts + one.parts, left + one.left
    # In one order, whichever process ended first.
    parts.sort(key=lambda part: tuple(getattr(part, name) for name in LABELS))
    left.sort()
    print(f"all: {time.perf_counter() - begun:.0f} s", file=sys.stderr, flush=True)
    if parts:
        unfinished_file = unfinished.begun(options.output)
        dataset(parts, left).to_netcdf(unfinished_file)
        unfinished.adopted(unfinished_file, options.output)
    return parts, left


def _kinds(options: argparse.Namespace, parts: Sequence[Part]) -> list[str] | None:
    """Kinds that were scored, where some sources were asked for alone; None: all."""
    return sorted({part.kind for part in parts}) if options.only else None


def _print_table(console: Console, parts: Sequence[Part], labels: Sequence[str]) -> None:
    names = dict.fromkeys(("kind", "case", *labels, "fitted by"))
    table = Table(title="predicted / measured - 1 in %, rows inside the 90 % interval in %, its factor either way")
    for name in (*names, "rows", "median", "MAPE", "signed", "in 90 %", "factor"):
        table.add_column(name)
    for (*key, fit), each in table_by(parts, labels).items():
        errors = (f"{each.median:.1f}", f"{each.mape:.1f}", f"{each.signed:+.1f}")
        stated = ("-", "-") if np.isnan(each.coverage) else (f"{each.coverage:.0f}", f"{each.width:.2f}")
        table.add_row(*key, fit or "left out", f"{each.rows:,}", *errors, *stated)
    console.print(table)


def _checked(console: Console, found: Sequence[Move]) -> int:
    """Print what moved; 1 where something fails."""
    failed = [one for one in found if one.fails]
    table = Table(title="cells that moved: median, MAPE in %")
    for name in ("what", "cell", "fitted by", "rows", "before", "now"):
        table.add_column(name)
    for one in [*failed, *(one for one in found if not one.fails)]:
        texts = ("-" if each is None else f"{each.median:.1f}, {each.mape:.1f}" for each in (one.before, one.now))
        rows = str((one.now or one.before).rows)  # type: ignore[union-attr]
        words = f"{one.why}: fails" if one.fails else one.why
        table.add_row(words, str(one.cell), one.cell.fit or "left out", rows, *texts)
    if found:
        console.print(table)
    console.print(
        f"{len(failed)} of the cells that were left out fail" if failed else "no cell that was left out fails"
    )
    return int(bool(failed))


def _replace(file: Path, text: str) -> None:
    part = unfinished.begun(file)
    Path(part).write_text(text, encoding="utf-8")
    unfinished.adopted(part, file)


if __name__ == "__main__":
    sys.exit(main())

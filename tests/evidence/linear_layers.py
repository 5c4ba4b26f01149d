"""Errors on measured kernels of layers with states, residual streams and encoders: `linear_layers --data DIR`.

Median / MAPE and signed median in %, of all rows and of those of 30 us and more; shapes that no fit saw apart.
"""

import argparse
import dataclasses
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

import hwspaces
from jaxroof.efficiency import Efficiency, Kernels
from jaxroof.efficiency.timing import SHORT
from jaxroof.numerics.arrays import eager
from jaxroof.roofline import op_timing
from sweeps.measure.kernel_data.group import KernelGroup
from sweeps.measure.validate.relative_errors import errors
from tests.evidence.class_tables import KINDS, OWN
from tests.evidence.harness import command, data, flag, several
from tests.evidence.layer_rows import TABLES, excluded_rows, layer_groups
from tests.evidence.learned_kernels.layer_fit import left_out

KEYS = ("gpu", "engine", "version", "kernel", "role", "model")
"""What errors may be grouped by."""

MODEL = {
    "gdn": ("num_k_heads", "num_v_heads"),
    "kda": ("num_v_heads",),
    "mamba2": ("nheads", "d_state"),
    "mhc": ("hidden_size",),
    "encoder": ("head_dim",),
}
"""Family of a group -> the columns that tell models apart."""

TABLE = several("--table", TABLES, "a table; may be given again (default: all)")
ROWS = flag(
    "--sample", type=int, metavar="N", help="rows of every group that are scored, drawn at random (default: all)"
)
BY = several("--by", KEYS, "what errors are grouped by; may be given again (default: engine)")
WITHOUT = flag("--without", action="store_true", help="price them as before they had constants of their own")
PLOT = flag("--plot", type=Path, metavar="FILE", help="write a picture of predicted over measured time")


class Scored(NamedTuple):
    """Predicted and measured s of one group of rows, shape [rows]."""

    table: str
    group: KernelGroup
    predicted: np.ndarray
    unseen: np.ndarray  # bool: of shapes that no fit saw


@command(data("folder with kernels3/ and kernels/"), TABLE, BY, ROWS, WITHOUT, PLOT)
def main(options: argparse.Namespace) -> None:
    """Score and print."""
    console, found = Console(width=160), []
    for name in options.table or TABLES:
        for words, count in excluded_rows(options.data, name):
            console.print(f"{name}: {count:,} rows are left out: {words}")
        found += scored(options.data, name, options.sample, options.without)
    console.print(error_table(found, options.by or ["engine"]))
    if options.plot is not None:
        from tests.evidence.layer_picture import picture

        picture(found, options.plot)


def scored(folder: Path, name: str, rows: int | None = None, without: bool = False) -> list[Scored]:
    """Every group of a table under its engine's constants."""
    found = []
    for group in layer_groups(folder, name):
        if rows is not None and len(group) > rows:
            group = group.chosen(np.sort(np.random.default_rng(0).permutation(len(group))[:rows]))
        efficiency = hwspaces.efficiency(f"learned-{group.engine}").efficiency
        efficiency = shared(efficiency) if without else efficiency
        found.append(Scored(name, group, seconds(group, efficiency), left_out(group)))
    return found


def seconds(group: KernelGroup, efficiency: Efficiency) -> np.ndarray:
    """Predicted s of every row, in NumPy's arithmetic."""
    hardware = hwspaces.hardware(group.device).hardware
    with eager():
        times = [op.count * op_timing(op, hardware, efficiency).total for op in group.call(group.columns)]
    return np.broadcast_to(np.sum([np.broadcast_to(time, len(group)) for time in times], axis=0), len(group))


def shared(efficiency: Efficiency) -> Efficiency:
    """The efficiency without classes of kernels that these tables gave constants of their own."""
    none = dict.fromkeys(OWN)
    entries = {kind: getattr(efficiency, kind) for kind in KINDS}
    return dataclasses.replace(
        efficiency,
        **{kind: dataclasses.replace(one, **none) for kind, one in entries.items() if isinstance(one, Kernels)},
    )


def error_table(found: Iterable[Scored], keys: Iterable[str]) -> Table:
    """Errors by table and further keys."""
    names = ("table", *keys)
    rows: dict[tuple[str, ...], list[tuple[np.ndarray, ...]]] = {}
    for one in found:
        for label, chosen in _labels(one, names):
            own = (one.predicted[chosen], one.group.seconds[chosen], one.unseen[chosen])
            rows.setdefault(label, []).append(own)
    table = Table(title="median / MAPE, signed median in %", title_justify="left")
    for name in (*names, "rows", "fitted shapes", "from 30 us", "shapes left out", "from 30 us"):
        table.add_column(name)
    for label, parts in sorted(rows.items()):
        predicted, measured, unseen = (np.concatenate(column) for column in zip(*parts, strict=True))
        long = measured >= SHORT
        masks = (~unseen, ~unseen & long, unseen, unseen & long)
        table.add_row(*label, f"{len(measured):,}", *(_text(predicted[mask], measured[mask]) for mask in masks))
    return table


def _labels(one: Scored, names: tuple[str, ...]) -> Iterable[tuple[tuple[str, ...], np.ndarray]]:
    group, plain = one.group, {"table": one.table}
    plain |= {"gpu": group.device, "engine": group.engine, "version": group.version, "kernel": group.kernel}
    plain |= {"role": group.precision}
    everything = np.ones(len(group), bool)
    if "model" not in names:
        yield tuple(plain[name] for name in names), everything
        return
    columns = MODEL[group.family]
    values = np.stack([group.columns[name] for name in columns], axis=1)
    for value in np.unique(values, axis=0):
        words = {"model": ", ".join(f"{name} {v:g}" for name, v in zip(columns, value, strict=True))}
        yield tuple((plain | words)[name] for name in names), np.all(values == value, axis=1)


def _text(predicted: np.ndarray, measured: np.ndarray) -> str:
    if not len(measured):
        return ""
    each = errors(predicted, measured)
    return f"{100 * each.median:.1f}/{100 * each.mape:.1f} {100 * each.signed:+.1f}"


if __name__ == "__main__":
    sys.exit(main())

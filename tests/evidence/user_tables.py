"""Errors of a user's tables of kernels on shapes that were left out of them, with the table and without.

    python -m tests.evidence.user_tables --data DIR

Every third shape of every table is left out; then every third site: a weight matrix, or a set of heads. `DIR` has the
folder `other/`, and `kernels/` for tables of aiconfigurator.
"""

import argparse
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import hwspaces
from hwspaces.performance.surface import SurfaceTable, table_rows
from hwspaces.performance.surface_efficiency import log_ratios, with_surfaces
from jaxroof.efficiency import Efficiency
from jaxroof.efficiency.timing import SHORT
from jaxroof.hardware import Hardware
from sweeps.measure.surface_import import WantedRows, imported
from tests.evidence.harness import EFFICIENCY, command, data, flag

EVERY = 3
"""One of so many shapes is left out."""

SITES = {
    "linear": ("n", "k"),
    "experts": ("n", "k", "matrices"),
    "expert_layer": ("hidden", "inner", "matrices"),
    "prefill_attention": ("heads", "kv_heads", "head_dim", "sequences"),
    "decode_attention": ("heads", "kv_heads", "head_dim", "sequences"),
}
"""Kind of a table -> what a site is: shapes that differ in nothing else than these are one."""


class Case(NamedTuple):
    """Tables of one publisher on one device."""

    name: str
    files: tuple[str, ...]  # inside of the data folder
    wanted: WantedRows


CASES = (
    Case("InferSim, H800", ("other/mfu_tables.csv",), WantedRows(gpu="h800")),
    Case("BLIS, H100", ("other/mfu_tables.csv",), WantedRows(gpu="h100")),
    *(
        Case(f"aiconfigurator, H200, {engine}, {name}", (f"kernels/aic_{name}.parquet",), WantedRows("h200", engine))
        for engine in ("trtllm", "sglang")
        for name in ("gemm", "moe", "attention_context", "attention_generation", "mla_context", "mla_generation")
    ),
)


class Errors(NamedTuple):
    """Relative errors of predicted times, shares."""

    rows: int
    median: float
    mape: float
    long: float  # MAPE of times of `SHORT` s and more; NaN: none


class LeftOut(NamedTuple):
    """Errors of one kind of tables on what was left out of them."""

    kind: str
    without: Errors  # the model below alone
    with_table: Errors


def left_out(
    tables: Sequence[SurfaceTable], efficiency: Efficiency, hardware: Hardware, sites: bool = False
) -> list[LeftOut]:
    """Errors on every third shape of every table, or on the shapes of every third site, by kind of table.

    Args:
      tables: of one device.
      efficiency: the model below.
      hardware: that was measured.
      sites: leave out whole sites.
    """
    masks = _site_masks(tables) if sites else [_shape_mask(table) for table in tables]
    # A table without a shape left is none.
    kept = [_reduced(table, ~mask) for table, mask in zip(tables, masks, strict=True) if not mask.all()]
    both = [efficiency, with_surfaces(efficiency, kept, hardware, "left out")]
    ratios = [log_ratios(tables, constants, hardware, "left out") for constants in both]
    found = []
    for kind in dict.fromkeys(kind_of(table) for table in tables):
        own = [(i, mask) for i, (table, mask) in enumerate(zip(tables, masks, strict=True)) if kind_of(table) == kind]
        if not sum(int(mask.sum()) for _, mask in own):
            continue
        seconds = np.concatenate([tables[i].seconds[tables[i].measured][mask] for i, mask in own])
        logs = [np.concatenate([one[i][tables[i].measured][mask] for i, mask in own]) for one in ratios]
        found.append(LeftOut(kind, *(_errors(own_logs, seconds) for own_logs in logs)))
    return found


def kind_of(table: SurfaceTable) -> str:
    """Kind of a table in words."""
    words = ["latent"] if table.labels.get("latent") else []
    words += ["sparse"] if "selected" in table.labels else []
    return " ".join([*words, table.kind.replace("_", " "), table.precision])


def cases(folder: Path, chosen: Sequence[Case] = CASES) -> Iterator[tuple[str, tuple[SurfaceTable, ...], Hardware]]:
    """Name, tables and device of every case whose files are there."""
    for case in chosen:
        files = [folder / file for file in case.files]
        if all(file.is_file() for file in files):
            own = imported(files, wanted=case.wanted, drop=True)
            yield case.name, own.tables, hwspaces.hardware(own.device).hardware


def _errors(logs: np.ndarray, seconds: np.ndarray) -> Errors:
    relative = np.abs(np.expm1(-logs))
    long = relative[seconds >= SHORT]
    return Errors(
        len(logs), float(np.median(relative)), float(relative.mean()), float(long.mean()) if len(long) else np.nan
    )


def _shape_mask(table: SurfaceTable) -> np.ndarray:
    """Every third measured shape, in the order of a grid's positions, shape [measured times]."""
    rows = table_rows(table)
    order = np.lexsort([rows[name] for name in reversed(table.axes)])
    mask = np.zeros(len(order), bool)
    mask[order[1::EVERY]] = True
    return mask


def _site_masks(tables: Sequence[SurfaceTable]) -> list[np.ndarray]:
    """Shapes of every third site over all tables of a kind."""
    sites = []
    for table in tables:
        rows = table_rows(table)
        names = [name for name in SITES.get(table.kind, ()) if name in rows]
        count = int(table.measured.sum())
        sites.append([(kind_of(table), *(float(rows[name][i]) for name in names)) for i in range(count)])
    out = set()
    for kind in {kind_of(table) for table in tables}:
        own = sorted({site for part in sites for site in part if site[0] == kind})
        out |= set(own[1::EVERY])
    return [np.array([site in out for site in part], bool) for part in sites]


def _reduced(table: SurfaceTable, kept: np.ndarray) -> SurfaceTable:
    if table.listed:
        axes = {name: own[kept] for name, own in table.axes.items()}
        return dataclasses.replace(table, axes=axes, seconds=table.seconds[kept])
    seconds = table.seconds.copy()
    seconds[tuple(index[~kept] for index in np.nonzero(table.measured))] = np.nan
    return dataclasses.replace(table, seconds=seconds)


@command(
    data("the measured files"), EFFICIENCY, flag("--only", default="", metavar="TEXT", help="cases with this text")
)
def main(options: argparse.Namespace) -> None:
    """Errors of every case, of shapes and of sites that were left out."""
    base = hwspaces.efficiency(options.efficiency).efficiency
    chosen = [case for case in CASES if options.only in case.name]
    for name, tables, hardware in cases(options.data, chosen):
        for sites in (False, True):
            print(f"{name}: every third {'site' if sites else 'shape'} left out; median / MAPE / MAPE >= 30 us, %")
            for one in left_out(tables, base, hardware, sites):
                parts = [f"{100 * e.median:6.1f} / {100 * e.mape:6.1f} / {100 * e.long:6.1f}" for e in one[1:]]
                print(f"  {one.kind:42s} {one.without.rows:6d}  without {parts[0]}  with {parts[1]}")


if __name__ == "__main__":
    raise SystemExit(main())

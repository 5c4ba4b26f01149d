"""Saturated throughput of published runs, predicted and measured: `python -m tests.evidence.saturated_throughput`."""

import argparse
import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from jaxroof.efficiency import Efficiency
from jaxroof.numerics.arrays import eager
from sweeps.measure.validate.relative_errors import errors, grouped
from tests.evidence.engine_constants import engine_efficiencies
from tests.evidence.harness import EVERY_ROW, command, data, flag, several
from tests.evidence.saturated_load import Saturated, throughput
from tests.evidence.saturated_rows import closed_loops, inferencex, offline, steady, streamed

SOURCES: dict[str, Callable[[Path, Mapping[str, Efficiency]], list[Saturated]]] = {
    "silicon": closed_loops,
    "inferencex": inferencex,
    "mlperf": offline,
    "blis": steady,
    "mlenergy": streamed,
}
"""Name on the command line -> the rows of one file."""

KEYS: dict[str, Callable[[Saturated], str]] = {
    "all": lambda one: "",
    "engine": lambda one: one.engine,
    "GPU": lambda one: one.gpu,
}


@dataclasses.dataclass(frozen=True)
class Found:
    """A row with its predictions in tokens/s."""

    row: Saturated
    predicted: float
    after: float  # with all of the host's time after the device's


def found(rows: Sequence[Saturated], efficiencies: Mapping[str, Efficiency]) -> list[Found]:
    """Both predictions of every row that fits its device."""
    out = []
    with eager():
        for row in rows:
            late = dataclasses.replace(row, rules=dataclasses.replace(row.rules, hidden_host=0.0))
            efficiency = efficiencies[row.engine]
            one = Found(row, throughput(row, efficiency), throughput(late, efficiency))
            out += [one] if one.predicted > 0.0 else []
    return out


@command(
    data("folder with e2e/ and serving2/"),
    several("--source", SOURCES, "whose rows (default: all)"),
    flag("--efficiency", metavar="NAME", help="constants for all engines (default: learned)"),
    EVERY_ROW,
)
def main(options: argparse.Namespace) -> None:
    """Score, print; returns the exit status."""
    console = Console(width=140)
    efficiencies = engine_efficiencies(options.efficiency)
    for name in options.source or SOURCES:
        _print(console, found(SOURCES[name](options.data, efficiencies), efficiencies), options.rows)


def _print(console: Console, results: Sequence[Found], every: bool) -> None:
    if not results:
        return
    table = Table(title=f"{results[0].row.source}: errors of output tokens/s, median, MAPE, signed in %")
    for name in ("by", "", "parameters", "rows", "as the engine works", "all of the host after the device"):
        table.add_column(name)
    for key, label in KEYS.items():
        groups = grouped(results, lambda one, label=label: (label(one.row), one.row.large))
        for (value, large), group in sorted(groups.items()):
            measured = [one.row.tokens_per_second for one in group]
            texts = [_text([one.predicted for one in group], measured), _text([one.after for one in group], measured)]
            table.add_row(key, value, "30 B and more" if large else "fewer", str(len(group)), *texts)
    console.print(table)
    for one in results if every else ():
        measured = one.row.tokens_per_second
        shares = f"{one.predicted / measured:6.3f} {one.after / measured:6.3f}"
        console.print(f"{shares}  {measured:9.0f} tokens/s  {one.row.engine} {one.row.gpu} {one.row.label}")


def _text(predicted: Sequence[float], measured: Sequence[float]) -> str:
    each = errors(np.asarray(predicted), np.asarray(measured))
    return f"{100 * each.median:.1f}, {100 * each.mape:.1f}, {100 * each.signed:+.1f}"


if __name__ == "__main__":
    sys.exit(main())

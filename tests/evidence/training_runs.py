"""Iterations of published training runs, predicted: `python -m tests.evidence.training_runs --data DIR`."""

import argparse
import sys
from collections.abc import Sequence
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

import hwspaces
from jaxroof.efficiency import Efficiency
from jaxroof.numerics.arrays import eager
from jaxroof.training import iteration_cost
from sweeps.measure.validate.measured_csv import by_reason
from sweeps.measure.validate.relative_errors import errors, grouped
from tests.evidence.harness import EFFICIENCY, command, data, flag
from tests.evidence.training_rows import Run, training_runs


class Scored(NamedTuple):
    """A run and the time in s that is predicted for its iteration."""

    run: Run
    predicted: float

    @property
    def error(self) -> float:
        """predicted / measured - 1."""
        return self.predicted / self.run.seconds - 1.0


def scored_runs(runs: Sequence[Run], efficiency: Efficiency) -> list[Scored]:
    """Every run with its prediction."""
    with eager():
        times = [
            float(iteration_cost(run.hardware, run.model, run.deployment, run.training, efficiency).time)
            for run in runs
        ]
    return [Scored(*pair) for pair in zip(runs, times, strict=True)]


@command(data("folder with serving2/"), EFFICIENCY, flag("--rows", action="store_true", help="also print every run"))
def main(options: argparse.Namespace) -> None:
    """Score, print; returns the exit status."""
    console = Console(width=140)
    runs, left = training_runs(options.data)
    found = scored_runs(runs, hwspaces.efficiency(options.efficiency).efficiency)
    table = Table("publisher", "device", "what ran", "precision", "runs", "median, MAPE", "signed")
    groups = grouped(found, lambda one: (one.run.engine, one.run.device, one.run.case, one.run.precision))
    totals = grouped(found, lambda one: (one.run.engine, "all", "", ""))
    for key, members in (*sorted(groups.items()), *totals.items()):
        each = errors([one.predicted for one in members], [one.run.seconds for one in members])
        texts = f"{100 * each.median:.1f}, {100 * each.mape:.1f}", f"{100 * each.signed:+.1f}"
        table.add_row(*key, str(len(members)), *texts)
    console.print(table)
    for reason, members in by_reason(left):
        console.print(f"left out, {len(members)} rows: {reason}", highlight=False)
    for one in found if options.rows else ():
        run = one.run
        split = f"tp {run.deployment.tp:g} dp {run.deployment.dp:g}"
        console.print(f"{100 * one.error:+6.1f} %  {run.device} {run.case} {run.precision} {split}", highlight=False)


if __name__ == "__main__":
    sys.exit(main())

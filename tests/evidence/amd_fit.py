"""Fit of SGLang's kernels on AMD's data-centre GPUs: `python -m tests.evidence.amd_fit --data DIR`."""

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

import hwspaces
from jaxroof.efficiency import Efficiency
from sweeps.ask.axes import leaf
from sweeps.measure.validate.relative_errors import errors
from sweeps.measure.validate.serving.serving_points import ServingPoint
from tests.evidence.harness import data, fitting
from tests.evidence.inferencex_points import published
from tests.evidence.serving_fit import Constant, nearest, predicted, task, with_constant

ENGINE = "sglang"
"""Whose runs of 8-bit and of 4-bit weights there are, on two generations of compute units."""

CONSTANT, MOST = "experts.scaled.wide_waves.bandwidth", 1.0
"""What moves, and its largest value: 8-bit experts with block scales stream far below the memory's bandwidth."""

SPREAD = 0.5
"""Standard deviation of its logarithm, around the value that it has on other GPUs."""


def with_waves(efficiency: Efficiency) -> Efficiency:
    """`efficiency` with the constant at its general value."""
    scaled = efficiency.experts.scaled
    scaled = dataclasses.replace(scaled, wide_waves={"bandwidth": scaled.bandwidth})
    return dataclasses.replace(efficiency, experts=dataclasses.replace(efficiency.experts, scaled=scaled))


def amd_points(folder: Path) -> list[ServingPoint]:
    """Runs of the engine on AMD's devices."""
    points = [one.point for one in published(folder)[0]]
    return [one for one in points if one.vendor == "AMD" and one.engine == ENGINE]


@fitting(data("folder with serving2/"))
def main(options: argparse.Namespace, console: Console) -> str:
    """Fit and print."""
    found = amd_points(options.data)
    entry = hwspaces.efficiency(f"learned-{ENGINE}")
    start = with_waves(entry.efficiency)
    general = float(start.experts.scaled.bandwidth)
    moved = (Constant(CONSTANT, (CONSTANT,), general, SPREAD, MOST, "its value on other GPUs"),)
    devices = sorted({one.gpu for one in found})
    table = Table("fitted to", CONSTANT, "judged on", "TPOT: median", "MAPE", "signed")

    # each device judged by the constant of the others, then all by that of all
    _add(table, "nothing", general, found, start)
    for device in devices:
        others, own = ([one for one in found if (one.gpu == device) == here] for here in (False, True))
        result = nearest(task(others, start), start, moved)
        _add(table, ", ".join(sorted({one.gpu for one in others})), result.values[0], own, result.efficiency)
    result = nearest(task(found, start), start, moved)
    _add(table, "all", result.values[0], found, result.efficiency)
    console.print(table)

    source = f"fitted to {len(found)} public points of {ENGINE} on {', '.join(devices)}: tests.evidence.amd_fit"
    text = (Path(hwspaces.__file__).parents[1] / entry.file).read_text(encoding="utf-8")
    return with_constant(text, CONSTANT, leaf(result.efficiency, CONSTANT), source)


def _add(table: Table, fitted: str, value: float, points: Sequence[ServingPoint], efficiency: Efficiency) -> None:
    """One row for every device of `points`."""
    for device in sorted({one.gpu for one in points}):
        own = task([one for one in points if one.gpu == device], efficiency)
        found = errors(predicted(own, efficiency), own.measured)
        shares = (f"{found.median:.1%}", f"{found.mape:.1%}", f"{found.signed:+.1%}")
        table.add_row(fitted, f"{value:.3g}", device, *shares)


if __name__ == "__main__":
    sys.exit(main())

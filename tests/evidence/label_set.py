"""Errors on all kernels of NeuSight's label set: `python -m tests.evidence.label_set --data DIR [--held-out]`."""

import argparse
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import hwspaces
from jaxroof.efficiency import Efficiency
from sweeps.measure.validate.relative_errors import errors
from sweeps.measure.validate.training_passes import EFFICIENCY
from tests.evidence.eager_fit import fitted
from tests.evidence.harness import command, data, flag
from tests.evidence.label_rows import FILE, PRODUCTS, label_rows, predicted

SHAPE = ["op", "B", "H", "M", "N", "K"]

ELEMENTWISE = "element-wise"
"""Operations that are neither products nor norms, taken together."""

ALONE = (*PRODUCTS, "softmax", "ln")

ALL = "all"


@command(
    data(f"folder with other/{FILE}"),
    flag("--efficiency", default=EFFICIENCY, metavar="NAME_OR_FILE", help="constants to score"),
    flag("--held-out", action="store_true", help="fit again without each device, and without shapes"),
)
def main(options: argparse.Namespace) -> None:
    """Print the table; returns the exit status."""
    rows = label_rows(options.data)
    scored = {"": predicted(rows, hwspaces.efficiency(options.efficiency).efficiency)}
    if options.held_out:
        scored["device left out"] = left_out(rows, rows.device, fitted)
        scored["shapes left out"] = left_out(rows, shape_halves(rows), fitted)
    print(table(rows, scored))


def shape_halves(rows: Any) -> np.ndarray:
    """0 or 1 per row: every second shape of every operation, all devices alike."""
    return rows.groupby(SHAPE, sort=True).ngroup().to_numpy() % 2


def left_out(rows: Any, parts: Any, fit: Callable[[Any], Efficiency]) -> np.ndarray:
    """Predictions of every part of the rows by constants that are fitted to the other parts."""
    labels, found = np.asarray(parts), np.empty(len(rows))
    for label in np.unique(labels):
        inside = labels == label
        found[inside] = predicted(rows[inside], fit(rows[~inside]))
    return found


def table(rows: Any, scored: dict[str, np.ndarray]) -> str:
    """Mean and median absolute error by device and operation in per cent, and the number of rows, as Markdown."""
    kinds = rows.op.where(rows.op.isin(ALONE), ELEMENTWISE).to_numpy()
    measured, devices = rows.seconds.to_numpy(), rows.device.to_numpy()
    heads = ["device", "operation", "rows"]
    heads += [f"{name} {word}".strip() for name in scored for word in ("mean", "median")]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for device in (*sorted(set(devices)), ALL):
        for kind in (*ALONE, ELEMENTWISE, ALL):
            inside = ((devices == device) | (device == ALL)) & ((kinds == kind) | (kind == ALL))
            if not inside.any():
                continue
            cells = [device, kind, f"{inside.sum():,}"]
            for seconds in scored.values():
                found = errors(seconds[inside], measured[inside])
                cells += [f"{found.mape:.1%}", f"{found.median:.1%}"]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

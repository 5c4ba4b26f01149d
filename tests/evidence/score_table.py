"""A table of errors by device and by model: what evidence of measured runs prints."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from rich.table import Table

from sweeps.measure.validate.relative_errors import errors, grouped

Figures = Mapping[str, tuple[Callable[[Any], float], Callable[[Any], float]]]
"""What is scored -> the prediction and the measured value."""


def score_table(
    found: Sequence[Any],
    figures: Figures,
    gpu: Callable[[Any], str],
    model: Callable[[Any], str],
    split: tuple[str, Callable[[Any], bool], str, str],
) -> Table:
    """Median, MAPE and signed error in % of every figure, by device and then by model too.

    Args:
      gpu, model: of a row.
      split: what rows are told apart by besides: its heading, its truth for a row, and the texts of yes and no.
    """
    head, holds, yes, no = split
    table = Table(title="errors of median, MAPE, signed in %")
    for each in ("by", head, "rows", *figures):
        table.add_column(each)
    keys: tuple[Callable[[Any], str], ...] = (lambda one: "", model)
    for key in keys:
        groups = grouped(found, lambda one, key=key: (gpu(one), key(one), holds(one)))
        for (device, name, held), group in sorted(groups.items()):
            texts = [_text(group, *pair) for pair in figures.values()]
            table.add_row(f"{device} {name}", yes if held else no, str(len(group)), *texts)
    return table


def _text(group: Sequence[Any], predicted: Callable[[Any], float], measured: Callable[[Any], float]) -> str:
    each = errors(np.array([predicted(one) for one in group]), np.array([measured(one) for one in group]))
    return f"{100 * each.median:.1f}, {100 * each.mape:.1f}, {100 * each.signed:+.1f}"

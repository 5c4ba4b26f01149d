"""One scorer: rows by their labels, and mean, median and sign of predicted / measured - 1 over them."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

Row = TypeVar("Row")
Label = TypeVar("Label")


def grouped(rows: Iterable[Row], label: Callable[[Row], Label]) -> dict[Label, list[Row]]:
    """The rows by their label, in the order in which labels come first."""
    found: dict[Label, list[Row]] = {}
    for row in rows:
        found.setdefault(label(row), []).append(row)
    return found


class Errors(NamedTuple):
    """Relative errors of predictions, predicted / measured - 1."""

    mape: float  # mean of the absolute
    median: float  # median of the absolute
    signed: float  # median


def errors(predicted: np.ndarray | Sequence[float], measured: np.ndarray | Sequence[float]) -> Errors:
    """How far predictions are off, from arrays of one shape and unit."""
    relative = np.asarray(predicted) / np.asarray(measured) - 1.0
    absolute = np.abs(relative)
    return Errors(float(np.mean(absolute)), float(np.median(absolute)), float(np.median(relative)))


def error_summary(predicted: np.ndarray | Sequence[float], measured: np.ndarray | Sequence[float]) -> dict[str, float]:
    """rows, mape, median_ape and signed_median of predicted / measured - 1, as the command prints them."""
    found = errors(predicted, measured)
    return {"rows": len(measured), "mape": found.mape, "median_ape": found.median, "signed_median": found.signed}

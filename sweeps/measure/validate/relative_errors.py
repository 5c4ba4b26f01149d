"""Relative errors of predictions: mean, median and sign of predicted / measured - 1."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


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

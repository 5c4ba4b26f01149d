"""One scorer: rows by their labels, and mean, median and sign of predicted / measured - 1 over them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from jaxroof.numerics.arrays import jax

Row = TypeVar("Row")
Label = TypeVar("Label")


def grouped(rows: Iterable[Row], label: Callable[[Row], Label]) -> dict[Label, list[Row]]:
    """The rows by their label, in the order in which labels come first."""
    rows_by_label: dict[Label, list[Row]] = {}
    for row in rows:
        rows_by_label.setdefault(label(row), []).append(row)
    return rows_by_label


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
    summary = errors(predicted, measured)
    return {"rows": len(measured), "mape": summary.mape, "median_ape": summary.median, "signed_median": summary.signed}


# Structs of one structure as one struct of arrays, so that one compiled function prices them all.


def stack(trees: Sequence[Any]) -> Any:
    """Trees of one structure as one tree whose leaves have a first axis of shape [trees]."""
    return jax.tree.map(lambda *leaves: np.asarray(leaves, dtype=float), *trees)


def positions_by_structure(trees: Sequence[Any]) -> list[list[int]]:
    """Positions of the trees of each structure, in the order in which structures come first."""
    return list(grouped(range(len(trees)), lambda position: jax.tree.structure(trees[position])).values())


def stacked(trees: Sequence[Any]) -> tuple[np.ndarray, list[Any]]:
    """Trees of one structure as one tree of arrays each; and where in their concatenation each of `trees` stands."""
    kinds = positions_by_structure(trees)
    # The inverse of the permutation that grouping made puts results back into the order of `trees`.
    return np.argsort(np.concatenate(kinds)), [stack([trees[i] for i in positions]) for positions in kinds]

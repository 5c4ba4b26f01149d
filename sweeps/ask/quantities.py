"""Numbers from what a user writes, each within the range that its declaration gives."""

from typing import Any

import numpy as np

from hwspaces.quantities.leaves import declared_quantity
from hwspaces.quantities.units import quantity
from sweeps.ask.leaves import leaf


def quantity_or_zero(value: Any, unit: str, path: str) -> float:
    """`value` of the leaf at `path` in the SI unit `unit`; ValueError names the path, the value and what is allowed."""
    declared = leaf(path)
    if declared is None or declared.structure:
        return quantity(value, unit, path)
    return declared_quantity(value, declared, path)


def along_range(path: str, numbers: np.ndarray) -> np.ndarray:
    """Numbers that a range gives the leaf at `path`: of a count the nearest whole ones."""
    declared = leaf(path)
    return np.round(numbers) if declared is not None and declared.counts else numbers

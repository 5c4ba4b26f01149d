"""Numbers from what a user writes, each within the range that its declaration gives."""

import math
from typing import Any

import numpy as np

from hwspaces.leaves import leaf_quantity
from hwspaces.units import is_zero, quantity
from jaxroof.field import Declaration
from sweeps.ask.leaves import leaf, plain_path


def quantity_or_zero(value: Any, unit: str, path: str) -> float:
    """`value` of the leaf at `path` in the SI unit `unit`; ValueError names the path, the value and what is allowed."""
    if plain_path(path).startswith("hardware."):
        return leaf_quantity(value, plain_path(path), path)
    declared = leaf(path)
    if declared is None or declared.structure:
        return quantity(value, unit, path)
    return declared_quantity(value, declared, path)


def declared_quantity(value: Any, declared: Declaration, where: str) -> float:
    """`value` in the SI unit and within the range of a declaration; ValueError begins with `where`."""
    if declared.codes:
        return _code(value, declared.codes, where)
    if declared.zero and is_zero(value, declared.unit):
        return 0.0
    number = quantity(value, declared.unit, where)
    if declared.whole and number != math.floor(number):
        raise ValueError(f"{where} = {value!r} must be a whole number")
    if not declared.allows(number):
        raise ValueError(f"{where} = {value!r} must be {declared.range}")
    return number


def along_range(path: str, numbers: np.ndarray) -> np.ndarray:
    """Numbers that a range gives the leaf at `path`: of a count the nearest whole ones."""
    declared = leaf(path)
    return np.round(numbers) if declared is not None and declared.whole else numbers


def _code(value: Any, words: tuple[str, ...], where: str) -> float:
    """The code of a word, in which dashes may stand for underscores, or the code itself."""
    if isinstance(value, str) and value.replace("-", "_") in words:
        return float(words.index(value.replace("-", "_")))
    try:
        code = float(value)
    except (TypeError, ValueError):
        code = -1.0
    if code not in range(len(words)):
        known = " or ".join(words) if len(words) == 2 else f"one of {', '.join(words)}"
        raise ValueError(f"{where} = {value!r} must be {known}")
    return code

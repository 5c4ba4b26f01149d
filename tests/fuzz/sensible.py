"""Sense of what a loader accepted: no number that is negative, infinite, no number, or beyond all machines."""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

BEYOND = 1.01e30
"""More than any figure, in SI units."""


class Nonsense(Exception):
    """A loader accepted something that cannot be."""


def require_sensible(value: Any, least: float = 0.0, beyond: float = BEYOND) -> None:
    """Raises `Nonsense` for the first number in a tree of structs that cannot be."""
    for path, number in numbers(value, ""):
        array = np.asarray(number)
        if array.size and not (np.isfinite(array).all() and array.min() >= least and array.max() <= beyond):
            wrong = array[~(np.isfinite(array) & (array >= least) & (array <= beyond))].flat[0]
            raise Nonsense(f"{path} = {wrong}")


def numbers(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Dotted path and number or array of every leaf."""
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from numbers(getattr(value, field.name), f"{path}.{field.name}")
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from numbers(part, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for place, part in enumerate(value):
            yield from numbers(part, f"{path}[{place}]")
    elif isinstance(value, int) and not isinstance(value, bool):
        yield path, float(value) if abs(value) < 10**300 else math.inf
    elif isinstance(value, float) or (isinstance(value, np.ndarray) and value.dtype.kind in "fiu"):
        yield path, value

"""Variables of an optimisation: numbers within bounds, whole numbers, and choices from lists."""

import dataclasses
import math

import numpy as np

from sweeps.ask.axes import Axis
from sweeps.ask.leaves import leaf as declared_leaf
from sweeps.ask.spec import AxisRange, Spec

MOST_CHOICES = 256
"""Combinations of choices that are tried one by one; of more, the longest lists of numbers are relaxed."""


@dataclasses.dataclass(frozen=True)
class Variable:
    """One column of a design. Of a choice, the column holds the position in the list; else the number in SI units."""

    name: str
    axis: Axis
    path: str | None  # of the leaf that it sets; None: whole structs
    low: float
    high: float
    choice: bool  # positions of a list, tried one by one
    allowed: np.ndarray | None  # numbers that a result may have; None: any, or whole numbers
    whole: bool

    @property
    def log(self) -> bool:
        """Whether steps are ratios."""
        return not self.choice and self.low > 0.0

    @property
    def labels(self) -> np.ndarray:
        """Names of a choice's positions."""
        return self.axis.coordinates[0].values

    def unit_values(self, shares: np.ndarray) -> np.ndarray:
        """Values at `shares` in [0, 1] of the way from low to high, in ratios where `log`."""
        if self.log:
            return np.clip(self.low * (self.high / self.low) ** shares, self.low, self.high)
        return self.low + (self.high - self.low) * shares

    def shares(self, values: np.ndarray) -> np.ndarray:
        """Shares of the way from low to high at which `values` are."""
        if self.high == self.low:
            return np.zeros_like(values)
        if self.log:
            return np.log(values / self.low) / math.log(self.high / self.low)
        return (values - self.low) / (self.high - self.low)

    def slope(self, values: np.ndarray) -> np.ndarray:
        """Change of the value per change of its share."""
        return values * math.log(self.high / self.low) if self.log else np.full_like(values, self.high - self.low)

    def rounded(self, values: np.ndarray) -> np.ndarray:
        """The nearest values that a result may have, shape [n]."""
        if self.allowed is not None:
            return self.allowed[np.argmin(np.abs(np.log(values[:, np.newaxis] / self.allowed)), axis=1)]
        return np.clip(np.round(values), self.low, self.high) if self.whole else values

    def neighbours(self, value: float) -> tuple[float, ...]:
        """The one or two allowed values next to `value`."""
        if self.allowed is not None:
            # The slack lets a value that equals an allowed one but for rounding count as that one.
            above = int(np.searchsorted(self.allowed, value * (1.0 - 1e-9)))
            adjacent = self.allowed[max(above - 1, 0) : above + 1]
            exact = [number for number in adjacent if math.isclose(number, value, rel_tol=1e-9)]
            return tuple(map(float, exact or adjacent))
        # A value without neighbours is its own, rounded where it is a count.
        if not self.whole or math.isclose(value, round(value), rel_tol=1e-9):
            return (float(round(value)) if self.whole else float(value),)
        return tuple(float(n) for n in (math.floor(value), math.ceil(value)) if self.low <= n <= self.high)


def variables_of(spec: Spec, axes: tuple[Axis, ...]) -> tuple[Variable, ...]:
    """The variables of a specification, ranges and lists, in its order.

    Raises:
      ValueError: one line: the bounds of a count hold no whole number.
    """
    return tuple(_variable(axis, spec) for axis in axes)


def relaxed(variables: tuple[Variable, ...]) -> tuple[Variable, ...]:
    """The variables with the longest lists of numbers as ranges, where there are too many combinations of choices.

    Raises:
      ValueError: one line: nothing varies.
    """
    if not variables:
        raise ValueError("nothing varies: give a range {from = .., to = ..} or a list of something")
    current = list(variables)
    while math.prod(len(v.labels) for v in current if v.choice) > MOST_CHOICES:
        lists = [v for v in current if v.choice and v.path is not None and _relaxable(v)]
        if not lists:
            break
        longest = max(lists, key=lambda v: len(v.labels))
        current = [_relaxed(v) if v is longest else v for v in current]
    return tuple(current)


def _variable(axis: Axis, spec: Spec) -> Variable:
    (path, *others), label = axis.columns, axis.coordinates[0]
    column = axis.columns[path]
    if isinstance(spec.axes.get(path), AxisRange) and isinstance(column, np.ndarray):  # ranges are of numbers
        low, high = (float(column[i]) for i in (0, -1))
        declared = declared_leaf(path)
        is_count = declared is not None and declared.counts  # a result has whole numbers there
        if is_count and math.floor(high) < math.ceil(low):
            raise ValueError(f"{path}: there is no whole number from {low:g} to {high:g}")
        # Bounds of a count move inwards to whole numbers.
        if is_count:
            low, high = float(math.ceil(low)), float(math.floor(high))
        return Variable(label.name, axis, path, low, high, False, None, is_count)
    # A list of one leaf's numbers may be relaxed; names and whole structs may not.
    leaf = path if not others and label.unit and label.values.dtype.kind == "f" else None
    return Variable(label.name, axis, leaf, 0.0, axis.size - 1.0, True, None, True)


def _relaxable(variable: Variable) -> bool:
    return len(variable.labels) > 2 and bool(np.all(variable.labels > 0))


def _relaxed(variable: Variable) -> Variable:
    """A list of numbers as a number between its ends, to be rounded to one of them."""
    allowed = np.sort(np.asarray(variable.labels, float))
    return dataclasses.replace(
        variable, low=float(allowed[0]), high=float(allowed[-1]), choice=False, allowed=allowed, whole=False
    )

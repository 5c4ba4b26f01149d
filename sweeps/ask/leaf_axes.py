"""Axes over single numbers or words, and names that set them apart."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from sweeps.ask.axes import Axis, Choice, Coordinate
from sweeps.ask.leaves import along_range, leaf_long_name, leaf_unit
from sweeps.ask.spec import AxisRange, Spec, range_values

Parser = Callable[[str, Any], float | str]
"""From a path and what a user wrote to its value."""


def leaf_axis(path: str, values: tuple[Any, ...] | AxisRange, spec: Spec, parsed: Parser) -> Axis:
    """An axis over one number, or words. In sample mode a range has no positions yet: `sampled` draws them."""
    if isinstance(values, AxisRange):
        # Both ends may have units of their own, such as 10us and 2ms.
        low, high = parsed(path, values.low), parsed(path, values.high)
        if isinstance(low, str) or isinstance(high, str):
            raise ValueError(f"{path}: from = {values.low!r}, to = {values.high!r} must be numbers; list words instead")
        if not low < high and values.n != 1:
            raise ValueError(f"{path}: from = {values.low!r} must be below to = {values.high!r}")
        if values.log and low == 0:
            raise ValueError(f"{path}: a log range cannot start at 0")
        # A sample needs the two ends alone, since `sampled` draws between them; a grid has n equal steps.
        shares = np.linspace(0.0, 1.0, 2 if spec.mode == "sample" or values.n is None else values.n)
        between = range_values(values, low, high, shares)
        numbers = along_range(path, between)
        # Rounding counts to whole numbers can merge neighbouring steps.
        if numbers is not between and len(np.unique(numbers)) < len(numbers):
            raise ValueError(f"{path}: {values.n} steps from {low:g} to {high:g} repeat whole numbers; ask for fewer")
    else:
        parsed_values = [parsed(path, value) for value in values]
        # Numbers and words may be mixed; such an axis has no scale, so all its values are labels.
        if any(isinstance(value, str) for value in parsed_values):
            return _words_axis(path, parsed_values)
        numbers = np.array(parsed_values)
        if len(set(numbers.tolist())) < len(numbers):
            raise ValueError(f"{path} = {list(values)!r} has a value twice")
    label = Coordinate(short_name(path), numbers, leaf_unit(path), leaf_long_name(path))
    return Axis(label.name, len(numbers), {path: numbers}, (label,))


def _words_axis(path: str, found: list[str | float]) -> Axis:
    """An axis over words, and numbers among them, labelled by themselves."""
    words = np.array([value if isinstance(value, str) else f"{value:g}" for value in found], object)
    label = Coordinate(short_name(path), words, "", leaf_long_name(path))
    return Axis(label.name, len(words), {path: Choice(tuple(found), np.arange(len(words)))}, (label,))


def short_name(path: str) -> str:
    """Name of the axis over the leaf at `path`: its last two components, or one for workload and deployment numbers."""
    parts = path.split(".")[1:]
    return "_".join(parts[-2:])


def named_apart(axes: list[Axis]) -> list[Axis]:
    """The axes with names of their own: where two would share one, the whole path makes the name."""
    names = [axis.name for axis in axes]
    renamed = []
    for axis in axes:
        if names.count(axis.name) > 1:
            (path,) = axis.columns
            name = path.replace(".", "_")
            axis = dataclasses.replace(
                axis, name=name, coordinates=(dataclasses.replace(axis.coordinates[0], name=name),)
            )
        renamed.append(axis)
    return renamed


# Random designs: one axis of points that are drawn from all others, the same for the same seed.


def sampled(axes: tuple[Axis, ...], spec: Spec) -> Axis:
    """One axis of `points` draws from all the given ones: ranges by their scale, lists and names with equal chance."""
    shares = _draws(len(axes), spec)
    columns: dict[str, Any] = {}
    labels = []
    for axis, share in zip(axes, shares.T, strict=True):
        label = axis.coordinates[0]
        # Equal chance for every position; rounding must not pass the last one.
        pick = np.minimum((share * axis.size).astype(int), axis.size - 1)
        ranges = (spec.axes.get(path) for path in axis.columns)
        interval = next((one for one in ranges if isinstance(one, AxisRange)), None)
        for path, column in axis.columns.items():
            if isinstance(column, Choice):
                columns[path] = Choice(column.items, column.index[pick])
            elif interval is not None:
                columns[path] = along_range(path, range_values(interval, column[0], column[-1], share))
            else:
                columns[path] = column[pick]
        # Labels of a range are the drawn numbers, those of a list the labels of the positions that were drawn.
        values = next(iter(columns[path] for path in axis.columns)) if interval is not None else label.values[pick]
        labels.append(dataclasses.replace(label, values=values))
    point = Coordinate("point", np.arange(spec.points), "1", "sample point")
    return Axis("point", spec.points, columns, (point, *labels))


def _draws(dimensions: int, spec: Spec) -> np.ndarray:
    """Points in the unit cube, shape (points, dimensions), the same for the same seed."""
    if spec.method == "random":
        return np.random.default_rng(spec.seed).random((spec.points, dimensions))
    from scipy.stats import qmc  # half a second to import, and only samples need it

    if spec.method == "latin_hypercube":
        return qmc.LatinHypercube(dimensions, rng=np.random.default_rng(spec.seed)).random(spec.points)
    # Sobol points are balanced in powers of two (Owen, arXiv:2008.08051): the next power is drawn, and its first points
    # are used.
    sampler = qmc.Sobol(dimensions, rng=np.random.default_rng(spec.seed))
    return sampler.random_base2(int(np.ceil(np.log2(spec.points))))[: spec.points]

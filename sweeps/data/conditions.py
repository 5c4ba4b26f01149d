"""Conditions of a sweep: axes that say what is asked, such as the model; a best point is one per value of them."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from sweeps.ask.leaves import condition_names
from sweeps.ask.names import MODEL
from sweeps.data import labels
from sweeps.data.pieces import Box, View

NONE = "none"
"""In place of names: nothing is a condition, so that every axis is a freedom of the design."""

MOST_DRAWN = 64
"""Values that a column of a sample may have to be a condition: one that is drawn from a range has as many as points."""


def conditions(dataset: xr.Dataset, per: str | Sequence[str] | None = None) -> tuple[str, ...]:
    """Names of the axes that best points and fronts are per.

    Args:
      dataset: of a sweep, or its labels alone.
      per: names of axes, as a list or as text with commas; "none": none; None: those that the sweep was asked with,
        and else every axis that varies over the model, or over a number that its declaration calls a condition.

    Raises:
      ValueError: one line: an axis that there is not, or one of a sample that has a value of its own at every point.
    """
    names = names_of(per)
    for name in names or ():
        labels.known(name, labels.axes(dataset), "axis")
        if _drawn(dataset, name):
            raise ValueError(f"per {name}: it is drawn from a range, so that no two points share its value")
    # What was recorded may be of axes that a part of the sweep does not have any more.
    names = names_of(dataset.attrs.get("per")) if names is None else names
    if names is not None:
        return tuple(name for name in names if name in labels.axes(dataset) and _several(dataset, name))
    return tuple(
        name
        for name in labels.axes(dataset)
        if dataset[name].attrs.get("long_name") in (MODEL, *condition_names())
        and _several(dataset, name)
        and not _drawn(dataset, name)
    )


def names_of(per: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Names from a list or from text with commas; "none": no names; None stays."""
    if per is None:
        return None
    words = [word.strip() for word in per.split(",")] if isinstance(per, str) else list(per)
    return () if words == [NONE] else tuple(dict.fromkeys(word for word in words if word))


def _several(dataset: xr.Dataset, name: str) -> bool:
    values = dataset[name].values
    return len(values) > 1 and bool((values != values[0]).any())


def _drawn(dataset: xr.Dataset, name: str) -> bool:
    return labels.is_sample(dataset) and len(np.unique(dataset[name].values)) > MOST_DRAWN


def said(names: Sequence[str]) -> str:
    """The line that says what best points are per."""
    if not names:
        return "best of all points: every axis is a freedom of the design"
    return f"best per {', '.join(names)} (--per {NONE}: over all of them)"


def parts(dataset: xr.Dataset, names: Sequence[str]) -> Iterator[tuple[dict[str, Any], xr.Dataset]]:
    """The dataset in parts, one for every combination of values of some axes, and the values.

    Of a grid the axes stay, with one position each.
    """
    if labels.is_sample(dataset):
        codes = [_codes(dataset[name].values) for name in names]
        keys, which = _combined(codes, dataset.sizes["point"])
        for key in keys:
            places = np.flatnonzero(which == key)
            yield {name: dataset[name].values[places[0]] for name in names}, dataset.isel(point=places)
        return
    for place in np.ndindex(*(dataset.sizes[name] for name in names)):
        where = dict(zip(names, place, strict=True))
        values = {name: dataset[name].values[at] for name, at in where.items()}
        yield values, dataset.isel({name: slice(at, at + 1) for name, at in where.items()})


def _codes(values: np.ndarray) -> np.ndarray:
    """Number of the value at every position: numbers in their order, names in that of the axis."""
    kinds, first, code = np.unique(values, return_index=True, return_inverse=True)
    code = code.reshape(-1)
    return code if kinds.dtype.kind in "fiu" else np.argsort(np.argsort(first))[code]


def _combined(codes: Sequence[np.ndarray], points: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the combinations that there are, and that of every point."""
    which = np.zeros(points, np.int64)
    for code in codes:
        which = which * (int(code.max(initial=0)) + 1) + code
    return np.unique(which), which


def where_text(dataset: xr.Dataset, values: Mapping[str, Any]) -> str:
    """Values of conditions in words: "model Llama-3.1-8B, isl 1,024"."""
    return ", ".join(f"{name} {labels.text(dataset, name, value)}" for name, value in values.items())


@dataclasses.dataclass(frozen=True)
class Groups:
    """Groups of the points of a sweep, by their number: one for every combination of values of the conditions."""

    sizes: tuple[int, ...]  # points along every axis of the sweep
    codes: Mapping[int, np.ndarray]  # axis -> number of the value at each of its positions

    @classmethod
    def of(cls, dataset: xr.Dataset, sizes: Mapping[str, int], names: Sequence[str]) -> "Groups":
        """The groups of a sweep with these labels along axes of these sizes, by name; one without conditions."""
        order = list(sizes)
        by_axis: dict[int, np.ndarray] = {}
        for name in names:
            (dim,) = dataset[name].dims
            # Labels of a damaged file may be along what is no axis.
            if dim not in sizes:
                raise ValueError(f"{name} is along {dim}, which is no axis of the sweep")
            axis = order.index(str(dim))
            code = _codes(dataset[name].values)
            # A sample has several conditions along its one axis of points.
            together = [by_axis[axis], code] if axis in by_axis else [code]
            by_axis[axis] = _combined(together, len(code))[1]
        return cls(tuple(sizes.values()), by_axis)

    @property
    def count(self) -> int:
        """Groups, with those that no point is in."""
        return math.prod(int(code.max()) + 1 for code in self.codes.values())

    def numbers(self, points: np.ndarray) -> np.ndarray:
        """Number of the group of every point, by the number of the point in the sweep."""
        if not self.codes:
            return np.zeros(len(points), np.int64)
        along = np.unravel_index(points, self.sizes)
        groups = np.zeros(len(points), np.int64)
        for axis, code in self.codes.items():
            groups = groups * (int(code.max()) + 1) + code[along[axis]]
        return groups

    def inside(self, box: Box, arrays: Mapping[str, View], flag: str) -> Iterator[tuple[int, Box, Mapping[str, View]]]:
        """A chunk of a sweep in parts of one group each: its number, its box, and the variables there.

        Args:
          flag: the variable that says which points can be; along an axis whose groups take turns, it says so of those
            of the group alone.
        """
        every = [(0, box, dict(arrays))]
        for axis, code in self.codes.items():
            own = code[box.positions[axis]]
            count, split = int(code.max()) + 1, []
            for group in np.unique(own):
                places = np.flatnonzero(own == group)
                for number, part, views in every:
                    split.append((number * count + int(group), *_narrowed(part, views, axis, places, flag)))
            every = split
        yield from every


ALONE = Groups((), {})
"""All points in one group."""


def _narrowed(
    box: Box, views: Mapping[str, View], axis: int, places: np.ndarray, flag: str
) -> tuple[Box, dict[str, View]]:
    """A chunk at some places along an axis: a part of it where they are in a row, else with fewer possible points."""
    low, high = int(places[0]), int(places[-1]) + 1
    if high - low == len(places):
        positions = tuple(own[low:high] if i == axis else own for i, own in enumerate(box.positions))
        return dataclasses.replace(box, positions=positions), {
            name: _cut(one, axis, low, high) for name, one in views.items()
        }
    mine = np.zeros(len(box.positions[axis]), bool)
    mine[places] = True
    shape = [len(mine) if i == axis else 1 for i in range(len(box.positions))]
    possible = np.asarray(views[flag].host()) & mine.reshape(shape)
    whole = View(possible, tuple((0, size) for size in possible.shape), (True,) * possible.ndim)
    return box, {**views, flag: whole}


def _cut(view: View, axis: int, low: int, high: int) -> View:
    if not view.over[axis]:
        return view
    # The dimension of the array that stands for the axis.
    dim = sum(view.over[:axis])
    start = view.inside[dim][0]
    inside = tuple((start + low, start + high) if i == dim else one for i, one in enumerate(view.inside))
    return dataclasses.replace(view, inside=inside)

"""The points of a sweep that keep a condition, best first: a part of the sweep in memory at a time."""

import dataclasses
import math
import re
from collections.abc import Iterator, Sequence

import numpy as np
import xarray as xr

from hwspaces.quantities.units import plain_arguments
from sweeps.ask.names import VARIABLES, variable
from sweeps.data import labels
from sweeps.data.conditions import Groups, conditions
from sweeps.data.pieces import gathered
from sweeps.data.querying.expression import Condition

PART_POINTS = 1 << 22
"""Points that are in memory at a time, about."""

POINTS_LIMIT = 10**10
"""Points that a query looks at without being told to: some minutes."""

MOST_ROWS = 10**7
"""Points that a query returns."""

COSTS = ("owning_usd_per_million_tokens", "usd_per_million_tokens")

SHORT = {"cost": COSTS, "throughput": ("tokens_per_second_per_device",), "latency": ("e2e", "e2e_p50")}
"""Words for variables: the first that there is."""


@dataclasses.dataclass(frozen=True)
class QueryResult:
    """The points that keep a condition."""

    matches: int
    points: int  # that were looked at
    rows: xr.Dataset  # the first of them along `row`: variables, and what was varied as coordinates
    per: tuple[str, ...] = ()  # conditions, of each of whose values these are the first


@plain_arguments
def query(
    dataset: xr.Dataset,
    where: str | None = None,
    sort: str | None = None,
    top: int = 20,
    highest: bool | None = None,
    points_limit: float = POINTS_LIMIT,
    per: str | Sequence[str] | None = None,
) -> QueryResult:
    """Points of a sweep that keep a condition, in the order of one variable or axis.

    Args:
      dataset: of `sweeps.open`, `xarray.open_dataset` or `sweeps.sweep`; read part by part.
      where: a condition on variables and axes (see `Condition`); None: all points.
      sort: a variable or an axis; None: the order of the sweep.
      top: how many points to return at most.
      highest: whether the highest come first; None: the better ones, of an axis the lowest.
      points_limit: points that it may look at; of a sweep that has more, nothing is read.
      per: where `sort` is better high or low, axes that are conditions: the `top` points of each of their values are
        returned. None: the model and the numbers of its traffic, where they vary; "none": the best of all points.

    Raises:
      ValueError: one line: a name that there is not, a condition that is none or compares seconds with bytes, a sweep
        of more points than the limit.
    """
    if not 1 <= top <= MOST_ROWS:
        raise ValueError(f"top = {top} must be at least 1 and at most {MOST_ROWS:,}")
    # The condition and the order are checked before anything of the sweep is read.
    known = units(dataset)
    condition = Condition(_long(where, dataset), known) if where is not None else None
    name = None if sort is None else labels.known(short_names(dataset).get(sort, sort), known, "variable or axis")
    if name is not None and known[name] == "":
        raise ValueError(f"--sort {name}: it has names, not numbers")
    highest = bool(name in VARIABLES and variable(name).higher_is_better) if highest is None else highest
    shape = points_of(dataset)
    points = math.prod(shape.values())
    if points > points_limit:
        raise ValueError(
            f"the query would look at {points:,} points ({' x '.join(f'{size:,}' for size in shape.values())}), "
            f"the limit is {points_limit:,.0f}; give --points-limit, in Python points_limit, for more"
        )
    # Conditions are of what is better: an axis, or the order of the sweep, has no best points.
    better = name in VARIABLES and variable(name).higher_is_better is not None
    per_names = conditions(dataset, per) if better or per is not None else ()
    groups = Groups.of(dataset, shape, per_names)
    # Numbers and keys of the best points so far, best first, by group.
    none = np.zeros(0, np.int64), np.zeros(0)
    best: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    matches = 0
    # Only the columns that the condition or the order needs are read.
    needed = tuple(dict.fromkeys((*(condition.names if condition else ()), *((name,) if name else ()))))
    for part in parts(shape):
        columns = {column: _column(dataset, column, part, tuple(shape)) for column in needed}
        sizes = [places.stop - places.start for places in part.values()]
        holds = np.broadcast_to(condition(columns), sizes) if condition else np.broadcast_to(True, sizes)
        matches += int(holds.sum())
        flat = np.zeros(holds.size) if name is None else np.broadcast_to(columns[name], sizes).reshape(-1)
        # Lower keys are better; points that do not match, or have no value, are infinite. Without an order all are 0.
        keys = np.where(holds.reshape(-1) & ~np.isnan(flat), -flat if highest else flat, np.inf)
        full = len(best) == groups.count and all(len(one[1]) == top for one in best.values())
        # Points that are better than the last of some group; parts come in the order of the sweep, where ties stay.
        limit = max(one[1][-1] for one in best.values()) if full else np.inf
        for group, places in _by_group(groups, np.flatnonzero(keys < limit), part, shape):
            best[group] = _joined(best.get(group, none), keys, places, top, part, shape)
    numbers = np.concatenate([none[0], *(best[group][0] for group in sorted(best))])
    return QueryResult(matches, points, rows_at(dataset, numbers, shape), per_names)


def _by_group(
    groups: Groups, places: np.ndarray, part: dict[str, slice], shape: dict[str, int]
) -> Iterator[tuple[int, np.ndarray]]:
    """Places in a part, by the group of their points."""
    if not groups.codes:
        yield 0, places
        return
    own = groups.numbers(_numbers(places, part, shape))
    for group in np.unique(own):
        yield int(group), places[own == group]


def _joined(
    best: tuple[np.ndarray, np.ndarray],
    keys: np.ndarray,
    places: np.ndarray,
    top: int,
    part: dict[str, slice],
    shape: dict[str, int],
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers and keys of the best points, of those so far and of some places of a part."""
    limit = best[1][-1] if len(best[1]) == top else np.inf
    places = places[keys[places] < limit]
    # At most `top` points of a part can be among the best; of those that tie with the last of them, the first.
    if len(places) > top:
        own = keys[places]
        last = np.partition(own, top - 1)[top - 1]
        places = np.sort(np.concatenate([places[own < last], places[own == last][:top]]))
    numbers = np.concatenate([best[0], _numbers(places, part, shape)])
    joined_keys = np.concatenate([best[1], keys[places].astype(float)])
    # Ties in the order of the sweep.
    order = np.lexsort((numbers, joined_keys))[:top]
    return numbers[order], joined_keys[order]


def short_names(dataset: xr.Dataset) -> dict[str, str]:
    """Words that stand for variables of this dataset."""
    return {
        word: next(name for name in names if name in dataset)
        for word, names in SHORT.items()
        if word not in dataset.variables and any(name in dataset for name in names)
    }


def units(dataset: xr.Dataset) -> dict[str, str]:
    """Everything that a condition may name, with its SI unit: "" for text, "flag" for yes or no."""
    names = [str(name) for name in dataset.variables if not _is_breakdown(dataset[name])]
    return {name: _unit(dataset, name) for name in names if name != "point"}


def _unit(dataset: xr.Dataset, name: str) -> str:
    if dataset[name].dtype.kind == "b" or labels.is_text(dataset[name]):
        return "flag" if dataset[name].dtype.kind == "b" else ""
    try:
        return labels.unit(dataset, name)
    except KeyError:  # a variable of another program's
        return str(dataset[name].attrs.get("units") or "1")


def parts(shape: dict[str, int]) -> Iterator[dict[str, slice]]:
    """A grid in parts of at most `PART_POINTS`, in its order: inner axes whole, one in parts, the others one by one."""
    for corner, lengths in gathered(list(shape.values()), PART_POINTS):
        yield {dim: slice(low, low + n) for dim, low, n in zip(shape, corner, lengths, strict=True)}


def points_of(dataset: xr.Dataset) -> dict[str, int]:
    """Points along every axis, in the order of the sweep."""
    sizes = {str(dim): size for dim, size in dataset.sizes.items() if not labels.is_op_dimension(str(dim))}
    # Labelled axes in the order of the sweep, then dimensions without labels.
    order = [str(name) for name in labels.axes(dataset) if name in sizes] if not labels.is_sample(dataset) else []
    return {dim: sizes[dim] for dim in dict.fromkeys((*order, *sizes))}


def _column(dataset: xr.Dataset, name: str, part: dict[str, slice], dims: tuple[str, ...]) -> np.ndarray:
    """A variable or coordinate over a part, with a dimension of size 1 where it does not vary."""
    array = dataset[name]
    # Only this part is read from the file.
    values = array.isel({dim: part[dim] for dim in array.dims}).transpose(*[dim for dim in dims if dim in array.dims])  # type: ignore[index]
    return values.values[tuple(slice(None) if dim in array.dims else np.newaxis for dim in dims)]


def _numbers(places: np.ndarray, part: dict[str, slice], shape: dict[str, int]) -> np.ndarray:
    """Numbers in the whole grid of places in a part."""
    flat_numbers = np.zeros(len(places), np.int64)
    along = np.unravel_index(places, [side.stop - side.start for side in part.values()]) if part else ()
    # Mixed radix: the last axis varies fastest.
    for (dim, side), where in zip(part.items(), along, strict=True):
        flat_numbers = flat_numbers * shape[dim] + side.start + where
    return flat_numbers


def rows_at(dataset: xr.Dataset, numbers: np.ndarray, shape: dict[str, int]) -> xr.Dataset:
    """All variables at some points along `row`, by their number in a dataset of this shape."""
    along = dict(zip(shape, np.unravel_index(numbers, list(shape.values())), strict=True)) if shape else {}
    plain = [name for name in dataset.variables if not _is_breakdown(dataset[name])]
    places = {dim: xr.DataArray(where, dims="row") for dim, where in along.items()}
    arrays = {str(name): dataset[name].isel({d: places[d] for d in dataset[name].dims}) for name in plain}  # type: ignore[index]
    # What does not vary is repeated in every row.
    arrays = {name: array if array.dims else array.expand_dims(row=len(numbers)) for name, array in arrays.items()}
    variables = {name: ("row", array.values, array.attrs) for name, array in arrays.items()}
    number = ("row", numbers, {"units": "1", "long_name": "number of the point in the sweep"})
    rows = xr.Dataset(variables | {"number": number}, attrs=dataset.attrs)
    return rows.set_coords([name for name in dataset.coords if name in rows])


def _long(where: str, dataset: xr.Dataset) -> str:
    """The condition with words that stand for variables written out."""
    for word, name in short_names(dataset).items():
        # Whole words only, so that latency_p99 stays as it is.
        where = re.sub(rf"\b{word}\b", name, where)
    return where


def _is_breakdown(array: xr.DataArray) -> bool:
    return any(labels.is_op_dimension(str(dim)) for dim in array.dims)


def named(where: str | None, sort: str | None, dataset: xr.Dataset) -> tuple[str, ...]:
    """Variables and axes that a query names."""
    names = Condition(_long(where, dataset), units(dataset)).names if where is not None else ()
    return tuple(dict.fromkeys((*((short_names(dataset).get(sort, sort),) if sort else ()), *names)))

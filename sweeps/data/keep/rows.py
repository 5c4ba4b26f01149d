"""Single points that are kept: their numbers in the sweep and the values of every variable there."""

import copy
import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.numerics.arrays import jax_numpy as jnp
from jaxroof.numerics.arrays import jitted
from jaxroof.numerics.struct import Array
from sweeps.ask.names import UDUNITS, variable, variable_attributes
from sweeps.data.pieces import Box, View, blank, part

BLOCK = 128
"""Points of which one bound is computed: small enough that most blocks are ruled out, large enough to be few."""

FLAG = "feasible"
"""The variable that says which points can be."""

COMPUTED = "points_computed"
"""Attribute of a pruned sweep: points that were computed; bounds tell of the others that they are not kept."""


@dataclasses.dataclass(frozen=True)
class KeptPoints:
    """A chunk of a sweep over the axes of `sizes`, with all variables on the device."""

    box: Box
    arrays: Mapping[str, View]
    sizes: tuple[int, ...]  # of the whole sweep

    @property
    def shape(self) -> tuple[int, ...]:
        """Points along every axis."""
        return tuple(len(positions) for positions in self.box.positions)

    def bounds(self, name: str, higher_is_better: bool) -> np.ndarray:
        """The least key of every block of points: inf where none can be. A key is the metric, or its negative."""
        values, mask = self.arrays[name], self.arrays[FLAG]
        # Arrays in host memory are bounded by NumPy, those on a device where they are.
        if isinstance(values.array, np.ndarray) and isinstance(mask.array, np.ndarray):
            return self._host_bounds(name, higher_is_better)
        static = (values.inside, values.over), (mask.inside, mask.over)
        return np.asarray(_bounds(values.array, mask.array, *static, self.shape, higher_is_better))

    def _host_bounds(self, name: str, higher_is_better: bool) -> np.ndarray:
        """The same on the host: one look at the values, and a second one at blocks of which some points cannot be."""
        values, (some, all_) = _rows(self.arrays[name].host(), self.shape), self._possible
        # First as if every point of a block could be, which is right for most blocks.
        least_keys = -values.max(1) if higher_is_better else values.min(1)
        least_keys[~some] = np.inf
        # Blocks with an impossible point, or with a key that is not finite, are looked at point by point.
        unclear = np.flatnonzero(some & ~(all_ & np.isfinite(least_keys)))
        keys = lower_better(values[unclear], higher_is_better)
        least_keys[unclear] = np.where(self._mask[unclear], keys, np.asarray(np.inf, keys.dtype)).min(1)
        return least_keys

    @functools.cached_property
    def _mask(self) -> np.ndarray:
        """Rows of the points of every block, whether each can be."""
        return _rows(self.arrays[FLAG].host(), self.shape)

    @functools.cached_property
    def _possible(self) -> tuple[np.ndarray, np.ndarray]:
        """Of every block, whether any of its points can be, and whether all of them can."""
        return np.asarray(self._mask.any(1)), np.asarray(self._mask.all(1))

    def firsts(self) -> np.ndarray:
        """Number in the sweep of every block's first point."""
        return self.numbers(np.arange(0, math.prod(self.shape), BLOCK))

    def members(self, blocks: np.ndarray) -> np.ndarray:
        """Places in the chunk of all points of some blocks that can be."""
        places = blocks[:, None] * BLOCK + np.arange(BLOCK)
        # The last block may reach beyond the last point.
        inside = places < math.prod(self.shape)
        if isinstance(self.arrays[FLAG].array, np.ndarray):
            return places[inside & self._mask[blocks]]
        return places[inside][self.at(FLAG, places[inside])]

    def at(self, name: str, places: np.ndarray) -> np.ndarray:
        """A variable at places of the chunk."""
        view = self.arrays[name]
        if not self.shape:
            return np.broadcast_to(view.host(), places.shape)
        along = np.unravel_index(places, self.shape)
        # On the host each axis is indexed where the variable varies, and at 0 where it does not.
        if isinstance(view.array, np.ndarray) or view.array.device.platform == "cpu":
            own = tuple(where if varies else 0 for varies, where in zip(view.over, along, strict=True))
            return np.broadcast_to(view.host()[own], places.shape)
        # On a device the indices are offset by the part of the array that is meant.
        own = [low + along[i] for (low, _), i in zip(view.inside, np.flatnonzero(view.over), strict=True)]
        length = 1 << max(0, len(places) - 1).bit_length()  # few shapes, few compilations
        padded = tuple(np.pad(where, (0, length - len(where))) for where in own)
        return np.broadcast_to(np.asarray(_gathered(view.array, padded)), length)[: len(places)]

    def keys(self, name: str, higher_is_better: bool, places: np.ndarray) -> np.ndarray:
        """Sort key of the chunk's places, lower is better; inf where it is not a number."""
        return lower_better(self.at(name, places), higher_is_better)

    def numbers(self, places: np.ndarray) -> np.ndarray:
        """Number in the sweep of every place of the chunk, int64."""
        flat_numbers = np.zeros(len(places), np.int64)
        along = np.unravel_index(places, self.shape) if self.shape else ()
        # Mixed radix: the last axis varies fastest.
        for positions, size, where in zip(self.box.positions, self.sizes, along, strict=True):
            flat_numbers = flat_numbers * size + positions[where]
        return flat_numbers

    def flat(self, name: str) -> np.ndarray:
        """A variable at every point that can be, on the host."""
        mask = self.arrays[FLAG].host()
        outer = max((i + 1 for i, size in enumerate(mask.shape) if size > 1), default=0)  # axes that decide
        # Axes behind the last one that the mask varies along are taken whole.
        chosen = np.broadcast_to(mask.reshape(mask.shape[:outer]), self.shape[:outer])
        return np.broadcast_to(self.arrays[name].host(), self.shape)[chosen].reshape(-1)


def _rows(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Values at all points as rows of a block each; the last one ends with the last point again and again."""
    flat = np.broadcast_to(values, shape).reshape(-1)
    return (np.pad(flat, (0, -flat.size % BLOCK), mode="edge") if flat.size % BLOCK else flat).reshape(-1, BLOCK)


def sizes_and_types(plan: Any) -> tuple[tuple[int, ...], dict[str, np.dtype]]:
    """Points along every axis of a sweep, and the types of its variables; breakdowns by op are left out."""
    types = {name: output.dtype for name, output in plan.outputs.items() if not output.ops}
    return tuple(axis.size for axis in plan.axes), types


def lower_better(values: np.ndarray, higher_is_better: bool) -> np.ndarray:
    """Values, or their negatives, as what is better lower; inf where one is not a number."""
    return np.where(np.isfinite(values), -values if higher_is_better else values, np.asarray(np.inf, values.dtype))


@functools.partial(jitted, static_argnums=(2, 3, 4, 5))
def _bounds(
    values: Array,
    mask: Array,
    of_values: tuple[Any, Any],
    of_mask: tuple[Any, Any],
    shape: tuple[int, ...],
    higher_is_better: bool,
) -> Array:
    # Keys of the view's part only; impossible and non-finite points never set a bound.
    keys = part(-values if higher_is_better else values, *of_values)
    infinity = jnp.asarray(jnp.inf, keys.dtype)
    known = jnp.where(part(mask, *of_mask) & jnp.isfinite(keys), keys, infinity)
    flat = jnp.broadcast_to(known, shape).reshape(-1)
    return jnp.pad(flat, (0, -flat.size % BLOCK), constant_values=infinity).reshape(-1, BLOCK).min(1)


@jitted
def _gathered(array: Array, places: tuple[Array, ...]) -> Array:
    return array[places]


# Spread of a sweep's values: counts in bins that are the same for every sweep, and quantiles from them.


FINE_BITS, COARSE_BITS = 7, 3
"""Bits after the leading one by which bins are told apart: where values are counted, and in a histogram."""

MANTISSA_BITS = 23
"""Of a float32 number."""

BINS = 1 << (32 - MANTISSA_BITS + FINE_BITS)
"""Bins of all float32 numbers, those that are negative or none included."""

INFINITE = 255 << FINE_BITS
"""The first bin that holds no finite number; those of negative numbers are beyond it."""

LEVELS = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
"""Shares of the points below the quantiles that are told."""


TOLD = ("histogram", "quantiles")
"""What can be told of the same counts; how names of variables begin."""


class KeptSpread:
    """Counts of every variable over the feasible points, told as histograms, quantiles or both."""

    kind = "spread"

    def __init__(self, told: tuple[str, ...], plan: Any):
        self.told = told
        self.sizes, self.types = sizes_and_types(plan)
        self.counts = {name: np.zeros(BINS, np.int64) for name in self.types}

    def __str__(self) -> str:
        return ",".join(self.told)

    def begun(self) -> "KeptSpread":
        """The same of points that have still to be looked at."""
        fresh = copy.copy(self)
        fresh.counts = {name: np.zeros(BINS, np.int64) for name in self.types}
        return fresh

    def add(self, box: Box, arrays: Mapping[str, View]) -> None:
        """Look at one more chunk."""
        points = KeptPoints(box, arrays, self.sizes)
        for name, count in self.counts.items():
            if name not in arrays:
                continue
            values = points.flat(name)
            if values.dtype.kind == "f":
                # The leading bits of a positive float32, its exponent and the first bits of its mantissa, rise with its
                # value (IEEE 754).
                bits = values.astype(np.float32, copy=False).view(np.uint32)
                count += np.bincount(bits >> np.uint32(MANTISSA_BITS - FINE_BITS), minlength=BINS)
            elif values.dtype.kind == "b":
                # False and True are the codes 0 and 1, counted in bins 1 and 2.
                count[1:3] += values.size - (yes := np.count_nonzero(values)), yes
            else:  # codes, of which -1 stands for none
                count += np.bincount(values.astype(np.int64) + 1, minlength=BINS)

    def dataset(self) -> xr.Dataset:
        """Counts so far, from the first bin that has any to the last."""
        variables = {}
        for name, count in self.counts.items():
            used = np.flatnonzero(count)
            # Only the bins from the first to the last that is used are stored; `low` says where they begin.
            low, high = (int(used[0]), int(used[-1]) + 1) if used.size else (0, 1)
            words = {"units": "1", "long_name": f"points in every bin of {name}", "low": low}
            variables[f"spread_{name}"] = (f"{name}_bin", count[low:high], words)
        return xr.Dataset(variables)

    def merged(self, parts: Iterable[xr.Dataset]) -> xr.Dataset:
        """Counts of the whole sweep, from those of its parts."""
        counts = self.begun().counts
        for piece in parts:
            for name, count in counts.items():
                low, own = int(piece[f"spread_{name}"].attrs["low"]), piece[f"spread_{name}"].values
                count[low : low + len(own)] += own
        variables: dict[str, Any] = {}
        for name, count in counts.items():
            if "histogram" in self.told:
                variables |= (_histogram if self.types[name].kind == "f" else _tally)(name, count)
            if "quantiles" in self.told and self.types[name].kind == "f":
                variables |= _quantiles(name, count)
        if "quantiles" in self.told:
            words = {"units": "1", "long_name": "share of the feasible points that are below"}
            variables["quantile"] = ("quantile", np.array(LEVELS), words)
        summary = xr.Dataset(variables)
        # Bins and levels label the counts and quantiles.
        return summary.set_coords([name for name in summary.data_vars if not str(name).startswith(TOLD)])


def edges(bits: int) -> np.ndarray:
    """Lower ends of all bins of finite numbers that are not negative, and the upper end of the last."""
    # 255 is the exponent of infinities and NaN: all bit patterns below it are finite (IEEE 754).
    numbers = np.arange((255 << bits) + 1, dtype=np.uint32) << np.uint32(MANTISSA_BITS - bits)
    return numbers.view(np.float32).astype(float)


def quantile(counts: np.ndarray, levels: tuple[float, ...] = LEVELS) -> np.ndarray:
    """Numbers below which shares of the points are: in the middle of their bins, NaN without points."""
    # Bins of negative and of non-finite numbers are beyond INFINITE.
    below = np.cumsum(counts[:INFINITE])
    if not below[-1]:
        return np.full(len(levels), np.nan)
    ends = edges(FINE_BITS)
    # Ends of a bin are about equal in ratio, so its middle is their geometric mean; the bin at 0 stands for 0.
    middles = np.where(ends[:-1] > 0.0, np.sqrt(ends[:-1] * ends[1:]), 0.0)
    # Nearest rank, counted from 1.
    ranks = np.clip(np.ceil(np.array(levels) * below[-1]), 1, below[-1])
    return middles[np.searchsorted(below, ranks)]


def _histogram(name: str, counts: np.ndarray) -> dict[str, Any]:
    # Fine bins that differ in their last bits only make one coarse bin.
    coarse = counts[:INFINITE].reshape(-1, 1 << (FINE_BITS - COARSE_BITS)).sum(1)
    used = np.flatnonzero(coarse)
    low, high = (used[0], used[-1] + 1) if used.size else (0, 1)
    ends, dim = edges(COARSE_BITS), f"{name}_bin"
    unit = UDUNITS.get(variable(name).unit, variable(name).unit)
    words = {"units": "1", "long_name": f"feasible points by {variable(name).long_name}"}
    return {
        f"histogram_{name}": (dim, coarse[low:high], words),
        dim: (dim, ends[low:high], {"units": unit, "long_name": f"lower end of a bin of {name}"}),
        f"{dim}_upper": (dim, ends[low + 1 : high + 1], {"units": unit, "long_name": f"upper end of a bin of {name}"}),
    }


def _tally(name: str, counts: np.ndarray) -> dict[str, Any]:
    """Counts of a flag or a code."""
    used = np.flatnonzero(counts)
    words = {"units": "1", "long_name": f"feasible points by {variable(name).long_name}"}
    labels = {"units": "1", "long_name": " ".join(variable(name).flags) or "0: no, 1: yes"}
    dim = f"{name}_code"
    # Bin n counts the code n - 1.
    return {f"histogram_{name}": (dim, counts[used], words), dim: (dim, used - 1, labels)}


def _quantiles(name: str, counts: np.ndarray) -> dict[str, Any]:
    unit = UDUNITS.get(variable(name).unit, variable(name).unit)
    # With 7 bits a bin is at most 1/128 of its lower end wide, so that its middle is within 0.4 % of any value in it.
    words = {"units": unit, "long_name": f"quantiles of {variable(name).long_name}, known to 0.4 %"}
    return {f"quantiles_{name}": ("quantile", quantile(counts), words)}


KINDS = (("pareto", "front"), ("top", "rank"))
"""What can be kept of single points: how names of variables begin, and the dimension."""


@dataclasses.dataclass(frozen=True)
class KeptRows:
    """Points in an order that means something."""

    numbers: np.ndarray  # int64, shape (rows,), in the order of the whole sweep
    values: Mapping[str, np.ndarray]  # by variable, shape (rows,)

    @classmethod
    def empty(cls, types: Mapping[str, np.dtype]) -> "KeptRows":
        """No points."""
        return cls(np.zeros(0, np.int64), {name: np.zeros(0, dtype) for name, dtype in types.items()})

    @classmethod
    def of(cls, points: KeptPoints, places: np.ndarray, types: Mapping[str, np.dtype]) -> "KeptRows":
        """Points of a chunk; where its structure has no answer, blanks."""
        values = {
            name: points.at(name, places) if name in points.arrays else np.full(len(places), blank(dtype), dtype)
            for name, dtype in types.items()
        }
        return cls(points.numbers(places), values)

    @classmethod
    def read(cls, dataset: xr.Dataset, prefix: str, types: Mapping[str, np.dtype]) -> "KeptRows":
        """The rows that `KeptRows.dataset` made."""
        values = {name: dataset[f"{prefix}_{name}"].values.astype(dtype) for name, dtype in types.items()}
        return cls(dataset[f"{prefix}_number"].values.astype(np.int64), values)

    def followed_by(self, other: "KeptRows") -> "KeptRows":
        """These rows, then others."""
        values = {name: np.concatenate([own, other.values[name]]) for name, own in self.values.items()}
        return KeptRows(np.concatenate([self.numbers, other.numbers]), values)

    def picked(self, places: np.ndarray) -> "KeptRows":
        """Some of the rows, in the order of `places`."""
        return KeptRows(self.numbers[places], {name: values[places] for name, values in self.values.items()})

    def dataset(self, prefix: str, dim: str) -> xr.Dataset:
        """The rows along `dim`, in variables whose names begin with `prefix`."""
        variables = {f"{prefix}_number": (dim, self.numbers, {"units": "1", "long_name": "number of the point"})}
        for name, values in self.values.items():
            variables[f"{prefix}_{name}"] = (dim, values, variable_attributes(name, values.dtype))
        return xr.Dataset(variables)


def as_sample(dataset: xr.Dataset) -> xr.Dataset | None:
    """Points that were kept as a sample of them; any other dataset as it is; None where there are only counts."""
    kind, dim = next((pair for pair in KINDS if f"{pair[0]}_number" in dataset), (None, None))
    # Counts alone have no points; a dataset without either is a grid or a sample already.
    if kind is None:
        return None if any(str(name).startswith(TOLD) for name in dataset.data_vars) else dataset
    names = [name for name in dataset.variables if str(name).startswith(f"{kind}_") and dataset[name].dims == (dim,)]
    rows = dataset[names].rename({name: str(name).removeprefix(f"{kind}_") for name in names} | {dim: "point"})
    number = rows["number"]
    return rows.drop_vars("number").assign_coords(point=("point", number.values, number.attrs))

"""Spread of a sweep's values: counts in bins that are the same for every sweep, and quantiles from them.

A bin is a range of float32 numbers that begin with the same bits: 128 to a factor of two, so that a value is known to
0.8 % from its bin. Counts add up exactly, in whatever order parts of a sweep are looked at.
"""

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from sweeps.ask.names import UDUNITS, variable
from sweeps.data.keep.chunk import Points, sizes_and_types
from sweeps.data.pieces import Box, View

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


class Spread:
    """Counts of every variable over the feasible points, told as histograms, quantiles or both."""

    kind = "spread"

    def __init__(self, told: tuple[str, ...], plan: Any):
        self.told = told
        self.sizes, self.types = sizes_and_types(plan)
        self.counts = {name: np.zeros(BINS, np.int64) for name in self.types}

    def __str__(self) -> str:
        return ",".join(self.told)

    def begun(self) -> "Spread":
        """The same of points that have still to be looked at."""
        found = copy.copy(self)
        found.counts = {name: np.zeros(BINS, np.int64) for name in self.types}
        return found

    def add(self, box: Box, arrays: Mapping[str, View]) -> None:
        """Look at one more chunk."""
        points = Points(box, arrays, self.sizes)
        for name, count in self.counts.items():
            if name not in arrays:
                continue
            values = points.flat(name)
            if values.dtype.kind == "f":
                bits = values.astype(np.float32, copy=False).view(np.uint32)
                count += np.bincount(bits >> np.uint32(MANTISSA_BITS - FINE_BITS), minlength=BINS)
            elif values.dtype.kind == "b":
                count[1:3] += values.size - (yes := np.count_nonzero(values)), yes
            else:  # codes, of which -1 stands for none
                count += np.bincount(values.astype(np.int64) + 1, minlength=BINS)

    def dataset(self) -> xr.Dataset:
        """Counts so far, from the first bin that has any to the last."""
        variables = {}
        for name, count in self.counts.items():
            used = np.flatnonzero(count)
            low, high = (int(used[0]), int(used[-1]) + 1) if used.size else (0, 1)
            words = {"units": "1", "long_name": f"points in every bin of {name}", "low": low}
            variables[f"spread_{name}"] = (f"{name}_bin", count[low:high], words)
        return xr.Dataset(variables)

    def merged(self, parts: Iterable[xr.Dataset]) -> xr.Dataset:
        """Counts of the whole sweep, from those of its parts."""
        counts = self.begun().counts
        for part in parts:
            for name, count in counts.items():
                low, own = int(part[f"spread_{name}"].attrs["low"]), part[f"spread_{name}"].values
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
        found = xr.Dataset(variables)
        return found.set_coords([name for name in found.data_vars if not str(name).startswith(TOLD)])


def edges(bits: int) -> np.ndarray:
    """Lower ends of all bins of finite numbers that are not negative, and the upper end of the last."""
    numbers = np.arange((255 << bits) + 1, dtype=np.uint32) << np.uint32(MANTISSA_BITS - bits)
    return numbers.view(np.float32).astype(float)


def quantile(counts: np.ndarray, levels: tuple[float, ...] = LEVELS) -> np.ndarray:
    """Numbers below which shares of the points are: in the middle of their bins, NaN without points."""
    below = np.cumsum(counts[:INFINITE])
    if not below[-1]:
        return np.full(len(levels), np.nan)
    ends = edges(FINE_BITS)
    middles = np.where(ends[:-1] > 0.0, np.sqrt(ends[:-1] * ends[1:]), 0.0)
    ranks = np.clip(np.ceil(np.array(levels) * below[-1]), 1, below[-1])
    return middles[np.searchsorted(below, ranks)]


def _histogram(name: str, counts: np.ndarray) -> dict[str, Any]:
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
    return {f"histogram_{name}": (dim, counts[used], words), dim: (dim, used - 1, labels)}


def _quantiles(name: str, counts: np.ndarray) -> dict[str, Any]:
    unit = UDUNITS.get(variable(name).unit, variable(name).unit)
    words = {"units": unit, "long_name": f"quantiles of {variable(name).long_name}, known to 0.4 %"}
    return {f"quantiles_{name}": ("quantile", quantile(counts), words)}

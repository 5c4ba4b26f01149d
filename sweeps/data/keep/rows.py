"""Single points that are kept: their numbers in the sweep and the values of every variable there."""

import dataclasses
from collections.abc import Mapping

import numpy as np
import xarray as xr

from sweeps.ask.names import variable_attributes
from sweeps.data.keep.chunk import Points
from sweeps.data.keep.spread import TOLD
from sweeps.data.pieces import blank

KINDS = (("pareto", "front"), ("top", "rank"))
"""What can be kept of single points: how names of variables begin, and the dimension."""


@dataclasses.dataclass(frozen=True)
class Rows:
    """Points in an order that means something."""

    numbers: np.ndarray  # int64, shape (rows,), in the order of the whole sweep
    values: Mapping[str, np.ndarray]  # by variable, shape (rows,)

    @classmethod
    def empty(cls, types: Mapping[str, np.dtype]) -> "Rows":
        """No points."""
        return cls(np.zeros(0, np.int64), {name: np.zeros(0, dtype) for name, dtype in types.items()})

    @classmethod
    def of(cls, points: Points, places: np.ndarray, types: Mapping[str, np.dtype]) -> "Rows":
        """Points of a chunk; where its structure has no answer, blanks."""
        values = {
            name: points.at(name, places) if name in points.arrays else np.full(len(places), blank(dtype), dtype)
            for name, dtype in types.items()
        }
        return cls(points.numbers(places), values)

    @classmethod
    def read(cls, dataset: xr.Dataset, prefix: str, types: Mapping[str, np.dtype]) -> "Rows":
        """The rows that `Rows.dataset` made."""
        values = {name: dataset[f"{prefix}_{name}"].values.astype(dtype) for name, dtype in types.items()}
        return cls(dataset[f"{prefix}_number"].values.astype(np.int64), values)

    def followed_by(self, other: "Rows") -> "Rows":
        """These rows, then others."""
        values = {name: np.concatenate([own, other.values[name]]) for name, own in self.values.items()}
        return Rows(np.concatenate([self.numbers, other.numbers]), values)

    def picked(self, places: np.ndarray) -> "Rows":
        """Some of the rows, in the order of `places`."""
        return Rows(self.numbers[places], {name: values[places] for name, values in self.values.items()})

    def dataset(self, prefix: str, dim: str) -> xr.Dataset:
        """The rows along `dim`, in variables whose names begin with `prefix`."""
        variables = {f"{prefix}_number": (dim, self.numbers, {"units": "1", "long_name": "number of the point"})}
        for name, values in self.values.items():
            variables[f"{prefix}_{name}"] = (dim, values, variable_attributes(name, values.dtype))
        return xr.Dataset(variables)


def as_sample(dataset: xr.Dataset) -> xr.Dataset | None:
    """Points that were kept as a sample of them; any other dataset as it is; None where there are only counts."""
    kind, dim = next((pair for pair in KINDS if f"{pair[0]}_number" in dataset), (None, None))
    if kind is None:
        return None if any(str(name).startswith(TOLD) for name in dataset.data_vars) else dataset
    names = [name for name in dataset.variables if str(name).startswith(f"{kind}_") and dataset[name].dims == (dim,)]
    rows = dataset[names].rename({name: str(name).removeprefix(f"{kind}_") for name in names} | {dim: "point"})
    number = rows["number"]
    return rows.drop_vars("number").assign_coords(point=("point", number.values, number.attrs))

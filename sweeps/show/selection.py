"""The part of a sweep that a picture is of: some axes held at one value, and the metric by name."""

import numpy as np
import xarray as xr

from hwspaces import quantity
from hwspaces.quantities.units import nearest
from sweeps.data import labels
from sweeps.data.best import metrics


def selected(dataset: xr.Dataset, places: list[str]) -> xr.Dataset:
    """`dataset` at each `AXIS=VALUE` of `places`: the value on the axis that is nearest, on its scale.

    Of a sample, only the points with that name or number.

    Raises:
      ValueError: one line, for an unknown axis or name, a wrong unit, an axis given twice, a value beyond the axis,
        or a number between those that were drawn.
    """
    held: set[str] = set()
    for place in places:
        name, equals, text = (part.strip() for part in place.partition("="))
        if not (name and equals and text):
            raise ValueError(f"--at {place!r} must be AXIS=VALUE, such as tp=8")
        if name in held:
            raise ValueError(f"--at {name} is given twice")
        labels.known(name, labels.axes(dataset), "axis")
        held.add(name)
        (dim,) = dataset[name].dims
        dataset = dataset.isel({dim: _places(dataset, name, text)})
    return dataset


def metric_name(dataset: xr.Dataset, name: str) -> str:
    """`name` when it is a number that can be better or worse; else ValueError with the nearest ones."""
    return labels.known(name, metrics(dataset), "metric")


def _places(dataset: xr.Dataset, name: str, text: str) -> int | np.ndarray:
    """Position of a value on an axis; of a sample, those of all points that have it."""
    values, sample = dataset[name].values, labels.is_sample(dataset)
    if labels.is_text(dataset[name]):
        known = list(dict.fromkeys(map(str, values)))
        if text not in known:
            raise ValueError(f"--at {name}={text} is not on the axis{nearest(text, known)}")
        return np.flatnonzero(values == text) if sample else [str(value) for value in values].index(text)
    value = quantity(text, labels.unit(dataset, name), f"--at {name}")
    if sample:
        found = np.flatnonzero(np.isclose(values, value, rtol=1e-6))
        if not found.size:
            raise ValueError(f"--at {name}={text}: no point of the sample has this value")
        return found
    low, high = float(values.min()), float(values.max())
    if not low * (1 - 1e-6) <= value <= high * (1 + 1e-6):
        shown = [labels.text(dataset, name, end) for end in (low, high)]
        raise ValueError(f"--at {name}={text} is beyond the axis, which runs from {shown[0]} to {shown[1]}")
    return int(np.abs(np.log(values / value) if low > 0 else values - value).argmin())

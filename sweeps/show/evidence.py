"""Marks of extrapolation in pictures: dotted where a design is beyond the evidence of its constants."""

from typing import Any

import numpy as np
import xarray as xr

from jaxroof.efficiency.hull import BEYOND
from sweeps.show import style
from sweeps.show.plane import Plane

HATCH = "...."
WORDS = "beyond the evidence"


def extrapolations(names: Any) -> list[str]:
    """Names of the metrics that say how far engine steps are beyond the evidence, of those that are there."""
    return [name for name in names if str(name).endswith("_extrapolation")]


def beyond(dataset: xr.Dataset) -> xr.DataArray:
    """Whether a step of a design is beyond the evidence; False where the sweep did not ask for how far it is."""
    far = xr.DataArray(False)
    for name in extrapolations(dataset):
        far = far | (dataset[name] >= BEYOND)
    return far


def beyond_there(dataset: xr.Dataset, drawn: Plane) -> np.ndarray:
    """Whether the points that hold a plane's values are beyond the evidence, shape (len(y), len(x)).

    False everywhere where the sweep did not ask for a metric `*_extrapolation`, and for medians over other axes.
    """
    if drawn.chosen is None and drawn.others:
        return np.zeros(drawn.values.shape, bool)
    far = [drawn.variable(dataset, name) >= BEYOND for name in extrapolations(dataset)]
    return np.any(far, axis=0) & np.isfinite(drawn.values) if far else np.zeros(drawn.values.shape, bool)


def mark(axes: Any, across: np.ndarray, up: np.ndarray, there: np.ndarray) -> None:
    """Dots over the cells of a map that are beyond the evidence, between the edges `across` and `up`."""
    rectangle = style.matplotlib().patches.Rectangle
    look = {"fill": False, "hatch": HATCH, "lw": 0.0, "edgecolor": style.INK, "zorder": 4}
    for row, cells in enumerate(there):
        ends = np.flatnonzero(np.diff(np.concatenate([[False], cells, [False]]).astype(int)))
        for first, last in ends.reshape(-1, 2):
            corner, width = (across[first], up[row]), across[last] - across[first]
            axes.add_patch(rectangle(corner, width, up[row + 1] - up[row], **look))


def handle() -> Any:
    """The mark in a legend."""
    return style.matplotlib().patches.Patch(facecolor="white", edgecolor=style.INK, hatch=HATCH, lw=0.4, label=WORDS)

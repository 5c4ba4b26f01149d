"""Registration of `dataset.jaxroof` with xarray: what it does is imported when it is first used."""

import importlib
from typing import Any

import xarray as xr


def _accessor(dataset: xr.Dataset) -> Any:
    """Questions to a sweep: pareto, best, sensitivity, plot."""
    # By its name: it draws pictures, which stand on a floor above this one.
    return importlib.import_module("sweeps.entries.accessor").Questions(dataset)


xr.register_dataset_accessor("jaxroof")(_accessor)

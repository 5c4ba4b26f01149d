"""Served comparisons as labelled arrays: every place as estimated, over setting, accelerator and layout."""

import json

import numpy as np
import xarray as xr

from sweeps.ask.layouts import label
from sweeps.ask.names import variable_attributes
from sweeps.studies.served.comparison import Comparison

DIMS = ("setting", "hardware", "layout")


def dataset(found: Comparison) -> xr.Dataset:
    """Figures of every place at its largest load; NaN where it cannot serve.

    Those that were simulated have the simulation's load: `simulated` says which.
    """
    asked, options = found.question, found.question.options
    simulated = np.zeros((len(options.settings), len(options.devices), len(options.layouts)), np.int8)
    for row in found.rows:
        simulated[row.place] |= row.simulated
    variables = {name: (DIMS, values, variable_attributes(name, values.dtype)) for name, values in found.arrays.items()}
    meaning = {"units": "1", "long_name": "1 where the load is from a simulation, 0 where from the steady state"}
    labels = {
        "setting": [choice.text or "the engine's own" for choice in options.settings],
        "hardware": [device.name for device in options.devices],
        "layout": [label(layout) for layout in options.layouts],
    }
    words = {"setting": "settings of engine and cache", "hardware": "accelerator", "layout": "parallel degrees"}
    return xr.Dataset(
        {**variables, "simulated": (DIMS, simulated, meaning)},
        {
            name: (name, np.array(values, object), {"units": "1", "long_name": words[name]})
            for name, values in labels.items()
        },
        {
            "Conventions": "CF-1.11",
            "title": f"{asked.model.name}: the largest load of every deployment within {asked.target.text}",
            "requests": json.dumps(dict(asked.requests.keys), sort_keys=True, default=str),
            "engine": asked.engine,
            "efficiency": asked.efficiency.name,
            "simulated_requests": found.requests[1],
        },
    )

"""Simulations as labelled datasets, and those datasets in netCDF files."""

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.numerics.arrays import jax
from jaxroof.version import VERSION
from sweeps.ask.names import variable_attributes
from sweeps.data.store import saved
from sweeps.run.simulated.load import seed_of
from sweeps.run.simulated.objective import limits
from sweeps.run.simulated.policies import policy_record
from sweeps.run.simulated.spec import ServeSpec
from sweeps.serving.report import iteration_columns, prompt_shares, replica_columns, replica_loads, request_columns
from sweeps.serving.routers import imbalance
from sweeps.serving.run import Simulation


def dataset(simulation: Simulation) -> xr.Dataset:
    """Everything about one simulation.

    Returns:
      Metrics without dimension; along `request` what became of each, NaN where it did not come to that; along
      `iteration` what the engine did; along `evaluation` replicas that are on, where they start and stop. SI units,
      float64; attributes hold the question, versions and notes.
    """
    # Scalars first, then columns over requests and over iterations.
    values: dict[str, tuple[Any, ...]] = {name: ((), np.float64(value)) for name, value in simulation.metrics.items()}
    values["kv_blocks"] = ((), np.float64(simulation.blocks))
    values |= {name: (("request",), column) for name, column in request_columns(simulation).items()}
    values |= {name: (("iteration",), column) for name, column in iteration_columns(simulation).items()}
    values |= {name: (("evaluation",), column) for name, column in replica_columns(simulation).items()}
    variables = {
        name: (dims, column, variable_attributes(name, column.dtype)) for name, (dims, column) in values.items()
    }
    return xr.Dataset(variables, attrs=attributes(simulation))


def routers_dataset(asked: ServeSpec, found: Mapping[str, Simulation]) -> xr.Dataset:
    """Everything about one load with several routers.

    Returns:
      Metrics along `router`; along `router` and `request` what became of each; `prompt_share` along `router` and
      `source`, `replica_load` along `router` and `replica_number`. SI units, float64; attributes as of a simulation.
    """
    each = list(found.values())
    values: dict[str, tuple[tuple[str, ...], np.ndarray]] = {
        name: (("router",), np.array([one.metrics.get(name, np.nan) for one in each])) for name in each[0].metrics
    }
    values["load_imbalance"] = (("router",), np.array([imbalance(one) for one in each]))
    columns = [request_columns(one) for one in each]
    for name in columns[0]:
        values[name] = (("router", "request"), np.stack([np.asarray(one[name]) for one in columns]))
    shares = [prompt_shares(one) for one in each]
    values["prompt_share"] = (("router", "source"), np.array([list(one.values()) for one in shares]))
    values["replica_load"] = (("router", "replica_number"), np.stack([replica_loads(one) for one in each]))
    labels = {"router": list(found), "source": list(shares[0])}
    variables = {name: (dims, data, variable_attributes(name, data.dtype)) for name, (dims, data) in values.items()}
    own = attributes(dataclasses.replace(each[0], spec=asked))
    return xr.Dataset(variables, labels, own | {"title": f"{own['title']}, with {len(found)} routers"})


def written(path: str | os.PathLike[str], data: xr.Dataset, force: bool = False) -> None:
    """Write a dataset as netCDF; the file appears when it is whole.

    Raises:
      ValueError: one line, for a file that must not or cannot be written, as of `sweeps.data.store.saved`.
    """
    encoding: dict[str, Any] = {str(name): {"zlib": True, "complevel": 4} for name in data.data_vars if data[name].ndim}
    saved(path, data, force, encoding=encoding)


def attributes(simulation: Simulation) -> dict[str, Any]:
    """Provenance of the dataset: `sweeps.serve(**json.loads(data.spec))` makes it again."""
    text = simulation.spec.text()
    case = simulation.case
    return {
        "Conventions": "CF-1.11",
        "title": f"simulation of {case.model.name} on {case.hardware.name}: {simulation.load.text}",
        "source": f"jaxroof {VERSION}, jax {jax.__version__}",
        "jaxroof_version": VERSION,
        "job": "serve",
        "spec": text,
        "spec_sha256": hashlib.sha256(text.encode()).hexdigest(),
        "base_scenario_sha256": hashlib.sha256(repr(case.scenario).encode()).hexdigest(),
        "hardware": case.hardware.name,
        "model": case.model.name,
        "efficiency": case.efficiency.name,
        "engine": simulation.engine,
        "policy": json.dumps(policy_record(simulation.policy)),
        "slo": json.dumps(limits(simulation.objective)),
        "stream": simulation.load.stream.source,
        "load": simulation.load.text,
        # Attributes in netCDF are numbers or text: no clients, 0, stand for an open loop.
        "clients": 0 if simulation.load.clients is None else simulation.load.clients,
        "think": simulation.load.think,
        **({"classes": ", ".join(simulation.classes)} if simulation.classes else {}),
        **({} if simulation.load.images is None else {"images": json.dumps(simulation.load.images.record())}),
        "replicas": simulation.replicas,
        "seed": seed_of(simulation.spec),
        "notes": " | ".join(simulation.notes),
    }

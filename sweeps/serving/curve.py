"""Latency against load: users' latencies on several engines as more requests are sent to each."""

import json
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from hwspaces.quantities.units import plain_arguments, quantity
from jaxroof.numerics.arrays import jax
from jaxroof.version import VERSION
from sweeps.ask.keys import takes
from sweeps.ask.leaves import leaf_long_name, leaf_unit
from sweeps.ask.names import UDUNITS, variable_attributes
from sweeps.run.precision import precision
from sweeps.run.simulated.grid import Metrics
from sweeps.run.simulated.objective import parse_slo
from sweeps.run.simulated.plan import FLAGS, VARIABLES
from sweeps.run.simulated.spec import ServeSpec, serve_spec
from sweeps.serving.fleet import Fleet, fleet

MOST_LOAD = 1e6
"""Requests per s, or clients, that make sense."""


@takes(ServeSpec)
@plain_arguments
def latency_curve(
    model: str,
    hardware: str | Iterable[str],
    *,
    rates: Sequence[float] | None = None,
    concurrencies: Sequence[float] | None = None,
    tp: int | Sequence[int] | None = None,
    node: int | None = None,
    progress: Callable[[int], None] = lambda points: None,
    **keys: Any,
) -> xr.Dataset:
    """Metrics of every accelerator at every load, the same requests each time with their times stretched.

    Args:
      model: catalogue name or config file.
      hardware: accelerators; those that cannot serve the model are left out, and named in the attribute `left_out`.
      rates: requests per s of an open loop, rising.
      concurrencies: in its place, clients of a closed loop.
      tp: tensor-parallel degree, or several; None: the smallest power of two at which the model fits on each.
      node: devices of one server, which is rented whole; None: that of `hwspaces.accelerators.prices`.
      progress: called with the number of simulations that are done.
      **keys: of `sweeps.run.simulated.spec.ServeSpec`: trace, or isl and osl with requests, seed and arrivals; engine,
        policy, slo, deployment, weights, efficiency, ...

    Returns:
      Every metric over `hardware` and `rate`, or `concurrency`; SI units, float64.

    Raises:
      ValueError: one line that names what is wrong, its value and what is allowed.

    Example:
      sweeps.latency_curve("Llama-3.1-8B", ["H100-SXM", "H200-SXM"], rates=[1, 2, 4, 8], isl=1024, osl=256)
    """
    loads, closed = loads_of(rates, concurrencies)
    # The name of the hardware is a placeholder, which `fleet` does not read.
    spec = serve_spec(hardware="-", model=model, **keys, **({"concurrency": 1} if closed else {}))
    with precision("float64"):
        engines = fleet(spec, hardware, tp, node)
        metrics = [engines.outcomes([one] * len(engines.places), parse_slo(spec.slo), progress) for one in loads]
        return curve_dataset(engines, loads, metrics)


def load_range(text: str, points: int, where: str, whole: bool = False) -> list[float]:
    """Loads of "1..32", so many in equal ratios, whole numbers if wanted; or of "1,2,4".

    Raises:
      ValueError: one line that begins with `where`.
    """
    first, dots, last = text.partition("..")
    if not dots:
        return [quantity(part.strip(), "1", where) for part in text.split(",")]
    low, high = quantity(first.strip(), "1", where), quantity(last.strip(), "1", where)
    if not low < high:
        raise ValueError(f"{where} {text}: {low:g} must be below {high:g}")
    # Equal ratios between neighbours; rounding may make two of them equal.
    ratio = math.log(high / low)
    steps = [low * math.exp(ratio * i / max(points - 1, 1)) for i in range(points)]
    return list(dict.fromkeys(float(round(one)) if whole else float(f"{one:.3g}") for one in steps))


def loads_of(rates: Sequence[float] | None, concurrencies: Sequence[float] | None) -> tuple[np.ndarray, bool]:
    """Loads in rising order, and whether they are clients of a closed loop.

    Raises:
      ValueError: one line: both or neither are given, or one of them cannot be.
    """
    values = rates if concurrencies is None else concurrencies
    if values is None or (rates is not None and concurrencies is not None):
        raise ValueError("rates and concurrencies: give one of them")
    name, closed = ("rates", False) if concurrencies is None else ("concurrencies", True)
    given = np.array([float(one) for one in values])
    if not given.size:
        raise ValueError(f"{name} is empty; give at least one")
    # Rates in requests per s, or whole clients.
    for one in given:
        if not 0.0 < one <= MOST_LOAD or (closed and one != int(one)):
            kind = "whole numbers of at least 1" if closed else "above 0"
            raise ValueError(f"{name}: {one:g} cannot be; they must be {kind} and at most {MOST_LOAD:g}")
    if (np.diff(given) <= 0.0).any():
        raise ValueError(f"{name}: {', '.join(f'{one:g}' for one in given)} must rise")
    return given, closed


def curve_dataset(engines: Fleet, loads: np.ndarray, metrics: Sequence[Metrics]) -> xr.Dataset:
    """Metrics of every load, each of shape [deployments], as a labelled Dataset over `hardware` and the load."""
    axis = "concurrency" if engines.rate is None else "rate"
    path = f"workload.{axis}"
    variables = {}
    for name in VARIABLES:
        values = np.stack([one.get(name, np.full(len(engines.places), np.nan)) for one in metrics], axis=1)
        dims: tuple[str, ...] = ("hardware", axis)
        # What does not depend on the load is over the accelerators alone.
        if name in (*FLAGS, "devices", "weight_bytes", "kv_capacity_tokens", "kv_blocks"):
            values, dims = values[:, 0], ("hardware",)
        variables[name] = (dims, values, variable_attributes(name, values.dtype))
    unit = leaf_unit(path)
    coordinates = {
        "hardware": (
            "hardware",
            np.array([place.label for place in engines.places], object),
            {"units": "1", "long_name": "accelerator"},
        ),
        axis: (axis, loads, {"units": UDUNITS.get(unit, unit), "long_name": leaf_long_name(path)}),
    }
    return xr.Dataset(variables, coordinates, _attributes(engines, axis))


def _attributes(engines: Fleet, axis: str) -> dict[str, Any]:
    return {
        "Conventions": "CF-1.11",
        "title": f"{engines.model.name}: latency against {'clients' if axis == 'concurrency' else 'rate'}",
        "source": f"jaxroof {VERSION}, jax {jax.__version__}",
        "job": "serve",
        "engine": engines.engine,
        "question": engines.spec.text(),
        "requests": engines.requests.stream.source,
        "left_out": json.dumps(dict(engines.left_out)),
        "notes": " | ".join(engines.notes),
    }

"""Figures of deployments at their largest load, by which they are sorted: throughput, money, energy, emissions."""

import dataclasses
import math
from typing import Any

import numpy as np

from hwspaces.accelerators.prices import charged_devices, rented_devices
from jaxroof.deployment import Deployment, replica_devices
from jaxroof.hardware import Hardware
from jaxroof.jobs.economics import economics
from jaxroof.numerics.arrays import eager
from sweeps.studies.compare.candidates import Options, by_structure
from sweeps.studies.compare.estimate import Estimate
from sweeps.studies.compare.ranking import PRICE, RATE

HOUR = 3600.0

SORTED_BY = (
    *(PRICE, "usd_per_hour", RATE, "tokens_per_second", "requests_per_second", "devices", "rented_devices"),
    *("joules_per_token", "gco2_per_million_tokens", "tokens_per_joule_at_tdp"),
    *("energy_usd_per_million_tokens", "capital_usd_per_million_tokens", "owning_usd_per_million_tokens"),
)
"""Figures by which a served comparison can be sorted."""


def figures(
    options: Options, load: np.ndarray, estimates: Estimate, output: np.ndarray, rate: float | None, headroom: float
) -> dict[str, np.ndarray]:
    """Figures by name, arrays of shape [settings, devices, layouts]; NaN where one is unknown or nothing serves.

    Args:
      load: requests/s that one replica takes.
      estimates: whose power they have.
      output: tokens/s that a load of one request/s makes: tokens of an answer, mean; where it is simulated, those of
        the steady part of its simulation.
      rate: requests/s that replicas have to take together, with `headroom` beside; None: one replica at its load.
    """
    load = np.where(load > 0.0, load, np.nan)
    arrays = {name: np.full(load.shape, np.nan) for name in SORTED_BY}
    # Figures are formulas of numbers: one evaluation for all deployments of a structure.
    for settings, devices, hardware, layouts, deployment in by_structure(options):
        where = np.ix_(settings, devices, layouts)
        with eager():
            # Devices of one replica by layout, and of one server by accelerator.
            each = np.broadcast_to(replica_devices(deployment), (1, 1, len(layouts)))
            # Power is that of the largest load: a replica that does less idles for the rest of the time.
            joules = estimates.power[where] * each / (load[where] * output[where])
            server = np.array([options.servers[device] for device in devices], float).reshape(1, -1, 1)
            charged = charged_devices(each, server)
            own = figures_of(
                hardware, deployment, each, charged, server, load[where], joules, output[where], rate, headroom
            )
        for name, values in own.items():
            arrays[name][where] = values
    return arrays


def figures_of(
    hardware: Hardware,
    deployment: Deployment,
    devices: np.ndarray,
    charged: np.ndarray,
    server: np.ndarray | float,
    load: np.ndarray,
    joules: np.ndarray,
    output: np.ndarray | float,
    rate: float | None,
    headroom: float,
) -> dict[str, np.ndarray]:
    """Figures of replicas, by name of `SORTED_BY`, arrays of the shape of `load`; others as of `figures`.

    Args:
      deployment: for costs; where it has fewer devices than a replica, all devices are counted alike.
      devices: of one replica.
      charged: devices that it is charged for, as of `hwspaces.accelerators.prices.charged_devices`.
      server: devices of a server; of replicas that take a rate together, whole servers are rented.
      joules: per output token.
    """
    load = np.where(load > 0.0, load, np.nan)
    # With a rate, replicas share it evenly, each below its own largest load.
    served = load if rate is None else share_of(rate, headroom, load)  # requests/s of one replica
    replicas = np.ones(load.shape) if rate is None else np.round(rate / served)
    tokens = served * output
    price = math.nan if hardware.price is None else hardware.price
    arrays = {name: np.full(load.shape, np.nan) for name in SORTED_BY}
    # A single replica is charged its part of a server; replicas of one rate fill whole servers together.
    rented = charged * replicas if rate is None else rented_devices(charged, replicas, server)
    with eager():
        # A deployment with fewer devices than the replica stands for its part of the replica's throughput and rent.
        own = replica_devices(deployment)
        paid = dataclasses.replace(deployment, charged=rented / (devices * replicas) * own)
        costs = economics(hardware, paid, tokens / (devices / own), joules)
    arrays |= {name: np.broadcast_to(value, load.shape) for name, value in costs.items() if name in arrays}
    arrays["devices"] = np.where(np.isfinite(load), devices * replicas, np.nan)
    arrays["rented_devices"] = np.where(np.isfinite(load), rented, np.nan)
    arrays["joules_per_token"] = joules
    arrays["usd_per_hour"] = np.where(np.isfinite(load), price * HOUR * rented, np.nan)
    arrays["tokens_per_second"] = tokens * replicas
    arrays["requests_per_second"] = served * replicas
    return arrays


def share_of(rate: float, headroom: float, load: Any) -> Any:
    """Requests/s of each of the replicas that take `rate` together, with `headroom` beside; `load` is one's largest."""
    # The fewest replicas whose loads add up to the rate and its headroom; the slack forgives rounding.
    return rate / np.ceil(rate * (1.0 + headroom) / load - 1e-9)

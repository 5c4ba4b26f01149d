"""The prefill pool of a disaggregated deployment from a user's settings: accelerator, layout and constants."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import hwspaces
import workloads
from jaxroof.deployment import DEGREES, Deployment
from jaxroof.jobs.scenario import Pool
from jaxroof.memory.legality import broken_rule
from sweeps.ask.deployments import with_settings

OBJECTS = ("hardware", "efficiency")
"""Settings of a pool that are names; all others are those of its deployment."""


SEPARATE = (*DEGREES, "stages", "drafts", "tree")
"""Settings of the deployment that a pool has of its own: those of the decode pool say nothing about it."""


@dataclasses.dataclass(frozen=True)
class PoolEntry:
    """A pool and where its parts are from."""

    hardware: hwspaces.HardwareEntry
    pool: Pool


def prefill_pool(
    settings: Mapping[str, Any],
    entry: workloads.ModelEntry,
    device: hwspaces.HardwareEntry,
    efficiency: hwspaces.EfficiencyEntry,
    deployment: Deployment,
    prices: str | None = None,
) -> PoolEntry:
    """The pool that `settings` describe; what they do not say is as in the decode pool, but for degrees, which are 1.

    Args:
      settings: hardware, efficiency, and settings of the deployment by name.
      entry: the model of both pools.
      device, efficiency, deployment: of the decode pool.
      prices: of `hwspaces.priced`, for both pools.

    Raises:
      ValueError: one line that names the setting, its value and what is allowed.
    """
    names = {name: settings[name] for name in OBJECTS if settings.get(name) is not None}
    if "hardware" in names:
        device = hwspaces.priced(hwspaces.hardware(names["hardware"]), prices)
    if "efficiency" in names:
        efficiency = hwspaces.efficiency(names["efficiency"])
    spread = {name: value for name, value in settings.items() if name not in OBJECTS}
    if "kv_bytes" in spread:
        raise ValueError("prefill.kv_bytes: both pools store the cache at one precision; give it once, as kv")
    one = dict.fromkeys(SEPARATE) | {"tp": 1.0, "dp": 1.0}
    try:
        spread_out = with_settings(dataclasses.replace(deployment, **one), spread)
    except ValueError as error:
        raise ValueError(str(error).replace("deployment.", "prefill.")) from None
    pool = Pool(hardware=device.hardware, deployment=spread_out, efficiency=efficiency.efficiency)
    return PoolEntry(device, pool)


def require_legal(found: PoolEntry, entry: workloads.ModelEntry) -> None:
    """ValueError in one line with the rule that a prefill pool breaks."""
    broken = broken_rule(found.pool.hardware, entry.model, found.pool.deployment)
    if broken:
        raise ValueError(f"{entry.name} on {found.hardware.name}, prefill pool: {broken}")

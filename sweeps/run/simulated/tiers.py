"""Tiers of the KV cache below the devices' memory, from a user's text: "host=1TB,ssd=8TB,remote=100TB"."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from hwspaces.accelerators.entry import HardwareEntry
from hwspaces.accelerators.hosts import hosts
from hwspaces.accelerators.prices import server_devices
from hwspaces.quantities.units import nearest, quantity
from jaxroof.deployment import Deployment, on_one_device, replica_devices
from jaxroof.memory.capacity import kv_bytes_per_token
from jaxroof.model import Model
from jaxroof.scheduler.service.tiers import EVICTIONS, TierRules

LATENCY = {"host": 10e-6, "ssd": 100e-6, "remote": 1e-3}
"""s before the first byte comes. Assumptions: host, the launch of a copy; ssd, a read of a drive, which datasheets put
at 80 to 100 us; remote, the look-up in a store and the first of its packets."""

NAMES = tuple(LATENCY)
"""Tiers that there are: memory of the host, SSDs of the host, a store in the network that all engines share."""

WRITES = ("back", "through")
"""What a tier gets: what the one above evicts, or what the engine's cache has, at once."""


@dataclasses.dataclass(frozen=True)
class CacheTier:
    """One tier, as one engine sees it."""

    name: str  # of NAMES
    blocks: int  # that it holds: the engine's part, or of a shared one all
    bandwidth: float  # tokens/s that a prompt's cache is loaded at
    latency: float  # s
    shared: bool  # by all engines
    source: str  # of its bandwidth


def cache_tiers(
    text: str, entry: HardwareEntry, model: Model, deployment: Deployment, block_size: float, node: int | None = None
) -> list[CacheTier]:
    """The tiers that a text names, in its order, for one engine.

    Every device loads its own share of a token's cache, all at once: tokens/s = bandwidth of a device / bytes of a
    token on the fullest device. A capacity of host or ssd is of one server, of which an engine has the part that its
    devices are; that of remote is of all engines together. Blocks are counted with every head once.

    Args:
      text: "host=1TB,ssd=8TB,remote=100TB": a capacity for each.
      entry: the hardware. Its `memory.host.bandwidth` and `memory.storage.bandwidth` per device, where it has them,
        come before those of `hosts.csv`; remote is reached over `links.scale_out`.
      block_size: tokens per block.
      node: devices of one server, in place of those that are known.

    Raises:
      ValueError: one line that names the tier, its value and what is allowed or missing.
    """
    held = float(kv_bytes_per_token(model, deployment))
    whole = float(kv_bytes_per_token(model, on_one_device(deployment)))
    if not held > 0.0:
        raise ValueError(f"tiers = {text!r}: the model adds no cache with a token, so that there is nothing to load")
    server = server_devices(entry.name, node)
    share = float(replica_devices(deployment)) / server
    found = []
    for name, capacity in _parts(text):
        bandwidth, source = _bandwidth(name, entry, server)
        shared = name == "remote"
        blocks = math.floor(capacity * (1.0 if shared else share) / (whole * block_size))
        found.append(CacheTier(name, blocks, bandwidth / held, LATENCY[name], shared, source))
    return found


def tier_rules(
    engines: Sequence[Sequence[CacheTier]],
    write: str = "through",
    eviction: str = "lru",
    overlap: float = 0.0,
    known: bool = False,
) -> TierRules:
    """Numbers of the tiers of all engines, as `begin` takes them, shapes [engines, tiers] and [engines].

    Args:
      engines: of every engine its tiers, the same names in the same order.
      write: of `WRITES`.
      eviction: of `jaxroof.scheduler.service.tiers.EVICTIONS`.
      overlap: share of loading that runs beside compute, 0 to 1.
      known: whether routers count what is in an engine's tiers.

    Raises:
      ValueError: one line that names the word, its value and what is allowed.
    """
    for word, value, allowed in (("write", write, WRITES), ("eviction", eviction, tuple(EVICTIONS))):
        if value not in allowed:
            words = f"{', '.join(allowed[:-1])} or {allowed[-1]}"
            raise ValueError(f"tiers: {word} = {value!r} must be {words}{nearest(value, allowed)}")
    if not 0.0 <= overlap <= 1.0:
        raise ValueError(f"tiers: overlap = {overlap!r} must be a share from 0 to 1")
    names = [[tier.name for tier in tiers] for tiers in engines]
    if any(each != names[0] for each in names):
        raise ValueError(f"tiers: all engines must have the same ones in the same order; they have {names}")
    shape = np.ones((len(engines), len(names[0])))

    def each(field: str) -> np.ndarray:
        return np.array([[float(getattr(tier, field)) for tier in tiers] for tiers in engines]).reshape(shape.shape)

    return TierRules(
        capacity=each("blocks"),
        bandwidth=each("bandwidth"),
        latency=each("latency"),
        through=shape * WRITES.index(write),
        shared=each("shared"),
        eviction=(shape * list(EVICTIONS).index(eviction)).astype(np.int32),
        overlap=shape[:, 0] * overlap,
        known=shape[:, 0] * known,
    )


def _parts(text: str) -> list[tuple[str, float]]:
    """Names and capacities in B."""
    found: dict[str, float] = {}
    for part in text.split(","):
        name, equals, value = (word.strip() for word in part.partition("="))
        if name not in NAMES:
            raise ValueError(f"tiers = {text!r}: there is no tier {name!r}{nearest(name, NAMES)}; {_ALLOWED}")
        if not equals:
            raise ValueError(f"tiers = {text!r}: {name} has no capacity; {_ALLOWED}")
        if name in found:
            raise ValueError(f"tiers = {text!r}: {name} stands twice")
        found[name] = quantity(value, "B", f"tiers: {name}")
    return list(found.items())


_ALLOWED = "write such as host=1TB,ssd=8TB,remote=100TB"


def _bandwidth(name: str, entry: HardwareEntry, server: int) -> tuple[float, str]:
    """B/s of one device's part of a path, per direction, and its source."""
    hardware, host = entry.hardware, hosts().get(entry.name)
    given = {"host": hardware.memory.host, "ssd": hardware.memory.storage, "remote": hardware.links.scale_out}[name]
    if given is not None:
        return float(given.bandwidth), "the hardware's own"
    if host is not None and name == "host":
        return host.host_bandwidth, host.host_source
    if host is not None and name == "ssd":
        # All devices of a server read at once, as they load shares of the same prompts.
        return host.ssd_bandwidth / server, host.ssd_source
    missing = {"host": "memory.host", "ssd": "memory.storage", "remote": "links.scale_out"}[name]
    raise ValueError(
        f"tiers: {name} of {entry.name}: its bandwidth is unknown; give hardware.{missing}.bandwidth per device"
    )

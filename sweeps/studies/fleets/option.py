"""One way to serve a class of traffic: an accelerator, a layout of one replica, and the load that it takes."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Option:
    """One replica of a class's model. Its price is that of its accelerator: `sweeps.studies.fleets.supply.Supply`."""

    hardware: str  # name of the accelerator
    devices: int  # of one replica
    layout: str  # parallelism and settings in words: "tp4 ep4"
    requests_per_second: float  # that one replica takes within the class's limits
    power: float | None = None  # W per device while it serves; None: unknown
    spec: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # keys of a `ServeSpec` of this replica

    @property
    def rate_per_device(self) -> float:
        """Requests per s and device."""
        return self.requests_per_second / self.devices


@dataclasses.dataclass(frozen=True)
class Found:
    """Options of one class of traffic, and why other accelerators have none."""

    options: tuple[Option, ...]
    left_out: Mapping[str, str]  # accelerator -> reason


def kept(options: Iterable[Option]) -> tuple[Option, ...]:
    """Options worth choosing from: of each accelerator, those that no smaller replica beats per device.

    A larger replica stays when it takes more requests per s and device than every smaller one: it costs less per
    request, and the smaller one wastes less where few replicas are needed.
    """
    best: dict[str, list[Option]] = {}
    for option in sorted(options, key=lambda one: (one.devices, -one.rate_per_device)):
        before = best.setdefault(option.hardware, [])
        if option.requests_per_second > 0.0 and (not before or option.rate_per_device > before[-1].rate_per_device):
            before.append(option)
    return tuple(option for found in best.values() for option in found)

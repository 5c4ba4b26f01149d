"""One way to serve a class of traffic: an accelerator, a layout of one replica, and the load that it takes."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sweeps.studies.compare.compare import comparison
from sweeps.studies.compare.ranking import RATE
from sweeps.studies.compare.words import read


@dataclasses.dataclass(frozen=True, kw_only=True)
class Option:
    """One replica of a class's model. Its price is that of its accelerator: `sweeps.studies.fleet.question.Supply`."""

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
class FoundOptions:
    """Options of one class of traffic, and why other accelerators have none."""

    options: tuple[Option, ...]
    left_out: Mapping[str, str]  # accelerator -> reason


def kept(options: Iterable[Option]) -> tuple[Option, ...]:
    """Options worth choosing from: of each accelerator, those that no smaller replica beats per device.

    A larger replica stays when it takes more requests per s and device than every smaller one: it costs less per
    request, and the smaller one wastes less where few replicas are needed.
    """
    best: dict[str, list[Option]] = {}
    # From the smallest replica up; of one size, the one with the most load first, so that others of it never pass.
    for option in sorted(options, key=lambda one: (one.devices, -one.rate_per_device)):
        before = best.setdefault(option.hardware, [])
        if option.requests_per_second > 0.0 and (not before or option.rate_per_device > before[-1].rate_per_device):
            before.append(option)
    return tuple(option for group in best.values() for option in group)


# Options of a class of traffic from the served comparison: the load that a replica of each layout takes.


def method(simulated: int) -> str:
    """How the loads of replicas are found, in words."""
    return "estimate of continuous batching" + (f", the best {simulated} of a class by simulation" if simulated else "")


def options(
    model: str,
    isl: str,
    osl: str,
    slo: str,
    hardware: Sequence[str],
    *,
    max_devices: int = 16,
    simulated: int = 0,
    **words: Any,
) -> FoundOptions:
    """Every accelerator and layout that keeps a class's limits, with the requests per s that one replica takes.

    Args:
      model: a catalogue name or a config file.
      isl, osl: prompt and output tokens, a number or a distribution in words.
      slo: limits: "ttft=1s,tpot=30ms".
      hardware: accelerators by name or file.
      max_devices: of one replica.
      simulated: layouts that are simulated at most; the others have estimates.
      **words: precisions in place of the checkpoint's, and efficiency constants, as of `sweeps.compare`.

    Returns:
      The options, and the reason of every accelerator that has none.

    Raises:
      ValueError: one line that names what is wrong, its value and what is allowed.
    """
    # Sorted by tokens per second and device: money is the fleet's own question, at the fleet's prices.
    asked = {"model": model, "slo": slo, "isl": isl, "osl": osl, "hardware": hardware, "max_devices": max_devices}
    # A fleet simulates its replicas, not pools.
    found = comparison(read({**asked, "sort": RATE, "simulate": simulated, "disaggregated": False, **words}))
    choices = [
        Option(
            hardware=row.hardware,
            devices=row.devices,
            layout=row.layout,
            requests_per_second=row.metrics["load"],
            # The comparison has NaN where the power is unknown, which is not above 0.
            power=row.metrics["power"] if row.metrics["power"] > 0.0 else None,
            spec=row.spec,
        )
        for row in found.rows
    ]
    # Accelerators without a row, by the layout that came nearest, and those that cannot run the model.
    missed = {row.hardware: row.reason or "" for row in found.nearest_misses}
    return FoundOptions(tuple(choices), missed | dict(found.question.lacking))

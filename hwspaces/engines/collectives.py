"""All-reduce kernels of an engine's own, beside its library's."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from hwspaces.engines import keys
from hwspaces.quantities.units import quantity

SHOTS = ("one_shot", "two_shot")
"""Algorithms of `jaxroof.collectives` that engines have kernels of their own for."""

_COLLECTIVES = (
    *("kernels", "largest", "bridged", "copy_time", "copy_time_of", "launch_time", "launch_time_of"),
    "source",
)


@dataclasses.dataclass(frozen=True)
class OwnCollectives:
    """All-reduce kernels of an engine, which hand large messages on to a library; of a library, none."""

    kernels: tuple[str, ...] = ()  # its own algorithms, beside the library's
    largest: float = 0.0  # B, of the messages that its own kernels take
    bridged: bool = True  # whether its own kernels run over PCIe
    copy_time: float = 0.0  # s per run on links whose switch reduces: copies into and out of symmetric memory
    copy_time_of: Mapping[str, float] = dataclasses.field(default_factory=dict)  # the same from a release on
    launch_time: float = 0.0  # s of host work of an eager run, on a host of speed 1
    launch_time_of: Mapping[str, float] = dataclasses.field(default_factory=dict)  # the same from a release on

    def released(self, version: str) -> "OwnCollectives":
        """The same with the times of a release; an unknown version, "", has the newest."""

        def newest(time: float, times: Mapping[str, float]) -> float:
            for known in sorted(times, key=keys.numbers):
                time = times[known] if not version or keys.numbers(known) <= keys.numbers(version) else time
            return time

        copies, launches = newest(self.copy_time, self.copy_time_of), newest(self.launch_time, self.launch_time_of)
        return dataclasses.replace(self, copy_time=copies, launch_time=launches)


def collective_kernels(table: Mapping[str, Any], where: str) -> OwnCollectives:
    """Those of the table `collectives` of a file.

    Raises:
      ValueError: one line that names key, value and what is allowed.
    """
    keys.require_known(table, _COLLECTIVES, where)
    # An engine without the table leaves every message to its library.
    if not table:
        return OwnCollectives()
    for key in table.get("kernels", ()):
        if key not in SHOTS:
            raise ValueError(f"{where}.kernels: {key!r} must be {' or '.join(SHOTS)}")
    if not isinstance(table.get("source"), str):
        raise ValueError(f"{where}.source is missing, or no text")
    if not isinstance(table.get("bridged", True), bool):
        raise ValueError(f"{where}.bridged = {table['bridged']!r} must be true or false")
    if "largest" not in table:
        raise ValueError(f"{where}.largest is missing")
    times = {
        name: {key: keys.time(value, f"{where}.{name}.{key}") for key, value in keys.table(table, name, where).items()}
        for name in ("copy_time_of", "launch_time_of")
    }
    return OwnCollectives(
        kernels=tuple(table.get("kernels", ())),
        largest=quantity(table["largest"], "B", f"{where}.largest"),
        bridged=table.get("bridged", True),
        copy_time=keys.time(table.get("copy_time", "0 s"), f"{where}.copy_time"),
        launch_time=keys.time(table.get("launch_time", "0 s"), f"{where}.launch_time"),
        **times,
    )

"""Times of one collective over message sizes, by every algorithm, and the one that is chosen."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

import hwspaces
from hwspaces import quantity
from hwspaces.quantities.units import nearest
from jaxroof.collectives import ALGORITHMS, collective_algorithm, collective_times
from jaxroof.numerics.arrays import eager
from jaxroof.op import COLLECTIVES, Collective

LARGEST_STEPS = 200
"""Sizes that a range may have."""


class CollectiveTimes(NamedTuple):
    """Times of a collective by algorithm and message size."""

    hardware: str
    kind: str
    devices: float
    stride: float | None
    efficiency: str
    sizes: np.ndarray  # B, shape [sizes]
    times: dict[str, np.ndarray]  # s by algorithm, shape [sizes]
    chosen: list[str]  # the algorithm of every size

    @property
    def about(self) -> str:
        """The question in words."""
        every = "" if self.stride is None else f", every {self.stride:g}th device"
        return f"{self.kind.replace('_', '-').capitalize()} of {self.devices:g} x {self.hardware}{every}"

    @property
    def fastest(self) -> np.ndarray:
        """Time in s of the chosen algorithm, shape [sizes]."""
        return np.array([self.times[name][i] for i, name in enumerate(self.chosen)])


def times_of_collective(
    hardware: str,
    kind: str,
    devices: float,
    sizes: np.ndarray,
    stride: float | None = None,
    efficiency: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> CollectiveTimes:
    """Times of a collective between devices of one kind.

    Args:
      hardware: a name of the catalogue, or a TOML file.
      kind: one of `jaxroof.op.COLLECTIVES`.
      devices: that take part.
      sizes: of messages in B, shape [sizes].
      stride: devices from one that takes part to the next.
      efficiency: a name or a TOML file.
      settings: figures of the links in place of the catalogue's, by path.

    Raises:
      ValueError: one line, for a figure of no link, or devices that no link joins.
    """
    # The figures of a collective are those of links: others would change nothing, silently.
    for path in settings or {}:
        if not path.removeprefix("hardware.").startswith("links."):
            raise ValueError(f"--set {path}: a collective depends on hardware.links alone")
    entry = hwspaces.hardware(hardware)
    entry = hwspaces.overridden(entry, settings) if settings else entry
    links = entry.hardware.links
    _require_room(entry, devices, stride)
    constants, column = hwspaces.efficiency(efficiency), np.asarray(sizes, float)
    # One op with a column of sizes: every algorithm is evaluated for all sizes at once.
    sent: dict[str, Any] = {"message_bytes": column, "participants": np.float64(devices), "stride": stride}
    op, shares = Collective(operation=kind, count=1.0, kernels=1.0, **sent), constants.efficiency.collective
    with eager():
        times, codes = collective_times(links, op, shares), collective_algorithm(links, op, shares)
    # Algorithms that do not know this operation have no time and are left out.
    by_algorithm = {name: np.broadcast_to(times[name], column.shape) for name in ALGORITHMS if name in times}
    chosen = [ALGORITHMS[int(code)] for code in np.broadcast_to(codes, column.shape)]
    return CollectiveTimes(entry.name, kind, devices, stride, constants.name, sizes, by_algorithm, chosen)


def message_sizes(text: str, step: str = "4") -> np.ndarray:
    """Sizes in B of "A..B" in steps of a factor, or of the one size that `text` names; float64 array.

    Raises:
      ValueError: one line that names the flag, its value and what is allowed.
    """
    first, dots, last = (part.strip() for part in text.partition(".."))
    if not first or (dots and not last):
        raise ValueError(f"--size {text!r} must be a size or a range A..B, such as 1KiB..1GiB")
    low = quantity(first, "B", "--size")
    high = quantity(last, "B", "--size") if dots else low
    factor = quantity(step, "1", "--step")
    if high < low:
        raise ValueError(f"--size {text!r}: the range ends before it begins")
    if factor <= 1.0:
        raise ValueError(f"--step = {step!r} must be larger than 1")
    # The slack keeps the last size where the range is a whole number of steps but for rounding.
    count = math.floor(math.log(high / low) / math.log(factor) + 1e-9) + 1
    if count > LARGEST_STEPS:
        raise ValueError(f"--size {text!r} with --step {step}: {count} sizes; at most {LARGEST_STEPS}")
    return low * factor ** np.arange(count)


def require_kind(kind: str) -> None:
    """ValueError in one line, with the nearest ones, for what is no collective."""
    if kind not in COLLECTIVES:
        raise ValueError(f"--kind {kind} is not known{nearest(kind, COLLECTIVES)}")


def _require_room(entry: hwspaces.HardwareEntry, devices: float, stride: float | None) -> None:
    """ValueError when the hardware has no links, or not for so many devices."""
    own = entry.hardware.links
    links = [link for link in (own.scale_up, own.scale_out, own.cluster) if link is not None]
    if not links:
        raise ValueError(f"{entry.name} has no link to other devices in the catalogue")
    # Devices from the first that takes part to the last, those between them included.
    spread, most = (devices - 1.0) * (stride or 1.0) + 1.0, max(link.devices for link in links)
    if spread > most:
        raise ValueError(f"--devices {devices:g}: the links of {entry.name} join {most:g}, and {spread:g} are spanned")

"""`jaxroof collective`: time of a collective over message sizes, by every algorithm, and the one chosen."""

import argparse
import math
from typing import Any, NamedTuple

from sweeps.cli.common import word_arguments
from sweeps.cli.outputs import picture_argument
from sweeps.cli.printing import print_json

LARGEST_STEPS = 200
"""Sizes that a range may have."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    word_arguments(parser, "hardware")
    parser.add_argument("--kind", default="all_reduce", metavar="KIND", help="all_reduce (default), all_gather, ...")
    parser.add_argument("--devices", metavar="N", help="devices that take part")
    parser.add_argument("--stride", metavar="N", help="devices from one that takes part to the next (default 1)")
    parser.add_argument(
        "--size", default="1KiB..1GiB", metavar="A..B", help="one size or a range, in steps of 4 (default 1KiB..1GiB)"
    )
    parser.add_argument("--step", default="4", metavar="FACTOR", help="from one size of a range to the next")
    parser.add_argument("--efficiency", metavar="NAME", help="learned (default), datasheet, a TOML file")
    parser.add_argument("--set", metavar="PATH=VALUE", action="append", default=[], help="a figure of the hardware")
    picture_argument(parser, "also a picture: a .png or .svg", "-o", "--output", metavar="FILE")
    parser.add_argument("--json", action="store_true", help="one JSON object with SI numbers instead of a table")


def run(options: argparse.Namespace) -> None:
    """Print times and bus bandwidths; draw them where a picture is asked for."""
    import hwspaces
    from jaxroof.op import COLLECTIVES
    from sweeps.cli.common import overrides, whole_number

    for flag in ("hardware", "devices"):
        if getattr(options, flag) is None:
            raise ValueError(f"--{flag} is missing")
    if options.kind not in COLLECTIVES:
        from hwspaces.quantities.units import nearest

        raise ValueError(f"--kind {options.kind} is not known{nearest(options.kind, COLLECTIVES)}")
    devices = whole_number("--devices", options.devices)
    if devices < 2.0:
        raise ValueError(f"--devices = {options.devices!r} must be at least 2")
    stride = None if options.stride is None else whole_number("--stride", options.stride)
    sizes = message_sizes(options.size, options.step)
    entry = _entry(options.hardware, overrides(options.set))
    _require_room(entry, devices, stride)
    efficiency = hwspaces.efficiency(options.efficiency)
    times, chosen = _times(entry.hardware.links, options.kind, devices, stride, sizes, efficiency.efficiency.collective)
    found = _Found(entry.name, options.kind, devices, stride, efficiency.name, sizes, times, chosen)
    if options.json:
        print_json(_record(found))
    else:
        _print(found)
    if options.output:
        _draw(options, found)


class _Found(NamedTuple):
    hardware: str
    kind: str
    devices: float
    stride: float | None
    efficiency: str
    sizes: Any  # B, shape [sizes]
    times: dict[str, Any]  # s by algorithm, shape [sizes]
    chosen: list[str]  # the algorithm of every size

    @property
    def about(self) -> str:
        """The question in words."""
        every = "" if self.stride is None else f", every {self.stride:g}th device"
        return f"{self.kind.replace('_', '-').capitalize()} of {self.devices:g} x {self.hardware}{every}"


def _entry(name: str, settings: dict[str, Any]) -> Any:
    """The accelerator with the figures of its links that are set."""
    import hwspaces

    for path in settings:
        if not path.removeprefix("hardware.").startswith("links."):
            raise ValueError(f"--set {path}: a collective depends on hardware.links alone")
    entry = hwspaces.hardware(name)
    return hwspaces.overridden(entry, settings) if settings else entry


def _draw(options: argparse.Namespace, found: _Found) -> None:
    """Write the picture that is asked for."""
    import numpy as np

    from sweeps.show import style
    from sweeps.show.collectives import algorithms

    details = f"Bus bandwidth and time over message size, efficiency {found.efficiency}."
    fastest = np.array([found.times[name][i] for i, name in enumerate(found.chosen)])
    picture = algorithms(found.about, details, found.kind, found.devices, found.sizes, found.times, fastest)
    style.saved(picture, options.output, options.force)
    if not options.json:
        print(f"\n{options.output}: {found.about}")


def message_sizes(text: str, step: str = "4") -> Any:
    """Sizes in B of "A..B" in steps of a factor, or of the one size that `text` names; float64 array.

    Raises:
      ValueError: one line that names the flag, its value and what is allowed.
    """
    import numpy as np

    from hwspaces import quantity

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
    count = math.floor(math.log(high / low) / math.log(factor) + 1e-9) + 1
    if count > LARGEST_STEPS:
        raise ValueError(f"--size {text!r} with --step {step}: {count} sizes; at most {LARGEST_STEPS}")
    return low * factor ** np.arange(count)


def _require_room(entry: Any, devices: float, stride: float | None) -> None:
    """ValueError when the hardware has no links, or not for so many devices."""
    links = [link for link in (entry.hardware.links.scale_up, entry.hardware.links.scale_out) if link is not None]
    links += [entry.hardware.links.cluster] if entry.hardware.links.cluster is not None else []
    if not links:
        raise ValueError(f"{entry.name} has no link to other devices in the catalogue")
    spread, most = (devices - 1.0) * (stride or 1.0) + 1.0, max(link.devices for link in links)
    if spread > most:
        raise ValueError(f"--devices {devices:g}: the links of {entry.name} join {most:g}, and {spread:g} are spanned")


def _times(links: Any, kind: str, devices: float, stride: float | None, sizes: Any, efficiency: Any) -> tuple:
    """Algorithm -> times in s, shape [sizes]; and the name of the chosen one per size."""
    import numpy as np

    from jaxroof.collectives import ALGORITHMS, collective_algorithm, collective_times
    from jaxroof.numerics.arrays import eager
    from jaxroof.op import Collective

    column = np.asarray(sizes, float)
    sent: dict[str, Any] = {"message_bytes": column, "participants": np.float64(devices), "stride": stride}
    op = Collective(operation=kind, count=1.0, kernels=1.0, **sent)
    with eager():
        times, codes = collective_times(links, op, efficiency), collective_algorithm(links, op, efficiency)
    found = {name: np.broadcast_to(times[name], column.shape) for name in ALGORITHMS if name in times}
    return found, [ALGORITHMS[int(code)] for code in np.broadcast_to(codes, column.shape)]


def _record(found: _Found) -> dict[str, Any]:
    """The times for machines."""
    from jaxroof.collectives import UNAVAILABLE
    from sweeps.show.collectives import bus_bandwidth

    rows = []
    for i, size in enumerate(found.sizes):
        usable = {name: float(time[i]) for name, time in found.times.items() if time[i] < UNAVAILABLE}
        time = usable[found.chosen[i]]
        rows.append(
            {
                "message_bytes": float(size),
                "algorithm": found.chosen[i],
                "time_s": time,
                "bus_bandwidth_Bps": float(bus_bandwidth(found.kind, found.devices, size, time)),
                "times_s": usable,
            }
        )
    return {name: getattr(found, name) for name in found._fields[:5]} | {"sizes": rows}


def _print(found: _Found) -> None:
    from hwspaces import formatted
    from jaxroof.collectives import UNAVAILABLE
    from sweeps.cli.tables import console, table
    from sweeps.show.collectives import binary_size, bus_bandwidth

    usable = [name for name, time in found.times.items() if (time < UNAVAILABLE).any()]
    out = console()
    out.print(f"{found.about}, efficiency {found.efficiency}; * chosen\n")
    names = [name.replace("_", "-") for name in usable]
    shown = table("size", "time", "bus bandwidth", *names, numbers=("size", "time", "bus bandwidth", *names))
    for i, size in enumerate(found.sizes):
        time = float(found.times[found.chosen[i]][i])
        rate = formatted(float(bus_bandwidth(found.kind, found.devices, size, time)), "B/s")
        cells = []
        for name in usable:
            mark = " *" if name == found.chosen[i] else "  "
            own = float(found.times[name][i])
            cells.append("-  " if own >= UNAVAILABLE else f"{formatted(own, 's')}{mark}")
        shown.add_row(binary_size(size), formatted(time, "s"), rate, *cells)
    out.print(shown)

"""`jaxroof collective`: time of a collective over message sizes, by every algorithm, and the one chosen."""

import argparse
import json
import math
from typing import Any

from sweeps.cli.outputs import output_argument

LARGEST_STEPS = 200
"""Sizes that a range may have."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    parser.add_argument("--hardware", metavar="NAME", help="accelerator: a name (jaxroof hardware) or a TOML file")
    parser.add_argument("--kind", default="all_reduce", metavar="KIND", help="all_reduce (default), all_gather, ...")
    parser.add_argument("--devices", metavar="N", help="devices that take part")
    parser.add_argument("--stride", metavar="N", help="devices from one that takes part to the next (default 1)")
    parser.add_argument(
        "--size", default="1KiB..1GiB", metavar="A..B", help="one size or a range, in steps of 4 (default 1KiB..1GiB)"
    )
    parser.add_argument("--step", default="4", metavar="FACTOR", help="from one size of a range to the next")
    parser.add_argument("--efficiency", metavar="NAME", help="learned (default), datasheet, a TOML file")
    parser.add_argument("--set", metavar="PATH=VALUE", action="append", default=[], help="a figure of the hardware")
    output_argument(
        parser, "-o", "--output", kinds=("png", "svg"), metavar="FILE", help="also a picture: a .png or .svg"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object with SI numbers instead of a table")


def run(options: argparse.Namespace) -> None:
    """Print times and bus bandwidths; draw them where a picture is asked for."""
    import hwspaces
    from jaxroof.op import COLLECTIVES
    from sweeps.cli.common import compilation_cache, overrides, whole_number

    for flag in ("hardware", "devices"):
        if getattr(options, flag) is None:
            raise ValueError(f"--{flag} is missing")
    if options.kind not in COLLECTIVES:
        from hwspaces.units import nearest

        raise ValueError(f"--kind {options.kind} is not known{nearest(options.kind, COLLECTIVES)}")
    devices = whole_number("--devices", options.devices)
    if devices < 2.0:
        raise ValueError(f"--devices = {options.devices!r} must be at least 2")
    stride = None if options.stride is None else whole_number("--stride", options.stride)
    sizes = message_sizes(options.size, options.step)
    compilation_cache()
    entry = _entry(options.hardware, overrides(options.set))
    _require_room(entry, devices, stride)
    efficiency = hwspaces.efficiency(options.efficiency)
    times, chosen = _times(entry.hardware.links, options.kind, devices, stride, sizes, efficiency.efficiency.collective)
    about = f"{options.kind.replace('_', '-').capitalize()} of {devices:g} x {entry.name}"
    about += "" if stride is None else f", every {stride:g}th device"
    if options.json:
        record = _json(options, entry, devices, stride, sizes, times, chosen, efficiency.name)
        print(json.dumps(record, indent=2, allow_nan=False))
    else:
        _print(about, options.kind, devices, sizes, times, chosen, efficiency.name)
    if options.output:
        _draw(options, about, devices, sizes, times, chosen, efficiency.name)


def _entry(name: str, settings: dict[str, Any]) -> Any:
    """The accelerator with the figures of its links that are set."""
    import hwspaces

    for path in settings:
        if not path.removeprefix("hardware.").startswith("links."):
            raise ValueError(f"--set {path}: a collective depends on hardware.links alone")
    entry = hwspaces.hardware(name)
    return hwspaces.overridden(entry, settings) if settings else entry


def _draw(
    options: argparse.Namespace,
    about: str,
    devices: float,
    sizes: Any,
    times: dict[str, Any],
    chosen: list[str],
    efficiency: str,
) -> None:
    """Write the picture that is asked for."""
    import numpy as np

    from sweeps.show import style
    from sweeps.show.collectives import algorithms

    details = f"Bus bandwidth and time over message size, efficiency {efficiency}."
    fastest = np.array([times[name][i] for i, name in enumerate(chosen)])
    picture = algorithms(about, details, options.kind, devices, sizes, times, fastest)
    style.saved(picture, options.output, options.force)
    if not options.json:
        print(f"\n{options.output}: {about}")


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
    import jax
    import numpy as np

    from jaxroof.collectives import ALGORITHMS, collective_algorithm, collective_times
    from jaxroof.op import Collective

    def both(size):
        op = Collective(
            operation=kind,
            count=1.0,
            kernels=1.0,
            message_bytes=size,
            participants=devices,
            stride=stride,
        )
        return collective_times(links, op, efficiency), collective_algorithm(links, op, efficiency)

    times, codes = jax.jit(jax.vmap(both))(np.asarray(sizes, np.float32))
    found = {name: np.asarray(times[name], float) for name in ALGORITHMS if name in times}
    return found, [ALGORITHMS[int(code)] for code in codes]


def _json(
    options: Any,
    entry: Any,
    devices: float,
    stride: float | None,
    sizes: Any,
    times: Any,
    chosen: list,
    efficiency: str,
) -> dict:
    from jaxroof.collectives import UNAVAILABLE
    from sweeps.show.collectives import bus_bandwidth

    rows = []
    for i, size in enumerate(sizes):
        usable = {name: float(time[i]) for name, time in times.items() if time[i] < UNAVAILABLE}
        time = usable[chosen[i]]
        rows.append(
            {
                "message_bytes": float(size),
                "algorithm": chosen[i],
                "time_s": time,
                "bus_bandwidth_Bps": float(bus_bandwidth(options.kind, devices, size, time)),
                "times_s": usable,
            }
        )
    asked = {"hardware": entry.name, "kind": options.kind, "devices": devices, "stride": stride}
    return {**asked, "efficiency": efficiency, "sizes": rows}


def _print(about: str, kind: str, devices: float, sizes: Any, times: Any, chosen: list, efficiency: str) -> None:
    from hwspaces import formatted
    from jaxroof.collectives import UNAVAILABLE
    from sweeps.cli.tables import console, table
    from sweeps.show.collectives import binary_size, bus_bandwidth

    usable = [name for name, time in times.items() if (time < UNAVAILABLE).any()]
    out = console()
    out.print(f"{about}, efficiency {efficiency}; * chosen\n")
    names = [name.replace("_", "-") for name in usable]
    shown = table("size", "time", "bus bandwidth", *names, numbers=("size", "time", "bus bandwidth", *names))
    for i, size in enumerate(sizes):
        time = float(times[chosen[i]][i])
        rate = formatted(float(bus_bandwidth(kind, devices, size, time)), "B/s")
        cells = []
        for name in usable:
            mark = " *" if name == chosen[i] else "  "
            own = float(times[name][i])
            cells.append("-  " if own >= UNAVAILABLE else f"{formatted(own, 's')}{mark}")
        shown.add_row(binary_size(size), formatted(time, "s"), rate, *cells)
    out.print(shown)

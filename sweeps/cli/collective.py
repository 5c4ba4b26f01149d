"""`jaxroof collective`: time of a collective over message sizes, by every algorithm, and the one chosen."""

import argparse
import math
from typing import TYPE_CHECKING, Any

from sweeps.answers.answer import say
from sweeps.answers.to_json import print_json
from sweeps.cli.common import word_arguments
from sweeps.cli.outputs import picture_argument, write

if TYPE_CHECKING:
    from sweeps.answers.collective import FoundTimes

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
    from sweeps.answers.collective import FoundTimes, entry_of, record, show, times_of
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
    entry = entry_of(options.hardware, overrides(options.set))
    _require_room(entry, devices, stride)
    efficiency = hwspaces.efficiency(options.efficiency)
    shares = efficiency.efficiency.collective
    times, chosen = times_of(entry.hardware.links, options.kind, devices, stride, sizes, shares)
    found = FoundTimes(entry.name, options.kind, devices, stride, efficiency.name, sizes, times, chosen)
    if options.json:
        print_json(record(found))
    else:
        show(found)
    if options.output:
        _draw(options, found)


def _draw(options: argparse.Namespace, found: "FoundTimes") -> None:
    """Write the picture that is asked for."""
    import numpy as np

    from sweeps.show.collectives import algorithms

    details = f"Bus bandwidth and time over message size, efficiency {found.efficiency}."
    fastest = np.array([found.times[name][i] for i, name in enumerate(found.chosen)])
    picture = algorithms(found.about, details, found.kind, found.devices, found.sizes, found.times, fastest)
    write(options, "output", lambda: picture)
    if not options.json:
        say(f"\n{options.output}: {found.about}")


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



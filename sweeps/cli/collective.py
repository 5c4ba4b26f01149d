"""`jaxroof collective`: time of a collective over message sizes, by every algorithm, and the one chosen."""

import argparse

from sweeps.answers.answer import say
from sweeps.answers.to_json import print_json
from sweeps.cli.common import overrides, whole_number, word_arguments
from sweeps.cli.outputs import picture_argument, write


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
    # Checked here, not by argparse, so that all verbs report a missing flag in the same words.
    for flag in ("hardware", "devices"):
        if getattr(options, flag) is None:
            raise ValueError(f"--{flag} is missing")
    from sweeps.answers.collective import record, show
    from sweeps.studies.collective import message_sizes, require_kind, times_of_collective

    require_kind(options.kind)
    devices = whole_number("--devices", options.devices)
    # A single device has nobody to exchange messages with.
    if devices < 2.0:
        raise ValueError(f"--devices = {options.devices!r} must be at least 2")
    stride = None if options.stride is None else whole_number("--stride", options.stride)
    sizes, settings = message_sizes(options.size, options.step), overrides(options.set)
    times = times_of_collective(options.hardware, options.kind, devices, sizes, stride, options.efficiency, settings)
    if options.json:
        print_json(record(times))
    else:
        show(times)
    if options.output:
        from sweeps.show.collectives import algorithms

        details = f"Bus bandwidth and time over message size, efficiency {times.efficiency}."
        what = (times.kind, times.devices, times.sizes, times.times, times.fastest)
        write(options, "output", lambda: algorithms(times.about, details, *what))
        if not options.json:
            say(f"\n{options.output}: {times.about}")

"""`jaxroof price`: a function of JAX arrays, or a model in StableHLO, as ops, on one accelerator or over many."""

import argparse
from typing import Any

from sweeps.answers.to_json import print_json
from sweeps.cli.common import json_argument, listed, named_settings, overrides, whole_number
from sweeps.cli.outputs import dataset_argument, picture_argument, write

POLICIES = ("eager", "operators", "loops", "framework", "compiler")
"""Fusion policies, as `workloads.traced.fusion.POLICIES` has them, which needs JAX."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    what = "a function of JAX arrays, MODULE:FUNCTION; or a file of StableHLO, FILE.mlir"
    parser.add_argument("function", nargs="?", metavar="FUNCTION", help=what)
    what = 'its arguments: "x=bf16[b,s,4096]" with sizes or symbols, or "params=module:tree"'
    parser.add_argument("--args", nargs="+", default=[], metavar="ARG", help=what)
    what = "values of a symbol, b=1,8,64, or of a number, hardware.memory.hbm.bandwidth=3TB/s,6TB/s; several times"
    parser.add_argument("--over", metavar="NAME=VALUES", action="append", default=[], help=what)
    parser.add_argument("--hardware", metavar="NAMES", help="accelerators, with commas between (jaxroof hardware)")
    what = f"one of {', '.join(POLICIES)}; framework where none is given"
    parser.add_argument("--fusion", metavar="POLICY", help=what)
    parser.add_argument("--trips", metavar="N", help="how often loops run that do not say so")
    what = "loops without matrix products are one kernel each, as of selective scans"
    parser.add_argument("--fused-loops", action="store_true", help=what)
    what = "learned (default), pytorch, tensorrt, tflite, tflite-gpu, ncnn, edge-tpu, derated, datasheet, a TOML file"
    parser.add_argument("--efficiency", metavar="NAME", help=what)
    parser.add_argument("--set", metavar="PATH=VALUE", action="append", default=[], help="a figure of the hardware")
    what = "how much the time follows every number of the hardware and every size"
    parser.add_argument("--elasticities", action="store_true", help=what)
    picture_argument(parser, "a roofline of the first point: a .png or .svg")
    dataset_argument(parser, "the sweep as a netCDF file")
    json_argument(parser)


def run(options: argparse.Namespace) -> None:
    """Print the table of ops, or of points; draw and write what is asked for."""
    from sweeps.answers import price as report

    # The policies are listed here to check the word without importing JAX.
    if options.fusion not in (None, *POLICIES):
        from hwspaces.quantities.units import nearest

        raise ValueError(f"--fusion {options.fusion or repr('')} is not known{nearest(options.fusion, POLICIES)}")
    for value, flag in ((options.function, "MODULE:FUNCTION or FILE.mlir"), (options.hardware, "--hardware NAMES")):
        if value is None:
            raise ValueError(f"{flag} is missing")
    from sweeps.studies.price.named import from_text
    from sweeps.studies.price.points import accelerators, priced
    from sweeps.studies.price.question import USUAL_POLICY

    sizes, leaves = _over(options.over)
    trips = None if options.trips is None else whole_number("--trips", options.trips)
    # Fusion is decided at the first value of every symbol.
    first = {name: values[0] for name, values in sizes.items()}
    devices = accelerators(listed(options.hardware) or (), overrides(options.set), tuple(leaves))
    fusion = USUAL_POLICY if options.fusion is None else options.fusion
    question = from_text(options.function, options.args, fusion, first, trips, options.fused_loops)
    found = priced(question, devices, sizes, leaves, options.efficiency, options.elasticities)
    # A sweep is computed where its rows are printed or written.
    if options.json:
        print_json(report.whole_record(found))
    else:
        report.show(found)
    write(options, "output", lambda: found.dataset)
    write(options, "plot", lambda: report.picture(found))
    if not options.json:
        data = found.dataset if options.output else None
        report.print_files(options, found.question, devices[0], found.first, data)


def _over(settings: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Values of every symbol, and of every number of the hardware; ValueError in one line for what is malformed."""
    from sweeps.studies.price.points import parted

    texts = named_settings("--over", settings, "b=1,8,64")
    parts = {name: [part.strip() for part in text.split(",")] for name, text in texts.items()}
    sizes, leaves = parted(parts)
    counted = {name: [whole_number(f"--over {name}", part) for part in values] for name, values in sizes.items()}
    # Again, since different texts may be one number.
    return parted(counted)[0], leaves

"""`jaxroof price`: a function of JAX arrays, or a model in StableHLO, as ops, on one accelerator or over many."""

import argparse
from collections.abc import Iterable
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
    over, settings = _over(options.over)
    trips = None if options.trips is None else whole_number("--trips", options.trips)
    # The first value of every symbol: the point that is priced op by op.
    first = {name: values[0] for name, values in over.items()}
    devices = _devices(options, settings)
    from sweeps.studies.price.named import from_text, require_sizes
    from sweeps.studies.price.question import USUAL_POLICY

    fusion = USUAL_POLICY if options.fusion is None else options.fusion
    question: Any = from_text(options.function, options.args, fusion, first, trips, options.fused_loops)
    require_sizes(question, over)
    # The first device at the first values: its ops are printed, and drawn where a picture is asked for.
    answer = question.answer(devices[0], options.efficiency, **first)
    # One point is printed op by op, several as rows.
    one_point = len(devices) == 1 and not settings and all(len(values) == 1 for values in over.values())
    # A sweep is computed where its rows are printed or written.
    data = question.sweep(devices, over, options.efficiency, settings) if not one_point or options.output else None
    if options.elasticities and not one_point:
        raise ValueError("--elasticities are of one point: give one accelerator and one value per size")
    slopes = question.elasticities(devices[0], options.efficiency, **first) if options.elasticities else {}
    judged = {device.name: question.answer(device, options.efficiency, **first).beyond for device in devices}
    beyond = {name: one.text for name, one in judged.items() if one.marked}
    notes = () if one_point else question.notes(devices, over, options.efficiency)
    if options.json:
        record = report.record(options, question, devices[0], first, answer) | (
            {"elasticities": slopes} if slopes else {}
        )
        print_json(record if one_point else report.points(question, notes, data, beyond))
    elif one_point:
        report.print_answer(options, question, devices[0], first, answer, slopes)
    else:
        report.print_points(options, question, notes, data, beyond)
    write(options, "output", lambda: data)
    write(options, "plot", lambda: report.drawn(options, question, devices[0], first, answer))
    if not options.json:
        report.print_files(options, question, devices[0], first, data)


def _devices(options: argparse.Namespace, varied: Iterable[str]) -> list[Any]:
    """The accelerators, each with the figures that are set, none of which is `varied`."""
    import hwspaces

    settings = overrides(options.set)
    # A traced function has no deployment and no model: only hardware has numbers to set.
    for path in settings:
        if not path.startswith("hardware."):
            raise ValueError(f"--set {path}: a function depends on hardware alone, and on sizes that --over gives")
        if path in varied:
            raise ValueError(f"--set {path}: --over varies it")
    devices = [hwspaces.hardware(name) for name in listed(options.hardware) or ()]
    if len({device.name for device in devices}) < len(devices) or not devices:
        raise ValueError(f"--hardware {options.hardware!r} must be names of different accelerators, commas between")
    return [hwspaces.overridden(device, settings) if settings else device for device in devices]


def _over(settings: list[str]) -> tuple[dict[str, list[float]], dict[str, list[str]]]:
    """Values of every symbol, and of every number of the hardware; ValueError in one line for what is malformed."""
    sizes: dict[str, list[float]] = {}
    leaves: dict[str, list[str]] = {}
    for name, text in named_settings("--over", settings, "b=1,8,64").items():
        parts = [part.strip() for part in text.split(",")]
        # A dot marks a path of hardware; a symbol of the function has none.
        if "." in name:
            if not name.startswith("hardware."):
                raise ValueError(f"--over {name}: a function depends on numbers of hardware alone")
            leaves[name] = parts
        else:
            sizes[name] = [whole_number(f"--over {name}", part) for part in parts]
        # Repeated values would repeat points of the grid.
        if len(set(leaves.get(name) or sizes[name])) < len(parts):
            raise ValueError(f"--over {name}={text} has a value twice")
    return sizes, leaves

"""`jaxroof price`: a function of JAX arrays, or a model in StableHLO, as ops, on one accelerator or over many."""

import argparse
from collections.abc import Iterable
from typing import Any

from sweeps.answers.to_json import print_json
from sweeps.cli.common import json_argument
from sweeps.cli.outputs import dataset_argument, picture_argument

POLICIES = ("eager", "operators", "loops", "framework", "compiler")
"""Fusion policies, as `workloads.traced.fusion.POLICIES` has them, which needs JAX."""

MODULES = (".mlir", ".mlirbc", ".stablehlo")
"""Endings of files of StableHLO, as `workloads.traced.stablehlo` reads them, which needs JAX."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    what = "a function of JAX arrays, MODULE:FUNCTION; or a file of StableHLO, FILE.mlir"
    parser.add_argument("function", nargs="?", metavar="FUNCTION", help=what)
    parser.add_argument(
        "--args",
        nargs="+",
        default=[],
        metavar="ARG",
        help='its arguments: "x=bf16[b,s,4096]" with sizes or symbols, or "params=module:tree"',
    )
    what = "values of a symbol, b=1,8,64, or of a number, hardware.memory.hbm.bandwidth=3TB/s,6TB/s; several times"
    parser.add_argument("--over", metavar="NAME=VALUES", action="append", default=[], help=what)
    parser.add_argument("--hardware", metavar="NAMES", help="accelerators, with commas between (jaxroof hardware)")
    parser.add_argument(
        "--fusion", metavar="POLICY", help=f"one of {', '.join(POLICIES)}; framework where none is given"
    )
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
    from sweeps.cli.common import whole_number
    from sweeps.studies.price.question import USUAL_POLICY

    fusion = USUAL_POLICY if options.fusion is None else options.fusion
    if fusion not in POLICIES:
        from hwspaces.quantities.units import nearest

        raise ValueError(f"--fusion {fusion or repr(fusion)} is not known{nearest(fusion, POLICIES)}")
    for value, flag in ((options.function, "MODULE:FUNCTION or FILE.mlir"), (options.hardware, "--hardware NAMES")):
        if value is None:
            raise ValueError(f"{flag} is missing")
    over, settings = _over(options.over)
    trips = None if options.trips is None else whole_number("--trips", options.trips)
    first = {name: values[0] for name, values in over.items()}
    devices = _devices(options, settings)
    asked = _traced(options, fusion, trips, first)
    _require_sizes(asked, over)
    answer = asked.answer(devices[0], options.efficiency, **first)
    one_point = len(devices) == 1 and not settings and all(len(values) == 1 for values in over.values())
    data = asked.sweep(devices, over, options.efficiency, settings) if not one_point or options.output else None
    if options.elasticities and not one_point:
        raise ValueError("--elasticities are of one point: give one accelerator and one value per size")
    slopes = asked.elasticities(devices[0], options.efficiency, **first) if options.elasticities else {}
    judged = {device.name: asked.answer(device, options.efficiency, **first).beyond for device in devices}
    beyond = {name: one.text for name, one in judged.items() if one.marked}
    notes = () if one_point else asked.notes(devices, over, options.efficiency)
    if options.json:
        record = report.record(options, asked, devices[0], first, answer) | ({"elasticities": slopes} if slopes else {})
        print_json(record if one_point else report.points(asked, notes, data, beyond))
    elif one_point:
        report.print_answer(options, asked, devices[0], first, answer, slopes)
    else:
        report.print_points(options, asked, notes, data, beyond)
    if options.output:
        report.written(data, options)
    if options.plot:
        report.draw(options, asked, devices[0], first, answer)


def _devices(options: argparse.Namespace, varied: Iterable[str]) -> list[Any]:
    """The accelerators, each with the figures that are set, none of which is `varied`."""
    import hwspaces
    from sweeps.cli.common import overrides

    settings = overrides(options.set)
    for path in settings:
        if not path.startswith("hardware."):
            raise ValueError(f"--set {path}: a function depends on hardware alone, and on sizes that --over gives")
        if path in varied:
            raise ValueError(f"--set {path}: --over varies it")
    devices = [hwspaces.hardware(name.strip()) for name in options.hardware.split(",") if name.strip()]
    if len({device.name for device in devices}) < len(devices) or not devices:
        raise ValueError(f"--hardware {options.hardware!r} must be names of different accelerators, commas between")
    return [hwspaces.overridden(device, settings) if settings else device for device in devices]


def _require_sizes(asked: Any, over: dict[str, list[float]]) -> None:
    """ValueError where a size has no value, or a value no size."""
    symbols = asked.traced.symbols
    for name in over:
        if name not in symbols:
            raise ValueError(
                f"--over {name}: the arguments have no size {name}; they have {', '.join(symbols) or 'none'}"
            )
    missing = [symbol for symbol in symbols if symbol not in over]
    if missing:
        raise ValueError(f"the size {missing[0]} has no value: give --over {missing[0]}=N")


def _traced(options: argparse.Namespace, fusion: str, trips: float | None, sizes: dict[str, float]) -> Any:
    """The question that the flags describe; what the user's code raises in one line."""
    if options.function.endswith(MODULES):
        return _module(options, fusion, trips)
    from sweeps.ask.functions import arguments_of, named_object, users_code
    from sweeps.studies.price.question import PricedFunction
    from workloads.traced.function import traced

    if ":" not in options.function:
        files = f"a file that ends in {' or '.join(MODULES)}"
        raise ValueError(f"{options.function!r} must be module:name, such as mymodule:forward, or {files}")
    function = named_object(options.function, "MODULE:FUNCTION")
    if not callable(function):
        raise ValueError(f"{options.function} is no function")
    positional, named = arguments_of(function, options.args)

    def called(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        with users_code(f"{options.function} cannot be traced"):
            return function(*arguments, **keywords)

    name = options.function.partition(":")[2]
    try:
        how = {"policy": fusion, "trips": trips, "fused_loops": options.fused_loops}
        found = traced(called, positional, named, sizes=sizes, name=name, **how)
    except TypeError as error:
        words = " ".join(str(error).split())[:300]
        raise ValueError(f"--args: {words}") from error
    return PricedFunction(found)


def _module(options: argparse.Namespace, fusion: str, trips: float | None) -> Any:
    """The question of a model in StableHLO."""
    from sweeps.studies.price.question import from_stablehlo

    if options.args:
        raise ValueError(f"--args {options.args[0]}: a module of StableHLO has the sizes of its arguments")
    return from_stablehlo(options.function, fusion, trips, options.fused_loops)


def _over(settings: list[str]) -> tuple[dict[str, list[float]], dict[str, list[str]]]:
    """Values of every symbol, and of every number of the hardware; ValueError in one line for what is malformed."""
    from sweeps.cli.common import named_settings, whole_number

    sizes: dict[str, list[float]] = {}
    leaves: dict[str, list[str]] = {}
    for name, text in named_settings("--over", settings, "b=1,8,64").items():
        parts = [part.strip() for part in text.split(",")]
        if "." in name:
            if not name.startswith("hardware."):
                raise ValueError(f"--over {name}: a function depends on numbers of hardware alone")
            leaves[name] = parts
        else:
            sizes[name] = [whole_number(f"--over {name}", part) for part in parts]
        if len(set(leaves.get(name) or sizes[name])) < len(parts):
            raise ValueError(f"--over {name}={text} has a value twice")
    return sizes, leaves

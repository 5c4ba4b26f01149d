"""`jaxroof price`: a function of JAX arrays as ops, on one accelerator in detail or over many and over sizes."""

import argparse
from typing import Any

from sweeps.cli.common import json_argument
from sweeps.cli.outputs import dataset_argument, picture_argument
from sweeps.cli.printing import print_json

POLICIES = ("eager", "loops", "framework", "compiler")
"""Fusion policies, as `workloads.traced.fusion.POLICIES` has them, which needs JAX."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    parser.add_argument("function", nargs="?", metavar="MODULE:FUNCTION", help="a function of JAX arrays")
    parser.add_argument(
        "--args",
        nargs="+",
        default=[],
        metavar="ARG",
        help='its arguments: "x=bf16[b,s,4096]" with sizes or symbols, or "params=module:tree"',
    )
    what = "values of a symbol: b=1,8,64; several times"
    parser.add_argument("--over", metavar="NAME=VALUES", action="append", default=[], help=what)
    parser.add_argument("--hardware", metavar="NAMES", help="accelerators, with commas between (jaxroof hardware)")
    parser.add_argument("--fusion", metavar="POLICY", help="eager, loops, framework (default) or compiler")
    parser.add_argument("--trips", metavar="N", help="how often loops run that do not say so")
    what = "loops without matrix products are one kernel each, as of selective scans"
    parser.add_argument("--fused-loops", action="store_true", help=what)
    parser.add_argument("--efficiency", metavar="NAME", help="learned (default), derated, datasheet, a TOML file")
    picture_argument(parser, "a roofline of the first point: a .png or .svg")
    dataset_argument(parser, "the sweep as a netCDF file")
    json_argument(parser)


def run(options: argparse.Namespace) -> None:
    """Print the table of ops, or of points; draw and write what is asked for."""
    from sweeps.cli.common import whole_number
    from sweeps.studies.functions.question import USUAL_POLICY

    fusion = options.fusion or USUAL_POLICY
    if fusion not in POLICIES:
        from hwspaces.units import nearest

        raise ValueError(f"--fusion {fusion} is not known{nearest(fusion, POLICIES)}")
    for value, flag in ((options.function, "MODULE:FUNCTION"), (options.hardware, "--hardware NAMES")):
        if value is None:
            raise ValueError(f"{flag} is missing")
    over = _over(options.over)
    trips = None if options.trips is None else whole_number("--trips", options.trips)
    names = [name.strip() for name in options.hardware.split(",") if name.strip()]
    if len(set(names)) < len(names) or not names:
        raise ValueError(f"--hardware {options.hardware!r} must be names of different accelerators, commas between")
    asked = _traced(options, fusion, trips, {name: values[0] for name, values in over.items()})
    for name in over:
        if name not in asked.traced.symbols:
            known = ", ".join(asked.traced.symbols) or "none"
            raise ValueError(f"--over {name}: the arguments have no size {name}; they have {known}")
    missing = [symbol for symbol in asked.traced.symbols if symbol not in over]
    if missing:
        raise ValueError(f"the size {missing[0]} has no value: give --over {missing[0]}=N")
    first = {name: values[0] for name, values in over.items()}
    answer = asked.answer(names[0], options.efficiency, **first)
    one_point = len(names) == 1 and all(len(values) == 1 for values in over.values())
    data = None
    if not one_point or options.output:
        data = asked.sweep(names, over, options.efficiency)
    if options.json:
        print_json(_record(options, asked, first, answer) if one_point else _points(asked, data))
    elif one_point:
        _print(options, asked, names[0], first, answer)
    else:
        _print_points(options, asked, data)
    if options.output:
        _written(data, options)
    if options.plot:
        _draw(options, asked, names[0], first, answer)


def _traced(options: argparse.Namespace, fusion: str, trips: float | None, sizes: dict[str, float]) -> Any:
    """The question that the flags describe; what the user's code raises in one line."""
    from sweeps.ask.functions import arguments_of, named_object
    from sweeps.studies.functions.question import Function
    from workloads.traced.function import traced

    function = named_object(options.function, "MODULE:FUNCTION")
    if not callable(function):
        raise ValueError(f"{options.function} is no function")
    positional, named = arguments_of(function, options.args)

    def called(arguments: tuple, keywords: dict) -> Any:
        try:
            return function(*arguments, **keywords)
        except Exception as error:  # of the user's code, or of JAX in it
            words = " ".join(str(error).partition("\n--------------------")[0].split())[:300]
            raise ValueError(f"{options.function} cannot be traced: {type(error).__name__}: {words}") from error

    name = options.function.partition(":")[2]
    try:
        loops = options.fused_loops
        found = traced(called, positional, named, policy=fusion, sizes=sizes, trips=trips, fused_loops=loops, name=name)
    except TypeError as error:
        words = " ".join(str(error).split())[:300]
        raise ValueError(f"--args: {words}") from error
    return Function(found)


def _over(settings: list[str]) -> dict[str, list[float]]:
    """Values of every symbol; ValueError in one line for what is malformed."""
    from sweeps.cli.common import named_settings, whole_number

    found = {}
    for name, text in named_settings("--over", settings, "b=1,8,64").items():
        values = [whole_number(f"--over {name}", value.strip()) for value in text.split(",")]
        if len(set(values)) < len(values):
            raise ValueError(f"--over {name}={text} has a value twice")
        found[name] = values
    return found


def _sizes_text(sizes: dict[str, float]) -> str:
    return "".join(f", {name} = {value:g}" for name, value in sizes.items())


def _print(options: argparse.Namespace, asked: Any, name: str, sizes: dict[str, float], answer: Any) -> None:
    from hwspaces import efficiency, formatted
    from hwspaces import hardware as device_named
    from sweeps.cli import tables

    out, metrics = tables.console(), answer.metrics
    device = device_named(name)
    what = f"{asked.traced.name} on {device.name}{_sizes_text(sizes)}, efficiency {efficiency(options.efficiency).name}"
    out.print(f"{what}\nfusion {asked.policy}", end="\n\n")
    out.print(tables.op_table(answer.ops))
    out.print()
    slowed = metrics.get("slowdown", 1.0)
    limit = f", {100 * (slowed - 1):.1f} % of it under the power limit" if slowed > 1.001 else ""
    out.print(f"time    {formatted(metrics['time'], 's')}{limit}, {metrics['kernels']:,.0f} kernels")
    out.print(f"use     MFU {tables.percent(metrics['mfu'])}, MBU {tables.percent(metrics['mbu'])}")
    fits = "fits in" if metrics["fits_memory"] else "does not fit in"
    capacity = formatted(device.hardware.memory.hbm.capacity, "B")
    out.print(f"memory  {formatted(metrics['peak_bytes'], 'B')} at most, {fits} {capacity}")
    if "energy" in metrics:
        out.print(f"energy  {formatted(metrics['energy'], 'J')}, {metrics['power']:,.0f} W")
    tables.print_lines(out, "note", asked.traced.notes)


def _print_points(options: argparse.Namespace, asked: Any, data: Any) -> None:
    from hwspaces import efficiency, formatted
    from sweeps.cli import tables

    out = tables.console()
    out.print(
        f"{asked.traced.name}, efficiency {efficiency(options.efficiency).name}\nfusion {asked.policy}", end="\n\n"
    )
    rows = _points(asked, data)["points"]
    sizes = list(asked.traced.symbols)
    columns = ["hardware", *sizes, "time", "FLOP", "bytes", "MFU", "MBU", "memory", "fits", "bound"]
    shown = tables.table(*columns, numbers=[*sizes, "time", "FLOP", "bytes", "MFU", "MBU", "memory"])
    for row in rows:
        shown.add_row(
            row["hardware"],
            *(f"{row[size]:g}" for size in sizes),
            formatted(row["time_s"], "s"),
            tables.flop(row["flops"]),
            tables.size(row["moved_bytes_B"]),
            tables.percent(row["mfu"]),
            tables.percent(row["mbu"]),
            tables.size(row["peak_bytes_B"]),
            "yes" if row["fits_memory"] else "no",
            row["bound"],
        )
    out.print(shown)
    tables.print_lines(out, "note", asked.traced.notes)


def _points(asked: Any, data: Any) -> dict[str, Any]:
    """Every point of a sweep for machines."""
    import itertools

    from sweeps.ask.names import variable

    axes = [str(axis) for axis in data["time"].dims]
    missing = [axis for axis in ("hardware", *asked.traced.symbols) if axis not in axes]
    rows = []
    for place in itertools.product(*(range(data.sizes[axis]) for axis in axes)):
        at = dict(zip(axes, place, strict=True))
        row: dict[str, Any] = {"hardware": data.attrs["hardware"]} if "hardware" in missing else {}
        row |= {
            axis: data[axis].values[i] if axis == "hardware" else float(data[axis].values[i]) for axis, i in at.items()
        }
        for name in data.data_vars:
            value = data[name].values[tuple(at[dim] for dim in data[name].dims)]
            meaning = variable(str(name))
            if meaning.flags:
                row[str(name)] = meaning.flags[int(value)]
            elif value.dtype == bool:
                row[str(name)] = bool(value)
            else:
                row[f"{name}{'' if meaning.unit == '1' else '_' + meaning.unit}"] = float(value)
        rows.append(row)
    return {**data.attrs, "notes": list(asked.traced.notes), "points": rows}


def _record(options: argparse.Namespace, asked: Any, sizes: dict[str, float], answer: Any) -> dict[str, Any]:
    """The answer to one point for machines."""
    import dataclasses

    return {
        "function": asked.traced.name,
        "fusion": asked.policy,
        "hardware": options.hardware,
        "sizes": sizes,
        "metrics": answer.metrics,
        "ops": [dataclasses.asdict(op) for op in answer.ops],
        "notes": list(asked.traced.notes),
    }


def _written(data: Any, options: argparse.Namespace) -> None:
    from sweeps.data.store import saved

    saved(options.output, data, options.force)
    if not options.json:
        print(f"\n{options.output}: {data.attrs['function']} over {', '.join(map(str, data['time'].dims))}")


def _draw(options: argparse.Namespace, asked: Any, name: str, sizes: dict[str, float], answer: Any) -> None:
    import hwspaces
    from sweeps.show import style
    from sweeps.show.roofline import ops_roofline

    device, constants = hwspaces.hardware(name), hwspaces.efficiency(options.efficiency)
    title = f"{asked.traced.name} on {device.name}{_sizes_text(sizes)}"
    notes = "; ".join((f"fusion {asked.traced.policy}", *asked.traced.notes))
    style.saved(ops_roofline(answer.ops, device.hardware, title, constants.name, notes), options.plot, options.force)
    if not options.json:
        print(f"\n{options.plot}: {title}")

"""`jaxroof plot`: a picture of a sweep's netCDF file, or of one step's roofline."""

import argparse
import pathlib
from typing import Any

from sweeps.cli.common import case_arguments
from sweeps.cli.outputs import picture_argument
from sweeps.cli.step import step_case, step_text, workload_arguments

KINDS = ("overview", "heatmap", "lines", "pareto", "breakdown", "spread", "speculation", "splits", "roofline")

WHOLE = ("speculation", "splits")
"""Kinds that draw all of a file, and choose nothing in it."""

STEP_FLAGS = (
    *("hardware", "model", "tp", "weights", "kv", "efficiency"),
    *("prefill", "prefills", "past", "decode", "context"),
)
"""Flags that describe one step, which only a roofline is of."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    parser.add_argument("file", nargs="?", metavar="OUT.nc", help="a sweep's file; a roofline needs none")
    what = "a .png or .svg (default: the file's name with .png)"
    picture_argument(parser, what, "-o", "--output", metavar="FILE", default=_default)
    parser.add_argument("--kind", metavar="KIND", help=f"{', '.join(KINDS)} (default overview)")
    parser.add_argument("--x", metavar="AXIS", help="axis across; for pareto a metric")
    parser.add_argument("--y", metavar="AXIS", help="axis upwards, or the lines' axis; for pareto a metric")
    parser.add_argument("--metric", metavar="VAR", help="what is drawn, and by what a design is best")
    parser.add_argument("--at", metavar="AXIS=VALUE", action="append", default=[], help="only there; several times")
    parser.add_argument("--reduce", metavar="HOW", help="over the other axes: best (default) or median")
    step = parser.add_argument_group("for --kind roofline, the step")
    case_arguments(step)
    workload_arguments(step)


def run(options: argparse.Namespace) -> None:
    """Draw and write the picture; says what it shows and where it is."""
    kind = options.kind or _usual(options.file)
    if kind not in KINDS:
        from hwspaces.units import nearest

        raise ValueError(f"--kind {kind} is not known{nearest(kind, KINDS)}")
    _require_flags(options, kind)
    from sweeps.show import style

    made = _roofline(options) if kind == "roofline" else _of_file(options, kind)
    style.saved(made, options.output, options.force)
    print(f"{options.output}: {' '.join(made.texts[0].get_text().split())}")


def _usual(file: str | None) -> str:
    """The kind of picture that a sweep is drawn as where nobody says which: what it kept, where that is little."""
    from sweeps.data.shards.manifest import read
    from sweeps.data.shards.read import is_folder

    if file is None or not is_folder(file):
        return "overview"
    kept = " ".join(map(str, read(pathlib.Path(file)).header["keep"]))
    return "pareto" if "pareto" in kept else "overview" if "top" in kept or not kept else "spread"


def _default(options: argparse.Namespace) -> str | None:
    """Default file name of a picture."""
    return None if options.file is None else str(pathlib.Path(options.file).with_suffix(".png"))


def _require_flags(options: argparse.Namespace, kind: str) -> None:
    """ValueError when a flag is missing, or belongs to another kind."""
    if kind == "roofline":
        foreign = [flag for flag in ("x", "y", "metric", "reduce") if getattr(options, flag)]
        if options.file or foreign or options.at:
            given = options.file or f"--{(foreign or ['at'])[0]}"
            raise ValueError(f"{given}: a roofline is of one step, which --hardware, --model, --prefill ... describe")
        if options.output is None:
            raise ValueError("-o FILE is missing: a .png or .svg")
        return
    foreign = [flag for flag in STEP_FLAGS if getattr(options, flag)] + (["set"] if options.set else [])
    if foreign:
        raise ValueError(f"--{foreign[0]} is only for --kind roofline; --at AXIS=VALUE picks from a sweep")
    if options.file is None:
        raise ValueError("OUT.nc is missing: the file of a sweep, or --kind roofline with --hardware and --model")


def _roofline(options: argparse.Namespace) -> Any:
    from sweeps.show.roofline import roofline

    case = step_case(options)
    return roofline(case, what=step_text(case))


def _of_file(options: argparse.Namespace, kind: str) -> Any:
    import importlib

    from sweeps.data import labels
    from sweeps.data.keep.rows import as_sample
    from sweeps.data.opened import opened
    from sweeps.show.overview import default_metric
    from sweeps.show.plane import REDUCTIONS
    from sweeps.show.selection import metric_name, selected

    how = options.reduce or "best"
    labels.known(how, REDUCTIONS, "reduction")
    with opened(options.file) as whole:
        if kind == "spread":
            from sweeps.show.spread import spread

            return spread(whole)
        if kind in WHOLE:
            return getattr(importlib.import_module(f"sweeps.show.{kind}"), kind)(selected(whole, options.at))
        kept = as_sample(whole)
        if kept is None:
            raise ValueError(f"{options.file} kept counts of points, not points: --kind spread draws them")
        dataset = selected(kept, options.at)
        drawing = getattr(importlib.import_module(f"sweeps.show.{kind}"), kind)
        if kind == "pareto":
            pair = [name and metric_name(dataset, name) for name in (options.x, options.y)]
            return drawing(dataset, *pair)
        axes = [name and labels.known(name, labels.axes(dataset), "axis") for name in (options.x, options.y)]
        if axes[0] and axes[0] == axes[1]:
            raise ValueError(f"--x and --y are both {axes[0]}")
        metric = metric_name(dataset, options.metric) if options.metric else default_metric(dataset)
        if kind == "breakdown":
            return drawing(dataset, axes[0], metric, how)
        return drawing(dataset, metric, *axes) if kind == "overview" else drawing(dataset, metric, *axes, how)

"""`jaxroof plot`: a picture of a sweep's file, of one step or batch on a device, or of a device's dies."""

import argparse
import pathlib
from typing import Any

from sweeps.answers.answer import say
from sweeps.cli import request, step
from sweeps.cli.common import case_arguments, length_arguments, overrides
from sweeps.cli.leaf_flags import flag as flag_of
from sweeps.cli.outputs import picture_argument

OF_FILES = ("overview", "heatmap", "lines", "pareto", "breakdown", "spread", "speculation", "splits")

OF_CASES = ("roofline", "power")
"""Kinds that draw one step or static batch, which flags describe."""

KINDS = (*OF_FILES, *OF_CASES, "floorplan")

WHOLE = ("speculation", "splits")
"""Kinds that draw all of a file, and choose nothing in it."""

BATCH_FLAGS = ("isl", "osl", "batch", "cached", "acceptance", "delay")
"""Flags of a static batch, which no step has."""

CASE_FLAGS = ("model", "tp", "weights", "kv", "efficiency", "draft", *step.NUMBERS, *BATCH_FLAGS)
"""Flags that describe one step or batch on a device."""

FILE_FLAGS = ("x", "y", "metric", "reduce", "at")
"""Flags that choose what is drawn of a sweep."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    parser.add_argument("file", nargs="?", metavar="OUT.nc", help="a sweep's file; for floorplan, an accelerator")
    what = "a .png or .svg (default: the file's name with .png)"
    picture_argument(parser, what, "-o", "--output", metavar="FILE", default=_default)
    parser.add_argument("--kind", metavar="KIND", help=f"{', '.join(KINDS)} (default overview)")
    parser.add_argument("--x", metavar="AXIS", help="axis across; for pareto a metric")
    parser.add_argument("--y", metavar="AXIS", help="axis upwards, or the lines' axis; for pareto a metric")
    parser.add_argument("--metric", metavar="VAR", help="what is drawn, and by what a design is best")
    parser.add_argument("--at", metavar="AXIS=VALUE", action="append", default=[], help="only there; several times")
    parser.add_argument("--reduce", metavar="HOW", help="over the other axes: best (default) or median")
    case = parser.add_argument_group("for --kind roofline or power: one step, or the batch of --isl and --osl")
    case_arguments(case)
    step.workload_arguments(case)
    length_arguments(case)
    request.static_batch_arguments(case)


def run(options: argparse.Namespace) -> None:
    """Draw and write the picture; says what it shows and where it is."""
    kind = options.kind or _usual(options.file)
    if kind not in KINDS:
        from hwspaces.quantities.units import nearest

        raise ValueError(f"--kind {kind} is not known{nearest(kind, KINDS)}")
    _require_flags(options, kind)
    from sweeps.show import style

    if kind in OF_CASES:
        made = _of_case(options, kind)
    else:
        made = _floorplan(options) if kind == "floorplan" else _of_file(options, kind)
    style.saved(made, options.output, options.force)
    say(f"{options.output}: {' '.join(made.texts[0].get_text().split())}")


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
    given = [flag for flag in (*CASE_FLAGS, *FILE_FLAGS) if getattr(options, flag)]
    if kind in OF_CASES:
        foreign = [flag for flag in given if flag in FILE_FLAGS]
        if options.file or foreign:
            name = options.file or flag_of(foreign[0])
            raise ValueError(
                f"{name}: a picture of {kind} is of one step or batch, which --hardware, --model, --prefill or "
                "--isl and --osl ... describe"
            )
    elif kind == "floorplan":
        of_file = ("metric", "at") if _is_sweep(options.file) else ()
        foreign = [flag for flag in given if flag not in of_file]
        if foreign:
            raise ValueError(f"{flag_of(foreign[0])}: a floor plan is of a device, which its name and --set describe")
        if (options.file is None) == (options.hardware is None):
            raise ValueError("a floor plan needs the name of one accelerator: jaxroof plot H100-SXM --kind floorplan")
    else:
        foreign = [flag for flag in ("hardware", *given, "set") if flag not in FILE_FLAGS and getattr(options, flag)]
        if foreign:
            raise ValueError(
                f"{flag_of(foreign[0])} is only for --kind {' or '.join(OF_CASES)}; --at AXIS=VALUE picks from a sweep"
            )
        if options.file is None:
            raise ValueError("OUT.nc is missing: the file of a sweep, or --kind roofline with --hardware and --model")
    if options.output is None:
        raise ValueError("-o FILE is missing: a .png or .svg")


def _is_sweep(file: str | None) -> bool:
    """Whether a name is that of a sweep's file or folder."""
    from sweeps.data.shards.read import is_folder

    return file is not None and (file.endswith(".nc") or is_folder(file))


def _of_case(options: argparse.Namespace, kind: str) -> Any:
    import importlib

    steps, batches = ([flag for flag in flags if getattr(options, flag)] for flags in (step.NUMBERS, BATCH_FLAGS))
    if steps and batches:
        raise ValueError(f"{flag_of(steps[0])} is of one step and {flag_of(batches[0])} of a batch: give one of them")
    of = request if batches else step
    name = "request" if batches else "step"
    case = getattr(of, f"{name}_case")(options)
    what = getattr(of, f"{name}_text")(case)
    return getattr(importlib.import_module(f"sweeps.show.{kind}"), kind)(case, what=what)


def _floorplan(options: argparse.Namespace) -> Any:
    import hwspaces
    from sweeps.show.floorplan import floorplan

    if _is_sweep(options.file):
        return floorplan(*_best_device(options))
    entry = hwspaces.hardware(options.file or options.hardware)
    settings = overrides(options.set)
    if not settings:
        return floorplan(entry)
    what = f"With {', '.join(f'{path} = {value}' for path, value in settings.items())}."
    return floorplan(entry, hwspaces.overridden(entry, settings).hardware, what)


def _best_device(options: argparse.Namespace) -> tuple[Any, ...]:
    """Of a sweep's or an optimisation's best design: the accelerator it starts from, the device, and it in words."""
    from sweeps.data import labels
    from sweeps.data.best import best
    from sweeps.data.keep.rows import as_sample
    from sweeps.data.opened import opened
    from sweeps.run.device_at import device_at
    from sweeps.show.overview import default_metric, metric_name, selected
    from sweeps.show.plane import best_sentence

    with opened(options.file) as whole:
        kept = as_sample(whole)
        if kept is None:
            raise ValueError(f"{options.file} kept counts of points, not points: it has no best design")
        dataset = selected(kept, options.at)
        if "design" in dataset.dims:  # an optimisation's, the best first
            varied = [str(name) for name, label in dataset.coords.items() if label.dims == ("design",)]
            values = (labels.text(dataset, name, dataset[name].values[0]) for name in varied)
            pairs = zip(varied, values, strict=True)
            where = ", ".join(f"{labels.short(dataset, name)} {text}" for name, text in pairs)
            return *device_at(dataset, {"design": 0}), f"Best design, {dataset.attrs['title']}: {where}."
        metric = metric_name(dataset, options.metric) if options.metric else default_metric(dataset)
        point = best(dataset, metric)
        if point is None:
            raise ValueError(f"{options.file}: no design is feasible")
        title, where = best_sentence(dataset, metric)
        return *device_at(dataset, point.position), f"{title}. {where}"


def _of_file(options: argparse.Namespace, kind: str) -> Any:
    import importlib

    from sweeps.data import labels
    from sweeps.data.keep.rows import as_sample
    from sweeps.data.opened import opened
    from sweeps.show.overview import default_metric, metric_name, selected
    from sweeps.show.plane import REDUCTIONS

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

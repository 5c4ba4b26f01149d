"""`jaxroof plot`: a picture of a sweep's file, of one step or batch on a device, or of a device's dies."""

import argparse
import importlib
import pathlib
from typing import Any

from sweeps.answers.answer import say
from sweeps.cli import common, request, step
from sweeps.cli.outputs import picture_argument, write

OF_FILES = ("overview", "heatmap", "lines", "pareto", "breakdown", "spread", "speculation", "splits", "routers")

OF_CASES = ("roofline", "power")
"""Kinds that draw one step or static batch, which flags describe."""

KINDS = (*OF_FILES, *OF_CASES, "floorplan")

BATCH_FLAGS = ("isl", "osl", "batch", "cached", "acceptance", "delay")
"""Flags of a static batch, which no step has."""

CASE_FLAGS = ("model", "tp", "weights", "kv", "efficiency", "draft", *step.NUMBERS, *BATCH_FLAGS)
"""Flags that describe one step or batch on a device."""

FILE_FLAGS = ("x", "y", "metric", "reduce", "at", "per")
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
    common.word_arguments(parser, "per")
    parser.add_argument("--reduce", metavar="HOW", help="over the other axes: best (default) or median")
    case = parser.add_argument_group("for --kind roofline or power: one step, or the batch of --isl and --osl")
    common.case_arguments(case)
    step.workload_arguments(case)
    common.length_arguments(case)
    request.static_batch_arguments(case)


def run(options: argparse.Namespace) -> None:
    """Draw and write the picture; says what it shows and where it is."""
    from sweeps.show.of_file import picture, usual_kind

    kind = usual_kind(options.file) if options.kind is None else options.kind
    if kind not in KINDS:
        from hwspaces.quantities.units import nearest

        raise ValueError(f"--kind {kind} is not known{nearest(kind, KINDS)}")
    _require_flags(options, kind)
    if kind in OF_CASES:
        drawing = _of_case(options, kind)
    elif kind == "floorplan":
        drawing = _floorplan(options)
    else:
        drawing = picture(options.file, kind, **{name: getattr(options, name) or None for name in FILE_FLAGS})
    write(options, "output", lambda: drawing)
    # The first text of a picture is its heading, which is the answer as a sentence.
    say(f"{options.output}: {' '.join(drawing.texts[0].get_text().split())}")


def _default(options: argparse.Namespace) -> str | None:
    """Default file name of a picture."""
    return options.file and str(pathlib.Path(options.file).with_suffix(".png"))


def _require_flags(options: argparse.Namespace, kind: str) -> None:
    """ValueError when a flag is missing, or belongs to another kind."""
    of_files, of_cases = common.given(options, FILE_FLAGS), common.given(options, CASE_FLAGS)
    # The deployment describes a case: neither a file nor a choice within one applies.
    if kind in OF_CASES:
        if options.file or of_files:
            raise ValueError(
                f"{options.file or of_files[0]}: a picture of {kind} is of one step or batch, which --hardware, "
                "--model, --prefill or --isl and --osl ... describe"
            )
    elif kind == "floorplan":
        # A floor plan is of a device, or of the best design in a sweep, which is chosen by a metric.
        from sweeps.show.of_file import is_sweep

        drawn = ("--metric", "--at", "--per") if is_sweep(options.file) else ()
        if foreign := [flag for flag in (*of_cases, *of_files) if flag not in drawn]:
            raise ValueError(f"{foreign[0]}: a floor plan is of a device, which its name and --set describe")
        if (options.file is None) == (options.hardware is None):
            raise ValueError("a floor plan needs the name of one accelerator: jaxroof plot H100-SXM --kind floorplan")
    elif foreign := common.given(options, ("hardware", *CASE_FLAGS, "set")):
        raise ValueError(f"{foreign[0]} is only for --kind {' or '.join(OF_CASES)}; --at AXIS=VALUE picks from a sweep")
    elif options.file is None:
        raise ValueError("OUT.nc is missing: the file of a sweep, or --kind roofline with --hardware and --model")
    if options.output is None:
        raise ValueError("-o FILE is missing: a .png or .svg")


def _of_case(options: argparse.Namespace, kind: str) -> Any:
    """The picture of one step or static batch."""
    from sweeps.answers.request import batch_text
    from sweeps.answers.step import step_text

    # A step and a static batch have different flags, of which only one set may be given.
    steps, batches = common.given(options, step.NUMBERS), common.given(options, BATCH_FLAGS)
    if steps and batches:
        raise ValueError(f"{steps[0]} is of one step and {batches[0]} of a batch: give one of them")
    of, said = (request.request_case, batch_text) if batches else (step.step_case, step_text)
    case = of(options)
    # Kinds of pictures are modules of the same name as their function.
    return getattr(importlib.import_module(f"sweeps.show.{kind}"), kind)(case, what=said(case))


def _floorplan(options: argparse.Namespace) -> Any:
    from sweeps.show.floorplan import named_floorplan
    from sweeps.show.of_file import best_floorplan, is_sweep

    if is_sweep(options.file):
        return best_floorplan(options.file, options.metric, options.at, options.per)
    return named_floorplan(options.file or options.hardware, common.overrides(options.set))

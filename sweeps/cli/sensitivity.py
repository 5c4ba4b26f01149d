"""`jaxroof sensitivity`: elasticities of a metric to numbers of hardware, deployment and workload."""

import argparse
import pathlib
from typing import Any

from sweeps.answers.to_json import print_json
from sweeps.cli import common, request, serve, service, step, train
from sweeps.cli.outputs import dataset_argument, files, picture_argument, print_files, write

JOBS = ("request", "step", "train", "serve")

TOP = 20

SHARED = ("isl", "osl", "think", "seed", "image", "images")
"""Flags of requests that other jobs read, or that have a value where nothing is said."""

OWN = {
    "step": tuple(name for name in step.NUMBERS if name != "prefill"),
    "request": ("batch", "cached", "acceptance"),
    "train": train.WORK,
    "serve": tuple(name for name in serve.LOAD if name not in SHARED)
    + ("engine", "policy", *(name for name in service.FLAGS if name != "prefill")),
}
"""Flags that only one job reads."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    parser.add_argument("--job", metavar="JOB", default="request", help="request (default), step, train or serve")
    common.case_arguments(parser)
    # One word of two jobs: tokens of a step, and settings of a pool.
    service.arguments(parser)
    step.workload_arguments(parser, beside=("prefill",))
    request.static_batch_arguments(parser)
    serve.load_arguments(parser, beside=("image", "images"))
    train.workload_arguments(parser)
    common.word_arguments(parser, "engine", help="for --job serve: vllm, sglang or trtllm")
    common.word_arguments(parser, "policy", help="of the scheduler, for --job serve")
    group = parser.add_argument_group("what is asked")
    group.add_argument("--metric", metavar="NAME,..", help="metrics of the job (default: the most asked for)")
    group.add_argument("--knob", metavar="PATH,..", help="numbers, or parts: hardware.links, model, efficiency")
    group.add_argument("--all", action="store_true", help=f"every knob (default: the {TOP} that change most)")
    group.add_argument("--top", metavar="N", help=f"rows of the table (default {TOP})")
    group.add_argument("--second-order", action="store_true", help="which knobs replace or need each other")
    group.add_argument("--smoothing", metavar="P", help="exponent of gradients at ridges (default 49); 0: exact ones")
    group.add_argument("--over", metavar="FILE", help="maps over a SPEC.toml, or over the points of a sweep's OUT.nc")
    dataset_argument(group, "all of it as netCDF")
    picture_argument(group, "a .png or .svg: a tornado; pairs with --second-order, maps with --over")
    common.json_argument(parser)


def run(options: argparse.Namespace) -> None:
    """Differentiate, write the files that are wanted, and print the tables or their JSON."""
    from sweeps.cli.sensitivity_question import found_of, found_of_serve, read_prefill, smoothing_exponent

    if options.job not in JOBS:
        raise ValueError(f"--job {options.job} has no sensitivities; known: {', '.join(JOBS)}")
    names, wanted = (common.listed(getattr(options, flag)) for flag in ("metric", "knob"))
    exponent = smoothing_exponent(options.smoothing)
    top = common.whole_setting(options, "top", TOP)
    # Maps are over the points of a file, which replaces the point that flags describe.
    if options.over is not None:
        return _maps(options, names, wanted, exponent)
    # Flags of other jobs would be ignored, so that they are refused.
    for job, flags in OWN.items():
        if job != options.job and (foreign := common.given(options, flags)):
            raise ValueError(f"{foreign[0]} is of --job {job}, and this is --job {options.job}")
    read_prefill(options)
    if options.job == "serve":
        result = found_of_serve(options, names, wanted, exponent)
    else:
        result = found_of(options, names, wanted, exponent, top)
    from sweeps.answers import sensitivity as report

    if files(options):
        _write(options, result, top)
    if options.json:
        return print_json(report.record(result))
    report.show(result, top, options.all)
    print_files(options)


def _write(options: argparse.Namespace, found: Any, top: int) -> None:
    from sweeps.studies.sensitivity.maps import point_dataset

    point, heading = found.point, found.heading
    # The picture follows the question: pairs for second order, else a tornado.
    if options.plot and options.second_order:
        from sweeps.show.sensitivity import pair_maps

        write(options, "plot", lambda: pair_maps(point, found.curvatures, heading))
    elif options.plot:
        from sweeps.show.tornado import tornado

        write(options, "plot", lambda: tornado(point, found.checks, heading, top=min(top, 15)))
    write(options, "output", lambda: point_dataset(point, heading, found.checks, found.curvatures))


def _maps(options: argparse.Namespace, names: Any, wanted: Any, exponent: float | None) -> None:
    """Elasticities over a specification's points, into a file or a picture."""
    # Everything that describes a point is stated by the file.
    of_point = ("hardware", "model", "isl", "osl", "rate", "trace", *OWN["step"], *OWN["request"], *train.WORK, "set")
    if said := common.given(options, of_point):
        raise ValueError(f"{said[0]} is said by --over {options.over}: leave it out")
    if not (options.output or options.plot):
        raise ValueError("--over makes maps: give -o OUT.nc, --plot PICTURE, or both")
    if options.json or options.second_order:
        raise ValueError(f"--{'json' if options.json else 'second-order'} is of one point, and --over makes maps")
    if not pathlib.Path(options.over).is_file():
        raise ValueError(f"--over {options.over}: no such file")
    from sweeps.answers import sensitivity as report
    from sweeps.entries.sensitivities import sensitivity

    dataset = sensitivity(options.over, names, wanted, smoothing=exponent).dataset
    # The picture first: what cannot be drawn leaves no file behind.
    if options.plot:
        from sweeps.show.sensitivity import elasticity_maps

        write(options, "plot", lambda: elasticity_maps(dataset))
    write(options, "output", lambda: dataset, [options.over])
    report.show_maps(dataset)
    print_files(options)

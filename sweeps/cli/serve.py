"""`jaxroof serve`: a simulated engine under a stream of requests: latencies, goodput, and its timeline."""

import argparse
import dataclasses
from collections.abc import Collection
from typing import Any

from sweeps.answers.to_json import print_json
from sweeps.cli import common, serve_routers, service
from sweeps.cli.leaf_flags import add_flags, leaf_flags
from sweeps.cli.outputs import dataset_argument, files, output_argument, picture_argument, print_files, write
from sweeps.cli.progress import Line
from sweeps.run.compile_cache import compilation_cache

FLAGS = leaf_flags("sweeps.ask.offered_load")
"""Flags that say which requests come, by name."""

LOAD = tuple(FLAGS)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    what = "a result of jaxroof compare --json, of which --row is simulated; other flags replace what the row says"
    parser.add_argument("file", metavar="RESULT.json", nargs="?", help=what)
    common.row_argument(parser)
    common.case_arguments(parser)
    common.word_arguments(parser, "draft")
    load_arguments(parser)
    parser.add_argument("--acceptance", metavar="SHARE", help=common.ACCEPTANCE_HELP)
    common.word_arguments(parser, "engine", "policy", "slo")
    service.arguments(parser)
    dataset_argument(parser, "every request and iteration, as netCDF", "RUN.nc")
    what = "steps and requests, for Perfetto"
    output_argument(parser, "--chrome-trace", kinds=("timeline",), metavar="FILE.json", help=what)
    picture_argument(parser, "a .png or .svg of latencies, queue, steps and cache")
    common.json_argument(parser)
    common.schema_argument(parser, "--traffic files", "sweeps.ask.json_schema:traffic_schema")


def load_arguments(parser: argparse.ArgumentParser, beside: Collection[str] = ()) -> None:
    """Add the flags that say which requests come; `beside`: those that the parser has already."""
    load = parser.add_argument_group("requests, of a file, at a rate or from clients")
    add_flags(load, {name: flag for name, flag in FLAGS.items() if name not in beside})


def offered(options: argparse.Namespace) -> dict[str, Any]:
    """What the flags say of the requests that come, by name."""
    return common.given_values(options, LOAD)


def question(options: argparse.Namespace) -> Any:
    """The `ServeSpec` that the flags describe; ValueError in one line when they do not."""
    policy, case_settings = common.policy_settings(options.policy), common.case_words(options)
    if (right := getattr(options, "acceptance", None)) is not None:
        if "acceptance" in policy:
            raise ValueError("--acceptance and --policy acceptance are the same: give one")
        policy["acceptance"] = right
    compilation_cache()
    from sweeps.run.simulated.spec import ServeSpec

    slo, replicas = getattr(options, "slo", None), service.words(options)
    return ServeSpec(**case_settings, **offered(options), **replicas, policy=policy, slo=slo)


def asked(options: argparse.Namespace) -> Any:
    """The simulation that is asked for: of a row of a saved comparison, or of the flags alone."""
    # Without a file the flags alone describe the simulation.
    if options.file is None:
        if options.row is not None:
            raise ValueError("--row is of a result of jaxroof compare --json: name the file")
        common.require_names(options)
        return question(options)
    number = common.row_number(options.row)
    flags = dataclasses.asdict(question(options))
    from sweeps.run.simulated.spec import serve_spec
    from sweeps.serving.rows import row_of, row_spec

    # Flags that are given replace what the row says; fields of the load have defaults, so that only given ones count.
    given = {name: value for name, value in flags.items() if value is not None and name not in LOAD}
    return serve_spec(**row_spec(row_of(options.file, number), given | offered(options)))


def run(options: argparse.Namespace) -> None:
    """Simulate, write the files that are wanted, and print the report or its JSON."""
    spec = asked(options)
    if "," in (spec.router or ""):
        return serve_routers.run(options, spec)
    from sweeps.answers import serve as report
    from sweeps.serving.run import simulation

    # The first run compiles the scheduler, which is said until requests finish.
    with Line("compiling") as bar:
        result = simulation(spec, lambda *done: bar.show("{:,} of {:,} requests".format(*done), *done))
    if files(options):
        _write(options, result)
    if options.json:
        return print_json(report.record(result))
    report.show(result)
    print_files(options)


def _write(options: argparse.Namespace, found: Any) -> None:
    from sweeps.serving import chrome
    from sweeps.serving.files import dataset, written

    # One dataset for picture and file.
    data = dataset(found)
    if options.plot:  # what cannot be drawn is said before any file is written
        from sweeps.show.serving_run import serving_run

        write(options, "plot", lambda: serving_run(data))
    if options.output:
        written(options.output, data, options.force)
    if options.chrome_trace:
        chrome.written(options.chrome_trace, found, options.force)

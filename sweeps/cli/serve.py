"""`jaxroof serve`: a simulated engine under a stream of requests: latencies, goodput, and its timeline."""

import argparse
import json
from typing import Any

from sweeps.cli import deployment
from sweeps.cli.common import (
    case_arguments,
    compilation_cache,
    draft_argument,
    json_argument,
    overrides,
    policy_settings,
    require_names,
)
from sweeps.cli.leaf_flags import add_flags, leaf_flags
from sweeps.cli.outputs import output_argument

FLAGS = leaf_flags("sweeps.ask.offered_load")
"""Flags that say which requests come, by name."""

LOAD = tuple(FLAGS)

OUTPUTS = ("output", "chrome_trace", "plot")
"""Flags of files that are written."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    case_arguments(parser)
    draft_argument(parser)
    load_arguments(parser)
    parser.add_argument("--engine", metavar="NAME", help="vllm, sglang or trtllm (default: the efficiency's)")
    parser.add_argument(
        "--policy",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a number of the engine's scheduler, docs/guide/serving.md: token_budget=2048, order=prefill_first, "
        "queue=shortest_first; may be given several times",
    )
    parser.add_argument("--slo", metavar="LATENCY=LIMIT,..", help="what a good request keeps: ttft=500ms,tpot=40ms")
    output_argument(
        parser, "-o", "--output", kinds=("dataset",), metavar="RUN.nc", help="every request and iteration, as netCDF"
    )
    output_argument(
        parser, "--chrome-trace", kinds=("timeline",), metavar="FILE.json", help="steps and requests, for Perfetto"
    )
    output_argument(
        parser,
        "--plot",
        kinds=("png", "svg"),
        metavar="PICTURE",
        help="a .png or .svg of latencies, queue, steps and cache",
    )
    json_argument(parser)


def load_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say which requests come."""
    load = parser.add_argument_group("requests, of a file, at a rate or from clients")
    add_flags(load, FLAGS)


def offered(options: argparse.Namespace) -> dict[str, Any]:
    """What the flags say of the requests that come, by name."""
    return {name: getattr(options, name) for name in LOAD if getattr(options, name, None) is not None}


def run(options: argparse.Namespace) -> None:
    """Simulate, write the files that are wanted, and print the report or its JSON."""
    require_names(options)
    policy, settings = policy_settings(options.policy), overrides(options.set)
    compilation_cache()
    from sweeps.cli import serve_report
    from sweeps.serving.run import simulation
    from sweeps.serving.spec import ServeSpec

    asked = ServeSpec(
        **{name: getattr(options, name) for name in ("hardware", "model", "draft", "weights", "kv", "communication")},
        **{name: getattr(options, name) for name in ("efficiency", "engine", "slo")},
        **offered(options),
        deployment=deployment.settings(options),
        overrides=settings,
        policy=policy,
    )
    bar = serve_report.Progress()
    try:
        found = simulation(asked, bar.show)
    finally:
        bar.stop()
    if any(getattr(options, name) for name in OUTPUTS):
        _write(options, found)
    if options.json:
        print(json.dumps(serve_report.record(found), indent=2, allow_nan=False))
        return
    serve_report.show(found)
    for name in OUTPUTS:
        if getattr(options, name):
            print(f"file    {getattr(options, name)}")


def _write(options: argparse.Namespace, found: Any) -> None:
    from sweeps.serving import chrome, files

    data = files.dataset(found)
    if options.plot:  # what cannot be drawn is said before any file is written
        from sweeps.show import style
        from sweeps.show.serving_run import serving_run

        style.saved(serving_run(data), options.plot, options.force)
    if options.output:
        files.written(options.output, data, options.force)
    if options.chrome_trace:
        chrome.written(options.chrome_trace, found, options.force)

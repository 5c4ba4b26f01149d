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
from sweeps.cli.outputs import output_argument

LOAD = ("trace", "format", "sort", "drop", "rate", "arrivals", "concurrency", "think", "isl", "osl")
LOAD += ("requests", "duration", "prefixes", "sessions", "seed")
"""Flags that say which requests come."""

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
    load.add_argument("--trace", metavar="FILE", help="a trace or a benchmark's results (jaxroof trace)")
    load.add_argument("--format", metavar="NAME", help="of the trace (default: as it looks): azure, mooncake, vllm ...")
    load.add_argument("--sort", action="store_true", help="put the trace's rows in order, instead of refusing them")
    load.add_argument("--drop", action="store_true", help="leave out the trace's rows without tokens")
    load.add_argument("--rate", metavar="R", help="requests/s of a Poisson stream; scales the times of a trace")
    load.add_argument("--arrivals", metavar="TEXT", help="in place of --rate: gamma:rate=8,cv=3, stages:8x60,16x30")
    load.add_argument("--concurrency", metavar="N", help="clients, each of which sends when its last request ended")
    load.add_argument("--think", metavar="TIME", default="0", help="time that a client waits in between (default 0)")
    load.add_argument("--isl", metavar="TEXT", help="prompt tokens: 1024, lognormal:mean=1024,sigma=0.8")
    load.add_argument("--osl", metavar="TEXT", help="output tokens")
    load.add_argument("--requests", metavar="N", help="how many (default 1000), or the first ones of the trace")
    load.add_argument("--duration", metavar="TIME", help="in place of --requests: as many as arrive within it")
    load.add_argument("--prefixes", metavar="TEXT", help="system prompts: groups=10,tokens=1000,zipf=1")
    load.add_argument("--sessions", metavar="TEXT", help="conversations: turns=2..8,think=30")
    load.add_argument("--seed", metavar="N", default="0", help="of what is drawn (default 0)")


def run(options: argparse.Namespace) -> None:
    """Simulate, write the files that are wanted, and print the report or its JSON."""
    require_names(options)
    policy, settings = policy_settings(options.policy), overrides(options.set)
    compilation_cache()
    from sweeps.cli import serve_report
    from sweeps.serving.question import Question
    from sweeps.serving.run import simulation

    asked = Question(
        **{name: getattr(options, name) for name in ("hardware", "model", "draft", "weights", "kv", "communication")},
        **{name: getattr(options, name) for name in ("efficiency", "engine", "slo", *LOAD)},
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

"""`jaxroof capacity`: the largest load at which each of many accelerators keeps its latency limits."""

import argparse
import json
import math
from typing import Any

from sweeps.cli import deployment
from sweeps.cli.common import (
    case_arguments,
    compilation_cache,
    json_argument,
    overrides,
    policy_settings,
    require_names,
    whole_number,
)
from sweeps.cli.outputs import output_argument

OUTPUTS = ("output", "plot")
"""Flags of files that are written."""

POINTS = 12
MOST_POINTS = 1000

LOAD = (
    *("trace", "format", "sort", "drop", "arrivals", "think", "isl", "osl", "requests", "duration"),
    *("prefixes", "sessions", "seed"),
)
"""Flags that say which requests come."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    case_arguments(parser)
    for action in parser._actions:
        if action.dest == "hardware":
            action.metavar, action.help = "NAME,..", "accelerators, or all: the whole catalogue"
        elif action.dest == "tp":
            action.metavar = "N,.."
            action.help = "tensor-parallel degrees (default: the smallest power of two at which the model fits)"
    parser.add_argument(
        "--slo",
        metavar="LIMITS",
        help="what has to be kept: ttft=500ms,tpot=40ms,e2e=10s by a share of the requests; ttft_p99=1s, "
        "tpot_mean=30ms by the run",
    )
    parser.add_argument("--share", metavar="SHARE", help="of the requests that have to keep it (default 0.95)")
    load = parser.add_argument_group("load")
    load.add_argument(
        "--rates",
        metavar="LOW..HIGH",
        help="requests/s of the curve that the search starts from; or a list (default: by what they can do)",
    )
    load.add_argument("--concurrency", metavar="LOW..HIGH", help="in place of it: clients, or a list of them, or auto")
    load.add_argument("--points", metavar="N", help=f"loads from LOW to HIGH (default {POINTS})")
    load.add_argument("--tolerance", metavar="SHARE", help="of the capacity (default 2 %%)")
    load.add_argument("--trace", metavar="FILE", help="a trace or a benchmark's results (jaxroof trace)")
    load.add_argument("--format", metavar="NAME", help="of the trace (default: as it looks): azure, mooncake, vllm ...")
    load.add_argument("--sort", action="store_true", help="put the trace's rows in order, instead of refusing them")
    load.add_argument("--drop", action="store_true", help="leave out the trace's rows without tokens")
    load.add_argument("--arrivals", metavar="TEXT", help="how requests are spread (default poisson): gamma:rate=1,cv=3")
    load.add_argument("--think", metavar="TIME", default="0", help="time that a client waits in between (default 0)")
    load.add_argument("--isl", metavar="TEXT", help="prompt tokens: 1024, lognormal:mean=1024,sigma=0.8")
    load.add_argument("--osl", metavar="TEXT", help="output tokens")
    load.add_argument("--requests", metavar="N", help="how many (default 1000), or the first ones of the trace")
    load.add_argument("--duration", metavar="TIME", help="of --arrivals, in place of --requests")
    load.add_argument("--prefixes", metavar="TEXT", help="system prompts: groups=10,tokens=1000,zipf=1")
    load.add_argument("--sessions", metavar="TEXT", help="conversations: turns=2..8,think=30")
    load.add_argument("--seed", metavar="N", default="0", help="of what is drawn (default 0)")
    parser.add_argument("--engine", metavar="NAME", help="vllm, sglang or trtllm (default: the efficiency's)")
    parser.add_argument(
        "--policy", metavar="NAME=VALUE", action="append", default=[], help="a number of the scheduler, as of serve"
    )
    output_argument(
        parser, "-o", "--output", kinds=("dataset",), metavar="FILE.nc", help="the curve and the capacities, as netCDF"
    )
    output_argument(
        parser,
        "--plot",
        kinds=("png", "svg"),
        metavar="PICTURE",
        help="a .png or .svg of capacities, latencies and throughput",
    )
    json_argument(parser)


def run(options: argparse.Namespace) -> None:
    """Search, write the files that are wanted, and print the table or its JSON."""
    require_names(options)
    if not options.slo:
        raise ValueError("--slo is missing: what has to be kept, such as ttft=500ms,tpot=40ms")
    found = _searched(options, _load_ranges(options))
    _write(options, found)
    from sweeps.cli import capacity_report

    if options.json:
        print(json.dumps(capacity_report.record(found), indent=2, allow_nan=False))
        return
    capacity_report.show(found)
    for name in OUTPUTS:
        if getattr(options, name):
            print(f"file    {getattr(options, name)}")


def _load_ranges(options: argparse.Namespace) -> dict[str, list[float] | None]:
    """Rates or numbers of clients that the search starts from; None: by what the accelerators can do."""
    if options.rates and options.concurrency:
        raise ValueError("--rates and --concurrency: give one; clients send when they have their answers")
    if options.points is not None and ".." not in (options.rates or options.concurrency or ""):
        raise ValueError(f"--points {options.points}: it needs --rates LOW..HIGH or --concurrency LOW..HIGH")
    points = POINTS if options.points is None else int(whole_number("--points", options.points))
    if points > MOST_POINTS:
        raise ValueError(f"--points {points} must be at most {MOST_POINTS}")
    clients = None
    if options.concurrency not in (None, "auto"):
        clients = _loads("--concurrency", options.concurrency, points, True)
    return {"rates": options.rates and _loads("--rates", options.rates, points, False), "concurrencies": clients}


def _searched(options: argparse.Namespace, loads: dict[str, Any]) -> Any:
    """The capacities that the flags ask for, with a bar of progress while they are searched."""
    from hwspaces import names, quantity

    degrees = None if options.tp is None else [int(whole_number("--tp", part)) for part in options.tp.split(",")]
    options.tp = None
    tolerance: dict[str, Any] = {}
    if options.tolerance is not None:
        tolerance["tolerance"] = quantity(options.tolerance, "1", "--tolerance")
    share = {} if options.share is None else {"share": options.share}
    settings, policy = overrides(options.set), policy_settings(options.policy)
    compilation_cache()
    from sweeps.cli.progress import Progress
    from sweeps.serving.capacity import capacity

    bars: list[Progress] = []

    def begun(simulations: int) -> Any:
        bars.append(Progress(simulations))
        return bars[0].add

    every = options.hardware.strip() == "all"
    try:
        return capacity(
            options.model,
            names() if every else [name.strip() for name in options.hardware.split(",")],
            options.slo,
            **share,
            **tolerance,
            **loads,
            closed=options.concurrency is not None,
            tp=degrees,
            begun=begun,
            deployment=deployment.settings(options),
            overrides=settings,
            policy=policy,
            **{name: getattr(options, name) for name in ("weights", "kv", "communication", "efficiency", "engine")},
            **{name: getattr(options, name) for name in LOAD},
        )
    finally:
        for bar in bars:
            bar.stop()


def _loads(flag: str, text: str, points: int, whole: bool) -> list[float]:
    """Loads of "1..32", in equal ratios, or of "1,2,4"."""
    from hwspaces import quantity

    low, dots, high = text.partition("..")
    if not dots:
        return [quantity(part.strip(), "1", flag) for part in text.split(",")]
    low, high = quantity(low.strip(), "1", flag), quantity(high.strip(), "1", flag)
    if not low < high:
        raise ValueError(f"{flag} {text}: {low:g} must be below {high:g}")
    ratio = math.log(high / low)
    steps = [low * math.exp(ratio * i / max(points - 1, 1)) for i in range(points)]
    if whole:
        return list(dict.fromkeys(float(round(one)) for one in steps))
    return list(dict.fromkeys(float(f"{one:.3g}") for one in steps))


def _write(options: argparse.Namespace, found: Any) -> None:
    from sweeps.serving.capacity import dataset

    if options.output:
        from sweeps.data.store import saved

        saved(options.output, dataset(found), options.force)
    if options.plot:
        from sweeps.show import style
        from sweeps.show.load import load

        style.saved(load(dataset(found)), options.plot, options.force)

"""`jaxroof capacity`: the largest load at which each of many accelerators, or a whole service, keeps its limits."""

import argparse
from typing import Any

from sweeps.answers.to_json import print_json
from sweeps.ask.words import ComparisonWords
from sweeps.cli import common, service, service_capacity
from sweeps.cli.leaf_flags import add_flags
from sweeps.cli.outputs import dataset_argument, picture_argument, print_files, write
from sweeps.cli.serve import FLAGS
from sweeps.run.compile_cache import compilation_cache

POINTS = 12
MOST_POINTS = 1000

LOAD = {name: flag for name, flag in FLAGS.items() if name not in ("rate", "concurrency")}
"""Flags that say which requests come, by name."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    common.case_arguments(parser)
    # The shared flags take lists here, so that their placeholders and help say so.
    for action in parser._actions:
        if action.dest == "hardware":
            action.metavar, action.help = "NAME,..", "accelerators, or all: every one that is rented out"
        elif action.dest == "tp":
            action.metavar = "N,.."
            action.help = "tensor-parallel degrees (default: the smallest power of two at which the model fits)"
    what = "what has to be kept: ttft=500ms,tpot=40ms,e2e=10s by a share of the requests; ttft_p99=1s, "
    parser.add_argument("--slo", metavar="LIMITS", help=what + "tpot_mean=30ms by the run")
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
    # Arrivals have a default of their own here: a search sets the rate, and only their spread is chosen.
    spread = LOAD["arrivals"]._replace(help="how requests are spread (default poisson): gamma:rate=1,cv=3")
    common.word_arguments(parser, "node", of=ComparisonWords)
    add_flags(load, LOAD | {"arrivals": spread})
    common.word_arguments(parser, "engine")
    common.word_arguments(parser, "policy", help="a number of the scheduler, as of serve")
    service.arguments(parser)
    dataset_argument(parser, "the curve and the capacities, as netCDF", "FILE.nc")
    picture_argument(parser, "a .png or .svg of capacities, latencies and throughput")
    common.json_argument(parser)


def run(options: argparse.Namespace) -> None:
    """Search, write the files that are wanted, and print the table or its JSON."""
    common.require_names(options)
    if not options.slo:
        raise ValueError("--slo is missing: what has to be kept, such as ttft=500ms,tpot=40ms")
    if service.wanted(options):
        return service_capacity.run(options, common.given_values(options, LOAD))
    search = _searched(options, _load_ranges(options))
    from sweeps.answers import capacity as report
    from sweeps.serving.capacity import dataset

    write(options, "output", lambda: dataset(search))
    if options.plot:
        from sweeps.show.load import load

        write(options, "plot", lambda: load(dataset(search)))
    if options.json:
        return print_json(report.record(search))
    report.show(search)
    print_files(options)


def _load_ranges(options: argparse.Namespace) -> dict[str, list[float] | None]:
    """Rates or numbers of clients that the search starts from; None: by what the accelerators can do."""
    if options.rates and options.concurrency:
        raise ValueError("--rates and --concurrency: give one; clients send when they have their answers")
    if options.points is not None and ".." not in (options.rates or options.concurrency or ""):
        raise ValueError(f"--points {options.points}: it needs --rates LOW..HIGH or --concurrency LOW..HIGH")
    points = common.whole_setting(options, "points", POINTS)
    if points > MOST_POINTS:
        raise ValueError(f"--points {points} must be at most {MOST_POINTS}")
    from sweeps.serving.curve import load_range

    # None: the search starts from loads that the accelerators are estimated to take.
    clients = None
    if options.concurrency not in (None, "auto"):
        clients = load_range(options.concurrency, points, "--concurrency", whole=True)
    return {"rates": options.rates and load_range(options.rates, points, "--rates"), "concurrencies": clients}


def _searched(options: argparse.Namespace, loads: dict[str, Any]) -> Any:
    """The capacities that the flags ask for, with a bar of progress while they are searched."""
    from hwspaces import rented_names
    from sweeps.ask.flag_text import several
    from sweeps.cli.progress import progress
    from sweeps.serving.capacity import capacity

    # Degrees are a list, which the flags of a single deployment cannot take: it is passed apart.
    degrees = None if options.tp is None else common.whole_numbers("--tp", options.tp)
    options.tp = None
    given = service_capacity.judged(options)
    if options.node is not None:
        given["node"] = int(common.whole_number("--node", options.node))
    words = {name: value for name, value in common.case_words(options).items() if name not in ("hardware", "model")}
    compilation_cache()
    with progress() as begun:
        return capacity(
            options.model,
            rented_names() if options.hardware.strip() == "all" else several(options.hardware, "--hardware"),
            options.slo,
            **given,
            **loads,
            closed=options.concurrency is not None,
            tp=degrees,
            begun=lambda simulations: begun(simulations).add,
            policy=common.policy_settings(options.policy),
            **words,
            **common.given_values(options, LOAD),
        )

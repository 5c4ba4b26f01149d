"""`jaxroof fleet`: how many accelerators of each kind serve a day's traffic within its limits at the least cost."""

import argparse
from typing import Any

from sweeps.answers.answer import say
from sweeps.answers.to_json import print_json
from sweeps.ask.words import ComparisonWords
from sweeps.cli.common import given_values, json_argument, schema_argument, whole_number, word_arguments
from sweeps.cli.outputs import files, picture_argument, write
from sweeps.cli.progress import Line


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    parser.add_argument(
        "traffic", metavar="TRAFFIC.toml", help="models, classes of traffic over a day, limits, accelerators; or fleet"
    )
    parser.add_argument(
        "--budget", metavar="COST", help="most that it may cost, in place of the file's: 2MUSD/year, 300USD/h"
    )
    parser.add_argument(
        "--gap", metavar="SHARE", help="by which a cheaper fleet may exist, as a share of the cost (default 0.01 %%)"
    )
    parser.add_argument(
        "--seconds", metavar="TIME", help="limit of each solution; the best fleet so far is taken (default 20s)"
    )
    parser.add_argument(
        "--no-marginals", action="store_true", help="leave out what one more device or more traffic would change"
    )
    parser.add_argument(
        "--simulate", metavar="N", help="layouts of every class that are simulated at most (default 0: estimates)"
    )
    word_arguments(parser, "prices", "node", of=ComparisonWords)
    parser.add_argument("--hours", action="store_true", help="a table of every hour of the day")
    what = "a .png or .svg of the day: load and capacity of every class, devices in use"
    picture_argument(parser, what, "-o", "--output", metavar="DAY.png")
    json_argument(parser)
    schema_argument(parser, "traffic files", "sweeps.studies.fleet.json_schema:fleet_schema")


def run(options: argparse.Namespace) -> None:
    """Find the fleet, draw the day if wanted, and print the answer or its JSON."""
    from hwspaces import quantity
    from sweeps.studies.fleet.answer import fleet

    limits: dict[str, Any] = {"prices": options.prices}
    # Compiling is needed only for simulations; estimates run without.
    if options.simulate is not None:
        from sweeps.run.compile_cache import compilation_cache

        limits["simulated"] = int(whole_number("--simulate", options.simulate, zero=True))
        compilation_cache()
    if options.node is not None:
        limits["node"] = int(whole_number("--node", options.node))
    units = {"gap": "1", "seconds": "s", "budget": "USD/s"}
    limits |= {name: quantity(text, units[name], f"--{name}") for name, text in given_values(options, units).items()}
    with Line(elsewhere=False) as line:
        plan = fleet(options.traffic, **limits, with_marginals=not options.no_marginals, progress=line.show)
    if options.output:
        from sweeps.show.fleet import day

        write(options, "output", lambda: day(plan))
    if options.json:
        from sweeps.studies.fleet.record import record

        return print_json(record(plan))
    from sweeps.answers.fleet import printed

    printed(plan, options.hours)
    for path in files(options):
        say(path)

"""`jaxroof scenario`: the suite of scenarios beside expected values."""

import argparse
import itertools

from sweeps.answers.answer import say
from sweeps.answers.to_json import print_json
from sweeps.cli.outputs import dataset_argument, write
from sweeps.cli.progress import Line


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    parser.add_argument("action", choices=("list", "run"), help="list: what there is; run: expected and found values")
    parser.add_argument("ids", nargs="*", metavar="ID", help="scenarios, such as T3.2")
    parser.add_argument("--all", action="store_true", help="every scenario")
    parser.add_argument("--efficiency", metavar="NAME", help="of the predicted values (default: each scenario's)")
    dataset_argument(parser, "write the rows as a netCDF file")
    parser.add_argument("--json", action="store_true", help="JSON with SI numbers instead of a table")


def run(options: argparse.Namespace) -> None:
    """Print what there is, or the rows."""
    from sweeps.answers.scenario import show_list, show_rows

    if options.action == "list":
        show_list(options.json)
        return
    if bool(options.ids) == options.all:
        raise ValueError("give the scenarios to run, such as T3.2, or --all")
    from jaxroof.jobs import JOBS
    from sweeps.run.compile_cache import compilation_cache
    from sweeps.studies import scenarios

    # The cache of compiled programs is needed for simulations alone.
    if any(JOBS[scenarios.scenario(name).spec["job"]].simulated for name in options.ids or scenarios.names()):
        compilation_cache()
    total, count = len(options.ids or scenarios.names()), itertools.count(1)
    # Scenarios run one after the other, so that a counter tells how many are done.
    with Line(elsewhere=False) as bar:

        def done(name: str) -> None:
            number = next(count)
            bar.show(f"{number} of {total} scenarios ({name})", number, total)

        rows = scenarios.run(options.ids or None, options.efficiency, done)
    write(options, "output", lambda: scenarios.table(rows))
    if options.json:
        print_json(
            [vars(row) | {"deviation": row.deviation, "predicted_deviation": row.predicted_deviation} for row in rows]
        )
        return
    show_rows(rows)
    if options.output is not None:
        say(f"\n{options.output}: {len(rows)} rows")

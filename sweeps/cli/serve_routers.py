"""`jaxroof serve --router A,B`: the same load with several routers, in one table, dataset and picture."""

import argparse
from typing import Any

from sweeps.answers.to_json import print_json
from sweeps.cli.outputs import print_files, write
from sweeps.cli.progress import Line


def run(options: argparse.Namespace, spec: Any) -> None:
    """Simulate with every router, write the files that are wanted, and print the table or its JSON."""
    if options.chrome_trace:
        raise ValueError(f"--chrome-trace is of one simulation, and --router {spec.router} asks for several")
    from sweeps.answers import routers as report
    from sweeps.serving.files import routers_dataset, written
    from sweeps.serving.routers import routed

    with Line("compiling") as bar:
        found = routed(spec, lambda name, *done: bar.show(f"{name}: {done[0]:,} of {done[1]:,} requests", *done))
    data = routers_dataset(spec, found)
    if options.plot:
        from sweeps.show.routers import routers

        write(options, "plot", lambda: routers(data))
    if options.output:
        written(options.output, data, options.force)
    if options.json:
        return print_json(report.record(found))
    report.show(found)
    print_files(options)

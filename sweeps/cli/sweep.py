"""`jaxroof sweep`: every point of a specification into a netCDF file, and where the best of them are."""

import argparse
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

from sweeps.cli.common import compilation_cache

LINE_SECONDS = 10.0
"""s between lines of progress where stderr is no terminal."""

RATED_POINTS = 100_000
"""Points from which a rate says something: fewer are outweighed by compilation."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    parser.add_argument("spec", metavar="SPEC.toml", help="what to sweep; sweeps/specs/demo.toml is one")
    parser.add_argument("-o", "--output", metavar="OUT.nc", help="the netCDF file; it appears when it is whole")


def run(options: argparse.Namespace) -> None:
    """Compute, write, and say what was found."""
    if options.output is None:
        raise ValueError("-o OUT.nc is missing")
    from sweeps.api import sweep_to_file

    compilation_cache()
    start = time.perf_counter()
    bars: list[Progress] = []

    def begun(asked: Any, plan: Any) -> Callable[[int], None]:
        _print_asked(asked, plan)
        bars.append(Progress(plan.points))
        return bars[0].add

    try:
        sweep_to_file(options.output, options.spec, begun)
    finally:
        for bar in bars:
            bar.stop()
    _print_found(options.output, bars[0].points, time.perf_counter() - start, bars[0].seconds)


class Progress:
    """Points done, rate and time left: a bar on a terminal, now and then a line elsewhere. On stderr."""

    def __init__(self, points: int):
        self.points, self.done, self.start = points, 0, time.perf_counter()
        self.said, self.bar = self.start, None
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            count = TextColumn("{task.fields[done]} of {task.fields[points]} points, {task.fields[rate]}/s, ETA")
            self.bar = Bar(BarColumn(), count, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
            self.task = self.bar.add_task("", total=points, done="0", points=f"{points:,}", rate="-")
            self.bar.start()

    @property
    def seconds(self) -> float:
        """s since the first chunk was asked for."""
        return max(time.perf_counter() - self.start, 1e-9)

    def add(self, points: int) -> None:
        """Count `points` more that are done."""
        self.done += points
        rate = self.done / self.seconds
        if self.bar is not None:
            self.bar.update(self.task, completed=self.done, done=f"{self.done:,}", rate=rate_text(rate))
        elif time.perf_counter() - self.said > LINE_SECONDS:
            self.said, left = time.perf_counter(), (self.points - self.done) / rate
            line = f"{self.done:,} of {self.points:,} points, {rate_text(rate)}/s, {left:,.0f} s left"
            print(line, file=sys.stderr, flush=True)

    def stop(self) -> None:
        """Take the bar away."""
        if self.bar is not None:
            self.bar.stop()


def rate_text(rate: float) -> str:
    """A rate of points as "2.6 million"."""
    return f"{rate / 1e6:.3g} million" if rate >= 1e6 else f"{rate:,.0f}"


def _print_asked(asked: Any, plan: Any) -> None:
    print(asked.attributes["title"])
    drawn = [label.name for axis in plan.axes for label in axis.coordinates if axis.name == "point"][1:]
    sizes = " x ".join(f"{axis.size:,} {axis.name}" for axis in plan.axes) or "no axes"
    print(f"{plan.points:,} points: {', '.join(drawn) or sizes}; {len(plan.outputs)} variables")
    for note in asked.notes:
        print(f"note  {note}")
    sys.stdout.flush()


def _print_found(output: str, points: int, seconds: float, computing: float) -> None:
    """File size and time; then the best feasible point by every key metric, read back lazily."""
    from sweeps import best, labels
    from sweeps.cli.tables import console, size, table
    from sweeps.dataset import variable
    from sweeps.store import opened

    out = console()
    with opened(output) as dataset:
        found = [best.best(dataset, metric) for metric in best.key_metrics(dataset)]
        places = {point.metric: best.coordinates(dataset, point) for point in found if point is not None}
        feasible, _ = best.feasible_points(dataset)
        heads = {name: f"{'highest' if variable(name).higher_is_better else 'lowest'}\n{name}" for name in places}
        points_table = table("of the feasible points", *heads.values(), numbers=heads.values())
        values = [labels.text(dataset, point.metric, point.value) for point in found if point is not None]
        points_table.add_row("value", *values, style="bold")
        for name in labels.axes(dataset):
            points_table.add_row(f"at {name}", *(place[name] for place in places.values()))
    written = size(pathlib.Path(output).stat().st_size)
    rate = f", {rate_text(points / computing)} points/s computed and written" if points >= RATED_POINTS else ""
    out.print(f"{output}: {written}, {points:,} points in {seconds:.1f} s{rate}")
    out.print(f"{feasible:,} points ({100 * feasible / points:.0f} %) are feasible")
    if places:
        out.print()
        out.print(points_table)
    out.print(f"\n`jaxroof plot {output}` draws it.")

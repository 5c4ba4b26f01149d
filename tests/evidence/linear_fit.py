"""Fit of an engine's kernels of states, residual streams and encoders: `linear_fit --data DIR --engine vllm -o FILE`.

The constants stand in tables of their own in the engine's file; all others stay as they are.
"""

import argparse
import dataclasses
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import hwspaces
from hwspaces.performance.efficiency_file import class_lines
from sweeps.measure.validate.relative_errors import Errors
from tests.evidence.class_tables import with_table
from tests.evidence.harness import data, fitting, flag
from tests.evidence.hulls import growth
from tests.evidence.learned_fit import KERNELS
from tests.evidence.learned_kernels.layer_classes import classes
from tests.evidence.learned_kernels.layer_fit import Judged, judged, without_models

ONLY = flag("--only", action="append", default=[], metavar="CLASS", help="such as elementwise.streams; may be repeated")
MODELS = flag("--models", action="store_true", help="print errors with each model left out in turn instead")


@fitting(data("folder with kernels3/ and kernels/"), KERNELS, ONLY, MODELS, width=160)
def main(options: argparse.Namespace, console: Console) -> str:
    """Fit and print."""
    chosen = [one for one in classes(options.engine) if not options.only or one.path in options.only]
    if options.models:
        if options.output:
            raise ValueError("-o: --models prints errors and has no constants to write")
        console.print(model_table({one.path: without_models(one, options.data, options.engine) for one in chosen}))
        return ""
    found = [judged(one, options.data, options.engine) for one in chosen]
    console.print(error_table(found))
    entry = hwspaces.efficiency(f"learned-{options.engine}")
    text = (Path(hwspaces.__file__).parents[1] / entry.file).read_text(encoding="utf-8")
    unseen = [left_out for one in found for left_out in one.unseen]
    for one in found:
        path, kernel, sources = one.fit.path, one.fit.kernel, {one.fit.path: source(one)}
        kernel = dataclasses.replace(kernel, hull=dataclasses.replace(kernel.hull, growth=growth(path, unseen)))
        # What serving adds to the kernel alone stays as it is.
        before: Any = entry.efficiency
        for name in path.split("."):
            before = getattr(before, name)
        if getattr(before, "around_time", None) is not None:
            kernel = dataclasses.replace(kernel, around_time=before.around_time)
            sources[f"{path}.around_time"] = entry.sources[f"{path}.around_time"]
        text = with_table(text, path, class_lines(path, kernel, sources))
    return text


def error_table(found: Iterable[Judged]) -> Table:
    """Errors by class and device: of fitted rows, of shapes left out, of architectures left out."""
    table = Table(title="median / MAPE, signed median in %: all rows; rows of 30 us and more", title_justify="left")
    for name in ("class", "device", "fitted", "shapes left out", "architecture left out"):
        table.add_column(name)
    for one in found:
        for device in sorted({*one.seen, *one.sites}):
            parts = (one.seen, one.sites, one.fit.held_out)
            table.add_row(one.fit.path, device, *(_texts(part.get(device)) for part in parts))
    return table


def model_table(found: Mapping[str, Mapping[str, tuple[Errors, Errors]]]) -> Table:
    """Errors by class and model, by constants that were fitted without it."""
    table = Table(title="median / MAPE, signed median in %: all rows; rows of 30 us and more", title_justify="left")
    for name in ("class", "model left out", "errors"):
        table.add_column(name)
    for path, models in found.items():
        for name, pair in models.items():
            table.add_row(path, name, _texts(pair))
    return table


def _texts(pair: tuple[Errors, Errors] | None) -> str:
    return "" if pair is None else "; ".join(_text(one) for one in pair)


def _text(one: Errors) -> str:
    return f"{100 * one.median:.0f}/{100 * one.mape:.0f} {100 * one.signed:+.0f}"


def source(one: Judged) -> str:
    """Rows, kernels and errors of a fit in one sentence."""
    fit = one.fit

    def listed(part: dict[str, tuple[Errors, Errors]]) -> str:
        return "; ".join(f"{name} {100 * e.median:.0f}%/{100 * e.mape:.0f}%" for name, (e, _) in part.items())

    return (
        f"fitted to {fit.rows:,} public rows of {fit.engine} {', '.join(fit.versions)} ({', '.join(fit.kernels)}) on "
        f"{', '.join(fit.devices)} (tables of aiconfigurator and aisimulate), in sample "
        f"{100 * fit.errors.median:.0f}%/{100 * fit.errors.mape:.0f}%; median/mean error of shapes left out: "
        f"{listed(one.sites)}; with its architecture left out: {listed(fit.held_out)}; "
        f"python -m tests.evidence.linear_fit --data DIR --engine {fit.engine}"
    )


if __name__ == "__main__":
    sys.exit(main())

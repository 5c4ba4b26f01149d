"""InferenceX's requests before the queue, by device left out: `python -m tests.evidence.first_token --data DIR`.

What a request waits for before it is in the queue is a constant of the engine's front end, and the steps that the
engine has launched already. Both are tried on a grid, and each device is judged by what is best on the others.
"""

import argparse
import dataclasses
import itertools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

import hwspaces
from sweeps.measure.validate.serving.attempt import attempted
from sweeps.measure.validate.serving.launches import INFERENCEX
from sweeps.measure.validate.serving.serving_points import ServingPoint, points
from sweeps.measure.validate.serving.suspects import checked
from tests.evidence.harness import command, data, flag
from tests.evidence.inferencex_points import published

SAMPLE = "e2e/silicon_sample.csv"

FIELDS = {
    "vllm": ("request_time", (0.0, 0.005, 0.01, 0.015, 0.02)),
    "trtllm": ("request_time", (0.0, 0.01, 0.015, 0.02, 0.03)),
    "sglang": ("request_time", (0.015, 0.02, 0.025, 0.03, 0.045)),
}
"""Engine -> its time of `hwspaces.engines.engine.HostTimes` and the values to try, s."""

REQUEST_TIME = "efficiency.host.request_time"

AHEAD = 0.0, 1.0, 2.0
"""Steps that an engine whose host works beside the device may have launched."""


class Try(NamedTuple):
    """Values of the two constants."""

    ahead: float  # steps
    seconds: float


class Row(NamedTuple):
    """One point and its measured time to the first token: the median where the file has it, else the mean."""

    point: ServingPoint
    seconds: float
    median: bool


Scores = Mapping[Try, Mapping[str, float]]
"""Values -> device -> median of the absolute errors."""


def rows(folder: Path, engine: str) -> list[Row]:
    """Points of InferenceX under `engine`, of both files."""
    dated = [Row(one.point, one.median_ttft, True) for one in published(folder)[0]]
    trusted = [one for one in checked(points(folder / SAMPLE)[0]) if one.suspect is None and one.family == INFERENCEX]
    return [one for one in [*dated, *(Row(one, one.ttft, False) for one in trusted)] if one.point.engine == engine]


def left_out(scores: Scores) -> dict[str, tuple[Try, float]]:
    """Device -> the values that are best on the mean of the others, and the device's own error with them."""
    devices = sorted({device for each in scores.values() for device in each})
    found = {}
    for device in devices:
        best = min(scores, key=lambda one: np.mean([error for name, error in scores[one].items() if name != device]))
        found[device] = best, scores[best][device]
    return found


def tried(found: Sequence[Row], engine: str) -> Scores:
    """Errors of the points of one engine under all values of the grid."""
    return {
        one: _errors(found, [_changed(row.point, one) for row in found])
        for one in itertools.starmap(Try, itertools.product(AHEAD, FIELDS[engine][1]))
    }


def _changed(point: ServingPoint, values: Try) -> ServingPoint:
    """The point with the values; an engine that launches no step ahead of the device launches none."""
    asynchronous = bool(point.policy.hidden_host) or float(point.policy.ahead_steps) > 0.0
    policy = {**point.spec.policy, "ahead_steps": values.ahead if asynchronous else 0.0}
    base = hwspaces.efficiency(hwspaces.engine(point.engine).efficiency).efficiency.host.request_time
    overrides = {**point.spec.overrides, REQUEST_TIME: base + values.seconds}
    return dataclasses.replace(point, spec=dataclasses.replace(point.spec, policy=policy, overrides=overrides))


def _errors(found: Sequence[Row], changed: Sequence[ServingPoint]) -> dict[str, float]:
    """Device -> median of the absolute errors."""
    predicted = {(one.point.row, one.point.id): one for one in attempted(changed)[0]}
    errors: dict[str, list[float]] = {}
    for row in found:
        one = predicted.get((row.point.row, row.point.id))
        if one is not None:
            seconds = one.median_ttft if row.median else one.ttft
            errors.setdefault(row.point.gpu, []).append(abs(seconds / row.seconds - 1.0))
    return {device: float(np.median(each)) for device, each in errors.items()}


@command(
    data("folder with serving2/ and e2e/"),
    flag("--engine", action="append", choices=FIELDS, help="this engine (default: all)"),
)
def main(options: argparse.Namespace) -> None:
    """Try, and print; returns the exit status."""
    console = Console(width=120)
    for engine in options.engine or FIELDS:
        found = rows(options.data, engine)
        console.print(_table(engine, len(found), tried(found, engine)))


def _table(engine: str, count: int, scores: Scores) -> Table:
    devices = left_out(scores)
    table = Table("steps ahead", FIELDS[engine][0], *devices, title=f"{engine}, {count} points: median error of TTFT")
    for one, errors in scores.items():
        table.add_row(f"{one.ahead:g}", f"{1e3 * one.seconds:g} ms", *(f"{errors[name]:.1%}" for name in devices))
    table.add_section()
    cells = (f"{error:.1%} ({one.ahead:g}, {1e3 * one.seconds:g} ms)" for one, error in devices.values())
    table.add_row("left out", "", *cells)
    return table


if __name__ == "__main__":
    sys.exit(main())

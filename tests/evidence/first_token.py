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

from sweeps.measure.validate.relative_errors import grouped
from sweeps.measure.validate.serving.deployment_labels import INFERENCEX
from sweeps.measure.validate.serving.predict import engine_efficiencies, extent, lane_groups, simulated_points, units
from sweeps.measure.validate.serving.serving_points import ServingPoint, points
from sweeps.measure.validate.serving.step_tables import Tables, op_times, summed
from sweeps.measure.validate.serving.suspects import checked
from sweeps.run.precision import precision
from tests.evidence.inferencex_points import published

SAMPLE = "e2e/silicon_sample.csv"

FIELDS = {
    "vllm": ("mixture_time", (0.0, 0.005, 0.01, 0.02, 0.033)),
    "trtllm": ("client_time", (0.0, 0.01, 0.015, 0.02, 0.03)),
    "sglang": ("client_time", (0.015, 0.02, 0.025, 0.03, 0.045)),
}
"""Engine -> its constant of `Preset` and the values to try, s. vLLM's is that of its only mixture there, gpt-oss."""

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
    """Errors of the points of one engine under all values of the grid; in float64."""
    efficiencies = engine_efficiencies()
    made, places = units([row.point for row in found], efficiencies)
    size = extent([row.point for row in found])
    known = [summed(unit, times, size) for unit, times in zip(made, op_times(made, size), strict=True)]
    field, values = FIELDS[engine]
    scores = {}
    for one in itertools.starmap(Try, itertools.product(AHEAD, values)):
        changed = [_changed(row.point, field, one) for row in found]
        scores[one] = _errors(found, changed, [known[place] for place in places])
    return scores


def _changed(point: ServingPoint, field: str, values: Try) -> ServingPoint:
    """The point with the values; an engine that launches no step ahead of the device launches none."""
    asynchronous = point.preset.hidden_host or point.preset.ahead_steps > 0.0
    ahead = values.ahead if asynchronous else 0.0
    preset = dataclasses.replace(point.preset, ahead_steps=ahead, **{field: values.seconds})
    return dataclasses.replace(point, preset=preset)


def _errors(found: Sequence[Row], changed: Sequence[ServingPoint], known: Sequence[Tables]) -> dict[str, float]:
    efficiencies = engine_efficiencies()
    errors: dict[int, float] = {}
    for _, members in lane_groups(changed):
        lanes = [changed[i] for i in members], [known[i] for i in members]
        for i, one in zip(members, simulated_points(*lanes, efficiencies), strict=True):
            seconds = one.median_ttft if found[i].median else one.ttft
            errors[i] = abs(seconds / found[i].seconds - 1.0)
    devices = grouped(errors, lambda i: found[i].point.gpu)
    return {device: float(np.median([errors[i] for i in members])) for device, members in devices.items()}


def main(words: list[str] | None = None) -> int:
    """Try, and print; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.evidence.first_token", description=__doc__)
    parser.add_argument("--data", required=True, type=Path, metavar="DIR", help="folder with serving2/ and e2e/")
    parser.add_argument("--engine", action="append", choices=FIELDS, help="this engine (default: all)")
    options = parser.parse_args(words)
    console = Console(width=120)
    try:
        with precision("float64"):
            for engine in options.engine or FIELDS:
                found = rows(options.data, engine)
                console.print(_table(engine, len(found), tried(found, engine)))
    except (ValueError, OSError) as error:
        print(f"first_token: {error}", file=sys.stderr)
        return 2
    return 0


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

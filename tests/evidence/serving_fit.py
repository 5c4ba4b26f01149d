"""Fit of what serving adds to lone kernels: `python -m tests.evidence.serving_fit --data FILE`."""

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.optimize import least_squares

import hwspaces
from hwspaces.performance.kernel_tables import written_unit
from jaxroof.efficiency import Efficiency, constant_declaration
from jaxroof.prices.tables import Limits
from sweeps.ask.axes import leaf, replaced
from sweeps.measure.validate.serving.launches import ENGINES
from sweeps.measure.validate.serving.serving_points import ServingPoint, points
from sweeps.measure.validate.serving.suspects import checked
from tests.evidence.harness import data, fitting, flag
from tests.evidence.steady_loop import Steady, steady, tpot
from tests.evidence.step_tables import Alike, Unit, alike_ops, extent, of_most, summed, timed, units

SPREAD = 0.07
"""Standard deviation of the log ratio that a point would have under the right constants."""

FOLDS = 5

STEP = 0.02
"""Of the logarithm of a constant, for its derivative."""


@dataclasses.dataclass(frozen=True)
class Constant:
    """One positive number that moves: a constant of the efficiency, or a factor on several."""

    name: str
    paths: tuple[str, ...]
    prior: float  # median
    spread: float  # standard deviation of its logarithm
    high: float  # of what stands at the paths
    fact: str  # where the prior is from


GEMMS = ("linear.wide.step_bandwidth", "linear.narrow.step_bandwidth", "linear.scaled.step_bandwidth")
WEAK = "weak prior, of the order of what engines report"
STEP_TIME = Constant("host.step_time", ("host.step_time",), 0.3e-3, 0.7, 5e-3, WEAK)
SEQUENCE_TIME = Constant("host.sequence_time", ("host.sequence_time",), 8e-6, 0.7, 1e-4, WEAK)
SMALL = "a few small kernels of 2 to 4 us around each"


def _launch(path: str, prior: float) -> Constant:
    return Constant(path, (path,), prior, 1.0, 3e-4, SMALL)


BANDWIDTH = Constant("GEMM bandwidth", GEMMS, 0.79, 0.08, 0.868, "weights stream in graphs without gaps")
CONSTANTS = {
    "vllm": (
        Constant("collective.share", ("collective.share",), 0.8, 0.2, 1.0, "ranks of a busy engine are out of step"),
    ),
    "trtllm": (
        STEP_TIME,
        BANDWIDTH,
        _launch("decode_attention.latent.around_time", 1e-5),
    ),
    "sglang": (
        SEQUENCE_TIME,
        BANDWIDTH,
        Constant(
            "recurrent attention",
            ("decode_attention.states.around_time", "decode_attention.gated.around_time"),
            2e-5,
            1.0,
            3e-4,
            SMALL,
        ),
    ),
}
"""Engine -> what is fitted. vLLM's host times are fitted to steps and requests: `tests.evidence.learned_fit`."""

EARLY = Constant("host.early_launch", ("host.early_launch",), 0.3, 0.7, 0.95, "kernels start before the last has ended")
BLACKWELL = {"vllm": (EARLY,), "trtllm": (EARLY,), "sglang": (EARLY,)}
"""Engine -> what is fitted to points of data-centre Blackwell alone."""


@dataclasses.dataclass(frozen=True)
class Task:
    """Points of one engine, with everything that no constant changes."""

    points: tuple[ServingPoint, ...]
    loads: tuple[Steady, ...]
    units: tuple[Unit, ...]
    places: tuple[int, ...]  # unit of every point
    groups: tuple[Alike, ...]
    size: Limits

    @property
    def measured(self) -> np.ndarray:
        """s, shape [points]."""
        return np.asarray([point.tpot for point in self.points])


def task(found: Sequence[ServingPoint], efficiency: Efficiency) -> Task:
    """The points of one engine, ready to be predicted under any constants of `efficiency`'s structure."""
    made, places = units(found, dict.fromkeys(ENGINES, efficiency))
    size = extent(found)
    loads = tuple(steady(point) for point in found)
    return Task(tuple(found), loads, tuple(made), tuple(places), tuple(alike_ops(made, size)), size)


def predicted(task: Task, efficiency: Efficiency) -> np.ndarray:
    """Time per output token in s by the closed form, shape [points]."""
    made = [dataclasses.replace(unit, efficiency=efficiency) for unit in task.units]
    times = timed(made, task.groups, task.size)
    known = [summed(unit, each, task.size) for unit, each in zip(made, times, strict=True)]
    return np.asarray([tpot(load, known[place]) for load, place in zip(task.loads, task.places, strict=True)])


def with_values(efficiency: Efficiency, constants: Sequence[Constant], values: Sequence[float]) -> Efficiency:
    """`efficiency` with the constants at the given values; what an efficiency does not have is left out."""
    for constant, value in zip(constants, values, strict=True):
        for path in constant.paths:
            try:
                leaf(efficiency, path)
            except ValueError:
                continue
            efficiency = replaced(efficiency, path, float(min(value, constant.high)))
    return efficiency


def with_own(efficiency: Efficiency, constants: Sequence[Constant]) -> Efficiency:
    """`efficiency` with the constants of cores with a tensor memory at their priors, also where it has none."""
    for path, prior in ((path, one.prior) for one in constants for path in one.paths):
        parent, _, name = path.rpartition(".")
        if parent.endswith(".tensor_memory"):
            name, value = "tensor_memory", {**(leaf(efficiency, parent) or {}), name: prior}
            parent = parent.rpartition(".")[0]
            path, prior = f"{parent}.{name}", value
        efficiency = replaced(efficiency, path, prior)
    return efficiency


@dataclasses.dataclass(frozen=True)
class Fit:
    """Result of one fit."""

    efficiency: Efficiency
    values: tuple[float, ...]
    logs: np.ndarray  # of predicted over measured, shape [points]
    slopes: np.ndarray  # of these in standard deviations of the priors, shape [points, constants]
    place: np.ndarray  # of the fit in standard deviations from the priors


def nearest(task: Task, start: Efficiency, constants: Sequence[Constant]) -> Fit:
    """The constants under which the closed form is nearest to the measured times, with their priors."""
    prior = np.log([constant.prior for constant in constants])
    spread = np.asarray([constant.spread for constant in constants])

    def logs(place: np.ndarray) -> np.ndarray:
        values = np.exp(prior + spread * place)
        return np.log(predicted(task, with_values(start, constants, values)) / task.measured)

    def residuals(place: np.ndarray) -> np.ndarray:
        return np.concatenate([logs(place) / SPREAD, place])

    def slopes(place: np.ndarray) -> np.ndarray:
        here = residuals(place)
        moves = np.diag(STEP / spread)
        return np.stack([(residuals(place + move) - here) / move.sum() for move in moves], axis=1)

    found = least_squares(residuals, np.zeros(len(constants)), jac=slopes, loss="soft_l1", xtol=1e-2, ftol=1e-3)
    values = np.exp(prior + spread * found.x)
    count = len(task.points)
    return Fit(
        efficiency=with_values(start, constants, values),
        values=tuple(float(value) for value in values),
        logs=logs(found.x),
        slopes=slopes(found.x)[:count] * SPREAD,
        place=found.x,
    )


def held_out(found: Fit, labels: Sequence[object]) -> np.ndarray:
    """Log ratios of every point under constants that were fitted without its label's points, shape [points].

    To first order in the constants around the fit to all points.
    """
    out = np.array(found.logs)
    for label in set(labels):
        kept = np.asarray([other != label for other in labels])
        if not kept.any():
            continue

        def residuals(move: np.ndarray, kept: np.ndarray = kept) -> np.ndarray:
            return np.concatenate([(found.logs + found.slopes @ move)[kept] / SPREAD, found.place + move])

        moved = least_squares(residuals, np.zeros(len(found.place)), loss="soft_l1").x
        out[~kept] = (found.logs + found.slopes @ moved)[~kept]
    return out


def folds(found: Sequence[ServingPoint]) -> list[int]:
    """Fold of every point: those of one architecture, GPU, engine and tp share it, as R1 and V3 of DeepSeek do."""
    keys = [(point.model_name.partition("-")[0], point.gpu, point.engine, point.deployment.tp) for point in found]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return [numbers[key] % FOLDS for key in keys]


def with_constant(text: str, path: str, value: float, source: str) -> str:
    """The text of an efficiency file with one constant and its source replaced, or added where there was none.

    Args:
      text: a file that `efficiency_text` wrote.
      path: of the constant, by dots; its table must be there.
      value: times in s.

    Raises:
      ValueError: one line, where the table is missing.
    """
    table = table_of(text, path)
    if table is None:
        raise ValueError(f"{path}: the file has no table {path.rpartition('.')[0]}")
    start, field = text.find(f"\n[{table}]\n") + 1, path.removeprefix(f"{table}.")
    end = text.find("\n[", start)
    block = text[start : len(text) if end < 0 else end + 1].rstrip("\n").split("\n")
    rest = "" if end < 0 else text[end + 1 :]
    suffix, scale = written_unit(constant_declaration(path))
    key = field + suffix
    cited = f"sources.{field.partition('.')[0]}"
    lines = {key: f"{key} = {value * scale:.4g}", cited: f"{cited} = {json.dumps(source)}"}
    for name, line in lines.items():
        places = [place for place, old in enumerate(block) if old.startswith(f"{name} = ")]
        if places:
            block[places[0]] = line
        else:
            block.append(line)
    return text[:start] + "\n".join(block) + ("\n\n" + rest if rest else "\n")


def table_of(text: str, path: str) -> str | None:
    """The longest part of `path` that is a table of the file: constants of a class of cores stand in their kernel's."""
    while path := path.rpartition(".")[0]:
        if f"\n[{path}]\n" in text:
            return path
    return None


@fitting(
    data("CSV file of measured serving points", "FILE"),
    flag("--engine", required=True, choices=ENGINES, help="whose constants"),
    flag("--gpu", action="append", default=[], metavar="NAME", help="whose rows (default: all)"),
)
def main(options: argparse.Namespace, console: Console) -> str:
    """Fit and print."""
    file, engine, gpus = options.data, options.engine, options.gpu
    wanted = [hwspaces.hardware(gpu).name for gpu in gpus]
    found, _ = points(file)
    rows = [one for one in found if one.engine == engine and (not wanted or one.gpu in wanted)]
    if not rows:
        raise ValueError(f"{file}: no row of {engine} on {' or '.join(gpus) or 'any GPU'} can be simulated")
    rows = [one for one in checked(rows) if one.suspect is None]
    entry = hwspaces.efficiency(f"learned-{engine}")
    constants, start = CONSTANTS[engine], of_most(rows)
    if all(one.hardware.cores.tensor_memory for one in rows):
        constants = BLACKWELL[engine]
        start = with_own(start, constants)
    result = nearest(task(rows, start), start, constants)
    table = Table("constant", "prior", "fitted", "from the prior", title=f"{engine}, {len(rows)} points")
    for constant, value, place in zip(constants, result.values, result.place, strict=True):
        table.add_row(constant.name, f"{constant.prior:.3g}", f"{value:.3g}", f"{place:+.1f} sd")
    console.print(table)
    names = {
        "in sample": None,
        f"{FOLDS} folds by deployment": folds(rows),
        "model left out": [point.model_name for point in rows],
        "GPU left out": [point.gpu for point in rows],
    }
    for name, labels in names.items():
        error = np.abs(np.expm1(result.logs if labels is None else held_out(result, labels)))
        console.print(f"TPOT, closed form, {name}: median {np.median(error):.1%}, MAPE {np.mean(error):.1%}")
    place = f" on {', '.join(sorted({one.gpu for one in rows}))}"
    source = f"fitted to {len(rows)} public points of {engine} under load{place}: tests.evidence.serving_fit"
    text = (Path(hwspaces.__file__).parents[1] / entry.file).read_text(encoding="utf-8")
    for constant in constants:
        for path in constant.paths:
            if table_of(text, path) is not None:
                text = with_constant(text, path, leaf(result.efficiency, path), source)
    return text


if __name__ == "__main__":
    sys.exit(main())

"""Gradient of every metric in every number against central differences, on all devices and spaces. A command.

`python -m tests.evidence.every_slope` prints the tables of docs/evidence/gradients.md.
"""

import argparse
import collections
import dataclasses
import itertools
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

import hwspaces
from hwspaces.accelerators.space import space_names
from jaxroof.jobs import JOBS, Scenario
from jaxroof.numerics.arrays import eager
from jaxroof.numerics.smooth import BENDS, straightened
from sweeps.answers.shared import is_certainty
from sweeps.ask.cases import case
from sweeps.run.points import in_dtype
from sweeps.studies.sensitivity.gradient import metric_names
from sweeps.studies.sensitivity.knobs import Knob, knobs
from sweeps.studies.sensitivity.point import elasticities
from sweeps.studies.sensitivity.turns import metrics_at
from tests.evidence.harness import command, flag

STEP = 1e-5
"""Of the logarithm: central differences of float64 have errors of about 1e-10."""

WIDE = math.log(1.1)
"""Of the logarithm, of the change that a gradient stands for where it is smoothed."""

TOLERANCE, FLOOR = 1e-2, 1e-4
"""Relative and absolute difference of elasticities up to which gradient and differences agree."""

PARTS = ("hardware", "deployment", "workload", "model", "efficiency")

REQUEST = {"batch": 8, "isl": 1000, "osl": 200}
CASES = {
    "decode step": ("step", {"decode": 32, "context": 1000}),
    "prefill step": ("step", {"prefill": 2000, "prefills": 2}),
    "request": ("request", REQUEST),
}
"""What is asked of every device, with Llama-3.1-8B on one of them."""

OTHERS = (
    ("request", "H100-SXM", "Llama-3.1-70B", {"batch": 32, "isl": 1024, "osl": 256}, {"tp": 8}),
    ("request", "MI300X", "Llama-3.1-70B", {"batch": 32, "isl": 1024, "osl": 256}, {"tp": 4, "pp": 2}),
    ("request", "B200-SXM", "Qwen3-30B-A3B", {"batch": 64, "isl": 700, "osl": 100}, {"attention_dp": 2, "ep": 2}),
    ("request", "H200-SXM", "DeepSeek-V3", {"batch": 64, "isl": 2048, "osl": 256}, {"attention_dp": 8, "ep": 8}),
    ("train", "H100-SXM", "Llama-2-13B", {"global_batch": 128, "micro_batch": 2, "seq": 2048}, {"tp": 2, "dp": 4}),
)
"""Layouts over several devices, experts and training: job, hardware, model, workload, deployment."""

SMOOTHED = {("rounding",): "whole numbers", ("choice",): "choice", ("limit",): "limit"}
KINDS = ("whole numbers", "choice", "limit", "several", "edge", "tie", "step", "wrong")
"""Why a gradient is not the central difference. whole numbers, choice, limit: it has the slope of the ratio that is
rounded, or its weights blur between alternatives or limits. several: two of them. edge: the slopes to both sides differ
at this very number. tie: the metric is smooth here, and one of its straightened forms has such an edge, of which the
gradient is a part. step: both slopes are 0, and the metric changes within a tenth. wrong: none of these."""

WEIGHTS = (None, "fp16", "fp32")
"""Precisions of the weights that are tried: the checkpoint's bf16 first."""

MODEL = "Llama-3.1-8B"


@dataclasses.dataclass(frozen=True)
class Slope:
    """Elasticity of one metric in one number: the gradient, and differences of the metric to both sides."""

    place: str
    metric: str
    path: str
    gradient: float
    down: float
    up: float
    wide: float  # mean slope from a tenth less to a tenth more
    kind: str  # "": they agree; else of `KINDS`

    @property
    def central(self) -> float:
        """The mean of both sides."""
        return 0.5 * (self.down + self.up)


def slopes(place: str, job: str, scenario: Scenario, turned: Sequence[Knob] | None = None) -> list[Slope]:
    """A row for every metric and number of a scenario on which either of the two depends.

    Where the gradient is not the central difference, the model is asked again with whole numbers, choices and limits
    straightened, as gradients take them: the fewest kinds with which they agree explain it. "edge": the slopes to both
    sides differ, and the gradient is between them; else it is wrong.
    """
    if turned is None:
        turned = knobs(scenario, [part for part in PARTS if getattr(scenario, part, None) is not None])
    scenario = in_dtype(scenario, np.dtype(float))
    names = metric_names(JOBS[job], scenario)
    with eager():
        values, gradients = elasticities(JOBS[job], names, scenario, turned)
    names = tuple(name for name in names if values[name] > 0.0)
    plain = _differences(job, names, scenario, turned, values, STEP)
    wide = _differences(job, names, scenario, turned, values, WIDE)
    held: dict[tuple[str, ...], dict[str, np.ndarray]] = {}

    def straight(bends: tuple[str, ...]) -> dict[str, np.ndarray]:
        """Differences of the model with some bends straightened, computed once."""
        if bends not in held:
            with straightened(*bends):
                held[bends] = _differences(job, names, scenario, turned, values, STEP)
        return held[bends]

    found = []
    for name in names:
        for i, knob in enumerate(turned):
            gradient, sides = float(gradients[name][i]), plain[name][i]
            mean = float(np.mean(wide[name][i]))
            if max(abs(gradient), *np.abs(sides)) >= FLOOR:
                kind = _kind(gradient, sides, lambda bends, name=name, i=i: straight(bends)[name][i])
            elif abs(mean) > FLOOR:
                kind = "step"
            else:
                continue
            found.append(Slope(place, name, knob.path, gradient, float(sides[0]), float(sides[1]), mean, kind))
    return found


def _kind(gradient: float, sides: np.ndarray, straight: Callable[[tuple[str, ...]], np.ndarray]) -> str:
    """What a gradient is, of `KINDS`; "" where it is the mean of the slopes to both sides."""
    if _agree(gradient, float(np.mean(sides))):
        return ""
    singles = [(bend,) for bend in BENDS]
    for bends in singles:
        if _smooth(straight(bends)) and _agree(gradient, float(np.mean(straight(bends)))):
            return SMOOTHED[bends]
    # On a smooth place of the metric, a part of the slope of one side of what one kind straightens.
    if _smooth(sides) and any(_between(gradient, straight(bends)) for bends in singles):
        return "tie"
    for size in range(2, len(BENDS) + 1):
        for bends in itertools.combinations(BENDS, size):
            if _smooth(straight(bends)) and _agree(gradient, float(np.mean(straight(bends)))):
                return "several"
    if not _smooth(sides):
        return "edge"
    # A whole number hides the edge that its ratio has at this number, such as a degree of 1.
    hidden = [straight(bends) for bends in singles if not _smooth(straight(bends))]
    return "tie" if any(min(one) - FLOOR <= gradient <= max(one) + FLOOR for one in hidden) else "wrong"


def _smooth(sides: np.ndarray) -> bool:
    return _agree(float(sides[0]), float(sides[1]))


def _between(gradient: float, sides: np.ndarray) -> bool:
    """Whether slopes to both sides differ, and the gradient lies between them and is neither."""
    low, high = float(np.min(sides)), float(np.max(sides))
    inside = low < gradient < high
    return inside and not (_smooth(sides) or _agree(gradient, low) or _agree(gradient, high))


def _differences(
    job: str,
    names: tuple[str, ...],
    scenario: Scenario,
    turned: Sequence[Knob],
    values: Mapping[str, float],
    step: float,
) -> dict[str, np.ndarray]:
    """Elasticities to both sides, shapes (turned, 2)."""
    around = np.array([[knob.value * math.exp(-step), knob.value * math.exp(step)] for knob in turned])
    moved = metrics_at(JOBS[job], names, scenario, turned, around)
    signs = np.array([-step, step])
    with np.errstate(divide="ignore", invalid="ignore"):
        return {name: np.log(moved[name] / values[name]) / signs for name in names}


def _agree(one: float, other: float) -> bool:
    return abs(one - other) <= max(FLOOR, TOLERANCE * max(abs(one), abs(other)))


def scenarios(devices: Sequence[str]) -> Iterator[tuple[str, str, str, Scenario]]:
    """What is asked: group, name of the place, job, scenario; without devices that the model does not run on."""
    for group, names in (("devices", devices), ("spaces", space_names())):
        for name in names:
            for label, (job, work) in CASES.items():
                for weights in WEIGHTS:
                    try:
                        asked = case(job, name, MODEL, workload=work, weights=weights)
                    except ValueError:
                        continue
                    yield f"{group}, {label}", name, job, asked.scenario
                    break
    for job, hardware, model, work, deployment in OTHERS:
        asked = case(job, hardware, model, workload=work, deployment=deployment)
        yield "several devices", f"{model} on {hardware}", job, asked.scenario


def counted(found: Mapping[str, Sequence[Slope]]) -> None:
    """Print how many pairs of a metric and a number agree, by group."""
    print(f"| | pairs | agree | {' | '.join(KINDS)} |\n|{'---|' * (len(KINDS) + 3)}")
    for group, rows in found.items():
        kinds = collections.Counter(row.kind for row in rows)
        cells = [f"{kinds[kind]:,}" for kind in KINDS]
        print(f"| {group} | {len(rows):,} | {kinds['']:,} | {' | '.join(cells)} |")


def sized(rows: Sequence[Slope]) -> None:
    """Print by kind how far gradients are from the slope here, and from the mean slope over a tenth either way."""
    print("| kind | pairs | from the slope here | from the slope over a tenth | within 0.02 or 20 % of the latter |")
    print("|---|---|---|---|---|")
    for kind in KINDS:
        of_kind = [row for row in rows if row.kind == kind and math.isfinite(row.wide)]
        if not of_kind:
            continue
        gradients, wide = (np.array([getattr(row, name) for row in of_kind]) for name in ("gradient", "wide"))
        here, there = np.abs([row.central for row in of_kind] - gradients), np.abs(wide - gradients)
        close = np.mean(there <= np.maximum(0.02, 0.2 * np.maximum(np.abs(gradients), np.abs(wide))))
        ends = (f"{np.nanmedian(one):.3f}, {np.nanpercentile(one, 90):.3g}" for one in (here, there))
        print(f"| {kind} | {len(of_kind):,} | {' | '.join(ends)} | {close:.0%} |")


def listed(rows: Sequence[Slope], most: int) -> None:
    """Print the numbers with most pairs of each kind, and the pair that is furthest from the slope over a tenth."""
    print("| kind | number | pairs | furthest | gradient | slopes here | over a tenth |\n|---|---|---|---|---|---|---|")
    for kind in KINDS:
        by_path: dict[str, list[Slope]] = collections.defaultdict(list)
        for row in rows:
            if row.kind == kind and math.isfinite(row.wide):
                by_path[row.path].append(row)
        for path, held in sorted(by_path.items(), key=lambda pair: -len(pair[1]))[:most]:
            worst = max(held, key=lambda row: abs(row.gradient - row.wide))
            sides = f"{worst.down:.3g}, {worst.up:.3g}"
            cells = f"{worst.metric}: {worst.place} | {worst.gradient:.3f} | {sides} | {worst.wide:.3f}"
            print(f"| {kind} | `{path}` | {len(held):,} | {cells} |")


@command(
    flag("--devices", nargs="*", help="accelerators of the catalogue; all of them"),
    flag("--most", type=int, default=6, help="numbers that are listed of each kind (default 6)"),
)
def main(options: argparse.Namespace) -> int:
    """Print the tables; 1 where a gradient is wrong."""
    found: dict[str, list[Slope]] = {}
    for group, place, job, scenario in scenarios(options.devices or hwspaces.names()):
        found.setdefault(group, []).extend(slopes(place, job, scenario))
    rows = [row for held in found.values() for row in held if not is_certainty(row.metric)]
    counted(found)
    print("\nElasticities, without spreads and extrapolations of metrics: median, nine of ten below\n")
    sized(rows)
    print()
    listed(rows, options.most)
    return int(any(row.kind == "wrong" for row in rows))


if __name__ == "__main__":
    sys.exit(main())

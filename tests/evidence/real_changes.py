"""Gradients against real changes of latency, knob by knob, and over many requests. A command and its parts.

`python -m tests.evidence.real_changes` prints the tables of docs/evidence/gradients.md, `--survey` counts over many.
"""

import argparse
import collections
import itertools
import sys
from collections.abc import Iterator, Sequence

import numpy as np

from jaxroof.jobs import Scenario
from sweeps.ask.cases import case
from sweeps.data.labels import number
from sweeps.studies.sensitivity.point import sensitivity_at
from sweeps.studies.sensitivity.turns import Turn, ranked, reasoned, turns_of
from tests.evidence.harness import command, flag

DEVICES = ("H100-SXM", "MI300X", "TPU-v6e")
METRICS = ("ttft", "tpot")

SURVEYED = (*DEVICES, "A100-SXM-80GB", "B200-SXM")
MODELS = (("Llama-3.1-70B", 8), ("Llama-3.1-8B", 1), ("Qwen3-30B-A3B", 2))
BATCHES, PROMPTS = (1, 8, 32, 48), (512, 2000)
"""Requests of the survey: every model with its tp, on every device."""


def scenario(device: str, model: str, tp: int, batch: int, isl: int, efficiency: str | None) -> Scenario:
    """A static batch of requests, of 256 output tokens each."""
    work = {"batch": batch, "isl": isl, "osl": 256}
    return case("request", device, model, workload=work, deployment={"tp": tp}, efficiency=efficiency).scenario


def turned(place: Scenario, exponent: float | None, reasons: bool = True) -> dict[str, tuple[Turn, ...]]:
    """All knobs' turns."""
    point = sensitivity_at("request", place, METRICS, None, exponent)
    found = turns_of(place, point)
    return reasoned(place, point, found) if reasons else found


def rows(found: dict[str, tuple[Turn, ...]], name: str) -> Iterator[Turn]:
    """Turns with an effect on a metric, the largest first."""
    by_knob = {row.knob: row for row in found[name]}
    yield from (by_knob[knob] for knob in ranked(found, [name]))


def printed(device: str, found: dict[str, tuple[Turn, ...]]) -> None:
    """Print a table of one device in Markdown, both metrics."""
    for name in METRICS:
        kept = list(rows(found, name))
        agree = sum(row.agrees for row in kept)
        print(
            f"\n{device}, {name}: {agree} of {len(kept)} knobs agree, {len(found[name]) - len(kept)} have no effect\n"
        )
        print("| knob | down: real | gradient | up: real | gradient | |\n|---|---|---|---|---|---|")
        for row in kept:
            cells = [_percent(x) for pair in zip(row.actual, row.predicted, strict=True) for x in pair]
            ends = ", ".join("-" if np.isnan(value) else number(value) for value in row.values)
            words = f"`{row.knob.path}`{f' {number(row.knob.value)} ({ends})' if row.knob.count else ''}"
            print(f"| {words} | {' | '.join(cells)} | {row.reason} |")


def _percent(change: float) -> str:
    return "-" if np.isnan(change) else f"{100 * change + 0.0:+.2f}"


def survey(exponents: Sequence[float | None], efficiency: str | None) -> None:
    """Print by exponent how many knobs agree over many requests, and the reasons of the others."""
    for exponent in exponents:
        counts, reasons = collections.Counter(), collections.Counter()
        for device, (model, tp), batch, isl in itertools.product(SURVEYED, MODELS, BATCHES, PROMPTS):
            found = turned(scenario(device, model, tp, batch, isl, efficiency), exponent)
            for name in METRICS:
                for row in rows(found, name):
                    counts[name] += 1
                    counts[name, "agree"] += row.agrees
                    if not row.agrees:
                        reasons[row.reason] += 1
        said = ", ".join(f"{name} {counts[name, 'agree']} of {counts[name]}" for name in METRICS)
        print(f"exponent {exponent or 'as usual'}: {said}; others: {dict(reasons.most_common())}", flush=True)


@command(
    flag("--model", default="Llama-3.1-70B"),
    flag("--tp", type=int, default=8),
    flag("--batch", type=int, default=32),
    flag("--isl", type=int, default=1024),
    flag("--efficiency", help="default: learned"),
    flag("--smoothing", type=float, nargs="*", default=[None], help="exponents"),
    flag("--survey", action="store_true", help="counts over 120 requests"),
)
def main(options: argparse.Namespace) -> int:
    """Print the tables, or the counts of the survey."""
    if options.survey:
        return survey(options.smoothing, options.efficiency)
    for device in DEVICES:
        place = scenario(device, options.model, options.tp, options.batch, options.isl, options.efficiency)
        printed(device, turned(place, options.smoothing[0]))
    return None


if __name__ == "__main__":
    sys.exit(main())

"""Whether gradients are finite and add up as units demand, over millions of random points: a command, and its parts."""

import argparse
import dataclasses
import sys
import time

import jax
import numpy as np

from sweeps.api import precision
from sweeps.cases import case
from sweeps.elasticity.dimensions import BASES, leaf_powers, metric_powers
from sweeps.elasticity.gradient import QUICK, elasticities, metric_names
from sweeps.elasticity.knobs import SWITCHES
from sweeps.jobs import JOBS, Job, Scenario
from sweeps.paths import leaf, leaf_paths, replaced

CASES = {
    "dense": ("request", "H100-SXM", "Llama-3.1-70B", {"tp": 8}),
    "latent experts": ("request", "H200-SXM", "DeepSeek-V3", {"attention_dp": 8, "ep": 8}),
    "pipeline": ("request", "A100-SXM-80GB", "Qwen3-30B-A3B", {"tp": 2, "pp": 2}),
}
"""Structures whose every number is drawn anew at every point."""

METRICS = {
    "request": ("e2e", "usd_per_million_tokens", "joules_per_token"),
    "step": ("step_time", "usd_per_million_tokens", "joules_per_token"),
}
"""Metrics that are checked, of those that there are; e2e is of a prompt's step and of decode steps."""

LOW, HIGH = 0.25, 4.0
"""Every number is its own times a log-uniform factor between these; degrees are drawn from powers of two."""

CHUNK = 4096

TOLERANCE = 1e-5
"""Of sums of elasticities: float64, some of 16th powers."""


@dataclasses.dataclass
class Report:
    """What was found over many points."""

    points: int = 0
    leaves: int = 0
    not_finite: set[str] = dataclasses.field(default_factory=set)  # metrics, and "metric: path" of gradients
    worst: dict[tuple[str, str], float] = dataclasses.field(
        default_factory=dict
    )  # (metric, base unit) -> largest error


def checked(job: Job, scenario: Scenario, name: str, points: int, seed: int = 0, chunk: int = CHUNK) -> Report:
    """Values and gradients of a metric in every number of `scenario` at random points, by reverse mode.

    For every base unit, the sum over all numbers of (its power in the number's unit) x elasticity must be its power in
    the metric's unit: Euler's theorem, for a cost that does not depend on which second or dollar is the unit. In the
    precision that JAX is in.

    Args:
      name: of a metric that is positive everywhere.
      points: rounded up to whole chunks.
    """
    paths = [path for path in leaf_paths(scenario) if not getattr(leaf(scenario, path), "ndim", 0)]
    exponents = {base: np.array([leaf_powers(path).get(base, 0) for path in paths]) for base in BASES}
    report, random = Report(leaves=len(paths)), np.random.default_rng(seed)

    def gradient(scenario: Scenario):
        values, slopes, _ = elasticities(job, scenario, paths, (name,))
        return values[name], slopes[name]

    compiled = jax.jit(jax.vmap(gradient), compiler_options=QUICK)
    while report.points < points:
        values, slopes = jax.device_get(compiled(drawn(scenario, chunk, random)))
        report.points += chunk
        table = np.array([slopes[path] for path in paths])
        if not np.isfinite(values).all():
            report.not_finite.add("value")
        report.not_finite |= {path for path, row in zip(paths, table, strict=True) if not np.isfinite(row).all()}
        for base in BASES:
            error = np.abs(exponents[base] @ table - metric_powers(name).get(base, 0)).max()
            report.worst[base] = max(report.worst.get(base, 0.0), float(np.nan_to_num(error, nan=np.inf)))
    return report


def drawn(scenario: Scenario, points: int, random: np.random.Generator) -> Scenario:
    """Random scenarios of the structure of `scenario`, leaves of shape (points,)."""
    for path in list(leaf_paths(scenario)):
        value = leaf(scenario, path)
        if getattr(value, "ndim", 0):
            continue
        name = path.rpartition(".")[2]
        if name in SWITCHES:
            column = np.full(points, float(value))
        elif path.startswith("deployment.") and name in ("tp", "pp", "cp", "ep", "dp", "attention_dp"):
            column = random.choice(np.array([1.0, 2.0, 4.0, 8.0]), points)
        else:
            column = float(value) * np.exp(random.uniform(np.log(LOW), np.log(HIGH), points))
        if path == "workload.cached":
            column = leaf(scenario, "workload.isl") * random.uniform(0.0, 0.95, points)
        if path == "workload.osl":
            column = np.maximum(column, 1.0)
        if name in ("share", "memory_utilization") or (path.startswith("efficiency.") and 0.0 < float(value) <= 1.0):
            column = np.minimum(column, 1.0) if not name.endswith("_time") else column
        scenario = replaced(scenario, path, column.astype(np.float64 if jax.config.jax_enable_x64 else np.float32))
    return scenario


def main(words: list[str] | None = None) -> int:
    """Check every structure and print what was found; 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=1_000_000, help="of every structure (default a million)")
    parser.add_argument("--structure", choices=tuple(CASES), help="only this one")
    parser.add_argument("--efficiency", default="derated", help="whose constants start the draw (default derated)")
    options, wrong = parser.parse_args(words), 0
    for name, (job, hardware, model, deployment) in CASES.items():
        if options.structure in (None, name):
            wrong += _shown(name, job, hardware, model, deployment, options)
    return min(wrong, 1)


def _shown(name: str, job: str, hardware: str, model: str, deployment: dict, options: argparse.Namespace) -> int:
    work = {"batch": 64, "isl": 2048, "osl": 256, "cached": 512}
    place = case(job, hardware, model, workload=work, deployment=deployment, efficiency=options.efficiency)
    wrong = 0
    with precision("float64"):
        known = metric_names(JOBS[job], place.scenario)
        for metric in METRICS[job]:
            if metric not in known:
                continue
            begun = time.perf_counter()
            found = checked(JOBS[job], place.scenario, metric, options.points)
            seconds = time.perf_counter() - begun
            sums = ", ".join(f"{base} {error:.1e}" for base, error in found.worst.items())
            bad = len(found.not_finite) + sum(error >= TOLERANCE for error in found.worst.values())
            print(
                f"{name}, {metric} of {model} on {hardware}: {found.points:,} points, {found.leaves} numbers, "
                f"{seconds:.0f} s; powers add up within {sums}{'; WRONG' if bad else ''}",
                flush=True,
            )
            for what in sorted(found.not_finite):
                print(f"  not finite: {what}")
            wrong += bad
    return wrong


if __name__ == "__main__":
    sys.exit(main())

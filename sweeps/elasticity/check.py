"""Whether gradients are finite and add up as units demand, over millions of random points: a command, and its parts."""

import argparse
import dataclasses
import sys
import time
from collections.abc import Sequence

import jax
import numpy as np

from sweeps.api import precision
from sweeps.cases import case
from sweeps.elasticity.dimensions import BASES, leaf_powers, metric_powers
from sweeps.elasticity.gradient import QUICK, elasticities
from sweeps.elasticity.knobs import SWITCHES
from sweeps.jobs import JOBS, Job, Scenario
from sweeps.paths import leaf, leaf_paths

CASES = {
    "dense": ("request", "H100-SXM", "Llama-3.1-70B", {"tp": 8}),
    "latent experts": ("request", "H200-SXM", "DeepSeek-V3", {"attention_dp": 8, "ep": 8}),
    "pipeline": ("request", "A100-SXM-80GB", "Qwen3-30B-A3B", {"tp": 2, "pp": 2}),
}
"""Structures whose every number is drawn anew at every point."""

METRICS = {
    "request": ("ttft", "tpot", "usd_per_million_tokens", "joules_per_token", "tokens_per_joule_at_tdp"),
    "step": ("step_time", "usd_per_million_tokens", "joules_per_token"),
}
"""Metrics that are checked, of those that there are."""

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


def checked(
    job: Job, scenario: Scenario, names: Sequence[str], points: int, seed: int = 0, chunk: int = CHUNK
) -> Report:
    """Values and gradients of metrics in every number of `scenario` at random points, by reverse mode.

    For every base unit, the sum over all numbers of (its power in the number's unit) x elasticity must be its power in
    the metric's unit: Euler's theorem, for a cost that does not depend on which second or dollar is the unit. In the
    precision that JAX is in.

    Args:
      names: of metrics, all positive.
      points: rounded up to whole chunks.
    """
    paths = [path for path in leaf_paths(scenario) if not getattr(leaf(scenario, path), "ndim", 0)]
    exponents = {base: np.array([leaf_powers(path).get(base, 0) for path in paths]) for base in BASES}
    report, random = Report(leaves=len(paths)), np.random.default_rng(seed)

    def gradient(scenario: Scenario):
        values, slopes, _ = elasticities(job, scenario, paths, names)
        return values, slopes

    compiled = jax.jit(jax.vmap(gradient), compiler_options=QUICK)
    while report.points < points:
        values, slopes = jax.device_get(compiled(drawn(scenario, chunk, random)))
        report.points += chunk
        for name in names:
            table = np.array([slopes[name][path] for path in paths])
            if not np.isfinite(values[name]).all():
                report.not_finite.add(name)
            for path, row in zip(paths, table, strict=True):
                if not np.isfinite(row).all():
                    report.not_finite.add(f"{name}: {path}")
            for base in BASES:
                error = np.abs(exponents[base] @ table - metric_powers(name).get(base, 0)).max()
                report.worst[name, base] = max(report.worst.get((name, base), 0.0), float(error))
    return report


def drawn(scenario: Scenario, points: int, random: np.random.Generator) -> Scenario:
    """Random scenarios of the structure of `scenario`, leaves of shape (points,)."""
    from sweeps.paths import replaced

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
    with precision("float64"):
        from sweeps.elasticity.gradient import metric_names

        known = metric_names(JOBS[job], place.scenario)
        begun = time.perf_counter()
        found = checked(JOBS[job], place.scenario, [m for m in METRICS[job] if m in known], options.points)
    print(
        f"{name}: {model} on {hardware}, {found.points:,} points, {found.leaves} numbers, "
        f"{time.perf_counter() - begun:.0f} s"
    )
    for (metric, base), error in found.worst.items():
        print(f"  {metric}: powers of {base} add up within {error:.1e}{'' if error < TOLERANCE else '  WRONG'}")
    for what in sorted(found.not_finite):
        print(f"  not finite: {what}")
    return len(found.not_finite) + sum(error >= TOLERANCE for error in found.worst.values())


if __name__ == "__main__":
    sys.exit(main())

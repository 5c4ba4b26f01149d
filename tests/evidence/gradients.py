"""Check of gradients at millions of random points: finite, and sums that units demand. A command and its parts."""

import argparse
import dataclasses
import sys
import time
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jaxroof.jobs import JOBS, Job, Scenario
from jaxroof.numerics.xla_options import QUICK
from sweeps.ask.axes import leaf, leaf_paths, replaced
from sweeps.ask.cases import case
from sweeps.run.precision import precision
from sweeps.studies.sensitivity.gradient import Factors, at_factors, metric_names
from sweeps.studies.sensitivity.knobs import continuous
from tests.evidence.harness import command, flag
from tests.evidence.unit_powers import BASES, follows_units, leaf_powers, metric_powers

REQUEST = {"batch": 64, "isl": 2048, "osl": 256, "cached": 512}
STEP = {"prefill": 700, "prefills": 3, "past": 130, "decode": 70, "context": 900}
TRAIN = {"global_batch": 128, "micro_batch": 2, "seq": 2048, "schedule": "interleaved", "virtual_stages": 2, "zero": 1}

CASES = {
    "dense": ("request", "H100-SXM", "Llama-3.1-70B", REQUEST, {"tp": 8}),
    "latent experts": ("request", "H200-SXM", "DeepSeek-V3", REQUEST, {"attention_dp": 8, "ep": 8}),
    "pipeline": ("request", "A100-SXM-80GB", "Qwen3-30B-A3B", REQUEST, {"tp": 2, "pp": 2}),
    "training": ("train", "H100-SXM", "Llama-2-13B", TRAIN | {"tokens": 1e12}, {"tp": 2, "pp": 4, "cp": 2, "dp": 2}),
    "mixed step": ("step", "H200-SXM", "DeepSeek-V2-Lite", STEP, {"attention_dp": 2, "ep": 2}),
}
"""Structures whose every number is drawn anew at every point. Their catalogue entries know energy, area and money."""

LOW, HIGH = 0.25, 4.0
"""Every number is its own times a log-uniform factor between these; degrees are drawn from powers of two."""

CHUNK = 4096

TOLERANCE = {"float64": 1e-5, "float32": 1e-2}
"""Of sums of elasticities, some of 16th powers."""


@dataclasses.dataclass
class Report:
    """Result of the check over many points."""

    metrics: tuple[str, ...] = ()
    points: int = 0
    leaves: int = 0
    throttled: int = 0  # points where the limit of electrical power stretches a step
    not_finite: set[str] = dataclasses.field(default_factory=set)  # metrics, and paths of gradients
    worst: dict[str, float] = dataclasses.field(default_factory=dict)  # base unit -> largest error


def log_sum(
    job: Job, scenario: Scenario, factors: Factors, names: Sequence[str], weights: jax.Array
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Sum of weight x ln y over metrics, shape (), and the metrics: one number for one reverse sweep.

    A metric that is not positive, which has no logarithm, adds 0.

    Args:
      names: of the metrics, real-valued ones.
      weights: shape (metrics,).
    """
    real = at_factors(job, scenario, factors, names)
    values = jnp.stack([real[name] for name in names])
    positive = values > 0.0
    return jnp.sum(jnp.where(positive, weights * jnp.log(jnp.where(positive, values, 1.0)), 0.0)), real


def checked(job: Job, scenario: Scenario, points: int, seed: int = 0, chunk: int = CHUNK) -> Report:
    """Values of all real-valued metrics and their gradients in every number of `scenario` at random points.

    One reverse sweep of sum_i w_i ln y_i over the metrics y, with weights of either sign drawn anew at every point, so
    that no two metrics' errors cancel everywhere. For every base unit, the sum over all numbers of (its power in the
    number's unit) x elasticity must be sum_i w_i x (its power in the unit of y_i): Euler's theorem, for a cost that
    does not depend on which second, joule, dollar or metre is the unit. In the precision that JAX is in.

    Args:
      points: rounded up to whole chunks.
    """
    names = tuple(name for name in metric_names(job, scenario) if follows_units(name))
    paths = [path for path in leaf_paths(scenario) if not getattr(leaf(scenario, path), "ndim", 0)]
    leaf_exponents = np.array([[leaf_powers(path).get(base, 0) for path in paths] for base in BASES])
    exponents = np.array([[metric_powers(name).get(base, 0) for name in names] for base in BASES])
    report, random = Report(metrics=names, leaves=len(paths)), np.random.default_rng(seed)

    def gradient(scenario: Scenario, weights: jax.Array):
        ones = {path: jax.numpy.ones_like(leaf(scenario, path)) for path in paths}
        return jax.grad(lambda factors: log_sum(job, scenario, factors, names, weights), has_aux=True)(ones)

    compiled = jax.jit(jax.vmap(gradient), compiler_options=QUICK)
    while report.points < points:
        place = drawn(scenario, chunk, random)
        weights = random.uniform(-1.0, 1.0, (chunk, len(names))).astype(place.hardware.memory.hbm.bandwidth.dtype)
        slopes, values = jax.device_get(compiled(place, weights))
        values, table = np.stack([values[name] for name in names]), np.stack([slopes[path] for path in paths])
        report.points += chunk
        report.not_finite |= {names[i] for i in np.flatnonzero(~np.isfinite(values).all(axis=1))}
        report.not_finite |= {paths[i] for i in np.flatnonzero(~np.isfinite(table).all(axis=1))}
        slower = [values[i] for i, name in enumerate(names) if name.endswith("slowdown")]
        report.throttled += int(np.any([column > 1.0 for column in slower], axis=0).sum()) if slower else 0
        errors = leaf_exponents @ table - exponents @ (weights.T * (values > 0.0))
        for base, error in zip(BASES, np.abs(np.nan_to_num(errors, nan=np.inf)).max(axis=1), strict=True):
            report.worst[base] = max(report.worst.get(base, 0.0), float(error))
    return report


def drawn(scenario: Scenario, points: int, random: np.random.Generator) -> Scenario:
    """Random scenarios of the structure of `scenario`, leaves of shape (points,)."""
    for path in list(leaf_paths(scenario)):
        value = leaf(scenario, path)
        if getattr(value, "ndim", 0):
            continue
        name = path.rpartition(".")[2]
        if not continuous(path):
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


@command(
    flag("--points", type=int, default=1_000_000, help="of every structure (default a million)"),
    flag("--structure", choices=tuple(CASES), help="only this one"),
    flag("--efficiency", default="derated", help="whose constants start the draw (default derated)"),
    flag("--dtype", choices=tuple(TOLERANCE), default="float64", help="precision (default float64)"),
    flag("--seed", type=int, default=0, help="of the draw (default 0)"),
)
def main(options: argparse.Namespace) -> int:
    """Check every structure and print the result; 1 where something is wrong."""
    wrong = 0
    for name in CASES:
        if options.structure in (None, name):
            wrong += _shown(name, options)
    return min(wrong, 1)


def _shown(name: str, options: argparse.Namespace) -> int:
    job, hardware, model, work, deployment = CASES[name]
    place = case(job, hardware, model, workload=work, deployment=deployment, efficiency=options.efficiency)
    begun = time.perf_counter()
    with precision(options.dtype):
        found = checked(JOBS[job], place.scenario, options.points, options.seed)
    seconds = time.perf_counter() - begun
    sums = ", ".join(f"{base} {error:.1e}" for base, error in found.worst.items())
    bad = len(found.not_finite) + sum(not error < TOLERANCE[options.dtype] for error in found.worst.values())
    print(
        f"{name}, a {job} of {model} on {hardware}: {found.points:,} points, {len(found.metrics)} metrics by "
        f"{found.leaves} numbers, {found.throttled / found.points:.0%} throttled, {seconds:.0f} s; "
        f"powers add up within {sums}{'; WRONG' if bad else ''}",
        flush=True,
    )
    for what in sorted(found.not_finite):
        print(f"  not finite: {what}")
    return bad


if __name__ == "__main__":
    sys.exit(main())

"""Refit of the default efficiency: `python -m tests.evidence.derated_fit --data DIR`."""

import argparse
import dataclasses
import datetime
import sys
from collections.abc import Mapping

import numpy as np
from rich.console import Console
from rich.table import Table

from hwspaces.performance.efficiency_file import efficiency_text
from hwspaces.quantities.units import formatted
from jaxroof.efficiency import Efficiency, constant_declaration
from sweeps.ask.axes import leaf, leaf_paths, replaced
from sweeps.measure.validate.relative_errors import Errors, errors
from tests.evidence import saturated, silicon, step_cycles
from tests.evidence.derated_kernels import kernel_fit
from tests.evidence.harness import data, fitting
from tests.evidence.hulls import hull_of_devices
from tests.evidence.observation import Observation
from tests.evidence.parameters import EXPERTS, FIXED, SHARED, Parameter, starting_point, with_values
from tests.evidence.step_fit import VLLM, group_errors, leave_one_model_out, serving_fit

CONCURRENCY = 32.0
"""Largest concurrency of published serving points that are fitted: above it queueing and cache limits decide."""

DEVICES = ("H100-SXM", "H200-SXM")
"""Accelerators of the rows that are fitted."""

REFIT = "python -m tests.evidence.derated_fit --data DIR"

KERNEL_FACT = "vLLM 0.24's kernels alone on H100 and H200 (aiconfigurator tables)"

NOTES = (
    "Rows of synchronous requests (set sync_guidellm) were not fitted and decided nothing here: "
    "`jaxroof validate requests --data FILE` scores them.",
    "Host times are those of vLLM 0.15.1. Older vLLM and TensorRT-LLM rows were fitted with host times of their own, "
    "which are not part of this file.",
    "Constants of experts are of kernels alone: no mixture of experts was fitted end to end.",
    "Kernel times and shares are of Hopper GPUs; other GPUs are an extrapolation.",
)


@fitting(data("folder with e2e/ and kernels/"), width=140)
def main(options: argparse.Namespace, console: Console) -> str:
    """Fit and print."""
    folder, start = options.data, starting_point()
    alone, kernel_errors = kernel_fit(folder / "kernels", start)
    console.print(_error_table("Kernels alone", kernel_errors))
    priors = tuple(p.moved(alone[p.path], KERNEL_FACT) if p.path in alone else p for p in SHARED)
    start = with_values(start, {p.path: alone[p.path] for p in EXPERTS})

    loaded = saturated.loaded(folder / "e2e" / "tam_ground_truth.csv")
    observations = silicon.observations(folder / "e2e" / "silicon_sample.csv", CONCURRENCY, ("vllm", "trtllm"))
    observations += [row.observation for row in loaded]
    observations += step_cycles.observations(folder / "e2e" / "blis_step_cycles.csv")
    found = serving_fit(observations, start, priors)
    held_out = leave_one_model_out(observations, start, priors)
    efficiency = replaced(found.efficiency, "host.request_time", saturated.request_time(loaded))

    hulls = hull_of_devices(efficiency, DEVICES, ("bf16", "fp8"))
    kinds = {kind: dataclasses.replace(getattr(efficiency, kind), hull=hull) for kind, hull in hulls.items()}
    efficiency = dataclasses.replace(efficiency, **kinds)

    sources = _sources(priors, kernel_errors, held_out, len(observations))
    in_sample = group_errors(observations, found.predicted)
    console.print(_error_table("Steps and time per output token, in sample", in_sample))
    console.print(_error_table("The same, model left out", {model: row[1:] for model, row in held_out.items()}))
    console.print(_constant_table(efficiency, sources))
    console.print("beside them: " + ", ".join(f"{path} {value:.3g}" for path, value in found.nuisances.items()))
    heading = {
        "engine": "vLLM",
        "version": "0.15.1",
        "date": datetime.date.today().isoformat(),
        "refit": REFIT,
        "errors": _summary(observations, found.predicted, held_out),
        "devices": DEVICES,
    }
    return efficiency_text(
        efficiency, sources, heading, NOTES, "Shares of the datasheet and fixed times that engines on Hopper reach."
    )


def _sources(
    priors: tuple[Parameter, ...],
    kernel_errors: Mapping[str, tuple[int, Errors]],
    held_out: Mapping[str, tuple[Efficiency, int, Errors]],
    n: int,
) -> dict[str, str]:
    """The source of every constant, by path."""
    sources = {path: why for path, (_, why) in FIXED.items()}
    for p in priors:
        values = [leaf(efficiency, p.path) for efficiency, _, _ in held_out.values()]
        low, high = shown(p.path, min(values)), shown(p.path, max(values))
        between = f"{low} to {high}" if low != high else f"{low}" + " (its bound)" * (high == shown(p.path, p.high))
        sources[p.path] = (
            f"fitted to {n} public rows of dense models (steps and saturated serving of BLIS inference-sim, silicon "
            f"sample of aiconfigurator); {between} with one model left out; prior {shown(p.path, p.prior)}: {p.fact}"
        )
    rows = {"matrix": "experts, bf16", "bandwidth": "experts, bf16", "kernel_time": "experts, bf16"}
    for p in EXPERTS:
        family = rows.get(p.path.partition(".")[2], "experts, fp8 blocks")
        count, error = kernel_errors[family]
        sources[p.path] = (
            f"fitted to {count} public rows of vLLM 0.24's fused expert kernels on H100 and H200 ({family}; "
            f"aiconfigurator tables), median error {error.median:.0%}"
        )
    sources["host.request_time"] = (
        "ours: median over 6 public saturated vLLM 0.15.1 rows with cached prompts of TTFT - "
        f"{saturated.STEPS_TO_FIRST_TOKEN:g} steps (half of the running one, one already scheduled, the request's own)"
    )
    return sources


def _summary(observations: list[Observation], predicted: np.ndarray, held_out: Mapping) -> str:
    own = [i for i, o in enumerate(observations) if o.engine in VLLM]
    groups = group_errors([observations[i] for i in own], predicted[own])
    mean = np.mean([error.mape for _, error in groups.values()])
    whole = errors(predicted[own], np.asarray([observations[i].seconds for i in own]))
    out = "; ".join(f"{model} {error.mape:.1%}" for model, (_, _, error) in held_out.items())
    return (
        f"{len(own)} vLLM rows in {len(groups)} groups: MAPE {whole.mape:.1%} over rows, {mean:.1%} over groups; "
        f"MAPE with the model left out: {out}"
    )


def shown(path: str, value: float) -> str:
    """A constant as people read it: its share, or its time with its unit."""
    of_a_host = f"host.{path.rpartition('.')[2]}"  # another engine's
    declared = constant_declaration(path) or constant_declaration(of_a_host)
    return formatted(value, declared.unit if declared else "1")


def _error_table(title: str, rows: Mapping[str, tuple[int, Errors]]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for name in ("rows", "MAPE", "median APE", "signed median"):
        table.add_column(name, justify="right")
    for name, (n, error) in rows.items():
        table.add_row(name, str(n), f"{error.mape:.1%}", f"{error.median:.1%}", f"{error.signed:+.1%}")
    return table


def _constant_table(efficiency: Efficiency, sources: Mapping[str, str]) -> Table:
    table = Table("constant", "value", "source", title="Constants", title_justify="left")
    for path in leaf_paths(efficiency):
        table.add_row(path, shown(path, leaf(efficiency, path)), sources[path])
    return table


if __name__ == "__main__":
    sys.exit(main())

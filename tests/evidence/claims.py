"""Six claims about what a cost model needs, each with a figure: `python -m tests.evidence.claims --data DIR`."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import hwspaces
import workloads
from jaxroof import batch
from jaxroof.batch import Batch
from jaxroof.deployment import Deployment
from jaxroof.efficiency import Efficiency, datasheet
from jaxroof.hardware import Hardware
from jaxroof.model import Model
from jaxroof.step.forward import step_ops
from jaxroof.step.step import matrix_floors, memory_floors, step_time
from sweeps.measure.kernel_data.gemm import FILE as GEMM_FILE
from sweeps.measure.kernel_data.group import table
from sweeps.measure.surface_import import imported
from sweeps.measure.surface_import.kernel_rows import WantedRows
from sweeps.measure.validate.single_requests import request_errors
from tests.evidence.harness import command, data
from tests.evidence.parameters import with_values
from tests.evidence.surface_jumps import boundary_jumps

FUSED = ((4096.0, 4096.0, 1024.0), (5120.0, 5120.0, 1024.0), (8192.0, 8192.0, 1024.0), (3584.0, 3584.0, 512.0))
"""Inputs, query outputs and key outputs of attention layers whose products the tables have."""

MODEL, DEVICE = "Llama-3.1-8B", "H100"
"""What the claims about the model's structure are computed for: one device, 16 bits."""


@command(data("folder with e2e/ and kernels/"))
def main(options: argparse.Namespace) -> None:
    """Print the table; returns the exit status."""
    shown = Table("claim", "with", "without", "figure", show_lines=True)
    for claim in CLAIMS:
        shown.add_row(*claim(options.data))
    Console(width=150).print(shown)


def achievable_bandwidth(folder: Path) -> tuple[str, str, str, str]:
    """Requests one at a time, with the bandwidth that kernels reach and with the datasheet's."""
    constants = hwspaces.efficiency("derated").efficiency
    peak = with_values(constants, {"linear.bandwidth": 1.0, "decode_attention.bandwidth": 1.0})
    return _request_claim(folder, "achievable, not theoretical bandwidth", constants, peak)


def host_time(folder: Path) -> tuple[str, str, str, str]:
    """The same without the time that an engine spends per step outside the kernels."""
    constants = hwspaces.efficiency("derated").efficiency
    none = with_values(constants, {"host.step_time": 0.0, "host.sequence_time": 0.0})
    return _request_claim(folder, "a fixed host time per step", constants, none)


def fused_projection(folder: Path) -> tuple[str, str, str, str]:
    """One product for queries, keys and values against three, in tables of measured products."""
    frame = table(folder / "kernels" / GEMM_FILE, ("gpu", "backend", "dtype", "m", "n", "k", "latency_us"))
    frame = frame[(frame.dtype == "bfloat16") & (frame.gpu == "h100_sxm") & (frame.backend == "vllm")]
    times = frame.groupby(["k", "n", "m"]).latency_us.median()
    ratios = []
    for inputs, queries, keys in FUSED:
        for m in sorted(frame.m.unique()):
            places = [(inputs, n, m) for n in (queries + 2 * keys, queries, keys)]
            if all(place in times.index for place in places):
                fused, query, key = (times.loc[place] for place in places)
                ratios.append((m, (query + 2 * key) / fused))
    small, large = ([ratio for m, ratio in ratios if (m <= 64) == few] for few in (True, False))
    return (
        "fused, not split lookups of Q, K, V",
        "one product",
        "three products",
        f"three take {np.median(small):.2f} times as long at up to 64 rows, {np.median(large):.2f} times above "
        f"({len(ratios)} measured sizes, H100, vLLM)",
    )


def per_component(folder: Path) -> tuple[str, str, str, str]:
    """A roofline per op against one of the step's totals, over batch sizes of a decode step with some prompts."""
    device, model = _subject()
    gaps = []
    for tokens in np.geomspace(16, 4096, 33):
        work = batch.mixed(batch.prefill(1.0, tokens), batch.decode(64.0, 2048.0))
        ops = step_ops(model, Deployment(), work)
        apart = float(step_time(device, model, Deployment(), work, datasheet()))
        matrix, memory = (sum(floors.values()) for floors in (matrix_floors(ops, device), memory_floors(ops, device)))
        gaps.append((apart / float(max(matrix, memory)) - 1.0, tokens, float(matrix / memory)))
    gap, tokens, ratio = max(gaps)
    return (
        "per-component, not aggregate roofline",
        "sum of maxima",
        "maximum of sums",
        f"{gap:.0%} apart at the crossover ({tokens:.0f} prompt tokens beside 64 decoding sequences, matrix over "
        f"memory time {ratio:.2f}), datasheet constants",
    )


def additive_batches(folder: Path) -> tuple[str, str, str, str]:
    """A mixed step against the times of its two parts alone, weighted by their tokens, at half and half."""
    device, model = _subject()
    constants = hwspaces.efficiency("derated").efficiency

    def time(work: Batch) -> float:
        return float(step_time(device, model, Deployment(), work, constants))

    gaps = {}
    for tokens in (64.0, 128.0, 256.0):
        prompt, decoding = batch.prefill(1.0, tokens), batch.decode(tokens, 2048.0)
        weighted = 0.5 * time(prompt) + 0.5 * time(decoding)
        gaps[tokens] = weighted / time(batch.mixed(prompt, decoding)) - 1.0
    words = ", ".join(f"{gap:+.0%} at {tokens:.0f} + {tokens:.0f} tokens" for tokens, gap in gaps.items())
    return "additive, not weighted mixed batches", "one step of both", "weighted mean of both", f"the mean is {words}"


def interpolation(folder: Path) -> tuple[str, str, str, str]:
    """Jumps between neighbouring shapes of a table of measured products."""
    found = imported([folder / "kernels" / GEMM_FILE], wanted=WantedRows(gpu="h100_sxm", engine="vllm"))
    products = next(own for own in found.tables if own.name == "linear_bf16")
    device = hwspaces.hardware(found.device).hardware
    jumps = boundary_jumps(products, hwspaces.efficiency("learned").efficiency, device)
    return (
        "interpolation, not nearest neighbour",
        f"{jumps.counts['linear']} jumps",
        f"{jumps.counts['nearest']} jumps",
        f"{jumps.fewer:.0%} fewer jumps of 5 % and more in {jumps.steps:,} steps of 1 % through measured products "
        f"(H100, vLLM); {jumps.measured} more between shapes measured within 3 %",
    )


CLAIMS: tuple[Callable[[Path], tuple[str, str, str, str]], ...] = (
    achievable_bandwidth,
    host_time,
    fused_projection,
    per_component,
    additive_batches,
    interpolation,
)


def _request_claim(folder: Path, claim: str, kept: Efficiency, dropped: Efficiency) -> tuple[str, str, str, str]:
    path = folder / "e2e" / "tam_ground_truth.csv"
    errors = [request_errors(path, constants).errors()["tpot"] for constants in (kept, dropped)]
    shares = [f"MAPE {error['mape']:.1%}" for error in errors]
    figure = f"TPOT of {errors[0]['rows']} measured requests; without it {errors[1]['signed_median']:+.1%}"
    return claim, *shares, figure


def _subject() -> tuple[Hardware, Model]:
    return hwspaces.hardware(DEVICE).hardware, workloads.model(MODEL).model


if __name__ == "__main__":
    sys.exit(main())

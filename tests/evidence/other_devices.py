"""Errors on accelerators that are not GPUs, under `learned`: `python -m tests.evidence.other_devices --data DIR`.

TPU and Gaudi behind vLLM are predicted by the closed form of `saturated_load`, static batches as one request each, and
single products and copies as kernels.
"""

import argparse
import dataclasses
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from rich.console import Console
from rich.table import Table

import hwspaces
import workloads
from jaxroof.deployment import Deployment
from jaxroof.efficiency import Efficiency
from jaxroof.efficiency.timing import NINETY_PERCENT
from jaxroof.hardware import Hardware
from jaxroof.jobs import Scenario
from jaxroof.jobs.composition import Requests
from jaxroof.layers.linear import elementwise, linear
from jaxroof.model import WeightFormat
from jaxroof.numerics.arrays import eager
from jaxroof.roofline import op_deviation, op_time
from sweeps.ask.cases import model_deployment
from sweeps.ask.engines import policy
from sweeps.measure.validate.measured_csv import CsvRow, LeftOut, by_reason, rows
from sweeps.measure.validate.relative_errors import errors, grouped
from sweeps.measure.validate.serving.launches import Layout
from sweeps.measure.validate.serving.precisions import labelled_model
from sweeps.run.answer import answer_of
from tests.evidence import gaudi_tables
from tests.evidence.engine_constants import started
from tests.evidence.harness import EFFICIENCY, EVERY_ROW, command, data, several
from tests.evidence.saturated_load import Rules, Saturated, throughput, uniform

DEVICES = {
    "v7": "TPU-v7x",
    "v6e": "TPU-v6e",
    "gaudi3": "Gaudi3",
    "gaudi2": "Gaudi2",
    "inferentia2": "Inferentia2",
    "trainium1": "Trainium1",
    "trainium2": "Trainium2",
}
"""Names of the files -> those of the catalogue."""

SIMILAR = {"Mistral-7B-Instruct-v0.2": "Mistral-7B-v0.3"}
"""Models of the structure of one in the catalogue."""

MODES = {"fp8": "fp8", "bf16": "bfloat16", "int8": "int8_wo"}
"""Precision of the files -> mode of `labelled_model`."""

VLLM = "vllm@0.11"
"""The release behind which TPU and Gaudi serve: its host works after the device."""

SHORTEST = 0.8
"""Shortest length over nominal of InferenceX's requests."""

BF16 = WeightFormat(bytes=2.0, compute="bf16")


@dataclasses.dataclass(frozen=True)
class Scored:
    """One measured value and its prediction, in the same unit."""

    case: str
    metric: str
    device: str  # of the catalogue
    label: str
    predicted: float
    measured: float
    spread: float = math.nan  # claimed standard deviation of the logarithm; NaN: none is claimed
    fitted: bool = False  # whether a constant of the prediction was fitted to it


Item = TypeVar("Item")

Left = list[LeftOut]
"""Rows without a prediction, which a source adds to."""


def _mode(precision: str) -> str:
    """The mode of a file's precision; ValueError for one that is not known."""
    if precision not in MODES:
        raise ValueError(f"precision = {precision!r} is not known; known: {', '.join(MODES)}")
    return MODES[precision]


def _each(found: Iterable[CsvRow], score: Callable[[CsvRow], Iterable[Item]], left: Left) -> Iterator[Item]:
    """What is scored of every row; rows that cannot be are added to `left` with the reason."""
    for row in found:
        try:
            yield from list(score(row))
        except ValueError as error:
            left.append(LeftOut(row.line, row.get("config_id", ""), str(error), row.file))


def tpu_served(folder: Path, efficiency: Efficiency, left: Left) -> Iterator[Scored]:
    """Output tokens/s of serving2/tpu_serving.csv, rows without a flag or with throughput alone."""
    columns = ("tpu", "model_path", "precision", "kv_dtype", "chips", "conc", "isl", "osl", "output_tokps", "flag")

    def score(row: CsvRow) -> Iterator[Scored]:
        low = SHORTEST if row.get("benchmark", "").startswith("InferenceX") else 1.0
        yield _served(row, row["tpu"], row.numbers(("chips",))["chips"], low, efficiency)

    found = rows(folder / "serving2" / "tpu_serving.csv", columns)
    yield from _each([row for row in found if row["flag"] in ("", "throughput_only")], score, left)


def gaudi_served(folder: Path, efficiency: Efficiency, left: Left) -> Iterator[Scored]:
    """Output tokens/s of serving2/gaudi3_serving.csv. Outputs end early: their mean counts."""
    columns = ("accelerator", "model_path", "precision", "tp", "conc", "isl", "mean_output_tokens", "output_tokps")

    def score(row: CsvRow) -> Iterator[Scored]:
        yield _served(row, row["accelerator"], row.numbers(("tp",))["tp"], 1.0, efficiency)

    found = rows(folder / "serving2" / "gaudi3_serving.csv", (*columns, "flag"))
    yield from _each([row for row in found if not row["flag"]], score, left)


def _served(row: CsvRow, device: str, n: float, low: float, efficiency: Efficiency) -> Scored:
    """A closed loop behind vLLM on `n` devices; experts are spread over all of them where the row says so."""
    values = row.numbers(("conc", "isl", "output_tokps"))
    osl = row.number("mean_output_tokens") or row.numbers(("osl",))["osl"]
    entry, accelerator = (
        labelled_model(row["model_path"], _mode(row["precision"]), ""),
        hwspaces.hardware(_named(device)),
    )
    rules, kv = policy(VLLM), row.get("kv_dtype") or None
    budget = row.number("max_num_batched_tokens") or float(rules.token_budget)
    spread = Layout(tp=n, pp=1.0, groups=1.0, ep=n if row.get("expert_parallel") == "True" else 1.0)
    load = Saturated(
        source="served",
        label=f"{entry.name} {values['isl']:g}/{osl:.0f}, {values['conc']:g} clients, {n:g} devices",
        engine="vllm",
        gpu=accelerator.name,
        hardware=accelerator.hardware,
        model=entry.model,
        deployment=dataclasses.replace(started(accelerator, entry, VLLM, spread, kv), max_batched_tokens=budget),
        lengths=uniform(low, values["isl"], osl, bool(rules.reserve)),
        rules=Rules(
            budget=budget,
            sequences=row.number("max_num_seqs") or float(rules.max_sequences),
            apart=False,
            hidden_host=float(rules.hidden_host),
        ),
        tokens_per_second=values["output_tokps"],
        clients=values["conc"],
        between=float(efficiency.host.request_time),
    )
    with eager():
        found = throughput(load, efficiency)
    # The closed form has no spread: that of a static batch of as many requests.
    requests = Requests(batch=values["conc"], isl=values["isl"], osl=osl)
    spread = _static(accelerator.name, entry, load.deployment, requests, efficiency)["e2e_spread"]
    return Scored("served by vLLM", "tokens/s", accelerator.name, load.label, found, load.tokens_per_second, spread)


def _named(device: str) -> str:
    if device not in DEVICES:
        raise ValueError(f"{device!r} is not a known device; known: {', '.join(DEVICES)}")
    return DEVICES[device]


def gaudi_published(folder: Path, efficiency: Efficiency, left: Left) -> Iterator[Scored]:
    """Output tokens/s of `gaudi_tables`."""
    for row in gaudi_tables.ROWS:
        entry = labelled_model(row.model, "fp8", "")
        deployment = dataclasses.replace(model_deployment(entry, "fp8"), tp=float(row.devices))
        requests = Requests(batch=float(row.batch), isl=float(row.isl), osl=float(row.osl))
        found = _static(row.device, entry, deployment, requests, efficiency)
        speed = row.batch * row.osl / found["e2e"]
        label = f"{entry.name} {row.isl}/{row.osl}, batch {row.batch}, {row.devices} devices"
        measured = row.tokens_per_second
        yield Scored("vendor's tables", "tokens/s", row.device, label, speed, measured, found["e2e_spread"])


def _static(
    device: str, entry: workloads.ModelEntry, deployment: Deployment, requests: Requests, efficiency: Efficiency
) -> dict[str, Any]:
    """Metrics of a static batch."""
    scenario = Scenario(
        hardware=hwspaces.hardware(device).hardware,
        model=entry.model,
        deployment=deployment,
        workload=requests,
        efficiency=efficiency,
    )
    return answer_of(scenario).metrics


@dataclasses.dataclass(frozen=True)
class StaticBatch:
    """One static batch on devices of AWS: what runs, and what was measured."""

    device: str
    entry: workloads.ModelEntry
    deployment: Deployment
    requests: Requests
    measured: dict[str, float]  # ttft and tpot in s; tokens/s where the table agrees with itself

    @property
    def label(self) -> str:
        """Model, lengths and batch."""
        asked = self.requests
        return f"{self.entry.name} {asked.isl:g}/{asked.osl:g}, batch {asked.batch:g}"


def static_batches(folder: Path, left: Left | None = None) -> Iterator[StaticBatch]:
    """Rows of serving2/neuron_decode.csv; medians."""
    columns = ("accelerator", "model", "chips", "batch", "isl", "osl", "weight_dtype", "flag", "output_tokps")

    def batch(row: CsvRow) -> Iterator[StaticBatch]:
        values = row.numbers(("chips", "batch", "isl", "osl", "p50_ttft_ms", "p50_tpot_ms", "output_tokps"))
        mode = _mode(row["weight_dtype"])
        entry = labelled_model(SIMILAR.get(row["model"], row["model"]), mode, mode)
        measured = {"ttft": 1e-3 * values["p50_ttft_ms"], "tpot": 1e-3 * values["p50_tpot_ms"]}
        yield StaticBatch(
            device=_named(row["accelerator"]),
            entry=entry,
            deployment=dataclasses.replace(model_deployment(entry, "bf16"), tp=values["chips"]),
            requests=Requests(batch=values["batch"], isl=values["isl"], osl=values["osl"]),
            measured=measured if row["flag"] else measured | {"tokens/s": values["output_tokps"]},
        )

    found = rows(folder / "serving2" / "neuron_decode.csv", (*columns, "p50_ttft_ms", "p50_tpot_ms"))
    yield from _each(found, batch, [] if left is None else left)


def neuron(folder: Path, efficiency: Efficiency, left: Left) -> Iterator[Scored]:
    """TTFT, TPOT and tokens/s of static batches; `neuron_fit` fits the links' fixed time to TPOT."""
    for one in static_batches(folder, left):
        found = _static(one.device, one.entry, one.deployment, one.requests, efficiency)
        spreads = {"ttft": found["ttft_spread"], "tpot": found["tpot_spread"], "tokens/s": found["e2e_spread"]}
        found["tokens/s"] = one.requests.batch * one.requests.osl / found["e2e"]
        for metric, measured in one.measured.items():
            fitted = metric != "ttft"
            yield Scored(
                "static batch", metric, one.device, one.label, found[metric], measured, spreads[metric], fitted
            )


def tpu_kernels(folder: Path, efficiency: Efficiency, left: Left) -> Iterator[Scored]:
    """Times of serving2/tpu_micro.csv, which the share of systolic arrays was fitted to."""

    def score(row: CsvRow) -> Iterator[Scored]:
        device = hwspaces.hardware(_named(row["tpu"]))
        hardware = _half(device.hardware) if "half" in row["unit"] else device.hardware
        if row["op"] == "gemm":
            m, k, n = row.numbers(("m", "k", "n")).values()
            op, label = linear(m, k, n, BF16, BF16.bytes, 1.0), f"{m:g} x {k:g} x {n:g}"
        else:
            moved = row.numbers(("bytes",))["bytes"]
            op, label = (
                elementwise(moved, reads=1.0, writes=1.0, element_bytes=1.0, flops=0.0, count=1.0),
                f"copy of {moved:g} B",
            )
        with eager():
            time, deviation = float(op_time(op, hardware, efficiency)), float(op_deviation(op, hardware, efficiency))
        measured, product = 1e-6 * row.numbers(("time_us",))["time_us"], row["op"] == "gemm"
        yield Scored("kernel", row["op"], device.name, label, time, measured, deviation / time or math.nan, product)

    columns = ("tpu", "unit", "op", "m", "k", "n", "bytes", "time_us")
    yield from _each(rows(folder / "serving2" / "tpu_micro.csv", columns), score, left)


def _half(hardware: Hardware) -> Hardware:
    """One of the two devices that JAX sees in a chip: half of its rates."""
    hbm = dataclasses.replace(hardware.memory.hbm, bandwidth=0.5 * hardware.memory.hbm.bandwidth)
    return dataclasses.replace(
        hardware,
        matrix={precision: 0.5 * rate for precision, rate in hardware.matrix.items()},
        cores=dataclasses.replace(hardware.cores, count=0.5 * hardware.cores.count),
        memory=dataclasses.replace(hardware.memory, hbm=hbm),
    )


SOURCES: dict[str, Callable[[Path, Efficiency, Left], Iterator[Scored]]] = {
    "tpu": tpu_served,
    "gaudi": gaudi_served,
    "gaudi_tables": gaudi_published,
    "neuron": neuron,
    "tpu_kernels": tpu_kernels,
}
"""Name on the command line -> its rows."""


@command(
    data("folder with serving2/"),
    several("--source", SOURCES, "whose rows (default: all)"),
    EFFICIENCY,
    EVERY_ROW,
)
def main(options: argparse.Namespace) -> None:
    """Score, print; returns the exit status."""
    efficiency = hwspaces.efficiency(options.efficiency).efficiency
    left: Left = []
    found = [one for name in options.source or SOURCES for one in SOURCES[name](options.data, efficiency, left)]
    console = Console(width=140)
    _print(console, found, options.rows)
    for reason, lines in by_reason(left):
        console.print(f"{len(lines)} left out: {reason}")


def _print(console: Console, found: list[Scored], every: bool) -> None:
    table = Table(title="Predicted over measured, errors in %, and rows inside the 90 % interval")
    for name in ("what ran", "device", "value", "rows", "median ratio", "median, MAPE, signed", "in 90 %"):
        table.add_column(name)
    for labels, group in grouped(found, lambda one: (one.case, one.device, one.metric)).items():
        predicted, measured, spread = (
            np.array([getattr(one, name) for one in group], float) for name in ("predicted", "measured", "spread")
        )
        each, inside = errors(predicted, measured), np.abs(np.log(predicted / measured)) <= NINETY_PERCENT * spread
        words = f"{100 * each.median:.1f}, {100 * each.mape:.1f}, {100 * each.signed:+.1f}"
        covered = f"{100 * np.mean(inside):.0f}" if np.isfinite(spread).all() else "-"
        table.add_row(*labels, str(len(group)), f"{np.median(predicted / measured):.2f}", words, covered)
    console.print(table)
    for one in found if every else ():
        console.print(
            f"{one.predicted / one.measured:6.3f}  {one.measured:9.4g}  {one.metric} {one.device} {one.label}"
        )


if __name__ == "__main__":
    sys.exit(main())

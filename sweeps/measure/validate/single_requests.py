"""Predicted TTFT, TPOT and E2E latency of requests that were served one at a time, against what was measured."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import hwspaces
import workloads
from jaxroof.deployment import Deployment
from jaxroof.efficiency import Efficiency
from jaxroof.hardware import Hardware
from jaxroof.jobs.composition import Requests
from jaxroof.jobs.request import request_cost
from jaxroof.memory.legality import broken_rule
from jaxroof.model import Model
from jaxroof.numerics.arrays import eager
from jaxroof.numerics.struct import given
from sweeps.ask.axes import replaced
from sweeps.ask.cases import model_deployment, require_precisions
from sweeps.measure.validate.measured_csv import POSITIVE, CsvRow, LeftOut, Limit, at_least, records, require_some, rows
from sweeps.measure.validate.relative_errors import error_summary

SYNCHRONOUS = "sync_guidellm"
"""The set whose rows are one request at a time. GuideLLM's TPOT column is E2E / output tokens: not used as TPOT."""

METRICS = {"ttft": "gt_ttft_ms", "tpot": "derived_itl_ms", "e2e": "gt_e2e_ms"}
"""Metric -> column that it was measured in. vLLM's TPOT, (E2E - TTFT) / (output tokens - 1), is the derived ITL."""

NUMBERS: dict[str, Limit] = {
    "tp": at_least(1.0),
    "concurrency": POSITIVE,
    "prompt_tokens": POSITIVE,
    "prefix_tokens": at_least(0.0),
    "implied_output_tokens": at_least(1.0),
} | dict.fromkeys(METRICS.values(), POSITIVE)
COLUMNS = ("set", "exp_id", "gpu", "model", "dtype", *NUMBERS)
"""Columns that a file must have."""

WEIGHTS = ("fp8", "int8", "w4a16", "nvfp4", "mxfp4")
"""Values of `dtype` that replace the precision of the checkpoint; any other text leaves the catalogue's."""


@dataclasses.dataclass(frozen=True)
class MeasuredRequest:
    """One measured row that can be predicted."""

    experiment: str
    model: str
    gpu: str
    hardware: Hardware
    architecture: Model
    deployment: Deployment
    requests: Requests
    measured: dict[str, float]  # metric -> s, only what was measured


@dataclasses.dataclass(frozen=True)
class ScoredRequest:
    """A row with its prediction."""

    served: MeasuredRequest
    predicted: dict[str, float]  # metric -> s

    def error(self, metric: str) -> float | None:
        """predicted / measured - 1, None where the metric was not measured."""
        measured = self.served.measured.get(metric)
        return None if measured is None else self.predicted[metric] / measured - 1.0


@dataclasses.dataclass(frozen=True)
class RequestErrors:
    """Every row of a file, scored or left out."""

    scored: tuple[ScoredRequest, ...]
    unpredicted: tuple[LeftOut, ...]

    def errors(self) -> dict[str, dict[str, float]]:
        """Per metric: rows, mape, median_ape and signed_median of predicted / measured - 1."""
        table = {}
        for metric in METRICS:
            # Not every row has every metric: each is scored on the rows that measured it.
            known = [row for row in self.scored if metric in row.served.measured]
            if known:
                table[metric] = error_summary(
                    [row.predicted[metric] for row in known], [row.served.measured[metric] for row in known]
                )
        return table


def request_errors(path: str | Path, efficiency: Efficiency) -> RequestErrors:
    """Predictions for every synchronous row of a CSV file, scored.

    Args:
      path: a file with `COLUMNS`; its other columns are ignored.
      efficiency: constants to predict with.

    Raises:
      ValueError: one line that names file, row, column and value: a missing or empty file, a missing column, text
        that is no number, a number that cannot be; or that no row of the file could be predicted, and why.
    """
    served, unpredicted = records(rows(path, COLUMNS), _served, "exp_id")
    require_some(path, served, unpredicted)
    return RequestErrors(scored=tuple(_scored(served, efficiency)), unpredicted=tuple(unpredicted))


def _require_single(row: CsvRow, values: Mapping[str, float | None]) -> None:
    """ValueError where the row says nothing about single requests."""
    # Rows of other sets count where a single client sent them.
    if row["set"] != SYNCHRONOUS and values["concurrency"] != 1.0:
        concurrency = row["concurrency"] or "unknown"
        raise ValueError(f"not one request at a time (set {row['set'] or 'unnamed'}, concurrency {concurrency})")
    for column in ("tp", "prompt_tokens", "implied_output_tokens"):
        if values[column] is None:
            raise ValueError(f"{column} is empty")
    if values["gt_ttft_ms"] is None and values["gt_e2e_ms"] is None:
        raise ValueError("neither gt_ttft_ms nor gt_e2e_ms was measured")


def _served(row: CsvRow) -> MeasuredRequest:
    values = {column: row.number(column, limit) for column, limit in NUMBERS.items()}
    _require_single(row, values)
    # Without a known quantisation the model has the precision of its checkpoint.
    weights = row["dtype"].lower() if row["dtype"].lower() in WEIGHTS else None
    device = hwspaces.hardware(row["gpu"])
    entry = workloads.model(row["model"], weights=weights)
    deployment = replaced(model_deployment(entry, None), "tp", values["tp"])
    # Rows that the device cannot run are left out with the reason: precisions without a peak, and layouts that break a
    # rule.
    require_precisions(device, entry, deployment)
    broken = broken_rule(device.hardware, entry.model, deployment)
    if broken:
        raise ValueError(f"{entry.name} on {device.name}: {broken}")
    # The file counts new and cached tokens of a prompt apart; the model's prompt has both.
    cached = values["prefix_tokens"] or 0.0
    return MeasuredRequest(
        experiment=row["exp_id"],
        model=entry.name,
        gpu=device.name,
        hardware=device.hardware,
        architecture=entry.model,
        deployment=deployment,
        requests=Requests(
            batch=1.0,
            isl=given(values["prompt_tokens"], "prompt_tokens") + cached,
            osl=values["implied_output_tokens"],
            cached=cached,
        ),
        measured={metric: 1e-3 * value for metric, column in METRICS.items() if (value := values[column]) is not None},
    )


def _scored(served: list[MeasuredRequest], efficiency: Efficiency) -> list[ScoredRequest]:
    scored = []
    with eager():
        for row in served:
            cost = request_cost(row.hardware, row.architecture, row.deployment, row.requests, efficiency)
            scored.append(ScoredRequest(row, {metric: float(getattr(cost, metric)) for metric in METRICS}))
    return scored

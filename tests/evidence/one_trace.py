"""One-trace calibration scored: overheads fitted to one measured row each, E2E latency predicted of all the others."""

import argparse
import dataclasses
import functools
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

import hwspaces
import workloads
from jaxroof.efficiency import Efficiency, Host
from jaxroof.jobs import Scenario
from jaxroof.jobs.request import request_cost
from jaxroof.jobs.serve import Service
from sweeps.ask.axes import replaced
from sweeps.ask.cases import model_deployment
from sweeps.ask.engines import policy
from sweeps.measure.validate.measured_csv import CsvRow, rows
from sweeps.measure.validate.single_requests import request_errors
from sweeps.run.precision import precision
from sweeps.serving.calibration.fit import FARTHEST, FITTED, PRIOR_SPREAD
from sweeps.serving.calibration.simulator import CONSTANTS, Linearized, Simulator, least
from tests.evidence.harness import command, data, flag
from tests.evidence.saturated import NEW_TOKENS
from tests.evidence.saturated import SET as SATURATED
from workloads.streams.stream import Stream, traffic
from workloads.streams.streams import generated

ROW_SPREAD = 0.02
"""Standard deviation of the log error of a row's means; ours."""

STAGE = 40.0
"""s that are simulated of each stage of load; the rows' own are of 600 s and more."""

SETTLING = 10.0
"""s after which a stage's requests count: before, there are fewer under way than later."""

PADDED = 1280
"""Requests that every stream is padded to, so that rows share a program."""

NUMBERS = ("tp", "prompt_tokens", "output_tokens_nominal", "max_num_seqs", "max_num_batched_tokens")
MEASURED = ("gt_ttft_ms", "derived_itl_ms", "gt_e2e_ms")
METRICS = ("ttft", "tpot", "e2e")


class Means(NamedTuple):
    """What is predicted of one row, s, and per logarithm of every overhead, by metric."""

    values: dict[str, float]
    slopes: dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True, eq=False)
class Trace:
    """One row."""

    name: str
    server: str  # model, GPU and tensor parallelism
    kind: str  # "synchronous" or "saturated"
    measured: dict[str, float]  # s
    predicted: Any  # logarithms of the overheads -> Means


@command(
    data("e2e/tam_ground_truth.csv", "FILE"),
    flag("--efficiency", metavar="NAME", help="constants to begin with (default: learned)"),
    flag("--json", action="store_true", help="one JSON object instead of tables"),
)
def main(options: argparse.Namespace) -> None:
    """Calibrate to every row, print the scores; returns the exit status."""
    with precision("float64"):
        constants = hwspaces.efficiency(options.efficiency)
        traces = synchronous(options.data, constants.efficiency) + saturated(options.data, constants.efficiency)
        found = scores(traces, constants.efficiency.host)
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        _print(found, constants.name)


def scores(traces: Sequence[Trace], host: Host) -> dict[str, Any]:
    """Relative E2E errors before, and after calibration to each row in turn; and the overheads that it finds, s."""
    prior = np.log([getattr(host, name) for name in CONSTANTS])
    before = {trace.name: trace.predicted(prior).values["e2e"] / trace.measured["e2e"] - 1.0 for trace in traces}
    table = []
    for one in traces:
        moved = calibrated(one, prior)
        after = {trace.name: trace.predicted(moved).values["e2e"] / trace.measured["e2e"] - 1.0 for trace in traces}
        others = [trace for trace in traces if trace is not one]
        groups = {
            "others": others,
            "same kind": [trace for trace in others if trace.kind == one.kind],
            "same server": [trace for trace in others if trace.server == one.server],
        }
        table.append(
            {
                "row": one.name,
                "server": one.server,
                "kind": one.kind,
                "before": before[one.name],
                "overheads_s": dict(zip(CONSTANTS, np.exp(moved).tolist(), strict=True)),
                "own": after[one.name],
                "errors": {trace.name: after[trace.name] for trace in others},
                "mape": {name: _mape([after[each.name] for each in group]) for name, group in groups.items()},
                "mape_before": {name: _mape([before[each.name] for each in group]) for name, group in groups.items()},
            }
        )
    return {"before": {name: _mape(errors) for name, errors in _by_kind(traces, before).items()}, "rows": table}


def calibrated(trace: Trace, prior: np.ndarray) -> np.ndarray:
    """Logarithms of the overheads in s that explain a row's mean TTFT and TPOT, shape [constants]."""

    def found(point: np.ndarray) -> Linearized:
        means = trace.predicted(point)
        off = [np.log(means.values[name] / trace.measured[name]) / ROW_SPREAD for name in FITTED]
        slopes = [means.slopes[name] / means.values[name] / ROW_SPREAD for name in FITTED]
        return Linearized(
            np.concatenate([off, (point - prior) / PRIOR_SPREAD]),
            np.concatenate([np.stack(slopes), np.eye(len(prior)) / PRIOR_SPREAD]),
        )

    return least(found, prior, prior - FARTHEST, prior + FARTHEST)


def synchronous(path: Path, efficiency: Efficiency) -> list[Trace]:
    """Rows of one request at a time.

    Raises:
      ValueError: as `sweeps.measure.validate.single_requests.validation`.
    """
    traces = []
    for row in request_errors(path, efficiency).scored:
        one = row.served
        if any(name not in one.measured for name in METRICS):
            continue
        parts = jax.tree.map(
            lambda leaf: jnp.asarray(leaf, dtype=float),
            (one.hardware, one.architecture, one.deployment, one.requests, efficiency),
        )
        traces.append(
            Trace(
                name=one.experiment,
                server=f"{one.model} {one.gpu} tp{one.deployment.tp:g}",
                kind="synchronous",
                measured=dict(one.measured),
                predicted=_remembered(functools.partial(_alone, parts)),
            )
        )
    return traces


def saturated(path: Path, efficiency: Efficiency) -> list[Trace]:
    """Rows of stages of load, in an open loop: as many requests are under way as the engine's speed leaves.

    Raises:
      ValueError: one line that names file, row, column and value.
    """
    traces = []
    for row in rows(path, ("set", "exp_id", "gpu", "model", "load_stages", *NUMBERS)):
        if row["set"] != SATURATED:
            continue
        values = row.numbers((*NUMBERS, *MEASURED))
        entry, device = workloads.model(row["model"]), hwspaces.hardware(row["gpu"])
        stream, counts = _stream(row, values)
        policies = {"token_budget": values["max_num_batched_tokens"], "max_sequences": values["max_num_seqs"]}
        serving = Scenario(
            hardware=device.hardware,
            model=entry.model,
            deployment=replaced(model_deployment(entry, None), "tp", values["tp"]),
            workload=Service(traffic=traffic(stream, pad=PADDED), policy=policy("vllm", **policies)),
            efficiency=efficiency,
        )
        times = dict(zip(METRICS, (values[column] * 1e-3 for column in MEASURED), strict=True))
        traces.append(
            Trace(
                name=row["exp_id"],
                server=f"{entry.name} {device.name} tp{values['tp']:g}",
                kind="saturated",
                measured=times,
                predicted=_remembered(functools.partial(_loaded, Simulator(serving), counts)),
            )
        )
    return traces


def _stream(row: CsvRow, values: dict[str, float]) -> tuple[Stream, np.ndarray]:
    """Requests of a row's stages, all of whose prompts but the last tokens are cached; and which of them count."""
    stages = [float(rate) for rate in re.findall(r"\(([\d.]+) rps", row["load_stages"])]
    if not stages:
        raise ValueError(f"{row.where}: load_stages = {row['load_stages']!r} must be like [(8 rps,600 s)]")
    isl, osl = round(values["prompt_tokens"]), round(values["output_tokens_nominal"])
    text = ",".join(f"{rate:g}x{STAGE:g}" for rate in stages)
    stream = generated(f"stages:{text}", isl, osl, seed=0)
    alike = {"group": np.zeros(len(stream), np.int32), "shared": np.full(len(stream), isl - NEW_TOKENS)}
    counts = stream.arrival % STAGE >= SETTLING
    return dataclasses.replace(stream, **alike), np.concatenate([counts, np.zeros(PADDED - len(stream), bool)])


def _alone(parts: tuple, logarithms: np.ndarray) -> Means:
    values, slopes = _request(parts, jnp.asarray(logarithms))
    return Means({name: float(value) for name, value in values.items()}, jax.tree.map(np.asarray, slopes))


@jax.jit
def _request(parts: tuple, logarithms: jax.Array) -> Any:
    def found(logs: jax.Array) -> Any:
        host = Host(**dict(zip(CONSTANTS, jnp.exp(logs), strict=True)))
        cost = request_cost(*parts[:-1], dataclasses.replace(parts[-1], host=host))
        values = {name: getattr(cost, name) for name in METRICS}
        return values, values

    slopes, values = jax.jacfwd(found, has_aux=True)(logarithms)
    return values, slopes


def _loaded(simulator: Simulator, counts: np.ndarray, logarithms: np.ndarray) -> Means:
    found = simulator.latencies(logarithms)
    return Means(
        {name: float(found.values[name][counts].mean()) for name in METRICS},
        {name: found.slopes[name][counts].mean(axis=0) for name in METRICS},
    )


def _remembered(predicted: Any) -> Any:
    """`predicted`, which the solver asks several times for one point, computed once."""
    known: dict[bytes, Means] = {}

    def found(point: np.ndarray) -> Means:
        key = np.asarray(point, float).tobytes()
        if key not in known:
            known[key] = predicted(point)
        return known[key]

    return found


def _by_kind(traces: Sequence[Trace], errors: dict[str, float]) -> dict[str, list[float]]:
    kinds = {kind: [errors[one.name] for one in traces if one.kind == kind] for kind in ("synchronous", "saturated")}
    return {**kinds, "all": list(errors.values())}


def _mape(errors: Sequence[float]) -> float | None:
    return float(np.mean(np.abs(errors))) if errors else None


def _print(found: dict[str, Any], name: str) -> None:
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    words = ", ".join(f"{kind} {error:.1%}" for kind, error in found["before"].items() if error is not None)
    console.print(f"E2E MAPE of {name}, without calibration: {words}")
    table = Table(title="Calibrated to one row: E2E MAPE of the others, before > after", title_justify="left")
    for column in ("row", "its E2E", "step", "sequence", "request", "all others", "same kind", "same server"):
        table.add_column(column, justify="left" if column == "row" else "right")
    for row in found["rows"]:
        host = row["overheads_s"]
        cells = [f"{row['before']:+.1%} > {row['own']:+.1%}", f"{host['step_time'] * 1e6:.0f} us"]
        cells += [f"{host['sequence_time'] * 1e6:.1f} us", f"{host['request_time'] * 1e3:.1f} ms"]
        for group in ("others", "same kind", "same server"):
            before, after = row["mape_before"][group], row["mape"][group]
            cells.append("-" if after is None else f"{before:.1%} > {after:.1%}")
        table.add_row(f"{row['kind'][:4]} {row['row']}", *cells)
    console.print(table)
    before, after = (np.mean(np.abs([row[key] for row in found["rows"]])) for key in ("before", "own"))
    console.print(f"mean over {len(found['rows'])} calibrations, the row itself: {before:.1%} > {after:.1%}")
    for group in ("others", "same kind", "same server"):
        known = [row for row in found["rows"] if row["mape"][group] is not None]
        if known:
            before, after = (np.mean([row[key][group] for row in known]) for key in ("mape_before", "mape"))
            console.print(f"mean over {len(known)} calibrations, {group}: {before:.1%} > {after:.1%}")


if __name__ == "__main__":
    sys.exit(main())

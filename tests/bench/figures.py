"""Largest difference between the figures that questions give for one deployment: `python -m tests.bench.figures`.

Random deployments of all families of models: `--n` of them as the scenarios that every question makes of them and as
static batches made of steps, `--compiled` of them through every question's own program. Nothing is asserted.
"""

import argparse
import collections
import dataclasses
import math
import time
from collections.abc import Iterator

import numpy as np
from rich.console import Console
from rich.table import Table

import sweeps
import workloads
from sweeps.ask.layouts import label
from sweeps.run.answer import answer
from sweeps.run.simulated.spec import serve_spec
from sweeps.run.sweep import sweep
from sweeps.serving.run import simulation
from sweeps.studies.sensitivity.point import sensitivity_at
from tests.figures import LAYOUT, PARTS, Deployed, comparable, deployments, figures, of_steps, possible, same, scenarios

LATENCIES = ("ttft", "tpot", "e2e")

Figures = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.figures", description=__doc__)
    parser.add_argument("--n", type=int, default=200, help="deployments whose scenarios are compared")
    parser.add_argument("--steps", type=int, default=100, help="of these, how many as batches made of steps")
    parser.add_argument("--compiled", type=int, default=6, help="deployments that every question computes")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    start, random, rows = time.perf_counter(), np.random.default_rng(options.seed), Rows()
    for number, point in enumerate(deployments(options.n, options.seed)):
        compared(point, random, rows)
        if number < options.steps:
            found, built = of_steps(point)
            rows.add("request: steps", found, built)
    shown = 0
    for point in deployments(40 * options.compiled, options.seed + 1):
        if shown == options.compiled:
            break
        plain = servable(point)
        if plain is None:
            continue
        shown += 1
        expected = figures(plain.case(), "request")
        for name, found in computed(plain, random):
            rows.add(f"request: {name}", expected, found)
        print(f"{time.perf_counter() - start:.0f} s: {plain}", flush=True)
    Console(width=110).print(rows.table())
    print(f"{time.perf_counter() - start:.0f} s")


class Rows:
    """For every pair of questions, how many figures were compared and the largest difference."""

    def __init__(self) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        self.worst: dict[str, tuple[float, str]] = {}

    def add(self, pair: str, expected: Figures, found: Figures) -> None:
        for name in expected.keys() & found.keys():
            if math.isnan(expected[name]) or isinstance(found[name], bool | str):
                continue
            self.counts[pair] += 1
            difference = 0.0 if found[name] == expected[name] else abs(found[name] / (expected[name] or math.nan) - 1.0)
            if not difference <= self.worst.get(pair, (-1.0, ""))[0]:
                self.worst[pair] = difference, name

    def table(self) -> Table:
        table = Table(title="largest relative difference of figures of one deployment")
        for heading in ("questions", "figures", "largest", "of"):
            table.add_column(heading, justify="right" if heading in ("figures", "largest") else "left")
        for pair, (difference, name) in self.worst.items():
            table.add_row(pair, f"{self.counts[pair]:,}", f"{difference:.1e}", name)
        return table


def compared(point: Deployed, random: np.random.Generator, rows: Rows) -> None:
    """Whether every question prices the scenario of `request`: 0 where it does, 1 where it does not."""
    expected = None
    for name, scenario in scenarios(point, random):
        expected = scenario if expected is None else expected
        own = comparable(expected) if name == "compare" else expected
        differing = [part for part in PARTS if not same(getattr(scenario, part), getattr(own, part))]
        if differing:
            print(name, differing, point, flush=True)
        said = name.replace(", prefill", "").replace(", neighbour", "")
        rows.add(f"scenario: {said}", {"scenario": 1.0}, {"scenario": 1.0 + len(differing)})


def servable(point: Deployed) -> Deployed | None:
    """The deployment as every question can price it, at lengths that a simulation tabulates; None: there is none."""
    spread = {name: value for name, value in point.degrees.items() if name in (*LAYOUT, "overlap", "exchange")}
    options = point.options | {"deployment": spread, "efficiency": "derated"}
    options = {name: value for name, value in options.items() if name != "communication"}
    model = workloads.model(point.model).model
    if not model.generates or any(block.cross is not None for block in model.blocks):
        return None
    found = dataclasses.replace(point, workload={"batch": 1, "isl": 2048, "osl": 100}, options=options)
    made = possible(found.case)
    return found if made is not None and figures(made, "request", ("feasible",))["feasible"] else None


def computed(point: Deployed, random: np.random.Generator) -> Iterator[tuple[str, Figures]]:
    """Figures of one request alone, from every question's own program."""
    scenario = point.case().scenario
    yield "answer", answer(point.case()).metrics
    yield "sensitivity", sensitivity_at("request", scenario, wanted=["hardware.memory.hbm.bandwidth"]).metrics
    variables = {"illegal": "mask", "dtype": "float64"}
    work = point.workload | {"batch": [1, 8]}
    grid = sweep(point.source(workload=work, output=variables))
    yield "grid", _numbers(grid.sel(batch=1))
    drawn = sweep(point.source(workload=work, output=variables, mode="sample", sample={"points": 16}))
    yield "sample", _numbers(drawn.isel(point=int(np.argmax(drawn["batch"].values == 1.0))))
    grid = sweep(point.source(workload=work, output={"illegal": "mask"}))
    yield "grid in float32", _numbers(grid.sel(batch=1))
    rest = {f"deployment.{name}": value for name, value in point.degrees.items() if name not in LAYOUT}
    wanted = label({name: point.degrees[name] for name in LAYOUT if name in point.degrees})
    devices = [int(np.prod([value for name, value in point.degrees.items() if name in LAYOUT and name != "ep"]))]
    kinds = {name: point.options[name] for name in ("weights", "kv", "efficiency") if name in point.options}
    keys = {"hardware": [point.hardware], "devices": devices, "batch": [1], "set": point.settings | rest, **kinds}
    ranked = sweeps.compare_static(point.model, point.workload["isl"], point.workload["osl"], **keys)
    for row in (*ranked.rows, *ranked.infeasible):
        if row.layout == wanted:
            yield "compare in float32", {n: v for n, v in row.metrics.items() if not math.isnan(v)}
    client = {"concurrency": 1, "requests": 3, "isl": point.workload["isl"], "osl": point.workload["osl"]}
    place = {"hardware": point.hardware, "model": point.model, "overrides": point.settings, **point.options}
    served = simulation(serve_spec(**place, **client, policy={"prefix_caching": 0})).metrics
    own = {"tokens_per_second": served["tokens_per_second"]}
    yield "serve, one client", own | {name: served[f"{name}_mean"] for name in LATENCIES}
    pools = possible(lambda: figures(point.case("disaggregated", prefill=point.degrees), "disaggregated"))
    if pools is not None:
        yield "disaggregate", {"ttft": pools["ttft"] - pools["transfer_exposed"], "tpot": pools["tpot"]}
    second = {"model": point.model, **point.workload, **point.degrees}
    both = answer(point.case("colocated", neighbour=second)).metrics
    for name in ("", "neighbour_"):
        yield f"colocate, {name or 'first_'}alone", {kind: both[f"{name}{kind}_alone"] for kind in ("ttft", "tpot")}


def _numbers(dataset) -> Figures:
    return {str(name): float(values) for name, values in dataset.data_vars.items() if values.dtype.kind == "f"}


if __name__ == "__main__":
    main()

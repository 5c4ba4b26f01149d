"""Published runs with as many requests as an engine can hold: rows of five files as one replica and its load each."""

import dataclasses
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import hwspaces
import workloads
from jaxroof.batch import ORDERS, Policy
from jaxroof.deployment import Deployment, degree
from jaxroof.efficiency import Efficiency
from jaxroof.memory.legality import broken_rule
from jaxroof.model import Model, has_experts
from jaxroof.numerics.arrays import eager
from sweeps.ask.cases import Case
from sweeps.ask.engines import policy
from sweeps.measure.validate.measured_csv import CsvRow, rows
from sweeps.measure.validate.relative_errors import grouped
from sweeps.measure.validate.serving import inferencex
from sweeps.measure.validate.serving.launches import Layout, LoggedRun
from sweeps.measure.validate.serving.serving_points import ServingPoint, checkpoint_of, points
from sweeps.measure.validate.serving.suspects import checked
from tests.evidence import saturated
from tests.evidence.engine_constants import started
from tests.evidence.inferencex_points import Published, published
from tests.evidence.saturated_load import Lengths, Rules, Saturated, throughput, uniform

Efficiencies = Mapping[str, Efficiency]

CLIENTS = 64.0
"""Clients from which on a closed loop counts as saturated."""

GPUS = inferencex.GPUS | {"h200_nvl": "h200_sxm"}
"""Names of the files -> those of the catalogue. H200 NVL is an H200 under a limit of 600 W."""

NVL_POWER = 600.0
"""W, TDP of H200 NVL: its datasheet."""

BENCHMARKS = {
    "llama2-70b": "Llama-2-70B",
    "llama3.1-8b": "Llama-3.1-8B",
    "llama3.1-405b": "Llama-3.1-405B",
    "mixtral-8x7b": "Mixtral-8x7B",
    "deepseek-r1": "deepseek-ai/DeepSeek-R1",
    "gpt-oss-120b": "openai/gpt-oss-120b",
}
"""Benchmark of MLPerf -> its model."""

SOFTWARE = inferencex.SOFTWARE | {"tensorrt": "trtllm"}
"""Software of the files -> the engine whose scheduler and constants stand for it."""

PROMPTS = {"gpqa": 250.0, "lm-arena-chat": 200.0, "sourcegraph-fim": 1500.0}
"""Task of ML.ENERGY -> mean prompt in tokens, which its tables do not say: ours, from what such questions have."""

STREAMED_SAMPLER = "sort"
"""How ML.ENERGY's requests are sampled: temperature 0.8 and top-p 0.95 under vLLM 0.11.1, which sorts all logits for
that. Source: defaults of its benchmark (ml-energy/benchmark, mlenergy/llm/benchmark.py)."""

MODES = {"fp4": "nvfp4", "mxfp4": "nvfp4", "fp8": "fp8", "bfloat16": "bfloat16", "unset": "fp8"}


def closed_loops(folder: Path, efficiencies: Efficiencies) -> list[Saturated]:
    """Of e2e/silicon_sample.csv the trusted point with the most clients of every deployment and length."""
    found, _ = points(folder / "e2e" / "silicon_sample.csv")
    trusted = [one for one in checked(found) if one.suspect is None and one.concurrency >= CLIENTS]
    series = grouped(trusted, _series)
    return [_closed(max(group, key=lambda one: one.concurrency), efficiencies) for group in series.values()]


def _series(one: ServingPoint) -> tuple:
    return one.gpu, one.engine, one.version, one.label, one.modes, one.layout, one.family, one.isl, one.osl


def _closed(one: ServingPoint, efficiencies: Efficiencies) -> Saturated:
    lengths = uniform(one.launch.shortest, one.isl, one.osl, bool(one.policy.reserve))
    measured = one.concurrency * lengths.osl / (one.ttft + (lengths.osl - 1.0) * one.tpot)
    return _loaded(one, "silicon sample", measured, efficiencies)


def inferencex(folder: Path, efficiencies: Efficiencies) -> list[Saturated]:
    """Of serving2/inferencex_agg.csv the newest run with the most clients of every deployment, if nothing flags it."""
    usable = [one for one in published(folder)[0] if one.point.concurrency >= CLIENTS]
    newest = [max(group, key=_newest) for group in grouped(usable, lambda one: one.point.id).values()]
    return [_loaded(one.point, "InferenceX", one.tokens_per_second, efficiencies) for one in newest]


def metered(folder: Path, efficiencies: Efficiencies) -> Iterator[tuple[Published, Saturated]]:
    """Runs of that file whose boards' mean power is published, with a sequence for every client."""
    for one in published(folder)[0]:
        if one.watts is not None:
            loaded = _loaded(one.point, "InferenceX", one.tokens_per_second, efficiencies)
            yield one, dataclasses.replace(loaded, clients=math.inf, sequences=one.point.concurrency)


def _newest(one: Published) -> tuple[float, str]:
    return one.point.concurrency, one.point.date


def _loaded(one: ServingPoint, source: str, measured: float, efficiencies: Efficiencies) -> Saturated:
    """A point of a closed loop as a saturated replica; `measured` in output tokens/s of all its devices."""
    return Saturated(
        source=source,
        label=_label(one, one.concurrency),
        lengths=uniform(one.launch.shortest, one.isl, one.osl, bool(one.policy.reserve)),
        rules=_rules(one.policy, one.deployment, one.case),
        tokens_per_second=measured,
        clients=one.concurrency,
        between=float(one.case.scenario.efficiency.host.request_time) + float(one.policy.front_time),
        **_place(one, one.model, one.deployment),
    )


def offline(folder: Path, efficiencies: Efficiencies) -> list[Saturated]:
    """MLPerf's Offline scenario: all requests at once. Rows of one accelerator, model, engine and precision are one.

    Their median of the newest round counts: partners repeat one vendor's recipe. Layouts are not published: it is the
    fastest that the model finds with 1 to 8 devices of a node.
    """
    columns = ("round", "gpu", "n_accelerators", "nodes", "model", "scenario", "weight_dtype", "used_model", "osl_run")
    found = rows(
        folder / "serving2" / "mlperf_inference.csv",
        (*columns, "tokps_per_accelerator", "valid", "flag", "same_run_as_99", "software_family"),
    )
    quantiles = rows(folder / "serving2" / "mlperf_dataset_quantiles.csv", ("benchmark", "isl", "osl_ref"))
    usable = [row for row in found if _usable(row)]

    def recipe(row: CsvRow) -> tuple[str, ...]:
        return _benchmark(row), row["gpu"], row["software_family"], row["weight_dtype"], row["flag"]

    out = []
    for group in grouped(usable, recipe).values():
        last = max(row["round"] for row in group)
        out += _fastest([row for row in group if row["round"] == last], quantiles, efficiencies)
    return out


def _usable(row: CsvRow) -> bool:
    """Runs of a language model of ours as it is, or of Llama-3.1-70B in Llama-2-70B's place, on a known accelerator."""
    named = row["scenario"] == "Offline" and row["valid"] == "VALID" and row["same_run_as_99"] != "True"
    own = row["flag"] == "" or (row["flag"] == "other_model" and row["used_model"].startswith("llama3_1-70b-fp8"))
    known = _benchmark(row) in BENCHMARKS and row["software_family"] in SOFTWARE and row["tokps_per_accelerator"]
    try:
        hwspaces.hardware(GPUS.get(row["gpu"], row["gpu"]))
    except ValueError:
        return False
    return bool(named and own and known)


def _benchmark(row: CsvRow) -> str:
    return row["model"].removesuffix("-99.9").removesuffix("-99")


def _fastest(group: Sequence[CsvRow], quantiles: Sequence[CsvRow], efficiencies: Efficiencies) -> list[Saturated]:
    row, engine = group[0], SOFTWARE[group[0]["software_family"]]
    numbers = [one.numbers(("tokps_per_accelerator", "osl_run", "n_accelerators", "nodes")) for one in group]
    rate = statistics.median(values["tokps_per_accelerator"] for values in numbers)
    osl = statistics.median(values["osl_run"] for values in numbers)
    node = int(numbers[0]["n_accelerators"] / max(numbers[0]["nodes"], 1.0))
    name = "Llama-3.1-70B" if row["flag"] else BENCHMARKS[_benchmark(row)]
    mode = "fp8_block" if name.endswith("R1") and row["weight_dtype"] == "fp8" else MODES[row["weight_dtype"]]
    device, entry = _checkpoint(row["gpu"], engine, name, mode)
    best: tuple[float, Saturated] | None = None
    for layout in _layouts(node, has_experts(entry.model)):
        deployment = started(device, entry, engine, layout, "fp8")
        if broken_rule(device.hardware, entry.model, deployment) is not None:
            continue
        devices = layout.tp * layout.groups
        one = Saturated(
            source="MLPerf",
            label=f"{entry.name} {entry.precision.split()[0]}, {devices:g} devices, v{row['round']}",
            engine=engine,
            gpu=row["gpu"],
            hardware=device.hardware,
            model=entry.model,
            deployment=deployment,
            lengths=_drawn(quantiles, _benchmark(row), osl, bool(policy(engine).reserve)),
            rules=_rules(policy(engine), deployment),
            tokens_per_second=rate * devices,
        )
        with eager():
            speed = throughput(one, efficiencies[engine]) / devices
        if speed > 0.0 and (best is None or speed > best[0]):
            best = speed, one
    return [] if best is None else [best[1]]


def _layouts(node: int, mixture: bool) -> Iterator[Layout]:
    """Replicas of 1 to 8 devices; mixtures also with experts or attention groups of their own on each device."""
    for devices in (1.0, 2.0, 4.0, 8.0):
        if node % devices == 0:
            yield Layout(tp=devices, pp=1.0, groups=1.0, ep=1.0)
            if mixture and devices > 1.0:
                yield Layout(tp=devices, pp=1.0, groups=1.0, ep=devices)
                yield Layout(tp=1.0, pp=1.0, groups=devices, ep=devices)


def _drawn(quantiles: Sequence[CsvRow], benchmark: str, mean: float, reserve: bool) -> Lengths:
    """Lengths of a benchmark from their quantiles, outputs scaled to the mean that was produced.

    Prompt and output count as independent. A sequence of many tokens is there for as many steps, so that contexts are
    weighted with their outputs: isl + mean of osl^2 / (2 mean of osl). Summaries stop at 128 tokens.
    """
    own = [row for row in quantiles if row["benchmark"] == benchmark]
    weights = np.ones(len(own))
    weights[[0, -1]] = 0.5
    isl = float(np.average([row.numbers(("isl",))["isl"] for row in own], weights=weights))
    osl = np.full(len(own), mean)
    if benchmark != "llama3.1-8b" and own[0]["osl_ref"]:
        osl = np.asarray([row.numbers(("osl_ref",))["osl_ref"] for row in own])
        osl = osl * (mean / float(np.average(osl, weights=weights)))
    context = isl + 0.5 * float(np.average(osl * osl, weights=weights)) / mean
    return Lengths(isl, mean, context, context + (0.5 * mean if reserve else 0.0))


def steady(folder: Path, efficiencies: Efficiencies) -> list[Saturated]:
    """The saturated rows of e2e/tam_ground_truth.csv at the number of sequences that Little's law gives."""
    out = []
    for row in saturated.loaded(folder / "e2e" / "tam_ground_truth.csv"):
        step = row.observation.step
        decoding = step.decode.decode
        n = float(decoding.sequences)
        lengths = Lengths(saturated.NEW_TOKENS, max(n - 1.0, 1.0) / step.mixed_share, float(decoding.context) / n, 1.0)
        out.append(
            Saturated(
                source="BLIS",
                label=row.observation.group,
                engine="vllm",
                gpu="H100-SXM",
                hardware=step.hardware,
                model=step.model,
                deployment=step.deployment,
                lengths=lengths,
                rules=Rules(budget=2048.0, sequences=128.0, apart=False, hidden_host=1.0),  # vLLM 0.15.1
                tokens_per_second=n / row.observation.seconds,
                sequences=n,
            )
        )
    return out


def streamed(folder: Path, efficiencies: Efficiencies) -> list[Saturated]:
    """Text tasks of serving2/mlenergy_llm.csv with 64 sequences and more, at the measured number of sequences."""
    return [one for _, one in streams(folder) if one.sequences is not None and one.sequences >= CLIENTS]


def streams(folder: Path, sampler: str = STREAMED_SAMPLER) -> Iterator[tuple[CsvRow, Saturated]]:
    """Rows of text tasks of that file which nothing flags, of models that the catalogue has, with a sampler."""
    columns = ("config_id", "task", "model_id", "gpu", "num_gpus", "dp", "ep", "weight_precision", "flag")
    for row in rows(folder / "serving2" / "mlenergy_llm.csv", columns):
        one = None if row["flag"] or row["task"] not in PROMPTS else _streamed(row, sampler)
        if one is not None:
            yield row, one


def _streamed(row: CsvRow, sampler: str) -> Saturated | None:
    values = row.numbers(("num_gpus", "dp", "ep", "mean_batch", "mean_output_tokens", "output_tokps"))
    try:
        device, entry = _checkpoint(row["gpu"], "vllm", row["model_id"], MODES[row["weight_precision"]])
    except ValueError:  # a model that the catalogue does not have
        return None
    layout = Layout(tp=values["num_gpus"] / values["dp"], pp=1.0, groups=values["dp"], ep=values["ep"])
    deployment = dataclasses.replace(started(device, entry, "vllm@0.11.1", layout), sampler=sampler)
    if broken_rule(device.hardware, entry.model, deployment) is not None:
        return None
    isl, osl = PROMPTS[row["task"]], values["mean_output_tokens"]
    return Saturated(
        source="ML.ENERGY",
        label=f"{entry.name} {row['task']}, {values['mean_batch']:.0f} sequences, {values['num_gpus']:g} devices",
        engine="vllm",
        gpu=device.name,
        hardware=device.hardware,
        model=entry.model,
        deployment=deployment,
        lengths=Lengths(isl, osl, isl + 0.5 * osl, isl + 0.5 * osl),
        rules=_rules(policy("vllm@0.11.1"), deployment),
        tokens_per_second=values["output_tokps"],
        sequences=values["mean_batch"],
    )


def _checkpoint(gpu: str, engine: str, name: str, mode: str):
    """Device and model of a row; on Blackwell MXFP4 weights meet MXFP8 activations."""
    device = hwspaces.hardware(GPUS.get(gpu, gpu))
    if gpu == "h200_nvl":
        power = dataclasses.replace(device.hardware.power, tdp=NVL_POWER)
        device = dataclasses.replace(device, hardware=dataclasses.replace(device.hardware, power=power))
    found = checkpoint_of(engine, device, name, mode, mode)
    entry = workloads.model(found.model, weights=found.weights)
    return device, entry


def _place(run: LoggedRun, model: Model, deployment: Deployment) -> dict[str, Any]:
    return {
        "engine": run.engine,
        "gpu": run.gpu,
        "hardware": run.hardware,
        "model": model,
        "deployment": deployment,
    }


def _label(run: LoggedRun, clients: float) -> str:
    devices = run.layout.tp * run.layout.groups
    return f"{run.model_name} {run.isl:g}/{run.osl:g}, {clients:g} clients, {devices:g} devices"


def _rules(rules: Policy, deployment: Deployment, case: Case | None = None) -> Rules:
    """The policy's rules for one attention group, and what the release adds to the host."""
    groups = float(degree(deployment.attention_dp)) if case is not None else 1.0
    host = None if case is None else case.scenario.efficiency.host
    plain = None if case is None else case.efficiency.efficiency.host
    return Rules(
        budget=float(rules.token_budget) / groups,
        sequences=float(rules.max_sequences) / groups,
        apart=ORDERS[int(rules.order)] == "prefill_first",
        hidden_host=float(rules.hidden_host),
        step_time=0.0 if case is None else float(host.step_time - plain.step_time),
        token_time=0.0 if case is None else case.engine.host.token_time,
    )

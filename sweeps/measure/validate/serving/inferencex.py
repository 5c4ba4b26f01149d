"""Published points of InferenceX: one engine or pools of workers, with and without drafted tokens, by day."""

import dataclasses
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import hwspaces
import workloads
from jaxroof.model import has_experts
from sweeps.measure.validate.measured_csv import CsvRow, LeftOut, records, rows
from sweeps.measure.validate.serving.launches import INFERENCEX, Layout, LoggedRun
from sweeps.measure.validate.serving.serving_points import OF_DYNAMO, SEED, ServingPoint, checkpoint_of, served_point

GPUS = {"b200": "b200_sxm", "h100": "h100_sxm", "h200": "h200_sxm"}
"""Names of the file -> those of the catalogue, where they differ."""

SOFTWARE = {
    "trt": "trtllm",
    "vllm": "vllm",
    "sglang": "sglang",
    "atom": "vllm",
    "dynamo-trt": "trtllm",
    "dynamo-sglang": "sglang",
    "mori-sglang": "sglang",
}
"""Framework of the file -> the engine whose scheduler and constants stand for it."""

MODES = {"fp4": "nvfp4", "fp8": "fp8_block"}
"""`precision` -> the mode of its weights, as `labelled_model` reads it."""

TEXTS = ("config_id", "hardware", "framework", "model_path", "precision", "date", "image", "flag")
NUMBERS = ("isl", "osl", "conc", "output_tokps_per_gpu", "median_ttft_ms", "median_tpot_ms")
COLUMNS = (*TEXTS, *NUMBERS)
"""Columns that every such file has."""

ONE_ENGINE = ("tp", "ep")
POOLS = tuple(
    f"{side}_{column}" for side in ("prefill", "decode") for column in ("gpus_per_worker", "ep", "num_workers")
)

UNFIT = ("littles", "queueing", "collapsed", "rates", "drift")
"""Flags of rows that are left out: they contradict themselves, or prompts came faster than they were taken."""


def is_inferencex(columns: Iterable[str]) -> bool:
    """Whether a file with these columns is one of InferenceX, which names frameworks and deployments."""
    return {"config_id", "framework"} <= set(columns)


def points(path: str | Path) -> tuple[list[ServingPoint], list[LeftOut]]:
    """Every row of a CSV file, as a point with medians over its requests, or as what is in its way.

    Raises:
      ValueError: one line that names file, row, column and value, as `serving_points.points` does.
    """
    return records(rows(path, COLUMNS), _unflagged, "config_id")


def version(image: str) -> str:
    """Version of the engine in the name of its image, "" where it says none."""
    dynamo = re.search(r"tensorrtllm-runtime:(\d+\.\d+)", image)
    if dynamo:
        return OF_DYNAMO.get(dynamo[1], "")
    named = re.search(r":(?:v|sglang-)?(\d+\.\d+\.\d+[\w.]*)", image) or re.search(r"atom(\d[\d.]*)", image)
    return named[1] if named else ""


def _unflagged(row: CsvRow) -> ServingPoint:
    unfit = [flag for flag in UNFIT if flag in row["flag"].split("+")]
    if unfit:
        raise ValueError(f"flagged: {unfit[0]}")
    return point(row)


def point(row: CsvRow) -> ServingPoint:
    """The point of a row; ValueError with the reason why it cannot be priced."""
    values = row.numbers(NUMBERS)
    for column, known in (("framework", SOFTWARE), ("precision", MODES)):
        if row[column] not in known:
            raise ValueError(f"{column} = {row[column]!r} is not known; known: {', '.join(known)}")
    engine, mode = SOFTWARE[row["framework"]], MODES[row["precision"]]
    device = hwspaces.hardware(GPUS.get(row["hardware"], row["hardware"]))
    checkpoint = checkpoint_of(engine, device, row["model_path"], mode, mode)
    entry = workloads.model(checkpoint.model, weights=checkpoint.weights)
    run = LoggedRun(
        engine=engine,
        version=version(row["image"]) if row["framework"] != "atom" else "",
        family=INFERENCEX,
        gpu=device.name,
        vendor=device.vendor,
        hardware=device.hardware,
        model_name=entry.name,
        precision=entry.precision,
        mixture=has_experts(entry.model),
        isl=values["isl"],
        osl=values["osl"],
        concurrency=values["conc"],
        date=row["date"],
        drafting=row.get("spec_method", "none") not in ("", "none"),
        **_layouts(row),
    )
    deployment = run.layout
    made = served_point(
        run,
        checkpoint,
        row=row.line,
        id=row["config_id"],
        label=row["model_path"],
        modes=(mode, mode),
        ttft=values["median_ttft_ms"] * 1e-3,
        tpot=values["median_tpot_ms"] * 1e-3,
        repaired=False,
        suspect=None,
        medians=True,
        throughput=values["output_tokps_per_gpu"] * deployment.tp * deployment.groups * run.replicas,
    )
    # One draw of lengths for all days of a point: equal simulations are run once.
    return dataclasses.replace(made, spec=dataclasses.replace(made.spec, seed=SEED))


def _layouts(row: CsvRow) -> dict[str, Any]:
    """Degrees of one engine, or of both pools: devices of a worker are counted, labels of tp are not trusted."""
    if row.get("disagg") != "True":
        tp, ep = row.numbers(ONE_ENGINE).values()
        return {"layout": _layout(tp, row["dp_attention"] == "True", ep)}
    numbers = row.numbers(POOLS)
    prompts, layout = (
        _layout(numbers[f"{side}_gpus_per_worker"], row[f"{side}_dp_attention"] == "True", numbers[f"{side}_ep"])
        for side in ("prefill", "decode")
    )
    replicas = {"prompt_replicas": numbers["prefill_num_workers"], "replicas": numbers["decode_num_workers"]}
    return {"prompts": prompts, "layout": layout} | replicas


def _layout(devices: float, spread: bool, ep: float) -> Layout:
    groups = devices if spread else 1.0
    return Layout(tp=devices / groups, pp=1.0, groups=groups, ep=ep)

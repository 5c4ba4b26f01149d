"""Points of serving2/inferencex_agg.csv: one engine doing everything, at every load and date."""

import dataclasses
import re
from pathlib import Path

import hwspaces
import workloads
from jaxroof.model import has_experts
from sweeps.measure.validate.measured_csv import CsvRow, LeftOut, records, rows
from sweeps.measure.validate.serving.launches import INFERENCEX, Layout, LoggedRun
from sweeps.measure.validate.serving.serving_points import ServingPoint, checkpoint_of, served_point

GPUS = {"b200": "b200_sxm", "h100": "h100_sxm", "h200": "h200_sxm"}
"""Names of the file -> those of the catalogue, where they differ."""

SOFTWARE = {"trt": "trtllm", "vllm": "vllm", "sglang": "sglang", "atom": "vllm"}
"""Framework of the file -> the engine whose scheduler and constants stand for it."""

MODES = {"fp4": "nvfp4", "fp8": "fp8_block"}
"""`precision` -> the mode of its weights, as `labelled_model` reads it."""

TEXTS = ("config_id", "hardware", "framework", "model_path", "precision", "dp_attention", "date", "image", "flag")
NUMBERS = ("tp", "ep", "isl", "osl", "conc", "output_tokps_per_gpu", "median_ttft_ms", "median_tpot_ms")
MEANS = ("mean_ttft_ms", "mean_tpot_ms")
POWER = "avg_power_w"


@dataclasses.dataclass(frozen=True)
class Published:
    """One run: its point, and what else the file says of it."""

    point: ServingPoint
    framework: str
    precision: str  # as the file names it
    tokens_per_second: float  # of all devices, outputs
    median_ttft: float  # s
    watts: float | None = None  # mean of one board over the run, where it was read


def published(folder: Path) -> tuple[list[Published], list[LeftOut]]:
    """Every run that nothing flags, and what is in the way of the others."""
    found = rows(folder / "serving2" / "inferencex_agg.csv", (*TEXTS, *NUMBERS, *MEANS, POWER))
    return records([row for row in found if not row["flag"]], _published, "config_id")


def version(image: str) -> str:
    """Version of the engine in the name of its image, "" where it says none."""
    named = re.search(r":v?(\d+\.\d+\.\d+[\w.]*)", image) or re.search(r"atom(\d[\d.]*)", image)
    return named[1] if named else ""


def _published(row: CsvRow) -> Published:
    """Raises ValueError with the reason why the row cannot be priced."""
    values = row.numbers(NUMBERS)
    engine, mode = SOFTWARE[row["framework"]], MODES[row["precision"]]
    device = hwspaces.hardware(GPUS.get(row["hardware"], row["hardware"]))
    checkpoint = checkpoint_of(engine, device, row["model_path"], mode, mode)
    entry = workloads.model(checkpoint.model, weights=checkpoint.weights)
    groups = values["tp"] if row["dp_attention"] == "True" else 1.0
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
        layout=Layout(tp=values["tp"] / groups, pp=1.0, groups=groups, ep=values["ep"]),
        isl=values["isl"],
        osl=values["osl"],
        concurrency=values["conc"],
        date=row["date"],
    )
    ttft, tpot = (row.number(mean) or values[mean.replace("mean", "median")] for mean in MEANS)
    point = served_point(
        run,
        checkpoint,
        row=row.line,
        id=row["config_id"],
        label=row["model_path"],
        modes=(mode, mode),
        ttft=ttft * 1e-3,
        tpot=tpot * 1e-3,
        repaired=False,
        suspect=None,
    )
    rate = values["output_tokps_per_gpu"] * values["tp"]
    ttft, watts = values["median_ttft_ms"] * 1e-3, row.number(POWER)
    return Published(point, row["framework"], row["precision"], rate, ttft, watts)

"""Runs of serving2/inferencex_agg.csv: one engine doing everything, at every load and date, with means."""

import dataclasses
from pathlib import Path

from sweeps.measure.validate.measured_csv import CsvRow, LeftOut, records, rows
from sweeps.measure.validate.serving.inferencex import COLUMNS, ONE_ENGINE, point
from sweeps.measure.validate.serving.serving_points import SEED, ServingPoint

MEANS = ("mean_ttft_ms", "mean_tpot_ms")
POWER = "avg_power_w"
READ = (*COLUMNS, *ONE_ENGINE, "dp_attention", *MEANS, POWER)


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
    found = rows(folder / "serving2" / "inferencex_agg.csv", READ)
    return records([row for row in found if not row["flag"]], _published, "config_id")


def _published(row: CsvRow) -> Published:
    """Raises ValueError with the reason why the row cannot be priced."""
    one = point(row)
    rate = row.number("output_tokps_per_gpu") * one.deployment.tp * one.layout.groups
    ttft, tpot = (row.number(mean) or row.number(mean.replace("mean", "median")) for mean in MEANS)
    spec = dataclasses.replace(one.spec, seed=SEED + row.line)
    means = dataclasses.replace(one, ttft=1e-3 * ttft, tpot=1e-3 * tpot, medians=False, throughput=None, spec=spec)
    return Published(means, row["framework"], row["precision"], rate, one.ttft, row.number(POWER))

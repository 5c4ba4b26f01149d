"""Measured points of served models: every row of a file as a deployment with its load, or the reason why it is not."""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import hwspaces
from jaxroof.deployment import Deployment
from jaxroof.legality import broken_rule
from jaxroof.model import Model
from sweeps.ask.cases import model_deployment, require_precisions
from sweeps.measure.validate.measured_csv import NOT_NEGATIVE, CsvRow, LeftOut, records, rows
from sweeps.measure.validate.serving.deployment_labels import ENGINES, Layout, layout, suite
from sweeps.measure.validate.serving.precisions import MICROSCALED, has_experts, labelled_model
from sweeps.measure.validate.serving.presets import NVIDIA_DEVICES, Preset, Run, is_blackwell, preset, scripted_degrees
from sweeps.run.simulated.refusals import require_priced

DEGREES = ("tp_size", "pp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
SIDES = ("prefill", "decode")
SIDE_NUMBERS = ("batch_size", "num_workers", *DEGREES)

LOAD = ("isl_tokens", "osl_tokens", "concurrency", "batch_size")
MEASURED = ("gt_ttft_ms", "gt_tpot_ms")
TEXTS = ("id", "model_path", "gpu", "backend", "backend_version", "gemm_quant_mode", "moe_quant_mode", "mode")
NUMBERS = (*LOAD, *DEGREES, *MEASURED, *(f"{side}_{column}" for side in SIDES for column in SIDE_NUMBERS))
COLUMNS = (*TEXTS, "source_tag", *LOAD, *DEGREES, *MEASURED)
"""Columns that a file must have. Columns of disaggregated rows and dates are read where they are."""

PRECISIONS = {"bf16": "bfloat16", "fp16": "float16", "fp8": "fp8", "fp4": "nvfp4", "int4": "int4_wo", "int8": "int8_wo"}
"""Value of `precision` -> the mode that it stands for where both modes are empty."""

ROUNDS = 10.0
"""Requests per client: InferenceX sends 10 times the concurrency (`--num-prompts`); NVIDIA's sweeps fit it too."""

ALIKE = 0.8
"""Exponent of tokens that choose experts on their own: prompts of random tokens are answered with texts of a kind.

Source: ours, fitted with the engines' other constants to public points of 6 mixtures.
"""


@dataclasses.dataclass(frozen=True)
class ServingPoint(Run):
    """One measured point of one kind of device doing everything."""

    row: int  # line of the file
    id: str
    label: str  # `model_path`
    modes: tuple[str, str]  # `gemm_quant_mode`, `moe_quant_mode`
    model: Model
    deployment: Deployment
    preset: Preset
    ttft: float  # s, mean
    tpot: float  # s, mean
    repaired: bool  # degrees are not what the labels say
    suspect: str | None  # why the row does not say what ran; None: nothing speaks against it

    @property
    def requests(self) -> float:
        """Requests of the measurement."""
        return ROUNDS * self.concurrency


def points(path: str | Path) -> tuple[list[ServingPoint], list[LeftOut]]:
    """Every row of a CSV file, as a point or as what is in its way.

    Args:
      path: a file with `COLUMNS`; its other columns are ignored.

    Raises:
      ValueError: one line that names file, row, column and value: a missing or empty file, a missing column, text
        that is no number, a number that cannot be.
    """
    return records(rows(path, COLUMNS), _point, "id")


def assumptions(points: Sequence[ServingPoint], learned: bool) -> Counter[str]:
    """Sentences, one per device, engine and assumption, and how many of the points each is made for.

    Args:
      learned: whether the constants are the learned ones of each engine.
    """
    found: Counter[str] = Counter()
    for point in points:
        place = f"{point.gpu} under {point.engine}"
        if point.preset.assumed is not None:
            found[f"{place}: settings are {point.preset.assumed}"] += 1
        if point.vendor == NVIDIA_DEVICES:
            continue
        if learned:
            found[f"{place}: constants are those of learned-{point.engine}, fitted on NVIDIA's devices"] += 1
        if "nvfp4" in point.precision:
            found[f"{place}: 4-bit weights are priced in NVIDIA's format, NVFP4"] += 1
    return found


def _point(row: CsvRow) -> ServingPoint:
    """Raises ValueError with the reason why the row cannot be priced."""
    values = {column: row.number(column, NOT_NEGATIVE) for column in NUMBERS}
    if row["mode"] == "disagg":
        _refuse_disaggregated(row, values)
    if row["mode"] not in ("agg", ""):
        raise ValueError(f"mode = {row['mode']!r} is not known")
    device, entry, family = _named(row)
    clients = values["concurrency"] or (values["batch_size"] or 0.0) * (values["attention_dp_size"] or 1.0)
    _require(values, ("isl_tokens", "osl_tokens", "tp_size", *MEASURED))
    if not clients:
        raise ValueError("neither concurrency nor batch_size is given")
    blackwell = is_blackwell(device.vendor, device.hardware)
    degrees = scripted_degrees(values, row["backend"], family, row["backend_version"], entry.name, blackwell)
    run = Run(
        engine=row["backend"],
        version=row["backend_version"],
        family=family,
        gpu=device.name,
        vendor=device.vendor,
        hardware=device.hardware,
        model_name=entry.name,
        precision=entry.precision,
        layout=layout(degrees, family, has_experts(entry.model)),
        isl=values["isl_tokens"],
        osl=values["osl_tokens"],
        concurrency=clients,
        date=row.get("measured_date", ""),
    )
    settings = preset(run)
    deployment = deployment_of(device, entry, run.layout, settings)
    require_priced(entry.name, entry.model, deployment)
    broken = broken_rule(device.hardware, entry.model, deployment)
    if broken:
        raise ValueError(f"{entry.name} on {device.name}: {broken}")
    return ServingPoint(
        **vars(run),
        row=row.line,
        id=row["id"],
        label=row["model_path"],
        modes=(row["gemm_quant_mode"], row["moe_quant_mode"]),
        model=entry.model,
        deployment=deployment,
        preset=settings,
        ttft=values["gt_ttft_ms"] * 1e-3,
        tpot=values["gt_tpot_ms"] * 1e-3,
        repaired=run.layout.repaired or degrees != values,
        suspect=run.layout.suspect,
    )


def deployment_of(device: hwspaces.HardwareEntry, entry, spread: Layout, settings: Preset) -> Deployment:
    """The deployment of a checkpoint as a suite started it."""
    deployment = dataclasses.replace(
        model_deployment(entry, settings.kv),
        tp=spread.tp,
        pp=_degree(spread.pp),
        attention_dp=_degree(spread.attention_dp),
        ep=_degree(spread.ep),
        memory_utilization=settings.memory,
        memory_of_free=float(settings.of_free),
        memory_static=float(settings.static),
        sampled_rows=1.0 if settings.of_free else settings.max_sequences,
        max_batched_tokens=settings.budget,
        state_bytes=settings.state_bytes,
        communication_bytes=settings.message_bytes,
        alike=ALIKE,
    )
    require_precisions(device, entry, deployment)
    return deployment


def _degree(value: float) -> float | None:
    return None if value == 1.0 else value


def _named(row: CsvRow):
    """Device, model and suite of a row; ValueError for what is not known."""
    if row["backend"] not in ENGINES:
        raise ValueError(f"backend = {row['backend']!r} is not known; known: {', '.join(ENGINES)}")
    device = hwspaces.hardware(row["gpu"])
    gemm, moe = row["gemm_quant_mode"], row["moe_quant_mode"]
    if not gemm and not moe:
        gemm = moe = PRECISIONS.get(row.get("precision", ""), "")
    entry = labelled_model(row["model_path"], gemm, moe)
    microscaled = is_blackwell(device.vendor, device.hardware) and row["backend"] in ("vllm", "trtllm")
    if microscaled and entry.precision.startswith("mxfp4"):
        entry = labelled_model(row["model_path"], gemm, MICROSCALED)
    return device, entry, suite(row["source_tag"])


def _require(values: Mapping[str, float | None], columns: tuple[str, ...]) -> None:
    """ValueError where a number is missing or 0."""
    for column in columns:
        if not values[column]:
            raise ValueError(f"{column} is {'empty' if values[column] is None else '0'}")


def _refuse_disaggregated(row: CsvRow, values: dict[str, float | None]) -> NoReturn:
    """Raises ValueError with the reason why a row of separate prefill and decode workers is skipped."""
    _named(row)
    _require(values, ("isl_tokens", "osl_tokens", "concurrency", *MEASURED))
    for side in SIDES:
        _require(values, (f"{side}_tp_size", f"{side}_num_workers"))
    raise ValueError("prefill and decode workers apart are not simulated")

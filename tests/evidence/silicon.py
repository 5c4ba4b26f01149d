"""Time per output token of published serving points: what e2e/silicon_sample.csv says, and which rows to trust."""

import re
from pathlib import Path

import hwspaces
import workloads
from jaxroof import batch
from sweeps.ask.axes import replaced
from sweeps.ask.cases import model_deployment
from sweeps.measure.validate.measured_csv import CsvRow, rows
from tests.evidence.observation import Observation, Step

NUMBERS = ("isl_tokens", "osl_tokens", "concurrency", "tp_size", "gt_ttft_ms", "gt_tpot_ms")
TEXTS = ("model_path", "gpu", "backend", "gemm_quant_mode", "mode", "source_tag", "flag_ttft_queueing")

WEIGHTS = {"": None, "bfloat16": "bf16", "fp8": "fp8-static", "fp8_block": "fp8"}
"""Precision of the weights by the file's `gemm_quant_mode`; empty means the checkpoint's own. The scales of `fp8` are
ModelOpt's, in the checkpoint."""

DENSE = ("meta-llama/Llama-3.1-70B", "meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-32B")
"""The file's dense models. Its others are mixtures of experts, whose labels miscode tp and ep in 86 rows."""

FITTED = ("h100_sxm", "h200_sxm")
"""Devices of the rows that constants are fitted to; those of others judge them."""

OLDER = "older_vllm"
"""What the file's vLLM is: 0.12 and before, whose scheduler works between steps; later ones work during the last."""

INFERENCEX_LENGTH = 0.9
"""Mean length over nominal: InferenceX draws lengths uniformly from 0.8 to 1.0 of nominal (its benchmark scripts)."""


def observations(path: str | Path, concurrency: float, engines: tuple[str, ...]) -> list[Observation]:
    """Aggregated points of dense models up to `concurrency`, on `engines` and `FITTED`: decode time, prompts between.

    Requests of a closed loop are decoded for a share of their time, so a step holds
    B = concurrency * osl tpot / (osl tpot + ttft) of them, and every osl / (B - 1)-th step of a request also
    works on another one's prompt.

    Raises:
      ValueError: one line that names file, row, column and value.
    """
    found = []
    for row in rows(path, (*NUMBERS, *TEXTS)):
        if row["mode"] != "agg" or row["gpu"] not in FITTED:
            continue
        if row["model_path"] not in DENSE or row["backend"] not in engines:
            continue
        values = {column: row.number(column) for column in NUMBERS}
        if None in values.values() or values["concurrency"] > concurrency or unreliable(row):
            continue
        if row["gemm_quant_mode"] not in WEIGHTS:
            known = ", ".join(mode for mode in WEIGHTS if mode)
            raise ValueError(f"{row.where}: gemm_quant_mode = {row['gemm_quant_mode']!r} is not known; known: {known}")
        entry = workloads.model(row["model_path"], weights=WEIGHTS[row["gemm_quant_mode"]])
        found.append(_observation(row, values, entry))
    return found


def unreliable(row: CsvRow) -> bool:
    """True for rows whose labels or protocol are known not to say what ran.

    Prompts of the 4000-token runs of January 2026 were served from the prefix cache; `flag_ttft_queueing` marks
    concurrency above capacity.
    """
    cached = row["backend"] == "vllm" and "qwen3_32b.csv" in row["source_tag"]
    return cached or row["flag_ttft_queueing"].lower() in ("1", "1.0", "true")


def is_inferencex(row: CsvRow) -> bool:
    """True for rows of the InferenceX suite, whose tag is a database dump or a date."""
    return bool(re.match(r"db-dump|\d{4}-\d{2}-\d{2}", row["source_tag"]))


def _observation(row: CsvRow, values: dict[str, float], entry: workloads.ModelEntry) -> Observation:
    length = INFERENCEX_LENGTH if is_inferencex(row) else 1.0
    isl, osl = length * values["isl_tokens"], length * values["osl_tokens"]
    decoding = osl * values["gt_tpot_ms"]
    sequences = max(values["concurrency"] * decoding / (decoding + values["gt_ttft_ms"]), 1.0)
    low = entry.precision.startswith("fp8")
    # TensorRT-LLM's fp8 deployments and InferenceX's vLLM Llama-70B keep an 8-bit cache.
    kv = "fp8" if low and (row["backend"] == "trtllm" or is_inferencex(row)) else None
    deployment = replaced(model_deployment(entry, kv), "tp", values["tp_size"])
    decode = batch.decode(sequences, isl + 0.5 * osl)
    engine = OLDER if row["backend"] == "vllm" else row["backend"]
    return Observation(
        step=Step(
            hardware=hwspaces.hardware(row["gpu"]).hardware,
            model=entry.model,
            deployment=deployment,
            decode=decode,
            mixed=batch.mixed(batch.prefill(1.0, isl), decode),
            mixed_share=(sequences - 1.0) / osl,
        ),
        seconds=values["gt_tpot_ms"] * 1e-3,
        group=f"{entry.name} {entry.precision} {row['gpu']} {engine} tp{values['tp_size']:g}",
        model=f"{entry.name} {entry.precision}",
        engine=engine,
    )

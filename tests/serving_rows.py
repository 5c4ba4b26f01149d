"""Made-up rows of serving measurements, and files of them."""

import csv

from sweeps.measure.validate.serving.serving_points import COLUMNS, points

ROW = dict.fromkeys(COLUMNS, "") | {
    "id": "one",
    "model_path": "meta-llama/Llama-3.1-70B",
    "gpu": "h200_sxm",
    "backend": "vllm",
    "gemm_quant_mode": "fp8",
    "moe_quant_mode": "fp8",
    "mode": "agg",
    "source_tag": "2026-04-06.csv",
    "isl_tokens": "1024",
    "osl_tokens": "1024",
    "concurrency": "16.0",
    "batch_size": "16.0",
    "tp_size": "4.0",
    "pp_size": "1.0",
    "attention_dp_size": "1.0",
    "moe_tp_size": "4.0",
    "moe_ep_size": "1.0",
    "gt_ttft_ms": "200.0",
    "gt_tpot_ms": "12.0",
}
DEEPSEEK = {"model_path": "deepseek-ai/DeepSeek-R1", "backend": "trtllm", "backend_version": "1.1.0"}

SMALL = {
    "model_path": "meta-llama/Llama-3.1-8B",
    "gemm_quant_mode": "bfloat16",
    "moe_quant_mode": "bfloat16",
    "isl_tokens": "128",
    "osl_tokens": "32",
    "concurrency": "4",
    "batch_size": "4",
    "tp_size": "1",
    "moe_tp_size": "1",
    "gt_ttft_ms": "60",
    "gt_tpot_ms": "8",
}
MIXED = tuple(
    SMALL | {"gpu": gpu, "backend": engine}
    for gpu, engine in (
        ("h100_sxm", "trtllm"),
        ("h200_sxm", "vllm"),
        ("b200_sxm", "sglang"),
        ("mi300x", "sglang"),
        ("mi355x", "vllm"),
        ("gaudi3", "vllm"),
    )
)
"""Six accelerators of three vendors under three engines; what is known of the devices differs."""

FULL = SMALL | {"model_path": "meta-llama/Llama-3.1-70B", "gt_ttft_ms": "500", "gt_tpot_ms": "70"}
"""Weights that leave no KV cache on one device: its requests get no answer, and latencies no value."""


def read_rows(folder, *changes, without=()):
    """Points and skipped rows of a file in `folder` with one row per mapping of what differs from ROW."""
    lines = [ROW | change for change in changes]
    columns = [column for column in dict.fromkeys(key for line in lines for key in line) if column not in without]
    path = folder / "measured.csv"
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(lines)
    return points(path)

"""Benchmarks as InferSim keeps them: one csv per operator and device, or one csv that unites them."""

import re
from pathlib import Path
from typing import Any

from sweeps.measure.kernel_data.group import require_columns, table
from sweeps.measure.surface_import.kernel_rows import (
    KernelRows,
    MeasuredFile,
    WantedRows,
    counted,
    header,
    listed,
    of_device,
)

TABLES = ("gemm", "mha/prefill", "mha/decode")
"""Operators that are tables of ours; the others (grouped products, latent and linear attention) are left out."""

GEMM_PRECISION = "fp8"
"""Of the products: they are DeepGEMM's, with a scale per block of 128 operands, as the script that measures them says.
Source: alibaba/InferSim, kernel_benchmark."""

COLUMNS = {
    "gemm": {"m": "m", "n": "n", "k": "k"},
    "mha/prefill": {"queries": "seq_len"},
    "mha/decode": {"sequences": "batch_size", "keys": "kv_len"},
}
"""Operator -> axis of a table -> column; every prefill is of one sequence."""

BYTES = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0}

_HEADS = re.compile(r"(\d+)-(\d+)-(\d+)(?:-tp(\d+))?$")


def recognised(path: Path) -> bool:
    """Whether `path` looks like such a file: by its header."""
    if path.suffix != ".csv":
        return False
    columns = header(path)
    return "latency_us" in columns and "mfu" in columns


def measured(path: Path, wanted: WantedRows) -> MeasuredFile:
    """Rows of one device in the file.

    Of a single operator's file, folders say which it is, as in `bench_data/mha/decode/h20/32-8-128.csv`: operator,
    device, and heads, KV heads and width of a head.

    Raises:
      ValueError: one line: a column is missing, a row has no numbers, heads are not where they should be, there are
        several devices and none is chosen.
    """
    frame = table(path, ("latency_us", "mfu"))
    # Only the united file has that column; of a single operator's file the folders tell what it is.
    if "table" not in frame.columns:
        frame = _united(frame, path)
    else:
        require_columns(frame, ("gpu", "shape_tag"), path)
    frame, device = of_device(frame, wanted.gpu, path)
    rows: list[KernelRows] = []
    for name in TABLES:
        own = frame[frame["table"] == name]
        if not len(own):
            continue
        require_columns(own, tuple(COLUMNS[name].values()), path)
        keys = ["shape_tag", *(name for name in ("dtype", "kv_dtype") if name in own.columns)]
        # Rows without a value in a key are a group as well, which pandas would drop otherwise.
        for values, part in own.groupby(keys, dropna=False, sort=True):
            rows.append(_rows(name, part, dict(zip(keys, values, strict=True)), path))
    left = counted(frame[~frame["table"].isin(TABLES)]["table"])
    return MeasuredFile(tuple(rows), device, {"source": f"InferSim benchmark, {path.name}"}, tuple(left))


def _rows(operator: str, part: Any, structure: dict[str, Any], path: Path) -> KernelRows:
    columns = COLUMNS[operator]
    if operator == "gemm":
        kind, precision = "linear", GEMM_PRECISION
        # Weights of 8 bits with a scale of 4 B per block of 128 x 128.
        labels = {"weight_bytes": 1.0 + 4.0 / 128**2, "scaled": 1.0}
    else:
        kind = "decode_attention"
        if operator == "mha/prefill":
            kind, part, columns = "prefill_attention", part.assign(one=1.0), {"sequences": "one", **columns}
        require_columns(part, ("dtype",), path)
        precision = str(structure["dtype"])
        cache = structure.get("kv_dtype")
        # An empty cell is NaN, which differs from itself: the cache then has the precision of the products.
        cache = precision if cache is None or cache != cache else str(cache)
        for name, value in (("dtype", precision), ("kv_dtype", cache)):
            if value not in BYTES:
                row = int(part.index[0]) + 1
                raise ValueError(f"{path}: row {row}: {name} = {value!r} must be one of {', '.join(BYTES)}")
        labels = {**_heads(str(structure["shape_tag"]), part, path), "kv_bytes": BYTES[cache], "copies": 1.0}
    return listed(part, kind, precision, labels, columns, path)


def _heads(tag: str, part: Any, path: Path) -> dict[str, float]:
    """Heads of one device: the name of the shape is heads-kv_heads-width, of the whole model where it ends in -tpN."""
    match = _HEADS.match(tag)
    if match is None:
        raise ValueError(f"{path}: row {int(part.index[0]) + 1}: {tag!r} must be HEADS-KV_HEADS-WIDTH, as in 32-8-128")
    heads, kv_heads, width, tp = (float(text or 1) for text in match.groups())
    # Tensor parallelism splits heads; KV heads are copied where there are fewer than devices.
    return {"head_dim": width, "heads": heads / tp, "kv_heads": max(kv_heads / tp, 1.0)}


def _united(found: Any, path: Path) -> Any:
    folders = path.resolve().parts[:-1]
    for operator in TABLES:
        names = tuple(operator.split("/"))
        # Folders of the operator come directly before that of the device.
        if folders[-1 - len(names) : -1] == names:
            return found.assign(table=operator, gpu=folders[-1], shape_tag=path.stem)
    raise ValueError(
        f"{path}: which operator and device it is of must be in its folders, as in mha/decode/h20/32-8-128.csv; "
        f"known operators: {', '.join(TABLES)}"
    )

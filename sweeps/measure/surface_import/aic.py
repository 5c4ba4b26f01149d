"""Tables of kernels as the collectors of aiconfigurator measure them, united over devices, engines and versions."""

from pathlib import Path
from typing import Any

from sweeps.measure.kernel_data.attention import BYTES, COMPUTE
from sweeps.measure.kernel_data.gemm import COPIES, FORMATS
from sweeps.measure.kernel_data.group import require_columns, table
from sweeps.measure.surface_import.kernel_rows import (
    KernelRows,
    MeasuredFile,
    WantedRows,
    counted,
    listed,
    of_device,
    only,
)

KEYS = ("gpu", "backend", "version", "latency_us")

PRODUCT = ("dtype", "m", "n", "k")
PREFILL = ("attn_dtype", "kv_dtype", "head_dim", "window", "n_heads", "n_kv_heads", "batch", "seq_q", "kv_past")
DECODE = ("attn_dtype", "kv_dtype", "head_dim", "window", "n_heads", "n_kv_heads", "batch", "kv_len")
"""Columns by which the three families are told apart."""

_LABELS = {"head_dim": "head_dim", "heads": "n_heads", "kv_heads": "n_kv_heads"}


def recognised(path: Path) -> bool:
    """Whether `path` looks like such a file."""
    return path.suffix == ".parquet"


def measured(path: Path, wanted: WantedRows) -> MeasuredFile:
    """Rows of one device, engine and version in the file.

    Sliding windows, other kernels of the same engine than its most frequent one, eagerly launched products and rows
    that the table marks as suspect are left out, each with a count.

    Raises:
      ValueError: one line: a column is missing, or there are several devices, engines or versions and none is chosen.
    """
    frame = table(path, KEYS).reset_index(drop=True)
    # No column names the family: it is told by which columns there are.
    if set(PRODUCT) <= set(frame.columns) and "attn_dtype" not in frame.columns:
        family, kind, axes = PRODUCT, "linear", {"m": "m", "n": "n", "k": "k"}
    elif "kv_len" in frame.columns:
        family, kind, axes = DECODE, "decode_attention", {"sequences": "batch", "keys": "kv_len"}
    else:
        family, kind, axes = PREFILL, "prefill_attention", {"sequences": "batch", "queries": "seq_q"}
    require_columns(frame, family, path)
    frame, device = of_device(frame, wanted.gpu, path)
    frame, engine = only(frame, "backend", wanted.engine, "--engine", path)
    frame, version = only(frame, "version", wanted.version, "--version", path)
    frame, left = _plain(frame)
    rows: list[KernelRows] = []
    # One table for each precision, and of attention for each set of heads and their width.
    structure = ["dtype"] if kind == "linear" else ["attn_dtype", "kv_dtype", *_LABELS.values()]
    for values, part in frame.groupby(structure, observed=True, sort=True):
        labels = _labels(dict(zip(structure, values, strict=True)))
        if labels is None:
            left.append(f"{len(part)} rows of {' '.join(map(str, values))}")
            continue
        # Kernels of one engine differ in speed, so that a table holds times of one of them.
        part, others = _one_kernel(part)
        left += others
        rows.append(listed(part, kind, *labels, axes, path))
    provenance = {"engine": engine, "engine_version": version, "source": f"aiconfigurator collector, {path.name}"}
    return MeasuredFile(tuple(rows), device, provenance, _summed(left))


def _plain(found: Any) -> tuple[Any, list[str]]:
    """Rows of plain causal attention without a past, of replayed graphs, that are not marked; and what is left out."""
    left = []
    for column, allowed, what in (
        ("timing", "cudagraph", "launched eagerly"),
        ("suspect", 0, "marked as suspect"),
        ("window", 0, "with a sliding window"),
        ("kv_past", 0, "with a cached past"),
    ):
        if column in found.columns:
            # A cell without a value passes: the table does not say anything against the row.
            out = found[column].notna() & (found[column] != allowed)
            if out.any():
                left.append(f"{int(out.sum())} rows {what}")
            found = found[~out]
    return found, left


def _labels(values: dict[str, Any]) -> tuple[str, dict[str, float]] | None:
    """Precision and labels of a table; None where the precision is not modelled."""
    if "dtype" in values:
        weights = FORMATS.get(str(values["dtype"]))
        if weights is None:
            return None
        # Flags are labels of a table only where they are set, so that names stay short.
        flags = {"scaled": weights.scaled, "dequantised": weights.dequantised}
        flags["quantised"] = weights.compute != "bf16"
        labels = {"weight_bytes": weights.bytes, "copies": COPIES}
        return weights.compute, labels | {name: 1.0 for name, flag in flags.items() if flag}
    compute, cache = COMPUTE.get(str(values["attn_dtype"])), BYTES.get(str(values["kv_dtype"]))
    if compute is None or cache is None:
        return None
    labels = {name: float(values[column]) for name, column in _LABELS.items()}
    # One copy: the benchmark reads the same cache again and again.
    return compute, labels | {"kv_bytes": cache, "copies": 1.0}


def _one_kernel(part: Any) -> tuple[Any, list[str]]:
    """Rows of the kernel that has most of them: one engine runs several, and they differ."""
    if "kernel_source" not in part.columns:
        return part, []
    kernels = part["kernel_source"].astype(str)
    chosen = kernels == kernels.value_counts().index[0]
    return part[chosen], counted("kernel " + kernels[~chosen])


def _summed(left: list[str]) -> tuple[str, ...]:
    """Sentences about the same thing as one."""
    counts: dict[str, int] = {}
    for sentence in left:
        number, _, what = sentence.partition(" ")
        counts[what] = counts.get(what, 0) + int(number)
    return tuple(f"{count} {what}" for what, count in counts.items())

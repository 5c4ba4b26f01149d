"""Tables of kernels as the collectors of aiconfigurator measure them, united over devices, engines and versions."""

from pathlib import Path
from typing import Any

from hwspaces.performance.surface import PAST
from sweeps.measure.kernel_data.attention import ABSORBED, BYTES, COMPUTE, NOPE, ROPE, VALUE, VECTOR
from sweeps.measure.kernel_data.experts import FORMATS as EXPERT_FORMATS
from sweeps.measure.kernel_data.experts import routed
from sweeps.measure.kernel_data.gemm import COPIES, FORMATS
from sweeps.measure.kernel_data.group import require_columns, table
from sweeps.measure.surface_import.kernel_rows import (
    KernelRows,
    MeasuredFile,
    WantedRows,
    counted,
    header,
    listed,
    numbers,
    of_device,
    only,
)

KEYS = ("gpu", "backend", "version", "latency_us")

NAMES = {
    "framework": "backend",
    "device": "gpu",
    "gemm_dtype": "dtype",
    "moe_dtype": "dtype",
    "kv_cache_dtype": "kv_dtype",
    "num_heads": "n_heads",
    "num_key_value_heads": "n_kv_heads",
    "batch_size": "batch",
    "window_size": "window",
    "isl": "seq_q",
    "step": "kv_past",
}
"""Column of the collector's own files -> that of the united ones, where they differ; its `latency` is in ms."""

MEMORY = r" \d+ ?GB\b.*"
"""Size and kind of memory in a driver's name of a device: NVIDIA H100 80GB HBM3."""

PRODUCT = ("dtype", "m", "n", "k")
EXPERTS = ("dtype", "distribution", "num_tokens", "hidden_size", "inter_size", "topk", "num_experts")
LATENT = ("mla_dtype", "kv_dtype", "n_heads", "batch")
PREFILL = ("attn_dtype", "kv_dtype", "head_dim", "n_heads", "n_kv_heads", "batch", "seq_q")
DECODE = ("attn_dtype", "kv_dtype", "head_dim", "n_heads", "n_kv_heads", "batch", "kv_len")
"""Columns by which the families are told apart."""

WHOLE = ("gemm_type", "architecture", "component")
"""Columns of tables that time a whole block, with its projections: no op is the block."""


def recognised(path: Path) -> bool:
    """Whether `path` looks like such a file."""
    return path.suffix == ".parquet" or header(path)[:3] == ["framework", "version", "device"]


def measured(path: Path, wanted: WantedRows) -> MeasuredFile:
    """Rows of one device, engine and version in the file.

    Sliding windows, other kernels of the same engine than its most frequent one, eagerly launched products, uneven
    routings where there are even ones, and rows that the table marks as suspect are left out, each with a count.

    Raises:
      ValueError: one line: a column is missing, or there are several devices, engines or versions and none is chosen.
    """
    frame = _united(table(path, ()), path)
    require_columns(frame, KEYS, path)
    frame, device = of_device(frame, wanted.gpu, path)
    frame, engine = only(frame, "backend", wanted.engine, "--engine", path)
    frame, version = only(frame, "version", wanted.version, "--engine-version", path)
    provenance = {"engine": engine, "engine_version": version, "source": f"aiconfigurator collector, {path.name}"}
    # No column names the family: it is told by which columns there are.
    columns = set(frame.columns)
    if columns & set(WHOLE):
        left = [f"{len(frame)} rows of whole blocks with their projections: no op is the block"]
        return MeasuredFile((), device, provenance, tuple(left))
    if set(EXPERTS) <= columns:
        rows, left = _experts(frame, path)
    elif set(PRODUCT) <= columns and "attn_dtype" not in columns:
        rows, left = _kernels(frame, "linear", {"m": "m", "n": "n", "k": "k"}, ["dtype"], path)
    elif "mla_dtype" in columns:
        require_columns(frame, LATENT, path)
        rows, left = _latent(frame, engine, path)
    elif "kv_len" in columns:
        require_columns(frame, DECODE, path)
        axes = {"sequences": "batch", "keys": "kv_len"}
        rows, left = _kernels(frame, "decode_attention", axes, ["attn_dtype", "kv_dtype", *_SIZES.values()], path)
    elif "attn_dtype" not in columns:
        left = [f"{len(frame)} rows of kernels that no table of ours is of"]
        return MeasuredFile((), device, provenance, tuple(left))
    else:
        require_columns(frame, PREFILL, path)
        rows, left = _kernels(
            frame, "prefill_attention", _prompt_axes(frame), ["attn_dtype", "kv_dtype", *_SIZES.values()], path
        )
    return MeasuredFile(tuple(rows), device, provenance, _summed(left))


def _united(found: Any, path: Path) -> Any:
    """The collector's own file with the united files' columns: us, keys in place of steps."""
    if "latency" in found.columns and "latency_us" not in found.columns:
        found = found.assign(latency_us=1e3 * numbers(found, "latency", path))
    found = found.rename(columns={own: name for own, name in NAMES.items() if name not in found.columns})
    if "generation" in path.name and "kv_len" not in found.columns and {"kv_past", "seq_q"} <= set(found.columns):
        # One new token after `step` cached ones.
        found = found.assign(kv_len=found["kv_past"] + 1)
        found = found if "mla_dtype" in found.columns else found.drop(columns=["kv_past"])
    if "gpu" in found.columns:
        # Drivers put the vendor in front and the memory behind: NVIDIA H100 80GB HBM3.
        names = found["gpu"].astype(str).str.removeprefix("NVIDIA ")
        found = found.assign(gpu=names.str.replace(MEMORY, "", regex=True).str.strip())
    return found


def _prompt_axes(frame: Any) -> dict[str, str]:
    axes = {"sequences": "batch", "queries": "seq_q"}
    return axes | {PAST: "reached"} if "kv_past" in frame.columns and (frame["kv_past"] > 0).any() else axes


def _kernels(
    frame: Any, kind: str, axes: dict[str, str], structure: list[str], path: Path
) -> tuple[list[KernelRows], list[str]]:
    """Rows by structure: one table for each precision, and of attention for each set of heads and their width."""
    frame, left = _plain(frame)
    if PAST in axes and kind == "prefill_attention":
        frame = frame.assign(reached=frame["seq_q"] + frame["kv_past"])
    rows: list[KernelRows] = []
    for values, part in frame.groupby(structure, observed=True, sort=True):
        labels = _labels(dict(zip(structure, values, strict=True)))
        if labels is None:
            left.append(f"{len(part)} rows of {' '.join(map(str, values))}")
            continue
        # Kernels of one engine differ in speed, so that a table holds times of one of them.
        part, others = _one_kernel(part)
        left += others
        rows.append(listed(part, kind, *labels, axes, path))
    return rows, left


def _latent(frame: Any, engine: str, path: Path) -> tuple[list[KernelRows], list[str]]:
    """Attention cores of latent attention: to the cached vectors, or of prompts to keys and values of every head."""
    decoding = "generation" in path.name or bool((frame["seq_q"] == 1).all())
    frame, left = _plain(frame)
    absorbed = decoding or engine in ABSORBED
    if decoding:
        frame, axes = frame.assign(reached=frame["kv_past"] + 1), {"sequences": "batch", "keys": "reached"}
    else:
        axes = _prompt_axes(frame)
        frame = frame.assign(reached=frame["seq_q"] + frame.get("kv_past", 0))
    rows: list[KernelRows] = []
    for (dtype, kv_dtype, heads), part in frame.groupby(["mla_dtype", "kv_dtype", "n_heads"], observed=True, sort=True):
        compute, cache = COMPUTE.get(str(dtype)), BYTES.get(str(kv_dtype))
        if compute is None or cache is None:
            left.append(f"{len(part)} rows of {dtype} {kv_dtype}")
            continue
        part, others = _one_kernel(part)
        left += others
        sizes = {"head_dim": NOPE + ROPE, "heads": float(heads), "kv_heads": float(heads), "value_dim": VALUE}
        if absorbed:
            sizes = {"head_dim": VECTOR + ROPE, "heads": float(heads), "kv_heads": 1.0, "value_dim": VECTOR}
            sizes["latent"] = 1.0
        # Expanded keys and values have 16 bits, whatever the cache's format.
        labels = sizes | {"kv_bytes": cache if absorbed else 2.0, "copies": 1.0}
        rows.append(listed(part, "decode_attention" if decoding else "prefill_attention", compute, labels, axes, path))
    return rows, left


def _experts(frame: Any, path: Path) -> tuple[list[KernelRows], list[str]]:
    """Whole layers of experts in one call, as the first device of an expert-parallel group runs them."""
    left = []
    frame = frame.assign(**{name: frame[name].astype(str) for name in ("dtype", "distribution", "kernel_source")})
    even = frame["distribution"] == "balanced"
    if even.any() and not even.all():
        # Steps spread tokens evenly, and multiply by their own imbalance.
        left += counted("distribution " + frame["distribution"][~even])
        frame = frame[even]
    # The index says where a row stands in its file, which a merge forgets.
    index = frame.index
    frame = routed(frame)
    frame.index = index
    frame = frame.assign(
        mean_rows=frame["rows"] / frame["touched"].clip(lower=1e-9), inner=frame["inter_size"] / frame["moe_tp_size"]
    )
    rows: list[KernelRows] = []
    axes = {"tokens": "num_tokens", "m": "mean_rows", "matrices": "touched", "hidden": "hidden_size", "inner": "inner"}
    for (dtype, ups), part in frame.groupby(["dtype", "up_projections"], observed=True, sort=True):
        weights = EXPERT_FORMATS.get(str(dtype))
        if weights is None:
            left.append(f"{len(part)} rows of {dtype}")
            continue
        part, others = _one_kernel(part[part["touched"] > 0])
        left += others
        # Layers of several models have the same experts on a device: their mean.
        part = part.assign(latency_us=part.groupby(list(axes.values()))["latency_us"].transform("mean"))
        part = part[~part.duplicated(list(axes.values()))]
        labels = {"weight_bytes": weights.bytes, "up_projections": float(ups)}
        labels |= {name: 1.0 for name in ("scaled", "dequantised") if getattr(weights, name)}
        rows.append(listed(part, "expert_layer", weights.compute, labels, axes, path))
    return rows, left


_SIZES = {"head_dim": "head_dim", "heads": "n_heads", "kv_heads": "n_kv_heads"}


def _plain(found: Any) -> tuple[Any, list[str]]:
    """Rows of plain causal attention without a past, of replayed graphs, that are not marked; and what is left out."""
    left = []
    for column, allowed, what in (
        ("timing", "cudagraph", "launched eagerly"),
        ("suspect", 0, "marked as suspect"),
        ("window", 0, "with a sliding window"),
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
    labels = {name: float(values[column]) for name, column in _SIZES.items()}
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

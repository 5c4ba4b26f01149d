"""Benchmarks as InferSim keeps them: one csv per operator and device, or one csv that unites them."""

import dataclasses
import re
from collections.abc import Callable
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
    numbers,
    of_device,
)

GEMM_PRECISION = "fp8"
"""Of the products: they are DeepGEMM's, with a scale per block of 128 operands, as the scripts that measure them say.
Source: alibaba/InferSim, kernel_benchmark."""

SCALED_BYTES = 1.0 + 4.0 / 128**2
"""B per weight of them: 8 bits, and 4 B per block of 128 x 128."""

SCALE_BYTES = 4.0
"""B of the scale of one cached key of an indexer. Source: deepseek-ai/DeepGEMM, fp8_paged_mqa_logits."""

BYTES = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0}

GROUPED = ("num_local_experts", "hidden_size", "intermediate_size", "tokens_per_expert", "up_proj_us", "down_proj_us")
"""Columns of a grouped product: experts of one device, each with so many tokens; times of both products."""

UNJOINED = "recurrent states of linear attention: no op has their shape"
"""Reason for which tables of gated delta nets are left out."""

_NUMBERS = re.compile(r"(?:[a-z]+-)?(\d+(?:-\d+)*)(?:-tp(\d+))?$")


def recognised(path: Path) -> bool:
    """Whether `path` looks like such a file: by its header."""
    if path.suffix != ".csv":
        return False
    columns = header(path)
    measured_time = {"latency_us", "mfu"} <= set(columns) or set(GROUPED) <= set(columns)
    return measured_time or columns[:2] in (["seq_len", "conv"], ["batchsize", "conv"])


def measured(path: Path, wanted: WantedRows) -> MeasuredFile:
    """Rows of one device in the file.

    Of a single operator's file, folders say which it is, as in `bench_data/mha/decode/h20/32-8-128.csv`: operator,
    device, and heads, KV heads and width of a head.

    Raises:
      ValueError: one line: a column is missing, a row has no numbers, heads are not where they should be, there are
        several devices and none is chosen.
    """
    frame = table(path, ())
    # Only the united file has that column; of a single operator's file the folders tell what it is.
    if "table" not in frame.columns:
        frame = _united(frame, path)
    else:
        require_columns(frame, ("gpu", "shape_tag"), path)
    frame, device = of_device(frame, wanted.gpu, path)
    rows: list[KernelRows] = []
    for name, reader in OPERATORS.items():
        own = frame[frame["table"] == name]
        keys = ["shape_tag", *(name for name in ("dtype", "kv_dtype") if name in own.columns)]
        # Rows without a value in a key are a group as well, which pandas would drop otherwise.
        for values, part in own.groupby(keys, dropna=False, sort=True):
            rows += reader(part, dict(zip(keys, values, strict=True)), path)
    left = [f"{count} ({UNJOINED})" for count in counted(frame[~frame["table"].isin(OPERATORS)]["table"])]
    return MeasuredFile(tuple(rows), device, {"source": f"InferSim benchmark, {path.name}"}, tuple(left))


def _gemm(part: Any, structure: dict[str, Any], path: Path) -> list[KernelRows]:
    require_columns(part, ("m", "n", "k", "latency_us"), path)
    labels = {"weight_bytes": SCALED_BYTES, "scaled": 1.0}
    return [listed(part, "linear", GEMM_PRECISION, labels, {"m": "m", "n": "n", "k": "k"}, path)]


def _grouped(part: Any, structure: dict[str, Any], path: Path) -> list[KernelRows]:
    """Both products of every row: gate and up side by side, and down. Rows of one shape are repeats: their mean."""
    require_columns(part, GROUPED, path)
    shape = ["tokens_per_expert", "num_local_experts", "hidden_size", "intermediate_size"]
    part = part.assign(**{name: numbers(part, name, path) for name in GROUPED})
    decoding = str(part["table"].iloc[0]).endswith("decode")
    if decoding:
        # The script gives an expert int(x) rows, x up to 30 % off the mean: at a mean of one, half of them have none.
        few = part["tokens_per_expert"] == 1
        part["num_local_experts"] = part["num_local_experts"].where(~few, 0.5 * part["num_local_experts"])
    # The first row of a shape says where it stands.
    part = part.assign(**{time: part.groupby(shape)[time].transform("mean") for time in ("up_proj_us", "down_proj_us")})
    part = part[~part.duplicated(shape)].assign(both=2.0 * part["intermediate_size"])
    labels = {"weight_bytes": SCALED_BYTES, "scaled": 1.0}
    axes = {"m": "tokens_per_expert", "matrices": "num_local_experts"}
    up, down = ("both", "hidden_size"), ("hidden_size", "intermediate_size")
    rows = [
        listed(
            part.assign(latency_us=part[time]),
            "experts",
            GEMM_PRECISION,
            labels,
            axes | {"n": outputs, "k": inputs},
            path,
        )
        for time, (outputs, inputs) in (("up_proj_us", up), ("down_proj_us", down))
    ]
    return [dataclasses.replace(own, variant="decode" if decoding else "prefill") for own in rows]


def _prefill(part: Any, structure: dict[str, Any], path: Path) -> list[KernelRows]:
    heads, kv_heads, width = _heads(structure, 3, "HEADS-KV_HEADS-WIDTH, as in 32-8-128", part, path)
    sizes = {"head_dim": width, "heads": heads, "kv_heads": kv_heads}
    return _prompts(part, structure, sizes, {"queries": "seq_len"}, path)


def _latent_prefill(part: Any, structure: dict[str, Any], path: Path) -> list[KernelRows]:
    """Keys and values of every head, as latent attention expands them for prompts."""
    heads, nope, rope = _heads(structure, 3, "HEADS-WIDTH-ROTATED, as in 128-128-64", part, path, copied=False)
    # Values are as wide as the part of a key that is not rotated. Source: DeepSeek-V3's config.json.
    sizes = {"head_dim": nope + rope, "heads": heads, "kv_heads": heads, "value_dim": nope}
    return _prompts(part, structure, sizes, {"queries": "seq_len"}, path)


def _decode(part: Any, structure: dict[str, Any], path: Path) -> list[KernelRows]:
    heads, kv_heads, width = _heads(structure, 3, "HEADS-KV_HEADS-WIDTH, as in 32-8-128", part, path)
    sizes = {"head_dim": width, "heads": heads, "kv_heads": kv_heads}
    return [_attention(part, "decode_attention", structure, sizes, _DECODED, path)]


def _latent_decode(part: Any, structure: dict[str, Any], path: Path) -> list[KernelRows]:
    heads, latent, rope = _heads(structure, 3, "HEADS-LATENT-ROTATED, as in 128-512-64", part, path, copied=False)
    return [_attention(part, "decode_attention", structure, _latent(heads, latent + rope, latent), _DECODED, path)]


def _sparse_decode(part: Any, structure: dict[str, Any], path: Path) -> list[KernelRows]:
    if str(structure["shape_tag"]).startswith("logits"):
        return [_scores(part, "decode_scores", structure, _SCORED, path)]
    return [_attention(part, "decode_attention", structure, _selected(part, structure, path), _DECODED, path)]


def _sparse_prefill(part: Any, structure: dict[str, Any], path: Path) -> list[KernelRows]:
    columns = {"queries": "s_q", "keys": "s_kv"}
    if str(structure["shape_tag"]).startswith("logits"):
        return [_scores(part.assign(one=1.0), "prefill_scores", structure, {"sequences": "one", **columns}, path)]
    return _prompts(part, structure, _selected(part, structure, path), columns, path)


_DECODED = {"sequences": "batch_size", "keys": "kv_len"}
_SCORED = {"sequences": "batchsize", "queries": "next_n", "keys": "s_kv"}

OPERATORS: dict[str, Callable[[Any, dict[str, Any], Path], list[KernelRows]]] = {
    "gemm": _gemm,
    "grouped_gemm/prefill": _grouped,
    "grouped_gemm/decode": _grouped,
    "mha/prefill": _prefill,
    "mha/decode": _decode,
    "mla/prefill": _latent_prefill,
    "mla/decode": _latent_decode,
    "dsa/prefill": _sparse_prefill,
    "dsa/decode": _sparse_decode,
}
"""Operator -> what makes rows of ours of its own, of one shape of heads and of precisions."""

LEFT_OUT = ("gdn/prefill", "gdn/decode")
"""Operators that are left out, with `UNJOINED` as the reason."""

_ROTATED = 64.0
"""Elements of a cached vector beside its values, where the name of a shape does not say it: DeepSeek-V3.2's."""


def _latent(heads: float, width: float, value: float) -> dict[str, float]:
    return {"head_dim": width, "heads": heads, "kv_heads": 1.0, "value_dim": value, "latent": 1.0}


def _selected(part: Any, structure: dict[str, Any], path: Path) -> dict[str, float]:
    heads, width, most = _heads(
        structure, 3, "attn-HEADS-WIDTH-SELECTED, as in attn-128-576-2048", part, path, copied=False
    )
    return {**_latent(heads, width, width - _ROTATED), "selected": most}


def _scores(part: Any, kind: str, structure: dict[str, Any], columns: dict[str, str], path: Path) -> KernelRows:
    """Scores of an indexer, DeepGEMM's at 8 bits whatever the columns of precisions say."""
    heads, width = _heads(structure, 2, "logits-HEADS-WIDTH, as in logits-64-128", part, path)
    labels = {"heads": heads, "head_dim": width, "kv_bytes": 1.0 + SCALE_BYTES / width}
    require_columns(part, (*columns.values(), "latency_us"), path)
    return listed(part, kind, GEMM_PRECISION, labels, columns, path)


def _prompts(
    part: Any, structure: dict[str, Any], sizes: dict[str, float], columns: dict[str, str], path: Path
) -> list[KernelRows]:
    """Attention of one prompt."""
    columns = {"sequences": "one", **columns}
    return [_attention(part.assign(one=1.0), "prefill_attention", structure, sizes, columns, path)]


def _attention(
    part: Any, kind: str, structure: dict[str, Any], sizes: dict[str, float], columns: dict[str, str], path: Path
) -> KernelRows:
    require_columns(part, ("dtype", *columns.values(), "latency_us"), path)
    precision, cache = str(structure["dtype"]), structure.get("kv_dtype")
    # An empty cell is NaN, which differs from itself: the cache then has the precision of the products.
    cache = precision if cache is None or cache != cache else str(cache)
    for name, value in (("dtype", precision), ("kv_dtype", cache)):
        if value not in BYTES:
            row = int(part.index[0]) + 1
            raise ValueError(f"{path}: row {row}: {name} = {value!r} must be one of {', '.join(BYTES)}")
    labels = {**sizes, "kv_bytes": BYTES[cache], "copies": 1.0}
    return listed(part, kind, precision, labels, columns, path)


def _heads(
    structure: dict[str, Any], count: int, form: str, part: Any, path: Path, copied: bool = True
) -> tuple[float, ...]:
    """Numbers in the name of a shape, its heads those of one device; of the whole model where it ends in -tpN.

    `copied`: the second number is KV heads, which are copied where there are fewer than devices.
    """
    match = _NUMBERS.match(str(structure["shape_tag"]))
    sizes = [] if match is None else [float(text) for text in match[1].split("-")]
    if match is None or len(sizes) != count:
        raise ValueError(f"{path}: row {int(part.index[0]) + 1}: {structure['shape_tag']!r} must be {form}")
    tp = float(match[2] or 1)
    # Tensor parallelism splits heads.
    sizes[0] /= tp
    if copied and count > 2:
        sizes[1] = max(sizes[1] / tp, 1.0)
    return tuple(sizes)


def _united(found: Any, path: Path) -> Any:
    folders = path.resolve().parts[:-1]
    known = (*OPERATORS, *LEFT_OUT)
    for operator in known:
        names = tuple(operator.split("/"))
        # Folders of the operator come directly before that of the device.
        if folders[-1 - len(names) : -1] == names:
            return found.assign(table=operator, gpu=folders[-1], shape_tag=path.stem)
    raise ValueError(
        f"{path}: which operator and device it is of must be in its folders, as in mha/decode/h20/32-8-128.csv; "
        f"known operators: {', '.join(known)}"
    )

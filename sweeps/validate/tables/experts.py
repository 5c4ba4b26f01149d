"""Routed experts of a layer in one call: `aic_moe.parquet`, without the router and the choice of experts."""

import dataclasses
import functools
from pathlib import Path
from typing import Any

from jaxroof.layers.elementwise import elementwise
from jaxroof.layers.feedforward import ACTIVATION_FLOPS
from jaxroof.layers.linear import Matrix, projection
from jaxroof.model import WeightFormat
from jaxroof.op import Op
from sweeps.validate.tables.gemm import ACTIVATION_BYTES
from sweeps.validate.tables.gemm import FORMATS as DENSE
from sweeps.validate.tables.group import Call, Columns, Group, groups, table
from sweeps.validate.tables.routing import routing

FILE = "aic_moe.parquet"

FORMATS = DENSE | {
    "w4a16_mxfp4": WeightFormat(bytes=0.5 + 1.0 / 32, compute="bf16", dequantised=True),
    "w4a8_mxfp4_mxfp8": WeightFormat(bytes=0.5 + 1.0 / 32, compute="fp8", scaled=True),
}
"""dtype of the table -> how weights are stored and multiplied."""

UNGATED = "nongated"
"""Part of the names of kernels whose experts have one up projection."""

ROUTING = ("distribution", "num_tokens", "num_experts", "topk", "moe_ep_size")
NUMBERS = ("num_tokens", "hidden_size", "inter_size", "moe_tp_size", "rows", "touched", "largest")
LABELS = {"dtype": "{}", "gated": "", "balanced": ""}


def expert_groups(folder: Path, **chosen: str) -> list[Group]:
    """Rows of all tables of experts.

    Args:
      folder: of the tables.
      chosen: values that columns must have: backend, gpu, dtype.
    """
    frame = expert_table(folder)
    for column, value in chosen.items():
        frame = frame[frame[column] == value]
    return groups(routed(frame), "experts", LABELS, NUMBERS, expert_call)


def expert_table(folder: Path) -> Any:
    """The table as it stands, texts as such."""
    texts = ("gpu", "backend", "version", "kernel_source", "dtype", "distribution")
    frame = table(folder / FILE, (*texts, *ROUTING, "hidden_size", "inter_size", "moe_tp_size", "latency_us"))
    return frame.assign(**{name: frame[name].astype(str) for name in texts})


def routed(frame: Any) -> Any:
    """The table with what the measured device gets: its rows, experts touched, and rows of the busiest."""
    names = list(ROUTING)
    kinds = frame[names].drop_duplicates()
    found = [routing(str(row[0]), *map(int, row[1:])) for row in kinds.itertuples(index=False)]
    kinds = kinds.assign(**{name: [getattr(each, name) for each in found] for name in ("rows", "touched", "largest")})
    frame = frame.merge(kinds, on=names, how="left")
    gated = ~frame.kernel_source.astype(str).str.contains(UNGATED)
    return frame.assign(gated=gated, balanced=frame.distribution == "balanced")


@functools.cache
def expert_call(dtype: str, gated: bool, balanced: bool) -> Call | None:
    """The ops of one call at `dtype`; None where the dtype is not modelled."""
    weights = FORMATS.get(dtype)
    if weights is None:
        return None
    up_projections = 2.0 if gated else 1.0

    def call(row: Columns) -> tuple[Op, ...]:
        rows, hidden = row["rows"], row["hidden_size"]
        width, touched = row["inter_size"] / row["moe_tp_size"], row["touched"]
        up = Matrix(hidden, up_projections * width, weights)
        down = Matrix(width, hidden, weights)
        ops = projection("up", rows, up, ACTIVATION_BYTES, 1.0, "experts", touched, row["num_tokens"])
        ops["activation"] = elementwise(
            rows, up.outputs, width, ACTIVATION_BYTES, ACTIVATION_FLOPS * width, 1.0, exps=width
        )
        ops |= projection("down", rows, down, ACTIVATION_BYTES, 1.0, "experts", touched)
        moved = rows + row["num_tokens"]
        ops["combine"] = elementwise(moved, hidden, 0.0, ACTIVATION_BYTES, 2.0 * hidden, 1.0)
        # The benchmark runs one layer again and again, so its weights are what L2 may still hold.
        reuse = touched * (up.inputs * up.outputs + down.inputs * down.outputs) * weights.bytes
        return tuple(_measured(op, reuse, None if balanced else row["largest"]) for op in ops.values())

    return call


def _measured(op: Op, reuse: Any, largest: Any) -> Op:
    if op.shape is None:
        return op
    return dataclasses.replace(op, reuse_bytes=reuse, shape=dataclasses.replace(op.shape, largest=largest))

"""Experts of one device under wide expert parallelism, predicted from their popularity: `expert_loads --data DIR`.

Nothing of the kernels is fitted to these rows: constants are the engines' own. The benchmark's power law says how many
rows the busiest device has (`jaxroof.layers.popularity`); beside it stand predictions for even loads. Of calls that a
host launches one by one the host's time is of H100 and H200.
"""

import argparse
import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import hwspaces
from jaxroof.layers.choices import distinct_experts
from jaxroof.layers.feedforward import ACTIVATION_FLOPS
from jaxroof.layers.linear import Matrix, elementwise, projection
from jaxroof.layers.popularity import busiest, visited
from jaxroof.op import AnyOp
from sweeps.measure.kernel_data.experts import FORMATS, NUMBERS, expert_call, measured_op
from sweeps.measure.kernel_data.group import Call, Columns, KernelGroup, groups, predicted, table
from tests.evidence.harness import command, data, error_text

TABLES = {
    "context": "moe__wideep_context_moe.parquet",
    "generation": "moe__wideep_generation_moe.parquet",
    "with placement": "moe__wideep_moe.parquet",
}
"""What was measured -> its table."""

SHAPE = ("num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size")
TEXTS = ("gpu", "backend", "version", "kernel_source", "moe_dtype", "distribution")

CALL_TIME = 420e-6
"""s of the host for one call in context, which launches about twenty kernels one by one: ours, of the fewest tokens on
H100 and H200 under SGLang 0.5.10. Its release 0.5.6 took 900 us on the host of H100 and as long on that of H200."""

QUANTISED = 1.0
"""B per element of the rows that arrive: 8 bits."""


def loads(frame: Any, even: bool) -> Any:
    """The table with the rows of the measured device, its experts that have some, and those of the busiest."""
    number = {name: frame[name].to_numpy(float) for name in SHAPE}
    tokens, experts, choices, devices = (number[name] for name in ("num_tokens", "num_experts", "topk", "moe_ep_size"))
    slots = frame["num_slots"].to_numpy(float) if "num_slots" in frame else experts
    placed = frame.distribution.str.endswith("_eplb").to_numpy(bool)
    exponent = frame.distribution.str.extract(r"power_law_([\d.]+)")[0].to_numpy(float)
    mean, held = tokens * choices / devices, slots / devices
    ratio, most, share = np.ones_like(mean), np.ones_like(mean), distinct_experts(slots, choices, tokens) / slots
    for copies, rows in ((None, ~placed), ((slots - experts)[placed], placed)):
        chosen = rows & np.isfinite(exponent) & (not even)
        if not chosen.any():
            continue
        own = [each[chosen] for each in (exponent, experts, choices, devices, tokens)]
        load = busiest(*own, copies=None if copies is None else copies[chosen[placed]])
        ratio[chosen], most[chosen], share[chosen] = load.device, load.expert, load.touched
    rows = mean * ratio
    visitors = tokens * visited(ratio, devices, choices) * -np.expm1(choices * np.log1p(-1.0 / devices))
    return frame.assign(
        num_tokens=np.maximum(visitors, 1.0),
        rows=rows,
        stored=rows,
        up_projections=2.0,
        touched=np.maximum(np.minimum(held * share, rows), np.minimum(rows, 1.0)),
        largest=np.minimum(np.maximum(tokens * choices / experts * most, rows / held), tokens),
        balanced=even | ~np.isfinite(exponent),
        dtype=frame.moe_dtype.astype(str),
    )


@functools.cache
def arrived_call(dtype: str, balanced: bool) -> Call | None:
    """Products of rows that arrive quantised, with the activation that quantises in between; nothing is combined."""
    weights = FORMATS.get(dtype)
    if weights is None:
        return None

    def call(row: Columns) -> tuple[AnyOp, ...]:
        rows, hidden, width = row["rows"], row["hidden_size"], row["inter_size"] / row["moe_tp_size"]
        up, down = Matrix(hidden, 2.0 * width, weights), Matrix(width, hidden, weights)
        products = [
            projection(name, rows, matrix, 2.0, 1.0, "experts", row["touched"], rows)[name]
            for name, matrix in (("up", up), ("down", down))
        ]
        between = elementwise(
            rows,
            reads=up.outputs,
            writes=width * QUANTISED / 2.0,
            element_bytes=2.0,
            flops=ACTIVATION_FLOPS * width,
            count=1.0,
            exps=width,
        )
        reuse = row["touched"] * (up.inputs * up.outputs + down.inputs * down.outputs) * weights.bytes
        largest = None if balanced else row["largest"]
        return tuple(measured_op(op, reuse, largest) for op in (*products, between))

    return call


def scored(folder: Path, even: bool) -> Iterator[tuple[str, KernelGroup, np.ndarray]]:
    """What was measured, rows of one kernel and device, and their predicted times in s."""
    for what, name in TABLES.items():
        if not (folder / name).exists():
            continue
        frame = table(folder / name, (*TEXTS, *SHAPE, "latency_us"))
        frame = loads(frame.assign(**{text: frame[text].astype(str) for text in TEXTS}), even)
        call = arrived_call if what == "generation" else expert_call
        for group in groups(frame, "experts", {"dtype": "{}", "balanced": ""}, NUMBERS, call):
            entry = hwspaces.hardware(group.device)
            efficiency = hwspaces.efficiency(f"learned-{group.engine}").efficiency
            times, _ = predicted(group, entry.hardware, efficiency)
            floor = CALL_TIME if what == "context" else 0.0
            yield what, group, np.maximum(times, floor)


@command(data("folder of the tables of wide expert parallelism"))
def main(options: argparse.Namespace) -> None:
    """Print median, MAPE and signed median in % by table and device, for even loads and by popularity."""
    for even in (True, False):
        print(f"# {'even loads' if even else 'loads by popularity'}: median, MAPE, signed median, %")
        found: dict[tuple[str, ...], list[tuple[np.ndarray, np.ndarray]]] = {}
        for what, group, times in scored(options.data, even):
            for key in ((what, "all devices"), (what, group.device), (what, group.device, group.version)):
                found.setdefault(key, []).append((times, group.seconds))
        for key, parts in sorted(found.items()):
            times, measured = (np.concatenate(each) for each in zip(*parts, strict=True))
            print(f"{' '.join(key):44}{len(times):6} rows  {error_text(times, measured)}")


if __name__ == "__main__":
    sys.exit(main())

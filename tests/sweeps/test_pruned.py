"""Pruned sweeps: bounds hold for every point of a box, and what is kept is the same as without bounds, bit by bit."""

import functools
import itertools
import pathlib
import tempfile
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeps.run.engine import Plan
from sweeps.run.shards.run import run
from sweeps.run.shards.work import ShardWork

pytest.importorskip("llvmlite")

from sweeps.data.shards.read import open as opened
from sweeps.run.native.graph import Graph
from sweeps.run.native.loops import Bound, Loops
from sweeps.run.pruned import boxes, search
from sweeps.run.pruned.arithmetic import Range
from sweeps.run.pruned.intervals import Intervals
from sweeps.run.pruned.tables import Extremes

BINARY = ("add", "sub", "mul", "div", "max", "min")
UNARY = ("neg", "abs", "sqrt", "exp", "log", "floor", "ceil", "round")


def made(steps: list[tuple[str, int, int, float]]) -> tuple[Graph, list[int], list[int]]:
    """A graph of three inputs and some operations on what there is so far: with its inputs and its floats."""
    graph = Graph(np.dtype("float32"))
    inputs = [graph.input() for _ in range(3)]
    nodes = list(inputs)
    for operation, a, b, number in steps:
        x, y = nodes[a % len(nodes)], nodes[b % len(nodes)]
        if operation == "number":
            nodes.append(graph.number(np.float32(number)))
        elif operation in UNARY:
            nodes.append(graph.apply(operation, x))
        elif operation == "guard":  # x where it is above y, else a number: as divisors are guarded
            nodes.append(graph.apply("select", graph.apply("lt", y, x), graph.number(np.float32(number)), x))
        elif operation == "power":
            nodes.append(graph.apply("pow", x, graph.number(np.float32(number))))
        else:
            nodes.append(graph.apply(operation, x, y))
    return graph, inputs, nodes


STEP = st.tuples(
    st.sampled_from((*BINARY, *BINARY, *UNARY, "guard", "power", "number")),
    st.integers(0, 20),
    st.integers(0, 20),
    st.sampled_from((-2.0, -0.0, 0.0, 0.5, 1.0, 3.0)),
)


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(STEP, min_size=2, max_size=9),
    lows=st.lists(st.sampled_from((-3.0, -0.5, 0.0, 1.0, 7.0, 1e-3)), min_size=3, max_size=3),
    widths=st.lists(st.sampled_from((0.0, 0.25, 4.0, 1e6)), min_size=3, max_size=3),
    seed=st.integers(0, 1000),
)
def test_values_of_compiled_loops_are_within_their_intervals(
    steps: list[Any], lows: list[float], widths: list[float], seed: int
) -> None:
    graph, inputs, nodes = made(steps)
    outputs = [node for node in dict.fromkeys(nodes) if graph.operations[node] not in ("input", "number")]
    if not outputs:
        return
    random = np.random.default_rng(seed)
    columns: dict[int, np.ndarray] = {}
    for node, low, width in zip(inputs, lows, widths, strict=True):
        inner = np.float32(low) + random.random(64).astype(np.float32) * np.float32(width)
        own = np.append(inner, np.array([low, low + width, round(low)], np.float32))
        columns[node] = np.clip(own, np.float32(low), np.float32(low + width))
    given_ranges = {
        node: Range(float(values.min()), float(values.max()), minus=bool((values == 0).any()))
        for node, values in columns.items()
    }
    values = Bound(Loops(graph, dict.fromkeys(inputs, (0,)), outputs), columns, [67])([0])
    intervals = Intervals(graph, given_ranges, outputs)
    ends = {
        end: np.float32([getattr(given_ranges[node], side)])
        for node, pair in intervals.inputs.items()
        for end, side in zip(pair, ("low", "high"), strict=True)
    }
    bounds = [bound for node in outputs for bound in intervals.pair(node)]
    found = Bound(Loops(intervals.graph, dict.fromkeys(ends, (0,)), bounds), ends, [1])([0])
    for node in outputs:
        own = np.broadcast_to(values[node], 67)
        low, high = (float(np.ravel(found[bound])[0]) for bound in intervals.pair(node))
        numbers = own[~np.isnan(own)]
        assert not np.isnan([low, high]).any()
        assert (numbers >= low).all() and (numbers <= high).all()
        assert intervals.ranges[node].unknown or len(numbers) == 67


def test_guarded_divisor_is_above_zero() -> None:
    # 1 / (x where x > 0, else 1) over x from 0 to 4: without the guard's meaning it could be anything.
    graph = Graph(np.dtype("float32"))
    x = graph.input()
    zero, one = graph.number(np.float32(0)), graph.number(np.float32(1))
    quotient = graph.apply("div", one, graph.apply("select", graph.apply("lt", zero, x), one, x))
    intervals = Intervals(graph, {x: Range(0.0, 4.0, whole=True)}, [quotient])
    assert not intervals.ranges[quotient].unknown
    assert 0.24 < intervals.ranges[quotient].low and intervals.ranges[quotient].high < 1.1


def test_boxes_are_cut_down_to_every_point_once() -> None:
    sizes = [5, 1, 7]
    values = np.random.default_rng(0).random((5, 7)).astype(np.float32)
    tables = {9: Extremes(values, (0, 2), np.dtype("float32"))}
    cuts = boxes.levels(tables, sizes, [0, 1, 2], [1.0, 1.0, 0.1])
    found = boxes.first_boxes(cuts[0])
    for coarse, fine in itertools.pairwise(cuts):
        found = boxes.halves(found, coarse, fine)
        assert fine.points(found).sum() == 35
        # Extremes over a box are those of its points.
        for box in found[::3]:
            i, k = (slice(fine.firsts[a][box[a]], fine.firsts[a][box[a]] + fine.lengths[a][box[a]]) for a in (0, 2))
            assert fine.tables[9].low[box[0], box[2]] == values[i, k].min()
            assert fine.tables[9].high[box[0], box[2]] == values[i, k].max()
    assert sorted(map(tuple, found.tolist())) == sorted((i, 0, k) for i in range(5) for k in range(7))


def as_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sweeps of a few thousand points as if they were large."""
    monkeypatch.setattr("sweeps.run.sweep.Plan", functools.partial(Plan, compiler="llvm"))
    monkeypatch.setattr(search, "LEAST_POINTS", 0)
    monkeypatch.setattr(search, "POINTS_PER_BOX", 0.1)
    monkeypatch.setattr(search, "TOGETHER", 8)
    monkeypatch.setattr(search, "LOOKED", 64)
    monkeypatch.setattr(search, "TRIED", 64)
    monkeypatch.setattr(boxes, "BEGINNING", 4)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small sweeps are searched too."""
    as_large(monkeypatch)


def kept(place: pathlib.Path, spec: dict[str, Any], prune: bool) -> xr.Dataset:
    output = {**spec["output"], "prune": prune}
    work = ShardWork({**spec, "output": output}, 10_000)
    assert (work.pruning is not None) == prune
    run(place, work)
    return opened(place)


def same(place: pathlib.Path, spec: dict[str, Any]) -> tuple[int, int]:
    """Points that a pruned sweep computes, and all, after comparing what both ways keep."""
    pruned, whole = kept(place / "pruned", spec, True), kept(place / "whole", spec, False)
    assert set(pruned.data_vars) == set(whole.data_vars)
    for name in whole.data_vars:
        assert pruned[name].dtype == whole[name].dtype
        assert pruned[name].values.tobytes() == whole[name].values.tobytes(), name
    assert "points_computed" not in whole.attrs
    return pruned.attrs["points_computed"], pruned.attrs["points"]


SPACE: dict[str, Any] = {
    "space": "gpu-n3",
    "model": "Llama-3.1-8B",
    "efficiency": "derated",
    "deployment": {"tp": [1, 2, 4]},
    "workload": {"batch": [1, 8, 64], "isl": [512, 2048], "osl": 128},
    "axes": {
        "hardware.cores.count": {"from": 64, "to": 312, "n": 7},
        "hardware.power.curve.full": {"from": "0.65 V", "to": "1.05 V", "n": 5},
        "hardware.design.stacks": [4, 6, 9, 12],
        "hardware.memory.l2.capacity": {"from": "64 MiB", "to": "512 MiB", "n": 4, "scale": "log"},
    },
    "output": {
        "variables": ["owning_usd_per_million_tokens", "tokens_per_second_per_request", "ttft"],
        "keep": ["pareto=tokens_per_second_per_request:owning_usd_per_million_tokens", "top=20:ttft"],
    },
}


def test_pruned_design_space_keeps_the_same_points(small: None, tmp_path: pathlib.Path) -> None:
    # Designs beyond a limit of their package are among them, and every isl has a front of its own.
    computed, points = same(tmp_path, SPACE)
    assert computed < points / 4


def test_pruned_sweep_of_kernels_keeps_the_same_points(small: None, tmp_path: pathlib.Path) -> None:
    # Tiles and waves: times are not monotone in the number of cores.
    spec = {
        "hardware": "H100-SXM",
        "model": "Llama-3.1-8B",
        "efficiency": "learned",
        "workload": {"batch": {"from": 1, "to": 40, "n": 14}, "isl": 1000, "osl": 64},
        "axes": {
            "hardware.cores.count": {"from": 90, "to": 140, "n": 26},
            "hardware.memory.hbm.bandwidth": {"from": "2 TB/s", "to": "8 TB/s", "n": 12, "scale": "log"},
        },
        "output": {"variables": ["ttft", "tpot"], "keep": ["pareto=ttft:tpot", "top=7:tpot"]},
    }
    computed, points = same(tmp_path, spec)
    assert computed < points


def test_ties_keep_the_first_point(small: None, tmp_path: pathlib.Path) -> None:
    # On one device links carry nothing: all positions along them are equal.
    spec = {
        "hardware": "H100-SXM",
        "model": "Llama-3.1-8B",
        "efficiency": "derated",
        "workload": {"batch": [1, 4, 16, 64], "isl": 1024, "osl": 64},
        "axes": {
            "hardware.links.scale_up.bandwidth": {"from": "50 GB/s", "to": "900 GB/s", "n": 13},
            "hardware.memory.hbm.bandwidth": {"from": "2 TB/s", "to": "8 TB/s", "n": 30},
        },
        "output": {"variables": ["tpot", "ttft"], "keep": ["pareto=ttft:tpot", "top=5:tpot"]},
    }
    same(tmp_path, spec)


@settings(max_examples=2, deadline=None)
@given(data=st.data())
def test_random_questions_keep_the_same_points(data: st.DataObject) -> None:
    draw = data.draw
    leaves = {
        "hardware.memory.hbm.bandwidth": {"from": "1 TB/s", "to": "16 TB/s", "n": 9, "scale": "log"},
        "hardware.matrix.bf16": {"from": "250 TFLOP/s", "to": "4 PFLOP/s", "n": 8, "scale": "log"},
        "hardware.memory.hbm.capacity": {"from": "40 GB", "to": "400 GB", "n": 6},
        "hardware.power.tdp": {"from": "200 W", "to": "1200 W", "n": 7},
        "hardware.links.scale_up.bandwidth": {"from": "50 GB/s", "to": "2 TB/s", "n": 5},
    }
    names = draw(st.lists(st.sampled_from(sorted(leaves)), min_size=2, max_size=3, unique=True))
    metrics = (
        "ttft",
        "tpot",
        "tokens_per_second_per_device",
        "joules_per_token",
        "mfu_decode",
        "usd_per_million_tokens",
    )
    job = draw(st.sampled_from(("derated", "learned", "datasheet")))
    spec = {
        "hardware": "H100-SXM",
        "model": draw(st.sampled_from(("Llama-3.1-8B", "Llama-3.1-70B", "Qwen3-30B-A3B"))),
        "efficiency": job,
        "deployment": {"tp": draw(st.sampled_from(([1, 2, 4], [4], [2, 8])))},
        "workload": {"batch": [1, 7, 32, 256], "isl": draw(st.sampled_from((512, [512, 4096]))), "osl": 100},
        "axes": {name: leaves[name] for name in names},
    }
    known = [name for name in metrics if name in _outputs(spec)]
    pair = draw(st.lists(st.sampled_from(known), min_size=2, max_size=2, unique=True))
    spec["output"] = {"variables": pair, "keep": [f"pareto={':'.join(pair)}", f"top=9:{pair[0]}"]}
    if draw(st.booleans()):
        spec["per"] = ["none"]
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as place:
        as_large(patch)
        same(pathlib.Path(place), spec)


def _outputs(spec: dict[str, Any]) -> set[str]:
    from sweeps.ask.spec import spec as checked
    from sweeps.run.sweep import planned

    first = {**spec, "axes": {}, "deployment": {"tp": 4}, "workload": {"batch": 1, "isl": 512, "osl": 100}}
    return set(planned(checked(first))[1].outputs)


def test_counts_of_points_are_not_pruned(small: None, tmp_path: pathlib.Path) -> None:
    output = {**SPACE["output"], "keep": ["top=3:ttft", "histogram"]}
    assert ShardWork({**SPACE, "output": output}, 5000).pruning is None

"""The engine against a plain loop: grids, samples, chunks, structures and precisions."""

import dataclasses
import math

import jax
import numpy as np
import pytest

import sweeps
from jaxroof.jobs.request import REQUEST, request_cost
from sweeps.ask.axes import Axis, Choice, replaced
from sweeps.ask.cases import case
from sweeps.ask.question import Question
from sweeps.ask.spec import spec
from sweeps.run.asked import asked
from sweeps.run.engine import Plan
from sweeps.run.precision import precision

METRICS = ("ttft", "tpot", "e2e")
AXES = {
    "deployment.tp": np.array([1.0, 2.0, 8.0]),
    "hardware.memory.hbm.bandwidth": np.geomspace(1e12, 8e12, 5),
    "hardware.links.scale_up.bandwidth": np.geomspace(5e10, 9e11, 4),
    "hardware.memory.hbm.capacity": np.array([4e10, 8e10]),
}


@pytest.fixture(scope="module")
def base():
    workload = {"batch": 4, "isl": 512, "osl": 64}
    return case("request", "H100-SXM", "Llama-3.1-8B", workload=workload, deployment={"tp": 1}).scenario


def grid_axes(values=AXES) -> tuple[Axis, ...]:
    return tuple(Axis(path, len(column), {path: column}, ()) for path, column in values.items())


def evaluated(question: Question, axes: tuple[Axis, ...], **options) -> dict[str, np.ndarray]:
    plan = Plan(question, axes, **{"most_eager": 0, **options})
    arrays = {name: np.zeros(output.shape, output.dtype) for name, output in plan.outputs.items()}
    for piece in plan.pieces():
        arrays[piece.name][piece.index] = piece.values
    return {name: (plan.outputs[name].dims, values) for name, values in arrays.items()}


def test_a_grid_equals_a_loop(base):
    results = evaluated(Question(REQUEST, base, METRICS), grid_axes())
    cost = jax.jit(lambda s: request_cost(s.hardware, s.model, s.deployment, s.workload, s.efficiency))
    names = list(AXES)
    for corner in np.ndindex(*(len(column) for column in AXES.values())):
        scenario = base
        for path, i in zip(names, corner, strict=True):
            scenario = replaced(scenario, path, float(AXES[path][i]))
        expected = cost(scenario)
        for name in METRICS:
            dims, values = results[name]
            value = values[tuple(corner[names.index(dim)] for dim in dims)]
            # float32 adds the same terms in another order
            np.testing.assert_allclose(value, getattr(expected, name), rtol=3e-6)


def test_a_variable_has_only_the_axes_that_it_depends_on(base):
    results = evaluated(Question(REQUEST, base), grid_axes())
    assert results["tpot"][0] == ("deployment.tp", "hardware.memory.hbm.bandwidth", "hardware.links.scale_up.bandwidth")
    assert results["weight_bytes"][0] == ("deployment.tp",)
    assert results["feasible"][0] == ("deployment.tp", "hardware.memory.hbm.capacity")


def test_numpy_and_compiled_programs_agree(base):
    """All metrics: their dimensions, types, and values to the rounding of float64."""
    question = Question(REQUEST, base)
    with precision("float64"):
        compiled = evaluated(question, grid_axes(), dtype="float64")
    at_once = evaluated(question, grid_axes(), dtype="float64", most_eager=1000)
    assert list(at_once) == list(compiled)
    for name, (dims, values) in compiled.items():
        assert (at_once[name][0], at_once[name][1].dtype) == (dims, values.dtype)
        np.testing.assert_allclose(at_once[name][1], values, rtol=1e-12)


def test_numpy_needs_no_compilation(base, monkeypatch):
    monkeypatch.setattr("sweeps.run.program.kept", lambda *question: pytest.fail("a program was compiled"))
    assert evaluated(Question(REQUEST, base, METRICS), grid_axes(), most_eager=1000)


@pytest.mark.parametrize("chunk", [1, 7, 24, 1000])
def test_the_size_of_a_chunk_changes_no_bit(base, chunk):
    question = Question(REQUEST, base, ("tpot", "feasible"))
    whole, parts = evaluated(question, grid_axes()), evaluated(question, grid_axes(), chunk_points=chunk)
    for name, (dims, values) in whole.items():
        assert parts[name][0] == dims
        np.testing.assert_array_equal(parts[name][1], values)


def test_a_sample_equals_the_grid_at_its_points(base):
    columns = [column.ravel() for column in np.meshgrid(*AXES.values(), indexing="ij")]
    axis = Axis("point", len(columns[0]), dict(zip(AXES, columns, strict=True)), ())
    points = evaluated(Question(REQUEST, base, METRICS), (axis,), chunk_points=50)
    grid = evaluated(Question(REQUEST, base, METRICS), grid_axes())
    shape = tuple(len(column) for column in AXES.values())
    for name in METRICS:
        dims, values = grid[name]
        full = np.broadcast_to(np.expand_dims(values, [i for i, path in enumerate(AXES) if path not in dims]), shape)
        np.testing.assert_allclose(points[name][1], full.ravel(), rtol=3e-6)


def test_float32_and_float64_grids_agree(base):
    question = Question(REQUEST, base, METRICS)
    single = evaluated(question, grid_axes())
    with precision("float64"):
        double = evaluated(question, grid_axes(), dtype="float64")
    for name in METRICS:
        assert double[name][1].dtype == np.float64
        np.testing.assert_allclose(single[name][1], double[name][1], rtol=1e-5)


def test_structures_are_evaluated_apart_and_put_together(base):
    """An axis over devices of three structures (L2, price, exp rate known or not) equals one sweep per device."""
    unknown_l2 = dataclasses.replace(base.hardware, memory=dataclasses.replace(base.hardware.memory, l2=None))
    unpriced = dataclasses.replace(base.hardware, price=None)
    slower = replaced(base.hardware, "memory.hbm.bandwidth", 1e12)
    devices = (base.hardware, unknown_l2, unpriced, slower)
    axis = Axis("hardware", 4, {"hardware": Choice(devices, np.arange(4))}, ())
    names = ("ttft", "usd_per_million_tokens", "weight_bytes")
    plan = Plan(Question(REQUEST, base, names), (axis,), most_eager=0)
    together = {name: np.full(output.shape, np.nan) for name, output in plan.outputs.items()}
    for piece in plan.pieces():
        together[piece.name][piece.index] = piece.values
    for i, device in enumerate(devices):
        alone = evaluated(Question(REQUEST, dataclasses.replace(base, hardware=device), names), ())
        np.testing.assert_allclose(together["ttft"][i], alone["ttft"][1], rtol=3e-6)
    assert np.isnan(together["usd_per_million_tokens"]).tolist() == [False, False, True, False]


def test_one_structure_is_traced_once_however_many_chunks(base, monkeypatch):
    traces = []
    counted = dataclasses.replace(REQUEST, metrics=lambda *given: traces.append(1) or REQUEST.metrics(*given))
    plan = Plan(Question(counted, base, ("tpot",)), grid_axes(), chunk_points=6, most_eager=0)
    for _ in plan.pieces():
        pass
    after_one = len(traces)
    for _ in plan.pieces():
        pass
    assert len(plan._blocks) == 1
    assert len(traces) == after_one


def test_a_breakdown_adds_up_to_the_totals():
    data = sweeps.sweep(
        hardware="H100-SXM",
        model=["Llama-3.1-8B", "Qwen3-30B-A3B"],
        workload={"batch": [1, 16], "isl": 512, "osl": 64},
        output={"breakdown": True},
    )
    assert data.prefill_op_time.sel(model="Llama-3.1-8B").dims == ("batch", "prefill_op")
    assert list(data.decode_op.values[:3]) == ["embedding", "embedding_all_reduce", "attention_norm"]
    np.testing.assert_allclose(data.decode_op_time.sum("decode_op"), data.tpot, rtol=1e-5)  # NaN where a model lacks it
    bound = data.decode_op_bound.sel(model="Llama-3.1-8B", decode_op="router")
    assert (bound == -1).all(), "an op that a model does not have is bound by nothing"


def test_legality_of_a_billion_points_is_asked_over_the_axes_that_it_depends_on():
    wide = {"from": "1 TB/s", "to": "8 TB/s", "n": 31_623}
    source = {
        "hardware": "H100-SXM",
        "model": "Llama-3.1-8B",
        "workload": {"batch": 1, "isl": 8, "osl": 8},
        "axes": {"hardware.memory.hbm.bandwidth": wide, "hardware.memory.l2.bandwidth": wide},
    }
    assert math.prod(axis.size for axis in asked(spec(source)).axes) > 1e9

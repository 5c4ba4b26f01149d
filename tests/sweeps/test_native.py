"""Sweeps as machine code: the same numbers as NumPy in every job, loops over just their axes, and what is refused."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroof.jobs import JOBS
from sweeps.ask.axes import Axis, leaf, leaf_paths
from sweeps.ask.cases import case
from sweeps.ask.question import Question
from sweeps.run.compiled import called
from sweeps.run.engine import Plan
from sweeps.run.points import Points
from sweeps.run.precision import precision
from sweeps.run.ways import Way

llvm = pytest.importorskip("llvmlite", reason="machine code needs llvmlite: pip install '.[llvm]'")

from sweeps.run.native.graph import Graph, Unsupported, opened  # noqa: E402
from sweeps.run.native.loops import Bound, Loops, mapped  # noqa: E402
from sweeps.run.native.nests import dependence, exact, loop_order, nests, products  # noqa: E402

REQUEST = {"batch": 16, "isl": 2048, "osl": 256}

QUESTIONS = {
    "dense, derated": ("request", "H100-SXM", "Llama-3.1-8B", REQUEST, {"tp": 2}, "derated"),
    "experts, learned": ("request", "H200-SXM", "DeepSeek-V3", REQUEST, {"attention_dp": 8, "ep": 8}, "learned"),
    "experts, kernel": ("request", "MI300X", "Mixtral-8x7B", REQUEST, {"tp": 2}, "kernel"),
    "disaggregated": ("disaggregated", "A100-SXM-80GB", "Llama-2-70B", REQUEST, {"tp": 4}, "learned"),
}


def values(question: Question, axes: tuple[Axis, ...], compiler: str, **options) -> dict[str, np.ndarray]:
    plan = Plan(question, axes, compiler=compiler, **options)
    found = {name: np.zeros(output.shape, output.dtype) for name, output in plan.outputs.items()}
    for piece in plan.pieces():
        found[piece.name][piece.index] = piece.values
    return {name: (plan.outputs[name].dims, array) for name, array in found.items()}


@pytest.mark.parametrize("name", QUESTIONS)
def test_all_metrics_of_a_sample_agree_with_numpy(name):
    """Every number of every struct varies; in float64, where only the last digits may differ."""
    job, hardware, model, workload, deployment, efficiency = QUESTIONS[name]
    base = case(job, hardware, model, workload=workload, deployment=deployment, efficiency=efficiency).scenario
    random = np.random.default_rng(0)
    columns = {path: float(leaf(base, path)) * random.uniform(0.8, 1.25, 101) for path in leaf_paths(base)}
    axes = (Axis("point", 101, columns, ()),)
    with precision("float64"):
        expected = values(Question(JOBS[job], base), axes, "numpy", dtype="float64")
        found = values(Question(JOBS[job], base), axes, "llvm", dtype="float64")
    assert list(found) == list(expected)
    for metric, (dims, array) in expected.items():
        assert (found[metric][0], found[metric][1].dtype) == (dims, array.dtype), metric
        np.testing.assert_allclose(found[metric][1], array, rtol=1e-12, err_msg=metric)


@pytest.mark.parametrize("chunk", [None, 1, 5, 64])
def test_a_breakdown_over_a_grid_agrees_with_xla(chunk):
    """In float32, over axes of one to twenty positions, in chunks that cut them."""
    base = case("request", "H100-SXM", "Llama-3.1-8B", workload=REQUEST, efficiency="derated").scenario
    sizes = {"deployment.tp": 2, "hardware.memory.hbm.bandwidth": 20, "workload.batch": 3, "hardware.price": 1}
    axes = tuple(
        Axis(path, size, {path: float(leaf(base, path)) * np.linspace(1.0, 2.0, size)}, ())
        for path, size in sizes.items()
    )
    question = Question(JOBS["request"], base, ("tpot", "feasible", "owning_usd_per_million_tokens"), breakdown=True)
    expected, found = values(question, axes, "xla"), values(question, axes, "llvm", chunk_points=chunk)
    for metric, (dims, array) in expected.items():
        assert (found[metric][0], found[metric][1].dtype) == (dims, array.dtype), metric
        np.testing.assert_allclose(found[metric][1], array, rtol=2e-6, err_msg=metric)


def operations(point: dict[str, jax.Array]) -> dict[str, jax.Array]:
    """Every operation that a graph has a node for, on two numbers."""
    x, y = point["x"], point["y"]
    both = jnp.stack([x, y, x * y])
    return {
        "extremes": jnp.maximum(x, y) - jnp.minimum(x, y) + jnp.clip(x, -1.0, 1.0),
        "powers": jnp.abs(x) ** 0.3 + x**3 + jnp.abs(y) ** -2.0 + jnp.sqrt(jnp.abs(x)) + jax.lax.rsqrt(1.0 + y * y),
        "exponentials": jnp.exp(x) + jnp.log(jnp.abs(y)) + jnp.tanh(x) + jax.nn.sigmoid(y),
        "near zero": jnp.log1p(1e-9 * jnp.abs(x)) / 1e-9 + jnp.expm1(1e-9 * y) / 1e-9,
        "rounding": jnp.floor(x) + jnp.ceil(y) + jnp.round(x) + jnp.sign(y) + jnp.mod(x, 3.0),
        "places": jnp.argmax(both).astype(jnp.int8),
        "least place": jnp.argmin(both),
        "truth": (x < y) & ~(x == y) | (x >= 2.0) | jnp.isfinite(y) & (x != x),
        "sums": jnp.sum(both) + jnp.max(both) - jnp.min(both[1:]),
        "whole": jnp.asarray(x, int) % 7 + jnp.asarray(y, int) // 2,
        "unknown": jnp.maximum(x, point["nan"]) + jnp.minimum(point["nan"], y),
        "lost": jnp.where(x > 0.0, x, point["nan"]),
    }


def test_operations_agree_with_jax():
    random = np.random.default_rng(1)
    columns = {"x": random.normal(0.0, 4.0, 1003), "y": random.normal(0.0, 4.0, 1003), "nan": np.full(1003, np.nan)}
    with precision("float64"):
        expected = jax.jit(jax.vmap(operations))(columns)
        program = mapped(lambda own: operations(dict(zip(columns, own, strict=True))), list(columns.values()))
        found = program(list(columns.values()))
    for name, array in expected.items():
        assert found[name].dtype == array.dtype, name
        np.testing.assert_allclose(found[name], array, rtol=1e-12, atol=1e-300, err_msg=name)


def units(found: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Distance in units of the last place; infinite where one is NaN or infinite and the other is not."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(found.dtype)
        same = (found == rounded) | np.isnan(found) & np.isnan(rounded)
        distance = np.abs(found.astype(exact.dtype) - exact) / np.spacing(np.abs(rounded)).astype(exact.dtype)
        finite = np.isfinite(found) & np.isfinite(rounded)
        return np.where(finite, distance, np.where(same, 0.0, np.inf))


def of_all_magnitudes(dtype: str) -> np.ndarray:
    """Floats of any bits, those near 1, and those at which functions are special."""
    random, limits = np.random.default_rng(3), np.finfo(dtype)
    whole = np.dtype(f"int{limits.bits}")
    any_bits = random.integers(np.iinfo(whole).min, np.iinfo(whole).max, 20000, whole).view(dtype)
    special = [0.0, np.inf, np.nan, 1.0, 0.5, 2.0, 3.0, limits.tiny, limits.max, limits.smallest_subnormal]
    special += [1.0 + limits.eps, 1.0 - limits.eps, 87.0, 88.8, 104.0, 708.0, 709.78, 709.79, 745.1, 745.2]
    both = np.array([*special, *(-value for value in special)], dtype)
    near, wide = 1.0 + 0.1 * random.normal(size=20000), 20.0 * random.normal(size=20000)
    return np.concatenate([both, any_bits, near.astype(dtype), wide.astype(dtype)])


def alone(operation: str, *columns: np.ndarray) -> np.ndarray:
    """One operation of a graph over columns."""
    graph = Graph(columns[0].dtype)
    inputs = [graph.input() for _ in columns]
    node = graph.apply(operation, *inputs)
    loops = Loops(graph, dict.fromkeys(inputs, (0,)), [node])
    return Bound(loops, dict(zip(inputs, columns, strict=True)), [len(columns[0])])([0])[node]


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="long doubles are no more precise than doubles")
@pytest.mark.parametrize(("dtype", "most"), [("float64", 1.0), ("float32", 0.5 + 1e-6)])
def test_functions_of_vectors_are_right_to_the_last_digit(dtype, most):
    """Against NumPy in extended precision: infinities, NaN, signs and denormal numbers included."""
    x = of_all_magnitudes(dtype)
    y = np.random.default_rng(4).permutation(x)
    grid = [part.ravel() for part in np.meshgrid(x[:40], x[:40])]
    x, y = np.concatenate([grid[0], x, np.abs(x)]), np.concatenate([grid[1], y, y])
    with np.errstate(all="ignore"):
        wide = x.astype(np.longdouble)
        assert units(alone("log", x), np.log(wide)).max() < most
        assert units(alone("exp", x), np.exp(wide)).max() < most
        assert units(alone("pow", x, y), np.power(wide, y.astype(np.longdouble))).max() < most


def test_whole_powers_of_whole_numbers_are_whole():
    base, exponent = (part.ravel().astype(float) for part in np.meshgrid(np.arange(1, 61), np.arange(0, 9)))
    exact = [int(b) ** int(e) for b, e in zip(base, exponent, strict=True)]
    assert alone("pow", base, exponent).tolist() == [float(one) for one in exact]


def test_memory_of_outputs_is_used_again_once_nobody_holds_them():
    graph = Graph(np.dtype("float64"))
    given = graph.input()
    node = graph.apply("mul", given, given)
    bound = Bound(Loops(graph, {given: (0,)}, [node]), {given: np.arange(300.0)}, [100])
    view = bound([0])[node][5:].reshape(5, 19)[1:]
    place = bound([100])[node].ctypes.data
    later = [bound([start])[node].ctypes.data for start in (200, 0, 200)]
    # The view of the first output keeps its memory; the others have two places between them.
    assert place in later
    np.testing.assert_array_equal(view.ravel(), np.arange(24.0, 100.0) ** 2)


def test_a_gradient_agrees_with_jax():
    def slope(own):
        return jax.value_and_grad(lambda x: jnp.log(jnp.maximum(x[0] / x[1], 2.0) + x[1] ** 1.5))(own)

    columns = [np.linspace(1.0, 9.0, 100), np.linspace(0.5, 3.0, 100)]
    with precision("float64"):
        expected = jax.vmap(slope)(columns)
        found = mapped(slope, columns)(columns)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), found, expected)


def test_every_operation_is_in_the_loops_over_its_own_axes():
    """x y + x + 2 log(y): one operation over each of the axes alone, the rest over both."""
    graph = Graph(np.dtype("float32"))
    x, y = graph.input(), graph.input()
    point = jax.ShapeDtypeStruct((), np.float32)
    node, _ = opened(graph, lambda x, y: x * y + (x + 1.0) + 2.0 * jnp.log(y), (point, point), (x, y))
    dims = dependence(graph, {x: (0,), y: (1,)})
    found = {nest.dims: [graph.operations[node] for node in nest.nodes] for nest in nests(graph, dims, [node])}
    assert {dims: sorted(names) for dims, names in found.items()} == {
        (0,): ["add"],
        (1,): ["log", "mul"],
        (0, 1): ["add", "add", "mul"],
    }


def test_quotients_that_become_products():
    """Of x / z, y / z, ceil(x / z), where(x / z <= 1, ...) and x / y: the first two, unless z is settled outside."""
    graph = Graph(np.dtype("float32"))
    x, y, z = graph.input(), graph.input(), graph.input()
    plain, other, whole, least, alone = (
        graph.apply("div", x, z),
        graph.apply("div", y, z),
        graph.apply("div", graph.apply("add", x, y), z),
        graph.apply("div", graph.apply("sub", x, y), z),
        graph.apply("div", x, y),
    )
    rounded = graph.apply("ceil", graph.apply("mul", whole, graph.number(np.float32(2.0))))
    held = graph.apply("le", least, graph.number(np.float32(1.0)))
    positive = graph.apply("lt", graph.number(np.float32(0.0)), plain)
    outputs = [plain, other, rounded, held, positive, alone]
    assert {whole, least} <= exact(graph) and not {plain, other, alone} & exact(graph)
    for along, expected in ((0,), {plain, other}), ((), {plain, other}):
        dims = dependence(graph, {x: (0,), y: (0,), z: along})
        (nest,) = (nest for nest in nests(graph, dims, outputs) if nest.dims)
        assert products(graph, nest, dims, exact(graph)) == expected


def test_whole_numbers_of_quotients_stay_whole():
    """ceil(x / z) and x / z <= 1 where z divides x, though x (1 / z) is more for z = 49 and others."""
    from sweeps.run.native.loops import mapped

    def counts(columns):
        x, z = columns
        single = jnp.where(x / z <= 1.0, 1.0, 0.0)
        return {"tiles": jnp.ceil(x / z), "single": single, "sum": (x + 1.0) / z + (x + 2.0) / z}

    z = np.arange(1.0, 2000.0, dtype=np.float32)
    for times in (1.0, 3.0, 7.0):
        found = mapped(counts, [times * z, z])([times * z, z])
        np.testing.assert_array_equal(found["tiles"], times)
        np.testing.assert_array_equal(found["single"], float(times == 1.0))
        np.testing.assert_allclose(found["sum"], 2.0 * times + 3.0 / z, rtol=5e-7)


def test_the_same_operation_is_computed_once():
    graph = Graph(np.dtype("float32"))
    x = graph.input()
    point = jax.ShapeDtypeStruct((), np.float32)
    opened(graph, lambda x: (x * 3.0 + 1.0) / (3.0 * x + 1.0 * 1.0), (point,), (x,))
    assert sorted(graph.operations) == ["add", "div", "input", "mul", "number", "number"]


def test_a_short_last_axis_changes_places_with_the_longest():
    assert loop_order([3, 100, 20]) == [0, 1, 2]
    assert loop_order([3, 100, 4]) == [0, 2, 1]
    assert loop_order([]) == []


def test_an_operation_without_a_node_is_refused_by_name():
    point = jax.ShapeDtypeStruct((), np.float32)
    graph = Graph(np.dtype("float32"))
    with pytest.raises(Unsupported, match="erf of float32"):
        opened(graph, jax.scipy.special.erf, (point,), (graph.input(),))


def test_xla_computes_what_has_no_node(monkeypatch):
    monkeypatch.setattr("sweeps.run.native.graph.BINARY", ())
    base = case("request", "H100-SXM", "Llama-3.1-8B", workload=REQUEST).scenario
    question = Question(JOBS["request"], base, ("kv_bytes", "weight_bytes"))
    plan = Plan(question, (), most_eager=0)
    assert plan.compiler.name == "xla" and list(plan.software) == ["jaxlib"]
    with pytest.raises(Unsupported):
        Plan(question, (), compiler="llvm")


def test_xla_computes_designs_that_have_no_loops(monkeypatch):
    """As users have it: options of the compiler that are none, which tests set."""
    monkeypatch.setattr("sweeps.run.native.graph.BINARY", ())
    base = case("request", "H100-SXM", "Llama-3.1-8B", workload=REQUEST).scenario
    part = Points(np.arange(3), ({"workload.batch": np.array([1.0, 2.0, 4.0], np.float32)},))
    way = Way(constants=True, loops=True)
    found = called(lambda scenario: 2.0 * scenario.workload.batch, base, part, way, (), lambda points: None)
    np.testing.assert_allclose(found, [2.0, 4.0, 8.0])


def test_without_llvmlite_the_command_to_install_it(monkeypatch):
    base = case("request", "H100-SXM", "Llama-3.1-8B", workload=REQUEST).scenario
    for module in [name for name in sys.modules if name.startswith(("llvmlite", "sweeps.run.native"))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    with pytest.raises(ValueError, match=r"needs llvmlite: pip install '(llvmlite|\.\[llvm\])"):
        Plan(Question(JOBS["request"], base, ("tpot",)), (), compiler="llvm")

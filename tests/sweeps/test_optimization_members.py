"""Mixes of workloads, scenarios, fronts with their rates of exchange, whole numbers, and served streams."""

import itertools
import sys

import numpy as np
import pytest

from sweeps.studies.optimize.evaluator import Evaluator
from sweeps.studies.optimize.optimum import elasticities, trade_offs
from sweeps.studies.optimize.problem import Problem
from sweeps.studies.optimize.quadratic import Polished
from sweeps.studies.optimize.result import dataset, record
from sweeps.studies.optimize.search import searched
from sweeps.studies.optimize.spec import Effort, problem
from sweeps.studies.optimize.whole import branched, discrete, enumerated

pytestmark = [pytest.mark.xdist_group("optimization"), pytest.mark.usefixtures("cache")]

STEP = {
    "job": "step",
    "hardware": "H100-SXM",
    "model": "Llama-3.1-8B",
    "efficiency": "derated",
    "workload": {"decode": 32, "context": 1024},
    "axes": {
        "hardware.memory.hbm.bandwidth": {"from": "1TB/s", "to": "16TB/s"},
        "hardware.cores.count": {"from": 64, "to": 200},
    },
    "optimize": {"minimize": "step_time"},
}
MIX = [
    {"name": "chat", "weight": 3},
    {"name": "code", "weight": 1, "workload": {"context": 8192}, "deployment": {"tp": [1, 2]}},
]
SCENARIOS = [{"name": "now"}, {"name": "later", "workload": {"decode": 128}}]
AT = np.array([[3e12, 100.0], [6e12, 150.0]])


def alone(**changes) -> np.ndarray:
    """Objective at `AT` of a specification without members."""
    return problem(STEP | changes).evaluate(AT)[0][:, 0]


@pytest.fixture(scope="module")
def mixed():
    return problem(STEP | {"mix": MIX, "constraints": {"chat.step_time": {"max": "50ms"}}})


def test_a_mix_is_the_mean_of_its_workloads(mixed):
    """3 : 1, of what each has by itself; a variable of one workload has its name, and a limit may be of one alone."""
    assert mixed.names == ("hbm_bandwidth", "cores_count", "code_tp")
    assert mixed.constraint_names == ("chat: step_time <= 50 ms", "chat: memory_use <= 1", "code: memory_use <= 1")
    designs = np.column_stack([AT, [0.0, 0.0]])
    chat, code = alone(), alone(workload={"decode": 32, "context": 8192})
    assert mixed.evaluate(designs)[0][:, 0] == pytest.approx(0.75 * chat + 0.25 * code, rel=1e-12)
    wide = np.column_stack([AT, [1.0, 1.0]])
    assert (mixed.evaluate(wide)[0] < mixed.evaluate(designs)[0]).all()
    found = mixed.value_and_grad(designs)
    assert np.allclose(found.objectives, mixed.evaluate(designs)[0], rtol=1e-12)
    assert (found.objective_slopes[:, 0, 0] < 0.0).all() and not found.objective_slopes[:, 0, 2].any()


def test_rates_of_a_mix_have_the_harmonic_mean():
    goal = {"optimize": {"maximize": "tokens_per_second_per_device"}}
    both = [{"name": "a", "weight": 1}, {"name": "b", "weight": 1, "workload": {"context": 8192}}]
    values = [-alone(**goal), -alone(**goal, workload={"decode": 32, "context": 8192})]
    found = -problem(STEP | goal | {"mix": both}).evaluate(AT)[0][:, 0]
    assert found == pytest.approx(2.0 / (1.0 / values[0] + 1.0 / values[1]), rel=1e-12)


def test_the_function_for_jax_is_the_problem(mixed):
    import jax

    design = np.array([3e12, 100.0, 1.0])
    with jax.enable_x64(True):
        values = np.asarray(mixed.function(design)(np.array([3e12, 100.0])))
    objectives, constraints = mixed.evaluate(design[np.newaxis])
    assert values == pytest.approx(np.concatenate([objectives[0], constraints[0]]), rel=1e-9)


def test_a_robust_optimum_is_that_of_the_worst_scenario():
    """Slowest memory that keeps a limit: the scenario of more users sets it; the nominal optimum breaks it there."""
    asked = STEP | {"scenarios": SCENARIOS, "optimize": {"minimize": "hardware.memory.hbm.bandwidth"}}
    made = problem(asked | {"constraints": {"step_time": {"max": "9.5ms"}}})
    found = searched(made, Effort(starts=8, steps=40, grid=200))
    last = problem({**asked, "scenarios": SCENARIOS[1:], "constraints": {"step_time": {"max": "9.5ms"}}})
    later = searched(last, Effort(starts=8, steps=40, grid=200))
    assert found.objectives[0, 0] == pytest.approx(later.objectives[0, 0], rel=1e-3)
    assert found.robustness.nominal_keeps.tolist() == [True, False]
    assert (found.robustness.price > 0.05).all()
    assert record(found)["robustness"][1]["scenario"] == "later"
    held = [one for one in found.active if one.kind == "constraint"]
    assert [one.member for one in held] == ["later"]


def test_the_objective_is_the_worst_of_the_scenarios():
    made = problem(STEP | {"scenarios": SCENARIOS})
    values = np.stack([alone(), alone(workload={"decode": 128, "context": 1024})])
    assert made.evaluate(AT)[0][:, 0] == pytest.approx(values.max(axis=0), rel=1e-12)
    slopes = made.value_and_grad(AT)
    assert slopes.cases[0].values.T == pytest.approx(values, rel=1e-12)


def test_rates_of_exchange_are_slopes_of_the_front():
    """Between neighbours on a front the objectives change as the rates at both say."""
    asked = STEP | {"optimize": {"minimize": ["step_time", "hardware.memory.hbm.bandwidth"]}}
    found = searched(problem(asked), Effort(starts=48, steps=40, grid=200))
    rates = trade_offs(found)
    assert (rates[:, 1, 0] * rates[:, 0, 1] == pytest.approx(1.0)) or np.isnan(rates).any()
    inside = [i for i, one in enumerate(found.balances) if one.residual < 0.02 and 0.05 < one.weights[0] < 0.95]
    logs = np.abs(np.diff(np.log(found.objectives), axis=0)).min(axis=1)
    pairs = [(i, j) for i, j in itertools.pairwise(inside) if j == i + 1 and logs[i] > 0.05]  # cores differ by chance
    assert len(pairs) > 2
    for i, j in pairs:
        change = np.diff(found.objectives[[i, j]], axis=0)[0]
        between = np.sqrt(rates[i, 1, 0] * rates[j, 1, 0])
        assert -change[1] / change[0] == pytest.approx(between, rel=0.25)  # the front bends between neighbours
    data = dataset(found)
    assert data["d_hardware_memory_hbm_bandwidth_d_step_time"].attrs["units"] == "(byte s-1)/(s)"
    assert elasticities(found)[:, 1, 0] == pytest.approx(1.0)


def test_whole_numbers_against_every_one():
    """Branch and bound finds the count that trying all of them finds, and never less than the relaxed optimum."""
    asked = problem(STEP | {"optimize": {"minimize": "die_area"}, "constraints": {"step_time": {"max": "6ms"}}})
    assert [discrete(v) for v in asked.variables] == [False, True]
    start = np.array([8e12, 150.0])
    values, excess = asked.evaluate(start[np.newaxis])
    whole = Polished(start, float(np.log(values[0, 0])), float(excess.max()))
    best, gap = branched(asked, whole, [start])
    assert best.design[1] == round(best.design[1]) and best.feasible and best.score < whole.score
    assert gap.value >= 0.0 and not gap.proved and gap.left < 1e-3
    counts, widths = np.arange(64.0, 201.0), np.geomspace(1e12, 16e12, 4000)
    grid = np.stack(np.meshgrid(widths, counts), axis=-1).reshape(-1, 2)
    objectives, constraints = asked.evaluate(grid)
    least = objectives[constraints.max(axis=1) <= 0.0].min()
    assert np.exp(best.score) <= least * 1.001


def test_few_designs_are_all_tried():
    asked = problem(STEP | {"axes": {"hardware.cores.count": {"from": 64, "to": 90}}, "deployment": {"tp": [1, 2]}})
    best = enumerated(asked)
    found = searched(asked, Effort(starts=4, steps=10, grid=20))
    assert best.seen == 2 * 27 and found.gap.proved and found.gap.value == 0.0
    assert np.log(found.objectives[0, 0]) == pytest.approx(best.score)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mix": {}}, r"mix = \{\} must be a list of tables"),
        ({"mix": [{"weight": 1}]}, r"mix\[0\].name = None must be a word"),
        ({"mix": [{"name": "a"}, {"name": "a"}]}, r"mix\[1\].name = 'a' is given twice"),
        ({"mix": [{"name": "a", "weight": -1}]}, r"mix\[0\].weight = -1"),
        ({"mix": [{"name": "a", "hardware": "H200-SXM"}]}, r"there is no key mix\[0\].hardware"),
        ({"mix": [{"name": "a", "model": ["x", "y"]}]}, r"mix\[0\].model = \['x', 'y'\] must be one model"),
        ({"mix": [{"name": "a", "workload": 3}]}, r"mix\[0\].workload = 3 must be a table"),
        ({"mix": [{"name": "a"}], "scenarios": [{"name": "a"}]}, r"scenarios: a is the name of a workload"),
        ({"scenarios": [{"name": "a", "workload": {"batch": 3}}]}, r"workload.batch"),
        ({"mix": MIX, "constraints": {"chit.step_time": {"max": "1s"}}}, r"there is no chit.step_time"),
    ],
)
def test_bad_members(changes, message):
    with pytest.raises(ValueError, match=message) as caught:
        problem(STEP | changes)
    assert "\n" not in str(caught.value)


SERVE = {
    "job": "serve",
    "hardware": "H100-SXM",
    "model": "Llama-3.1-8B",
    "efficiency": "derated",
    "slo": "ttft=500ms,tpot=20ms",
    "workload": {"rate": 8, "isl": 1024, "osl": 256},
    "axes": {"hardware.memory.hbm.bandwidth": {"from": "1TB/s", "to": "8TB/s"}},
    "optimize": {"minimize": "owning_usd_per_million_tokens"},
}


def only(asked) -> Evaluator:
    return problem(asked).flat[0].evaluator


def test_served_streams_in_closed_form():
    """At the largest rate within the limits the limits are met, and metrics at that rate are the same either way."""
    at = np.array([[3.35e12]])
    first = only(SERVE).metrics(at)
    assert first["requests_per_second"][0] == 8.0 and first["limit_ratio"][0] < 1.0
    sought = only({**SERVE, "workload": {"isl": 1024, "osl": 256}}).metrics(at)
    assert sought["requests_per_second"] == pytest.approx(first["capacity"])
    there = only({**SERVE, "workload": {"rate": float(first["capacity"][0]), "isl": 1024, "osl": 256}}).metrics(at)
    assert there["limit_ratio"] == pytest.approx(1.0, rel=2e-3)
    assert there["tpot_mean"] == pytest.approx(sought["tpot_mean"], rel=1e-4)
    assert there["owning_usd_per_million_tokens"] < first["owning_usd_per_million_tokens"]
    assert problem(SERVE).constraint_names == ("memory_use <= 1", "rate_use <= 1", "limit_ratio <= 1")


def test_the_largest_rate_is_that_of_the_comparison():
    """The first pass of a served comparison, which prices steps from tables, finds the same rate."""
    from sweeps.studies.compare.question import question
    from sweeps.studies.compare.search import search
    from sweeps.studies.compare.words import AskedComparison

    words = {"hardware": ["H100-SXM"], "devices": [1], "efficiency": "derated", "policy": {"token_budget": 8192}}
    asked = question(
        AskedComparison(model="Llama-3.1-8B", slo="ttft=500ms,tpot=20ms", load={"isl": 1024, "osl": 256}, **words)
    )
    rate = float(np.nanmax(search(asked, "requests_per_second", simulated=0).estimate.load))
    sought = only({**SERVE, "workload": {"isl": 1024, "osl": 256}, "policy": {"token_budget": 8192}})
    assert sought.metrics(np.array([[3.35e12]]))["capacity"][0] == pytest.approx(rate, rel=0.05)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"workload": {"isl": 1024, "osl": 256}, "slo": None}, r"workload.rate is missing: give requests/s, or slo"),
        ({"workload": {"rate": 8, "isl": [512, 1024], "osl": 256}}, r"workload.isl cannot vary"),
        ({"workload": {"concurrency": 8, "isl": 512, "osl": 256}}, r"workload.concurrency is not known to the closed"),
        ({"workload": {"rate": 8, "batch": 512}}, r"there is no workload.batch for a serve job"),
        ({"slo": "itl_p99=20ms"}, r"slo itl_p99: the closed form knows limits of ttft, tpot and e2e"),
        ({"optimize": {"minimize": "preemptions"}}, r"a serve has no preemptions here"),
    ],
)
def test_bad_streams(changes, message):
    asked = {key: value for key, value in (SERVE | changes).items() if value is not None}
    with pytest.raises(ValueError, match=message):
        problem(asked)


def test_a_missing_package_is_named_before_anything_is_computed(monkeypatch):
    monkeypatch.setitem(sys.modules, "optax", None)
    monkeypatch.setattr(Problem, "prepare", lambda *_: pytest.fail("programs were compiled"))
    with pytest.raises(ValueError, match="gradient descent needs optax: pip install 'optax"):
        searched(problem(STEP), Effort())

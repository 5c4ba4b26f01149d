"""Inverse design: problems as arrays, the search, what holds an optimum, and the verb."""

import dataclasses
import json

import numpy as np
import pytest
import xarray as xr

import sweeps
from sweeps.cli import main
from sweeps.run.compilers import loops_known
from sweeps.run.ways import designs as designs_way
from sweeps.studies.optimize import search
from sweeps.studies.optimize.conditions import per_condition
from sweeps.studies.optimize.confirmation import balance
from sweeps.studies.optimize.descent import descended, worst
from sweeps.studies.optimize.problem import Problem
from sweeps.studies.optimize.search import searched
from sweeps.studies.optimize.spec import Effort, design, problem
from sweeps.studies.optimize.starts import nondominated, spread_weights

pytestmark = [pytest.mark.xdist_group("optimization"), pytest.mark.usefixtures("cache")]

SPEC = {
    "hardware": "H100-SXM",
    "model": "Llama-3.1-8B",
    "efficiency": "derated",
    "workload": {"batch": 16, "isl": 1024, "osl": 256},
    "deployment": {"tp": [1, 2, 3]},
    "axes": {
        "hardware.memory.hbm.bandwidth": {"from": "1TB/s", "to": "8TB/s"},
        "hardware.matrix.bf16": {"from": "200TFLOP/s", "to": "4PFLOP/s"},
        "hardware.cores.count": {"from": 40, "to": 200},
    },
    "optimize": {"minimize": "owning_usd_per_million_tokens"},
    "constraints": {"ttft": {"max": "1s"}, "tpot": {"max": "8ms"}},
}
"""Three ranges, one of them a count, and a list of which one member (tp 3) cannot be."""


@pytest.fixture(scope="module")
def small() -> Problem:
    return problem(SPEC)


@pytest.fixture(scope="module")
def found(small):
    return searched(small, Effort(starts=24, steps=60, grid=2000))


def _draws(asked: Problem, n: int, seed: int = 0) -> np.ndarray:
    shares = np.random.default_rng(seed).random((n, len(asked.variables)))
    columns = [
        np.floor(shares[:, i] * 2.0) if v.choice else v.unit_values(shares[:, i]) for i, v in enumerate(asked.variables)
    ]
    return np.stack(columns, axis=1)


def test_problem_is_the_sweep(small):
    """Objectives and constraints are those of a sweep at the same point."""
    assert small.names == ("tp", "hbm_bandwidth", "matrix_bf16", "cores_count")
    assert small.constraint_names == ("ttft <= 1 s", "tpot <= 8 ms", "memory_use <= 1")
    at = np.array([[1.0, 3e12, 1e15, 100.0]])
    objectives, constraints = small.evaluate(at)
    point = sweeps.sweep(
        {key: value for key, value in SPEC.items() if key not in ("optimize", "constraints", "axes")}
        | {
            "deployment": {"tp": 2},
            "set": {
                "hardware.memory.hbm.bandwidth": "3TB/s",
                "hardware.matrix.bf16": "1PFLOP/s",
                "hardware.cores.count": 100,
            },
            "output": {"dtype": "float64"},
        }
    )
    assert objectives[0, 0] == pytest.approx(float(point["owning_usd_per_million_tokens"]), rel=1e-12)
    assert np.exp(constraints[0, 1]) * 8e-3 == pytest.approx(float(point["tpot"]), rel=1e-12)
    assert np.exp(constraints[0, 2]) == pytest.approx(float(point["memory_use"]), rel=1e-12)


def test_memory_use_says_what_fits():
    """Model and cache fit exactly where the use is at most 1, up to the whole sequence that capacity is rounded to."""
    points = sweeps.sweep(
        hardware="H100-SXM",
        model="Llama-3.1-8B",
        efficiency="derated",
        workload={"batch": [1, 100, 200, 300, 350, 360, 370, 400, 800], "isl": 1024, "osl": 256},
        output={"variables": ["memory_use", "fits"]},
    )
    assert (points["fits"].values == (points["memory_use"].values <= 1.0)).all()
    assert points["fits"].values.any() and not points["fits"].values.all()


def test_slopes_against_differences(small):
    """Away from ridges and steps; 2 % of the largest slope allows for what is smoothed."""
    at = _draws(small, 16)
    found = small.value_and_grad(at)
    values, constraints = small.evaluate(at)
    assert np.array_equal(values, found.objectives) or np.allclose(values, found.objectives, rtol=1e-12)
    assert np.allclose(constraints, found.constraints, atol=1e-12)
    assert not found.objective_slopes[:, :, 0].any()  # a choice has none
    i = small.names.index("hbm_bandwidth")
    step = np.zeros(at.shape[1])
    step[i] = 1e6
    inside = at[np.abs(at[:, i] - 4.5e12) < 3.4e12]
    rows = np.abs(at[:, i] - 4.5e12) < 3.4e12
    change = (small.evaluate(inside + step)[1] - small.evaluate(inside - step)[1])[:, 1] / 2e6
    slopes = found.constraint_slopes[rows, 1, i]
    assert np.median(np.abs(change / slopes - 1.0)) < 0.02


@pytest.mark.skipif(not loops_known(), reason="LLVM is not there")
def test_loops_are_the_programs(small):
    """Values and slopes by loops of machine code are those of XLA's programs, to rounding."""
    at, (member,) = _draws(small, 100, seed=1), small.flat
    for gradients in (False, True):
        looped = designs_way(gradients)
        compiled = dataclasses.replace(looped, loops=False)
        of = member.evaluator.slopes if gradients else member.evaluator.values
        both = (of(at, way) if gradients else (of(at, way),) for way in (looped, compiled))
        for own, other in zip(*both, strict=True):
            assert np.allclose(own, other, rtol=1e-9, atol=1e-9 * np.abs(other).max())


def test_designs_are_checked(small):
    with pytest.raises(ValueError, match=r"designs have shape \(4,\); it must be \(n, 4\)"):
        small.evaluate(np.ones(4))
    with pytest.raises(ValueError, match="design 1: hbm_bandwidth = 9e\\+12 must be from 1e\\+12 to 8e\\+12"):
        small.evaluate(np.array([[0.0, 2e12, 1e15, 100.0], [0.0, 9e12, 1e15, 100.0]]))
    with pytest.raises(ValueError, match="cores_count = nan must be"):
        small.value_and_grad(np.array([[0.0, 2e12, 1e15, np.nan]]))


def test_best_of_a_sampled_grid_competes(small, monkeypatch):
    """Where descent and polishing end at worse designs than one of the sample, that one is the start of the best."""
    poor = small.upper.copy(), None
    poor[0][0] = 0.0
    monkeypatch.setattr(search, "_polished_designs", lambda *_: (poor[0][np.newaxis], None))
    found = searched(small, Effort(starts=4, steps=2, grid=400))
    assert found.sampled is False  # 5 levels of every range
    found = searched(small, Effort(starts=4, steps=2, grid=40))
    assert found.sampled
    assert found.objectives[0, 0] <= found.grid_objectives[0]
    assert found.feasible[0]
    assert found.designs[0, 3] == round(found.designs[0, 3])  # a count stays whole


def test_search_beats_its_grid(small, found):
    """At least as good as the best grid point; constraints kept, counts whole, nothing illegal."""
    assert found.feasible[0] and worst(found.constraints)[0] <= 1e-6
    assert found.objectives[0, 0] <= found.grid_objectives[0] * (1.0 + 1e-12)
    assert found.designs[0, 3] == round(found.designs[0, 3])
    assert small.legal(found.designs[:1]).all()
    assert not small.legal(np.array([[2.0, 2e12, 1e15, 100.0]])).any()  # tp 3 of 32 heads
    assert (found.grid[0][:, 0] < 2).all()
    everything = np.random.default_rng(1)
    near = np.clip(
        found.designs[0] * np.exp(0.05 * everything.normal(size=(4000, 4))), small.lower, np.minimum(small.upper, 1e99)
    )
    near[:, 0], near[:, 3] = found.designs[0, 0], np.round(near[:, 3])
    objectives, constraints = small.evaluate(near)
    kept = worst(constraints) <= 1e-6
    assert kept.any() and objectives[kept, 0].min() >= found.objectives[0, 0] * (1.0 - 2e-3)


def test_descent_is_reproducible(small):
    starts, weights = _draws(small, 8), np.ones((8, 1))
    first, second = (descended(small, starts, weights, 20) for _ in range(2))
    assert all(np.array_equal(one, other) for one, other in zip(first, second, strict=True))
    assert (first[0][:, 0] == starts[:, 0]).all()


def test_multiplier_is_what_the_limit_buys():
    """Smallest HBM bandwidth at a limit of the TPOT: 1 % more time saves what the multiplier says."""
    question = {
        **{key: value for key, value in SPEC.items() if key not in ("axes", "deployment")},
        "axes": {"hardware.memory.hbm.bandwidth": {"from": "1TB/s", "to": "8TB/s"}},
        "optimize": {"minimize": "hardware.memory.hbm.bandwidth"},
    }
    best = []
    for limit in (8.0, 8.08):
        asked = problem(question | {"constraints": {"tpot": {"max": f"{limit}ms"}}})
        best.append((asked, searched(asked, Effort(starts=4, steps=40, grid=64))))
    found = balance(best[0][0], best[0][1].designs[0], np.ones(1))
    held, residual = found.active, found.residual
    assert [one.name for one in held] == ["tpot <= 8 ms"] and residual < 1e-6
    gained = np.log(best[1][1].objectives[0, 0] / best[0][1].objectives[0, 0]) / np.log(1.01)
    assert held[0].elasticity == pytest.approx(gained, rel=0.02)
    assert held[0].bought(best[0][1].objectives[0, 0]) < 0


def test_pareto_front():
    """Fast against cheap: what is found is a front, and no point of the grid beats it."""
    asked = problem(SPEC | {"optimize": {"minimize": ["tpot", "die_area"]}, "constraints": {"ttft": {"max": "1s"}}})
    front = searched(asked, Effort(starts=32, steps=40, grid=500))
    assert len(front.designs) > 3 and front.feasible.all()
    assert (np.diff(front.objectives[:, 0]) > 0).all() and (np.diff(front.objectives[:, 1]) < 0).all()
    _designs, objectives, constraints = front.grid
    kept = objectives[worst(constraints) <= 1e-6]
    beaten = (kept[:, np.newaxis] < front.objectives[np.newaxis] * (1 - 1e-2)).all(axis=2)
    assert beaten.any(axis=1).mean() < 0.02


def test_nondominated():
    assert nondominated(np.array([[2.0, 1.0], [1.0, 2.0], [2.0, 2.0], [np.inf, 0.0], [1.0, 3.0]])).tolist() == [1, 0]
    for objectives in (1, 2, 3):
        weights = spread_weights(objectives, 20)
        assert weights.shape == (20, objectives) and np.allclose(weights.sum(axis=1), 1.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"optimize": {}}, r"optimize.minimize is missing: name the metric"),
        ({"optimize": {"minimize": "tpott"}}, r"a request has no tpott here; did you mean tpot"),
        ({"optimize": {"minimize": "decode_bound"}}, r"decode_bound is not a number that varies smoothly"),
        (
            {"optimize": {"minimize": "tpot", "start": 3}},
            r"there is no key optimize.start; did you mean optimize.starts",
        ),
        ({"optimize": {"minimize": "tpot", "steps": 0}}, r"optimize.steps = 0 must be at least 1"),
        ({"optimize": {"minimize": ["tpot", "tpot"]}}, r"optimize.minimize: tpot is given twice"),
        ({"constraints": {"tpot": "8ms"}}, r'constraints."tpot" = .8ms. must be \{max = ..\}'),
        ({"constraints": {"tpot": {"max": "8W"}}}, r'constraints."tpot".max = .8W. has the unit .W.'),
        ({"constraints": {"tpo": {"max": 1}}}, r'constraints."tpo".max: there is no tpo'),
        ({"constraints": {"die_area": {"max": -3}}}, r'constraints."die_area".max = -3'),
        ({"constraints": {"hardware.memory.hbm.bandwith": {"max": 3}}}, r"bandwith"),
        ({"mode": "grid"}, r"mode = .grid. is not read by an optimisation"),
        ({"job": "serve"}, r"there is no workload.batch for a serve job"),
        ({"job": "learn"}, r"job = .learn. must be request"),
        ({"axes": {}, "deployment": {"tp": 1}}, r"axis|nothing varies"),
        (
            {"axes": {"hardware.cores.count": {"from": 40.2, "to": 40.8}}},
            r"hardware.cores.count: there is no whole number from 40.2 to 40.8",
        ),
    ],
)
def test_bad_specifications(changes, message):
    with pytest.raises(ValueError, match=message):
        problem(SPEC | changes)


def test_long_lists_are_relaxed():
    """More combinations than are tried one by one: lists of numbers become ranges whose results are in the list."""
    batches = [float(2**i) for i in range(9)]
    asked = design(
        SPEC | {"workload": {"batch": batches, "isl": [256 * i for i in range(1, 17)], "osl": 256}, "per": "none"}
    )
    made = problem(asked.spec.source)
    relaxed = {v.name: v for v in made.variables if v.allowed is not None}
    assert set(relaxed) == {"isl"} and not relaxed["isl"].choice
    assert relaxed["isl"].neighbours(300.0) == (256.0, 512.0)
    assert relaxed["isl"].rounded(np.array([300.0, 500.0])).tolist() == [256.0, 512.0]


TOML = """
hardware = "H100-SXM"
model = "Llama-3.1-8B"
efficiency = "derated"
workload = { batch = 16, isl = 1024, osl = 256 }
[axes]
"hardware.memory.hbm.bandwidth" = { from = "1TB/s", to = "8TB/s" }
[optimize]
minimize = "hardware.memory.hbm.bandwidth"
[constraints]
tpot = { max = "8ms" }
"""


@pytest.fixture
def written(tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text(TOML)
    return path


def test_verb(written, tmp_path, capsys):
    out, picture = tmp_path / "out.nc", tmp_path / "out.svg"
    words = ["optimize", str(written), "--starts", "4", "--steps", "40", "--grid", "64", "-o", str(out)]
    assert main([*words, "--plot", str(picture), "-v"]) == 0
    text = capsys.readouterr().out
    assert "tpot <= 8 ms" in text and "held by" in text and "best of 64" in text
    assert "keeps constraints" in text and picture.stat().st_size > 1000
    with xr.open_dataset(out) as data:
        assert data["tpot"].values[0] == pytest.approx(8e-3, rel=1e-4)
        assert bool(data["keeps_constraints"][0]) and data["hbm_bandwidth"].attrs["units"] == "byte s-1"
        assert json.loads(data.attrs["active"])[0]["name"] == "tpot <= 8 ms"
        assert data.attrs["spec_sha256"]


def test_verb_for_machines(written, capsys):
    assert main(["optimize", str(written), "--starts", "4", "--steps", "40", "--grid", "64", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["designs"][0]["keeps_constraints"]
    assert record["designs"][0]["variables"]["hbm_bandwidth"] <= record["best_grid_point"]["objective"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--starts", "two"], "--starts = 'two'"),
        (["--max", "tpot"], "--max 'tpot' must be NAME=VALUE"),
        (["--minimize", "tpo"], "a request has no tpo here; did you mean tpot"),
        (["-o", "out.csv"], "out.csv must end in .nc"),
        (["--plot", "nowhere/x.png"], "there is no folder nowhere"),
        (["--max", "tpot=1us"], "no design keeps the constraints"),
    ],
)
def test_verb_errors(words, message, written, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(["optimize", str(written), "--steps", "5", "--grid", "64", *words]) == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1


AT_ENDS = {
    "hardware": "H100-SXM",
    "model": "Llama-3.1-8B",
    "efficiency": "derated",
    "workload": {"batch": 16, "isl": 1024, "osl": 256},
    "deployment": {"tp": [1, 2]},
    "axes": {
        "hardware.memory.hbm.bandwidth": {"from": "1TB/s", "to": "4TB/s"},
        "hardware.memory.l2.bandwidth": ["5TB/s", "6TB/s"],
    },
    "optimize": {"minimize": "e2e"},
}


def test_what_lies_beyond_the_ends_of_ranges():
    """Each variable at an end, and the change of the objective 10 % beyond it, against that of a wider problem."""
    found = searched(problem(AT_ENDS), Effort(starts=8, steps=40, grid=200))
    ends = {end.name: end for end in found.ends}
    # tp is at the end of its list; devices are counted from 1 on, so that 2.2 of them say nothing less.
    assert set(ends) == {"hbm_bandwidth", "l2_bandwidth", "tp"}
    wide = AT_ENDS["axes"] | {"hardware.memory.hbm.bandwidth": {"from": "1TB/s", "to": "4.4TB/s"}}
    wider = searched(problem(AT_ENDS | {"axes": wide}), Effort(starts=8, steps=40, grid=200))
    change = wider.objectives[0, 0] / found.objectives[0, 0] - 1.0
    end = ends["hbm_bandwidth"]
    assert end.upper and end.better and end.value == pytest.approx(4e12)
    # To first order: the share of the time that memory takes falls as bandwidth grows by a tenth.
    assert end.change == pytest.approx(change, rel=0.1)
    assert end.step is None
    assert ends["tp"].step == 1.0 and ends["tp"].better


def test_one_device_is_no_end(found):
    """Nothing lies below one device: it is not told as an end."""
    assert all(not (end.name == "tp" and not end.upper) for end in found.ends)


def short_search(models: str, workload: str, minimize: str) -> str:
    """A specification whose one variable is the bandwidth of an H100, found in few steps."""
    return f"""
hardware = "H100-SXM"
model = {models}
efficiency = "derated"
workload = {{ batch = 16, {workload} }}
axes = {{ "hardware.memory.hbm.bandwidth" = {{ from = "1TB/s", to = "4TB/s" }} }}
optimize = {{ minimize = "{minimize}", starts = 4, steps = 10, grid = 50 }}
"""


def test_limits_are_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = short_search('"Llama-3.1-8B"', "isl = 1024, osl = 256", "owning_usd_per_million_tokens")
    (tmp_path / "ends.toml").write_text(text)
    main(["optimize", "ends.toml", "-v"])
    told = capsys.readouterr().out
    assert "limit   hbm_bandwidth is at its most, 4 TB/s: 10 % more would change the objective by -" in told
    assert "money   margin 8.5: a device is bought at 8.5 times what it takes to make" in told
    main(["optimize", "ends.toml", "--set", "hardware.costs.margin=1", "-v"])
    assert "money   margin 1: a device costs what it takes to make" in capsys.readouterr().out


PER_MODEL = {
    "hardware": "H100-SXM",
    "model": ["Llama-3.1-8B", "Llama-3.1-70B"],
    "efficiency": "derated",
    "workload": {"batch": 16, "osl": 256},
    "axes": {"workload.isl": [512, 1024], "hardware.memory.hbm.bandwidth": {"from": "1TB/s", "to": "4TB/s"}},
    "optimize": {"minimize": "tpot"},
}


def test_problem_of_every_condition():
    """One specification for every model and length; what is named in their place, alone."""
    every = list(per_condition(PER_MODEL))
    assert [tuple(values.values()) for values, _ in every] == [
        (model, isl) for model in PER_MODEL["model"] for isl in (512, 1024)
    ]
    _, last = every[-1]
    assert last["model"] == "Llama-3.1-70B" and last["set"] == {"workload.isl": 1024}
    assert list(last["axes"]) == ["hardware.memory.hbm.bandwidth"]
    assert [values for values, _ in per_condition(PER_MODEL | {"per": "isl"})] == [{"isl": 512}, {"isl": 1024}]
    assert [values for values, _ in per_condition(PER_MODEL | {"per": "none"})] == [{}]
    with pytest.raises(ValueError, match="there is no axis modle"):
        list(per_condition(PER_MODEL | {"per": "modle"}))


def test_an_optimum_per_model_is_printed(tmp_path, monkeypatch, capsys):
    """One after the other; of a model that fits nowhere, the line that says so."""
    monkeypatch.chdir(tmp_path)
    text = short_search('["Llama-3.1-8B", "Llama-3.1-70B"]', "isl = 512, osl = 64", "tpot")
    (tmp_path / "two.toml").write_text(text)
    main(["optimize", "two.toml", "-v"])
    told = capsys.readouterr().out
    assert told.startswith("best per model (--per none: over all of them)")
    assert told.index("model Llama-3.1-8B") < told.index("model Llama-3.1-70B")
    assert "no design keeps the constraints; the nearest misses: memory_use <= 1" in told
    main(["optimize", "two.toml", "--json"])
    first, second = json.loads(capsys.readouterr().out)
    assert first["conditions"] == {"model": "Llama-3.1-8B"} and first["designs"]
    assert second["designs"] == []
    assert main(["optimize", "two.toml", "-o", "two.nc"]) == 2
    assert "--output is of one design, and there is one for each model" in capsys.readouterr().err

"""Design problems in the hands of SciPy, optax, pymoo, Optuna and torch: each finds what bisection finds."""

import sys

import numpy as np
import pytest
from scipy.optimize import brentq, minimize

from sweeps.studies.adapters import with_botorch, with_optax, with_optuna, with_pymoo, with_scipy
from sweeps.studies.optimize.cube import Cube, Shares
from sweeps.studies.optimize.spec import problem

ASKED = {
    "job": "step",
    "hardware": "H100-SXM",
    "model": "Llama-3.1-8B",
    "efficiency": "derated",
    "workload": {"decode": 32, "context": 1024},
    "deployment": {"tp": [1, 3, 2]},
    "axes": {
        "hardware.memory.hbm.bandwidth": {"from": "1TB/s", "to": "16TB/s"},
        "hardware.memory.hbm.capacity": {"from": "10GB", "to": "200GB"},
        "hardware.cores.count": {"from": 64, "to": 200},
    },
    "optimize": {"minimize": "hardware.memory.hbm.bandwidth"},
    "constraints": {"step_time": {"max": "6ms"}},
}
"""The slowest HBM at which a decode step takes at most 6 ms; tp = 3 does not divide the heads."""


@pytest.fixture(scope="module")
def slowest():
    return problem(ASKED)


@pytest.fixture(scope="module")
def traded():
    """HBM bandwidth against the time of the step."""
    return problem(ASKED | {"optimize": {"minimize": ["hardware.memory.hbm.bandwidth", "step_time"]}})


@pytest.fixture(scope="module")
def known(slowest):
    """The answer at tp = 1: by bisection, the rest at its upper bounds. More capacity and more cores never hurt."""

    def misses(bandwidth):
        design = slowest.upper.copy()
        design[slowest.names.index("tp")], design[slowest.names.index("hbm_bandwidth")] = 0.0, bandwidth
        return slowest.evaluate(design[np.newaxis])[1][0, 0]

    return brentq(misses, 1e12, 1.6e13, rtol=1e-9)


@pytest.fixture(scope="module")
def shares(slowest):
    return Shares(slowest, {"tp": 1.0})


def bandwidth(problem, design):
    """Of a design that keeps its constraints up to a millionth."""
    objectives, constraints = problem.evaluate(np.reshape(design, (1, -1)))
    assert constraints.max() < 1e-6
    return objectives[0, 0]


@pytest.mark.parametrize("method", ["SLSQP", "trust-constr"])
def test_scipy_ends_where_bisection_does(shares, known, method):
    before = shares.problem.gradients
    result = minimize(**with_scipy.arguments(shares, method=method), options={"maxiter": 60})
    found = shares.designs(result.x)
    constraint = shares.problem.evaluate(found[np.newaxis])[1]
    assert constraint.max() < 1e-4
    assert found[shares.problem.names.index("hbm_bandwidth")] == pytest.approx(known, rel=1e-3)
    assert shares.problem.gradients - before <= result.nfev + 1  # value, constraints and slopes of a point cost once


def test_scipy_methods_without_constraints_are_refused(shares):
    with pytest.raises(ValueError, match="^method = 'Powell' must be"):
        with_scipy.arguments(shares, method="Powell")


def test_optax_descends_inside_jit(shares, known, float64):
    import jax
    import jax.numpy as jnp
    import optax

    loss = with_optax.loss(shares)
    optimiser = optax.adam(optax.exponential_decay(0.05, 200, 0.01), b2=0.95)
    start = jnp.asarray(shares.start)

    @jax.jit
    def descended(x):
        def step(carry, _):
            x, state = carry
            value, slope = jax.value_and_grad(loss)(x)
            change, state = optimiser.update(slope, state)
            return (optax.projections.projection_hypercube(optax.apply_updates(x, change)), state), value

        return jax.lax.scan(step, (x, optimiser.init(x)), length=200)

    with jax.numpy_dtype_promotion("standard"):  # optax's own arithmetic mixes integers with floats
        (x, _), values = descended(start)
    goals = shares.goals(np.asarray(start))
    violations = np.maximum(goals.constraints, 0.0)
    assert float(values[0]) == pytest.approx(goals.score + 50.0 * np.sum(violations**2), rel=1e-9)
    end = shares.goals(np.asarray(x))
    speed, time = end.slopes[0], end.constraint_slopes[0, 0]  # by the bandwidth's share
    assert end.constraints[0] == pytest.approx(-speed / time / with_optax.PENALTY, rel=1e-3)  # multiplier / penalty
    design = shares.designs(np.asarray(x))
    assert design[shares.problem.names.index("hbm_bandwidth")] == pytest.approx(known, rel=0.04)  # 1.6 % too slow


def test_pymoo_spreads_along_the_front(traded, known):
    pytest.importorskip("pymoo")
    from pymoo.algorithms.moo.nsga2 import NSGA2
    from pymoo.optimize import minimize as pymoo_minimize

    asked = with_pymoo.pymoo_problem(traded)
    calls = traded.evaluations
    result = pymoo_minimize(asked, NSGA2(pop_size=40), ("n_gen", 40), seed=1)
    assert traded.evaluations - calls == 1600
    designs = asked.designs(result.X)
    objectives, constraints = traded.evaluate(designs)
    assert constraints.max() <= 0.0 and len(designs) > 10
    assert np.allclose(objectives, result.F)
    cores = designs[:, traded.names.index("cores_count")]
    assert (cores == np.round(cores)).all()
    assert (designs[:, traded.names.index("tp")] != 1.0).all()  # tp = 3
    order = np.argsort(objectives[:, 0])
    assert (np.diff(objectives[order, 1]) <= 0.0).all()  # a front: faster only with more bandwidth
    assert objectives[:, 0].min() < known  # with tp = 2


def test_optuna_is_asked_and_told_in_batches(slowest, traded, known):
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        directions=with_optuna.directions(slowest), sampler=optuna.samplers.TPESampler(seed=0, multivariate=True)
    )
    with_optuna.told(slowest, study, trials=100, batch=20)
    assert len(study.trials) == 100
    best = study.best_trial
    assert max(best.constraints.values()) <= 0.0 and best.params["tp"] != 3.0
    design = with_optuna.design(slowest, best)
    assert bandwidth(slowest, design) == pytest.approx(best.value)
    assert best.value < 1.5 * known
    both = optuna.create_study(directions=with_optuna.directions(traded), sampler=optuna.samplers.NSGAIISampler(seed=0))
    assert len(with_optuna.told(traded, both, trials=7, batch=4).trials) == 7
    assert all(trial.values[1] > 0.0 for trial in both.trials)


def test_a_maximised_metric_keeps_its_sign_in_optuna():
    assert with_optuna.directions(
        problem(ASKED | {"optimize": {"minimize": "step_time", "maximize": "hardware.memory.hbm.bandwidth"}})
    ) == ["minimize", "maximize"]


def test_torch_differentiates_through_the_problem(shares, slowest):
    torch = pytest.importorskip("torch")
    x = torch.tensor(shares.start, requires_grad=True)
    goals = with_botorch.goals(shares)(x)
    goals[1].backward()
    assert np.allclose(x.grad.numpy(), shares.goals(shares.start).constraint_slopes[0])
    points = torch.full((2, 4), 0.5, dtype=torch.float64)
    outcomes = with_botorch.outcomes(slowest)(points)
    objectives, constraints = Cube(slowest).evaluate(points.numpy())
    assert np.allclose(outcomes.numpy(), np.concatenate([-np.log(objectives), constraints], axis=1))


@pytest.mark.parametrize(
    ("module", "call"),
    [
        ("pymoo", lambda p: with_pymoo.pymoo_problem(p)),
        ("optuna", lambda p: with_optuna.told(p, None, 1)),
        ("torch", lambda p: with_botorch.outcomes(p)),
    ],
)
def test_a_missing_library_says_how_to_install_it(slowest, monkeypatch, module, call):
    for name in [name for name in sys.modules if name == module or name.startswith(module + ".")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "path_importer_cache", {})
    extra = "botorch" if module == "torch" else module
    command = rf"pip install '(\.\[{extra}\]' in a checkout|{extra})"
    with pytest.raises(ValueError, match=rf"^{module} is not installed: {command}"):
        call(slowest)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({}, "choices: tp is missing; it must be one of 1.0, 3.0, 2.0"),
        ({"tp": 4.0}, "choices: tp = 4.0 must be one of 1.0, 3.0, 2.0"),
        ({"tpp": 1.0}, "choices: tpp is not a choice of this problem; did you mean tp?"),
    ],
)
def test_choices_of_a_solver_are_checked(slowest, choices, message):
    with pytest.raises(ValueError) as error:
        Shares(slowest, choices)
    assert str(error.value) == message


def test_shares_have_one_objective(traded):
    with pytest.raises(ValueError, match="a solver has one objective; there are hardware.memory.hbm.bandwidth, step"):
        Shares(traded, {"tp": 1.0})


def test_the_cube_holds_designs_that_a_result_may_have(slowest):
    cube = Cube(slowest)
    points = np.random.default_rng(0).random((200, 4))
    designs = cube.designs(points)
    tp, bandwidths, _, cores = designs.T
    assert set(tp) == {0.0, 1.0, 2.0} and (cores == np.round(cores)).all()
    assert np.allclose(bandwidths, 1e12 * 16.0 ** points[:, 1])  # equal ratios
    assert cube.constraint_names[-1] == "possible deployment"
    assert np.array_equal(cube.evaluate(points)[1][:, -1] <= 0.0, tp != 1.0)

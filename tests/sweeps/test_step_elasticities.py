"""Elasticities of a step: against central differences in every knob, and against units at random points."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroof.jobs.step import STEP
from jaxroof.numerics.smooth import smoothing
from jaxroof.numerics.xla_options import QUICK
from sweeps.ask.axes import leaf, leaf_paths, replaced
from sweeps.ask.cases import case
from sweeps.run.precision import precision
from sweeps.studies.sensitivity.gradient import at_factors, metric_names
from sweeps.studies.sensitivity.knobs import continuous
from tests.evidence.gradients import drawn
from tests.evidence.unit_powers import BASES, follows_units, leaf_powers, metric_powers

pytestmark = pytest.mark.xdist_group("step_elasticities")

LANES, POINTS = 4096, 10_000

MOVE = 1e-6
"""Of the logarithm in a central difference: its error, MOVE^2, and rounding, 1e-16 / MOVE, are below 1e-9."""

KINKS = ("deployment.tp", "kv_heads", "devices", "ep", "attention_dp", "experts", "shared_dies", "dies")
"""Counts that meet a limit at a legal point (ep = all devices): one slope to the left, another to the right."""


@pytest.fixture(scope="module")
def scenario():
    """A mixed step of a mixture of experts with latent attention."""
    work = {"prefill": 700, "prefills": 3, "past": 130, "decode": 70, "context": 900}
    return case("step", "H200-SXM", "DeepSeek-V2-Lite", workload=work, deployment={"attention_dp": 2, "ep": 2}).scenario


@pytest.fixture(scope="module")
def paths(scenario):
    """Of all numbers."""
    return [path for path in leaf_paths(scenario) if not getattr(leaf(scenario, path), "ndim", 0)]


@pytest.fixture(scope="module")
def names(scenario):
    """Of the metrics."""
    return [name for name in metric_names(STEP, scenario) if follows_units(name)]


@pytest.fixture(scope="module")
def along(scenario, paths, names):
    """Metrics and d ln y of `LANES` scenarios, each along a direction of its own, shapes (LANES, metrics)."""

    def slopes(scenario, direction):
        ones = jax.tree.map(jnp.ones_like, direction)
        return jax.jvp(lambda factors: at_factors(STEP, scenario, factors, names), (ones,), (direction,))

    compiled = jax.jit(jax.vmap(slopes), compiler_options=QUICK)

    def called(scenarios, directions):
        with precision("float64"), smoothing(0.0):
            columns = dict(zip(paths, np.ascontiguousarray(directions.T), strict=True))
            values, changes = jax.device_get(compiled(scenarios, columns))
        values, changes = (np.stack([table[name] for name in names], axis=1) for table in (values, changes))
        return values, changes / np.where(values > 0.0, values, 1.0)

    return called


def test_against_differences(scenario, paths, along):
    """All metrics in all knobs. Without smoothing gradients are exact: only rounding tells them from differences."""
    turned = [i for i, path in enumerate(paths) if leaf(scenario, path) and continuous(path)]
    places, directions = [], np.zeros((LANES, len(paths)))
    for i in turned:
        value = leaf(scenario, paths[i])
        directions[len(places), i] = 1.0
        places += [scenario, *(replaced(scenario, paths[i], value * np.exp(step)) for step in (MOVE, -MOVE))]
    assert len(turned) > 200 and len(places) <= LANES
    places += [scenario] * (LANES - len(places))
    values, found = along(jax.tree.map(lambda *leaves: np.array(leaves, float), *places), directions)
    logs = np.log(values[: 3 * len(turned)]).reshape(len(turned), 3, -1)
    exact, differences = found[: 3 * len(turned) : 3], (logs[:, 1] - logs[:, 2]) / (2 * MOVE)
    off = np.abs(exact - differences) > 1e-6  # rounding of differences
    assert {paths[i] for i, row in zip(turned, off, strict=True) if row.any() and not paths[i].endswith(KINKS)} == set()
    assert np.sum(np.any(np.abs(exact) > 1e-6, axis=1)) > 80


def test_elasticities_add_up(scenario, paths, names, along):
    """Every number is drawn anew. Along the powers of a unit in every number, a metric changes by its own power."""
    random, throttled = np.random.default_rng(0), 0
    for _ in range(-(-POINTS // LANES)):
        with precision("float64"):
            places = drawn(scenario, LANES, random)
        for base in BASES:
            powers = np.array([float(leaf_powers(path).get(base, 0)) for path in paths])
            values, found = along(places, np.broadcast_to(powers, (LANES, len(paths))))
            expected = np.array([metric_powers(name).get(base, 0) for name in names])
            known = values > 0.0  # room for no sequence has no logarithm
            assert np.isfinite(values).all()
            np.testing.assert_allclose(np.where(known, found - expected, 0.0), 0.0, atol=1e-5, err_msg=base)
        throttled += int(np.sum(values[:, names.index("slowdown")] > 1.0))
    assert 0.1 * POINTS < throttled < 0.9 * POINTS

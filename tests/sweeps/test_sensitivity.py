"""Sensitivities: elasticities against central differences for every knob, maps, second order, smoothing."""

import dataclasses
import functools
import itertools
import json
from typing import Any

import jax
import numpy as np
import pytest
import xarray as xr

import sweeps
from jaxroof.jobs import JOBS
from jaxroof.numerics.xla_options import QUICK
from sweeps.ask.axes import replaced
from sweeps.ask.cases import case
from sweeps.run import ways
from sweeps.run.precision import precision
from sweeps.studies.sensitivity.api import specification
from sweeps.studies.sensitivity.gradient import at_factors
from sweeps.studies.sensitivity.knobs import knobs, pairs, without_elasticity
from sweeps.studies.sensitivity.point import curvatures, sensitivity_at

pytestmark = pytest.mark.xdist_group("sensitivity")

ROOTS = ("hardware", "deployment", "workload", "model", "efficiency")
"""Every part of a scenario: points in all knobs share a program."""

METRICS = ("ttft", "tpot", "usd_per_million_tokens")
"""The same ones in every test, which then share compiled programs."""

STEP = 1e-6
"""Of the logarithm in a central difference: its error, STEP^2, and rounding, 1e-16 / STEP, are below 1e-9."""


@pytest.fixture(scope="module")
def request_case():
    """Llama-3.1-8B on four H100 at lengths and a batch where no count meets a limit of its formula."""
    work = {"batch": 29, "isl": 1100, "osl": 200, "cached": 100}
    return case("request", "H100-SXM", "Llama-3.1-8B", workload=work, deployment={"tp": 4})


@pytest.fixture(scope="module")
def exact_request(request_case):
    """Every knob of every part, exact piecewise gradients."""
    return sensitivity_at("request", request_case.scenario, METRICS, ROOTS, 0.0)


@pytest.fixture(scope="module")
def usual_request(request_case):
    """Every knob of every part, with the usual smoothing."""
    return sensitivity_at("request", request_case.scenario, METRICS, ROOTS)


@functools.cache
def values_of(job: str, names: tuple[str, ...]) -> Any:
    """A compiled function of many scenarios."""
    return jax.jit(jax.vmap(lambda scenario: at_factors(JOBS[job], scenario, {}, names)), compiler_options=QUICK)


def logs_at(job, names, scenarios) -> dict[str, np.ndarray]:
    """ln of metrics at many scenarios of one structure."""
    with precision("float64"):
        together = jax.tree.map(lambda *leaves: np.array(leaves, float), *scenarios)
        found = jax.device_get(values_of(job, tuple(names))(together))
    return {name: np.log(column) for name, column in found.items()}


def central(job, scenario, point) -> dict[str, np.ndarray]:
    """d ln y / d ln x of every metric in every knob by central differences, shapes (knobs,), in one compiled call."""
    ends = [replaced(scenario, knob.path, knob.value * np.exp(step)) for knob in point.knobs for step in (STEP, -STEP)]
    logs = {name: column.reshape(-1, 2) for name, column in logs_at(job, point.metrics, ends).items()}
    return {name: (column[:, 0] - column[:, 1]) / (2 * STEP) for name, column in logs.items()}


KINKS = ("deployment.tp", "kv_heads", "devices", "ep", "attention_dp", "experts")
"""Counts that meet a limit at a legal point (tp = the devices of a ring, ep = all devices): one slope to the left,
another to the right, and a central difference is the mean of both."""


def compared(job, scenario, point) -> int:
    """Knobs that matter to some metric; every one that is off its central difference fails."""
    numeric = central(job, scenario, point)
    off = {}
    for name, found in point.elasticities.items():
        for knob, slope, difference in zip(point.knobs, found, numeric[name], strict=True):
            # 1e-6: rounding of differences of metrics
            if abs(slope - difference) > 1e-6 and not knob.path.endswith(KINKS):
                off[name, knob.path] = (float(slope), float(difference))
    assert off == {}
    return int(np.any([np.abs(found) > 1e-6 for found in point.elasticities.values()], axis=0).sum())


def test_request_against_differences(request_case, exact_request):
    """Without smoothing gradients are exact, so that only rounding tells them from differences."""
    assert len(exact_request.knobs) > 100
    assert compared("request", request_case.scenario, exact_request) > 40


def test_smoothing_only_blurs_ridges(usual_request, exact_request):
    """The same values; elasticities of time over rates minus those over times stay -1, whatever the exponent."""
    usual = usual_request
    assert usual.smoothing == 49.0 and exact_request.smoothing == 0.0
    assert usual.metrics["tpot"] == pytest.approx(exact_request.metrics["tpot"], rel=1e-12)
    for point in (usual, exact_request):
        powers = {"s": 1.0, "Hz": -1.0, "B/s": -1.0, "FLOP/s": -1.0, "1/s": -1.0}
        slopes = zip(point.knobs, point.elasticities["tpot"], strict=True)
        total = sum(powers.get(knob.unit, 0.0) * slope for knob, slope in slopes)
        assert total == pytest.approx(1.0, abs=1e-9)  # times +1, rates -1: a time


def test_flat_knobs_and_what_binds(usual_request):
    """TPOT of a small model at a batch of 29 is bound by HBM and launches: flat in the matrix peak."""
    point = usual_request
    found = dict(zip((knob.path for knob in point.knobs), point.elasticities["tpot"], strict=True))
    assert abs(found["hardware.matrix.bf16"]) < 1e-4
    assert found["hardware.memory.hbm.bandwidth"] < -0.3
    assert sum(point.bounds["decode"].values()) == pytest.approx(1.0)
    assert "hbm" in list(point.bounds["decode"])[:2]


def test_curvature(request_case, exact_request):
    """Differences of exact gradients against second differences of the metric itself."""
    paths, step = ("hardware.memory.hbm.bandwidth", "workload.batch", "workload.osl"), 1e-3
    turned = [next(knob for knob in exact_request.knobs if knob.path == path) for path in paths]
    found = curvatures(request_case.scenario, exact_request, turned, "tpot")
    corners = []
    for i, j, a, b in itertools.product(range(3), range(3), (1, -1), (1, -1)):
        moves = np.zeros(3)
        moves[i] += a * step
        moves[j] += b * step
        corner = request_case.scenario
        for knob, move in zip(turned, moves, strict=True):
            corner = replaced(corner, knob.path, knob.value * np.exp(move))
        corners.append(corner)
    padded = corners + [corners[0]] * (2 * len(exact_request.knobs) - len(corners))  # the program of `central`
    logs = logs_at("request", METRICS, padded)["tpot"][: len(corners)]
    expected = (logs.reshape(3, 3, 4) @ np.array([1, -1, -1, 1])) / (4 * step**2)
    np.testing.assert_allclose(found, expected, atol=1e-5)  # step^2 times fourth derivatives
    np.testing.assert_array_equal(found, found.T)
    slopes_here = np.array([exact_request.elasticities["tpot"][exact_request.knobs.index(knob)] for knob in turned])
    first = pairs("tpot", turned, slopes_here, found)[0]
    assert abs(first.gain) == pytest.approx(np.abs(found[~np.eye(3, dtype=bool)]).max())


def test_signs_of_pairs():
    """By hand, times of two resources in a row: y = a / x1 + b / x2, shares 0.7 and 0.3. d2 ln y / d ln x1 d ln x2 =
    -0.7 * 0.3, and whoever makes one faster makes the other weigh more: complements. In a product x1 x2 of 0.7 beside
    a constant 0.3 it is +0.7 * 0.3: what one saves the other cannot: substitutes.
    """
    scenario = case("step", "H100-SXM", "Llama-3.1-8B", workload={"decode": 8, "context": 100}).scenario
    two = knobs(scenario, ("hardware.memory.hbm.bandwidth", "hardware.cores.vector_flops"))
    in_a_row, product = np.full((2, 2), -0.21), np.full((2, 2), 0.21)
    assert pairs("tpot", two, np.array([-0.7, -0.3]), in_a_row)[0].kind == "complements"
    assert pairs("tpot", two, np.array([-0.7, -0.7]), product)[0].kind == "substitutes"
    assert pairs("tokens_per_second", two, np.array([0.7, 0.7]), -product)[0].kind == "substitutes"
    assert pairs("tpot", two, np.array([-0.7, -0.3]), np.full((2, 2), np.nan)) == []


def test_what_has_no_elasticity(request_case):
    left = without_elasticity(request_case.scenario)
    assert left["workload.acceptance"] == "0" and left["deployment.pp"] == "unknown"
    assert left["hardware.links.scale_up.reduces"] == "switch"
    assert not {knob.path for knob in knobs(request_case.scenario)} & set(left)
    by_path = {knob.path: knob for knob in knobs(request_case.scenario)}
    assert by_path["deployment.tp"].whole and by_path["hardware.cores.count"].count
    assert not by_path["hardware.memory.hbm.bandwidth"].count


def test_maps_equal_points(tmp_path, usual_request):
    """A map over two axes, one of them whole accelerators, is the points that it is made of."""
    work = {"isl": 1100, "osl": 200, "cached": 100}
    spec = {
        "hardware": ["H100-SXM", "H200-SXM"],
        "model": "Llama-3.1-8B",
        "workload": {"batch": [3, 29], **work},
        "deployment": {"tp": 4},
    }
    paths = ["hardware.memory.hbm.bandwidth", "workload.batch"]
    found = sweeps.sensitivity(spec, ["tpot"], paths).dataset
    assert found["elasticity_of_tpot"].dims == ("knob", "hardware", "batch")
    place = case("request", "H200-SXM", "Llama-3.1-8B", workload={"batch": 3, **work}, deployment={"tp": 4})
    other = sensitivity_at("request", place.scenario, METRICS, ROOTS)
    for name, batch, point in (("H100-SXM", 29, usual_request), ("H200-SXM", 3, other)):
        where = [[knob.path for knob in point.knobs].index(path) for path in paths]
        here = found.sel(hardware=name, batch=batch)
        np.testing.assert_allclose(here["elasticity_of_tpot"], point.elasticities["tpot"][where], rtol=1e-9)
        assert float(here["tpot"]) == pytest.approx(point.metrics["tpot"])
    file = tmp_path / "sweep.nc"
    found.to_netcdf(file)
    assert specification(file).axes == specification(spec).axes  # a sweep's file says what it was made from
    assert json.loads(found.attrs["spec"])["model"] == "Llama-3.1-8B"


def test_wrong_questions(request_case):
    scenario = request_case.scenario
    with pytest.raises(ValueError, match="no real-valued metric tpott here; did you mean tpot"):
        sensitivity_at("request", scenario, ["tpott"])
    with pytest.raises(ValueError, match="hardware.memory.hbn is not a number of this case; did you mean"):
        sensitivity_at("request", scenario, None, ["hardware.memory.hbn"])
    with pytest.raises(ValueError, match="workload.acceptance is 0"):
        sensitivity_at("request", scenario, None, ["workload.acceptance"])
    with pytest.raises(ValueError, match="job = 'serve' has no maps"):
        work = {"rate": [1, 2], "isl": 8, "osl": 8}
        sweeps.sensitivity({"job": "serve", "hardware": "H100-SXM", "model": "Llama-3.1-8B", "workload": work})


def test_maps_of_many_points_are_those_of_few(monkeypatch):
    """All knobs at once, in tiles on several threads, or one after the other: the same elasticities."""
    spec = {
        "hardware": "H100-SXM",
        "model": "Llama-3.1-8B",
        "mode": "sample",
        "sample": {"points": 100},
        "workload": {"batch": sweeps.log(1, 128), "isl": 512, "osl": 64},
        "deployment": {"tp": [1, 2]},
    }
    knobs = ["hardware.memory", "hardware.cores.count", "hardware.matrix.bf16", "workload.batch"]
    one = sweeps.sensitivity(spec, ["tpot"], knobs).dataset
    monkeypatch.setattr(ways, "MANY_SLOPES", 1)
    monkeypatch.setattr(ways, "ALL_SLOPES", dataclasses.replace(ways.ALL_SLOPES, lanes=64))
    all_ = sweeps.sensitivity(spec, ["tpot"], knobs).dataset
    xr.testing.assert_allclose(one, all_, rtol=1e-12, atol=1e-12)

"""Calibration: known overheads are found again, a run that cannot tell one says so, and bad runs are refused."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import hwspaces
from sweeps.ask.axes import leaf, leaf_paths
from sweeps.run.precision import precision
from sweeps.serving.calibration import calibrated, measured_run, residual
from sweeps.serving.calibration.file import calibration_text, recorded_words
from sweeps.serving.calibration.fit import PRIOR_SPREAD
from sweeps.serving.calibration.measured_run import held_out
from sweeps.serving.calibration.simulator import CONSTANTS, Latencies, Linearized, Simulator, least
from tests.calibration_runs import TRUE, latencies, report, serving, stream
from workloads.streams.stream import Stream
from workloads.traces import read_measured
from workloads.traces.rows import Measured

pytestmark = pytest.mark.xdist_group("calibrate")


def run_of(folder, of, found, **words):
    return measured_run(read_measured(report(folder / "run.json", of, found, **words)))


def apart() -> Stream:
    """Requests that never meet; one is as long as the longest of the others' streams, for the same program."""
    of = stream()
    longest = np.arange(len(of)) == np.argmax(of.isl + of.osl)
    return dataclasses.replace(
        of, arrival=10.0 * np.arange(len(of)), osl=np.where(longest, of.osl, np.minimum(of.osl, 16.0))
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def found(folder):
    """Of a run with 5 % of noise."""
    of = stream()
    run = run_of(folder, of, latencies(of))
    with precision("float64"):
        return calibrated(run, serving(of))


def test_known_overheads_are_found_again(found):
    assert found.told == CONSTANTS
    assert found.after == pytest.approx(TRUE, rel=0.05)
    for name, value in found.after.items():
        assert abs(np.log(value / TRUE[name])) < 3.0 * found.spread[name]


def test_errors_of_both_parts_fall_to_the_noise(found):
    for part in ("training", "validation"):
        before, after = found.errors[part]["before"], found.errors[part]["after"]
        assert before.error > 0.3
        # 5 % of noise on TTFT has a mean of 4 %; its phase in a step and its batches add to that.
        assert after.error < 0.07 and after.tpot < 0.05


def test_slopes_are_derivatives_where_no_batch_changes():
    of, at, h = apart(), np.log(list(TRUE.values())), 1e-4
    one = serving(of)
    unlimited = dataclasses.replace(one.hardware.power, tdp=1e9)  # the slope passes smoothly to the limit of power
    one = dataclasses.replace(one, hardware=dataclasses.replace(one.hardware, power=unlimited))
    with precision("float64"):
        simulator = Simulator(one)
        slopes = simulator.latencies(at).slopes
        for i, step in enumerate(h * np.eye(len(at))):
            above, below = (simulator.latencies(at + sign * step).values for sign in (1.0, -1.0))
            for name, slope in slopes.items():
                # Central differences of exponentials: relative error h^2 / 6, and rounding of sums of 1e3 s.
                difference = (above[name] - below[name]) / (2.0 * h)
                np.testing.assert_allclose(slope[:, i], difference, rtol=1e-6, atol=1e-8)


def test_the_mean_slope_passes_over_the_saw_tooth():
    """Of a busy engine each request's TTFT jumps as it slips into another step; the mean over requests hardly does."""
    of, i = stream("poisson:8"), CONSTANTS.index("request_time")
    at = np.log(list(TRUE.values()))
    step = 0.3 * np.eye(len(at))[i]
    with precision("float64"):
        simulator = Simulator(serving(of))
        slope = simulator.latencies(at).slopes["ttft"][:, i].mean()
        above, below = (simulator.latencies(at + sign * step).values["ttft"].mean() for sign in (1.0, -1.0))
    assert slope == pytest.approx((above - below) / 0.6, rel=0.1)
    assert slope == pytest.approx(TRUE["request_time"], rel=0.1)  # a request's own time is waited for once


def test_what_a_run_cannot_tell_stays_as_it_was(folder):
    """One sequence at a time: its time is a few percent of the step's, and cannot be told from it."""
    of = apart()
    run = run_of(folder, of, latencies(of))
    with precision("float64"):
        found = calibrated(run, serving(of))
    assert found.told == ("step_time", "request_time")
    assert found.after["sequence_time"] == found.before["sequence_time"]
    assert found.spread["sequence_time"] == PRIOR_SPREAD
    assert found.after["request_time"] == pytest.approx(TRUE["request_time"], rel=0.05)
    assert found.after["step_time"] == pytest.approx(TRUE["step_time"], rel=0.05)


def test_held_out_requests_that_behave_otherwise_are_refused(folder):
    of = stream()
    times = latencies(of)
    odd = {name: np.where(held_out(len(of)), 3.0 * each, each) for name, each in times.items()}
    run = run_of(folder, of, odd)
    with (
        precision("float64"),
        pytest.raises(ValueError, match="held-out requests' error is .*%, over 2 times") as error,
    ):
        calibrated(run, serving(of))
    assert "training requests'" in str(error.value) and "\n" not in str(error.value)


def test_few_requests_are_refused(folder):
    of = stream()
    ones = np.ones(len(of))
    some = np.where(np.arange(len(of)) < 99, 1.0, np.nan)
    with pytest.raises(ValueError, match="it has 99 requests with TTFT and E2E latency; .* at least 100"):
        measured_run(Measured(of, some, ones, ones, None, 8.0, 1.0, {}))


def test_an_overhead_of_zero_is_refused(found):
    none = hwspaces.efficiency("datasheet").efficiency
    with pytest.raises(ValueError, match="host.step_time is 0 s"):
        residual(found.run, dataclasses.replace(serving(found.run.stream), efficiency=none))


@pytest.mark.parametrize(
    ("concurrency", "rate", "clients"),
    [
        (None, 8.0, None),
        (512.0, 8.0, None),
        (16.0, None, 16),
        (16.0, np.inf, 16),
        (None, np.inf, None),
        (1e4, None, 200),
    ],
)
def test_the_loop_is_closed_where_the_client_held_a_number_under_way(concurrency, rate, clients):
    of = stream()
    ones = np.ones(len(of))
    assert measured_run(Measured(of, ones, ones, ones, concurrency, rate, 1.0, {})).clients == clients


def test_blocks_of_consecutive_requests_are_held_out():
    out = held_out(200)
    assert out.sum() == 50 and np.flatnonzero(out)[:12].tolist() == [*range(30, 40), 70, 71]


def test_the_file_holds_the_base_with_new_overheads(found, folder):
    base = hwspaces.efficiency("learned-vllm")
    words = ["--measured", "a b.json", "--hardware", "H100-SXM"]
    text = calibration_text(found, base, base.efficiency, "vllm", "0.15.1", str(folder / "run.json"), words)
    (folder / "server.toml").write_text(text)
    read = hwspaces.efficiency(folder / "server.toml")
    assert read.engine == "vLLM 0.15.1" and recorded_words(read) == words
    assert "SHA-256" in read.notes[0] and "calibrated to run.json" in read.sources["host.step_time"]
    for path in leaf_paths(base.efficiency):
        name = path.removeprefix("host.")
        # Overheads are written with three digits.
        expected = found.after[name] if name in CONSTANTS else leaf(base.efficiency, path)
        assert leaf(read.efficiency, path) == pytest.approx(expected, rel=5e-3 if name in CONSTANTS else 1e-12), path
    assert set(read.sources) == set(base.sources)


def test_an_efficiency_that_no_calibration_made_has_no_words():
    with pytest.raises(ValueError, match="it was not calibrated"):
        recorded_words(hwspaces.efficiency("derated"))


def test_the_solver_passes_over_ripples():
    """A line through (1, 2) with ripples that are steeper than it: descent from (0, 0) stops in the first of them."""
    slopes = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]] * 30)
    phases = np.linspace(0.0, 50.0, len(slopes))

    def rows(point):
        off = slopes @ (point - np.array([1.0, 2.0]))
        return Linearized(10.0 * (off + 0.05 * (np.sin(200.0 * off + phases) - np.sin(phases))), 10.0 * slopes)

    found = least(rows, np.zeros(2), np.full(2, -3.0), np.full(2, 3.0))
    assert found == pytest.approx([1.0, 2.0], abs=0.03)


def test_stale_constants_have_a_large_residual(found):
    of = found.run.stream
    with precision("float64"):
        before, _ = residual(found.run, serving(of))
        right = dataclasses.replace(serving(of).efficiency, host=type(serving(of).efficiency.host)(**TRUE))
        after, _ = residual(found.run, dataclasses.replace(serving(of), efficiency=right))
    assert before.error > 0.3 > 0.07 > after.error
    assert jnp.isfinite(before.tpot)


class Staircase:
    """A closed loop's simulator, in short: TTFT is a whole step whatever a request's own time, but slopes say more."""

    def __init__(self, serving):
        self.requests, self.evaluations = len(serving.workload.traffic.isl), 0

    def latencies(self, logarithms):
        self.evaluations += 1
        step, _, request = np.exp(logarithms)
        size = 1.0 + 0.5 * np.sin(np.arange(self.requests))
        values = {"ttft": size * (0.02 + step), "tpot": size * (0.01 + step)}
        values["e2e"] = values["ttft"] + 100.0 * values["tpot"]
        slopes = {name: np.outer(size, [step, 0.0, request * (name == "ttft")]) for name in values}
        return Latencies(values, slopes)


def test_slopes_that_simulations_do_not_bear_out_tell_nothing(monkeypatch):
    monkeypatch.setattr("sweeps.serving.calibration.fit.Simulator", Staircase)
    of = stream()
    truth = Staircase(serving(of)).latencies(np.log(list(TRUE.values()))).values
    run = measured_run(Measured(of, truth["ttft"], truth["e2e"], truth["tpot"], 16.0, None, 1.0, {}))
    found = calibrated(run, serving(of))
    assert found.told == ("step_time",)
    assert found.after["step_time"] == pytest.approx(TRUE["step_time"], rel=0.01)
    assert found.after["request_time"] == found.before["request_time"]

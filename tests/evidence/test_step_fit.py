"""The refit of the default efficiency: rows are read as they are meant, and known constants are found again."""

import dataclasses

import jax
import numpy as np
import pytest

from sweeps.ask.axes import leaf
from sweeps.measure.validate.measured_csv import rows
from sweeps.run.precision import precision
from tests.evidence import derated_fit, eager_fit, learned_fit, saturated, silicon, step_cycles
from tests.evidence import serving_fit as fit
from tests.evidence.harness import fitting
from tests.evidence.least_squares import fitted
from tests.evidence.observation import step_times
from tests.evidence.parameters import EXPERTS, SHARED, starting_point, with_values

STEPS = (
    "experiment_id,model,tp,true_cycle_us,"
    "batch_prefill_tokens,batch_decode_tokens,batch_num_prefill_reqs,kv_tokens_in_use\n"
)


def step_file(folder, n=12):
    """Steps of one model at growing batch, every third with one prompt in it."""
    lines = [
        f"e,llama-2-7b,1,5000,{100 * (i % 3 == 0)},{4 * i + 1},{1 * (i % 3 == 0)},{600 * (4 * i + 2)}" for i in range(n)
    ]
    file = folder / "steps.csv"
    file.write_text(STEPS + "\n".join(lines) + "\n")
    return file


def test_a_step_holds_its_sequences_and_their_context(tmp_path):
    first, second = step_cycles.observations(step_file(tmp_path))[:2]
    # Row 2: 1 sequence decodes, 1 prompt of 100 new tokens; 1200 tokens in the cache are 600 each.
    assert first.step.mixed.prefill.past == 500.0
    assert first.step.mixed.decode.context == 600.0
    assert (first.step.mixed.logits, first.seconds) == (2.0, 5e-3)
    # Row 3: 5 sequences decode, no prompt.
    assert (second.step.mixed.prefill.tokens, second.step.mixed.decode.context) == (0.0, 3600.0)


@pytest.mark.parametrize(("n", "power"), [(1, 1), (2, 2), (3, 4), (64, 64), (65, 128), (0, 1)])
def test_octaves(n, power):
    assert step_cycles.octave(float(n)) == power


def test_known_constants_are_found_again(tmp_path):
    moved = [
        dataclasses.replace(parameter, spread=10.0)  # a prior too weak to pull
        for parameter in SHARED
        if parameter.path in ("linear.bandwidth", "host.step_time", "host.sequence_time")
    ]
    true = {"linear.bandwidth": 0.8, "host.step_time": 1e-3, "host.sequence_time": 30e-6}
    with precision("float64"):
        start = starting_point()
        times = step_times([row.step for row in step_cycles.observations(step_file(tmp_path))])
        measured = np.asarray(jax.jit(times)(with_values(start, true)))
        found = fitted(lambda values: times(with_values(start, values)), measured, np.full(12, 0.01), moved)
        again = np.asarray(jax.jit(times)(with_values(start, found)))
    # The gradient of `jaxroof.numerics.smooth.maximum` is smoothed near ridges, so the search stops a little short of
    # the truth.
    np.testing.assert_allclose(again, measured, rtol=0.005)
    for path, value in true.items():
        assert found[path] == pytest.approx(value, rel=0.1)


def test_every_parameter_is_a_constant_inside_its_bounds():
    for parameter in (*SHARED, *EXPERTS):
        assert leaf(starting_point(), parameter.path) == parameter.prior
        assert parameter.low < parameter.prior < parameter.high
        assert parameter.moved(10.0 * parameter.high, "far").prior == parameter.high


def test_unreliable_rows_are_known_by_their_labels():
    row = {"backend": "vllm", "source_tag": "2026-04-06.csv", "model_path": "m", "flag_ttft_queueing": ""}
    assert silicon.is_inferencex(row) and not silicon.unreliable(row)
    assert silicon.unreliable(row | {"flag_ttft_queueing": "1"})
    assert silicon.unreliable(row | {"source_tag": "h100_sxm/vllm/0.12.0/qwen3_32b.csv"})


def test_a_file_without_the_columns_is_refused(tmp_path):
    file = tmp_path / "other.csv"
    file.write_text("a,b\n1,2\n")
    for reader in (saturated.loaded, step_cycles.observations, lambda f: rows(f, ("c",))):
        with pytest.raises(ValueError, match="no column"):
            reader(file)


def test_a_fit_is_written_whole_or_not_at_all(tmp_path, capsys):
    @fitting()
    def some_fit(options, console):
        return "a = 1\n"

    file = tmp_path / "out.toml"
    assert some_fit([]) == 0 and not list(tmp_path.iterdir())
    assert some_fit(["-o", str(file)]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["out.toml"] and file.read_text() == "a = 1\n"
    assert some_fit(["-o", str(tmp_path / "none" / "out.toml")]) == 2
    assert "there is no folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("main", "words"),
    [
        (eager_fit.main, ()),
        (derated_fit.main, ()),
        (learned_fit.main, ("--engine", "vllm")),
        (fit.main, ("--engine", "vllm")),
    ],
    ids=["eager", "derated", "learned", "serving"],
)
def test_a_fit_without_its_rows_gets_one_line(main, words, tmp_path, capsys):
    assert main(["--data", str(tmp_path / "none"), *words, "-o", str(tmp_path / "out.toml")]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "none" in err and not list(tmp_path.iterdir())

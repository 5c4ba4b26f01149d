"""Fits of pools and drafts: both parts, tokens of a step by hand, constants judged on what was left out."""

import dataclasses

import pytest

from sweeps.measure.validate.serving.inferencex import points
from sweeps.measure.validate.serving.scores import ServingPrediction
from tests.evidence import pools, prompt_bursts
from tests.validate.test_inferencex import written


def point(folder, **changes):
    ((found,), _) = points(written(folder, changes))
    return found


def test_deployments_are_fitted_or_left_out(tmp_path):
    assert pools.is_fitted(point(tmp_path)) and not pools.is_fitted(point(tmp_path, config_id="0b"))
    assert not pools.is_fitted(point(tmp_path, hardware="h100"))
    assert pools.kind(point(tmp_path)) == "pools, drafts"


def test_tokens_of_a_step(tmp_path):
    """2 drafts: 1 + 0.83 + 0.83 x 0.5."""
    assert pools.steps_tokens(point(tmp_path)) == pytest.approx(2.245)


def test_a_constant_is_judged_on_what_was_left_out(tmp_path):
    """First tokens of both parts come 40 ms late: 100 ms are 60 ms best, and with that nothing is left."""
    one = point(tmp_path)
    two = dataclasses.replace(one, id="0b")
    found = [
        ServingPrediction(each, 1.0, 1.0, 60, median_ttft=each.ttft + 0.04, median_tpot=each.tpot, rate=480.0)
        for each in (one, two)
    ]
    handover = pools.added()[0]
    assert pools.error_with(found, handover, handover.now) == pytest.approx(0.04 / 0.25)
    assert pools.error_with(found, handover, handover.now - 0.04) == pytest.approx(0.0, abs=1e-12)
    table = pools.fit_table(found)
    assert next(iter(table.columns[2].cells)) == "60.0 ms" and next(iter(table.columns[6].cells)) == "0.0"
    fitted, out = pools.error_tables(found)
    assert (next(iter(fitted.columns[1].cells)), next(iter(out.columns[1].cells))) == ("1", "1")


def test_a_burst_is_a_time_per_prompt(tmp_path):
    """192 clients of two workers, the last first token after 9.6 s: 0.1 s each; uneven work takes longer."""
    (tmp_path / "serving2").mkdir()
    path = written(tmp_path / "serving2", {"conc": "192", "p99_ttft_ms": "9600"})
    path.rename(path.with_name("inferencex_disagg.csv"))
    (burst,) = prompt_bursts.bursts(tmp_path)
    assert burst.measured == pytest.approx(0.1)
    assert list(burst.predicted[:4]) == sorted(burst.predicted[:4]) and burst.predicted[4] == burst.predicted[2]


def test_a_missing_folder_is_one_line(tmp_path, capsys):
    assert pools.main(["--data", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("pools: ")

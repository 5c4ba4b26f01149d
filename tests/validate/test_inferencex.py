"""Rows of InferenceX as simulations: pools and drafts as flags, rows that are left out, medians, the measured rate."""

import csv
from pathlib import Path

import numpy as np
import pytest

from sweeps.cli.serve_command import serve_command
from sweeps.measure.validate.serving import forms
from sweeps.measure.validate.serving.attempt import attempted
from sweeps.measure.validate.serving.inferencex import points
from sweeps.measure.validate.serving.scores import ServingPrediction, score

REAL = Path("../shared/measured/serving2/inferencex_disagg.csv")

POOLS = {
    "config_id": "0a",
    "hardware": "h200",
    "framework": "dynamo-sglang",
    "model_path": "deepseek-ai/DeepSeek-R1-0528",
    "precision": "fp8",
    "spec_method": "mtp",
    "disagg": "True",
    "prefill_ep": "8",
    "prefill_dp_attention": "True",
    "prefill_num_workers": "2",
    "decode_ep": "1",
    "decode_dp_attention": "False",
    "decode_num_workers": "3",
    "prefill_gpus_per_worker": "8.0",
    "decode_gpus_per_worker": "8.0",
    "isl": "1024",
    "osl": "1024",
    "conc": "6",
    "date": "2026-02-07",
    "image": "lmsysorg/sglang:v0.5.8.post1-cu130",
    "output_tokps_per_gpu": "20",
    "median_ttft_ms": "250",
    "p99_ttft_ms": "400",
    "median_tpot_ms": "9",
    "flag": "",
}


def written(folder, *changes):
    path = folder / "inferencex.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, POOLS)
        writer.writeheader()
        writer.writerows(POOLS | one for one in changes)
    return path


def test_pools_and_drafts_are_flags(tmp_path):
    """Two workers of eight groups for prompts; three of eight devices decode with 2 drafts: 24 x 20 tokens/s."""
    (point,), left = points(written(tmp_path, {}))
    assert not left and point.throughput == pytest.approx(480.0) and point.medians and point.drafting
    spec = point.spec
    assert {"tp": 1, "attention_dp": 8, "ep": 8, "dp": 2}.items() <= spec.prefill.items()
    assert {"tp": 8, "dp": 3, "drafts": 2}.items() <= spec.deployment.items() and "ep" not in spec.deployment
    assert (spec.engine, spec.concurrency, spec.requests) == ("sglang@0.5.8.post1", 6, 60)
    words = serve_command(spec)
    assert "--prefill attention_dp=8" in words and "--drafts 2" in words and "--policy acceptance=0.83,0.5,0.5" in words


def test_rows_that_cannot_be_read_are_left_out_by_name(tmp_path):
    found, left = points(
        written(tmp_path, {}, {"flag": "tp_label+queueing"}, {"flag": "tp_label"}, {"framework": "other"})
    )
    assert len(found) == 2 and [one.row for one in left] == [3, 5]
    assert left[0].reason == "flagged: queueing" and left[1].reason.startswith("framework = 'other' is not known")


def test_the_form_of_a_file_is_told_by_its_header(tmp_path):
    ((point,), _) = forms.served_points(written(tmp_path, {}))
    assert point.prompts is not None
    (tmp_path / "other.csv").write_text("id\n1\n")
    with pytest.raises(ValueError, match="no column model_path"):
        forms.served_points(tmp_path / "other.csv")


def test_errors_are_of_medians_and_of_the_measured_rate(tmp_path):
    """250 ms and 9 ms measured, 480 tokens/s: +20 %, -10 % and +5 %, whatever the means are."""
    ((point,), _) = points(written(tmp_path, {}))
    one = ServingPrediction(point, 9.0, 9.0, 60, median_ttft=0.3, median_tpot=8.1e-3, rate=504.0)
    found = [score([one], metric).signed for metric in ("ttft", "tpot", "throughput")]
    assert found == pytest.approx([0.2, -0.1, 0.05])


def test_one_draw_for_all_days_of_a_point(tmp_path):
    first, later = points(written(tmp_path, {}, {"date": "2026-03-03"}))[0]
    assert first.spec.text() == later.spec.text()


@pytest.mark.skipif(not REAL.exists(), reason="no measured data beside the project")
def test_measured_pools():
    """Two deployments of few clients: within the spread between runs of one point, 1.5 times in one of ten."""
    found = [one for one in points(REAL)[0] if one.concurrency <= 4.0 and one.gpu == "B200-SXM"]
    chosen = [one for one in found if one.engine == "sglang"][:2]
    predicted, left = attempted(chosen)
    assert not left and len(predicted) == 2
    assert np.all(np.abs([one.ratio("throughput") - 1.0 for one in predicted]) < 0.25)

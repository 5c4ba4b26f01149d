"""Measured requests against predictions: what is read, what is left out and why, and the accuracy on public rows."""

import json
from pathlib import Path

import pytest

import hwspaces
import jaxroof
import workloads
from sweeps import cli
from sweeps.ask.axes import replaced
from sweeps.ask.cases import model_deployment
from sweeps.measure.validate.single_requests import COLUMNS, request_errors

DERATED = hwspaces.efficiency("derated").efficiency
MEASURED = Path(__file__).parents[2].parent / "shared" / "measured" / "e2e" / "tam_ground_truth.csv"

ROW = {
    "set": "sync_guidellm",
    "exp_id": "one",
    "gpu": "h100_sxm",
    "model": "llama-2-7b-hf",
    "dtype": "bf16/fp16 (assumed)",
    "tp": "1.0",
    "concurrency": "1.0",
    "prompt_tokens": "500.0",
    "prefix_tokens": "100.0",
    "implied_output_tokens": "101.0",
    "gt_ttft_ms": "25.0",
    "derived_itl_ms": "6.0",
    "gt_e2e_ms": "625.0",
}


def written(folder: Path, *changes: dict[str, str], drop: str | None = None) -> Path:
    """A file with one row per change of `ROW`."""
    columns = [column for column in COLUMNS if column != drop]
    lines = [",".join(columns)]
    lines += [",".join((ROW | change)[column] for column in columns) for change in changes]
    file = folder / "measured.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def test_a_row_is_predicted_as_request_cost_does(tmp_path):
    result = request_errors(written(tmp_path, {}, {"tp": "2.0"}, {"model": "qwen3-14b"}), DERATED)
    assert [row.served.model for row in result.scored] == ["Llama-2-7B", "Llama-2-7B", "Qwen3-14B"]
    entry = workloads.model("llama-2-7b-hf")
    deployment = replaced(model_deployment(entry, None), "tp", 2.0)
    requests = jaxroof.Requests(batch=1.0, isl=600.0, osl=101.0, cached=100.0)
    cost = jaxroof.request_cost(hwspaces.hardware("H100").hardware, entry.model, deployment, requests, DERATED)
    scored = result.scored[1]
    for metric in ("ttft", "tpot", "e2e"):  # vmapped or not: float32 rounding
        assert scored.predicted[metric] == pytest.approx(float(getattr(cost, metric)), rel=1e-5)
    assert scored.error("e2e") == pytest.approx(scored.predicted["e2e"] / 0.625 - 1.0)


def test_errors_are_over_the_rows_that_have_the_metric(tmp_path):
    result = request_errors(written(tmp_path, {}, {"gt_ttft_ms": ""}), DERATED)
    table = result.errors()
    assert (table["ttft"]["rows"], table["e2e"]["rows"]) == (1, 2)
    assert result.scored[1].error("ttft") is None
    # both rows are the same but for the missing figure, so mean, median and signed median agree in size
    error = result.scored[0].error("e2e")
    assert table["e2e"]["mape"] == pytest.approx(abs(error))
    assert table["e2e"]["signed_median"] == pytest.approx(error)


def test_a_row_that_cannot_be_predicted_is_listed_with_its_reason(tmp_path):
    file = written(
        tmp_path,
        {},
        {"model": "no-such-model"},
        {"gpu": "no-such-gpu"},
        {"set": "saturated_inference_perf", "concurrency": "12.0"},
        {"set": "neusight_label", "concurrency": ""},
        {"prompt_tokens": ""},
        {"gt_ttft_ms": "", "gt_e2e_ms": ""},
        {"tp": "3.0"},
    )
    result = request_errors(file, DERATED)
    assert len(result.scored) == 1
    reasons = {row.row: row.reason for row in result.unpredicted}
    assert sorted(reasons) == [3, 4, 5, 6, 7, 8, 9]
    assert "no-such-model" in reasons[3] and "no-such-gpu" in reasons[4]
    assert "concurrency 12.0" in reasons[5] and "neusight_label" in reasons[6]
    assert "prompt_tokens" in reasons[7] and "gt_e2e_ms" in reasons[8] and "tp" in reasons[9]


def test_one_at_a_time_in_another_set_counts(tmp_path):
    assert len(request_errors(written(tmp_path, {"set": "ours"}), DERATED).scored) == 1


def test_dtype_replaces_the_precision_only_when_it_names_one(tmp_path):
    result = request_errors(written(tmp_path, {}, {"dtype": "fp8"}), DERATED)
    assert next(row.served.architecture.head.compute for row in result.scored) == "fp16"
    assert float(result.scored[1].served.architecture.blocks[0].feedforward.up.bytes) < 1.1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gt_ttft_ms": "fast"}, ("row 2", "gt_ttft_ms = 'fast'", "number")),
        ({"gt_e2e_ms": "nan"}, ("row 2", "gt_e2e_ms", "finite")),
        ({"tp": "0"}, ("row 2", "tp = '0'", "at least 1")),
        ({"prompt_tokens": "-5"}, ("row 2", "prompt_tokens", "positive")),
        ({"model": "no-such-model"}, ("none of 1 rows", "no-such-model")),
    ],
)
def test_a_bad_value_is_refused_in_one_line(tmp_path, change, words):
    file = written(tmp_path, change)
    with pytest.raises(ValueError) as raised:
        request_errors(file, DERATED)
    message = str(raised.value)
    assert str(file) in message and "\n" not in message
    for word in words:
        assert word in message


def test_a_missing_file_or_column_and_an_empty_file_are_refused_in_one_line(tmp_path):
    missing = tmp_path / "missing.csv"
    with pytest.raises(ValueError, match="no such file"):
        request_errors(missing, DERATED)
    with pytest.raises(ValueError, match="no column gt_e2e_ms"):
        request_errors(written(tmp_path, {}, drop="gt_e2e_ms"), DERATED)
    with pytest.raises(ValueError, match="no rows"):
        request_errors(written(tmp_path), DERATED)
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(ValueError, match="no rows"):
        request_errors(tmp_path / "empty.csv", DERATED)


def test_the_command_prints_tables_and_json(tmp_path, capsys):
    file = written(tmp_path, {}, {"model": "no-such-model"})
    assert cli.main(["validate", "requests", "--data", str(file), "-v"]) == 0
    text = capsys.readouterr().out
    assert "MAPE" in text and "1 rows not predicted" in text and "no-such-model" in text
    assert cli.main(["validate", "requests", "--data", str(file), "--json", "--efficiency", "datasheet"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["efficiency"] == "datasheet" and len(printed["rows"]) == 1
    assert printed["rows"][0]["e2e_error"] < 0  # nothing beats the datasheet
    assert printed["unpredicted"][0]["row"] == 3
    assert cli.main(["validate", "requests", "--data", str(tmp_path / "none.csv")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.skipif(not MEASURED.is_file(), reason="the measured rows are not beside the project")
def test_accuracy_on_the_public_synchronous_rows():
    result = request_errors(MEASURED, DERATED)
    assert len(result.scored) == 9
    assert len(result.scored) + len(result.unpredicted) == 108
    # The step model without a kernel model reaches 4 to 5 % where its constants come from the same engine; 7 % is
    # what the project promises of rows that decided nothing in the fit.
    assert result.errors()["e2e"]["mape"] <= 0.07

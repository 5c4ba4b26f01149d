"""Published training runs: rows as deployments, rows that are left out, and the errors on measured ones."""

from pathlib import Path

import numpy as np
import pytest

import hwspaces
from sweeps.measure.validate.measured_csv import CsvRow
from tests.evidence.training_rows import FILES, maxtext, mlperf, training_runs
from tests.evidence.training_runs import main, scored_runs

DATA = Path(__file__).parents[2] / ".." / "shared" / "measured"

REACH = 0.08
"""Median error of MLPerf's rows that the model was asked to reach; no constant was fitted to them."""

ROW = {
    "gpu": "h200_sxm",
    "benchmark": "llama31_405b",
    "global_batch": "64",
    "seq_tokens": "8192",
    "tp": "4",
    "pp": "8",
    "cp": "2",
    "vpp": "2",
    "dp": "8",
    "micro_batch": "1",
    "precision": "fp8",
    "step_time_s": "1.0",
    "flag": "",
}


def row(**cells: str) -> CsvRow:
    return CsvRow("made_up.csv", 2, {**ROW, **cells})


def test_a_row_of_mlperf():
    run = mlperf(row())
    assert (run.device, run.precision, run.seconds) == ("H200-SXM", "fp8", 1.0)
    assert run.deployment.gather_bytes == 1.0 and run.deployment.overlap == "gemm"
    assert run.training.weight_bytes == 1.0 and run.training.virtual_stages == 2.0 and run.training.lora is None
    assert mlperf(row(precision="")).precision == "fp8"
    alone = mlperf(row(gpu="mi300x", benchmark="llama2_70b_lora", tp="1", pp="1", cp="1", vpp="", dp="8"))
    assert alone.deployment.pp is None and alone.training.lora.rank == 16.0 and alone.deployment.gather_bytes is None


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ({"flag": "config_unmatched"}, "config_unmatched"),
        ({"benchmark": "bert"}, "benchmark bert is not known"),
        ({"precision": "bf16+fp4"}, "precision bf16.fp4 is not known"),
        ({"dp": "7"}, "no multiple"),
    ],
)
def test_rows_that_are_left_out(cells, words):
    with pytest.raises(ValueError, match=words):
        mlperf(row(**cells))


def test_two_jax_devices_are_one_chip():
    cells = {"tpu": "v7", "chips": "64", "model": "llama3.1-70b", "precision": "fp8_full", "global_batch": "256"}
    run = maxtext(row(**cells, ici_context_parallelism="8"))
    assert run.deployment.cp == 4.0 and run.deployment.dp == 16.0 and run.training.micro_batch == 16.0


def test_a_folder_without_data_is_refused_in_one_line(tmp_path, capsys):
    assert main(["--data", str(tmp_path)]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


@pytest.mark.skipif(not (DATA / next(iter(FILES))).exists(), reason="measured tables are not here")
def test_mlperf_within_reach():
    runs = [run for run in training_runs(DATA)[0] if run.engine == "mlperf"]
    found = scored_runs(runs, hwspaces.efficiency("learned").efficiency)
    assert np.median([abs(one.error) for one in found]) < REACH

"""Scores of the label set's kernels: what a row stands for, halves of the shapes, the table; measured rows."""

from pathlib import Path

import numpy as np
import pytest

import hwspaces
from sweeps.measure.validate.training_passes import EFFICIENCY
from tests.evidence.label_rows import FILE, label_rows, op_of_row, predicted
from tests.evidence.label_set import left_out, main, shape_halves, table

MEASURED = Path(__file__).parents[2].parent / "shared" / "measured"

LIMITS = {
    "A100-PCIe-40GB": 0.09,
    "P100-PCIe": 0.13,
    "V100-PCIe": 0.14,
    "MI100": 0.18,
    "MI210": 0.16,
    "T4": 0.18,
    "P4": 0.22,
}
"""Mean absolute error over all kernels of a device, a tenth above what `docs/evidence/training.md` has: a sample."""

EVERY = 7
"""Rows from one that is scored to the next."""


def rows(**columns):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(columns)


def test_a_product_of_the_table_by_hand():
    """(M, N) @ (N, K) with M, N, K = 2, 3, 5: 60 FLOP, and 6 + 15 + 10 numbers; four of them for B = 4."""
    one = op_of_row("linear")(1.0, 1.0, 2.0, 3.0, 5.0)
    assert (float(one.matrix_flops), float(one.bytes)) == (60.0, 4 * 31.0)
    assert (float(one.shape.rows), float(one.shape.inputs), float(one.shape.outputs)) == (2.0, 3.0, 5.0)
    four = op_of_row("bmm")(4.0, 1.0, 2.0, 3.0, 5.0)
    assert (float(four.matrix_flops), float(four.bytes), float(four.shape.matrices)) == (240.0, 16 * 31.0, 4.0)


@pytest.mark.parametrize(
    ("name", "arrays"), [("add", 3), ("addu", 2), ("relu", 2), ("pow", 3), ("softmax", 2), ("ln", 3)]
)
def test_arrays_that_other_kernels_move(name, arrays):
    """100 rows of 600 elements: a sum of two arrays moves three, softmax reads and writes, a norm reads twice."""
    assert float(op_of_row(name)(100.0, 600.0, 1.0, 1.0, 1.0).bytes) == 4 * 60000 * arrays


def test_a_shape_is_in_one_half_on_all_devices():
    frame = rows(op=["bmm"] * 6, B=[1, 2, 3] * 2, H=1, M=1, N=1, K=1, device=["P4"] * 3 + ["T4"] * 3)
    assert shape_halves(frame).tolist() == [0, 1, 0] * 2


def test_parts_are_predicted_by_the_others(monkeypatch):
    """A fit that says how many rows it saw: three of five for the first part, two for the second."""
    monkeypatch.setattr("tests.evidence.label_set.predicted", lambda part, fit: np.full(len(part), float(fit)))
    frame = rows(seconds=[1.0] * 5)
    assert left_out(frame, ["a", "a", "b", "b", "b"], len).tolist() == [3.0, 3.0, 2.0, 2.0, 2.0]


def test_the_table_by_hand():
    """bmm: 10 % and 30 % off; relu: 20 %."""
    frame = rows(op=["bmm", "bmm", "relu"], device=["T4"] * 3, seconds=[1.0, 1.0, 1.0])
    lines = table(frame, {"": np.array([1.1, 0.7, 1.2])}).splitlines()
    assert lines[0] == "| device | operation | rows | mean | median |"
    assert "| T4 | bmm | 2 | 20.0% | 20.0% |" in lines
    assert "| T4 | element-wise | 1 | 20.0% | 20.0% |" in lines
    assert "| all | all | 3 | 20.0% | 20.0% |" in lines


def test_a_missing_table_is_one_line_and_exit_2(tmp_path, capsys):
    assert main(["--data", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "no such file" in said and said.count("\n") == 1


@pytest.mark.skipif(not (MEASURED / "other" / FILE).is_file(), reason="the measured rows are not beside the project")
def test_devices_are_met_within_the_limits():
    found = label_rows(MEASURED)
    found = found.iloc[::EVERY].reset_index(drop=True)
    errors = np.abs(predicted(found, hwspaces.efficiency(EFFICIENCY).efficiency) / found.seconds - 1.0)
    means = errors.groupby(found.device).mean().to_dict()
    assert set(means) == set(LIMITS)
    assert {name: mean for name, mean in means.items() if mean > LIMITS[name]} == {}

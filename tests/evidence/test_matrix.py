"""Scores of parts by hand: pooled rows, fitted ones apart, coverage of the stated intervals, the page, bad input."""

import math

import numpy as np
import pytest

from tests.evidence.matrix import Part, main, page, scores


def part(case="products", device="H100-SXM", date="", fitted=False, errors=(0.1,), spread=math.nan):
    measured = np.full(len(errors), 2.0)
    return Part("kernels", case, device, "vllm", date, fitted, measured * (1.0 + np.array(errors)), measured, spread)


def test_rows_are_pooled_by_label_and_fitted_ones_stand_apart():
    found = scores([part(errors=(0.1, -0.2)), part(errors=(0.3,)), part(errors=(0.01,), fitted=True)])
    assert found.fitted.values.tolist() == [False, True]
    assert found.rows.values.tolist() == [3.0, 1.0]
    assert found["median"].values == pytest.approx([0.2, 0.01]) and found.mape.values == pytest.approx([0.2, 0.01])
    assert found.signed.values[0] == pytest.approx(0.1) and np.isnan(found.coverage.values).all()


def test_coverage_counts_rows_inside_the_interval():
    """ln 1.1 = 0.095 is within 1.645 x 0.1 and ln 1.3 = 0.262 is not."""
    (covered,) = scores([part(errors=(0.1, 0.3), spread=0.1)]).coverage.values
    assert covered == 0.5


def test_the_page_has_both_sides_in_one_line():
    text = page([part(errors=(0.1,), spread=1.0), part(fitted=True, errors=(-0.02, -0.02)), part(device="B200-SXM")])
    assert "| H100-SXM | vllm | 1 | 10.0, 10.0 | +10.0 | 100 | 2 | 2.0, 2.0 | -2.0 | - |" in text
    assert "| B200-SXM | vllm | 1 | 10.0, 10.0 | +10.0 | - |   |   |   |   |" in text
    widths = {line.count("|") for line in text.splitlines() if line.startswith("|") and "vllm" in line}
    assert widths == {11}


def test_a_folder_without_data_is_refused_in_one_line(tmp_path, capsys):
    assert main(["--data", str(tmp_path), "--only", "collectives", "-o", str(tmp_path / "out.nc")]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1 and not list(tmp_path.iterdir())

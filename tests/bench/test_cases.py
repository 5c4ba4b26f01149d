"""Benchmark cases run: a sample, a grid, and the loop in C beside the sample, of few points."""

import shutil

import pytest

from tests.bench.cases import CASES
from tests.bench.measure import measured


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc for the loop in C")
def test_a_sample_is_measured_beside_c():
    case = next(case for case in CASES if case.name == "sample")
    row = measured(case, 2e-3, 1)
    assert row["points"] == 2000 and row["compiler"] == "llvm" and row["best_s"] > 0.0
    assert row["c_points_per_s"] > 0.0, "the loop in C agrees with the sweep"

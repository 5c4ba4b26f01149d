"""Relative errors of predictions, by hand."""

import numpy as np
import pytest

from sweeps.measure.validate.relative_errors import error_summary, errors


def test_errors_of_a_hand_worked_example():
    # +10 %, -20 %, +30 %: mean of the absolute 20 %, median of the absolute 20 %, median +10 %
    assert errors(np.array([1.1, 0.8, 1.3]), np.ones(3)) == pytest.approx((0.2, 0.2, 0.1))
    expected = {"rows": 3, "mape": 0.2, "median_ape": 0.2, "signed_median": 0.1}
    assert error_summary([1.1, 0.8, 1.3], [1.0, 1.0, 1.0]) == pytest.approx(expected)

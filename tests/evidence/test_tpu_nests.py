"""Figures of TPU v1 in docs/evidence/nests.md."""

import pytest

from tests.evidence.tpu_nests import NETWORKS, fitted_latency, predicted

ERRORS = {"MLP0": 0.04, "MLP1": -0.14, "LSTM0": 0.01, "LSTM1": 0.24}


@pytest.mark.parametrize("name", ERRORS)
def test_rates(name):
    error = predicted(NETWORKS[name]) / NETWORKS[name].measured - 1.0
    assert error == pytest.approx(ERRORS[name], abs=0.01)
    assert abs(error) < 0.15 or name == "LSTM1"  # the exception stands in the page


def test_a_hand_worked_product():
    """MLP0: 5 x 8 x 8 tiles of 65,536 B over 34 GB/s take 617 us; 2 x 200 x 20e6 operations in them are 13.0 TOPS."""
    expected = 2 * 200 * 20e6 / (5 * 64 * 65536 / 34e9) / 1e12
    assert predicted(NETWORKS["MLP0"], latency=0.0) == pytest.approx(expected, rel=1e-4)


def test_latency_is_that_of_a_pipeline():
    """A row crosses 256 rows and 256 columns and is activated; the wait is of that order, and a part of a layer."""
    assert 512 < fitted_latency() < 2888

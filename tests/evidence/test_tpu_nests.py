"""Figures of TPU v1 in docs/evidence/nests.md."""

import pytest

from tests.evidence.tpu_nests import PRODUCTS, predicted


@pytest.mark.parametrize(("name", "error"), [("MLP0", 0.05), ("MLP1", -0.10), ("LSTM1", 0.42)])
def test_rates(name, error):
    assert predicted(PRODUCTS[name]) / PRODUCTS[name].measured - 1.0 == pytest.approx(error, abs=0.01)


def test_a_hand_worked_product():
    """MLP0: 8 x 8 tiles of 65,536 B over 34 GB/s take 123 us; 2 x 200 x 2000^2 operations in them are 13.0 TOPS."""
    assert predicted(PRODUCTS["MLP0"]) == pytest.approx(2 * 200 * 2000**2 / (64 * 65536 / 34e9) / 1e12, rel=1e-4)

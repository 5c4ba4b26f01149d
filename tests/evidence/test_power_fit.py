"""Energies of the catalogue against their refit to measured power, and a fit of readings made by hand."""

from pathlib import Path

import numpy as np
import pytest

from tests.evidence.power_fit import PRIORS, Readings, constants, fitted, predicted, readings

DATA = Path(__file__).parents[2] / ".." / "shared" / "measured" / "kernels"
needs_data = pytest.mark.skipif(
    not (DATA / "aic_power.parquet").exists() or not (DATA.parent / "serving2").exists(),
    reason="measured tables are not here",
)


@needs_data
def test_the_catalogue_has_what_the_fit_gives():
    """Within 5 %: since the catalogue's fit the served rows' sort of logits is counted (docs/evidence)."""
    known = constants()
    for name, value in fitted(readings(DATA)).items():
        assert known[name] == pytest.approx(value, rel=0.05), name


def served(watts: np.ndarray, rates: np.ndarray, idle: float = 0.0) -> Readings:
    return Readings("X", "served", 1.0, 1000.0, idle, rates, watts)


def test_static_power_is_found_again():
    """Half of 1000 W and nothing else: the other constants keep their priors."""
    rates = np.zeros((50, len(PRIORS) + 1))
    rates[:, 0] = 1000.0
    values = fitted([served(np.full(50, 500.0), rates)])
    assert values["static_share"] == pytest.approx(0.5, rel=0.01)
    assert values["hbm"] == pytest.approx(PRIORS["hbm"][0])
    assert predicted(values, served(np.full(50, 0.0), rates)) == pytest.approx(500.0, rel=0.01)


def test_a_reading_after_idle_time_has_half_of_the_idle_device():
    """Drawn 500 W, idle 0.4 x 500 W: half of each is 350 W."""
    rates = np.zeros((1, len(PRIORS) + 1))
    rates[:, 0] = 1000.0
    values = {name: value for name, (value, _) in PRIORS.items()} | {"static_share": 0.5}
    assert predicted(values, served(np.zeros(1), rates, idle=0.5)) == pytest.approx(350.0)


def test_without_readings_the_fit_says_so():
    with pytest.raises(ValueError, match="no row"):
        fitted([])

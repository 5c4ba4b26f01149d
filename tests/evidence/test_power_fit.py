"""Energies of the catalogue against their refit to measured power."""

from pathlib import Path

import pytest

import hwspaces
from tests.evidence.power_fit import fitted

DATA = Path(__file__).parents[2] / ".." / "shared" / "measured" / "kernels"
needs_data = pytest.mark.skipif(not (DATA / "aic_power.parquet").exists(), reason="measured tables are not here")


@needs_data
def test_the_catalogue_has_what_the_fit_gives():
    values, figures = fitted(str(DATA), "H200-SXM"), hwspaces.hardware("H200-SXM").figures
    for name, value in values.items():
        path = "power.static" if name == "static" else f"energy.{name}"
        assert figures[path] == pytest.approx(value, rel=0.02), name

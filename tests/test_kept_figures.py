"""Kept figures of the benchmarks: multiples of a plain case, and which fell."""

import json

from tests.bench.kept import BENCHES, FILE, fallen, multiples
from tests.bench.serving import CASES as SIMULATIONS


def test_figures_are_multiples_of_the_plain_case():
    assert multiples({"numpy": 2e5, "grid": 3e8, "sample": 2.6e7}, "numpy") == {"grid": 1500.0, "sample": 130.0}


def test_what_fell_is_below_nine_tenths_of_what_was_kept():
    found = {"grid": 1300.0, "sample": 120.0, "new": 1.0}
    assert fallen(found, {"grid": 1500.0, "sample": 130.0, "gone": 5.0}) == [("grid", 1500.0, 1300.0 / 1500.0)]


def test_kept_figures_are_of_cases_that_there_are():
    kept = json.loads(FILE.read_text())
    assert kept.keys() == {"made", *BENCHES} and kept["made"].keys() == {"commit", "date", "cores"}
    assert set(kept["simulations"]) == set(SIMULATIONS) - {"plain"}

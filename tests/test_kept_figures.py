"""Figures of the benchmarks beside kept ones and beside another checkout's: which fell, which became slower."""

import json

from tests.bench import turns
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


def test_what_is_slower_than_another_checkout_is_measured_again_and_ends_with_one(capsys):
    seconds = {("grid", None): [1.3, 1.1, 1.0, 1.0], ("sample", None): [1.3] * 6, ("new", None): []}
    turned = {key: iter(times) for key, times in seconds.items()}

    def measured(name, folder):
        if folder is not None and name == "new":
            raise SystemExit("unknown case")
        return {"points": 10, "best_s": 1.0 if folder else next(turned[name, folder]), "compile_s": 2.0}

    rows = turns.beside(["grid", "sample", "new"], measured, "points", "other")
    assert [(row.name, row.ratio >= turns.SLOWER) for row in rows] == [("grid", True), ("sample", False)]
    assert next(turned["sample", None], None) is None, "measured again in every round"
    assert turns.judged(rows[:1], "points", "other", as_json=True) == 0
    assert turns.judged(rows, "points", "other", as_json=True) == 1
    said = capsys.readouterr().err
    assert "slower  sample at 0.77 of other" in said and "new: left out" in said

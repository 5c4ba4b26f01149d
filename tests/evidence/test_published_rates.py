"""Published token rates: every row loads, names what exists and is answered; the scores of families that are near."""

import math

import pytest

import hwspaces
import workloads
from tests.evidence.published_rates import FAMILIES, TIMES, Predicted, Rate, family, predicted, rates, scores, sources

ROWS = rates()


def rate(**changes):
    plain = {"source": "a", "hardware": "H200-SXM", "model": "Llama-3.1-8B", "rate": 100.0, "of": "user", "batch": 1.0}
    return Rate(**plain | {"isl": 128.0, "osl": 128.0, "speculation": "none"} | changes)


def test_rows_name_known_devices_models_and_sources():
    assert len(ROWS) >= 90 and {row.source for row in ROWS} == set(sources())
    assert all(set(one) <= {"text", "url", "date"} and one["url"].startswith("https://") for one in sources().values())
    for row in ROWS:
        assert row.hardware in hwspaces.names() and row.model in workloads.names(), row
        assert row.of in TIMES and row.speculation in ("none", "unknown", "stated", "implied") and row.rate > 0, row
        assert set(row.guessed) <= {"isl", "osl", "batch", "weights", "deployment"} and family(row.hardware), row
        assert row.of != "user" or row.batch == 1, row
    assert set(FAMILIES) <= {row.hardware for row in ROWS}


def test_no_rate_is_listed_twice():
    keys = [
        (row.source, row.hardware, row.model, row.weights, row.batch, row.isl, row.osl, row.devices) for row in ROWS
    ]
    assert len(set(keys)) == len(keys)


def test_kinds_of_rows():
    assert rate().kind == "judged" and rate(fitted=True).kind == "fitted" and rate(claim=True).kind == "claim"
    assert rate(speculation="stated", fitted=True).kind == "drafts"
    assert (
        rate(deployment={"tp": 8, "pp": 72}).devices == 576
        and rate(deployment={"attention_dp": 4, "ep": 4}).devices == 4
    )


def test_scores():
    """By hand: factors of 2 and 0.8, so half within 1.5; one interval has 100; the mean is sqrt(2 x 0.8)."""
    found = [Predicted(rate(), 200.0, 150.0, 250.0, True), Predicted(rate(), 80.0, 60.0, 110.0, True)]
    every = scores(found)
    assert every["all"] == every["data-centre GPUs"] == (2, 0.5, 0.5, pytest.approx(math.sqrt(1.6)))


def test_meanings_of_a_rate():
    """Eight requests decode eight times as fast as one of them; with the prompt the rate is lower."""
    user, decode, total = (predicted(rate(of=of, batch=8.0), "learned") for of in ("user", "decode", "total"))
    assert decode.rate == pytest.approx(8.0 * user.rate) and total.rate < decode.rate
    assert user.low < user.rate < user.high and user.fits


def of_engine(row):
    """The constants that a row has by default: its engine's."""
    return "learned" if row.engine is None else hwspaces.engine(row.engine).efficiency


def test_families_that_are_near():
    """Data-centre GPUs and Macs: at most one row in ten beyond a factor of 1.5, eight in ten inside their interval.

    Sources leave lengths, engines and releases open, which no interval is of.
    """
    judged = [
        row for row in ROWS if row.kind == "judged" and family(row.hardware) in ("data-centre GPUs", "Apple M series")
    ]
    count, near, inside, mean = scores([predicted(row, of_engine(row)) for row in judged])["all"]
    assert count >= 30 and near >= 0.9 and inside >= 0.8 and abs(math.log(mean)) < math.log(1.15)


def test_wafers_lpus_and_dataflow_chips_are_of_the_right_size():
    """Nothing is fitted to them: within a factor of 1.5 on average, and eight in ten inside of their interval."""
    judged = [row for row in ROWS if row.kind == "judged" and family(row.hardware) in ("Cerebras", "Groq", "SambaNova")]
    count, _, inside, mean = scores([predicted(row, "learned") for row in judged])["all"]
    assert count >= 20 and inside >= 0.8 and abs(math.log(mean)) < math.log(1.5)

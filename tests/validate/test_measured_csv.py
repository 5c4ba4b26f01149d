"""The one reader of measured rows: cells, limits, rows that are refused, and requests that never come."""

import numpy as np
import pytest

from jaxroof.batch import Traffic
from sweeps.measure.validate.measured_csv import (
    NOT_NEGATIVE,
    POSITIVE,
    BadCell,
    at_least,
    by_reason,
    records,
    require_some,
    rows,
)
from sweeps.measure.validate.relative_errors import grouped
from workloads.streams.stream import padded


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("name,a,b\none,1,\ntwo,0,2\nthree,-1,x\n")
    return path


def test_cells_are_numbers_within_limits_or_named(file):
    first, second, third = rows(file, ("name", "a"))
    assert first.number("b") is None and first.number("a", POSITIVE) == 1.0 and second.number("a", NOT_NEGATIVE) == 0.0
    for row, column, limit, words in (
        (second, "a", POSITIVE, f"{file}: row 3: a = '0' must be positive"),
        (third, "a", NOT_NEGATIVE, f"{file}: row 4: a = '-1' must not be negative"),
        (second, "a", at_least(1.0), f"{file}: row 3: a = '0' must be at least 1"),
    ):
        with pytest.raises(BadCell) as raised:
            row.number(column, limit)
        assert str(raised.value) == words
    with pytest.raises(BadCell, match="row 4: b = 'x' is not a finite number"):
        third.numbers(("a", "b"))
    with pytest.raises(BadCell, match="row 2: b is empty"):
        first.numbers(("a", "b"))


def test_a_row_is_left_out_and_a_bad_cell_refuses_the_file(file):
    def read(row):
        if row["name"] == "one":
            raise ValueError("it is the first")
        return None if row["name"] == "three" else row.number("a")

    found, left = records(rows(file, ()), read, "name")
    assert found == [0.0] and [(one.row, one.name, one.reason) for one in left] == [(2, "one", "it is the first")]
    assert [(reason, len(them)) for reason, them in by_reason([*left, left[0]._replace(reason="b"), *left])] == [
        ("it is the first", 2),
        ("b", 1),
    ]
    with pytest.raises(ValueError, match="none of 1 rows can be predicted; row 2: it is the first"):
        require_some(file, [], left)
    with pytest.raises(BadCell, match="row 4: b"):
        records(rows(file, ()), lambda row: row.number("b"))


def test_rows_of_one_label_are_together_in_the_order_of_the_first():
    assert grouped([3, 1, 5, 2], lambda value: value % 2) == {1: [3, 1, 5], 0: [2]}


def test_requests_that_never_come_fill_traffic_up():
    known = Traffic(arrival=np.zeros(2), isl=np.full(2, 5.0), osl=np.full(2, 7.0))
    found = padded(known, 3)
    assert found.arrival.tolist() == [0.0, 0.0, np.inf] and found.group is None
    assert found.isl.tolist() == [5.0, 5.0, 1.0] and found.osl.tolist() == [7.0, 7.0, 0.0]
    assert padded(known, 1) is known

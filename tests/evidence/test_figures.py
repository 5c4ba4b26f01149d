"""Gate of the kept figures: which moves fail, and a file that says the same again."""

import math

import pytest

from tests.evidence.figures import Cell, Figures, moves, read, text_of

CELL = Cell("served models", "tpot", "", "B200-SXM", "vllm", "0.24")


def kept(median=10.0, mape=20.0, rows=50):
    return Figures(rows, median, mape, -3.0, 90.0, 1.5)


def reasons(now, before=None, cell=CELL, **more):
    found = {} if now is None else {cell: now}
    return [(one.why, one.fails) for one in moves(found, {cell: before or kept()}, **more)]


@pytest.mark.parametrize(
    "now",
    [
        kept(),
        kept(median=11.9, mape=20.1),  # by 1.9 points
        kept(mape=21.9),  # by 9.5 %
        kept(rows=46),  # a twelfth of the rows
    ],
)
def test_small_moves_are_none(now):
    assert reasons(now) == []


def test_two_points_and_a_tenth_fail():
    """10.0 -> 12.1 are 2.1 points and 21 %; 30 -> 32.5 are 2.5 points and 8 %; 20 -> 22.5 of the mean are 12 %."""
    assert reasons(kept(median=12.1)) == [("worse", True)]
    assert reasons(kept(median=32.5), kept(median=30.0)) == []
    assert reasons(kept(mape=22.5)) == [("worse", True)]
    assert reasons(kept(median=7.9)) == [("better", False)]


def test_fitted_cells_and_small_ones_never_fail():
    fitted = CELL._replace(fit="serving_fit")
    assert reasons(kept(median=50.0), cell=fitted) == [("worse", False)]
    assert reasons(kept(median=50.0, rows=9), kept(rows=9)) == []


def test_rows_that_go_fail():
    assert reasons(None) == [("gone", True)]
    assert reasons(kept(rows=40)) == [("rows are missing", True)]
    assert reasons(None, kinds=["kernels"]) == []
    seen = {CELL._replace(fit="new_fit"): kept()}
    (one,) = moves(seen, {CELL: kept()})
    assert one.why == "gone: new_fit has seen it" and one.fails


def test_the_file_says_what_was_kept(tmp_path):
    other = Cell("die area", "die", "area_fit", load="a, b")
    found = {CELL: kept(), other: Figures(3, 1.0, 2.0, -0.5, math.nan, math.nan)}
    file = tmp_path / "figures.csv"
    file.write_text(text_of(found))
    back = read(file)
    assert back[CELL] == found[CELL] and back[other][:4] == found[other][:4] and math.isnan(back[other].width)
    assert text_of(back) == text_of(found) and list(moves(back, found)) == []


def test_another_file_is_refused_in_one_line(tmp_path):
    file = tmp_path / "figures.csv"
    with pytest.raises(ValueError, match="--write makes it"):
        read(file)
    file.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="not a file of figures"):
        read(file)

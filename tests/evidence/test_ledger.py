"""The ledger: rows that nobody rewrote, appended only where a prediction moved, and errors of what was measured."""

import tomllib

import pytest

import hwspaces
from tests.evidence.ledger import (
    FIGURES,
    PAGE,
    SUITE,
    Measured,
    Predicted,
    appended,
    error_lines,
    faults,
    measured_of,
    page_text,
    questions,
    row_hash,
    rows_of,
)


@pytest.fixture(scope="module")
def suite():
    return tomllib.loads(SUITE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def rows():
    return rows_of(PAGE.read_text(encoding="utf-8"))


@pytest.fixture
def two(suite):
    """Two rows of one question, of which the second supersedes the first."""
    question = next(questions(suite))
    first = appended([], question, {"tpot": Predicted(10.0, 5.0, 20.0)}, "2026-11-29")
    second = appended([first], question, {"tpot": Predicted(12.0, 6.0, 24.0)}, "2026-12-01")
    return [first, second]


def test_no_row_of_the_page_was_rewritten(rows):
    assert rows and not faults(rows)


def test_every_row_can_be_typed(rows, suite):
    asked = {question.command: question.title for question in questions(suite)}
    for row in rows:
        words = row.command.split()
        assert words[:2] == ["jaxroof", "serve"] and "--hardware" in words
        hwspaces.hardware(words[words.index("--hardware") + 1])
        # A question may leave the suite; its rows stay.
        assert asked.get(row.command, row.question) == row.question
        assert any(figure != "-" for figure in row.figures)


def test_systems_of_the_ledger_are_not_measured(suite):
    assert set(suite["system"]) >= {"VR200", "MI455X", "TPU-v8i", "TPU-v8t", "Trainium3", "Maia-200"}
    assert len(list(questions(suite))) > 80


def test_a_row_that_was_changed_or_taken_away_is_found(two):
    assert not faults(two)
    changed = two[0]._replace(figures=("-", "11.0 (5.00 to 20.0)", "-"))
    assert faults([changed, two[1]])[0] == "row 1 was changed, or a row before it"
    # Whoever gives it a new hash breaks the next row.
    hidden = changed._replace(hash=row_hash(changed, ""))
    assert faults([hidden, two[1]]) == ["row 2 was changed, or a row before it"]
    assert "row 2 stands at place 1" in faults(two[1:])


def test_rows_are_appended_where_the_figures_moved(two, suite):
    question = next(questions(suite))
    assert two[1].supersedes == "1" and two[0].supersedes == "-"
    assert appended(two, question, {"tpot": Predicted(12.0, 6.0, 24.0)}, "2026-12-02") is None
    third = appended(two, question, {"tpot": Predicted(10.0, 5.0, 20.0)}, "2026-12-02")
    assert (third.number, third.supersedes) == (3, "2")


def test_the_page_keeps_its_words_and_old_rows(two):
    page = PAGE.read_text(encoding="utf-8")
    written = page_text(page, two, [])
    assert rows_of(written) == two
    assert written.partition("## Rows")[0] == page.partition("## Rows")[0]
    assert page_text(written, two, []) == written
    measured = [Measured(1, "tpot", 8.0, "somebody", "2027-02-01")]
    later = page_text(written, two, measured)
    assert rows_of(later) == two and page_text(later, two, []) == written
    line = error_lines(two, measured)[-2]
    assert "| 10.0 (5.00 to 20.0) | 8.00 | +25% | yes | somebody, 2027-02-01 |" in line


def test_measured_figures_are_of_rows_that_are_there(rows, suite):
    for one in measured_of(suite):
        assert one.figure in FIGURES and 1 <= one.row <= len(rows)

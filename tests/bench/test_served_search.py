"""Arithmetic of the benchmark of two-pass search: costs of choices, shares, and rounds that run together."""

import io
import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from jaxroof.jobs import Scenario
from sweeps.studies.compare import simulate
from tests.bench import together as together_module
from tests.bench.served_questions import SERVING, asked
from tests.bench.served_scores import choice_table, choices, error_table, picture
from tests.bench.served_search import SIZE, Answer
from tests.bench.together import together


def an_answer(number=0, estimated=(10.0, 6.0, 0.0), exact=(8.0, 6.0, 0.0), final=1, unit=(8.0, 5.0, 1.0)) -> Answer:
    return Answer(
        number=number,
        keys={"engine": "vllm", "model": "a model"},
        names=["a", "b", "c"],
        unit=unit,
        estimated=estimated,
        exact=exact,
        final=final,
        simulations=(3, 2),
    )


def test_cost_beyond_the_cheapest():
    # Estimated costs 8/10 and 5/6: the first is chosen. True ones 8/8 and 5/6: it is 20 % dearer than the second.
    found = an_answer()
    assert found.first == 0 and found.cheapest == pytest.approx(5.0 / 6.0)
    assert found.beyond(found.first) == pytest.approx(0.2)
    assert found.beyond(found.final) == 0.0
    assert found.beyond(2) == math.inf  # it does not serve
    np.testing.assert_allclose(found.errors, [0.25, 0.0])


def test_questions_that_nothing_serves_do_not_count():
    nothing = an_answer(1, exact=(0.0, 0.0, 0.0))
    assert not nothing.serves
    found = choices([an_answer(), nothing])
    np.testing.assert_allclose(found["first pass"], [0.2])
    np.testing.assert_allclose(found["final answer"], [0.0])


def test_tables_and_picture(tmp_path):
    console = Console(width=140, record=True, file=io.StringIO())
    found = [an_answer(), an_answer(1, estimated=(8.0, 6.0, 2.0), exact=(8.0, 6.0, 0.0))]
    console.print(choice_table(found), error_table(found))
    text = console.export_text()
    # The second question's third place is estimated to be the cheapest, and does not serve.
    first = next(line for line in text.splitlines() if "first pass" in line)
    assert "0.0 %" in first and "inf" in first
    every = next(line for line in text.splitlines() if " all " in line)
    assert [word for word in every.split() if word.isdigit()] == ["4", "1", "0"]  # served by both; by one alone
    picture(found, tmp_path / "search.png")
    assert (tmp_path / "search.png").stat().st_size > 10_000


def test_question_does_not_depend_on_others():
    found, again = asked(0, 3), asked(0, 3)
    assert found.keys == again.keys and (found.among == again.among).all()
    assert found.among.sum() >= SERVING
    assert asked(1, 3).keys != found.keys


@pytest.mark.parametrize("searches", [1, 3])
def test_rounds_run_together_and_nothing_twice(monkeypatch, searches):
    """Searches of two rounds each, of which all ask for one point: as many calls as rounds, every point once."""
    calls = []

    def outcomes(points, progress, width, among):
        calls.append([point.workload.traffic for point in points])
        return {"twice": np.array([2.0 * point.workload.traffic for point in points])}

    monkeypatch.setattr(together_module.grid, "outcomes", outcomes)
    monkeypatch.setattr(together_module, "_key", lambda point: point.workload.traffic)
    monkeypatch.setattr(together_module, "_length", lambda point: 0.0)

    def search(number: int):
        first = simulate.outcomes([_point(0.0), _point(10.0 + number)])["twice"]
        return [*first, *simulate.outcomes([_point(20.0 + number), _point(0.0)])["twice"]]

    found = together([lambda number=number: search(number) for number in range(searches)], SIZE)
    assert found == [[0.0, 20.0 + 2 * n, 40.0 + 2 * n, 0.0] for n in range(searches)]
    assert len(calls) == 2
    asked_for = list(itertools.chain(*calls))
    assert len(asked_for) == len(set(asked_for)) == 1 + 2 * searches


def test_an_error_ends_all_searches(monkeypatch):
    def outcomes(*_):
        raise ValueError("a simulation stands still")

    monkeypatch.setattr(together_module.grid, "outcomes", outcomes)
    monkeypatch.setattr(together_module, "_key", lambda point: point.workload.traffic)
    monkeypatch.setattr(together_module, "_length", lambda point: 0.0)
    with pytest.raises(ValueError, match="stands still"):
        together([lambda: simulate.outcomes([_point(1.0)]), lambda: simulate.outcomes([_point(2.0)])], SIZE)


def _point(traffic: float) -> Scenario:
    return SimpleNamespace(workload=SimpleNamespace(traffic=traffic))  # all that a round looks at

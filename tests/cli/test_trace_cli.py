"""`jaxroof trace`: a stream in numbers and in a picture, and one line where there is none."""

import json

import numpy as np
import pytest

from tests.commands import printed, refused

DRAWN = ("trace", "--rate", "8", "--isl", "uniform:128..2048", "--osl", "128")
ROWS = "arrived_at,num_prefill_tokens,num_decode_tokens\n" + "".join(f"{i / 2},100,10\n" for i in range(9))


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(ROWS)
    return str(path)


def test_a_file_in_words(rows, capsys):
    lines = printed(capsys, "trace", rows).splitlines()
    assert lines[0] == "rows: 9 requests in 4 s"
    assert lines[1] == f"source  {rows}"
    cells = [line.split() for line in lines]
    assert ["prompt", "100", "100", "100", "100", "100", "900"] in cells
    assert ["mean", "rate", "2", "requests/s"] in cells
    assert any(line.startswith("burstiness    0 ") for line in lines)


def test_a_file_scaled_and_cut_in_json(rows, capsys):
    found = json.loads(
        printed(capsys, "trace", rows, "--rate", "4", "--first", "5", "--json"), parse_constant=pytest.fail
    )
    assert (found["requests"], found["rate"], found["duration"]) == (5, pytest.approx(4.0), pytest.approx(1.0))
    assert found["isl"] == {"mean": 100, "p50": 100, "p90": 100, "p99": 100, "max": 100, "total": 500}
    assert found["notes"][-1] == "the first 5 of 9 requests" and "scaled by 0.5" in found["notes"][0]


def test_distributions_are_drawn_with_their_seed(capsys):
    one, same = (printed(capsys, *DRAWN, "--requests", "50", "--json") for _ in range(2))
    other = printed(capsys, *DRAWN, "--requests", "50", "--json", "--seed", "1")
    assert one == same != other
    assert json.loads(one)["requests"] == 50
    assert json.loads(printed(capsys, *DRAWN, "--json"))["requests"] == 1000
    staged = printed(capsys, "trace", "--rate", "stages:8x10,cv=0", "--isl", "1", "--osl", "1", "--json")
    assert json.loads(staged)["requests"] == 80
    shared = printed(
        capsys, *DRAWN, "--duration", "20", "--prefixes", "groups=1,tokens=500", "--sessions", "turns=2,think=1"
    )
    assert "in 1 groups with 100.0 % of the requests, from which " in shared
    waiting = printed(capsys, *DRAWN, "--sessions", "turns=2,think=5,wait=1")
    assert "% of the requests wait for an answer, and come 5" in waiting or "come 4" in waiting
    turns = json.loads(printed(capsys, *DRAWN, "--sessions", "turns=2,think=5,wait=1", "--json"))
    assert 0.3 < turns["waiting"] < 0.5 and 4 < turns["pause"] < 6 and "branches" not in turns


def test_all_at_once_has_no_rate(capsys):
    words = ("trace", "--rate", "once", "--isl", "10", "--osl", "2", "--requests", "3")
    assert "mean rate     all at once" in printed(capsys, *words)
    found = json.loads(printed(capsys, *words, "--json"), parse_constant=pytest.fail)
    assert found["rate"] is None and found["burstiness"] is None


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_picture(tmp_path, capsys, ending):
    path = tmp_path / f"p.{ending}"
    out = printed(capsys, *DRAWN, "--requests", "300", "--prefixes", "groups=4,tokens=100", "-o", str(path))
    assert out.splitlines()[-1] == f"picture  {path}"
    assert path.stat().st_size > 10_000


@pytest.mark.parametrize(
    "words",
    [("once", "1", "1", "1"), ("once", "10", "1..4", "50"), ("8", "1", "9", "2"), ("constant:5", "7", "1..3", "11")],
)
def test_pictures_of_few_requests_are_drawn_whole(words):
    from sweeps.show.trace import trace
    from workloads.streams.streams import generated

    rate, isl, osl, requests = words
    made = trace(generated(rate, isl, osl, requests=int(requests)))
    made.canvas.draw()
    panels = {panel.get_title(loc="left"): panel for panel in made.axes}
    timed = rate != "once"
    assert set(panels) == {"Prompts", "Outputs"} | ({"Requests over time"} if timed else set())
    assert all("tokens (logarithmic)" in panels[name].get_xlabel() for name in ("Prompts", "Outputs"))
    for name in ("Prompts", "Outputs"):  # every request is in one range
        values, _, _ = panels[name].patches[-1].get_data()
        assert values.sum() == pytest.approx(100.0)


def test_rates_of_a_picture_add_up_to_all_requests():
    from sweeps.show.trace import trace
    from workloads.streams.streams import generated

    stream = generated("stages:50x60,100x90", 10, 10, seed=1)
    panel = trace(stream).axes[0]
    values, ends, _ = panel.patches[-1].get_data()
    assert (values * np.diff(ends) * 60.0).sum() == pytest.approx(len(stream))  # the axis is in minutes
    assert panel.get_xlabel() == "Time (min)" and panel.get_ylabel().startswith("Requests per second")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("trace",), "--rate is missing; or give a FILE"),
        (("trace", "--rate", "8", "--isl", "1"), "--osl is missing"),
        (("trace", "--rate", "8", "--isl", "lognorml:mean=1", "--osl", "1"), "isl: 'lognorml:mean=1'"),
        ((*DRAWN, "--requests", "1.5"), "--requests is 1.5; it must be a whole number"),
        ((*DRAWN, "--duration", "0"), "--duration is 0; it must be a positive number"),
        ((*DRAWN, "--seed", "-1"), "--seed is -1"),
        ((*DRAWN, "--sort"), "--sort cannot be given: it needs a FILE"),
        ((*DRAWN, "--format", "azure"), "--format cannot be given: it needs a FILE"),
        ((*DRAWN, "-o", "picture.gif"), "picture.gif must end in .png or .svg"),
        ((*DRAWN, "--first", "9999"), "ask for 1 to 1000"),
        (("trace", "none.csv"), "none.csv: no such file"),
        (("trace", "none.csv", "--isl", "5"), "--isl cannot be given: none.csv says what requests are"),
        (("trace", "none.csv", "--span", "5"), "--span is 5; it must be two numbers"),
        (("trace", "none.csv", "--fromat", "azure"), "did you mean --format"),
    ],
)
def test_what_is_wrong_is_one_line(capsys, words, said):
    assert said in refused(capsys, *words)


def test_wrong_rows_and_what_helps(rows, tmp_path, capsys):
    bad = tmp_path / "bad.csv"
    bad.write_text(ROWS + "1,0,5\n9,5,5\n")
    assert "row 11: num_prefill_tokens is 0; it must be from 1" in refused(capsys, "trace", str(bad))
    assert "1 of 11 rows with num_prefill_tokens 0 left out" in printed(capsys, "trace", str(bad), "--drop")
    bad.write_text(ROWS + "1,5,5\n")
    assert "row 11: arrived_at is 1, before the row above it, 4; sort=True or --sort" in refused(
        capsys, "trace", str(bad)
    )
    assert "rows are sorted by arrived_at" in printed(capsys, "trace", str(bad), "--sort")
    assert "--rate is fast; it must be a positive number" in refused(capsys, "trace", rows, "--rate", "fast")

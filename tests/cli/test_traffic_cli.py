"""`--traffic`: classes of requests in reports and JSON of simulations and served comparisons, and what is refused."""

import functools
import json
import pathlib

import pytest

import sweeps
from tests import commands

pytestmark = pytest.mark.xdist_group("serve")

CHAT = pathlib.Path(sweeps.__file__).parent / "specs" / "chat.toml"
SERVE = ("serve", "--hardware", "H100-SXM", "--model", "Llama-3.1-8B", "--rate", "5", "--requests", "48")
COMPARE = ("compare", "--hardware", "H100-SXM", "--model", "Llama-3.1-8B", "--devices", "1", "--simulate", "0")


printed = functools.partial(commands.printed, progress=True)


def test_a_simulation_has_a_row_for_every_class(capsys):
    out = printed(capsys, *SERVE, "--traffic", CHAT)
    assert "(70 % chat, 30 % summaries)" in out and "summaries (isl 8000" not in out.splitlines()[0]
    rows = [line.split() for line in out.splitlines() if line.startswith(("chat ", "summaries "))]
    assert [row[:2] for row in rows] == [["chat", "34"], ["summaries", "14"]]
    assert " ".join(rows[0]).endswith("TTFT <= 1 s, TPOT <= 30 ms") and " ".join(rows[1]).endswith("TTFT p99 <= 5 s")
    found = json.loads(printed(capsys, *SERVE, "--traffic", CHAT, "--json"))
    assert found["classes"]["chat"]["finished"] == 34 and found["classes"]["summaries"]["finished"] == 14
    assert "classes" not in json.loads(printed(capsys, *SERVE, "--isl", "200", "--osl", "9", "--json"))


def test_a_comparison_names_the_classes_their_shares_and_limits(capsys):
    out = printed(capsys, *COMPARE, "--traffic", CHAT)
    lines = out.splitlines()
    assert lines[0].startswith("Llama-3.1-8B: requests of ") and lines[1].startswith(
        "70 % chat (isl lognormal:mean=1024"
    )
    assert lines[2] == "30 % summaries (isl 8000, osl 200): 95 % of the requests answered; TTFT p99 <= 5 s"
    asked = json.loads(printed(capsys, *COMPARE, "--traffic", CHAT, "--share", "0.9", "--json"))["question"]
    assert [(one["name"], one["share_of_requests"]) for one in asked["classes"]] == [("chat", 0.7), ("summaries", 0.3)]
    assert asked["classes"][0]["target"] == "TTFT <= 1 s, TPOT <= 30 ms for 90 % of the requests"
    assert asked["requests"] == {"traffic": str(CHAT)} and asked["slo"] is None


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((*COMPARE, "--traffic", "nowhere.toml"), "nowhere.toml: no such file"),
        ((*COMPARE, "--traffic", CHAT, "--isl", "9"), "isl cannot be given: "),
        ((*COMPARE, "--isl", "9", "--osl", "9"), "--slo is missing"),
        ((*COMPARE[:-2], "--static", "--isl", "9", "--osl", "9", "--traffic", CHAT), "--traffic cannot be given with"),
        ((*SERVE, "--traffic", CHAT, "--sessions", "turns=2,think=1"), "sessions cannot be given: "),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(capsys, words, expected):
    assert expected in commands.refused(capsys, *words)

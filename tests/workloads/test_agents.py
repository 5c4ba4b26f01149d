"""Conversations and agents that are drawn: turns that wait, tool calls, sub-agents, and what their prompts share."""

import itertools

import numpy as np
import pytest

from tests.stream_checks import lawful
from workloads.streams.sessions import parse_sessions, parse_times
from workloads.streams.stream import NONE, kept, sessions_of
from workloads.streams.streams import first, generated

AGENT = "turns=3,think=10,tools=1,tool_time=2,tool_tokens=50,branches=1,branch_turns=2"


def common(one, other) -> int:
    """Tokens with which two lists begin alike."""
    length = min(len(one), len(other))
    return next((place for place in range(length) if one[place] != other[place]), length)


def spoken(stream, isl):
    """Prompts, and prompts with outputs, token by token: a system prompt is known by its length."""
    fresh, said, prompts = itertools.count(), [], []
    for request in range(len(stream)):
        before = said[stream.after[request]] if stream.after[request] != NONE else []
        if stream.after[request] == NONE:
            length = int(stream.isl[request]) - isl
            before = [(length, place) for place in range(length)]
        prompts.append(before + [next(fresh) for _ in range(int(stream.isl[request]) - len(before))])
        said.append(prompts[-1] + [next(fresh) for _ in range(int(stream.osl[request]))])
    return prompts, said


@pytest.mark.parametrize("prefixes", [None, "groups=4,tokens=10..300"])
@pytest.mark.parametrize(
    "sessions",
    [
        "turns=1..4,think=10,wait=1",
        "turns=1..3,think=10,tools=0..3,tool_tokens=5..20",
        "turns=1..3,think=10,tools=0..2,tool_tokens=5..20,branches=0..2,branch_turns=1..3",
        "turns=2,think=10,branches=2",
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_groups_say_what_a_comparison_of_all_tokens_says(sessions, prefixes, seed):
    isl = 7
    stream = lawful(generated(0.3, isl, "2..6", requests=90, prefixes=prefixes, sessions=sessions, seed=seed))
    prompts, said = spoken(stream, isl)
    for request in range(len(stream)):
        earlier = max((common(prompts[request], one) for one in said[:request]), default=0)
        later = max((common(said[request][:-1], one) for one in prompts[request + 1 :]), default=0)
        assert stream.shared[request] == earlier
        assert kept(stream)[request] == later


def test_an_agent_by_hand():
    """Two turns with one tool call each, and a sub-agent of two requests that begins behind the first answer.

    New tokens: 100 of a user or of a sub-agent's prompt, 50 of a tool; every answer has 10.
    """
    stream = lawful(generated("once", 100, 10, requests=10, sessions=AGENT))
    turn = stream.pause[4]  # until the second turn, which is the fifth request
    assert stream.arrival[:8] == pytest.approx([0, 0, 2, 2, 2 + turn, 2 + turn, 4 + turn, 4 + turn])
    # user, sub-agent, tool of the user's, tool of the sub-agent's; and so again
    assert stream.after.tolist()[:8] == [NONE, 0, 0, 1, 2, 4, 4, 5]
    assert stream.pause.tolist()[:8] == [0, 0, 2, 2, turn, 0, 2, 2]
    assert stream.isl.tolist()[:8] == [100, 210, 160, 270, 270, 380, 330, 440]
    assert stream.shared.tolist()[:8] == [0, 110, 110, 220, 170, 280, 280, 390]
    assert stream.group.tolist()[:8] == [0, 1, 0, 1, 0, 2, 0, 2]
    assert stream.parent.tolist() == [-1, 0, 0] and stream.base.tolist() == [0, 110, 280]


def test_turns_that_do_not_wait_have_the_same_times():
    words = "turns=2..4,think=30"
    plain = generated(1.0, 100, 10, requests=200, sessions=words)
    waiting = lawful(generated(1.0, 100, 10, requests=200, sessions=f"{words},wait=1"))
    assert plain.after is None and plain.pause is None
    assert np.array_equal(plain.arrival, waiting.arrival) and np.array_equal(plain.isl, waiting.isl)
    follows = waiting.after != NONE
    # By plan a turn comes its pause after the turn before it.
    gaps = waiting.arrival[follows] - waiting.arrival[waiting.after[follows]]
    assert gaps == pytest.approx(waiting.pause[follows], abs=1e-9)
    assert set(sessions_of(waiting.after)) == set(np.flatnonzero(~follows))


def test_agents_open_or_waiting():
    assert generated(1.0, 9, 9, requests=20, sessions="turns=3,tools=1,wait=0").after is None
    assert generated(1.0, 9, 9, requests=20, sessions="turns=3,tools=1").after is not None
    assert generated(1.0, 9, 9, requests=20, sessions="turns=1,think=1,wait=1").after is None  # nothing to wait for


def test_all_conversations_at_once_are_whole():
    """100 requests in conversations of 8: 12 of them, and the half of another."""
    stream = lawful(generated("once", 9, 9, requests=100, sessions="turns=8,think=1,wait=1"))
    assert (stream.after == NONE).sum() == 13 and len(stream) == 100
    assert sorted(np.unique(sessions_of(stream.after), return_counts=True)[1]) == [4] + [8] * 12
    open_loop = generated("once", 9, 9, requests=100, sessions="turns=8,think=1")
    assert len(open_loop) == 100 and set(open_loop.isl) == {9.0}  # first turns alone, as they come first


def test_the_first_requests_of_agents():
    stream = generated(1.0, 9, 9, requests=300, sessions=AGENT, prefixes="groups=2,tokens=5")
    cut = lawful(first(stream, 70))
    assert np.array_equal(cut.after, stream.after[:70])


def test_times_and_counts_have_their_distribution():
    rng = np.random.Generator(np.random.PCG64(0))
    times = parse_times("lognormal:p50=0.3,p90=13.6", "t").drawn(rng, 100_000)
    assert np.percentile(times, [50, 90]) == pytest.approx([0.3, 13.6], rel=0.06)  # sigma is 3: a deviation of 1.5 %
    assert np.unique(parse_times("1..5", "t").drawn(rng, 10_000)).size > 3000  # to the millisecond
    assert set(parse_times("0", "t").drawn(rng, 3)) == {0.0}
    stream = generated(1.0, 100, 10, requests=4000, sessions="turns=1,tools=0..4,tool_time=1..3,tool_tokens=200")
    follows = stream.after != NONE
    assert 1.0 / (1.0 - follows.mean()) == pytest.approx(3.0, rel=0.1)  # one request of a user, two of tools
    assert stream.pause[follows].mean() == pytest.approx(2.0, rel=0.03)
    assert set((stream.isl - stream.shared)[follows]) == {200.0}


@pytest.mark.parametrize(
    "words",
    [
        "turns=2..8,think=30",
        "turns=4,think=1.5,wait=1",
        "turns=5,tools=0..3",
        "turns=lognormal:mean=4,sigma=0.5,tools=3,tool_time=lognormal:p50=2,p90=9,tool_tokens=200..2000,think=5",
        AGENT,
    ],
)
def test_words_of_sessions_read_back(words):
    assert parse_sessions(parse_sessions(words).text) == parse_sessions(words)


def test_what_is_not_said_of_agents_is_as_published():
    found = parse_sessions("turns=5,tools=3,branches=1")
    assert (found.think, found.branch_turns.text) == (120.0, "uniform:low=1,high=3")
    assert found.tool_time.text == "lognormal:p50=0.3,p90=13.6,max=600"
    assert found.tool_tokens.text == "lognormal:p50=800,p90=4000"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("turns=2,think=1,tool=3", "did you mean tools"),
        ("turns=2,think=1,tool_time=3", "tool_time cannot be given without tools"),
        ("turns=2,think=1,tools=1,branch_turns=3", "branch_turns cannot be given without branches"),
        ("tools=3", "turns is missing"),
        ("turns=2,think=1,wait=2", "wait is 2; it must be a whole number from 0 to 1"),
        ("turns=2,tools=-1", "tools: '-1': tokens is -1; it must be a whole number from 0"),
        ("turns=2,tools=3..1", "tools: '3..1': low is 3, above high, 1"),
        ("turns=2,tools=99999", "tools is 99999; it must be at most 10000"),
        ("turns=2,tools=1,tool_time=zipf:1..3,1", "tool_time: 'zipf:1..3,1': 'zipf' is not known"),
        ("turns=2,tools=1,tool_time=lognormal:p50=0,p90=3", "tool_time: .*: p50 is 0; it must be a number from 0.001"),
        ("turns=2,tools=1,tool_tokens=0", "tool_tokens: '0': tokens is 0; it must be a whole number from 1"),
        ("turns=2,think=1,turns=3", "turns is given twice"),
    ],
)
def test_wrong_sessions_are_one_line(words, said):
    with pytest.raises(ValueError, match=said) as error:
        parse_sessions(words)
    assert "\n" not in str(error.value)

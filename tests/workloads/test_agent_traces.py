"""Traces whose requests wait for answers: sessions with tools, caches that lost a part, and benchmarks' turns."""

import functools
import json

import numpy as np
import pytest

from tests.stream_checks import lawful
from tests.trace_files import BLIS_COLUMNS, BLIS_HEADER, BURST_3, blis_row, columns, refused, written
from workloads.streams.stream import kept
from workloads.traces import format_of, read_trace


@pytest.fixture
def write(tmp_path):
    """Writes a file and gives its path."""
    return functools.partial(written, tmp_path)


def lines(*records) -> str:
    return "\n".join(map(json.dumps, records))


def turns(stream) -> list[list[float]]:
    """Arrival, after and pause."""
    return [np.round(getattr(stream, name), 9).tolist() for name in ("arrival", "after", "pause")]


def call(isl, osl, tool=0, **more):
    return {"input_toks": isl, "output_toks": osl, "tool_duration_ns": tool} | more


def test_sessions_of_calls_with_tools(write):
    """Calls 0.2 and 0.3 s after the answers before them, and a single request between the first two."""
    content = lines(
        {
            "session_id": "task",
            "arrival_time_ns": 4_000_000,
            "sub_requests": [call(1472, 133, 200_000_000), call(1700, 125, 300_000_000), call(2000, 20)],
        },
        {"input_toks": 128, "output_toks": 512, "arrival_time_ns": 104_000_000},
    )
    path = write("a.jsonl", content)
    assert format_of(path) == "llmservingsim"
    stream = lawful(read_trace(path))
    assert turns(stream) == [[0, 0.1, 0.2, 0.5], [-1, -1, 0, 2], [0, 0, 0.2, 0.3]]
    assert columns(stream)[1:] == [[1472, 128, 1700, 2000], [133, 512, 125, 20], [0, -1, 0, 0], [0] * 4]
    assert "what their calls share is not in the file" in " ".join(stream.notes)


def test_listed_tokens_are_compared_by_blocks_of_16(write):
    """The second begins with 40 tokens of the first, which are two blocks; the third with all 50 of the second."""
    first, second = list(range(48)), [*range(40), *range(100, 110)]
    third = [*second, *range(200, 220)]
    content = lines(
        *({"arrival_time_ns": time, **call(len(ids), 9, input_tok_ids=ids)} for time, ids in enumerate((first, second)))
    )
    content += "\n" + json.dumps({"arrival_time_ns": 2, **call(len(third), 9, input_tok_ids=third)})
    stream = lawful(read_trace(write("a.jsonl", content)))
    assert stream.group.tolist() == [0, 0, 0] and stream.shared.tolist() == [0, 32, 48]
    assert kept(stream).tolist() == [32, 48, 0] and stream.after is None


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"input_toks": 1}, "row 1: arrival_time_ns is missing"),
        ({"arrival_time_ns": 1, "sub_requests": [{"input_toks": 5}]}, "row 1: sub_requests[0]: output_toks is missing"),
        ({"arrival_time_ns": 1, "sub_requests": [call(5, 5, -1)]}, "sub_requests[0]: tool_duration_ns is -1"),
        ({"arrival_time_ns": 1, "sub_requests": [call(5, 0)]}, "sub_requests[0]: output_toks is 0; it must be from 1"),
        ({"arrival_time_ns": 1, "sub_requests": 3}, "row 1: sub_requests is 3; it must be a list"),
    ],
)
def test_wrong_sessions_of_calls_are_one_line(write, record, said):
    assert said in refused(read_trace, write("a.jsonl", lines(record)), "llmservingsim")


def step(session, total, prefix, output, events):
    """A row of TraceLab; events as (kind, second of the minute)."""
    timing = [{"event_type": kind, "timestamp": f"2026-01-01T00:00:{second:09.6f}Z"} for kind, second in events]
    names = {"session_id": session, "round_index": 0, "newly_append_tokens": total - prefix}
    return names | {
        "input_tokens_total": total,
        "prefix_tokens": prefix,
        "output_tokens": output,
        "timing_events": timing,
    }


def test_agents_steps_with_what_the_cache_had(write):
    """A tool of 1.5 s; a summary after which 30 tokens are left in common; and the turn after that."""
    content = lines(
        step("a", 100, 64, 20, [("user_message", 1.0), ("reasoning", 2.0), ("tool_call", 2.5)]),
        step("a", 160, 112, 10, [("tool_result", 4.0), ("tool_result", 3.5), ("text", 5.0)]),
        step("a", 90, 30, 10, [("user_message", 20.0), ("text", 22.0)]),
        step("a", 130, 96, 10, [("user_message", 19.0), ("tool_result", 30.0), ("usage_report", 31.0), ("text", 33.0)]),
        step("b", 50, 40, 10, [("text", 3.0)]),
        step("b", 70, 60, 10, []),
    )
    path = write("a.jsonl", content)
    assert format_of(path) == "tracelab"
    stream = lawful(read_trace(path))
    assert turns(stream) == [[0, 2.0, 3.0, 19.0, 29.0], [-1, -1, 0, 2, 3], [0, 0, 1.5, 15.0, 8.0]]
    # What the first request of a session had in the cache is of no request in the file.
    assert stream.shared.tolist() == [0, 0, 112, 30, 96]
    assert stream.group.tolist() == [0, -1, 0, 1, 1]
    assert stream.parent.tolist() == [-1, 0] and stream.base.tolist() == [0, 30]
    assert kept(stream).tolist() == [112, 0, 30, 96, 0]
    assert "1 rows without timed events left out" in stream.notes


@pytest.mark.parametrize("seed", range(10))
def test_conversations_that_lose_a_part_are_what_a_comparison_of_all_tokens_says(write, seed):
    rng = np.random.Generator(np.random.PCG64(seed))
    fresh = iter(range(100_000))
    said: dict[int, list[int]] = {}
    prompts, whole, rows = [], [], []
    for place in range(50):
        session = int(rng.integers(3))
        before = said.get(session, [])
        # Now and then only a beginning is left of what was said.
        left = before if rng.random() < 0.7 else before[: int(rng.integers(len(before) + 1))]
        prompts.append(left + [next(fresh) for _ in range(int(rng.integers(1, 30)))])
        whole.append(prompts[-1] + [next(fresh) for _ in range(int(rng.integers(1, 9)))])
        said[session] = whole[-1]
        events = [("user_message", float(place)), ("text", place + 0.5)]
        rows.append(step(str(session), len(prompts[-1]), len(left), len(whole[-1]) - len(prompts[-1]), events))
    stream = lawful(read_trace(write("a.jsonl", lines(*rows))))

    def common(one, other):
        length = min(len(one), len(other))
        return next((i for i in range(length) if one[i] != other[i]), length)

    for request, prompt in enumerate(prompts):
        # Depth is bounded, so a conversation that lost a part many times shares less; never more.
        assert stream.shared[request] <= max((common(prompt, one) for one in whole[:request]), default=0)
        later = max((common(whole[request][:-1], one) for one in prompts[request + 1 :]), default=0)
        assert kept(stream)[request] <= later
        if not any("forks" in note for note in stream.notes):
            assert stream.shared[request] == max((common(prompt, one) for one in whole[:request]), default=0)
            assert kept(stream)[request] == later


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"prefix_tokens": -1}, "row 1: prefix_tokens is -1"),
        ({"session_id": 3}, "row 1: session_id is 3; it must be a text"),
        ({"timing_events": [{"event_type": "text", "timestamp": "noon"}]}, "timing_events[0]: timestamp is 'noon'"),
    ],
)
def test_wrong_steps_are_one_line(write, change, said):
    row = step("a", 100, 64, 20, [("user_message", 1.0), ("text", 2.0)]) | change
    assert said in refused(read_trace, write("a.jsonl", lines(row)), "tracelab")


def test_turns_of_blis_wait_for_the_last_chunk_before(write):
    """A row's last chunk is 0.151 s after its arrival: the turns of s come 0.849 s after it; the failed one is none."""
    write("t.yaml", BLIS_HEADER)
    content = BLIS_COLUMNS + (
        blis_row(0, "a", 100, 20, 11, 0, 1_000_000, session="s")
        + blis_row(1, "", 0, 20, 6, 25, 1_500_000)
        + blis_row(2, "a", 100, 30, 1, 0, 2_000_000, session="s")
        + blis_row(3, "a", 100, 30, 1, 0, 2_500_000, status="timeout", session="s")
        + blis_row(4, "a", 100, 30, 1, 0, 3_000_000, session="s")
    )
    stream = lawful(read_trace(write("t.csv", content)))
    assert turns(stream) == [[0, 0.5, 1.0, 2.0], [-1, -1, 0, 2], [0, 0, 0.849, 0.849]]
    assert stream.priority is None and "recorded arrivals" not in " ".join(stream.notes)
    ranked = content.replace("slo_class,", "slo_class,vllm_priority,").replace(",standard,", ",standard,2,")
    assert read_trace(write("t.csv", ranked)).priority.tolist() == [2.0] * 4
    # A generated trace has no chunks.
    for time in (1_151_000, 1_651_000, 2_151_000, 2_651_000, 3_151_000):
        content = content.replace(f",{time},", ",0,")
    stream = read_trace(write("t.csv", content))
    assert stream.pause.tolist() == [0, 0, 1.0, 1.0] and "recorded arrivals" in " ".join(stream.notes)


def test_sessions_of_burstgpt_wait_for_their_elapsed_time(write):
    """The second turn of b comes 82 s after the first, which took 43."""
    stream = lawful(read_trace(write("a.csv", BURST_3)))
    assert turns(stream) == [[0, 51, 52, 82], [-1, -1, -1, 0], [0, 0, 0, 39]]
    blank = read_trace(write("b.csv", BURST_3.replace(",43,", ",,")))
    assert blank.pause.tolist() == [0, 0, 0, 82]
    assert "row 2: Elapsed time is 'x'" in refused(read_trace, write("c.csv", BURST_3.replace(",43,", ",x,")))


NAMED = "arrival=ts,prompt=p,output=o,session=user,pause=wait"


def test_named_columns_of_pauses(write):
    path = write("a.csv", "ts,p,o,user,wait\n0,10,1,a,0\n1,10,1,b,0\n2,20,1,a,1.5\n")
    stream = lawful(read_trace(path, columns=NAMED))
    assert turns(stream) == [[0, 1, 2], [-1, -1, 0], [0, 0, 1.5]]
    assert read_trace(path, columns=NAMED, time_unit="ms").pause[2] == pytest.approx(1.5e-3)
    assert read_trace(path, columns=NAMED.replace(",pause=wait", "")).after is None
    rows = ({"ts": time, "p": 9, "o": 1, "user": "a", "gap": {"s": time}} for time in (0, 1))
    stream = read_trace(write("a.jsonl", lines(*rows)), columns=NAMED.replace("wait", "gap.s"))
    assert turns(stream) == [[0, 1], [-1, 0], [0, 1]]
    said = refused(read_trace, path, columns=NAMED.replace(",session=user", ""))
    assert "pause cannot be given without session" in said

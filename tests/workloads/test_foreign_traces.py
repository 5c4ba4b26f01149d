"""Traces of other block sizes and units, conversations, and files whose columns are named by who reads them."""

import functools
import json

import numpy as np
import pytest

from sweeps.cli import main
from tests.stream_checks import lawful
from tests.trace_files import columns, refused, written
from workloads.streams.stream import kept
from workloads.traces import format_of, read_measured, read_trace
from workloads.traces.columns import proposed


@pytest.fixture
def write(tmp_path):
    """Writes a file and gives its path."""
    return functools.partial(written, tmp_path)


def rows(*requests) -> str:
    """JSON lines of (timestamp, input_length, hash_ids or None)."""
    made = []
    for time, isl, ids in requests:
        made.append({"timestamp": time, "input_length": isl, "output_length": 9})
        if ids is not None:
            made[-1]["hash_ids"] = ids
    return "\n".join(map(json.dumps, made))


@pytest.mark.parametrize("size", [16, 64, 128, 256, 1024])
def test_the_size_of_blocks_follows_from_their_number(write, size):
    """5.5 blocks, of which 4 are shared by a prompt of 7 blocks."""
    first, second = list(range(6)), [*range(4), 90, 91, 92]
    stream = read_trace(write("a.jsonl", rows((0, int(5.5 * size), first), (10, 7 * size, second))))
    assert columns(stream)[4] == [0.0, 4.0 * size]
    assert f"hash_ids are of {size} tokens each" in " ".join(stream.notes)


def test_blocks_without_one_for_what_is_left_over(write):
    stream = read_trace(write("a.jsonl", rows((0, 56, [1, 2, 3]), (10, 63, [1, 2, 3]))))
    assert columns(stream)[4] == [0.0, 48.0]


def test_named_blocks_and_blocks_of_the_format(write):
    path = write("a.jsonl", rows((0, 600, [1, 2]), (10, 600, [1, 2])))
    assert columns(read_trace(path))[4] == [0.0, 600.0]  # two blocks of 512, cut at the prompt
    assert columns(read_trace(path, block_tokens=300))[4] == [0.0, 600.0]
    assert columns(read_trace(path, block_tokens=512))[4] == [0.0, 600.0]
    assert read_trace(path).notes == ()


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        (rows((0, 600, [1, 2, 3]), (1, 5000, [1])), {}, "row 1: hash_ids has 3 blocks; 600 tokens of input_length are"),
        (rows((0, 600, [1, 2, 3])), {"block_tokens": 512}, "at most 2 blocks of 512; --block-tokens says how many"),
        (rows((0, 600, [1])), {"block_tokens": 0}, "block_tokens is 0; it must be a whole number from 1 to"),
        (rows((0, 600, [1])), {"time_unit": "h"}, "time_unit is 'h'; it must be s, ms, us, ns"),
        (rows((0, 600, "x")), {}, "row 1: hash_ids is 'x'; it must be a list"),
    ],
)
def test_blocks_and_units_that_are_refused(write, content, options, said):
    assert said in refused(read_trace, write("a.jsonl", content), **options)


def test_units_of_other_formats_are_refused(write):
    path = write("a.csv", "arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,374,44\n")
    assert "time_unit is of mooncake's times and of named columns only" in refused(read_trace, path, time_unit="s")
    assert "block_tokens is of mooncake's hashes only" in refused(read_trace, path, block_tokens=16)


def test_rows_without_hashes_share_nothing(write):
    stream = read_trace(write("a.jsonl", rows((0, 256, None), (0.5, 300, None))))
    assert columns(stream) == [[0, 0.5], [256, 300], [9, 9], [-1, -1], [0, 0]]
    assert "rows have no hash_ids" in " ".join(stream.notes)


@pytest.mark.parametrize(
    ("times", "unit", "span"),
    [
        ((0, 500), None, 0.5),
        ((0, 500), "s", 500.0),
        ((0, 0.5), None, 0.5),
        ((0, 0.5), "ms", 0.0005),
        ((1, 3), "us", 2e-6),
    ],
)
def test_units_of_times(write, times, unit, span):
    path = write("a.jsonl", rows(*((time, 10, None) for time in times)))
    assert read_trace(path, time_unit=unit).arrival[-1] == pytest.approx(span)


TALK = [
    {"id": "a", "conversations": [{"from": "human", "value": "x" * 400}, {"from": "gpt", "value": "y" * 40}]},
    {"id": "b", "conversations": [{"from": "human", "value": "alone"}]},
    {
        "id": "c",
        "conversations": [
            {"from": "human", "value": "z"},
            {"from": "gpt", "value": "w" * 41},
            {"from": "human", "value": "and then"},
        ],
    },
]


def test_conversations(write):
    """400 B and 40 B of text at 4 B per token; 41 B are 10 tokens; no text has less than one."""
    path = write("ShareGPT.json", TALK)
    assert format_of(path) == "sharegpt"
    stream = read_trace(path)
    assert columns(stream) == [[0, 0], [100, 1], [10, 10], [-1, -1], [0, 0]]
    assert "1 of 3 conversations without a prompt and an answer left out" in stream.notes
    assert "later turns of 1 conversations left out" in stream.notes


def test_conversations_with_roles_and_a_system_prompt(write):
    turns = [("system", "s" * 8), ("user", "u" * 8), ("assistant", "a" * 12)]
    path = write("a.jsonl", json.dumps({"messages": [{"role": role, "content": text} for role, text in turns]}))
    assert columns(read_trace(path))[1:3] == [[4], [3]]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([1], "[0] is 1; it must be an object"),
        ([{"conversations": [{"from": "a"}, {"from": "b"}]}], "value is missing; it must be a text"),
        ([{"conversations": []}], "no conversation in it has a prompt and an answer"),
    ],
)
def test_conversations_that_are_wrong(write, content, said):
    assert said in refused(read_trace, write("a.json", content))


CSV = "ts,prompt_tokens,gen,user\n1.5,100,10,a\n2.0,300,20,b\n4,50,5,a\n"
NAMED = "arrival=ts,prompt=prompt_tokens,output=gen"


def test_named_columns_of_a_table(write):
    path = write("a.csv", CSV)
    assert columns(read_trace(path, columns=NAMED)) == [[0, 0.5, 2.5], [100, 300, 50], [10, 20, 5], [-1] * 3, [0] * 3]
    assert read_trace(path, columns=NAMED, time_unit="ms").arrival[-1] == pytest.approx(2.5e-3)
    assert columns(read_trace(path, columns=f"{NAMED},session=user"))[3] == [0, -1, 0]
    assert columns(read_trace(path, columns="prompt=prompt_tokens,output=gen"))[0] == [0, 0, 0]


def test_named_columns_with_dates(write):
    dated = write("a.csv", "when,p,o\n2024-05-10 00:00:00,10,1\n2024-05-10 00:00:02.5,20,2\n")
    assert columns(read_trace(dated, columns="arrival=when,prompt=p,output=o"))[0] == [0, 2.5]


def test_named_columns_of_json_lines(write):
    lines = "\n".join(
        json.dumps({"t": time, "usage": {"in": 7, "out": 3}})
        for time in ("2024-05-10T00:00:00Z", "2024-05-10T00:00:01Z")
    )
    stream = read_trace(write("a.jsonl", lines), columns="arrival=t,prompt=usage.in,output=usage.out")
    assert columns(stream)[:3] == [[0, 1], [7, 7], [3, 3]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("arrival", "columns is 'arrival'; it must be such as arrival=ts"),
        ("prompt=a,output=b,size=c", "size is not known"),
        ("prompt=a,prompt=b,output=c", "prompt is given twice"),
        ("arrival=ts,prompt=prompt_tokens", "output is missing"),
        ("arrival=ts,prompt=prompt_token,output=gen", "column prompt_token is missing; did you mean prompt_tokens"),
        ("arrival=user,prompt=prompt_tokens,output=gen", "row 2: user is 'a'; it must be a finite number"),
    ],
)
def test_names_that_are_wrong(write, text, said):
    assert said in refused(read_trace, write("a.csv", CSV), columns=text)


def test_the_flags_of_the_verb(write, capsys):
    assert main(["trace", write("a.csv", CSV), "--columns", NAMED, "--time-unit", "ms", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["duration"] == pytest.approx(2.5e-3)
    path = write("b.jsonl", rows((0, 100, [1, 2]), (1, 100, [1, 2])))
    assert main(["trace", path, "--block-tokens", "64", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cacheable"] == pytest.approx(0.5)
    assert main(["trace", "--rate", "1", "--isl", "1", "--osl", "1", "--block-tokens", "64"]) == 2
    assert "--block-tokens cannot be given: it needs a FILE" in capsys.readouterr().err


def lines(*records) -> str:
    """JSON lines of prompts of 100 tokens and answers of 9, with what each record says."""
    return "\n".join(json.dumps({"input_length": 100, "output_length": 9} | record) for record in records)


def turns(stream) -> list[list[float]]:
    """Arrival, after and pause."""
    return [np.round(getattr(stream, name), 9).tolist() for name in ("arrival", "after", "pause")]


def test_sessions_with_delays(write):
    """The turns of a stand together, and come by plan 50 and 250 ms after the first; b has a time of its own."""
    content = lines(
        {"session_id": "a", "timestamp": 1000},
        {"session_id": "a", "delay": 50},
        {"session_id": "a", "delay": 150.5, "tool_wait_ms": 49.5},
        {"session_id": "b", "timestamp": 1100},
        {"session_id": "b", "timestamp": 1160},
        {"timestamp": 1200},
    )
    path = write("a.jsonl", content)
    assert format_of(path) == "mooncake"
    stream = lawful(read_trace(path))
    assert turns(stream) == [[0, 0.05, 0.1, 0.16, 0.2, 0.25], [-1, 0, -1, 2, -1, 1], [0, 0.05, 0, 0.06, 0, 0.2]]
    assert "pauses of turns are the times between recorded arrivals" in " ".join(stream.notes)


def test_requests_that_wait_for_others_by_name(write):
    """A sub-agent begins 5 ms after the first answer; the fourth waits for it and for the second, 2.51 s more."""
    stream = lawful(
        read_trace(
            write(
                "a.jsonl",
                lines(
                    {"request_id": "r", "session_id": "s", "timestamp": 1000.5, "prefix_reset": True},
                    {"request_id": "r2", "session_id": "s", "wait_for": ["r"], "tool_wait_ms": 100},
                    {"request_id": "c", "session_id": "s:child", "wait_for": ["r"], "delay": 5},
                    {"request_id": "r3", "session_id": "s", "wait_for": ["r2", "c"], "delay": 10, "tool_wait_ms": 2500},
                ),
            )
        )
    )
    assert turns(stream) == [[0, 0.005, 0.1, 2.61], [-1, 0, 0, 2], [0, 0.005, 0.1, 2.51]]
    assert "1 requests wait for several answers" in " ".join(stream.notes)


def test_chats_with_parents_and_hashes_of_16_tokens(write):
    """The second chat goes on with the first and a third one too, from its first two blocks on."""
    common = {"type": "text", "output_length": 10}
    content = lines(
        {"chat_id": 7, "parent_chat_id": -1, "timestamp": 61.5, "input_length": 33, "hash_ids": [1, 2, 3]} | common,
        {"chat_id": 9, "parent_chat_id": 7, "timestamp": 70, "input_length": 64, "hash_ids": [1, 2, 4, 5]} | common,
        {"chat_id": 8, "parent_chat_id": 7, "timestamp": 71, "input_length": 64, "hash_ids": [1, 2, 6, 7]} | common,
        {"chat_id": 4, "parent_chat_id": 9, "timestamp": 75, "input_length": 80, "hash_ids": [1, 2, 4, 5, 8]} | common,
        {"chat_id": 5, "parent_chat_id": 8, "timestamp": 76, "input_length": 70, "hash_ids": [1, 2, 6, 7, 9]} | common,
        {"chat_id": 6, "parent_chat_id": 1, "timestamp": 77, "input_length": 16, "hash_ids": [20]} | common,
    )
    stream = lawful(read_trace(write("a.jsonl", content)))
    assert turns(stream) == [
        [0, 8.5, 9.5, 13.5, 14.5, 15.5],
        [-1, 0, 0, 1, 2, -1],
        [0, 8.5, 9.5, 5.0, 5.0, 0],
    ]
    assert stream.group.tolist() == [0, 1, 2, 1, 2, -1] and stream.shared.tolist() == [0, 32, 32, 64, 64, 0]
    assert stream.parent.tolist() == [-1, 0, 0] and stream.base.tolist() == [0, 32, 32]
    assert kept(stream).tolist() == [32, 64, 64, 32, 0, 0]


@pytest.mark.parametrize("seed", range(20))
def test_a_tree_of_hashes_says_what_a_comparison_of_all_blocks_says(write, seed):
    rng = np.random.Generator(np.random.PCG64(seed))
    ids = [[0] * int(rng.integers(0, 3)) + rng.integers(0, 3, rng.integers(1, 6)).tolist() for _ in range(60)]
    content = rows(*((time, 512 * len(one), one) for time, one in enumerate(ids)))
    stream = lawful(read_trace(write("a.jsonl", content)))

    def common(one, other):
        return next((i for i, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)

    def blocks(one, other):
        place = common(one, other)
        return min(len(one), len(other)) if place is None else place

    for request, one in enumerate(ids):
        assert stream.shared[request] == 512 * max((blocks(one, before) for before in ids[:request]), default=0)
        later = 512 * max((blocks(one, after) for after in ids[request + 1 :]), default=0)
        assert kept(stream)[request] == later


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([{"request_id": "a", "wait_for": ["b"]}], "row 1: wait_for names 'b'; it must be a request_id of a row above"),
        ([{"request_id": "a", "wait_for": ["a"]}], "row 1: wait_for names 'a'; it must be a request_id of a row above"),
        ([{"session_id": "a"}], "row 1: timestamp is missing"),
        ([{"session_id": "a", "timestamp": 1}, {"session_id": "a", "delay": -1}], "row 2: delay is -1; it must be a"),
        ([{"session_id": "a", "timestamp": 1}, {"session_id": "a"}], "row 2: timestamp is missing"),
    ],
)
def test_turns_that_are_wrong_are_one_line(write, records, said):
    assert said in refused(read_trace, write("a.jsonl", lines(*records)))


@pytest.mark.parametrize(
    ("names", "proposal"),
    [
        ("when,ctx_len,gen_len", "arrival=when,prompt=ctx_len,output=gen_len"),
        ("request_id,ts,model,n_prompt,n_completion,latency", "arrival=ts,prompt=n_prompt,output=n_completion"),
        ("startTime,endTime,inputTokens,outputTokens", "arrival=startTime,prompt=inputTokens,output=outputTokens"),
        ("ttft_ms,prompt_text,output_text,input_len,out_len", "arrival=COLUMN,prompt=input_len,output=COLUMN"),
        ("created,usage.prompt_tokens,usage.completion_tokens,prompt_cost", None),
    ],
)
def test_columns_are_proposed_by_their_names(names, proposal):
    proposal = proposal or "arrival=created,prompt=usage.prompt_tokens,output=usage.completion_tokens"
    assert proposed(names.split(",")) == proposal


TABLE = "when,ctx_len,gen_len\n0.0,100,20\n0.5,300,40\n"
LINES = '{"id": "a", "at": {"created": 1}, "usage": {"in_tokens": 10}, "completion": 5}\n'


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "a.csv",
            TABLE,
            "its columns, when, ctx_len, gen_len; name them, --columns arrival=when,prompt=ctx_len,",
        ),
        (
            "a.jsonl",
            LINES,
            "its keys, id, at.created, usage.in_tokens, completion; name them, --columns arrival=at.",
        ),
        ("a.json", f"[{LINES}]", "a.json: [0]: conversations is missing, so it is no conversation; name its keys: --"),
        ("a.csv", TABLE.replace(",", ";"), "its columns are separated by ;; a CSV of commas is read"),
        ("a.tsv", TABLE.replace(",", "\t"), "its columns are separated by tabs; a CSV of commas is read"),
        ("a.csv", "", "a.csv: it is empty"),
        ("a.yaml", "a: 1\n", "its keys, a; name its format, one of azure, "),
    ],
)
def test_a_file_of_no_known_format_says_what_to_do(write, name, content, said):
    assert said in refused(read_trace, write(name, content))


def test_the_proposal_reads_the_file(write):
    path = write("a.csv", TABLE)
    words = refused(read_trace, path).partition("--columns ")[2].partition(", or ")[0]
    assert columns(read_trace(path, columns=words))[:3] == [[0, 0.5], [100, 300], [20, 40]]


def test_a_json_list_is_read_as_json_lines_are(write):
    rows = [{"t": 0, "n": {"in": 10, "out": 5}}, {"t": 2, "n": {"in": 12, "out": 7}}]
    words = "arrival=t,prompt=n.in,output=n.out"
    as_list = read_trace(write("a.json", json.dumps(rows)), columns=words)
    as_lines = read_trace(write("b.jsonl", "\n".join(map(json.dumps, rows))), columns=words)
    assert columns(as_list) == columns(as_lines) and columns(as_list)[:3] == [[0, 2], [10, 12], [5, 7]]
    rows[1]["n"]["out"] = -1
    error = refused(read_trace, write("c.json", json.dumps(rows)), columns=words)
    assert "c.json: [1]: n: out is -1" in error or "c.json: [1]" in error


def test_latencies_are_wanted_of_a_benchmarks_results(write):
    error = refused(read_measured, write("a.csv", TABLE))
    assert error.endswith("with the latencies of every request: blis, vllm, sglang, guidellm")
    assert "--columns" not in error

"""Readers of lists of requests: exact streams of tiny files, and one line for every file that is wrong."""

import functools

import pytest

from tests.trace_files import (
    AZURE,
    AZURE_2023,
    AZURE_2024,
    BURST,
    BURST_3,
    GUIDE,
    MOONCAKE,
    SGLANG,
    SPLITWISE,
    VIDUR,
    VLLM,
    columns,
    refused,
    written,
)
from workloads.traces import FORMATS, format_of, read_measured, read_trace


@pytest.fixture
def write(tmp_path):
    """Writes a file and gives its path."""
    return functools.partial(written, tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "format", "expected"),
    [
        ("a.csv", AZURE_2023, "azure", [[0, 4.314579], [374, 396], [44, 109], [-1, -1], [0, 0]]),
        ("b.csv", AZURE_2024, "azure", [[0, 0.5], [2162, 10], [5, 6], [-1, -1], [0, 0]]),
        ("c.csv", VIDUR, "splitwise", [[0, 4.3], [374, 396], [44, 109], [-1, -1], [0, 0]]),
        ("d.csv", SPLITWISE, "splitwise", [[0, 0.5], [374, 396], [44, 109], [-1, -1], [0, 0]]),
        ("e.csv", BURST, "burstgpt", [[0, 113], [472, 417], [18, 276], [-1, -1], [0, 0]]),
        (
            "f.csv",
            BURST_3,
            "burstgpt",
            [[0, 51, 52, 82], [906, 36, 37, 1779], [446, 29, 29, 123], [0, -1, -1, 0], [0] * 4],
        ),
        (
            "g.jsonl",
            MOONCAKE,
            "mooncake",
            [[0, 0.5, 1, 1.5, 2], [1400, 1300, 600, 1100, 1100], [9] * 5, [0, 0, -1, 0, 0], [0, 1024, 0, 1100, 512]],
        ),
        ("h.json", VLLM, "vllm", [[0, 1.0], [200, 100], [1, 3], [-1, -1], [0, 0]]),
        ("i.jsonl", SGLANG, "sglang", [[0, 0], [100, 200], [3, 1], [-1, -1], [0, 0]]),
        ("j.json", GUIDE, "guidellm", [[0, 0.5, 1.0], [10, 2998, 10], [3, 56, 1], [-1] * 3, [0] * 3]),
    ],
)
def test_a_trace_is_found_out_and_read(write, name, content, format, expected):
    path = write(name, content)
    assert format_of(path) == format
    stream = read_trace(path)
    assert columns(stream) == expected
    assert stream.source == path and stream.name == name.partition(".")[0]
    assert columns(read_trace(path, format)) == expected


def test_what_is_left_out_is_said(write):
    assert "1 of 3 requests failed" in read_trace(write("a.csv", BURST)).notes[0]
    assert "columns not used: Model, Total tokens" in " ".join(read_trace(write("b.csv", BURST_3)).notes)
    assert read_trace(write("c.json", VLLM)).notes[0] == "1 of 3 requests failed and are left out"
    assert "of which 8 were sent at a time" in read_trace(write("d.jsonl", SGLANG)).notes[-1]
    assert "1 errored requests left out" in read_trace(write("e.json", GUIDE)).notes
    assert read_trace(write("f.csv", AZURE_2023)).notes == ()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (AZURE + "2023-11-16 18:15,1,2\n", "row 2: TIMESTAMP is '2023-11-16 18:15'; it must be a time such as"),
        (AZURE + "2023-13-16 18:15:00,1,2\n", "row 2: TIMESTAMP is '2023-13-16 18:15:00'"),
        (AZURE_2023 + "2023-11-16 18:16:00,-3,2\n", "row 4: ContextTokens is '-3'; it must be a whole number"),
        (AZURE_2023 + "2023-11-16 18:16:00,nan,2\n", "row 4: ContextTokens is 'nan'"),
        (AZURE_2023 + "\n2023-11-16 18:16:00,3,0\n", "row 5: GeneratedTokens is 0; it must be from 1"),
        (AZURE_2023 + "2023-11-16 18:16:00,3\n", "row 4: it has 2 values; there are 3 columns"),
        (AZURE_2023 + "2023-11-16 18:16:00,3e7,1\n", "row 4: ContextTokens is 30000000; it must be from 1 to"),
        (AZURE_2023 + "2023-11-16 18:16:00,1_0,1\n", "row 4: ContextTokens is '1_0'"),
        (AZURE.replace("Gen", "gen") + "2023-11-16 18:15:46,1,2\n", "column GeneratedTokens is missing"),
        (AZURE, "there are no rows in it"),
        (AZURE.replace("\n", ",TIMESTAMP\n"), "column TIMESTAMP is there twice"),
        (VIDUR + "4.2,1,1\n", "row 4: arrived_at is 4.2, before the row above it, 4.3; sort=True"),
        (VIDUR + "1e300,1,1\n", "row 4: arrived_at is 1e+300; it must be within 1e+11 s of 0"),
        (VIDUR + "inf,1,1\n", "row 4: arrived_at is 'inf'; it must be a finite number"),
        (VIDUR.replace("arrived_at", "arrived"), "column arrived_at is missing; did you mean arrived?; it has arrived"),
        (VIDUR + '4.4,"1,1\n', "not CSV"),
        (BURST + "x,ChatGPT,472,18,490,API log\n", "row 5: Timestamp is 'x'"),
        (BURST + "200,ChatGPT,0,18,490,API log\n", "row 5: Request tokens is 0"),
        (BURST.replace("18,490", "0,472").replace("276,693", "0,417"), "all of its 3 requests failed"),
        (
            "a,b\n1,2\n",
            "no known format of traces has its columns, a, b; name them, --columns arrival=",
        ),
    ],
)
def test_wrong_tables_are_one_line(write, content, said):
    path = write("t.csv", content)
    error = refused(read_trace, path)
    assert said in error and error.startswith(path)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"timestamp": "1", "input_length": 5, "output_length": 5, "hash_ids": []}', "timestamp is '1'"),
        ('{"timestamp": NaN, "input_length": 5, "output_length": 5, "hash_ids": []}', "timestamp is nan"),
        ('{"timestamp": 1, "input_length": 5.5, "output_length": 5, "hash_ids": []}', "input_length is 5.5"),
        ('{"timestamp": 1, "input_length": 5, "output_length": true, "hash_ids": []}', "output_length is True"),
        ('{"timestamp": 9e9, "input_length": 5, "output_length": 0, "hash_ids": []}', "output_length is 0"),
        ('{"timestamp": 9e9, "input_length": 512, "output_length": 1, "hash_ids": [1, 2]}', "hash_ids has 2 blocks"),
        ('{"timestamp": 9e9, "input_length": 512, "output_length": 1, "hash_ids": ["a"]}', "hash_ids holds 'a'"),
        ('{"timestamp": 9e9, "input_length": 512, "output_length": 1, "hash_ids": [null]}', "hash_ids holds None"),
        ('{"timestamp": 1, "input_length": 5, "output_length": 5, "hash_ids": []}', "before the row above it, 29482"),
        ("[1]", "it must be a JSON object"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_wrong_mooncake_lines_are_one_line(write, line, said):
    error = refused(read_trace, write("m.jsonl", f"{MOONCAKE}\n{line}\n"))
    assert said in error and "row 6" in error


def test_rows_out_of_order_are_sorted_when_asked(write):
    path = write("v.csv", VIDUR + "1.3,7,8\n")
    found = read_trace(path, sort=True)
    assert columns(found)[:2] == [[0, 1.3, 4.3], [374, 7, 396]]
    assert found.notes == ("1 rows were earlier than the row above them; rows are sorted by arrived_at",)


def test_rows_without_tokens_are_counted_when_asked(write):
    path = write("v.csv", VIDUR + "5.3,7,0\n6,0,1\n")
    found = read_trace(path, drop=True)
    assert len(found) == 2
    assert found.notes == (
        "1 of 4 rows with num_prefill_tokens 0 left out",
        "1 of 4 rows with num_decode_tokens 0 left out",
    )


def test_files_that_cannot_be_read_are_one_line(write, tmp_path):
    assert "no such file" in refused(read_trace, str(tmp_path / "none.csv"))
    assert "there is no chunk-N-trace.csv in it" in refused(read_trace, str(tmp_path))
    assert "did you mean azure" in refused(read_trace, write("a.csv", VIDUR), "azur")
    assert "holds no latencies" in refused(read_measured, write("a.csv", VIDUR))
    assert "no known format of traces has its keys, a;" in refused(read_trace, write("a.json", {"a": 1}))
    assert "not JSON" in refused(read_trace, write("b.json", "nothing"))
    assert "span picks a part" in refused(read_trace, write("a.csv", VIDUR), span=(0.0, 1.0))
    (tmp_path / "b.csv").write_bytes(b"arrived_at,num_prefill_tokens,num_decode_tokens\n\xff,1,1\n")
    assert "UTF-8" in refused(read_trace, str(tmp_path / "b.csv"))


def test_large_tables_are_read_in_pieces(write, monkeypatch):
    monkeypatch.setattr("workloads.traces.table.PIECE", 7)
    rows = "".join(f"{i / 4},{i + 1},{2 * i + 1}\n" for i in range(100))
    path = write("v.csv", VIDUR.partition("\n")[0] + "\n" + rows)
    assert columns(read_trace(path))[:2] == [[i / 4 for i in range(100)], list(range(1, 101))]
    assert "row 31: num_prefill_tokens is 'x'" in refused(
        read_trace, write("w.csv", "arrived_at,num_prefill_tokens,num_decode_tokens\n" + rows.replace(",30,", ",x,"))
    )


def test_every_format_has_a_reader():
    assert set(FORMATS) >= {"azure", "splitwise", "mooncake", "burstgpt", "servegen", "blis", "vllm", "sglang"}
    assert all(hasattr(module, "read") for module in FORMATS.values())

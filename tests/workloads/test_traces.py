"""Readers of other tools' traces: exact streams of tiny files, and one line for every file that is wrong."""

import json
import math

import numpy as np
import pytest

from workloads.traces import FORMATS, format_of, read_measured, read_trace

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
AZURE_2023 = AZURE + "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n"
AZURE_2024 = AZURE + "2024-05-10 00:00:00.009930+00:00,2162,5\n2024-05-10 02:00:00.509930+02:00,10,6\n"
VIDUR = "arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,374,44\n4.3,396,109\n"
SPLITWISE = (
    "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size\n"
    "0,2,0,1.5,1,374,44\n1,2,0,2.0,1,396,109\n"
)
BURST = (
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n"
    "45,ChatGPT,1087,0,1087,Conversation log\n118,GPT-4,417,276,693,API log\n"
)
BURST_3 = (
    "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "19440110.0,b,43,GPT-4,906,446,1352,Conversation log\n19440161.0,a,2,ChatGPT,36,29,65,Conversation log\n"
    "19440162.0,,2,ChatGPT,37,29,66,API log\n19440192.0,b,8,GPT-4,1779,123,1902,Conversation log\n"
)
MOONCAKE = "\n".join(
    json.dumps({"timestamp": time, "input_length": isl, "output_length": 9, "hash_ids": ids})
    for time, isl, ids in (
        (27482, 1400, [46, 47, 48]),
        (27982, 1300, [46, 47, 50]),  # two blocks of the first
        (28482, 600, [7, 8]),  # alone
        (28982, 1100, [46, 47, 50]),  # all three blocks of the second, of which the last is cut short
        (29482, 1100, [46, 48, 50]),  # one: 48 stood elsewhere
    )
)
BLIS_HEADER = "trace_version: 2\ntime_unit: microseconds\nmode: real\nwarm_up_requests: 0\n"
BLIS_COLUMNS = (
    "request_id,client_id,tenant_id,slo_class,session_id,round_index,prefix_group,prefix_length,streaming,"
    "input_tokens,output_tokens,text_tokens,image_tokens,audio_tokens,video_tokens,reason_ratio,model,deadline_us,"
    "server_input_tokens,arrival_time_us,send_time_us,first_chunk_time_us,last_chunk_time_us,num_chunks,status,"
    "error_message,finish_reason\n"
)


def blis_row(number, group, prefix, own, osl, server, time, status="ok", session=""):
    times = f"{time},{time + 1000},{time + 51_000},{time + 151_000}"
    return (
        f"{number},c,t,standard,{session},0,{group},{prefix},true,{own},{osl},0,0,0,0,0,,0,{server},{times},3,"
        f"{status},,stop\n"
    )


BLIS = BLIS_COLUMNS + (
    blis_row(0, "a", 100, 20, 11, 130, 1_000_000)
    + blis_row(1, "", 0, 20, 6, 25, 1_500_000)
    + blis_row(2, "a", 100, 30, 1, 0, 2_000_000, session="s")
    + blis_row(3, "a", 100, 30, 1, 0, 2_500_000, status="timeout")
)
VLLM = {
    "date": "20250101-000000",
    "model_id": "m",
    "tokenizer_id": "m",
    "num_prompts": 3,
    "request_rate": 2.0,
    "max_concurrency": None,
    "duration": 4.0,
    "completed": 2,
    "failed": 1,
    "total_input_tokens": 300,
    "total_output_tokens": 30,
    "request_throughput": 0.5,
    "input_lens": [100, 50, 200],
    "output_lens": [3, 0, 1],
    "ttfts": [0.5, 0.0, 0.25],
    "itls": [[0.1, 0.3], [], []],
    "start_times": [101.0, 100.5, 100.0],
    "errors": ["", "refused", ""],
    "mean_ttft_ms": 375.0,
    "p99_itl_ms": 298.0,
    "mean_e2el_ms": 575.0,
}
SGLANG = {key: value for key, value in VLLM.items() if key not in ("start_times", "tokenizer_id", "model_id")}
SGLANG |= {"sharegpt_output_len": None, "random_range_ratio": 0.0, "request_rate": math.inf, "max_concurrency": 8}
GUIDE_REQUESTS = [
    {
        "prompt_tokens": 2998,
        "output_tokens": 56,
        "request_start_time": 1000.5,
        "request_latency": 2.7846,
        "time_to_first_token_ms": 1353.1,
        "inter_token_latency_ms": 26.02,
        "time_per_output_token_ms": 49.72,
    },
    {
        "prompt_tokens": 10,
        "output_tokens": 3,
        "start_time": 1000.0,
        "request_latency": 0.5,
        "time_to_first_token_ms": 100.0,
        "inter_token_latency_ms": None,
    },
    {"prompt_tokens": 10, "output_tokens": 1, "start_time": 1001.0, "request_latency": 0.5},
]
GUIDE = {
    "metadata": {},
    "benchmarks": [
        {
            "duration": 30.0,
            "config": {"strategy": {"type_": "constant", "rate": 2.0, "max_concurrency": 512}},
            "metrics": {
                "time_to_first_token_ms": {"successful": {"mean": 700.0, "percentiles": {"p99": 1300.0}}},
                "request_latency": {"successful": {"mean": 1.5}},
            },
            "requests": {"successful": GUIDE_REQUESTS, "errored": [{}], "incomplete": []},
        }
    ],
}
SERVEGEN = "0,2.0,1.5,Gamma,0.4444,1.125\n600,0,0,,0,0\n1200,0.5,2.0,Weibull,0.5,1.0\n"
HISTOGRAMS = {
    "0": {"input_tokens": "{10: 0.5, 20: 0.5}", "output_tokens": "{0: 0.25, 7: 0.75}"},
    "1200": {"input_tokens": "{99: 1.0}", "output_tokens": "{3: 1.0}"},
}
PERF = (
    "load:\n  type: constant\n  interval: 5\n  stages:\n  - rate: 2\n    duration: 3\n  - rate: 1\n    duration: 2\n"
    "server:\n  type: vllm\ndata:\n  type: shared_prefix\n  shared_prefix:\n    num_unique_system_prompts: 2\n"
    "    num_users_per_system_prompt: 2\n    system_prompt_len: 100\n    question_len: 50\n    output_len: 5\n"
    "    enable_multi_turn_chat: false\n"
)


@pytest.fixture
def write(tmp_path):
    """Writes a file and gives its path."""

    def written(name, content):
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    return written


def columns(stream):
    return [np.round(getattr(stream, name), 9).tolist() for name in ("arrival", "isl", "osl", "group", "shared")]


def refused(read, *arguments, **options):
    with pytest.raises(ValueError, match=".") as error:
        read(*arguments, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


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
    assert "columns not used: Elapsed time, Model" in " ".join(read_trace(write("b.csv", BURST_3)).notes)
    assert read_trace(write("c.json", VLLM)).notes[0] == "1 of 3 requests failed and are left out"
    assert "of which 8 were sent at a time" in read_trace(write("d.jsonl", SGLANG)).notes[-1]
    assert "1 errored requests left out" in read_trace(write("e.json", GUIDE)).notes
    assert read_trace(write("f.csv", AZURE_2023)).notes == ()


@pytest.mark.parametrize("ending", ["csv", "yaml"])
def test_blis_adds_prefixes_and_leaves_failures_out(write, ending):
    write("t.yaml", BLIS_HEADER)
    path = write("t.csv", BLIS).replace("csv", ending)
    assert format_of(path) == "blis"
    found = read_trace(path)
    # with a group: prefix + own; without: what the server counted
    assert columns(found) == [[0, 0.5, 1.0], [120, 25, 130], [11, 6, 1], [0, -1, 0], [0, 0, 100]]
    assert found.notes[0] == "1 of 4 requests left out: their status is not ok"
    assert "1 requests belong to sessions" in found.notes[1]
    measured = read_measured(path)
    assert measured.ttft == pytest.approx([0.05] * 3) and measured.e2e == pytest.approx([0.15] * 3)
    assert measured.itl == pytest.approx([0.01, 0.02, math.nan], nan_ok=True)


def test_measured_of_vllm_is_in_seconds_and_the_order_of_sending(write):
    found = read_measured(write("r.json", VLLM))
    assert found.ttft.tolist() == [0.25, 0.5]
    assert found.e2e == pytest.approx([0.25, 0.9])
    assert found.itl == pytest.approx([math.nan, 0.2], nan_ok=True)  # (0.9 - 0.5) / (3 - 1)
    assert (found.rate, found.concurrency, found.duration) == (2.0, None, 4.0)
    assert found.summary == {"mean_ttft": 0.375, "p99_itl": 0.298, "mean_e2e": 0.575}


def test_results_without_details_have_mean_lengths_and_no_latencies(write):
    short = {key: value for key, value in VLLM.items() if not isinstance(value, list)}
    found = read_measured(write("r.json", short))
    assert columns(found.stream)[:3] == [[0, 0.5], [150, 150], [15, 15]]
    assert np.isnan(found.ttft).all() and found.summary["mean_ttft"] == 0.375
    assert "totals alone" in found.stream.notes[0] and "evenly at the client's 2 per s" in found.stream.notes[1]


def test_measured_of_guidellm_uses_the_time_between_tokens(write):
    found = read_measured(write("r.json", GUIDE))
    assert found.ttft == pytest.approx([0.1, 1.3531, math.nan], nan_ok=True)
    assert found.itl == pytest.approx([0.2, 0.02602, math.nan], nan_ok=True)  # (0.5 - 0.1) / 2 where it is null
    assert found.e2e == pytest.approx([0.5, 2.7846, 0.5])
    assert (found.rate, found.concurrency, found.duration) == (2.0, 512.0, 30.0)
    assert found.summary == {"mean_ttft": 0.7, "p99_ttft": 1.3, "mean_e2e": 1.5}


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ({"type_": "synchronous"}, (None, 1.0)),
        ({"type_": "throughput", "max_concurrency": 9}, (math.inf, 9.0)),
        ({"type_": "concurrent", "streams": 4}, (None, 4.0)),
    ],
)
def test_strategies_of_guidellm(write, strategy, expected):
    report = json.loads(json.dumps(GUIDE))
    report["benchmarks"][0] = {**report["benchmarks"][0], "args": {"strategy": strategy}}
    del report["benchmarks"][0]["config"]
    found = read_measured(write("r.json", report))
    assert (found.rate, found.concurrency) == expected


def test_one_run_of_several_is_chosen_by_number(write):
    second = {**SGLANG, "input_lens": [7, 8, 9]}
    path = write("r.jsonl", json.dumps(SGLANG) + "\n\n" + json.dumps(second) + "\n")
    assert read_trace(f"{path}#2").isl.tolist() == [7, 9]
    assert f"write {path}#1 to {path}#2" in refused(read_trace, path)
    assert "no run 3; the file holds 2" in refused(read_trace, f"{path}#3")
    both = write("g.json", {"benchmarks": GUIDE["benchmarks"] * 2})
    assert len(read_trace(f"{both}#1")) == 3
    assert "holds 2 benchmarks" in refused(read_measured, both)


def test_servegen_draws_what_its_windows_say(write, tmp_path):
    path = write("chunk-4-trace.csv", SERVEGEN)
    write("chunk-4-dataset.json", HISTOGRAMS)
    found, same, other = (read_trace(path, seed=seed) for seed in (1, 1, 2))
    assert columns(found) == columns(same) != columns(other)
    counts = np.histogram(found.arrival, [0, 600, 1200, 1800])[0]
    assert counts.tolist() == [1200, 0, 300]  # rate times 600 s, exactly: they are whole
    assert set(found.isl[:1200]) == {10, 20} and set(found.isl[1200:]) == {99}
    assert set(found.osl[:1200]) == {1, 7} and (found.osl[:1200] == 7).mean() == pytest.approx(0.75, abs=0.05)
    assert "lengths of 0 tokens count as 1" in found.notes[1]
    part = read_trace(str(tmp_path), span=(1200.0, 1500.0))
    assert len(part) == 150 and part.arrival[-1] < 300 and set(part.isl) == {99}


def test_servegen_without_histograms_says_how_many_it_leaves_out(write):
    write("chunk-4-dataset.json", {"1200": HISTOGRAMS["1200"], "0": {"input_tokens": "{}", "output_tokens": "{}"}})
    found = read_trace(write("chunk-4-trace.csv", SERVEGEN))
    assert len(found) == 300 and "about 1200 requests left out" in found.notes[1]


@pytest.mark.parametrize(
    ("trace", "dataset", "said"),
    [
        (SERVEGEN.replace("Gamma", "Gama"), HISTOGRAMS, "row 1: pattern is 'Gama'; did you mean Gamma"),
        (SERVEGEN.replace("0.5,2.0", "-0.5,2.0"), HISTOGRAMS, "row 3: rate is -0.5"),
        (SERVEGEN.replace("600,0,0", "0,0,0"), HISTOGRAMS, "row 2: start is 0; it must be above the row before it"),
        (SERVEGEN + "1800,1\n", HISTOGRAMS, "row 4: it has 2 values; there are 6 columns"),
        (SERVEGEN, {"0": {**HISTOGRAMS["0"], "output_tokens": "{7: 0.5}"}}, "0: output_tokens: shares sum to 0.5"),
        (SERVEGEN, {"0": {**HISTOGRAMS["0"], "output_tokens": "{__import__('os')}"}}, "it must be TOKENS: SHARE"),
        (SERVEGEN, {"x": HISTOGRAMS["0"]}, "'x' is no time"),
    ],
)
def test_wrong_servegen_data_are_one_line(write, trace, dataset, said):
    write("chunk-4-dataset.json", dataset)
    assert said in refused(read_trace, write("chunk-4-trace.csv", trace))


def test_inference_perf_goes_through_its_prompts_in_turn(write):
    found = read_trace(write("c.yaml", PERF), seed=3)
    assert found.arrival[5] == pytest.approx(3.0) and found.arrival[7] == pytest.approx(10.0)  # stages fill their time
    assert found.arrival[6] > 8.0 and len(found) == 8  # 3 s, 5 s of pause, 2 s
    assert set(found.isl) == {150.0} and set(found.osl) == {5.0} and set(found.group) == {0, 1}
    firsts = [np.argmax(found.group == g) for g in (0, 1)]
    assert [found.shared[i] for i in range(4)] == [0.0 if i in firsts else 100.0 for i in range(4)]
    assert found.shared[4:].tolist() == [150.0] * 4  # every prompt a second time
    turns = read_trace(write("d.yaml", PERF.replace("chat: false", "chat: true")))
    assert turns.isl[4:].tolist() == [205.0] * 4 and turns.shared[4:].tolist() == [155.0] * 4


def test_inference_perf_with_random_lengths_and_in_blis_form(write):
    lengths = "{min: 10, max: 20, mean: 15, std: 100}"
    config = "load: {type: poisson, stages: [{rate: 100, duration: 10}]}\n"
    config += f"data:\n  type: random\n  input_distribution: {lengths}\n  output_distribution: {lengths}\n"
    found = read_trace(write("r.yml", config))
    assert len(found) == 1000 and found.isl.min() == 10 and found.isl.max() == 20 and found.arrival[-1] < 10
    shared = PERF.partition("  shared_prefix:\n")[2].replace("    ", "  ")
    short = read_trace(write("s.yaml", f"stages: [{{rate: 2, duration: 3}}]\nshared_prefix:\n{shared}"))
    assert len(short) == 6 and set(short.isl) == {150.0}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("type: constant", "type: concurrent"), "its arrivals depend on the server"),
        (("type: constant", "type: poison"), "load: type is 'poison'; did you mean poisson"),
        (("rate: 2", "rate: -2"), "stages[0]: rate is -2; it must be a number of at least 0"),
        (("question_len: 50", "question_len: 5.5"), "question_len is 5.5; it must be a whole number"),
        (("question_len: 50", "multimodal: {}"), "multimodal is not known here"),
        (("question_len: 50", "output_len: 50"), "output_len is there twice"),
        (("question_len: 50", "question_len: *x"), "aliases are not read"),
        (("question_len: 50", "question_len: !!python/name:os.system"), "not YAML: could not determine a constructor"),
        (("question_len: 50", "question_len: [1"), "not YAML"),
        (("rate: 2", "rate: 0.1"), ""),
    ],
)
def test_wrong_configs_are_one_line(write, change, said):
    path = write("c.yaml", PERF.replace(*change))
    if said:
        assert said in refused(read_trace, path)
    else:
        assert len(read_trace(path)) == 2  # the first stage has none


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
        ("a,b\n1,2\n", "the format is not recognised: its first line is a, b; name it as one of: azure"),
    ],
)
def test_wrong_tables_are_one_line(write, content, said):
    path = write("t.csv", content)
    error = refused(read_trace, path)
    assert said in error and error.startswith(path)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"timestamp": 1, "input_length": 5, "output_length": 5}', "hash_ids is missing; it must be a list"),
        ('{"timestamp": "1", "input_length": 5, "output_length": 5, "hash_ids": []}', "timestamp is '1'"),
        ('{"timestamp": NaN, "input_length": 5, "output_length": 5, "hash_ids": []}', "timestamp is nan"),
        ('{"timestamp": 1, "input_length": 5.5, "output_length": 5, "hash_ids": []}', "input_length is 5.5"),
        ('{"timestamp": 1, "input_length": 5, "output_length": true, "hash_ids": []}', "output_length is True"),
        ('{"timestamp": 9e9, "input_length": 5, "output_length": 0, "hash_ids": []}', "output_length is 0"),
        ('{"timestamp": 9e9, "input_length": 512, "output_length": 1, "hash_ids": [1, 2]}', "hash_ids has 2 blocks"),
        ('{"timestamp": 9e9, "input_length": 512, "output_length": 1, "hash_ids": ["a"]}', "hash_ids holds 'a'"),
        ('{"timestamp": 1, "input_length": 5, "output_length": 5, "hash_ids": []}', "before the row above it, 29482"),
        ("[1]", "it must be a JSON object"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_wrong_mooncake_lines_are_one_line(write, line, said):
    error = refused(read_trace, write("m.jsonl", f"{MOONCAKE}\n{line}\n"))
    assert said in error and "row 6" in error


@pytest.mark.parametrize(
    ("header", "change", "said"),
    [
        (BLIS_HEADER.replace("2\n", "1\n"), ("", ""), "trace_version is 1; it must be one of 2, 3"),
        (BLIS_HEADER.replace("microseconds", "ms"), ("", ""), "time_unit is 'ms'"),
        (BLIS_HEADER, ("timeout", "timedout"), "row 5: status is 'timedout'; did you mean timeout"),
        (BLIS_HEADER, ("1500000,", "x,"), "row 3: arrival_time_us is 'x'; it must be a whole number"),
        (BLIS_HEADER, (",ok,", ",error,"), "none of its 4 requests has the status ok"),
        (BLIS_HEADER, ("prefix_length", "prefix_len"), "column prefix_length is missing"),
        (BLIS_HEADER + "x: &a 1\ny: *a\n", ("", ""), "aliases are not read"),
    ],
)
def test_wrong_blis_traces_are_one_line(write, header, change, said):
    write("t.yaml", header)
    assert said in refused(read_trace, write("t.csv", BLIS.replace(*change) if change[0] else BLIS))


def test_blis_needs_its_header_and_measures_only_real_runs(write):
    path = write("t.csv", BLIS)
    assert "its header is missing" in refused(read_trace, path)
    write("t.yaml", BLIS_HEADER.replace("real", "generated"))
    assert "mode is generated; only a real run is measured" in refused(read_measured, path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ttfts": [0.5]}, "ttfts has 1 values; there are 3 requests"),
        ({"ttfts": [0.5, 0.0, -1.0]}, "ttfts[2] is -1.0; it must be a finite number of at least 0"),
        ({"itls": [[0.1, math.nan], [], []]}, "itls: 0[1] is nan"),
        ({"itls": [0.1, [], []]}, "itls[0] is 0.1; it must be a list"),
        ({"input_lens": [0, 50, 200]}, "request 0: input_lens is 0"),
        ({"errors": ["a", "b", "c"]}, "none of its 3 requests has output tokens"),
        ({"request_rate": -1}, "request_rate is -1"),
        ({"max_concurrency": 0}, "max_concurrency is 0"),
        ({"start_times": None, "request_rate": "trace"}, "when requests were sent is not in the file"),
    ],
)
def test_wrong_results_are_one_line(write, change, said):
    assert said in refused(read_measured, write("r.json", {**VLLM, **change}))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"prompt_tokens": None}, "successful[1]: prompt_tokens is None; it must be a whole number"),
        ({"prompt_tokens": 0}, "successful[1]: prompt_tokens is 0"),
        ({"start_time": "now"}, "successful[1]: start_time is 'now'"),
        ({"request_latency": -1.0}, "request_latency is -1.0"),
    ],
)
def test_wrong_reports_are_one_line(write, change, said):
    report = json.loads(json.dumps(GUIDE))
    report["benchmarks"][0]["requests"]["successful"][1].update(change)
    assert said in refused(read_measured, write("r.json", report))


def test_empty_reports_are_one_line(write):
    assert "there is no benchmark in it" in refused(read_trace, write("a.json", {"benchmarks": []}), "guidellm")
    none = {"benchmarks": [{"requests": {"successful": []}}]}
    assert "no request was successful" in refused(read_trace, write("b.json", none))


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
    assert "the format is not recognised: it has a" in refused(read_trace, write("a.json", {"a": 1}))
    assert "not JSON" in refused(read_trace, write("b.json", "nothing"))
    assert "span picks a part" in refused(read_trace, write("a.csv", VIDUR), span=(0.0, 1.0))
    (tmp_path / "b.csv").write_bytes(b"arrived_at,num_prefill_tokens,num_decode_tokens\n\xff,1,1\n")
    assert "UTF-8" in refused(read_trace, str(tmp_path / "b.csv"))


def test_yaml_without_its_package_says_how_to_get_it(write, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "yaml", None)
    assert "pip install 'jaxroof[traces]'" in refused(read_trace, write("c.yaml", PERF))


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
    assert all(hasattr(module, "read") and looks for module, looks in FORMATS.values())

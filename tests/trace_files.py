"""Tiny files in the formats of other tools, for tests that read them."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

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
TURNS = "\n".join(
    json.dumps({"input_length": 1100, "output_length": 9} | record)
    for record in (
        {"session_id": "a", "timestamp": 1000, "hash_ids": [1, 2, 3]},
        {"session_id": "a", "delay": 50.5, "tool_wait_ms": 9, "hash_ids": [1, 2, 4]},
        {"request_id": "r", "timestamp": 1200, "prefix_reset": True, "hash_ids": [1, 5]},
        {"request_id": "s", "wait_for": ["r"], "delay": 5, "hash_ids": [1, 5, 6]},
        {"chat_id": 7, "parent_chat_id": -1, "timestamp": 1300},
        {"chat_id": 8, "parent_chat_id": 7, "timestamp": 1400},
    )
)
"""Mooncake's form with turns that wait for answers."""

CALLS = "\n".join(
    json.dumps(record)
    for record in (
        {
            "session_id": "task",
            "arrival_time_ns": 4_000_000,
            "sub_requests": [
                {"input_toks": 20, "output_toks": 3, "tool_duration_ns": 200_000_000, "input_tok_ids": [*range(20)]},
                {"input_toks": 40, "output_toks": 5, "tool_duration_ns": 0, "input_tok_ids": [*range(40)]},
            ],
        },
        {"input_toks": 128, "output_toks": 512, "arrival_time_ns": 104_000_000},
    )
)
STEPS = "\n".join(
    json.dumps(
        {
            "session_id": "a",
            "input_tokens_total": total,
            "prefix_tokens": prefix,
            "output_tokens": 20,
            "timing_events": [
                {"event_type": "user_message", "timestamp": f"2026-01-01T00:00:{second}.5Z"},
                {"event_type": "text", "timestamp": f"2026-01-01T00:00:{second + 1}Z"},
            ],
        }
    )
    for total, prefix, second in ((100, 64, 10), (160, 112, 20), (90, 30, 30))
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


def written(folder: Path, name: str, content) -> str:
    """The path of a file with that text, or with that value as JSON."""
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def columns(stream) -> list[list[float]]:
    """arrival, isl, osl, group and shared as lists."""
    return [np.round(getattr(stream, name), 9).tolist() for name in ("arrival", "isl", "osl", "group", "shared")]


def refused(read, *arguments, **options) -> str:
    """The one line with which `read` refuses."""
    with pytest.raises(ValueError, match=".") as error:
        read(*arguments, **options)
    assert "\n" not in str(error.value)
    return str(error.value)

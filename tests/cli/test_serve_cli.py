"""`jaxroof serve`: a report in words and in JSON, its files and picture, and one line for what cannot be."""

import json
import re

import pytest
import xarray as xr

from sweeps.cli import main
from sweeps.show.serving_run import serving_run
from tests.commands import refused

pytestmark = [pytest.mark.xdist_group("serve"), pytest.mark.usefixtures("standard_promotion")]

PLACE = ("serve", "--hardware", "H100-SXM", "--model", "Llama-3.1-8B", "--policy", "token_budget=1024")
PLACE += ("--policy", "max_sequences=16")
OPEN = (*PLACE, "--rate", "300", "--isl", "uniform:100..900", "--osl", "uniform:1..60", "--requests", "48")
TRACE = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
    f"2023-11-16 18:15:{i // 10:02d}.{i % 10}000000,{100 + 10 * i},{1 + i}\n" for i in range(60)
)


def printed(capsys, *words):
    status = main([*(str(word) for word in words), "-v"])
    out, err = capsys.readouterr()
    assert status == 0 and all(line.endswith(" of 48 requests") for line in err.splitlines())  # progress, when slow
    return out


def test_a_report_in_words_with_its_files(capsys, tmp_path):
    names = [tmp_path / name for name in ("run.nc", "run.json", "run.png")]
    files = ("-o", names[0], "--chrome-trace", names[1], "--plot", names[2])
    lines = printed(capsys, *OPEN, "--slo", "ttft=300ms,tpot=40ms", *files).splitlines()
    assert lines[0].startswith("Llama-3.1-8B on 1 x H100-SXM: 48 requests at ") and "tokens on average" in lines[0]
    assert lines[2].startswith("policy of vllm: mixed, fcfs, token_budget 1,024, max_sequences 16")
    cells = [line.split() for line in lines]
    heads = {cell[0]: cell for cell in cells if cell}
    assert heads["latency"][1:6] == ["mean", "p50", "p90", "p95", "p99"]
    assert {"TTFT", "TPOT", "ITL", "E2E", "queueing", "goodput", "utilization", "kv_use_max", "slo"} <= set(heads)
    assert "status  48 finished" in lines
    assert any(re.match(r"memory  KV cache for 4\d\d,\d+ tokens in 2\d,\d+ blocks of 16", line) for line in lines)
    assert lines[-3:] == [f"file    {name}" for name in names]
    assert sorted(tmp_path.iterdir()) == sorted(names)
    with xr.open_dataset(names[0]) as data:
        assert data.sizes["request"] == 48 and json.loads(data.slo) == {"ttft": 0.3, "tpot": 0.04}
        made = serving_run(data)
    titles = [axes.get_title(loc="left") for axes in made.axes]
    assert titles[:4] == [
        "How long requests take",
        "Requests in the engine",
        "Tokens per step and KV cache in use",
        "Time per output token",
    ]
    legends = [[text.get_text() for text in axes.get_legend().get_texts()] for axes in made.axes[:4]]
    assert legends[0] == ["TTFT", "TTFT limit, 300 ms", "E2E"] and legends[1] == ["running", "waiting"]
    assert legends[3] == ["a request", "limit, 40 ms"]
    assert all(low < high for axes in made.axes for low, high in (axes.get_xlim(), axes.get_ylim()))
    assert "traceEvents" in json.loads(names[1].read_text())
    assert names[2].stat().st_size > 30_000


def test_json_holds_finite_numbers(capsys):
    found = json.loads(printed(capsys, *OPEN, "--slo", "ttft=1us", "--json"), parse_constant=pytest.fail)
    assert found["engine"] == "vllm@0.24" and found["policy"]["order"] == "mixed" and found["requests"] == 48
    metrics = found["metrics"]
    assert metrics["finished"] == 48 and metrics["goodput"] == 0
    assert metrics["ttft_p50"] <= metrics["ttft_p90"] <= metrics["ttft_p99"] < metrics["e2e_p99"]
    assert set(found["units"]) == set(metrics)
    assert found["nearest"]["missed"] == ["ttft"] and found["nearest"]["limits"] == {"ttft": 1e-6}


def test_limits_that_some_keep_and_that_none_keeps(capsys):
    def said(slo):
        return [line for line in printed(capsys, *OPEN, "--slo", slo).splitlines() if line.startswith("slo")]

    # requests of one token have no TPOT, and keep its limit
    some = said("tpot=1us,ttft=10s")
    assert len(some) == 1 and "% of the requests keep it" in some[0]
    none = said("ttft=1ms")
    assert none[0] == "slo     TTFT <= 1 ms: no request keeps it"
    assert "nearest: request" in none[1] and "median: TTFT" in none[2]


def test_a_trace_and_its_first_requests(capsys, tmp_path):
    path = tmp_path / "azure.csv"
    path.write_text(TRACE)
    words = (*PLACE, "--trace", path, "--requests", "48", "--rate", "300", "--json")
    found = json.loads(printed(capsys, *words))
    assert found["load"]["text"].startswith("48 requests at 300 per second")
    assert found["metrics"]["finished"] == 48
    assert any("the first 48 of 60 requests" in note for note in found["notes"])
    path.write_text(TRACE.replace(",100,1", ",-100,1"))
    assert f"{path}" in refused(capsys, *words)


def test_clients_in_a_closed_loop(capsys):
    words = ("--concurrency", "4", "--isl", "500", "--osl", "20", "--requests", "48", "--json")
    found = json.loads(printed(capsys, *PLACE, *words))
    assert found["load"]["closed_loop"] == {"clients": 4, "think": 0.0}
    assert found["metrics"]["finished"] == 48 and found["metrics"]["batch_max"] <= 4


def test_several_routers_are_a_table_a_record_a_dataset_and_a_picture(capsys, tmp_path):
    words = (*OPEN, "--dp", "2", "--router", "round_robin,least_requests", "--slo", "ttft=1s")
    names = [tmp_path / name for name in ("run.nc", "run.png")]
    lines = printed(capsys, *words, "-o", names[0], "--plot", names[1]).splitlines()
    rows = {line.split()[0]: line.split() for line in lines if line}
    assert rows["router"][1:4] == ["HBM", "again", "new"] and rows["router"][-3:] == ["tokens/s", "load", "good"]
    assert rows["round_robin"][1:7] == ["0.0", "%", "0.0", "%", "100.0", "%"] and rows["least_requests"][-1] == "%"
    assert "good: requests that keep TTFT <= 1 s" in lines and "status  48 finished" in lines
    assert lines[-2:] == [f"file    {name}" for name in names]
    with xr.open_dataset(names[0]) as data:
        assert data.sizes["router"] == 2 and data.ttft.dims == ("router", "request") and data.sizes["request"] == 48
    found = json.loads(printed(capsys, *words, "--json"), parse_constant=pytest.fail)
    assert list(found["routers"]) == ["round_robin", "least_requests"] and found["requests"] == 48
    one = found["routers"]["round_robin"]
    assert one["prompt_shares"] == {"hbm": 0.0, "again": 0.0, "new": 1.0} and len(one["replica_loads"]) == 2
    assert set(found["units"]) == set(one["metrics"])


@pytest.mark.parametrize(
    "words, message",
    [
        (("serve",), "--hardware is missing"),
        (PLACE, "the load is missing"),
        ((*OPEN, "--rate", "9"), "argument --rate: given twice"),
        ((*OPEN, "--policy", "token_budget"), "--policy 'token_budget' must be NAME=VALUE"),
        ((*OPEN, "--policy", "max_sequences=8"), "--policy max_sequences is given twice: 16 and 8"),
        ((*OPEN, "--policy", "order=best"), "policy.order = 'best' must be mixed"),
        ((*OPEN, "--policy", "swap=1"), "policy.swap = 1 needs policy.swap_time"),
        ((*OPEN, "--slo", "ttft=fast"), "slo ttft = 'fast'"),
        ((*OPEN, "--engine", "tgi"), "engine = 'tgi' is not known"),
        ((*OPEN, "--tp", "3"), "tp"),
        ((*OPEN, "-o", "run.csv"), "-o run.csv must end in .nc"),
        ((*OPEN, "--plot", "/nowhere/run.png"), "--plot /nowhere/run.png: there is no folder /nowhere"),
        ((*OPEN, "--chrome-trace", "x.nc"), "--chrome-trace x.nc must end in .json"),
        (
            (*OPEN, "--router", "slo,random", "--dp", "2", "--chrome-trace", "x.json"),
            "--chrome-trace is of one simulation",
        ),
        ((*OPEN, "--router", "slo,random"), "before one replica all routers are alike; dp says how many"),
        ((*OPEN, "--set", "workload.isl=5"), "use --isl"),
        ((*OPEN, "--model-x", "5"), "--model-x is not an argument here"),
    ],
)
def test_wrong_input_is_one_line(capsys, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    assert message in refused(capsys, *words)
    assert not list(tmp_path.iterdir())

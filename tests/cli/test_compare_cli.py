"""`jaxroof compare`: what it prints and writes, and the one line with which it refuses."""

import csv
import functools
import importlib
import json
import subprocess
import sys

import pytest
import xarray as xr

from hwspaces.files.output import KINDS
from tests import commands
from tests.commands import refused

WORDS = ("compare", "--static", "--model", "Llama-3.1-8B", "--isl", "512", "--osl", "64")
SMALL = (*WORDS, "--hardware", "H100-SXM,L20", "--devices", "1,2", "--batch", "1,64", "--prices", "reserved_3y")
"""Of the two, only one is reserved for three years."""


printed = functools.partial(commands.printed, progress=True)


def test_a_ranking_says_what_was_tried_what_is_best_and_why_others_are_not(capsys):
    out = printed(capsys, *SMALL)
    lines = out.splitlines()
    assert lines[0] == "Llama-3.1-8B: requests of 512 + 64 tokens"
    assert lines[2].startswith("sorted by usd_per_million_tokens, lowest first (default: 1 of 2")
    assert "no price: L20" in lines
    ranks = [line.split()[:4] for line in lines if line.split()[1:2] == ["H100-SXM"]]
    assert next((rank, devices) for rank, _, devices, _ in ranks)[0] == "1" and len(ranks) == 2
    assert any(line.startswith("tried   2 of 2 accelerators x 3 layouts x 2 batches = 12 points in ") for line in lines)
    assert any(line.startswith(f"best    {ranks[0][2]} x H100-SXM as tp") for line in lines)


def test_the_heading_says_what_every_point_was_computed_with(capsys, monkeypatch, tmp_path):
    """Without a flag it is the default, whatever that is, of the dataset's record too."""
    monkeypatch.setattr(importlib.import_module("hwspaces.performance.efficiency"), "DEFAULT", "datasheet")
    points = tmp_path / "points.nc"
    lines = printed(capsys, *SMALL, "--slo", "ttft=1s,tokens_per_second=100", "--kv", "fp8", "-o", points).splitlines()
    assert lines[0] == "Llama-3.1-8B: requests of 512 + 64 tokens, TTFT <= 1 s, tokens_per_second >= 100"
    assert lines[1] == "weights bf16 (torch_dtype), KV cache fp8, efficiency datasheet"
    with xr.open_dataset(points) as dataset:
        assert dataset.attrs["entries"].startswith("efficiency: datasheet,")


def test_all_shows_every_layout_and_top_the_first_rows(capsys):
    out = printed(capsys, *SMALL, "--all", "--sort", "tpot", "--top", "4")
    assert "... and 2 more; --top 6 shows them" in out
    assert "sorted by tpot, lowest first (asked for)" in out


def test_json_is_one_object_that_agrees_with_the_files(capsys, tmp_path):
    table, points = tmp_path / "rows.csv", tmp_path / "points.nc"
    found = json.loads(printed(capsys, *SMALL, "--json", "-o", table), parse_constant=pytest.fail)
    assert found["sorted_by"] == "usd_per_million_tokens" and found["higher_is_better"] is False
    assert found["tried"]["points"] == 12 and found["tried"]["accelerators"] == 2
    assert [row["rank"] for row in found["rows"]] == [1, 2]
    assert [(row["hardware"], row["reason"]) for row in found["infeasible"]] == [("L20", "no price")]
    assert found["infeasible"][0]["usd_per_million_tokens"] is None
    with open(table, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["rank"] for row in rows] == ["1", "2", ""]
    assert float(rows[0]["ttft"]) == found["rows"][0]["ttft"]
    printed(capsys, *SMALL, "-o", points)
    with xr.open_dataset(points) as dataset:
        first = found["rows"][0]
        place = {"hardware": first["hardware"], "deployment": first["layout"], "batch": first["batch"]}
        assert float(dataset["ttft"].sel(place)) == first["ttft"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["points.nc", "rows.csv"]
    assert KINDS["rows"].recognised(table) and KINDS["dataset"].recognised(points)


def test_a_picture_is_drawn(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "best.png"
    assert f"{path}: the best rows" in printed(capsys, *SMALL, "--sort", "tokens_per_second", "-o", path)
    assert path.read_bytes()[:4] == b"\x89PNG" and path.stat().st_size > 10_000


def test_nothing_feasible_is_an_answer_with_reasons(capsys):
    out = printed(capsys, *SMALL, "--slo", "ttft=1us", "--sort", "tpot")
    assert "nothing is feasible" in out and out.count("misses 1 us") == 2
    out = printed(capsys, *WORDS, "--hardware", "A100-SXM-80GB", "--weights", "w4a8")
    (line,) = (line for line in out.splitlines() if line.startswith("no matrix peak for fp8; it has bf16, fp16, int8"))
    assert line.endswith(": A100-SXM-80GB")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--sort", "usd_per_million_token"), "there is no metric usd_per_million_token; did you mean usd_per_million"),
        (("--hardware", "H100-SXM,H20O-SXM"), "or H200-SXM"),
        (("--slo", "tfft=1s"), "did you mean ttft"),
        (("--batch", "1,x"), "--batch = 'x'"),
        (("--devices", "1.5"), "--devices = '1.5' must be a whole number"),
        (("--devices", "1", "--max-devices", "2"), "give one"),
        (("-o", "rows.txt"), "rows.txt must end in .nc, .csv, .json, .png or .svg"),
        (("-o", "nowhere/rows.csv"), "there is no folder nowhere"),
        (("--weights", "fp9"), "fp9"),
        (("--set", "hardware.memory.hbm.bandwith=8TB/s"), "did you mean"),
    ],
)
def test_mistakes_are_refused_in_one_line(capsys, words, expected):
    assert expected in refused(capsys, *WORDS, *words)


def test_a_missing_flag_is_named(capsys):
    assert "--osl is missing" in refused(capsys, *WORDS[:-2])


def test_help_does_not_wait_for_jax():
    code = (
        "import sys\n"
        "from sweeps.cli import main\n"
        "try:\n"
        "    main(['compare', '--help'])\n"
        "except SystemExit:\n"
        "    pass\n"
        "sys.exit('jax' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "--slo" in done.stdout


SERVED = ("compare", "--model", "Llama-3.1-8B", "--isl", "256", "--osl", "32")
FEW = ("--hardware", "H100-SXM,A30", "--devices", "1", "--simulate", "0")
LIMITS = ("--slo", "ttft=500ms,tpot=15ms")


def test_a_served_ranking_says_what_is_asked_what_binds_and_why_others_are_missing(capsys):
    lines = printed(capsys, *SERVED, *FEW, *LIMITS).splitlines()
    assert lines[0] == (
        "Llama-3.1-8B: requests of 256 + 32 tokens, TTFT <= 500 ms, TPOT <= 15 ms for 95 % of the requests"
    )
    assert lines[1] == "weights bf16 (torch_dtype), engine vllm 0.24 (newest with evidence), efficiency derated"
    assert lines[2].startswith("sorted by usd_per_million_tokens, lowest first (default: 2 of 2 accelerators have")
    (row,) = (line.split() for line in lines if line.split()[:2] == ["1", "H100-SXM"] and "estimate" in line)
    assert row[2:4] == ["1", "tp1"]
    (why,) = (line for line in lines if line.startswith("A30 "))
    assert " misses 15 ms with a single request at a time" in why
    assert any(line.startswith("tried   estimate of 4 candidates in ") for line in lines)
    assert any(line.startswith("best    1 x H100-SXM as tp1: ") for line in lines)


def test_json_has_the_fields_of_a_row_and_what_simulates_it(capsys):
    found = json.loads(
        printed(capsys, *SERVED, *FEW, "--slo", "ttft.p99=1s,tpot.mean=15ms", "--rate", "300", "--json"),
        parse_constant=pytest.fail,
    )
    assert found["question"]["slo"] == "ttft_p99=1s,tpot_mean=15ms"
    assert (found["question"]["rate"], found["question"]["headroom"]) == (300.0, 0.1)
    assert found["tried"]["places"] == 4 and found["tried"]["simulations"] == 0
    assert found["sorted_by"] == "usd_per_million_tokens" and found["higher_is_better"] is False
    (row,) = found["rows"]
    assert (row["rank"], row["hardware"], row["layout"], row["simulated"]) == (1, "H100-SXM", "tp1", False)
    assert row["replicas"] * row["load"] >= 330.0 > (row["replicas"] - 1) * row["load"]
    assert row["interval_90"][0] < row["usd_per_million_tokens"] < row["interval_90"][1]
    assert row["spec"]["hardware"] == "H100-SXM" and "slo" not in row["spec"]
    assert row["spec"]["rate"] == pytest.approx(300.0 / row["replicas"])
    assert [one["hardware"] for one in found["infeasible"]] == ["A30"]
    assert found["units"]["tpot_mean"] == "s"


def test_served_files_are_written_and_known_again(capsys, tmp_path):
    for ending, kind in ((".json", "answer"), (".nc", "dataset"), (".csv", "rows")):
        path = tmp_path / f"found{ending}"
        assert f"{path}: " in printed(capsys, *SERVED, *FEW, *LIMITS, "-o", path)
        assert KINDS[kind].recognised(path)
        printed(capsys, *SERVED, *FEW, *LIMITS, "-o", path)  # its own file is replaced
        path.write_text("precious")
        assert "is there already, and jaxroof did not write it" in refused(capsys, *SERVED, *FEW, *LIMITS, "-o", path)
        assert path.read_text() == "precious"
    assert len(list(tmp_path.iterdir())) == 3


def test_a_served_comparison_is_drawn(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "best.png"
    assert f"{path}: the best rows" in printed(capsys, *SERVED, *FEW, *LIMITS, "-o", path)
    assert path.read_bytes()[:4] == b"\x89PNG" and path.stat().st_size > 10_000
    nothing = ("--hardware", "A30", "--devices", "1", "--simulate", "0", *LIMITS, "-o", tmp_path / "none.png")
    assert "there is nothing to draw" in refused(capsys, *SERVED, *nothing)
    assert not (tmp_path / "none.png").exists()


def test_nothing_that_serves_is_an_answer(capsys):
    out = printed(capsys, *SERVED, "--slo", "tpot=1us", "--hardware", "H100-SXM", "--devices", "1", "--simulate", "0")
    assert "nothing serves the requests within the limits" in out and " misses 1 us" in out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "--slo is missing"),
        ((*LIMITS, "--batch", "8"), "--batch needs --static"),
        ((*LIMITS, "--headroom", "0.2"), "--headroom needs --rate"),
        ((*LIMITS, "--rate", "0"), "--rate = '0' must be a positive"),
        ((*LIMITS, "--engine", "tgi"), "engine = 'tgi' is not known; known: vllm, sglang, trtllm"),
        ((*LIMITS, "--sort", "tpot"), "sort = 'tpot' is not known; known: usd_per_million_tokens"),
        ((*LIMITS, "--policy", "token_budgets=1"), "there is no policy.token_budgets"),
        ((*LIMITS, "--policy", "token_budget=many"), "policy.token_budget = 'many'"),
        ((*LIMITS, "--kv", "bf16,fp9"), "kv = 'fp9'"),
        ((*LIMITS, "--prices", "monthly"), "prices = 'monthly'"),
        ((*LIMITS, "--simulate", "-1"), "--simulate = '-1'"),
        ((*LIMITS, "--drafts", "x"), "--drafts = 'x'"),
        ((*LIMITS, "--devices", "1", "--max-devices", "2"), "give one"),
        ((*LIMITS, "--share", "2"), "share = '2'"),
        (("--slo", "ttft.p98=1s"), "ttft_p98"),
        (("--static", "--rate", "3"), "--rate cannot be given with --static"),
        (("--static", "-o", "rows.json"), "rows.json must end in .nc, .csv, .png or .svg with --static"),
    ],
    ids=lambda each: each if isinstance(each, str) else " ".join(each),
)
def test_mistakes_of_served_comparisons_are_one_line(capsys, words, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert expected in refused(capsys, *SERVED, *words)
    assert not list(tmp_path.iterdir())


def test_a_row_has_the_same_advice_among_the_best_and_among_all(capsys):
    """`--all` and `--top` change which rows there are, not what would help one of them."""
    asked = (*SERVED, "--hardware", "H100-SXM", "--devices", "1,2", "--simulate", "0", *LIMITS, "--json")
    best, every, first = (
        {(row["layout"], row["setting"]): row["change"] for row in json.loads(printed(capsys, *asked, *more))["rows"]}
        for more in ((), ("--all",), ("--all", "--top", "2"))
    )
    assert len(every) > len(best) and any(every.values())
    assert {key: every[key] for key in (*best, *first)} == best | first

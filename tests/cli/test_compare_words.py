"""`sweeps.compare` and `jaxroof compare`: the same words, rows and errors."""

import argparse
import csv
import inspect
import json
import math
from pathlib import Path

import numpy as np
import pytest

import sweeps
from sweeps.ask.flag_text import flag_text
from sweeps.cli import compare as verb
from sweeps.studies.compare.words import WORDS
from tests.commands import printed, refused

ASKED = {"model": "Llama-3.1-8B", "slo": "ttft=1s,tpot=30ms", "isl": 512, "osl": 64, "efficiency": "derated"}

ESTIMATED = ASKED | {"simulate": 0, "disaggregated": False, "devices": 1}

OF_THE_COMMAND = {"help", "read_as", "static", "batch", "emit", "top", "all", "output", "force", "json"}
"""Flags that say what is written, or ask another question; `--as` is part of the model's name."""


def flags(words: dict) -> list[str]:
    """The command of plain Python values, written down by hand: numbers as they are, several with commas."""
    found = ["compare"]
    for name, value in words.items():
        flag = f"--{name.replace('_', '-')}"
        if name == "disaggregated":
            found += [] if value else ["--no-disaggregated"]
        elif name in ("policy", "set"):
            for key, several in value.items():
                found += [flag, f"{key}={','.join(map(str, several)) if isinstance(several, list) else several}"]
        elif isinstance(value, dict):
            found += [flag, ",".join(f"{key}={limit}{'s' if name == 'slo' else ''}" for key, limit in value.items())]
        elif value is True:
            found.append(flag)
        else:
            found += [flag, ",".join(map(str, value)) if isinstance(value, list) else str(value)]
    return found


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "requests.csv"
    with open(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["arrival", "prompt", "output"])
        rows.writerows([place / 4, 200 + 40 * (place % 9), 20 + place % 13] for place in range(60))
    return str(path)


QUESTIONS = {
    "one accelerator": ESTIMATED | {"hardware": "H100-SXM"},
    "several, with what is missing": ESTIMATED
    | {"hardware": ["H100-SXM", "T4", "A30", "L20"], "devices": None, "max_devices": 4},
    "weights and caches": ESTIMATED | {"hardware": ["H100-SXM"], "weights": ["bf16", "fp8"], "kv": ["bf16", "fp8"]},
    "pools": ESTIMATED | {"hardware": ["H100-SXM", "A100-SXM-80GB"], "devices": [1, 2], "disaggregated": True},
    "a rate": ESTIMATED | {"hardware": ["H100-SXM"], "rate": 40, "headroom": 0.2, "node": 4, "prices": "spot"},
    "no headroom": ESTIMATED | {"hardware": ["H100-SXM"], "rate": 12.5, "headroom": 0, "sort": "usd_per_hour"},
    "limits of the run": ESTIMATED | {"hardware": ["H100-SXM"], "slo": {"ttft.p99": 0.5, "tpot": 0.025}, "share": 0.9},
    "settings": ESTIMATED
    | {"hardware": ["H100-SXM"], "policy": {"token_budget": [1024, 4096], "max_sequences": 64}}
    | {"set": {"hardware.price": "2USD/h"}, "adapters": {"rank": 16, "loaded": 8}, "engine": "sglang"},
    "drafts": ESTIMATED
    | {"hardware": "H100-SXM", "draft": "Llama-3.2-1B", "drafts": [0, 3], "policy": {"acceptance": 0.7}},
    "prefixes": ESTIMATED | {"hardware": "H100-SXM", "hit_rate": 0.5, "osl": "uniform:16,64", "seed": 3},
    "prompts alone": ESTIMATED | {"hardware": "H100-SXM", "slo": "ttft=1s", "osl": 1},
    "classes": ESTIMATED
    | {"hardware": "H100-SXM", "traffic": "sweeps/specs/chat.toml", "slo": None, "isl": None, "osl": None},
}


def same(capsys, words: dict, progress: bool = False) -> dict:
    """Everything that the command prints with --json, which has to be what the function returns."""
    given = {name: value for name, value in words.items() if value is not None}
    shown = json.loads(printed(capsys, *flags(given), "--json", progress=progress), parse_constant=pytest.fail)
    del shown["command"]
    found = sweeps.compare(**words).record()
    for record in (shown, found):
        record["tried"] = {name: count for name, count in record["tried"].items() if not name.endswith("seconds")}
    assert found == shown
    return found


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_has_the_rows_of_the_command(capsys, name):
    found = same(capsys, QUESTIONS[name])
    assert found["rows"] and all(row["simulated"] is False for row in found["rows"])


def test_simulated_rows_of_a_trace_are_those_of_the_command(capsys, trace, cache):
    """Every number of the simulations too; the trace has columns of its own, and rows of any order."""
    words = {**ESTIMATED, "isl": None, "osl": None, "hardware": "H100-SXM", "simulate": 1}
    words |= {"trace": trace, "columns": "arrival=arrival,prompt=prompt,output=output", "drop": True, "requests": 50}
    found = same(capsys, words, progress=True)
    assert found["tried"]["simulations"] > 0 and {row["simulated"] for row in found["rows"]} == {True}


def test_texts_of_flags_and_numbers_of_numpy_ask_the_same():
    words = {"hardware": "H100-SXM, L20", "devices": "1,2", "policy": ["token_budget=1024,4096", "max_sequences=64"]}
    texts = ESTIMATED | {"isl": "512", "simulate": "0", "rate": "40", "set": "hardware.price=2USD/h"} | words
    plain = {
        "hardware": ("H100-SXM", "L20"),
        "devices": np.arange(1, 3),
        "rate": np.float32(40.0),
        "isl": np.int64(512),
    }
    plain |= {"policy": {"token_budget": "1024,4096", "max_sequences": [64]}, "set": {"hardware.price": "2USD/h"}}
    found, expected = (sweeps.compare(**asked).record() for asked in (ESTIMATED | plain, texts))
    assert found["rows"] == expected["rows"] and len(found["rows"]) == 4 and found["question"] == expected["question"]


def test_values_are_written_as_flags_take_them():
    written = {8.0: "8", 0.1: "0.1", 2.0**60: "1.152921504606847e+18", 10**20: "100000000000000000000"}
    assert {value: flag_text(value) for value in written} == written
    assert (flag_text(0.5, "s"), flag_text(3, "1/s"), flag_text(math.inf), flag_text(True)) == (
        "0.5s",
        "3",
        "inf",
        True,
    )
    assert flag_text({"rank": 16, "targets": ["q", "v"]}) == "rank=16,targets=q,v"
    assert flag_text((Path("a.toml"), "b")) == "a.toml,b" and flag_text(None) is None


MISTAKES = [
    {"slo": None},
    {"slo": "tfft=1s"},
    {"slo": {"ttft": -1}},
    {"share": 2},
    {"rate": 0},
    {"rate": "many"},
    {"headroom": 0.2},
    {"rate": 3, "headroom": -1},
    {"hardware": ["H100-SXM", "H20O-SXM"]},
    {"devices": [1, 1.5]},
    {"devices": 0},
    {"max_devices": 2},
    {"max_devices": "x", "devices": None},
    {"weights": ["bf16", "fp9"]},
    {"kv": ["fp9"]},
    {"engine": "tgi"},
    {"policy": {"token_budgets": 1}},
    {"policy": {"token_budget": "many"}},
    {"drafts": 2},
    {"drafts": -1},
    {"draft": "Llama-3.2-1B"},
    {"adapters": {"rank": 0}},
    {"prices": "monthly"},
    {"node": 1.5},
    {"simulate": -1},
    {"sort": "tpot"},
    {"set": {"workload.isl": 8}},
    {"set": {"deployment.tp": 2}},
    {"set": {"hardware.memory.hbm.bandwith": "8TB/s"}},
    {"isl": 0},
    {"hit_rate": 1.5},
    {"requests": 0},
    {"duration": "5"},
    {"batch": 8},
]


@pytest.mark.parametrize("words", MISTAKES, ids=str)
def test_mistakes_have_the_line_of_the_command(capsys, words):
    """With the argument's name where the command names its flag."""
    asked = {name: value for name, value in (ESTIMATED | {"hardware": "H100-SXM"} | words).items() if value is not None}
    line = refused(capsys, *flags(asked)).removeprefix("jaxroof compare: ").strip()
    for name in sorted((*WORDS, "batch"), key=len, reverse=True):
        line = line.replace(f"--{name.replace('_', '-')}", name)
    with pytest.raises(ValueError) as caught:
        sweeps.compare(**{"slo": None, **asked})
    assert str(caught.value).replace("--set hardware", "set hardware") == line.replace(
        "--static", "sweeps.compare_static"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"policy": 5}, "policy = 5 must be a table of values by name, or NAME=VALUE, such as token_budget=2048"),
        ({"policy": "token_budget"}, "policy 'token_budget' must be NAME=VALUE"),
        ({"set": ["a=1", "a=2"]}, "set a is given twice: 1 and 2"),
        ({"kv": []}, "kv is empty; give at least one"),
        ({"disaggregated": "no"}, "disaggregated = 'no' must be True or False"),
        ({"devices": True}, "devices = True is not a number"),
        ({"model": None}, "model is missing"),
        ({"concurrency": 4}, "there is no key concurrency"),
        ({"hit_rates": 0.5}, "there is no key hit_rates; did you mean hit_rate"),
    ],
    ids=str,
)
def test_what_no_flag_can_say_is_one_line(words, said):
    with pytest.raises(ValueError) as caught:
        sweeps.compare(**ESTIMATED | {"hardware": "H100-SXM"} | words)
    assert str(caught.value).startswith(said) and "\n" not in str(caught.value)


def test_the_function_has_the_flags_of_the_command():
    parser = argparse.ArgumentParser()
    verb.arguments(parser)
    names = {action.dest.removeprefix("no_") for action in parser._actions} - OF_THE_COMMAND
    assert names == set(inspect.signature(sweeps.compare).parameters) - {"begun"} == set(WORDS)

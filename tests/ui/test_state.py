"""State of the explorer: its URL, its command and its Python say the same, and its answer is that of `request`."""

import argparse
import json
import shlex
import statistics
import time

import hypothesis
import hypothesis.strategies as st
import pytest

import hwspaces
import workloads
from sweeps.cli import main, request
from sweeps.ui.answer import FIGURES, curve, record
from sweeps.ui.offer import Offer
from sweeps.ui.state import CONTROLS, DEFAULT, FACTOR, MOST, State, case_of, command, figures, snippet, words
from sweeps.ui.url import query_of, state_of

STATES = {
    "default": DEFAULT,
    "scaled": State(hbm_bandwidth=1.37, hbm_capacity=2.0, matrix=0.5, link=4.0),
    "experts": State(model="DeepSeek-V3", tp=1, attention_dp=8, ep=8, devices=16, batch=100, kv="fp8"),
    "engine": State(hardware="B200-SXM", model="gpt-oss-120b", tp=2, pp=2, engine="sglang", isl=777, osl=99),
    "weights": State(hardware="L40S", model="Llama-3.1-8B", tp=1, weights="w4a16", batch=1),
    "one token": State(osl=1),
}

counts = st.integers(1, MOST)
factors = st.floats(1 / FACTOR, FACTOR)
any_state = st.builds(
    State,
    **{name: factors if one.kind == "factor" else counts for name, one in CONTROLS.items() if one.slider},
    **dict.fromkeys(("tp", "pp", "ep", "attention_dp"), counts),
    devices=st.none() | counts,
    hardware=st.sampled_from(hwspaces.names()),
    model=st.sampled_from(workloads.names()),
    kv=st.sampled_from(CONTROLS["kv"].choices()),
    weights=st.text("abcdefgh0123456789_-", max_size=8),
    engine=st.sampled_from(("", "vllm", "vllm@0.11", "sglang")),
)


PLAIN = Offer()


def asked(state: State) -> dict:
    return words(state, figures(state))


@hypothesis.given(any_state)
def test_a_url_gives_its_state_again(state):
    assert state_of(query_of(state), PLAIN) == state
    # On every page, whatever that one opens with.
    other = Offer(start=State(hardware="T4", model="OPT-13B", tp=1))
    assert state_of(f"?{query_of(state)}", other) == state


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_the_command_asks_for_the_same_case(state):
    said = shlex.split(command(asked(state)))
    assert said[:2] == ["jaxroof", "request"]
    parser = argparse.ArgumentParser()
    request.arguments(parser)
    assert request.request_case(parser.parse_args(said[2:])).scenario == case_of(asked(state)).scenario


@pytest.mark.parametrize("state", [STATES["scaled"], STATES["experts"]], ids=["scaled", "experts"])
def test_command_and_python_give_the_numbers_that_are_shown(state, capsys):
    shown = record(state)
    assert main(shlex.split(shown["command"])[1:] + ["--json"]) == 0
    printed = json.loads(capsys.readouterr().out)["metrics"]
    names: dict = {}
    exec(shown["python"], names)
    for figure in shown["figures"]:
        assert printed[figure["name"]] == names["found"].metrics[figure["name"]] == figure["value"]
    # What it prints are the three figures that it names.
    assert len(capsys.readouterr().out.split()) == 3


def test_factors_change_the_figures_that_they_are_of():
    base, found = record(DEFAULT)["metrics"], {}
    for name in ("hbm_bandwidth", "hbm_capacity", "matrix", "link"):
        metrics = record(State(**{name: 2.0}))["metrics"]
        found[name] = {key for key in ("ttft", "tpot", "kv_capacity_tokens") if metrics[key] != base[key]}
    assert found["hbm_capacity"] == {"kv_capacity_tokens"}
    assert "tpot" in found["hbm_bandwidth"] and "ttft" in found["matrix"] and "ttft" in found["link"]
    # The page says the figure, and the command has it.
    scaled = record(State(hbm_bandwidth=2.0))
    assert scaled["scaled"]["hbm_bandwidth"] == "9.6 TB/s"
    assert scaled["command"].count("--set hardware.memory.hbm.bandwidth=9.6TB/s") == 1


def test_intervals_hold_the_figures():
    shown = {figure["name"]: figure for figure in record(DEFAULT)["figures"]}
    assert list(shown) == list(FIGURES)
    for figure in shown.values():
        low, high = figure["ends"]
        assert low < figure["value"] < high
    # Rate and price err as the latency does: the ratios of their ends are those of the end-to-end latency.
    rate, price = (shown[name]["ends"] for name in ("tokens_per_second_per_device", "usd_per_million_tokens"))
    assert rate[1] / rate[0] == pytest.approx(price[1] / price[0])


def test_the_curve_goes_through_the_figures():
    state = State(batch=24)
    shown, points = record(state)["metrics"], curve(state)
    assert points["batch"][points["own"]] == 24.0
    assert points["tpot"][points["own"]] == pytest.approx(shown["tpot"], rel=1e-12)
    assert points["rate"][points["own"]] == pytest.approx(shown["tokens_per_second_per_device"], rel=1e-12)
    # More requests at once take longer each, and some do not fit.
    assert points["tpot"] == sorted(points["tpot"])
    assert points["fits"][0] and not points["fits"][-1]


def test_what_does_not_fit_is_said_and_what_has_no_price_or_decoding_is_left_out():
    crowded = record(State(tp=1))
    assert not crowded["fits"] and crowded["memory"].startswith("does not fit: weights 141 GB of 151 GB")
    figures = {figure["name"]: figure["text"] for figure in record(STATES["one token"])["figures"]}
    assert "tpot" not in figures and record(STATES["one token"])["steps"].keys() == {"prefill"}
    unpriced = record(State(hardware="WSE-2", model="Llama-3.1-8B", tp=1, weights="fp16"))
    assert unpriced["figures"][-1]["text"] == "no price"


@pytest.mark.parametrize(
    "query, line",
    [
        ("tpp=2", "'tpp' is not a control; did you mean tp"),
        ("tp=2&tp=4", "tp is given twice"),
        ("tp=0", "tp = '0' must be a whole number from 1 to 1,000,000,000"),
        ("batch=1e9", "batch = '1e9' must be a whole number"),
        ("batch=" + "9" * 5000, "must be a whole number"),
        ("matrix=nan", "matrix = 'nan' must be a number from 0.0625 to 16"),
        ("hardware=H20", "hardware = 'H20' is not in the list; did you mean"),
        ("model=/etc/passwd", "model = '/etc/passwd' is not in the list"),
        ("devices=6", "devices = 6 must be a multiple of 4, those of a replica (tp 4 x pp 1 x attention_dp 1)"),
        ("weights=rubbish", "weights is 'rubbish'; it must be one of"),
        ("tp=3", "tp"),
    ],
)
def test_bad_values_are_one_line(query, line):
    with pytest.raises(ValueError) as refused:
        record(state_of(query, PLAIN))
    assert line in str(refused.value) and "\n" not in str(refused.value)


def test_time_of_an_answer(capsys):
    """Printed, not bounded: it is the machine's."""
    record(DEFAULT)
    spent = []
    for change in range(50):
        begun = time.perf_counter()
        record(State(hbm_bandwidth=1.0 + 0.01 * change))
        spent.append(time.perf_counter() - begun)
    with capsys.disabled():
        print(f"\nexplorer: median of {len(spent)} changes {1e3 * statistics.median(spent):.0f} ms")


def test_python_is_what_a_person_would_write():
    assert snippet(asked(DEFAULT)).splitlines()[2:8] == [
        "found = sweeps.request(",
        '    hardware="H200-SXM",',
        '    model="Llama-3.1-70B",',
        '    deployment={"tp": 4},',
        '    workload={"batch": 16, "isl": 2048, "osl": 256},',
        ")",
    ]

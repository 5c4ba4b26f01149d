"""Prices on the command line: what tables and JSON say of them, and `--prices` of every verb that takes it."""

import functools
import json

import pytest

import hwspaces
from tests import commands
from tests.commands import refused
from tests.hwspaces.test_prices import NEVER_SOLD, UNKNOWN_PRICE

CASE = ("--model", "Llama-3.1-8B", "--isl", "128", "--osl", "16")
COMPARE = ("compare", *CASE, "--static", "--batch", "1,8", "--devices", "1")


printed = functools.partial(commands.printed, progress=True)


@pytest.fixture
def contract(tmp_path):
    path = tmp_path / "contract.toml"
    path.write_text('H100 = "1.5 USD/h"\n')
    return str(path)


def test_the_catalogue_says_what_every_price_is(capsys):
    lines = printed(capsys, "hardware").splitlines()
    rows = {line.split()[0]: line.split() for line in lines[2:] if line.split()[:1]}
    assert rows["H100-SXM"][-3:] == ["3.99", "2026-10", "neocloud"]
    assert rows["VR200"][-1] == "estimate" and rows["TPU-v5e"][-3:] == ["1.2", "2026-08", "hyperscaler"]
    records = json.loads(printed(capsys, "hardware", "--json"))
    assert len(records) == len(hwspaces.names())
    assert rows["Raspberry-Pi-5"][-1] == "bought" and rows["TPU-v1"][-3:] == ["-", "-", "-"]
    for record in records:
        if record["name"] in NEVER_SOLD | UNKNOWN_PRICE:
            assert record["price_usd_per_hour"] is None and record["offers"] == []
            continue
        assert record["price_usd_per_hour"] > 0 and record["price_kind"] and record["price_source"]
        assert record["price_date"] and record["price_seller"] and record["offers"]


def test_one_accelerator_shows_every_offer(capsys):
    out = printed(capsys, "hardware", "H100-SXM")
    assert "price   3.99 USD/h (on demand, neocloud, median of 8, 2026-10-10)" in out
    assert "        2.99 USD/h (reserved for 1 year, neocloud, median of 2, 2026-09-19)" in out
    (row,) = (line for line in out.splitlines() if "CoreWeave" in line and line.startswith("on demand"))
    assert row.split()[2:5] == ["6.155", "CoreWeave", "neocloud"]
    record = json.loads(printed(capsys, "hardware", "H100-SXM", "--json"))
    assert {(offer["seller"], offer["usd"]) for offer in record["offers"]} > {("CoreWeave", 6.155), ("Lambda", 3.99)}


def test_other_terms_and_own_prices_of_the_catalogue(capsys, contract):
    year = json.loads(printed(capsys, "hardware", "H100-SXM", "--prices", "reserved-1y", "--json"))
    assert year["price_usd_per_hour"] == pytest.approx(2.99) and year["price_kind"].startswith("reserved for 1 year")
    own = json.loads(printed(capsys, "hardware", "H100-SXM", "--prices", contract, "--json"))
    assert own["price_usd_per_hour"] == pytest.approx(1.5) and own["price_kind"] == f"given in {contract}"
    assert own["figures"]["price"] == pytest.approx(1.5 / 3600)
    unsold = printed(capsys, "hardware", "VR200", "--prices", "spot")
    assert "price unknown" in unsold and "8.86 USD/h (estimate" in unsold


def test_an_accelerator_of_ones_own_has_no_offers(capsys, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        "[accelerator.H100-SXM]\nmatrix.bf16_TFLOPs = 500\nvector.fp32_TFLOPs = 25\ncores.count = 100\n"
        "memory.hbm.capacity_GiB = 96\nmemory.hbm.bandwidth_TBps = 4\n"
    )
    record = json.loads(printed(capsys, "hardware", path, "--json"))
    assert record["price_usd_per_hour"] is None and record["offers"] == []
    assert "price unknown" in printed(capsys, "hardware", path)


def test_a_ranking_by_own_prices(capsys, contract):
    """By hand: at 1.5 instead of 3.99 USD/h the same row costs 1.5 / 3.99 of it, and the other rows what they did."""
    words = (*COMPARE, "--hardware", "H100-SXM,A100-SXM-80GB")
    usual, own = (json.loads(printed(capsys, *words, *flags, "--json")) for flags in ((), ("--prices", contract)))
    before, after = (
        {row["hardware"]: row["usd_per_million_tokens"] for row in found["rows"]} for found in (usual, own)
    )
    assert after["H100-SXM"] == pytest.approx(before["H100-SXM"] * 1.5 / 3.99, rel=1e-5)
    assert after["A100-SXM-80GB"] == before["A100-SXM-80GB"]
    assert usual["prices"]["H100-SXM"]["price_kind"] == "on demand, neocloud, median of 8"
    assert own["prices"]["H100-SXM"]["price_kind"] == f"given in {contract}"
    lines = printed(capsys, *words, "--prices", contract).splitlines()
    assert f"price   H100-SXM: 1.5 USD/h (given in {contract})" in lines


def test_an_estimated_price_is_marked_in_a_ranking(capsys):
    lines = printed(capsys, *COMPARE, "--hardware", "B100-SXM,H100-SXM").splitlines()
    rows = [line.split()[1:3] for line in lines if line.split()[:1] in (["1"], ["2"])]
    assert sorted(rows) == [["B100-SXM", "~"], ["H100-SXM", "1"]]
    assert "~ at an estimated price: nobody sells it, as far as is known" in lines
    assert "price   B100-SXM: 5.06 USD/h (estimate, 2026-10-10)" in lines


@pytest.mark.parametrize("metric", ["gco2_per_million_tokens", "joules_per_token", "usd_per_million_tokens"])
def test_rankings_by_money_energy_and_emissions(capsys, metric):
    found = json.loads(printed(capsys, *COMPARE, "--hardware", "H100-SXM,L20,A10", "--sort", metric, "--json"))
    values = [row[metric] for row in found["rows"]]
    assert len(values) == 3 and values == sorted(values) and values[0] > 0 and not found["higher_is_better"]


def test_emissions_of_a_clean_grid(capsys):
    words = ("request", "--hardware", "H100-SXM", *CASE, "--json")
    usual, clean = (
        json.loads(printed(capsys, *words, *flags))["metrics"]["gco2_per_million_tokens"]
        for flags in ((), ("--set", "hardware.costs.grid_intensity=48.1gCO2/kWh"))
    )
    assert clean == pytest.approx(usual / 10, rel=1e-5)


def test_a_specification_names_its_prices(tmp_path, contract):
    import sweeps

    given = {"hardware": "H100-SXM", "model": "Llama-3.1-8B", "workload": {"isl": 128, "osl": 16}}
    usual, own = (float(sweeps.sweep(given | more).usd_per_million_tokens) for more in ({}, {"prices": contract}))
    assert own == pytest.approx(usual * 1.5 / 3.99, rel=1e-5)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("hardware", "--prices", "reserved"),
            "prices = 'reserved' is neither a .toml file nor terms; did you mean res",
        ),
        (("hardware", "H100", "--prices", "none.toml"), "none.toml"),
        ((*COMPARE, "--hardware", "H100-SXM", "--prices", "cheap"), "prices = 'cheap' is neither"),
        (("request", "--hardware", "H100-SXM", *CASE, "--prices", "cheap"), "prices = 'cheap' is neither"),
    ],
)
def test_mistakes_are_refused_in_one_line(capsys, words, said):
    assert said in refused(capsys, *words)


def test_a_mistake_in_a_file_is_refused_in_one_line(capsys, tmp_path):
    path = tmp_path / "contract.toml"
    path.write_text('H100 = "0 USD/h"\n')
    assert f"{path}: H100 = '0 USD/h' must be a positive" in refused(capsys, "hardware", "--prices", path)

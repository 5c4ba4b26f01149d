"""`jaxroof fleet`: the answer in words, in JSON and as a picture, and the one line with which it refuses."""

import json
import math

import pytest

import hwspaces
from sweeps.cli import main
from sweeps.entries.comparisons import compare
from sweeps.studies.fleet.options import options

TRAFFIC = """
headroom = 0.1

[accelerators.H100-SXM]
price = "2USD/h"
available = 2

[accelerators.A100-SXM-80GB]
price = "1.5USD/h"

[accelerators.T4]
price = "0.3USD/h"

[classes.chat]
model = "Llama-3.1-8B"
isl = 1024
osl = 256
slo = "ttft=1s,tpot=30ms"
rate = 30

[classes.code]
model = "Llama-2-13B"
isl = "uniform:1000..3000"
osl = 100
slo = "ttft=2s,tpot=40ms"
day = { mean = 5, peak_hour = 14, peak_to_mean = 1.5 }
"""


@pytest.fixture
def traffic(tmp_path):
    path = tmp_path / "traffic.toml"
    path.write_text(TRAFFIC)
    return path


def test_the_answer_in_words_and_as_a_picture(traffic, tmp_path, capsys):
    picture = tmp_path / "day.png"
    assert main(["fleet", str(traffic), "--hours", "-o", str(picture), "-v"]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert err == "" and lines[0].startswith(
        "2 models, 2 classes: 3,024,000 requests a day, 37.5 per second at the peak"
    )
    assert any(line.startswith("H100-SXM") for line in lines) and any(line.startswith("14:00") for line in lines)
    assert any(line.startswith("cost    ") and line.endswith("no fleet costs less") for line in lines)
    assert any(line.startswith("more    10 % more chat costs ") for line in lines)
    assert any(line.startswith("left out T4: cannot serve chat: no matrix peak for bf16") for line in lines)
    assert picture.read_bytes().startswith(b"\x89PNG") and lines[-1] == str(picture)


def test_json_serves_every_hour_at_the_cost_of_its_devices(traffic, capsys):
    assert main(["fleet", str(traffic), "--json", "--no-marginals"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert found["goal"] == "least cost" and found["marginal"] is None
    prices = {"H100-SXM": 2.0, "A100-SXM-80GB": 1.5, "T4": 0.3}
    cost = sum(one["rented"] * prices[one["hardware"]] * 8766 for one in found["accelerators"])
    assert found["cost_usd_per_year"] == pytest.approx(cost)
    for one in found["classes"]:
        for load, room in zip(one["load"], one["capacity"], strict=True):
            assert room >= 1.1 * load * (1.0 - 2e-5)
        share = sum(row["share_of_requests"] for row in one["replicas"])
        assert share == pytest.approx(1.0)
        assert all(row["spec"]["model"] == one["model"] for row in one["replicas"])
    for hour in range(24):
        for one in found["accelerators"]:
            assert one["in_use"][hour] <= one["rented"]


def test_a_budget_serves_a_part(traffic, capsys):
    assert main(["fleet", str(traffic), "--budget", "30kUSD/year", "-v"]) == 0
    out = capsys.readouterr().out
    assert "serves  " in out and "everything would cost" in out and "10 % more budget serves" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--budget", "2MUSD"], "budget = '2MUSD' has the unit 'MUSD'"),
        (["--gap", "-1"], "--gap"),
        (["--seconds", "3"], "--seconds = '3' has no unit"),
    ],
)
def test_refusals_are_one_line(words, said, traffic, capsys):
    assert main(["fleet", str(traffic), *words]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith("jaxroof fleet: ") and said in err


def test_a_bad_file_is_named(tmp_path, capsys):
    path = tmp_path / "bad.toml"
    path.write_text(TRAFFIC.replace("tpot=40ms", "tpott=40ms"))
    assert main(["fleet", str(path)]) == 2
    assert f"{path}: class code: slo: there is no limit tpott" in capsys.readouterr().err
    assert main(["fleet", str(tmp_path / "none.toml")]) == 2
    assert "none.toml: no such file" in capsys.readouterr().err


def test_options_are_the_rows_of_the_comparison():
    """Requests/s of a replica are the largest load that it takes within the limits."""
    found = options("Llama-3.1-8B", "1024", "256", "ttft=1s", ["H100-SXM", "T4"], max_devices=2)
    asked = {"isl": "1024", "osl": "256", "hardware": ["H100-SXM"], "max_devices": 2, "simulate": 0}
    rates = {
        row.layout: row.metrics["load"] for row in compare("Llama-3.1-8B", "ttft=1s", disaggregated=False, **asked).rows
    }
    assert {one.layout: one.requests_per_second for one in found.options} == pytest.approx(rates)
    assert all(0 < one.power <= 1.001 * hwspaces.hardware("H100-SXM").hardware.power.tdp for one in found.options)
    assert all(math.prod(one.spec["deployment"].values()) == one.devices for one in found.options)
    assert found.left_out.keys() == {"T4"}

"""Whole servers: what replicas, pools and fleets are charged for, by hand."""

import dataclasses

import numpy as np
import pytest

import hwspaces
from hwspaces.accelerators.prices import charged_devices, rented_devices, server_devices, servers, servers_text
from sweeps.cli import main
from sweeps.entries.comparisons import compare
from sweeps.run.simulated.spec import serve_spec
from sweeps.serving.fleet import fleet
from sweeps.serving.run import setup
from sweeps.studies.fleet.question import question
from tests.commands import refused

KEYS = {"isl": 1024, "osl": 256, "efficiency": "derated", "simulate": 0, "hardware": ["H100-SXM"], "prices": "spot"}
SLO = "ttft=1s,tpot=30ms"


def test_servers_are_of_the_catalogue():
    assert set(servers()) <= set(hwspaces.names())
    assert [server_devices(name) for name in ("H100-SXM", "MI300X", "GB200", "L40S", "GH200-96GB")] == [8, 8, 4, 1, 1]
    assert server_devices("a chip of one's own") == 1


@pytest.mark.parametrize(
    ("used", "server", "charged"),
    [(1, 8, 1), (2, 8, 2), (3, 8, 4), (5, 8, 8), (8, 8, 8), (12, 8, 16), (16, 8, 16), (3, 1, 3), (3, 4, 4), (1, 4, 1)],
)
def test_a_replica_is_charged_its_part_of_whole_servers(used, server, charged):
    assert charged_devices(used, server) == charged


def test_replicas_together_take_whole_servers():
    # 3 x 3 of servers of 8: two in a server, two servers. 7 x 1: one server. 9 x 1: two. 1 x 12: two.
    counts = ((3, 3), (7, 1), (9, 1), (1, 12))
    assert [rented_devices(charged_devices(used, 8), replicas, 8) for replicas, used in counts] == [16, 8, 16, 16]


def rows(**keys):
    """Estimated rows of one replica's figures by layout."""
    return {row.layout: row for row in compare("Llama-3.1-8B", SLO, disaggregated=False, **KEYS | keys).rows}


def test_a_comparison_charges_whole_servers():
    whole, alone = rows(devices=[1, 3]), rows(devices=[1, 3], node=1)
    price, cost = "usd_per_hour", "usd_per_million_tokens"
    assert whole["tp1"].metrics == pytest.approx(alone["tp1"].metrics, nan_ok=True)
    three, plain = whole["tp1 pp3"], alone["tp1 pp3"]
    assert three.metrics[cost] == pytest.approx(plain.metrics[cost] * 4 / 3)  # two replicas of 3 fill a server of 8
    assert three.metrics["rented_devices"] == 4 and three.spec["deployment"]["charged"] == 4
    assert "charged" not in plain.spec["deployment"] and plain.metrics["rented_devices"] == 3
    load = plain.metrics["load"]
    asked = rows(devices=[3], rate=2.5 * load, headroom=0.0)["tp1 pp3"]  # three replicas on two servers
    hourly = plain.metrics[price] / 3
    assert (asked.replicas, asked.metrics["rented_devices"]) == (3, 16)
    assert asked.metrics[price] == pytest.approx(16 * hourly)
    assert asked.metrics[cost] == pytest.approx(16 * hourly / 3600.0 / (2.5 * load * 256) * 1e6)
    assert asked.spec["deployment"]["charged"] == pytest.approx(16 / 3)


def test_pools_are_charged_whole_servers():
    keys = {"disaggregated": True, "max_devices": 8, "rate": 100.0}
    found = compare("Llama-3.1-8B", SLO, **KEYS | keys).rows
    pools = [row for row in found if row.prefill is not None]
    assert pools and all(row.metrics["rented_devices"] % 8 == 0 for row in pools)
    assert all(row.metrics["rented_devices"] >= row.metrics["devices"] for row in found)
    for row in pools:  # a share of the servers for every device of either pool
        share = row.metrics["rented_devices"] / row.metrics["devices"]
        for deployment in (row.spec["deployment"], row.prefill["deployment"]):
            used = deployment["tp"] * deployment.get("pp", 1)
            assert deployment.get("charged", used) == pytest.approx(share * used)


def test_a_fleet_rents_whole_servers():
    class_ = {"model": "Llama-3.1-8B", "isl": 9, "osl": 9, "slo": "ttft=1s", "rate": 1}
    asked = {"classes": {"one": class_}, "accelerators": {"H100-SXM": {}, "L40S": {}, "H200-SXM": {"machine": 2}}}
    assert [one.machine for one in question(asked).supplies] == [8, 1, 2]
    assert [one.machine for one in question(asked, node=1).supplies] == [1, 1, 2]


def test_a_place_of_a_capacity_search_is_charged_whole_servers():
    asked = serve_spec(hardware="-", model="Llama-3.1-8B", isl=9, osl=9, deployment={"pp": 3}, efficiency="derated")
    keys = {"tp": 1, "hardware": ["H100-SXM", "L40S"]}
    whole, alone = fleet(asked, **keys).places
    assert [(one.devices, one.server, one.rented_devices) for one in (whole, alone)] == [(3, 8, 4.0), (3, 1, 3.0)]
    price = whole.case.scenario.hardware.price
    assert whole.price == pytest.approx(4.0 * price)
    own, other = (fleet(asked, node=node, **keys).places[0] for node in (1, 16))
    assert own.price == pytest.approx(3.0 * price) and other.price == pytest.approx(16 / 5 * price)
    told = dataclasses.replace(asked, deployment={"pp": 3, "charged": 6})
    assert fleet(told, **keys).places[0].price == pytest.approx(6.0 * price)


@pytest.mark.parametrize(
    ("used", "server", "words"),
    [
        (1, 8, "8 replicas of 1 device share a server of 8: each is charged 1 device"),
        (3, 8, "2 replicas of 3 devices share a server of 8: each is charged 4 devices"),
        (3, 16, "5 replicas of 3 devices share a server of 16: each is charged 3.2 devices"),
        (5, 8, "a replica of 5 devices takes a server of 8: charged 8 devices"),
        (12, 8, "a replica of 12 devices takes 2 servers of 8: charged 16 devices"),
    ],
)
def test_servers_in_words(used, server, words):
    assert servers_text(used, server) == words


def test_serve_says_where_whole_servers_cost_more():
    def notes(**deployment):
        keys = {"hardware": "H100-SXM", "model": "Llama-3.1-8B", "efficiency": "derated", "isl": 9, "osl": 9, "rate": 1}
        said = setup(serve_spec(**keys, requests=2, deployment=deployment)).notes
        return [note for note in said if "whole servers" in note]

    words = f"cost is of the devices in use; whole servers cost 1.33 times it: {servers_text(3, 8)}"
    assert notes(pp=3) == [words]
    assert notes(tp=2) == notes(pp=3, charged=4) == []


@pytest.mark.parametrize("verb", ["compare", "capacity", "fleet"])
@pytest.mark.parametrize("node", ["0", "1.5", "1000000"])
def test_servers_of_no_size_are_refused(capsys, tmp_path, verb, node):
    words = ("--model", "Llama-3.1-8B", "--isl", 9, "--osl", 9, "--slo", "ttft=1s", "--hardware", "H100-SXM")
    if verb == "fleet":
        (path := tmp_path / "asked.toml").write_text(
            '[classes.one]\nmodel = "Llama-3.1-8B"\nisl = 9\nosl = 9\nslo = "ttft=1s"\nrate = 1\n'
            "[accelerators.H100-SXM]\n"
        )
        words = (path,)
    assert "node" in refused(capsys, verb, *words, "--node", node)


def test_the_report_says_servers(capsys):
    words = ["--model", "Llama-3.1-8B", "--isl", "1024", "--osl", "256", "--slo", SLO, "--hardware", "H100-SXM"]
    more = ["--devices", "1", "--simulate", "0", "--no-disaggregated", "--rate", "50", "--efficiency", "derated"]
    assert main(["compare", *words, *more, "-v"]) == 0
    assert "on 1 server of 8" in capsys.readouterr().out
    assert np.isfinite(charged_devices(np.array([1.0, 3.0]), 8.0)).all()

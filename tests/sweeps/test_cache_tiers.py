"""Tiers of the KV cache from a user's text, by hand, and the hosts of accelerators."""

import dataclasses

import numpy as np
import pytest

import hwspaces
from hwspaces.accelerators.hosts import hosts
from hwspaces.accelerators.prices import servers
from sweeps.ask.cases import case
from sweeps.run.simulated.tiers import LATENCY, cache_tiers, tier_rules

ALL = "host=1TB,ssd=8TB,remote=100TB"


def tiers(text=ALL, hardware="H100-SXM", deployment=None, overrides=None, node=None):
    asked = case(
        "serve",
        hardware,
        "Llama-3.1-70B",
        workload={},
        deployment=deployment or {"tp": 4},
        overrides=overrides or {},
        check=False,
    )
    return cache_tiers(text, asked.hardware, asked.scenario.model, asked.scenario.deployment, 16, node)


def test_an_engine_loads_with_all_its_devices_and_has_its_part_of_a_server():
    # Llama-3.1-70B: 80 layers x 2 x 8 heads x 128 x 2 B = 327,680 B per token, a quarter on each of 4 devices.
    host, ssd, remote = tiers()
    assert (host.name, ssd.name, remote.name) == ("host", "ssd", "remote")
    # PCIe 5: 63 GB/s per device. 8 drives of 6.9 GB/s for 8 devices. A NIC of 400 Gbit/s per device.
    bandwidths = [tier.bandwidth * 81920 for tier in (host, ssd, remote)]
    np.testing.assert_allclose(bandwidths, [63e9, 8 * 6.9e9 / 8, 50e9])
    # 4 of 8 devices have half of a server's 1 TB and 8 TB; the store is all engines'. Blocks of 16 tokens.
    assert [tier.blocks for tier in (host, ssd, remote)] == [int(b / 327680 / 16) for b in (0.5e12, 4e12, 100e12)]
    assert [tier.latency for tier in (host, ssd, remote)] == list(LATENCY.values())
    assert [tier.shared for tier in (host, ssd, remote)] == [False, False, True]
    assert "PCI Express 5.0" in host.source and "DGX H100" in ssd.source


def test_heads_that_every_device_has_are_loaded_by_each_and_kept_once():
    # 8 heads on 16 devices: each loads an eighth, and the engine has two servers.
    (host,) = tiers("host=1TB", deployment={"tp": 16})
    np.testing.assert_allclose(host.bandwidth, 63e9 / (327680 / 8))
    assert host.blocks == int(2e12 / 327680 / 16)


def test_figures_of_the_hardware_come_first():
    given = {"hardware.memory.host.bandwidth": "100GB/s", "hardware.memory.host.capacity": "128GB"}
    (host,) = tiers("host=1TB", overrides=given)
    np.testing.assert_allclose(host.bandwidth * 81920, 100e9)
    (cards,) = tiers("host=1TB", node=4)
    assert cards.blocks == int(1e12 / 327680 / 16)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hosts=1TB", "there is no tier 'hosts'.*host.*write such as host=1TB,ssd=8TB,remote=100TB"),
        ("", "there is no tier ''"),
        ("host", "host has no capacity"),
        ("host=1TB,host=2TB", "host stands twice"),
        ("host=1", "tiers: host = '1' has no unit; write one, such as"),
        ("host=-1TB", "tiers: host = '-1TB' must be a positive"),
    ],
)
def test_words_that_are_no_tiers(text, said):
    with pytest.raises(ValueError, match=said):
        tiers(text)


def test_a_host_that_nobody_knows():
    with pytest.raises(ValueError, match=r"tiers: host of TPU-v5e: its bandwidth is unknown; give hardware\.memory"):
        tiers("host=1TB", hardware="TPU-v5e")
    with pytest.raises(ValueError, match=r"remote of L20: its bandwidth is unknown; give hardware\.links\.scale_out"):
        tiers("remote=1TB", hardware="L20")


def test_numbers_of_all_engines():
    two = [tiers("host=1TB,remote=1TB"), tiers("host=2TB,remote=1TB")]
    rules = tier_rules(two, write="back", eviction="fifo", overlap=0.5, known=True)
    assert rules.capacity.tolist() == [[tier.blocks for tier in each] for each in two]
    assert rules.through.tolist() == [[0.0, 0.0]] * 2 and rules.shared.tolist() == [[0.0, 1.0]] * 2
    assert rules.eviction.tolist() == [[1, 1]] * 2 and rules.overlap.tolist() == [0.5] * 2 and all(rules.known)
    with pytest.raises(ValueError, match="write = 'trough' must be back or through"):
        tier_rules(two, write="trough")
    with pytest.raises(ValueError, match="overlap = 2 must be a share from 0 to 1"):
        tier_rules(two, overlap=2)
    with pytest.raises(ValueError, match="all engines must have the same ones"):
        tier_rules([two[0], two[0][:1]])


def test_hosts_are_of_the_catalogue():
    known = hosts()
    assert set(known) <= set(hwspaces.names())
    for name, host in known.items():
        assert host.host_source and host.ssd_source and 1e9 < host.ssd_bandwidth < 100e9 < 1e12, name
        assert 0.2 < host.launch_speed <= 2.0 and bool(host.cpu) == bool(host.launch_source), name
        # A link to the host is slower than the device's own memory.
        assert 10e9 < host.host_bandwidth < hwspaces.hardware(name).hardware.memory.hbm.bandwidth, name
    # Servers of several NVIDIA or AMD devices have one, where the host has memory of its own.
    names = {name for name in servers() if hwspaces.hardware(name).vendor in ("NVIDIA", "AMD")}
    assert names - set(known) <= {"MI300A", "MI455X"}
    assert dataclasses.is_dataclass(tiers("host=1TB")[0])

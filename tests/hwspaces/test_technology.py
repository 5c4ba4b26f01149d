"""Constants of technologies: which there are, what each says of itself, and what wrong tables say."""

import pytest

import hwspaces
from hwspaces.accelerators.constants import KNOWN, technology_counts
from hwspaces.accelerators.technology_tables import KINDS
from tests.hwspaces.test_load_errors import refused, written
from tests.hwspaces.test_silicon import CHIP

VOLTAGE = """
[voltage.N7]
nominal_V = 0.75
threshold_V = 0.3
exponent = 1.3
least_V = 0.6
most_V = 1.05
speed = 0.87
leakage_W_per_mm2 = 0.037
leakage_growth_per_V = 3
"""
PACKAGE = "largest_die_mm2 = 858\ninterposer_mm2 = 1700\nedge_share = 0.9\npower_density_W_per_mm2 = 1\n"


def test_constants_of_a_kind():
    n5 = hwspaces.technology_constants("voltage", "N5")
    assert {key: one.unit for key, one in n5.items()} == KINDS["voltage"]
    assert (n5["nominal"].value, n5["leakage"].value) == (0.75, pytest.approx(0.037e6))
    assert n5["threshold"].assumed and not n5["speed"].assumed
    link = hwspaces.technology_constants("link", "NVLink4")
    assert link["shoreline"].value * 450e9 == pytest.approx(36 * 0.4e-3)  # 36 lanes of 0.4 mm
    assert link["latency"].value == pytest.approx(0.859e-6)
    moved = hwspaces.technology_constants("energy.memory", "HBM3e")["moved"]
    assert (moved.value, moved.unit) == (pytest.approx(71e-12), "J/B")


@pytest.mark.parametrize("name", ["N7", "N5", "4N", "N3", "N2"])
@pytest.mark.parametrize("kind", ["process", "voltage", "wafer", "energy.process"])
def test_processes_are_complete(kind, name):
    assert hwspaces.technology_constants(kind, name)


def test_a_process_has_several_names():
    for kind in ("process", "voltage", "wafer", "energy.process"):
        assert hwspaces.technology_constants(kind, "3nm") == hwspaces.technology_constants(kind, "N3")


def test_stacks_are_pins_times_rate():
    """Gbit/s per pin as JEDEC has them; a product's own rate may be lower."""
    rates = {"HBM2": 2.4, "HBM2e": 3.6, "HBM3": 6.4, "HBM3e": 9.6, "HBM4": 8.0, "GDDR7": 28.0, "LPDDR5X": 8.533}
    for name, rate in rates.items():
        stack = {key: one.value for key, one in hwspaces.technology_constants("stack", name).items()}
        assert stack["bandwidth"] * 8 / stack["pins"] == pytest.approx(rate * 1e9, rel=2e-3), name


def test_every_constant_has_a_source_and_the_counts_are_of_all():
    given, assumed = technology_counts()
    every = [
        one
        for kind in KNOWN
        for name in hwspaces.technology_names(kind)
        for one in hwspaces.technology_constants(kind, name).values()
    ]
    assert all(len(one.source) > 10 and one.value >= 0.0 for one in every)
    assert 0.2 * given < assumed < 0.6 * given < 0.6 * len(every)


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("procss", "N5", "did you mean process"),
        ("stack", "HBM5", "did you mean"),
        ("link", "NVLink9", "NVLink"),
        ("cooling", "fan", "known: slot, card, "),
        ("energy.process", "7 angstrom", "known: "),
    ],
)
def test_unknown_names_are_refused(kind, name, said):
    with pytest.raises(ValueError, match=said) as caught:
        hwspaces.technology_constants(kind, name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (VOLTAGE.replace("speed = 0.87\n", ""), ("voltage.N7", "speed is missing")),
        (VOLTAGE.replace("least_V = 0.6", "least_V = 0.8"), ("voltage.N7", "least = 0.8 must be at most nominal")),
        (VOLTAGE.replace("most_V = 1.05", "most = 1.05"), ("voltage.N7", "most", "most_V")),
        (VOLTAGE.replace("0.037", "-1"), ("leakage_W_per_mm2 = -1", "positive")),
        (f"[package.X]\n{PACKAGE.replace('0.9', '1.2')}", ("package.X", "edge_share = 1.2", "at most 1")),
        (f"[package.X]\n{PACKAGE.replace('_W_per_mm2', '_W')}", ("package.X", "power_density_W", "W_per_mm2")),
        ("[cooling.X]\nsource = 'mine'\n", ("cooling.X", "power is missing")),
    ],
)
def test_wrong_tables_are_refused(tmp_path, table, said):
    refused(written(tmp_path, CHIP + table), "my.toml", *said)


def test_wrong_shorelines_are_refused(tmp_path):
    tier = 'links.scale_up.technology = "X"\nlinks.scale_up.bandwidth_GBps = 9\nlinks.scale_up.devices = 8\n'
    for line, said in (("shoreline_mm = 1", "mm_per_GBps"), ("shoreline_mm_per_GBps = 0", "positive")):
        refused(written(tmp_path, f"{CHIP}{tier}[link.X]\nlatency_us = 1\n{line}\n"), "link.X", said)


@pytest.mark.parametrize(("process", "plain"), [("N3", "3nm"), ("N5+N6", "5nm"), ("N2", "2nm"), ("16nm+N7", "N16")])
def test_energies_are_those_of_the_process_under_any_name(tmp_path, process, plain):
    """Of the dies with cores, where there are two processes."""
    chips = [CHIP.replace('"7nm"', f'"{name}"') for name in (process, plain)]
    first, second = (hwspaces.hardware(written(tmp_path, chip)).hardware.energy for chip in chips)
    assert first == second and first is not None

"""Energies of the catalogue: who has them, how they are said in files, and what wrong ones say."""

import pytest

import hwspaces
from hwspaces.accelerators.energy import ASSUMPTION
from hwspaces.accelerators.load import catalogue_tables
from hwspaces.accelerators.technology_tables import FILES, common, file_tables

FILE = """
[accelerator.X]
process = "4N"
matrix.bf16_TFLOPs = 100
vector.fp32_TFLOPs = 10
cores.count = 10
memory.hbm.technology = "HBM3e"
memory.hbm.capacity_GB = 80
memory.hbm.bandwidth_TBps = 2
power.tdp_W = 300
"""


@pytest.fixture
def written(tmp_path):
    def write(more=""):
        path = tmp_path / "x.toml"
        path.write_text(FILE + more)
        return hwspaces.hardware(path)

    return write


def test_every_known_process_and_memory_has_energies():
    energy, tables = common().energy, catalogue_tables()
    for name, entry in hwspaces.catalogue().items():
        table = tables[name]
        known = "process" in table
        assert (entry.hardware.energy is not None) == known, name
        if not known:
            continue
        assert (
            table["process"].partition("+")[0] in energy.process
            and table["memory"]["hbm"]["technology"] in energy.memory
        )
        assert set(entry.hardware.energy.matrix) == set(entry.hardware.matrix)
        assert (entry.hardware.power.static is None) == (entry.hardware.power.tdp is None)
        assert all(entry.sources[path] for path in entry.figures if path.startswith("energy."))
        if entry.hardware.power.static is not None:
            assert any("power.static: assumption" in text for text in entry.assumptions), name


def test_a_device_at_full_rate_is_within_reach_of_its_limit():
    """At the dense peak and full bandwidth every device would draw between 0.6 and 3 times its TDP."""
    for name, entry in hwspaces.catalogue().items():
        hardware = entry.hardware
        if hardware.energy is None or hardware.power.tdp is None or not {"bf16", "fp16"} & set(hardware.matrix):
            continue
        wide = "bf16" if "bf16" in hardware.matrix else "fp16"
        power = hardware.power.static + hardware.matrix[wide] * hardware.energy.matrix[wide]
        power += hardware.memory.hbm.bandwidth * hardware.energy.hbm
        assert 0.6 < power / hardware.power.tdp < 3.0, (name, power / hardware.power.tdp)


def test_a_file_gets_the_energies_of_its_technologies_or_gives_its_own(written):
    assert written().hardware.energy.hbm == pytest.approx(71e-12)
    more = written('memory.l2.capacity_MiB = 10\n[energy.memory.HBM3e]\nmoved_pJ_per_B = 33\nsource = "mine"\n')
    assert (more.hardware.energy.hbm, more.sources["energy.hbm"]) == (pytest.approx(33e-12), "mine")
    own = written("[accelerator.X.energy]\nhbm_pJ_per_B = 30\nmatrix.bf16_pJ_per_FLOP = 0.4\n")
    assert own.hardware.energy.hbm == pytest.approx(30e-12)
    assert own.hardware.energy.matrix["bf16"] == pytest.approx(0.4e-12)
    assert written("power.static_W = 40\n").hardware.power.static == 40.0


def test_static_power_grows_with_tdp_as_far_as_air_cools(written):
    """0.52 of 300 W; and of 1000 W where the limit is 1400 W."""
    assert written().hardware.power.static == pytest.approx(156.0)
    assert hwspaces.hardware("MI355X").hardware.power.static == pytest.approx(520.0)


def test_only_systolic_arrays_save_by_being_wider_than_the_reference():
    """An SM of B200 has 8192 FLOP per clock: 4NP's 0.85 of 0.49 pJ. A core of TPU v4 counts as 16384: half of N7's."""
    assert hwspaces.hardware("B200-SXM").hardware.energy.matrix["bf16"] == pytest.approx(0.85 * 0.49e-12)
    assert hwspaces.hardware("TPU-v4").hardware.energy.matrix["bf16"] == pytest.approx(0.5 * 1.43 * 0.49e-12)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("[accelerator.X.energy]\nhbm_GBps = 30\n", "energy: hbm_GBps"),
        ("[accelerator.X.energy]\ndram_pJ_per_B = 30\n", "did you mean"),
        ("[energy.memory.HBM9]\nmoved_pJ_per_B = 1\n[energy.cache.L2]\nx = 1\n", "energy"),
    ],
)
def test_wrong_energies_are_refused(written, more, message):
    with pytest.raises(ValueError, match=message) as caught:
        written(more)
    assert "\n" not in str(caught.value)


def test_energies_can_be_set():
    entry = hwspaces.overridden(hwspaces.hardware("H200"), {"hardware.energy.hbm": "40 pJ/B", "power.static": "100 W"})
    assert (entry.hardware.energy.hbm, entry.hardware.power.static) == (pytest.approx(4e-11), 100.0)
    with pytest.raises(ValueError, match="energy also needs"):
        hwspaces.overridden(hwspaces.hardware("TPU-v5e"), {"energy.hbm": 1e-12})


def test_every_source_says_something():
    sources = {key: text for path in FILES for key, text in file_tables(path).get("source", {}).items()}
    assert all(len(text) > 20 for text in sources.values())
    assert any(text.startswith(ASSUMPTION) for text in sources.values())

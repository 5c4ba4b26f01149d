"""Silicon and costs of catalogue and user files: where they come from, what is refused, what stays unknown."""

import math

import pytest

import hwspaces
from hwspaces.accelerators.unbuilt import area_ends, area_note
from hwspaces.quantities.leaves import leaf_unit
from hwspaces.quantities.units import formatted, quantity
from jaxroof import die_area
from jaxroof.chip.area import dies
from tests.hwspaces.test_load_errors import refused, written

CHIP = """
[accelerator.MyChip]
matrix.bf16_TFLOPs = 500
vector.fp32_TFLOPs = 25
cores.count = 100
cores.clock_MHz = 1000
memory.hbm.technology = "HBM3"
memory.hbm.capacity_GiB = 96
memory.hbm.bandwidth_TBps = 3.2
process = "7nm"
"""


def test_process_and_memory_give_silicon_and_costs(tmp_path):
    """HBM3 at 819 GB/s and 24 GiB a stack: four; N7: 92.7 / 65.6 for logic, 0.027 / 0.021 for SRAM."""
    entry = hwspaces.hardware(written(tmp_path, CHIP))
    silicon, costs = entry.hardware.silicon, entry.hardware.costs
    assert silicon.core_process == silicon.shared_process
    assert silicon.core_process.logic == pytest.approx(98.3 / 1.06 / 65.6, rel=1e-3)
    assert silicon.core_process.sram == pytest.approx(27 / 21)
    assert (silicon.stack_bandwidth, silicon.stack_capacity) == (819e9, 24 * 2**30)
    assert (silicon.scale, silicon.layout, silicon.cores_used) == (1.0, 1.0, 1.0)
    assert (costs.wafer, costs.defects, costs.margin) == (9346.0, 900.0, 2.0)
    assert costs.life == 4 * 31557600.0
    assert any("no die named" in text for text in entry.assumptions)
    assert all(entry.sources[path].strip() for path in entry.figures)


def test_own_tables_come_first(tmp_path):
    text = CHIP + "silicon.layout = 1.5\nsilicon.areas.core_mm2 = 0.7\ncosts.wafer_USD = 12000\ncosts.board_USD = 0\n"
    text += "costs.memory_USD_per_GB = 8\ncosts.electricity_USD_per_kWh = 0.36\ncosts.life_year = 5\n"
    text += (
        '[process.N7]\nnames = ["7nm"]\ndensity_per_um2 = 92.7\nsram_cell_um2 = 0.042\nanalog = 2\nsource = "mine"\n'
    )
    entry = hwspaces.hardware(written(tmp_path, text))
    silicon, costs = entry.hardware.silicon, entry.hardware.costs
    assert (silicon.layout, silicon.areas.core) == (1.5, pytest.approx(0.7e-6))
    assert (silicon.core_process.logic, silicon.core_process.sram) == (pytest.approx(1.0), pytest.approx(2.0))
    assert (costs.wafer, costs.board, costs.memory) == (12000.0, 0.0, pytest.approx(8e-9))
    assert costs.electricity == pytest.approx(1e-7) and costs.life == 5 * 31557600.0
    assert entry.sources["silicon.core_process.analog"] == "mine"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("silicon.layout = -1", ("silicon: layout = -1", "positive")),
        ("costs.utilisation = 1.2", ("costs.utilisation = 1.2", "at most 1")),
        ("silicon.layout = 0", ("silicon: layout = 0", "positive")),
        ("silicon.largest_die_mm = 858", ("largest_die_mm", "largest_die_mm2")),
        ("silicon.areas.matrix = 3", ("silicon.areas: matrix = 3", "no unit")),
        ("silicon.areas.matrx_um2 = 3", ("matrx_um2", "matrix")),
        ("costs.wafer_mm2 = 3", ("costs: wafer_mm2", "wafer_USD")),
        ("costs.life_year = 0", ("life_year = 0", "positive")),
        ('costs.margin = "high"', ("margin = 'high'", "number")),
        ('die = "GH200"', ("die = 'GH200'", "GH100")),
        ("cost = 3", ("cost = 3 is not known",)),
    ],
)
def test_wrong_tables_are_refused(tmp_path, line, said):
    refused(written(tmp_path, CHIP + line + "\n"), "my.toml", "MyChip", *said)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("[process.N7]\nnames = ['7nm']\ndensity_um2 = 3\n", ("process.N7", "density_um2", "density_per_")),
        ("[stack.HBM3]\nbandwidth_GBps = 'fast'\n", ("stack.HBM3", "bandwidth_GBps = 'fast'")),
        ("[proces.N7]\nx = 1\n", ("proces", "process")),
        ("[stack.HBM3]\nbandwidth_GBps = 819\nsource = 'mine'\n", ("stack.HBM3", "capacity is missing")),
    ],
)
def test_wrong_shared_tables_are_refused(tmp_path, table, said):
    refused(written(tmp_path, CHIP + table), "my.toml", *said)


def test_half_a_silicon_is_refused(tmp_path):
    text = CHIP.replace('process = "7nm"', "silicon.layout = 1.2")
    refused(written(tmp_path, text), "MyChip", "silicon also needs areas.matrix")


@pytest.mark.parametrize("change", [('"7nm"', '"1nm"'), ('"HBM3"', '"DDR9"'), ("cores.count = 100", "")])
def test_what_is_unknown_stays_unknown(tmp_path, change):
    entry = hwspaces.hardware(written(tmp_path, CHIP.replace(*change)))
    assert entry.hardware.silicon is None and entry.hardware.costs is None


def test_every_leaf_can_be_set():
    settings = {"silicon.areas.l2": "1 mm2/MiB", "silicon.stack_bandwidth": "1TB/s", "costs.defects": "0.2 1/cm2"}
    settings |= {"hardware.costs.electricity": "0.1 USD/kWh", "costs.board": 0, "cores.count": 66}
    before = hwspaces.hardware("H100-SXM")
    entry = hwspaces.overridden(before, settings)
    assert entry.hardware.silicon.areas.l2 == pytest.approx(1e-6 / 2**20)
    assert (entry.hardware.costs.defects, entry.hardware.costs.board) == (pytest.approx(2000.0), 0.0)
    assert float(die_area(entry.hardware)) < float(die_area(before.hardware))  # half the cores
    with pytest.raises(ValueError, match="silicon.scale = 0 must be"):
        hwspaces.overridden(before, {"silicon.scale": 0})


def test_dies_of_known_size_have_it():
    for name, size in {"H100-SXM": 814, "A30": 826, "T4": 545, "MI300X": 2400, "MI250X": 1448}.items():
        assert float(die_area(hwspaces.hardware(name).hardware)) == pytest.approx(size * 1e-6, rel=1e-6)


def test_dies_that_nobody_has_built_have_an_interval(tmp_path):
    """A factor exp(1.645 x 0.165) on either side; of MI355X on the dies alone whose size nobody publishes."""
    factor = math.exp(1.645 * hwspaces.technology_constants("area", "usual")["error"].value)
    for entry in (hwspaces.hardware(written(tmp_path, CHIP)), hwspaces.hardware("chiplet")):
        area = float(die_area(entry.hardware))
        assert [float(die_area(end)) for end in area_ends(entry)] == pytest.approx([area / factor, area * factor])
    half = hwspaces.hardware("MI355X")
    cores, others = (float(kind.area) for kind in dies(half.hardware))
    assert [float(die_area(end)) for end in area_ends(half)] == pytest.approx(
        [cores + others / factor, cores + others * factor]
    )
    assert area_ends(hwspaces.hardware("H100-SXM")) is None and area_ends(hwspaces.hardware("TPU-v5e")) is None
    # A scale of the author's own is known to him.
    assert (
        area_ends(hwspaces.hardware(written(tmp_path, CHIP + "silicon.scale = 1\nsilicon.shared_scale = 1\n"))) is None
    )
    assert "90 % within 0.76 to 1.31" in area_note(hwspaces.hardware("gpu-n3"))


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (8.14e-4, "m2", "814 mm2"),
        (1.1e-12, "m2/B", "1.15 mm2/MiB"),
        (2.18e-17, "m2 s/B", "0.0218 mm2/GBps"),
        (1000.0, "1/m2", "0.1 1/cm2"),
        (16988.0, "USD", "16988 USD"),
        (1.5e-8, "USD/B", "15 USD/GB"),
        (5e5, "USD/m2", "0.5 USD/mm2"),
        (1e-7 / 3.6, "USD/J", "0.1 USD/kWh"),
    ],
)
def test_units(value, unit, text):
    assert formatted(value, unit, 5 if unit == "USD" else 3) == text
    assert quantity(text, unit, "x") == pytest.approx(value, rel=5e-3)


def test_unit_of_leaves():
    assert leaf_unit("hardware.silicon.areas.link") == "m2 s/B"
    assert leaf_unit("hardware.costs.hosting") == "USD/J"

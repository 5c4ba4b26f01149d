"""Design spaces: what they start from, the laws of clock, power and energy, and files that are refused."""

import re

import pytest

import hwspaces
from hwspaces.accelerators.constants import technology_constants
from hwspaces.accelerators.space import SPACES, space, space_names
from jaxroof.chip.area import buildable, package_uses
from jaxroof.energy.technology import clock_at

GPU = space("gpu-n3")


def figures(**settings):
    """Figures of gpu-n3 with some knobs set, by path with `__` for dots."""
    return hwspaces.overridden(GPU.entry, {path.replace("__", "."): value for path, value in settings.items()}).hardware


@pytest.mark.parametrize("name", space_names())
def test_a_space_starts_from_a_design_that_could_be_built(name):
    found = space(name)
    hardware = found.entry.hardware
    assert buildable(package_uses(hardware)), package_uses(hardware)
    assert hardware.laws and found.knobs
    assert not {law.path for law in hardware.laws} & {path.removeprefix("hardware.") for path in found.knobs}
    assert hwspaces.hardware(name) is found.entry
    assert name not in hwspaces.names()  # the catalogue holds products


def test_figures_follow_from_the_knobs():
    hardware = figures(cores__count=200, design__stacks=6, design__ports=36)
    assert hardware.matrix["bf16"] == 200 * 1.86e9 * 8192
    assert hardware.matrix["fp8"] == 2 * hardware.matrix["bf16"]
    assert hardware.memory.hbm.bandwidth == 6 * 2.048e12  # HBM4: 8 Gbit/s on 2048 pins
    assert hardware.memory.hbm.capacity == 6 * 36 * 2**30
    assert hardware.links.scale_up.bandwidth == 2 * 900e9  # 18 ports are those of NVLink 5


def test_clock_and_energy_fall_with_the_voltage():
    full, low = GPU.entry.hardware, figures(power__curve__full="0.75 V")
    # (0.45 / 0.75)^1.3 * 1.05 / 0.75 of the clock at 1.05 V, by the alpha-power law with a threshold of 0.3 V
    assert low.cores.clock == pytest.approx(1.86e9 * 0.6**1.3 * 1.4)
    assert low.energy.matrix["bf16"] == pytest.approx(full.energy.matrix["bf16"] * (0.75 / 1.05) ** 2)
    assert low.energy.hbm == full.energy.hbm
    assert low.power.static < full.power.static
    assert low.cores.exp_rate / full.cores.exp_rate == pytest.approx(low.cores.clock / full.cores.clock)


def test_wide_cores_spend_less_per_operation():
    wide = figures(cores__matrix_flops_per_clock__bf16="16384 FLOP")
    assert wide.energy.matrix["bf16"] == pytest.approx(GPU.entry.hardware.energy.matrix["bf16"] * 0.5**0.5)
    assert wide.matrix["bf16"] == 2 * GPU.entry.hardware.matrix["bf16"]


def test_tdp_keeps_to_cooling_and_power_density():
    for count in (64, 148, 320):
        hardware = figures(cores__count=count)
        uses = package_uses(hardware)
        assert float(uses["cooling"]) <= 1.0 + 1e-9 and float(uses["power_density"]) <= 1.0 + 1e-9


def test_foundries_speed_and_power_of_a_process_are_one_statement():
    """N3 takes 0.68 of N5's energy at the same clock and voltage. Raised until the power is the same again, the clock
    rises by 15 %; TSMC says 18 % (technology symposium, 2022)."""
    curve = {key: one.value for key, one in technology_constants("voltage", "N3").items()}
    share = 0.68
    low, high = curve["nominal"], curve["most"]
    for _ in range(60):
        middle = 0.5 * (low + high)
        clock = clock_at(middle, curve["nominal"], 1.0, curve["threshold"], curve["exponent"])
        power = share * clock * (middle / curve["nominal"]) ** 2
        low, high = (middle, high) if power < 1.0 else (low, middle)
    assert clock == pytest.approx(1.18, rel=0.04)


FILE = """
base = "H100-SXM"
process = "4N"
stack = "HBM3"
link = "NVLink4"
package = "CoWoS-S-2020"
cooling = "air"
[start]
"design.stacks" = 5
"design.ports" = 18
[knobs]
"design.stacks" = [4, 5, 6]
"""


def test_a_file_of_ones_own(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text(FILE)
    found = space(str(path))
    assert found.entry.name == "own"
    assert found.entry.hardware.memory.hbm.bandwidth == 5 * 819e9
    assert hwspaces.hardware(path).hardware.memory.hbm.capacity == 5 * 24 * 2**30


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"H100-SXM"', '"H1000"', "base = 'H1000' is not in the catalogue"),
        ('"4N"', '"N33"', "process = 'N33'"),
        ('stack = "HBM3"', 'stack = "HBM33"', "did you mean HBM3"),
        ('cooling = "air"', 'coolin = "air"', "coolin is not known; did you mean cooling"),
        ('"design.stacks" = [4, 5, 6]', '"design.stack" = [4]', "did you mean design.stacks"),
        ('"design.stacks" = [4, 5, 6]', '"cores.clock" = [1e9]', "knobs: cores.clock follows from a law"),
        ('"design.stacks" = [4, 5, 6]', '"design.stacks" = 5', "must be a range or a list"),
        ('"design.stacks" = [4, 5, 6]', '"design.stacks" = { from = 1, too = 3 }', "too is not known"),
        ('link = "NVLink4"', "", "link is missing; a space has base, process"),
        ("[knobs]", '[laws]\n"cores.count" = "cores.clock"\n[knobs]', "is in 1/s; it must be in plain numbers"),
        ("[knobs]", '[laws]\n"cores.count" = "draw.fixd"\n[knobs]', "did you mean draw.fixed"),
        ('"design.stacks" = 5', '"design.stacks" = 5.5', "must be a whole number"),
        ('"design.stacks" = 5', '"cores.count" = 159.7', "cores.count = 159.7 must be a whole number"),
        ('"design.stacks" = 5', '"silicon.dies" = 2.5', "silicon.dies = 2.5 must be a whole number"),
        ('"design.stacks" = 5', '"design.stacks" = 7', "stacks = 7 is outside of its knob, from 4 to 6"),
        ("[4, 5, 6]", "{ from = 6, to = 8 }", "stacks = 5 is outside of its knob, from 6 to 8"),
        ("[knobs]", '[laws]\n"cores.count" = "cores.count * 2"\n[knobs]', "'cores.count * 2' refers to itself"),
        ("[knobs]", '[laws]\n"cores.count" = "2 * hardware.cores.count"\n[knobs]', "refers to itself"),
        ("[knobs]", '[laws]\n"matrix.*" = "2 * matrix.*"\n[knobs]', "refers to itself"),
        ("[knobs]", '[laws]\n"cores.count" = 3\n[knobs]', "cores.count = 3 is not an expression"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(tmp_path, old, new, said):
    path = tmp_path / "own.toml"
    path.write_text(FILE.replace(old, new, 1))
    with pytest.raises(ValueError) as caught:
        space(str(path))
    assert said in str(caught.value) and "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


OWN_STACK = """
[technology.stack.MyHBM]
bandwidth_TBps = 4
capacity_GB = 72
floor_power_W = 8
phy_edge_mm = 11
footprint_mm2 = 132
source = "a road map"
[technology.energy.memory.MyHBM]
moved_pJ_per_B = 35
[technology.memory_price.MyHBM]
price_USD_per_GB = 12
"""


def test_technologies_of_a_file_of_ones_own(tmp_path):
    """Eight stacks of one's own: 32 TB/s, 576 GB at 12 USD per GB, 35 pJ/B."""
    path, text = tmp_path / "own.toml", (SPACES / "gpu-n3.toml").read_text(encoding="utf-8")
    path.write_text(text.replace('stack = "HBM4"', 'stack = "MyHBM"') + OWN_STACK)
    entry, usual = space(str(path)).entry, space("gpu-n3").entry
    stacks = entry.hardware.design.stacks
    assert entry.hardware.memory.hbm.bandwidth == pytest.approx(4e12 * stacks)
    assert entry.hardware.energy.hbm == pytest.approx(35e-12)
    assert "a road map" in str(space(str(path)).constants["stack.floor_power"].source)
    assert entry.hardware.costs.memory == pytest.approx(12e-9) != usual.hardware.costs.memory


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("capacity_GB = 72", "", "stack.MyHBM: capacity is missing"),
        ("bandwidth_TBps = 4", "bandwidth_W = 4", "bandwidth_W = 4"),
        ("technology.stack", "technology.pile", "table pile is not known"),
    ],
)
def test_a_wrong_technology_is_refused_in_one_line(tmp_path, old, new, said):
    path, text = tmp_path / "own.toml", (SPACES / "gpu-n3.toml").read_text(encoding="utf-8")
    path.write_text(text.replace('stack = "HBM4"', 'stack = "MyHBM"') + OWN_STACK.replace(old, new))
    with pytest.raises(ValueError, match=re.escape(said)):
        space(str(path))


def test_a_figure_of_a_law_cannot_be_set():
    with pytest.raises(ValueError, match="cores.clock follows from a law"):
        figures(cores__clock="2 GHz")


def test_an_unknown_space_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match="did you mean gpu-n3"):
        space("gpu-n5")


def test_money_of_every_space_is_the_cost_to_make():
    """The margin of the base's vendor decides nothing between spaces; a file of a space may choose one."""
    for name in space_names():
        costs = space(name).entry.hardware.costs
        assert costs is None or float(costs.margin) == 1.0
    assert float(hwspaces.hardware(space("gpu-n3").base).hardware.costs.margin) == 6.0


def test_margin_of_a_file_stands(tmp_path):
    text = (SPACES / "gpu-n3.toml").read_text()
    path = tmp_path / "priced.toml"
    path.write_text(text.replace("[accelerator]\n", "[accelerator]\ncosts.margin = 3\n"))
    entry = space(str(path)).entry
    assert float(entry.hardware.costs.margin) == 3.0
    assert "choice: money" not in entry.sources["costs.margin"]

"""Floor plans: every area to scale, nothing overlaps, and bad input is one line."""

import dataclasses
import itertools

import pytest

import hwspaces
import sweeps
from jaxroof.chip.area import area_parts, die_area, dies
from sweeps.cli import main
from sweeps.data.best import best
from sweeps.data.store import saved
from sweeps.run.device_at import device_at
from sweeps.show.floorplan import floorplan
from sweeps.show.package_plan import Rectangle, package_plan, squarified

ONE_DIE, CHIPLETS, SPACES = "H100-SXM", "MI300X", ("gpu-n3", "chiplet", "asic-systolic", "sram-heavy")

TINY = 1e-9
"""m: rounding of places."""


def inside(inner: Rectangle, outer: Rectangle) -> bool:
    low = inner.x >= outer.x - TINY and inner.y >= outer.y - TINY
    right, top = inner.x + inner.width, inner.y + inner.height
    return low and right <= outer.x + outer.width + TINY and top <= outer.y + outer.height + TINY


def apart(one: Rectangle, other: Rectangle) -> bool:
    across = one.x + one.width <= other.x + TINY or other.x + other.width <= one.x + TINY
    return across or one.y + one.height <= other.y + TINY or other.y + other.height <= one.y + TINY


def test_the_treemap_of_the_paper_by_hand():
    """Areas 6, 6, 4, 3, 2, 2, 1 in 6 x 4: the first two share a column 3 wide; 4 and 3 share a row 3 wide, 7/3 high."""
    areas = dict(zip("abcdefg", (6.0, 6.0, 4.0, 3.0, 2.0, 2.0, 1.0), strict=True))
    found = squarified(areas, Rectangle(0.0, 0.0, 6.0, 4.0))
    assert found["a"] == pytest.approx((0.0, 2.0, 3.0, 2.0))
    assert found["b"] == pytest.approx((0.0, 0.0, 3.0, 2.0))
    assert found["c"] == pytest.approx((3.0, 4.0 - 7.0 / 3.0, 12.0 / 7.0, 7.0 / 3.0))
    assert {name: part.area for name, part in found.items()} == pytest.approx(areas)


def test_parts_without_area_are_left_out_and_others_fill_the_place():
    found = squarified({"a": 3.0, "none": 0.0, "b": 1.0}, Rectangle(1.0, 2.0, 2.0, 4.0))
    assert list(found) == ["a", "b"]
    assert [part.area for part in found.values()] == pytest.approx([6.0, 2.0])
    assert squarified({"none": 0.0}, Rectangle(0.0, 0.0, 1.0, 1.0)) == {}


@pytest.mark.parametrize("name", [ONE_DIE, CHIPLETS, "L4", *SPACES])
def test_areas_are_to_scale_and_nothing_overlaps(name):
    hardware = hwspaces.hardware(name).hardware
    plan = package_plan(hardware)
    drawn = {}
    for group in plan:
        for die in group.dies:
            parts = group.parts_on(die)
            assert all(inside(part, die) for part in parts.values())
            assert all(apart(*pair) for pair in itertools.combinations(parts.values(), 2))
            assert die.width == pytest.approx(die.height)
            for part, place in parts.items():
                drawn[part] = drawn.get(part, 0.0) + place.area
    assert drawn == pytest.approx({part: area for part, area in area_parts(hardware).items() if area > 0.0}, rel=1e-9)
    assert sum(die.area for group in plan for die in group.dies) == pytest.approx(float(die_area(hardware)), rel=1e-9)
    assert [len(group.dies) for group in plan] == [int(kind.count) for kind in dies(hardware) if kind.area > 0.0]
    everything = [place for group in plan for place in (*group.dies, *group.stacks)]
    assert all(apart(*pair) for pair in itertools.combinations(everything, 2))
    if hardware.package is not None:
        stacks = plan[-1].stacks  # around the dies that have their PHYs
        assert len(stacks) == hardware.design.stacks
        assert [place.area for place in stacks] == pytest.approx([hardware.package.stack_footprint] * len(stacks))


@pytest.mark.parametrize("stacks, count", [(1, 1), (3, 1), (40, 2), (7, 5), (60, 12)])
def test_any_number_of_stacks_and_dies_stands_apart(stacks, count):
    """More stacks than fit around the dies stand further out; one may be wider than its die."""
    hardware = hwspaces.hardware("asic-systolic").hardware
    hardware = dataclasses.replace(
        hardware,
        silicon=dataclasses.replace(hardware.silicon, dies=float(count)),
        design=dataclasses.replace(hardware.design, stacks=float(stacks)),
    )
    (group,) = package_plan(hardware)
    assert (len(group.dies), len(group.stacks)) == (count, stacks)
    assert all(apart(*pair) for pair in itertools.combinations((*group.dies, *group.stacks), 2))


def written(figure) -> str:
    parts = [text.get_text() for text in figure.texts]
    return "\n".join(parts + [text.get_text() for axes in figure.axes for text in axes.texts])


def test_a_plan_says_name_process_area_power_and_what_is_beyond_a_limit():
    assert "gpu-n3: 969 mm2 on 2 dies in N3, TDP 940 W" in written(floorplan(hwspaces.hardware("gpu-n3")))
    text = written(floorplan(hwspaces.hardware(ONE_DIE)))
    assert "H100-SXM: 814 mm2 on one die in 4N, TDP 700 W" in text
    assert "package is unknown" in text and "216 mm2, 26.6 %" in text
    wide = hwspaces.overridden(hwspaces.hardware("gpu-n3"), {"cores.count": "400"})
    figure = floorplan(wide)
    assert "2 dies\n988 mm2 each" in written(figure) and "115 %" in written(figure)
    (limits,) = [axes for axes in figure.axes if axes.get_title(loc="left") == "Limits of the package"]
    beyond = [bar.get_width() for bar in limits.patches if bar.get_x() == 100.0]
    assert [width for width in beyond if width > 0.0] == pytest.approx([15.2], abs=0.1)


def test_the_best_design_of_a_file_is_the_device_of_the_sweep(tmp_path, capsys):
    found = sweeps.sweep(
        space="gpu-n3",
        model="Llama-3.1-8B",
        workload={"batch": 16, "isl": 1024, "osl": 64},
        axes={
            "hardware.cores.count": [96, 320],
            "hardware.design.stacks": [4, 8],
            "hardware.design.ports": [18],
            "hardware.memory.l2.capacity": ["64 MiB", "256 MiB"],
            "hardware.cores.matrix_flops_per_clock.bf16": [4096],
            "hardware.power.curve.full": ["0.9 V"],
        },
        output={"variables": ["tpot", "die_area", "feasible"]},
    )
    point = best(found, "tpot")
    _, device = device_at(found, point.position)
    there = {dim: at for dim, at in point.position.items() if dim in found["die_area"].dims}
    assert float(die_area(device)) == pytest.approx(float(found["die_area"].isel(there)), rel=1e-5)
    saved(tmp_path / "out.nc", found)
    assert main(["plot", str(tmp_path / "out.nc"), "--kind", "floorplan", "-o", str(tmp_path / "die.svg"), "-v"]) == 0
    assert f"gpu-n3: {float(die_area(device)) * 1e6:,.0f} mm2 on 2 dies" in capsys.readouterr().out


REFUSALS = {
    "no silicon": (["TPU-v6e"], "TPU-v6e: the area of its dies is unknown"),
    "unknown name": (["H101"], "did you mean"),
    "no name": ([], "jaxroof plot H100-SXM --kind floorplan"),
    "two names": (["H100-SXM", "--hardware", "A100-SXM-80GB"], "the name of one accelerator"),
    "flags of a step": (["H100-SXM", "--prefill", "512"], "--prefill: a floor plan is of a device"),
    "flags of a file": (["H100-SXM", "--metric", "tpot"], "--metric: a floor plan is of a device"),
    "unknown figure": (["H100-SXM", "--set", "hardware.cores.cuont=3"], "cores.count"),
    "no file": (["none.nc"], "none.nc: no such file"),
}


@pytest.mark.parametrize("words, reason", REFUSALS.values(), ids=REFUSALS)
def test_bad_input_is_one_line_and_draws_nothing(tmp_path, capsys, monkeypatch, words, reason):
    monkeypatch.chdir(tmp_path)
    assert main(["plot", *words, "--kind", "floorplan", "-o", "die.png"]) == 2
    err = capsys.readouterr().err
    assert reason in err and err.count("\n") == 1
    assert not list(tmp_path.iterdir())

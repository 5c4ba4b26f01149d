"""Hulls in efficiency files: what is read, what is refused, and what the hull of measured ops is."""

import dataclasses

import numpy as np
import pytest

import hwspaces
from hwspaces.performance.efficiency_file import efficiency_text
from hwspaces.performance.kernel_tables import CLASSES, hull, hull_lines, hull_of
from jaxroof.efficiency import Hull
from jaxroof.efficiency.hull import FittedRange
from jaxroof.layers.linear import linear
from jaxroof.model import WeightFormat


def test_ranges_are_read_in_their_units():
    table = {"growth": 0.2, "precisions": ["bf16", "fp8"], "cores": [108, 188]}
    found = hull({**table, "clock_GHz": [1.41, 2.52], "core_l2_MB": [0.4, 0.7], "link_bandwidth_GBps": [32, 450]}, "f")
    assert found == Hull(
        ranges=(
            FittedRange("cores", 108.0, 188.0),
            FittedRange("clock", 1.41e9, 2.52e9),
            FittedRange("core_l2", 4e5, 7e5),
            FittedRange("link_bandwidth", 3.2e10, 4.5e11),
        ),
        precisions=("bf16", "fp8"),
        growth=0.2,
    )


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"cores": [188, 108]}, "cores = [188, 108]: the least is more than the largest"),
        ({"cores": 108}, "cores = 108 must be [least, largest]"),
        ({"cores": [1, 2, 3]}, "cores = [1, 2, 3] must be [least, largest]"),
        ({"cores": [0, 2]}, "cores = 0 must be a positive finite number"),
        ({"cores": [True, 2]}, "cores = True is not a number"),
        ({"core": [1, 2]}, "core is not known; did you mean cores"),
        ({"clock": [1, 2]}, "clock is not known; did you mean clock_GHz"),
        ({"clock_GB": [1, 2]}, "clock_GB = 1 has the unit GB"),
        ({"clock_GHz": [1, 2], "clock_MHz": [1, 2]}, "clock is given twice"),
        ({"precisions": ["bf61"]}, "precisions: 'bf61' is not known; did you mean bf16"),
        ({"precisions": "bf16"}, "precisions = 'bf16' is not a list"),
        ({"growth": -0.1}, "growth = -0.1 must be a number from 0 to 10"),
        ({"growth": float("nan")}, "growth = nan must be a number from 0 to 10"),
        ([1, 2], "[1, 2] is not a table of ranges"),
    ],
)
def test_wrong_hulls_are_refused_in_one_line(table, said):
    with pytest.raises(ValueError) as caught:
        hull(table, "f.toml: linear.wide.hull")
    text = str(caught.value)
    assert said in text and text.startswith("f.toml: linear.wide.hull") and "\n" not in text


@pytest.mark.parametrize("name", ["learned-vllm", "derated", "eager_fp32"])
def test_hulls_survive_a_file(name, tmp_path):
    entry = hwspaces.efficiency(name)
    kinds = ("linear", "experts", "prefill_attention", "decode_attention", "elementwise")
    sources = dict(entry.sources)
    for kind in kinds:
        sources |= {f"{kind}.{one}": "here" for one in CLASSES}
    file = tmp_path / "mine.toml"
    file.write_text(efficiency_text(entry.efficiency, sources, {"date": "2026-11-23"}, (), "Mine."))
    again = hwspaces.efficiency(file).efficiency
    for kind in (*kinds, "collective"):
        entries = [getattr(one, kind) for one in (entry.efficiency, again)]
        if hasattr(entries[0], "wide"):
            entries = [[getattr(one, each) for each in CLASSES if getattr(one, each) is not None] for one in entries]
            assert [one.hull for one in entries[0]] == [one.hull for one in entries[1]]
            assert all(one.hull is not None for one in entries[0])
        else:
            assert entries[0].hull == entries[1].hull


def test_the_hull_of_ops_holds_them_all():
    """Rows of 8 to 1000 on H100: its 132 cores, 989.4e12 / (132 x 1.83e9) = 4096 FLOP per clock; rounded outwards."""
    hardware = hwspaces.hardware("H100-SXM").hardware
    op = linear(np.array([8.0, 1000.0, 64.0]), 4096.0, 4096.0, WeightFormat(bytes=2.0, compute="bf16"), 2.0, 1.0)
    found = hull_of([(op, hardware)], growth=0.1)
    ranges = {one.feature: (one.low, one.high) for one in found.ranges}
    assert found.precisions == ("bf16",) and found.growth == 0.1
    assert ranges["rows"] == (8.0, 1000.0) and ranges["outputs"] == (4090.0, 4100.0)
    assert ranges["cores"] == (132.0, 132.0)
    low, high = ranges["core_flops_per_clock"]
    assert low <= hardware.matrix["bf16"] / (132.0 * hardware.cores.clock) <= high
    assert "rows" not in {one.feature for one in hull_of([(op, hardware)], shapes=False).ranges}
    lines = hull_lines(dataclasses.replace(found, ranges=(FittedRange("clock", 1.41e9, 2.5e9),)))
    assert lines == ["hull.growth = 0.1", 'hull.precisions = ["bf16"]', "hull.clock_GHz = [1.41, 2.5]"]

"""Limits of packages: hand-worked shares, shipped products, and designs that cannot be built."""

import dataclasses

import jax
import pytest

import hwspaces
from hwspaces.accelerators.load import catalogue_tables
from jaxroof import Package, edge_needed, interposer_use, package_uses, power_density_use, reticle_use, shoreline_use


def test_shares_by_hand():
    """6 stacks of 11 mm, 450 GB/s of 0.032 mm per GB/s and 6.4 mm: 86.8 mm of 0.9 x 4 x 28.53 mm."""
    needed = edge_needed(6.0, 11e-3, 450e9, 3.2e-14, 6.4e-3)
    assert needed == pytest.approx(86.8e-3)
    assert shoreline_use(needed, 814e-6, 1.0, 0.9) == pytest.approx(86.8 / (0.9 * 4 * 814**0.5))
    assert shoreline_use(needed, 814e-6, 4.0, 0.9) == pytest.approx(0.5 * 86.8 / (0.9 * 4 * 814**0.5))
    assert interposer_use(814e-6, 6.0, 110e-6, 1700e-6) == pytest.approx(1474 / 1700)
    assert reticle_use(1600e-6, 2.0, 858e-6) == pytest.approx(800 / 858)
    assert power_density_use(700.0, 814e-6, 1e6) == pytest.approx(0.86, abs=1e-3)


def packaged(name: str, package: str, cooling: str, between: float = 0.0, stacked: float = 0.0):
    """A product in its package: host interface of 6.4 mm, and `between` m of links between its dies."""
    entry = hwspaces.hardware(name)
    table = catalogue_tables()[entry.name]
    stack = values("stack", table["memory"]["hbm"]["technology"])
    limits, high = values("package", package), "stacked" in stack
    built = Package(
        interposer=limits["interposer"],
        edge_share=limits["edge_share"],
        power_density=limits["power_density"],
        cooling=values("cooling", cooling)["power"],
        stack_edge=max(stack["phy_edge"], stack["width"]) if high else stack["phy_edge"],
        stack_footprint=stack["footprint"] if high else 0.0,
        link_edge=values("link", table["links"]["scale_up"]["technology"]).get("shoreline", 0.0),
        other_edge=6.4e-3 + between,
        stacked=stacked,
    )
    return dataclasses.replace(entry.hardware, package=built)


def values(kind: str, name: str) -> dict[str, float]:
    return {key: one.value for key, one in hwspaces.technology_constants(kind, name).items()}


PRODUCTS = {
    "V100-SXM": ("CoWoS-S-2020", "air"),
    "A100-SXM-80GB": ("CoWoS-S-2020", "air"),
    "H100-SXM": ("CoWoS-S-2023", "air"),
    "H200-SXM": ("CoWoS-S-2023", "air"),
    "MI300X": ("CoWoS-S-2023", "air", 0.0, 1.0),
    "B200-SXM": ("CoWoS-L-2024", "air", 66e-3),
    "GB300": ("CoWoS-L-2024", "liquid", 66e-3),
    "L40S": ("organic", "air"),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_what_is_sold_can_be_built(name):
    uses = {key: float(use) for key, use in package_uses(packaged(name, *PRODUCTS[name])).items()}
    assert set(uses) == {"shoreline", "interposer", "reticle", "power_density", "cooling"}
    assert all(0.1 < use <= 1.0 + 1e-6 for use in uses.values()), uses


def test_more_of_everything_cannot_be_built():
    """Three times the stacks on an H100 leave no edge; B200's dies do not fit on the interposer of 2020."""
    hardware = packaged("H100-SXM", "CoWoS-S-2023", "air")
    hbm = dataclasses.replace(hardware.memory.hbm, bandwidth=3.0 * hardware.memory.hbm.bandwidth)
    more = dataclasses.replace(hardware, memory=dataclasses.replace(hardware.memory, hbm=hbm))
    assert package_uses(more)["shoreline"] > 1.0 > package_uses(hardware)["shoreline"]
    assert package_uses(packaged("B200-SXM", "CoWoS-S-2020", "air"))["interposer"] > 1.0
    assert package_uses(packaged("GB300", "CoWoS-L-2024", "air"))["cooling"] > 1.0


def test_slopes_and_what_is_unknown():
    hardware = packaged("H100-SXM", "CoWoS-S-2023", "air")

    def shoreline(bandwidth):
        up = dataclasses.replace(hardware.links.scale_up, bandwidth=bandwidth)
        links = dataclasses.replace(hardware.links, scale_up=up)
        return package_uses(dataclasses.replace(hardware, links=links))["shoreline"]

    assert float(jax.grad(lambda scaled: shoreline(scaled * 1e9))(450.0)) > 0.0
    with pytest.raises(ValueError, match="no package"):
        package_uses(dataclasses.replace(hardware, package=None))
    without = dataclasses.replace(hardware, power=dataclasses.replace(hardware.power, tdp=None))
    assert set(package_uses(without)) == {"shoreline", "interposer", "reticle"}


def test_files_give_a_package_whole(tmp_path):
    from tests.hwspaces.test_load_errors import refused, written
    from tests.hwspaces.test_silicon import CHIP

    table = (
        "[accelerator.MyChip.package]\ninterposer_mm2 = 1700\nedge_share = 0.9\npower_density_W_per_mm2 = 1\n"
        "cooling_W = 700\nstack_edge_mm = 11\nstack_footprint_mm2 = 110\nlink_edge_mm_per_GBps = 0.03\n"
    )
    entry = hwspaces.hardware(written(tmp_path, CHIP + table))
    assert entry.hardware.package.link_edge == pytest.approx(3e-14)
    assert hwspaces.hardware(written(tmp_path, CHIP)).hardware.package is None
    refused(written(tmp_path, CHIP + table.replace("cooling_W = 700\n", "")), "package also needs cooling")
    refused(written(tmp_path, CHIP + table.replace("0.9", "1.1")), "package", "at most 1")

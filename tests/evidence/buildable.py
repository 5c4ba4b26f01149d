"""Rules of a design that could be built, from files of technology and plain arithmetic: none of the product's own code.

Of the product only the sum of die areas is taken, which has its own evidence (`tests.evidence.area_fit`).
"""

import math
import pathlib
import tomllib
from typing import Any

import hwspaces
from jaxroof import Hardware, die_area

FILES = pathlib.Path(hwspaces.__file__).parent

ROUNDING = 1e-6
"""Of a limit, or of a whole number."""


def broken(hardware: Hardware, space: str) -> list[str]:
    """Rules that a design of a space breaks, each with its figures; empty where it could be built.

    Args:
      hardware: of single numbers, with PHYs on all of its dies.
      space: name of the space that it is a design of.
    """
    named = _table(f"spaces/{space}.toml")
    stack = _table("technology/memories.toml")["stack"][named["stack"]]
    package = _table("technology/packages.toml")["package"][named["package"]]
    cooling = _table("technology/packages.toml")["cooling"][named["cooling"]]
    link = _table("technology/links.toml")["link"][named["link"]]
    cores, design, silicon = hardware.cores, hardware.design, hardware.silicon
    area = 1e6 * float(die_area(hardware))  # mm2
    stacks, count, tdp = float(design.stacks), float(silicon.dies), float(hardware.power.tdp)
    curve = hardware.power.curve
    edge = stacks * max(stack["phy_edge_mm"], stack["width_mm"])
    edge += float(hardware.links.scale_up.bandwidth) / 1e9 * link["shoreline_mm_per_GBps"]
    width = float(cores.matrix_flops_per_clock["bf16"])
    return [
        *_whole(cores=float(cores.count), stacks=stacks, ports=float(design.ports), dies=count),
        *_same("bf16 peak", float(hardware.matrix["bf16"]), float(cores.count) * float(cores.clock) * width),
        *_same("bandwidth", float(hardware.memory.hbm.bandwidth), 1e9 * stacks * stack["bandwidth_GBps"]),
        *_same("capacity", float(hardware.memory.hbm.capacity), 2.0**30 * stacks * stack["capacity_GiB"]),
        *_most("voltage above threshold", float(curve.threshold), float(curve.full)),
        *_most("mm2 of one die", area / count, package["largest_die_mm2"]),
        *_most("mm of die edge", edge, package["edge_share"] * 4.0 * math.sqrt(area * count)),
        *_most("mm2 of interposer", area + stacks * stack["footprint_mm2"], package["interposer_mm2"]),
        *_most("W/mm2 of dies", tdp / area, package["power_density_W_per_mm2"]),
        *_most("W of one package", tdp, cooling["power_W"]),
    ]


def _table(name: str) -> dict[str, Any]:
    return tomllib.loads((FILES / name).read_text())


def _whole(**counts: float) -> list[str]:
    return [f"{name} {n:g} not whole" for name, n in counts.items() if n < 1 or abs(n - round(n)) > ROUNDING]


def _same(name: str, found: float, expected: float) -> list[str]:
    return [] if math.isclose(found, expected, rel_tol=ROUNDING) else [f"{name} {found:g}, not {expected:g}"]


def _most(name: str, found: float, limit: float) -> list[str]:
    return [] if found <= limit * (1.0 + ROUNDING) else [f"{name} {found:g} above {limit:g}"]

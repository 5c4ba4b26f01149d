"""Refit of the areas per unit to dies of published size: `python -m tests.evidence.area_fit`."""

import argparse
import dataclasses
import math
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tests.evidence.harness import command

PRIORS = {  # mm2, and the unit of each: what a person would guess, and the range that physics leaves
    "matrix": (50.0, 5.0, 300.0, 1e5),  # per 100,000 16-bit FLOP per cycle
    "vector": (15.0, 1.0, 80.0, 1e4),  # per 10,000 FLOP per cycle
    "double": (7.0, 0.5, 100.0, 1e4),
    "graphics": (8.0, 1.0, 60.0, 1e4),
    "core": (0.4, 0.05, 3.0, 1.0),
    "core_memory": (0.8, 0.3, 2.0, 2.0**20),  # per MiB; 0.18 for bare cells of 0.021 um2
    "l2": (0.8, 0.5, 1.2, 2.0**20),
    "stack": (13.0, 8.0, 22.0, 1.0),
    "chip": (5.5, 3.0, 10.0, 1.0),
    "link": (4.5, 1.0, 8.0, 1e11),  # per 100 GB/s; 3.6 of 112 Gbit/s PHYs alone
    "fixed": (22.0, 5.0, 100.0, 1.0),
}
"""Part -> (prior in mm2, least, most, how many units it is of). assumption: the ranges are ours."""

LAYOUT = (0.22, 0.05, 1.0)
"""Prior, least and most of the exponent of the transistor density in the area of logic."""

PRIOR_WEIGHT = 0.03
"""Of a factor e from the prior, against an error of the area of as much: it decides what the dies do not."""

EDGE, EDGE_WEIGHT = 0.10, 2.0
"""Errors above this count again with this weight, so that no die is sacrificed to the others."""


@dataclasses.dataclass(frozen=True)
class Die:
    """One die of known size and what is on it, by part: units, each scaled to what one costs in mm2 per unit."""

    name: str
    family: str
    known: float  # mm2
    units: Mapping[str, float]  # part -> multiple of the area per unit, layout left out
    density_ratio: float  # usual transistor density over its own; 1 where its transistors are unknown
    shared_lanes: bool  # whether float32 and float64 run on the same vector units


def dies() -> list[Die]:
    """A die for every published size that is fitted to; of packages whose dies differ, the dies with cores."""
    from hwspaces.accelerators.load import known_dies

    return _of_dies({name for name, own in known_dies().items() if own.fitted})


def die(name: str) -> Die:
    """One die of known size, fitted to or not."""
    return _of_dies({name})[0]


def _of_dies(chosen: Collection[str]) -> list[Die]:
    """A die for each name, of the accelerator that uses most of it."""
    import hwspaces
    from hwspaces.accelerators.load import known_dies
    from jaxroof.chip.area import CORE_PARTS, area_parts

    known, best = known_dies(), {}
    for name, entry in hwspaces.catalogue().items():
        silicon = entry.hardware.silicon
        if entry.die not in chosen or silicon is None:
            continue
        shares = (silicon.matrix_used * silicon.cores_used, silicon.l2_used)
        if entry.die not in best or shares > best[entry.die][0]:
            best[entry.die] = shares, name, entry
    made = []
    for name, (_, _, entry) in best.items():
        silicon, own = entry.hardware.silicon, known[name]
        areas = dataclasses.replace(silicon.areas, **dict.fromkeys(_fields(silicon.areas), 1e-6))
        one = {"scale": 1.0, "shared_scale": 1.0, "layout": 1.0}
        plain = dataclasses.replace(silicon, areas=areas, shared_lanes=0.0, base_ratio=0.0, **one)
        parts = {k: 1e6 * float(v) for k, v in area_parts(dataclasses.replace(entry.hardware, silicon=plain)).items()}
        phy = "stack" if entry.hardware.costs.stack_footprint > 0.0 else "chip"
        parts[phy], parts["link"], _ = parts.pop("stacks"), parts.pop("links"), parts.pop("base")
        usual = 92.7e12 * 0.5 * (1.0 / silicon.core_process.logic + 1.0 / silicon.shared_process.logic)
        area, density_ratio = own.area, 1.0
        if own.core_area is not None:
            area, parts = own.core_area, {part: parts[part] for part in CORE_PARTS}
        elif own.transistors is not None:
            density_ratio = usual * own.area / own.transistors
        lanes = silicon.shared_lanes > 0.0
        made.append(Die(name, entry.architecture, 1e6 * area, parts, density_ratio, lanes))
    return made


def predicted(die: Die, areas: Mapping[str, float], exponent: float) -> float:
    """mm2 of the die at areas per unit in mm2."""
    layout, total, units = die.density_ratio**exponent, 0.0, dict(die.units)
    if die.shared_lanes:
        total += layout * max(areas[part] * units.pop(part) for part in ("vector", "double"))
    for part, count in units.items():
        logic = part in ("matrix", "vector", "double", "graphics", "core", "fixed")
        total += areas[part] * count * (layout if logic else 1.0)
    return total


@dataclasses.dataclass(frozen=True)
class Base:
    """Dies of known size that carry the dies with cores."""

    name: str
    known: float  # mm2, of all of them
    carried: float  # mm2 of dies on them
    stacks: float
    link: float  # B/s of scale-up links on them
    analog: float  # area of analog circuits over that of a 5 nm process


BASES = (
    Base("MI300X", 4 * 370.0, 8 * 115.0, 8.0, 448e9, 1.2),
    Base("Ponte Vecchio", 2 * 646.0, 16 * 41.0 + 8 * 26.7, 8.0, 0.0, 1.2),
)
"""MI300X: Smith et al., ISSCC 2024. Ponte Vecchio: two base tiles of 646 mm2 in Intel 7 with sixteen tiles of cores and
eight of 15 MiB (RAMBO) on them, links on dies of their own: Intel at ISSCC 2022. assumption: 41 mm2 of a tile of cores
(from memory of that paper; with RAMBO it fits in the 1,038 mm2 that the bases leave of the 2,330 mm2 of all active
tiles); 26.7 mm2 of RAMBO, 15 MiB at the usual area of SRAM in a cell of 0.031 um2; analog as in 7 nm."""


def base_ratio(bases: Sequence[Base], areas: Mapping[str, float]) -> float:
    """Area beside PHYs over that of the dies on top: the geometric mean of `bases`."""
    ratios = [(base.known - _rim(base, areas)) / base.carried for base in bases]
    return math.exp(math.fsum(math.log(ratio) for ratio in ratios) / len(ratios))


def base_area(base: Base, ratio: float, areas: Mapping[str, float], carried: float) -> float:
    """mm2 of the base dies that carry `carried` mm2; both have caches that need less than that."""
    return ratio * carried + _rim(base, areas)


def _rim(base: Base, areas: Mapping[str, float]) -> float:
    """mm2 of PHYs, which no die lies on."""
    return base.analog * (base.stacks * areas["stack"] + base.link * areas["link"])


def left_out(die: Die, known: Sequence[Die], layout: bool = True) -> float:
    """Predicted over published area by a fit without the die's family; without `layout` as of a die that is not built,
    whose transistors nobody has counted."""
    found = fitted([other for other in known if other.family != die.family])
    return predicted(die if layout else dataclasses.replace(die, density_ratio=1.0), *found) / die.known


UNFITTED = ("GB100",)
"""Dies that are not fitted to, and count in `unbuilt_error`: NVIDIA calls both of its dies as large as the reticle."""


def unbuilt_error(known: Sequence[Die]) -> float:
    """Standard deviation of the logarithmic errors of `left_out` without layout; every family counts once.

    Their root mean square, times Student's quantile of so few families over that of the normal distribution.
    """
    from scipy.stats import norm, t

    chosen = [*known, *(die(name) for name in UNFITTED)]
    families = [one.family for one in chosen]
    squares = [math.log(left_out(one, known, False)) ** 2 / families.count(one.family) for one in chosen]
    few = float(t.ppf(0.95, len(set(families))) / norm.ppf(0.95))
    return few * math.sqrt(math.fsum(squares) / len(set(families)))


def fitted(known: Sequence[Die]) -> tuple[dict[str, float], float]:
    """Areas per unit in mm2 by part, and the exponent of the layout, that suit `known` best.

    Least squares of the logarithms of areas, within `PRIORS`, from their middle.
    """
    import numpy as np
    from scipy.optimize import least_squares

    rows = [(prior, low, high) for prior, low, high, _ in PRIORS.values()] + [LAYOUT]
    prior, low, high = (np.log([row[i] for row in rows]) for i in range(3))

    def named(logarithms: Any) -> tuple[dict[str, float], float]:
        *values, exponent = np.exp(logarithms)
        scaled = zip(PRIORS.items(), values, strict=True)
        return {part: value / unit for (part, (_, _, _, unit)), value in scaled}, exponent

    def residuals(logarithms: Any) -> Any:
        areas, exponent = named(logarithms)
        errors = np.array([math.log(predicted(die, areas, exponent) / die.known) for die in known])
        beyond = EDGE_WEIGHT * np.maximum(np.abs(errors) - EDGE, 0.0)
        return np.concatenate([errors, beyond, PRIOR_WEIGHT * (logarithms - prior)])

    found = least_squares(residuals, prior, bounds=(low - 1e-9, high + 1e-9)).x
    areas, exponent = named(found)
    return {part: float(area) for part, area in areas.items()}, float(exponent)


@command()
def main(options: argparse.Namespace) -> None:
    """Fit, print the constants, errors and errors of families that were left out; returns the exit status."""
    known = dies()
    areas, exponent = fitted(known)
    print("[area.usual]")
    for part, area in areas.items():
        size, unit = SHOWN.get(part, (1.0, "mm2"))
        print(f"{part}_{unit} = {float(f'{area * size:.3g}'):g}")
    print(f"layout_exponent = {exponent:.3g}")
    print(f"base_ratio = {base_ratio(BASES, areas):.3g}")
    print(f"error = {unbuilt_error(known):.3g}\n")
    print(f"{'die':10}{'family':20}{'known':>8}{'predicted':>11}{'ratio':>7}{'left out':>10}{'not built':>11}")
    for one in [*known, *(die(name) for name in UNFITTED)]:
        area = predicted(one, areas, exponent)
        ratios = area / one.known, left_out(one, known), left_out(one, known, False)
        print(f"{one.name:10}{one.family:20}{one.known:8.0f}{area:11.0f}", *(f"{r:9.2f}" for r in ratios))
    print("left out: the ratio when the family is not fitted to; not built: so, and as if nobody counted transistors\n")
    print(f"{'base dies':14}{'known':>8}{'carried':>9}{'predicted':>11}{'ratio':>7}{'left out':>10}")
    for base in BASES:
        others = base_ratio([other for other in BASES if other is not base], areas)
        area, alone = (base_area(base, r, areas, base.carried) for r in (base_ratio(BASES, areas), others))
        ratios = f"{area / base.known:7.2f}{alone / base.known:10.2f}"
        print(f"{base.name:14}{base.known:8.0f}{base.carried:9.0f}{area:11.0f}{ratios}")


SHOWN = {
    **dict.fromkeys(("matrix", "vector", "double", "graphics"), (1e6, "um2")),
    **dict.fromkeys(("core_memory", "l2"), (2.0**20, "mm2_per_MiB")),
    "link": (1e9, "mm2_per_GBps"),
}
"""Part -> its unit in the file, and how many of them a mm2 per unit is; mm2 elsewhere."""


def _fields(areas: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(areas)]


if __name__ == "__main__":
    sys.exit(main())

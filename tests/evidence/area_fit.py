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
    "link": (4.5, 1.0, 20.0, 1e11),  # per 100 GB/s
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
    density_ratio: float  # usual transistor density over its own


def dies() -> list[Die]:
    """A die for every published size that is fitted to."""
    from hwspaces.accelerators.load import known_dies

    return _of_dies({name for name, own in known_dies().items() if own.fitted})


def die(name: str) -> Die:
    """One die of known size, fitted to or not."""
    return _of_dies({name})[0]


def _of_dies(chosen: Collection[str]) -> list[Die]:
    """A die for each name, of the accelerator that uses most of it."""
    import hwspaces
    from hwspaces.accelerators.load import known_dies
    from jaxroof.chip.area import area_parts

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
        silicon = entry.hardware.silicon
        areas = dataclasses.replace(silicon.areas, **dict.fromkeys(_fields(silicon.areas), 1e-6))
        plain = dataclasses.replace(silicon, areas=areas, scale=1.0, shared_scale=1.0, layout=1.0)
        parts = {k: 1e6 * float(v) for k, v in area_parts(dataclasses.replace(entry.hardware, silicon=plain)).items()}
        phy = "stack" if entry.hardware.costs.stack_footprint > 0.0 else "chip"
        parts[phy], parts["link"] = parts.pop("stacks"), parts.pop("links")
        usual = 92.7e12 * 0.5 * (1.0 / silicon.core_process.logic + 1.0 / silicon.shared_process.logic)
        own = known[name].transistors / known[name].area
        made.append(Die(name, entry.architecture, 1e6 * known[name].area, parts, usual / own))
    return made


def predicted(die: Die, areas: Mapping[str, float], exponent: float) -> float:
    """mm2 of the die at areas per unit in mm2."""
    layout, total = die.density_ratio**exponent, 0.0
    for part, units in die.units.items():
        logic = part in ("matrix", "vector", "double", "graphics", "core", "fixed")
        total += areas[part] * units * (layout if logic else 1.0)
    return total


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
    print(f"layout_exponent = {exponent:.3g}\n")
    print(f"{'die':10}{'family':20}{'known':>8}{'predicted':>11}{'ratio':>7}{'left out':>10}")
    for die in known:
        others = [other for other in known if other.family != die.family]
        area, alone = predicted(die, areas, exponent), predicted(die, *fitted(others))
        ratio, left_out = area / die.known, alone / die.known
        print(f"{die.name:10}{die.family:20}{die.known:8.0f}{area:11.0f}{ratio:7.2f}{left_out:10.2f}")
    print("left out: the ratio when the family is not fitted to")


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

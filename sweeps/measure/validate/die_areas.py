"""Errors of the parametric die area against dies of published size."""

import dataclasses
import math

import hwspaces
from hwspaces.accelerators.load import known_dies
from sweeps.ask.names import PARTS


@dataclasses.dataclass(frozen=True)
class DieArea:
    """One accelerator on a die of known size."""

    device: str
    die: str
    known: float  # m2
    predicted: float  # m2, without the scale that makes the two agree
    fitted: bool  # whether the die was fitted to; others are reported only
    limit: bool  # whether `known` is an upper limit
    parts: dict[str, float]  # m2 by part

    @property
    def ratio(self) -> float:
        """Predicted over known."""
        return self.predicted / self.known

    @property
    def error(self) -> float:
        """Of the prediction, relative; below an upper limit there is none."""
        return max(0.0, self.ratio - 1.0) if self.limit else abs(self.ratio - 1.0)


TOLERANCE = 0.15
"""Relative error of the area that a fitted die may have."""


def die_areas_of(hardware: str) -> list[DieArea]:
    """The rows of one accelerator; ValueError of one line where it is on no die of known size."""
    name = hwspaces.hardware(hardware).name
    rows = [row for row in die_areas() if row.device == name]
    if not rows:
        raise ValueError(f"--hardware {hardware}: {name} is on no die of published size")
    return rows


def die_areas() -> list[DieArea]:
    """A row for every accelerator of the catalogue that is on a die of known size.

    Two where dies with cores and dies without are known apart.
    """
    from jaxroof.chip.area import parts_by_die

    rows, dies = [], known_dies()
    for name, entry in hwspaces.catalogue().items():
        die = None if entry.die is None else dies.get(entry.die)
        # Needed are a die whose size is known and figures that its area follows from.
        if entry.die is None or die is None or entry.hardware.silicon is None:
            continue
        # Scales make predicted areas equal to published ones: without them the prediction can be judged.
        plain = dataclasses.replace(entry.hardware.silicon, scale=1.0, shared_scale=1.0)
        kinds = parts_by_die(dataclasses.replace(entry.hardware, silicon=plain))
        with_cores, without = ({part: float(area) for part, area in kind.items()} for kind in kinds)
        if die.core_area is None:
            both = {part: with_cores.get(part, 0.0) + without.get(part, 0.0) for part in PARTS}
            sizes = [(entry.die, die.area, both)]
        else:
            others = None if die.area is None else die.area - die.core_area
            sizes = [(f"{entry.die}, cores", die.core_area, with_cores), (f"{entry.die}, others", others, without)]
        for called, known, parts in sizes:
            if known is not None:
                every = dict.fromkeys(PARTS, 0.0) | parts
                rows.append(DieArea(name, called, known, math.fsum(every.values()), die.fitted, die.limit, every))
    return rows

"""Errors of the parametric die area against dies of published size."""

import dataclasses
import math

import hwspaces
from hwspaces.accelerators.load import known_dies


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
    """A row for every accelerator of the catalogue that is on a die of known size."""
    from jaxroof.chip.area import area_parts

    rows, dies = [], known_dies()
    for name, entry in hwspaces.catalogue().items():
        die = None if entry.die is None else dies.get(entry.die)
        # Needed are a die whose size is known and figures that its area follows from.
        if entry.die is None or die is None or entry.hardware.silicon is None:
            continue
        # Scales make predicted areas equal to published ones: without them the prediction can be judged.
        plain = dataclasses.replace(entry.hardware.silicon, scale=1.0, shared_scale=1.0)
        parts = {
            part: float(area) for part, area in area_parts(dataclasses.replace(entry.hardware, silicon=plain)).items()
        }
        predicted = math.fsum(parts.values())
        rows.append(DieArea(name, entry.die, die.area, predicted, die.fitted, die.limit, parts))
    return rows

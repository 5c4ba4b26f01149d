"""Jumps of a time between neighbouring shapes: looked up in a table, and interpolated."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from hwspaces.performance.surface import SurfaceTable
from hwspaces.performance.surface_efficiency import log_ratios, with_surfaces
from jaxroof.efficiency import Efficiency
from jaxroof.efficiency.surface import INTERPOLATIONS
from jaxroof.hardware import Hardware

JUMP = 0.05
"""Relative change between two neighbouring shapes, beside that of the model below the table, that counts as a jump."""

NARROW = 3.0
"""Steps between two measured shapes below which a jump between them was measured, whatever interpolates."""

STEP = 0.01
"""From one shape to the next along an axis."""


@dataclasses.dataclass(frozen=True)
class Jumps:
    """Statistics of a walk along the axes of a table."""

    steps: int  # from one shape to the next
    counts: dict[str, int]  # interpolation -> steps that jump, but for those between close measured shapes
    measured: int  # steps between close measured shapes that jump by linear interpolation

    @property
    def fewer(self) -> float:
        """The share of the jumps of nearest lookup that linear interpolation does not have."""
        return 1.0 - self.counts["linear"] / max(self.counts["nearest"], 1)


def boundary_jumps(
    table: SurfaceTable,
    efficiency: Efficiency,
    hardware: Hardware,
    axes: Sequence[str] | None = None,
    lines: int = 64,
    jump: float = JUMP,
    step: float = STEP,
    seed: int = 0,
) -> Jumps:
    """Jumps along lines through a table, by nearest lookup and by interpolation.

    A line runs along one axis from end to end in steps of `step`, at measured positions of the other axes. A step
    jumps where the time over that of the model below the table, which is the smooth trend, changes by `jump` or more.
    Between measured shapes that are less than `NARROW` steps apart, such as 256 and 257 rows, a jump is what was
    measured, and is counted apart.

    Args:
      table: complete or with holes.
      efficiency: the model below.
      hardware: that was measured.
      axes: along which lines run; None: all that have more than one position.
      lines: along every axis, chosen at random among the positions of the others.
      jump, step: relative.
      seed: of the choice.
    """
    generator = np.random.default_rng(seed)
    along = axes or [name for name, positions in table.axes.items() if len(positions) > 1]
    named = [(axis, _line(table, axis, step, generator)) for axis in along for _ in range(lines)]
    walks = [walk for _, walk in named]
    close = np.concatenate([_close(table.axes[axis], walk.axes[axis], step) for axis, walk in named])
    counts, trend = {}, _log_times(walks, efficiency, hardware)
    for interpolation in INTERPOLATIONS:
        found = _log_times(walks, with_surfaces(efficiency, [table], hardware, table.name, interpolation), hardware)
        changes = np.concatenate([np.diff(own - smooth) for own, smooth in zip(found, trend, strict=True)])
        jumps = np.abs(changes) >= math.log1p(jump)
        counts[interpolation] = int((jumps & ~close).sum())
        if interpolation == "linear":
            measured = int((jumps & close).sum())
    return Jumps(len(close), counts, measured)


def _line(table: SurfaceTable, axis: str, step: float, generator: np.random.Generator) -> SurfaceTable:
    """A line as a table of its own, with a time of 1 s everywhere."""
    positions = {name: generator.choice(own, 1) for name, own in table.axes.items()}
    low, high = table.axes[axis][0], table.axes[axis][-1]
    positions[axis] = np.geomspace(low, high, 1 + math.ceil(math.log(high / low) / math.log1p(step)))
    return dataclasses.replace(table, axes=positions, seconds=np.ones([len(own) for own in positions.values()]))


def _close(measured: np.ndarray, line: np.ndarray, step: float) -> np.ndarray:
    """Steps of a line that touch two measured positions close to each other."""
    narrow = measured[1:] < measured[:-1] * (1.0 + step) ** NARROW
    lower, upper = measured[:-1][narrow], measured[1:][narrow]
    return ((line[:-1, None] < upper) & (line[1:, None] > lower)).any(axis=1)


def _log_times(walks: Sequence[SurfaceTable], efficiency: Efficiency, hardware: Hardware) -> list[np.ndarray]:
    """Log of the time of `efficiency` along every line, without a quantising kernel."""
    plain = [dataclasses.replace(walk, labels={**walk.labels, "quantised": 0.0}) for walk in walks]
    plain = plain if walks and walks[0].kind == "linear" else list(walks)
    return [-values.ravel() for values in log_ratios(plain, efficiency, hardware, "jumps")]

"""Error of a table of few measured shapes on the others of the same device."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from hwspaces.performance.surface import SurfaceTable
from hwspaces.performance.surface_efficiency import log_ratios, with_surfaces
from jaxroof.efficiency import Efficiency
from jaxroof.efficiency.timing import SHORT
from jaxroof.hardware import Hardware


@dataclasses.dataclass(frozen=True)
class HeldOutErrors:
    """Relative errors of predicted times."""

    rows: int
    median: float
    mape: float
    mape_long: float  # of times of `SHORT` s and more


@dataclasses.dataclass(frozen=True)
class HeldOut:
    """Errors on the shapes that were held out."""

    kept: float  # share of the shapes that the table was made of
    surface: HeldOutErrors
    base: HeldOutErrors  # of the model below alone


def held_out(tables: Sequence[SurfaceTable], efficiency: Efficiency, hardware: Hardware, share: float = 0.2) -> HeldOut:
    """Errors of tables of a part of the measured shapes, on the others.

    Args:
      tables: of one device; with holes or complete.
      efficiency: the model below.
      hardware: that was measured.
      share: of the shapes that is kept: a coarser grid, of every axis as large a part, the ends always.
    """
    coarse = [coarser(table, share) for table in tables]
    kept = [_inside(table, part) for table, part in zip(tables, coarse, strict=True)]
    seconds = np.concatenate([t.seconds[~k & ~np.isnan(t.seconds)] for t, k in zip(tables, kept, strict=True)])

    def errors(constants: Efficiency) -> HeldOutErrors:
        ratios = log_ratios(tables, constants, hardware, "held out")
        logs = [own[~inside & ~np.isnan(own)] for own, inside in zip(ratios, kept, strict=True)]
        relative = np.abs(np.exp(-np.concatenate(logs)) - 1.0)
        long = relative[seconds >= SHORT]
        mape_long = float(long.mean()) if long.size else float("nan")
        return HeldOutErrors(relative.size, float(np.median(relative)), float(relative.mean()), mape_long)

    measured = sum(int((~np.isnan(table.seconds)).sum()) for table in tables)
    return HeldOut(
        kept=1.0 - len(seconds) / measured,
        surface=errors(with_surfaces(efficiency, coarse, hardware, "held out")),
        base=errors(efficiency),
    )


def coarser(table: SurfaceTable, share: float) -> SurfaceTable:
    """About `share` of the shapes of `table`: evenly spread positions of every axis."""
    several = [name for name, positions in table.axes.items() if len(positions) > 2]
    part = share ** (1.0 / max(len(several), 1))
    index = {
        name: np.unique(np.round(np.linspace(0, len(own) - 1, max(2, round(part * len(own))))).astype(int))
        if name in several
        else np.arange(len(own))
        for name, own in table.axes.items()
    }
    axes = {name: own[index[name]] for name, own in table.axes.items()}
    return dataclasses.replace(table, axes=axes, seconds=table.seconds[np.ix_(*index.values())])


def _inside(table: SurfaceTable, part: SurfaceTable) -> np.ndarray:
    """Whether a shape of `table` is in `part`."""
    masks = [np.isin(own, part.axes[name]) for name, own in table.axes.items()]
    return np.all(np.meshgrid(*masks, indexing="ij"), axis=0)

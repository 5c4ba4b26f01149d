"""Errors of a file of surfaces on kernels that it has not seen: fresh shapes off its grid, timed and compared."""

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

import hwspaces
from hwspaces.performance.efficiency import EfficiencyEntry
from hwspaces.performance.measured_ops import measured_ops
from hwspaces.performance.surface import SurfaceTable, read_surfaces
from hwspaces.performance.surface_efficiency import surface_efficiency
from jaxroof.efficiency import Efficiency
from jaxroof.hardware import Hardware
from jaxroof.numerics.arrays import jax
from jaxroof.numerics.arrays import jax_numpy as jnp
from jaxroof.roofline import op_time
from sweeps.measure.microbench.device import Device, seen_device
from sweeps.measure.microbench.kernels import Heads
from sweeps.measure.microbench.run import KINDS, work
from sweeps.measure.microbench.timing import Numbers, call_time, protocol

MULTIPLES = {"n": 128, "k": 128, "bytes": 1 << 16}
"""Axis -> what its positions are multiples of, as widths of models are; others are any whole number."""


class FreshShape(NamedTuple):
    """One fresh shape, and the nearest one that the table holds, timed again right after it."""

    table: str
    shape: dict[str, int]
    measured: float  # s
    predicted: float  # s, by the surfaces
    plain: float  # s, by the constants below them alone
    near_measured: float  # s, of the nearest known shape, now
    near_predicted: float  # s, as it was

    @property
    def error(self) -> float:
        """Predicted / measured - 1."""
        return self.predicted / self.measured - 1.0

    @property
    def drift(self) -> float:
        """The same of the known shape: what the machine alone differs from when the file was made."""
        return self.near_predicted / self.near_measured - 1.0

    @property
    def corrected(self) -> float:
        """Error of the fresh shape's time relative to the known one's, both of the same moment."""
        # The quotient of both ratios: what the state of the machine does to either time cancels.
        return (1.0 + self.error) / (1.0 + self.drift) - 1.0


@dataclasses.dataclass(frozen=True, eq=False)
class FileCheck:
    """What a file of surfaces is compared with: its tables, its device, and the constants below them."""

    tables: tuple[SurfaceTable, ...]  # of `jaxroof bench`, those that are checked
    hardware: Hardware  # that was measured
    efficiency: Efficiency  # with the tables in front of `base`
    base: EfficiencyEntry  # what prices everything else
    device: Device  # that JAX sees now
    implementations: Mapping[str, str]  # name of a table -> of the attention that it was measured with

    def rows(self, points: int, seed: int, said: Callable[[str, int], None]) -> list[FreshShape]:
        """Rows of `points` fresh shapes per table, each beside a known one, in random order, so that drifts hit all.

        Args:
          points: per table.
          seed: of the shapes and of the numbers that are multiplied.
          said: told how many are done.
        """
        random, numbers = np.random.default_rng(seed), Numbers(seed)
        how = protocol(self.device.platform, self.device.cache_bytes)
        cases = [(table, shape) for table in self.tables for shape in fresh_shapes(table, points, random)]
        rows = []
        for place in random.permutation(len(cases)):
            table, shape = cases[place]

            def timed(shape: dict[str, int], table: SurfaceTable = table) -> tuple[float, float]:
                """Measured and predicted."""
                predicted = predicted_time(table, shape, self.hardware, self.efficiency)
                # Attention runs by the implementation that the table was measured with, by XLA where the file names
                # none.
                implementation = self.implementations.get(table.name, "xla")
                kernel = work(_family(table), table.precision, _heads(table), implementation, shape)
                return call_time(kernel, numbers, how, expected=predicted).seconds, predicted

            plain = predicted_time(table, shape, self.hardware, self.base.efficiency)
            # The known shape is timed right after the fresh one, so that both see the machine in one state.
            rows.append(FreshShape(table.name, shape, *timed(shape), plain, *timed(known_shape(table, shape))))
            said("check", len(rows))
        return rows


def checked_file(
    path: str,
    families: Collection[str],
    precisions: Collection[str],
    hardware: str | None = None,
    efficiency: str | None = None,
) -> FileCheck:
    """The check of a file of `jaxroof bench` on the device that JAX sees.

    Args:
      families: keys of `SHARES`, and `precisions`: of tables that are checked.
      hardware: the device that the file was measured on; None: as it says.
      efficiency: constants below the tables.

    Raises:
      ValueError: one line that names the file, or what is not known.
    """
    file = read_surfaces(path)
    candidates = [table for table in file.tables if _family(table) in families and table.precision in precisions]
    # A table whose name and kind do not belong together is none that a benchmark wrote.
    tables = tuple(table for table in candidates if KINDS.get(_family(table)) == table.kind)
    if not tables:
        raise ValueError(f"{path}: no table of `jaxroof bench` among those asked for")
    base = hwspaces.efficiency(efficiency)
    try:
        entry = hwspaces.hardware(hardware or file.provenance.get("device", ""))
    except ValueError as error:
        raise ValueError(f"--hardware, the device of {path}, is needed: {error}") from None
    # Measured tables go in front of the base constants, which price every op that no table holds.
    surfaces = surface_efficiency(path, base, entry.hardware)
    implementations = {table.name: file.provenance.get(f"{table.name}_implementation", "xla") for table in tables}
    return FileCheck(tables, entry.hardware, surfaces.efficiency, base, seen_device(hardware), implementations)


def _family(table: SurfaceTable) -> str:
    return table.name.partition("_")[0]


def check_errors(rows: Sequence[FreshShape]) -> dict[str, dict[str, float]]:
    """Median magnitudes of the errors of `FreshShape`, of every table and of all of them."""
    medians = {}
    for name in [*sorted({row.table for row in rows}), "all"]:
        chosen = [row for row in rows if name in (row.table, "all")]
        medians[name] = {
            "shapes": len(chosen),
            "error": float(np.median([abs(row.error) for row in chosen])),
            "drift": float(np.median([abs(row.drift) for row in chosen])),
            "corrected": float(np.median([abs(row.corrected) for row in chosen])),
            "plain": float(np.median([abs(row.plain / row.measured - 1.0) for row in chosen])),
        }
    return medians


def known_shape(table: SurfaceTable, shape: dict[str, int]) -> dict[str, int]:
    """The nearest position of the grid."""
    return {
        # Distance in the logarithm, as positions of the grid are in ratios.
        axis: int(positions[np.argmin(abs(np.log(positions / shape[axis])))])
        for axis, positions in table.axes.items()
    }


def fresh_shapes(table: SurfaceTable, points: int, random: np.random.Generator) -> list[dict[str, int]]:
    """Random shapes inside the table, uniform in the logarithm of every axis, none of them a position of the grid."""
    shapes: list[dict[str, int]] = []
    while len(shapes) < points:
        shape = {}
        for axis, positions in table.axes.items():
            low, high, step = positions[0], positions[-1], MULTIPLES.get(axis, 1)
            value = np.exp(random.uniform(np.log(low), np.log(high)))
            # Rounding may leave the range of the table, beyond which it holds no time to interpolate.
            shape[axis] = int(np.clip(round(value / step) * step, low, high))
        shapes.append(shape)
    return shapes


def predicted_time(table: SurfaceTable, shape: dict[str, int], hardware: Hardware, efficiency: Efficiency) -> float:
    """Time in s that the efficiency gives the kernel of one shape."""
    row = {name: jnp.float32(value) for name, value in (shape | table.labels).items()}
    before, own = measured_ops(table, row)
    return float(sum(jax.tree.leaves([op_time(op, hardware, efficiency) for op in (*before, *own)])))


def _heads(table: SurfaceTable) -> Heads:
    if "heads" not in table.labels:
        return Heads()
    return Heads(*(int(table.labels[name]) for name in ("heads", "kv_heads", "head_dim")))

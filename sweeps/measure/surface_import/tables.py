"""Tables from rows: a grid where most of its shapes were measured, else a list; rows that no device could reach."""

import dataclasses

import numpy as np

from hwspaces.performance.measured_ops import measured_ops
from hwspaces.performance.surface import SurfaceTable
from jaxroof.hardware import Hardware, matrix_peak
from jaxroof.numerics.arrays import eager
from sweeps.measure.surface_import.kernel_rows import KernelRows

GRID = 0.5
"""Share of a grid's shapes that were measured, from which on a table is one. Holes are interpolated like any shape
between measured ones: only the size of a file depends on it."""


@dataclasses.dataclass
class Dropped:
    """Numbers of rows that were left out, by reason."""

    duplicates: int = 0
    impossible: int = 0


def table_of(rows: KernelRows, name: str) -> SurfaceTable:
    """The table `name` of rows of one kind and one set of labels."""
    nodes = np.prod([float(len(np.unique(values))) for values in rows.axes.values()])
    if len(rows) < GRID * nodes:
        return SurfaceTable(name, rows.kind, rows.precision, dict(rows.axes), rows.seconds, rows.labels, listed=True)
    axes, seconds = grid(rows)
    return SurfaceTable(name, rows.kind, rows.precision, axes, seconds, rows.labels)


def without_duplicates(rows: KernelRows, drop: bool, dropped: Dropped) -> KernelRows:
    """The first of rows with one shape; ValueError names the second where nothing may be dropped."""
    shapes = np.stack(list(rows.axes.values()), axis=1)
    _, first, place = np.unique(shapes, axis=0, return_index=True, return_inverse=True)
    # Rows that are not the first with their shape.
    again = np.flatnonzero(first[place.ravel()] != np.arange(len(rows)))
    if len(again) and not drop:
        earlier = rows.lines[first[place.ravel()[again[0]]]]
        raise ValueError(f"{rows.place(again[0])}: the shape is there already in row {earlier}; --drop keeps the first")
    dropped.duplicates += len(again)
    return rows.chosen(np.sort(first))


def grid(rows: KernelRows) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Positions of every axis, and times over all of them, not a number where there is none."""
    axes, index = {}, []
    for name, values in rows.axes.items():
        axes[name], own = np.unique(values, return_inverse=True)
        # Position of every row along the axis, shape [rows].
        index.append(own.ravel())
    seconds = np.full(tuple(map(len, axes.values())), np.nan)
    seconds[tuple(index)] = rows.seconds
    return axes, seconds


# Measured times that no device could reach: of a benchmark that skipped work, or of another device.


TOLERANCE = 1.05
"""How far a time may be below the datasheet's bound: clocks boost, and vendors round."""


def possible(rows: KernelRows, hardware: Hardware, drop: bool, dropped: Dropped) -> KernelRows:
    """The rows that are not faster than the datasheet allows.

    Args:
      rows: of one kind and one set of labels.
      hardware: that they were measured on.
      drop: leave out the others and count them, rather than refuse them.
      dropped: is added to.

    Raises:
      ValueError: one line that names file, row, time and the bound.
    """
    shapes = np.stack(list(rows.axes.values()))
    # Two conditions of every row: a finite positive time, and finite positive positions on all axes.
    times, shaped = (np.all(np.isfinite(v) & (v > 0), axis=0) for v in (rows.seconds[None], shapes))
    for good, words in ((times, "{:g} us is not a time"), (shaped, "not a shape")):
        if not (drop or good.all()):
            row = int(np.argmin(good))
            raise ValueError(f"{rows.place(row)}: {words.format(rows.seconds[row] * 1e6)}; --drop leaves it out")
    good = times & shaped
    # Roofline: a time below matrix work at peak, or below bytes at HBM bandwidth, cannot have been measured.
    matrix, memory = shortest_times(rows, hardware)
    for name, bound in (("MFU", matrix), ("share of HBM bandwidth", memory)):
        too_fast = good & (bound > TOLERANCE * rows.seconds)
        if too_fast.any() and not drop:
            row = int(np.argmax(too_fast))
            raise ValueError(
                f"{rows.place(row)}: {rows.seconds[row] * 1e6:.4g} us is faster than the datasheet allows: "
                f"{name} {bound[row] / rows.seconds[row]:.2f}; --drop leaves it out"
            )
        good &= ~too_fast
    dropped.impossible += int((~good).sum())
    return rows.chosen(good)


def shortest_times(rows: KernelRows, hardware: Hardware) -> tuple[np.ndarray, np.ndarray]:
    """s that the matrix work takes at peak, and the bytes at HBM bandwidth of what L2 cannot hold, shape [rows] each.

    Raises:
      ValueError: the device has no matrix figure for the precision.
    """
    table = SurfaceTable("", rows.kind, rows.precision, {}, np.zeros(0), rows.labels)
    with eager():
        ops = measured_ops(table, rows.labels | rows.axes).own
        work = sum((np.asarray(op.matrix_flops) for op in ops if op.matrix_flops is not None), np.zeros(len(rows)))
        moved = sum((np.asarray(op.bytes) for op in ops), np.zeros(len(rows)))
    # Element-wise kernels have no matrix work: whatever stands for the peak divides 0.
    peak = 1.0
    if any(op.matrix_flops is not None for op in ops):
        try:
            peak = matrix_peak(hardware, rows.precision)
        except ValueError as error:
            raise ValueError(f"{rows.file}: precision {rows.precision}: {error}") from None
    # Repeated calls may find as many bytes as L2 holds there, which HBM then does not deliver.
    l2 = 0.0 if hardware.memory.l2 is None else hardware.memory.l2.capacity
    return work / peak, np.maximum(moved - l2, 0.0) / hardware.memory.hbm.bandwidth

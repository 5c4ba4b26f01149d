"""Complete rectilinear grids from rows: missing points, repeated points, and the largest part without holes."""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hwspaces.performance.surface import FLAGS, SurfaceTable, node_ops
from jaxroof.hardware import Hardware, matrix_peak
from jaxroof.numerics.arrays import jax
from jaxroof.numerics.arrays import jax_numpy as jnp
from sweeps.measure.surface_import.kernel_rows import KernelRows

SCATTERED = 0.5
"""Below that share of pairs (n, k) that were measured, a benchmark's products are a list, not a grid."""


@dataclasses.dataclass
class Dropped:
    """Numbers of rows that were left out, by reason."""

    duplicates: int = 0
    impossible: int = 0
    holes: int = 0


def tables(rows: KernelRows, drop: bool, holes: str, dropped: Dropped, name: str) -> Iterator[SurfaceTable]:
    """The tables that `rows` make: one grid; of products with scattered weights, one of every weight matrix.

    Args:
      rows: of one kind and one set of labels.
      drop: leave out shapes that are there twice and count them, rather than refuse them.
      holes: what happens to shapes that are missing: refuse; drop positions until the grid is complete; keep them
        missing.
      dropped: is added to.
      name: of the table.

    Raises:
      ValueError: one line that names file and row: a shape is there twice, or the grid has holes.
    """
    rows = without_duplicates(rows, drop, dropped)
    # A joint grid over scattered pairs (n, k) would be mostly holes: each matrix has a grid of its own.
    parts = _by_matrix(rows) if rows.kind == "linear" and _scattered(rows) else {name: rows}
    for own, part in ((own if own == name else f"{name}_{own}", part) for own, part in parts.items()):
        axes, seconds = grid(part)
        missing = np.isnan(seconds)
        if missing.any() and holes == "refuse":
            first = np.unravel_index(int(np.argmax(missing)), missing.shape)
            where = zip(first, axes.items(), strict=True)
            place = ", ".join(f"{axis} {values[i]:g}" for i, (axis, values) in where)
            raise ValueError(
                f"{part.file}: rows {part.lines[0]} to {part.lines[-1]}: {own} has holes: "
                f"{int(missing.sum())} of {missing.size} shapes are missing, the first {place}; "
                "--drop keeps a complete part, --keep-holes all"
            )
        if holes == "drop":
            axes, seconds = complete(axes, seconds)
            # Counted are measured shapes that go with the removed positions, not the holes themselves.
            dropped.holes += int((~missing).sum()) - seconds.size
        yield SurfaceTable(own, part.kind, part.precision, axes, seconds, part.labels)


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


def complete(axes: dict[str, np.ndarray], seconds: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """A part of the grid without holes: positions go, one after the other, that have most holes for what they hold."""
    axes = dict(axes)
    while np.isnan(seconds).any():
        holes, best = np.isnan(seconds), (0.0, 0, 0)
        for dimension in range(seconds.ndim):
            others = tuple(i for i in range(seconds.ndim) if i != dimension)
            missing = holes.sum(axis=others)
            held = (~holes).sum(axis=others)
            # The lower bound of 0.5 keeps the quotient finite and puts positions without any measured shape first.
            share = missing / np.maximum(held, 0.5)
            best = max(best, (float(share.max()), dimension, int(share.argmax())))
        _, dimension, position = best
        seconds = np.delete(seconds, position, axis=dimension)
        name = list(axes)[dimension]
        axes[name] = np.delete(axes[name], position)
    return axes, seconds


def _scattered(rows: KernelRows) -> bool:
    """Whether the weight matrices of products are a list rather than a grid."""
    n, k = rows.axes["n"], rows.axes["k"]
    pairs = len(np.unique(np.stack([n, k], axis=1), axis=0))
    return pairs < SCATTERED * len(np.unique(n)) * len(np.unique(k))


def _by_matrix(rows: KernelRows) -> dict[str, KernelRows]:
    pairs = np.stack([rows.axes["n"], rows.axes["k"]], axis=1)
    unique, place = np.unique(pairs, axis=0, return_inverse=True)
    return {f"{n:g}x{k:g}": rows.chosen(place.ravel() == i) for i, (n, k) in enumerate(unique)}


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
    device = f"{rows.file}: precision {rows.precision}"
    # Element-wise kernels have no matrix work: whatever stands for the peak divides 0.
    peak = 1.0
    if rows.kind in ("linear", "prefill_attention", "decode_attention"):
        try:
            peak = matrix_peak(hardware, rows.precision)
        except ValueError as error:
            raise ValueError(f"{device}: {error}") from None
    padding = (1 << max(len(rows) - 1, 1).bit_length()) - len(rows)  # few lengths, so that few programs are compiled
    columns = {name: np.pad(values, (0, padding), mode="edge") for name, values in rows.axes.items()}
    structure = rows.kind, rows.precision, tuple(rows.labels), tuple(rows.labels.get(flag) for flag in FLAGS)
    work, moved = (np.asarray(column)[: len(rows)] for column in _program(*structure)(columns, rows.labels))
    # Repeated calls may find as many bytes as L2 holds there, which HBM then does not deliver.
    l2 = 0.0 if hardware.memory.l2 is None else hardware.memory.l2.capacity
    return work / peak, np.maximum(moved - l2, 0.0) / hardware.memory.hbm.bandwidth


@functools.cache
def _program(kind: str, precision: str, names: tuple[str, ...], flags: tuple[float | None, ...]) -> Callable[..., Any]:
    """FLOP and B of rows of one structure, compiled once for it."""
    # Which labels and flags there are decides the program; their other values are arguments of it.
    structure = dict.fromkeys(names, 1.0) | {flag: value for flag, value in zip(FLAGS, flags, strict=True) if value}
    table = SurfaceTable("", kind, precision, {}, np.zeros(0), structure)

    def work(row: dict[str, Any], labels: dict[str, Any]) -> tuple[Any, ...]:
        op = node_ops(table, {**labels, **row})[-1]
        return jnp.zeros(()) if op.matrix_flops is None else op.matrix_flops, op.bytes

    return jax.jit(jax.vmap(work, in_axes=(0, None)))

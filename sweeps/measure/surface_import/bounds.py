"""Measured times that no device could reach: of a benchmark that skipped work, or of another device."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from hwspaces.performance.surface import FLAGS, SurfaceTable, node_ops
from jaxroof.hardware import Hardware, matrix_peak
from sweeps.measure.surface_import.complete_grid import Dropped
from sweeps.measure.surface_import.kernel_rows import KernelRows

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
    times, shaped = (np.all(np.isfinite(v) & (v > 0), axis=0) for v in (rows.seconds[None], shapes))
    for good, words in ((times, "{:g} us is not a time"), (shaped, "not a shape")):
        if not (drop or good.all()):
            row = int(np.argmin(good))
            raise ValueError(f"{rows.place(row)}: {words.format(rows.seconds[row] * 1e6)}; --drop leaves it out")
    good = times & shaped
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
    l2 = 0.0 if hardware.memory.l2 is None else hardware.memory.l2.capacity
    return work / peak, np.maximum(moved - l2, 0.0) / hardware.memory.hbm.bandwidth


@functools.cache
def _program(kind: str, precision: str, names: tuple[str, ...], flags: tuple[float | None, ...]) -> Callable:
    """FLOP and B of rows of one structure, compiled once for it."""
    structure = dict.fromkeys(names, 1.0) | {flag: value for flag, value in zip(FLAGS, flags, strict=True) if value}
    table = SurfaceTable("", kind, precision, {}, np.zeros(0), structure)

    def work(row: dict, labels: dict) -> tuple:
        op = node_ops(table, {**labels, **row})[-1]
        return jnp.zeros(()) if op.matrix_flops is None else op.matrix_flops, op.bytes

    return jax.jit(jax.vmap(work, in_axes=(0, None)))

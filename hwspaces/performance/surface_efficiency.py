"""Efficiency constants that reproduce the times of a user's measured kernels."""

import dataclasses
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hwspaces.accelerators.load import hardware as catalogue_hardware
from hwspaces.performance.kernel_tables import hull_of
from hwspaces.performance.surface import AXES, FLAGS, SurfaceTable, node_ops, read_surfaces
from jaxroof.efficiency import Efficiency, Hull
from jaxroof.efficiency.surface import BORDERS, INTERPOLATIONS, LABELS, Surface, SurfaceAxis, Surfaces
from jaxroof.hardware import Hardware
from jaxroof.layers.linear import OPERAND_BYTES
from jaxroof.numerics.arrays import eager
from jaxroof.roofline import op_time

STORED = {"linear", "prefill_attention", "decode_attention", "elementwise"}
"""Kinds of tables that price ops."""

_MARGIN = 1e-2
"""Of a bucket: what a logarithm may be rounded by."""

LARGEST_PART = 0.5
"""Of a measured product with its quantisation, that the quantising kernel takes at most."""


def surface_efficiency(
    path: str | os.PathLike[str], base: Any, hardware: Hardware | None = None, interpolation: str = "linear"
) -> Any:
    """`base` with the tables of the file `path` in front of it.

    Args:
      path: a netCDF file of `hwspaces.performance.surface`.
      base: the `EfficiencyEntry` that prices what was not measured.
      hardware: the device that was measured; None: the one of the catalogue that the file names.
      interpolation: between measured shapes; one of `jaxroof.efficiency.surface.INTERPOLATIONS`.

    Returns:
      An `EfficiencyEntry`. Its tables are structure: equal files read twice are compiled twice.

    Raises:
      ValueError: one line that names the file: it cannot be read, its device is unknown or has no figure for a
        precision, or two of its tables are the same.
    """
    file = read_surfaces(path)
    device = file.provenance.get("device", "")
    if hardware is None:
        try:
            hardware = catalogue_hardware(device).hardware
        except ValueError as error:
            raise ValueError(f"{path}: device = {device!r}, which the times are compared with: {error}") from None
    efficiency = with_surfaces(base.efficiency, file.tables, hardware, str(path), interpolation)
    holes = sum(int(np.isnan(table.seconds).sum()) for table in file.tables)
    missing = f"; {holes} shapes were not measured and follow their neighbours" if holes else ""
    # Kinds whose model has tables in front of it now; the others are the base's own.
    changed = [kind for kind in STORED if getattr(efficiency, kind) is not getattr(base.efficiency, kind)]
    sources = {_moved(constant, changed): source for constant, source in base.sources.items()}
    words = [file.provenance.get(key) for key in ("engine", "engine_version")]
    return dataclasses.replace(
        base,
        name=f"surface:{Path(path).stem}",
        efficiency=efficiency,
        sources=sources | {f"{kind}.tables": f"measured on {device}: {path}" for kind in changed},
        engine=" ".join(word for word in words if word) or base.engine,
        date=file.provenance.get("date", base.date),
        notes=(*base.notes, f"kernels of {', '.join(sorted(changed)) or 'no kind'} as measured on {device}{missing}"),
        file=str(path),
    )


def with_surfaces(
    efficiency: Efficiency,
    tables: Sequence[SurfaceTable],
    hardware: Hardware,
    where: str,
    interpolation: str = "linear",
) -> Efficiency:
    """`efficiency` with `tables`, measured on `hardware`, in front of the models of their kinds.

    Args:
      efficiency: whose entries the tables are relative to.
      tables: of any kinds; those that are no op's are left out.
      hardware: that was measured.
      where: file, for messages.
      interpolation: one of `jaxroof.efficiency.surface.INTERPOLATIONS`.
    """
    if interpolation not in INTERPOLATIONS:
        raise ValueError(f"interpolation = {interpolation!r} must be one of {', '.join(INTERPOLATIONS)}")
    # Tables of one class become one surface, in which labels choose between them.
    alike: dict[tuple[Any, ...], list[SurfaceTable]] = {}
    for table in tables:
        if table.kind in STORED:
            alike.setdefault(_class(table), []).append(table)
    kinds: dict[str, tuple[Surface, ...]] = {}
    for group in alike.values():
        surface = _surface(group, efficiency, hardware, where, interpolation)
        kinds[surface.kind] = (*kinds.get(surface.kind, ()), surface)
    entries: dict[str, Any] = {
        kind: Surfaces(base=getattr(efficiency, kind), tables=surfaces, hull=_device_hull(kind, tables, hardware))
        for kind, surfaces in kinds.items()
    }
    return dataclasses.replace(efficiency, **entries)


def _device_hull(kind: str, tables: Sequence[SurfaceTable], hardware: Hardware) -> Hull:
    """The measured device as a hull; shapes and precisions are the tables' own."""
    with eager():
        # The last op is the measured one; one before it quantises activations.
        ops = [node_ops(table, _rows(table))[-1] for table in tables if table.kind == kind]
    return dataclasses.replace(hull_of(((op, hardware) for op in ops), shapes=False), precisions=())


def log_ratios(
    tables: Sequence[SurfaceTable], efficiency: Efficiency, hardware: Hardware, where: str
) -> list[np.ndarray]:
    """Log of the measured time over that of `efficiency` at every position of every table, in the tables' shapes.

    Of a time that includes the quantising kernel, what `efficiency` says of that kernel is taken off before.
    """
    alike: dict[tuple[Any, ...], list[int]] = {}
    for position, table in enumerate(tables):
        # Tables whose positions give the same kinds of ops are priced in one call.
        flags = tuple(table.labels.get(name) for name in FLAGS)
        alike.setdefault((table.kind, table.precision, tuple(table.labels), flags), []).append(position)
    ratios: dict[int, np.ndarray] = {}
    for positions in alike.values():
        rows = [_rows(tables[position]) for position in positions]
        columns = {name: np.concatenate([own[name] for own in rows]) for name in rows[0]}
        try:
            times = _node_times(tables[positions[0]], columns, hardware, efficiency)
        except ValueError as error:
            raise ValueError(f"{where}: {tables[positions[0]].name}: {error}") from None
        # Where the rows of one table end and those of the next begin.
        ends = np.cumsum([tables[position].seconds.size for position in positions])[:-1]
        for position, before, base in zip(positions, *(np.split(time, ends) for time in times), strict=True):
            measured = tables[position].seconds
            # A predicted quantising kernel must not use up the measured time: at most `LARGEST_PART` of it is taken
            # off.
            own = np.maximum(measured - before.reshape(measured.shape), (1.0 - LARGEST_PART) * measured)
            ratios[position] = np.log(own / base.reshape(measured.shape))
    return [ratios[position] for position in range(len(tables))]


def _rows(table: SurfaceTable) -> dict[str, np.ndarray]:
    """Position along every axis and labels of every measured time, shape [times] each."""
    grid = dict(zip(table.axes, np.meshgrid(*table.axes.values(), indexing="ij"), strict=True))
    numbers = {**grid, **table.labels}
    return {name: np.broadcast_to(value, table.seconds.shape).ravel() for name, value in numbers.items()}


def _node_times(
    table: SurfaceTable, columns: dict[str, np.ndarray], hardware: Hardware, efficiency: Efficiency
) -> tuple[np.ndarray, np.ndarray]:
    """Times in s of the quantising kernels and of the measured ones under `efficiency`, shape [times] each."""

    def seconds(row: dict[str, Any], device: Hardware, constants: Efficiency) -> tuple[Any, ...]:
        *before, op = node_ops(table, row)
        return sum((op_time(own, device, constants) for own in before), np.zeros(())), op_time(op, device, constants)

    floats = {name: column.astype(float) for name, column in columns.items()}
    with eager():
        # A time that depends on no column is one number for all rows.
        before, base = seconds(floats, hardware, efficiency)
    shape = next(iter(floats.values())).shape
    return np.broadcast_to(before, shape), np.broadcast_to(base, shape)


def _surface(
    tables: list[SurfaceTable], efficiency: Efficiency, hardware: Hardware, where: str, interpolation: str
) -> Surface:
    """Tables of one kind of kernel over the union of their positions, on which each is exactly itself."""
    first = tables[0]
    # An axis on which every table has a single position chooses between tables, as labels do.
    single = [axis for axis in first.axes if all(len(table.axes[axis]) == 1 for table in tables)]
    names = [name for name in LABELS[first.kind] if name in single or name not in AXES[first.kind]]
    # In octaves, shape [tables, labels].
    labels = np.log2([[_label(table, name) for name in names] for table in tables]).reshape(len(tables), len(names))
    # Nothing would choose between two tables of equal labels.
    for i, j in zip(*np.triu_indices(len(tables), 1), strict=True):
        if np.array_equal(labels[i], labels[j]):
            raise ValueError(f"{where}: {tables[i].name} and {tables[j].name} are tables of the same kernel")
    grid_axes = [axis for axis in first.axes if axis not in single]
    if not grid_axes:
        grid_axes = [next(iter(first.axes))]
    # On the union of positions every table still is itself at its own ones: it is linear between them.
    positions = {axis: np.unique(np.concatenate([table.axes[axis] for table in tables])) for axis in grid_axes}
    values_of_tables = []
    for table, values in zip(tables, log_ratios(tables, efficiency, hardware, where), strict=True):
        own_axes = [table.axes[axis] for axis in grid_axes]
        values = filled(values.reshape([len(axis) for axis in own_axes]), own_axes)
        for dimension, axis in enumerate(grid_axes):
            values = _resampled(values, dimension, table.axes[axis], positions[axis])
        # Interpolation needs two positions: a single one is repeated.
        values_of_tables.append(np.pad(values, [(0, int(n == 1)) for n in values.shape], mode="edge"))
    return Surface(
        kind=first.kind,
        precision=None if first.kind == "elementwise" else first.precision,
        scaled=bool(first.labels.get("scaled")),
        dequantised=bool(first.labels.get("dequantised")),
        axes=tuple(_axis(name, own) for name, own in positions.items()),
        names=tuple(names),
        labels=labels.astype(np.float32),
        values=np.stack(values_of_tables).astype(np.float32),
        interpolation=interpolation,
    )


def _axis(name: str, positions: np.ndarray) -> SurfaceAxis:
    """The axis with its buckets; one position alone is a cell in which nothing changes."""
    ends = positions if len(positions) > 1 else np.array([positions[0], 2.0 * positions[0]])
    octaves = np.log2(ends)
    # Buckets are narrower than any `BORDERS` cells together, so that so many comparisons find the cell of a position.
    apart = octaves[BORDERS:] - octaves[:-BORDERS]
    per_octave = (1.0 + 3.0 * _MARGIN) / float(apart.min()) if len(apart) else 1.0
    begins = octaves[0] + np.arange(math.ceil((octaves[-1] - octaves[0]) * per_octave)) / per_octave
    # The cell in which a bucket begins, a margin earlier for rounded logarithms.
    cells = np.searchsorted(octaves, begins - _MARGIN / per_octave, side="right") - 1
    return SurfaceAxis(
        name=name,
        low=float(positions[0]),
        high=float(positions[-1]),
        buckets_per_octave=per_octave,
        cells=np.clip(cells, 0, len(ends) - 2).astype(np.int32),
        lower=ends[:-1].astype(np.float32),
        upper=ends[1:].astype(np.float32),
        octaves=np.diff(octaves).astype(np.float32),
    )


def filled(values: np.ndarray, axes: Sequence[np.ndarray]) -> np.ndarray:
    """`values` with what was not measured taken from its neighbours.

    The mean over the axes on which both neighbours are known of what is between them, linear in octaves; where there
    is no such axis, the mean over the axes of the nearest known value; and so on until all is known.
    """
    while (holes := np.isnan(values)).any():
        total, count = np.zeros(values.shape), np.zeros(values.shape)
        # Holes between known values first; those beyond all known ones only where there are no others.
        for inside in (True, False):
            for dimension, axis in enumerate(axes):
                own = np.apply_along_axis(_line, dimension, values, np.log2(axis), inside)
                known = holes & ~np.isnan(own)
                total[known] += own[known]
                count[known] += 1.0
            if count.any():
                break
        values = np.where(count > 0, total / np.maximum(count, 1.0), values)
    return values


def _line(values: np.ndarray, octaves: np.ndarray, inside: bool) -> np.ndarray:
    known = ~np.isnan(values)
    if not known.any():
        return values
    # None lets `np.interp` go on with the outermost value.
    beyond = np.nan if inside else None
    return np.interp(octaves, octaves[known], values[known], left=beyond, right=beyond)


def _resampled(values: np.ndarray, dimension: int, own: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """`values` at the positions `wanted` of one dimension: linear in octaves between their own, constant beyond."""
    return np.apply_along_axis(lambda line: np.interp(np.log2(wanted), np.log2(own), line), dimension, values)


def _class(table: SurfaceTable) -> tuple[Any, ...]:
    """Class of a table, for tables that no label can choose between."""
    precision = None if table.kind == "elementwise" else table.precision
    return table.kind, precision, bool(table.labels.get("scaled")), bool(table.labels.get("dequantised"))


def _label(table: SurfaceTable, name: str) -> float:
    if name in table.axes:
        return float(table.axes[name][0])
    if name == "weight_bytes":
        return table.labels.get(name, OPERAND_BYTES.get(table.precision, 1.0))
    return table.labels[name]


def _moved(constant: str, changed: list[str]) -> str:
    """Dotted path of a constant of the base, now that its kind has tables in front of it."""
    kind, _, rest = constant.partition(".")
    return f"{kind}.base.{rest}" if kind in changed else constant

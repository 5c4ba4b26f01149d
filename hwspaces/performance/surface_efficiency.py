"""Efficiency constants that reproduce the times of a user's measured kernels."""

import dataclasses
import itertools
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hwspaces.accelerators.load import hardware as catalogue_hardware
from hwspaces.performance.kernel_tables import hull_of
from hwspaces.performance.measured_ops import MeasuredOps, measured_ops
from hwspaces.performance.scattered import MOST_NODES, SAME, grid_axes, gridded
from hwspaces.performance.surface import FLAGS, SurfaceTable, read_surfaces, table_rows
from jaxroof.efficiency import Efficiency, Hull
from jaxroof.efficiency.surface import (
    AXES,
    BORDERS,
    INTERPOLATIONS,
    LABELS,
    Surface,
    SurfaceAxis,
    Surfaces,
    coordinates,
    op_form,
)
from jaxroof.hardware import Hardware
from jaxroof.numerics.arrays import eager
from jaxroof.op import KINDS
from jaxroof.roofline import op_time

_MARGIN = 1e-2
"""Of a bucket: what a logarithm may be rounded by."""

LARGEST_PART = 0.5
"""Of a measured time, that what it includes beside the table's own ops takes at most."""


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
    changed = [kind for kind in KINDS if getattr(efficiency, kind) is not getattr(base.efficiency, kind)]
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
    # Ops of one class become one surface, whichever tables they are of.
    alike: dict[OpClass, list[_Points]] = {}
    for points in _points([table for table in tables if table.kind != "copy"], efficiency, hardware, where):
        alike.setdefault(points.op_class, []).append(points)
    kinds: dict[str, tuple[Surface, ...]] = {}
    for op_class, parts in alike.items():
        surface = _surface(op_class, parts, where, interpolation)
        kinds[surface.kind] = (*kinds.get(surface.kind, ()), surface)
    entries: dict[str, Any] = {
        kind: Surfaces(base=getattr(efficiency, kind), tables=surfaces, hull=_device_hull(kind, tables, hardware))
        for kind, surfaces in kinds.items()
    }
    return dataclasses.replace(efficiency, **entries)


def _device_hull(kind: str, tables: Sequence[SurfaceTable], hardware: Hardware) -> Hull:
    """The measured device as a hull; shapes and precisions are the tables' own."""
    with eager():
        ops = [op for table in tables for op in measured_ops(table, table_rows(table)).own if op.kind == kind]
    return dataclasses.replace(hull_of(((op, hardware) for op in ops), shapes=False), precisions=())


class OpClass(NamedTuple):
    """What one surface is of."""

    kind: str
    form: str
    precision: str | None
    scaled: bool
    dequantised: bool


class _Points(NamedTuple):
    """Measured shapes of ops of one class."""

    op_class: OpClass
    table: str  # name
    positions: dict[str, np.ndarray]  # by dimension and label, shape [shapes] each
    values: np.ndarray  # log(measured / base), shape [shapes]


def log_ratios(
    tables: Sequence[SurfaceTable], efficiency: Efficiency, hardware: Hardware, where: str
) -> list[np.ndarray]:
    """Log of the measured time over that of `efficiency` at every position of every table, in the tables' shapes.

    Of what a time includes beside the table's own ops, such as quantising, what `efficiency` says is taken off before.
    """
    ratios = []
    for table, (_, own) in zip(tables, _priced(tables, efficiency, hardware, where), strict=True):
        values = np.full(table.seconds.shape, np.nan)
        values[table.measured] = own
        ratios.append(values)
    return ratios


def _points(
    tables: Sequence[SurfaceTable], efficiency: Efficiency, hardware: Hardware, where: str
) -> Iterator[_Points]:
    """Measured shapes of all tables: of both products of a layer each, as far from the model as the layer is."""
    for table, (ops, values) in zip(tables, _priced(tables, efficiency, hardware, where), strict=True):
        for op in ops.own:
            form = op_form(op)
            if form is None:
                continue
            product = form == "product"
            op_class = OpClass(
                kind=op.kind,
                form=form,
                precision=None if op.kind == "elementwise" else op.precision,
                scaled=product and op.scaled,
                dequantised=product and op.vector_flops is not None,
            )
            with eager():
                there = {
                    name: np.broadcast_to(np.asarray(n, float), values.shape) for name, n in coordinates(op).items()
                }
            yield _Points(op_class, table.name, there, values)


def _priced(
    tables: Sequence[SurfaceTable], efficiency: Efficiency, hardware: Hardware, where: str
) -> list[tuple[MeasuredOps, np.ndarray]]:
    """Ops of all measured shapes of every table, and log(measured / base), shape [measured times]."""
    alike: dict[tuple[Any, ...], list[int]] = {}
    for position, table in enumerate(tables):
        # Tables whose positions give the same kinds of ops are priced in one call.
        flags = tuple(table.labels.get(name) for name in FLAGS)
        alike.setdefault((table.kind, table.precision, tuple(table.axes), tuple(table.labels), flags), []).append(
            position
        )
    found: dict[int, tuple[MeasuredOps, np.ndarray]] = {}
    for positions in alike.values():
        rows = [table_rows(tables[position]) for position in positions]
        columns = {name: np.concatenate([own[name] for own in rows]) for name in rows[0]}
        try:
            before, base = _op_times(tables[positions[0]], columns, hardware, efficiency)
        except ValueError as error:
            raise ValueError(f"{where}: {tables[positions[0]].name}: {error}") from None
        start = 0
        for position, row in zip(positions, rows, strict=True):
            table = tables[position]
            measured = table.seconds[table.measured]
            part = slice(start, start := start + len(measured))
            # Predictions of the rest must not use up the measured time: at most `LARGEST_PART` of it is taken off.
            own = np.maximum(measured - before[part], (1.0 - LARGEST_PART) * measured)
            with eager():
                found[position] = measured_ops(table, row), np.log(own / base[part])
    return [found[position] for position in range(len(tables))]


def _op_times(
    table: SurfaceTable, columns: dict[str, np.ndarray], hardware: Hardware, efficiency: Efficiency
) -> tuple[np.ndarray, np.ndarray]:
    """Times in s of what is measured beside, and of the table's own ops, under `efficiency`, shape [times] each."""
    shape = next(iter(columns.values())).shape
    with eager():
        ops = measured_ops(table, columns)
        # A time that depends on no column is one number for all rows.
        return tuple(  # type: ignore[return-value]
            np.broadcast_to(sum((op_time(op, hardware, efficiency) for op in part), np.zeros(())), shape)
            for part in ops
        )


def _surface(op_class: OpClass, parts: Sequence[_Points], where: str, interpolation: str) -> Surface:
    """The shapes of one class of ops over a grid of all their positions, one table for every set of labels."""
    names = tuple(LABELS[op_class.form])
    positions = {name: np.concatenate([part.positions[name] for part in parts]) for name in parts[0].positions}
    values, owners = np.concatenate([part.values for part in parts]), [part.table for part in parts]
    owner = np.repeat(np.arange(len(parts)), [len(part.values) for part in parts])
    # In octaves, shape [shapes, dimensions]; those with one position are no axes.
    dimensions = [name for name in AXES[op_class.form] if name in positions]
    points = np.log2(np.stack([positions[name] for name in dimensions], axis=1))
    several = np.ptp(points, axis=0) > SAME
    if not several.any():
        several[0] = True
    _require_different(points, positions, names, owner, owners, where)
    # Labels in octaves, shape [tables, labels]; rounded, so that a sum of the same numbers is the same label.
    own = np.log2(np.stack([positions[name] for name in names], axis=1)) if names else np.zeros((len(values), 0))
    labels, place = np.unique(np.round(own, 4), axis=0, return_inverse=True)
    axes = grid_axes(points[:, several], MOST_NODES // len(labels))
    grids = [
        gridded(points[place.ravel() == i][:, several], values[place.ravel() == i], axes) for i in range(len(labels))
    ]
    # Interpolation needs two positions: a single one is repeated.
    padding = [(0, int(len(axis) == 1)) for axis in axes]
    stacked = [np.stack([np.pad(grid[i], padding, mode="edge") for grid in grids]).astype(np.float32) for i in (0, 1)]
    axis_names = [name for name, more in zip(dimensions, several, strict=True) if more]
    fixed = {name: float(2.0 ** points[0, i]) for i, name in enumerate(dimensions) if not several[i]}
    return Surface(
        **op_class._asdict(),
        axes=tuple(_axis(name, 2.0**axis) for name, axis in zip(axis_names, axes, strict=True)),
        fixed=tuple(fixed.items()),
        names=names,
        labels=labels.astype(np.float32),
        values=stacked[0],
        gaps=stacked[1],
        interpolation=interpolation,
    )


def _require_different(
    points: np.ndarray,
    positions: dict[str, np.ndarray],
    names: Sequence[str],
    owner: np.ndarray,
    owners: Sequence[str],
    where: str,
) -> None:
    """ValueError where two tables are of the same shapes, one like the other: nothing would choose between them."""
    shapes = np.round(np.column_stack([points, *(np.log2(positions[name]) for name in names)]), 4)
    sets = [{row.tobytes() for row in shapes[owner == i]} for i in range(len(owners))]
    for i, j in itertools.combinations(range(len(owners)), 2):
        if sets[i] == sets[j] and owners[i] != owners[j]:
            raise ValueError(f"{where}: {owners[i]} and {owners[j]} are tables of the same kernel")


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


def _moved(constant: str, changed: list[str]) -> str:
    """Dotted path of a constant of the base, now that its kind has tables in front of it."""
    kind, _, rest = constant.partition(".")
    return f"{kind}.base.{rest}" if kind in changed else constant

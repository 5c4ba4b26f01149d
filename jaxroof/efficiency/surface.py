"""Times of kernels from a user's measurements: their ratio to the model below, interpolated between shapes.

A table holds log(measured / base) at every measured shape, computed once for the device that it was measured on, and
the time of an op is base(op, hardware) exp(table(shape)). So the time is the measured one at every measured shape,
continuous everywhere, and beyond the table it is the model's, scaled as at the nearest edge. The ratio depends on the
shape alone: more bandwidth is never slower, and hypothetical hardware runs as far from the model as the measured one.
"""

import dataclasses
import math
from typing import Any

from jaxroof.efficiency.derated import KindEfficiency
from jaxroof.efficiency.hull import SHAPE, Hull, hull_distance
from jaxroof.efficiency.kernels import Kernels
from jaxroof.efficiency.timing import Timing
from jaxroof.hardware import Hardware
from jaxroof.numerics.arrays import jnp, stacked, taken
from jaxroof.numerics.smooth import maximum
from jaxroof.numerics.struct import Array, Scalar, static, struct
from jaxroof.op import ATTENTION_PHASES, AttentionShape, Kernel, ProductShape

INTERPOLATIONS = ("linear", "nearest")
"""Between measured shapes, on logarithmic axes. Nearest jumps half-way between two of them: only for comparison."""

LABELS = {
    "product": {"weight_bytes": 3.0},
    "attention": {"head_dim": 1.0, "kv_bytes": 1.0},
    "latent": {"head_dim": 1.0, "kv_bytes": 1.0},
    "scores": {},
    "stream": {},
}
"""Form of ops -> numbers that a whole table has, and how much a factor of two in them counts when the nearest table is
chosen: they select another kernel rather than more or less of the same work. Ours."""

AXES = {
    "product": ("m", "matrices", "n", "k"),
    "attention": ("sequences", "queries", "reach", "keys", "kv_heads", "group"),
    "latent": ("sequences", "queries", "reach", "keys", "kv_heads", "group"),
    "scores": ("flops", "bytes"),
    "stream": ("bytes",),
}
"""Form of ops -> dimensions that times are interpolated over, keys of `coordinates`; prefill has no keys, decode no
reach."""

SAME_SPEED = {"bf16": "fp16", "fp16": "bf16"}
"""Precisions whose kernels differ in nothing but the format of an element."""

BORDERS = 2
"""Borders of cells in one bucket. Benchmarks measure pairs such as 256 and 257 rows: a bucket each would be many."""

_SMALLEST = 2.0**-20
"""Of a label, so that its logarithm exists where a step has no work."""


@dataclasses.dataclass(frozen=True, eq=False)
class SurfaceAxis:
    """Positions of a table along one dimension. Structure: its arrays are constants of a program.

    A position is found without a search: buckets of equal width hold `BORDERS` borders of cells at most.
    """

    name: str  # a key of `coordinates`
    low: float  # first position
    high: float  # last one
    buckets_per_octave: float
    cells: Any  # int array [buckets]: a cell that begins below all of the bucket or at its beginning
    lower: Any  # float array [cells]: where a cell begins
    upper: Any  # float array [cells]: where it ends
    octaves: Any  # float array [cells]: log2(upper / lower)


@dataclasses.dataclass(frozen=True, eq=False)
class Surface:
    """Measured tables of one kind of kernel that differ only in their labels, over common axes.

    Structure: two that were made apart are different, and their numbers are not differentiated.
    """

    kind: str  # of the ops
    form: str  # of the ops, a key of `AXES`
    precision: str | None  # of the ops; None: any
    scaled: bool  # operands have a scale per block
    dequantised: bool  # weights are converted inside the product
    axes: tuple[SurfaceAxis, ...]  # that have more than one position
    fixed: tuple[tuple[str, float], ...]  # dimension -> the one position that was measured
    names: tuple[str, ...]  # of the labels
    labels: Any  # float array [tables, len(names)], log2
    values: Any  # float array [tables, positions of every axis]: log(measured / base)
    gaps: Any  # float array of the same shape: octaves from a position to what was measured; 0 between measured ones
    interpolation: str = "linear"  # one of `INTERPOLATIONS`


@struct
class Surfaces:
    """Measured kernels of one kind, and the model that everything else runs on."""

    base: KindEfficiency | Kernels
    tables: tuple[Surface, ...] = static()
    hull: Hull | None = static(default=None)  # device that was measured; None: it is not known


def surface_of(surfaces: Surfaces, op: Kernel) -> Surface | None:
    """The tables that price `op`; None where its kind of kernel was not measured."""
    return next((table for table in surfaces.tables if _measured(table, op)), None)


def surface_timing(surfaces: Surfaces, op: Kernel, base: Timing) -> Timing:
    """Time in s of one run of `op`: what the model below says, times how far the measured kernel is from it.

    time = base exp(interpolated log(measured / base))

    Args:
      surfaces: of the op's kind.
      op: what runs, quantities of shape ().
      base: of `op`, by `surfaces.base`.

    Returns:
      The time, and the times of resources scaled alike, so that what binds is what binds in the model below.
      Differentiable with respect to op and hardware; inside a cell the ratio's gradient is that of the multilinear
      interpolation, outside of the table it is zero.
    """
    table = surface_of(surfaces, op)
    if table is None:
        return base
    # The ratio and not the time is interpolated: it varies slowly with the shape, while times span decades.
    ratio = jnp.exp(log_ratio(table, op))
    return Timing(base.total * ratio, {name: time * ratio for name, time in base.resources.items()})


def surface_distance(surfaces: Surfaces, op: Kernel, hardware: Hardware) -> list[Array]:
    """Octaves by which `op` on `hardware` is outside of the tables and their device, shape (); empty without a table.

    distance = sqrt(device^2 + (SHAPE shape)^2), shape the largest of `shape_excesses`.
    """
    table = surface_of(surfaces, op)
    if table is None:
        return []
    furthest = SHAPE * maximum(0.0, *shape_excesses(table, op).values())
    device = 0.0 if surfaces.hull is None else hull_distance(surfaces.hull, op, hardware)
    return [jnp.sqrt(furthest * furthest + device * device)]


def shape_excesses(table: Surface, op: Kernel) -> dict[str, Array]:
    """Octaves by which the shape of `op` is outside of what was measured, by dimension, shapes (); 0 inside.

    Beyond the last and before the first position of an axis; where one position was measured, or a label, from a factor
    of two on; "between": inside of all axes, but that far from any measured shape.
    """
    shape = coordinates(op)
    excesses = {
        axis.name: _octaves(maximum(shape[axis.name] / axis.high, axis.low / shape[axis.name])) for axis in table.axes
    }
    for name, position in table.fixed:
        excesses[name] = _counted(jnp.abs(jnp.log2(maximum(shape[name], _SMALLEST) / position)))
    if table.names:
        nearest = _nearest(table, shape)[..., None, None]
        apart = jnp.abs(jnp.take_along_axis(_apart(table, shape), nearest, axis=-2)[..., 0, :])
        excesses |= {name: _counted(apart[..., i]) for i, name in enumerate(table.names)}
    excesses["between"] = _counted(_looked_up(table, table.gaps, shape))
    return excesses


def _counted(octaves: Array) -> Array:
    """Octaves from a factor of two on, else 0: less counts as the same."""
    return jnp.where(octaves >= 1.0, octaves, 0.0)


def _octaves(ratio: Scalar) -> Array:
    """log2 of a ratio above 1, else 0."""
    return jnp.log2(maximum(ratio, 1.0))


def log_ratio(table: Surface, op: Kernel) -> Array:
    """Log of measured time over the model's at the shape of `op`, shape (): multilinear in the logarithm of the shape.

    `jax.scipy.interpolate.RegularGridInterpolator` gives the same, but takes five times as long in a sweep.
    """
    return _looked_up(table, table.values, coordinates(op))


def _looked_up(table: Surface, values: Any, shape: dict[str, Scalar]) -> Array:
    # Strides of a flat, row-major array: positions of the later axes multiply.
    strides = [math.prod(values.shape[i + 2 :]) for i in range(len(table.axes))]
    # Offset of the nearest table, then of its cell along each axis.
    index, fractions = _nearest(table, shape) * math.prod(values.shape[1:]), []
    for axis, stride in zip(table.axes, strides, strict=True):
        cell, fraction = _place(axis, shape[axis.name])
        index = index + cell * stride
        fractions.append(jnp.round(fraction) if table.interpolation == "nearest" else fraction)

    def between(start: Array, dimension: int) -> Array:
        if dimension == len(fractions):
            # One gather at each of the 2^d corners of the cell.
            return _taken(values.reshape(-1), start, fractions[0].dtype)
        # Linear along this dimension, between the two faces of the cell that the recursion has interpolated.
        low, high = (between(start + step, dimension + 1) for step in (0, strides[dimension]))
        return low + fractions[dimension] * (high - low)

    return between(index, 0)


def op_form(op: Kernel) -> str | None:
    """Key of `AXES` for an op: what its shape is made of; None where tables hold nothing like it."""
    shape = op.shape
    if op.kind == "elementwise":
        return None if op.bytes is None else "stream"
    if isinstance(shape, ProductShape):
        return "product"
    if isinstance(shape, AttentionShape):
        return "latent" if shape.latent else "attention" if shape.causal else None
    known = op.matrix_flops is not None and op.bytes is not None
    return "scores" if op.kind in ATTENTION_PHASES and known else None


def coordinates(op: Kernel) -> dict[str, Scalar]:
    """Position of `op` in a table of its form: along its axes, and its labels.

    `reach` is the mean number of keys that a query of a prompt sees, over that of a prompt without a cache: 1 without
    one, more with a past, less where a window or a selection ends it.
    """
    shape = op.shape
    if isinstance(shape, ProductShape):
        rows = shape.rows / maximum(shape.matrices, 1.0)
        return {
            "m": rows,
            "matrices": shape.matrices,
            "n": shape.outputs,
            "k": shape.inputs,
            "weight_bytes": shape.weight_bytes,
        }
    if isinstance(shape, AttentionShape):
        own: dict[str, Scalar] = {"keys": shape.keys}
        if op.kind == "prefill_attention":
            new = maximum(shape.queries, 1.0)
            own = {"reach": shape.pairs / (0.5 * new * (new + 1.0))}
        return {
            "sequences": shape.sequences,
            "queries": shape.queries,
            **own,
            "kv_heads": shape.kv_heads,
            "group": shape.heads / shape.kv_heads,
            "head_dim": shape.key_width,
            "kv_bytes": shape.kv_bytes,
        }
    per_kernel = 1.0 / maximum(op.kernels, 1.0)
    work = {} if op.matrix_flops is None else {"flops": op.matrix_flops * per_kernel}
    return work | {"bytes": op.bytes * per_kernel}


def _measured(table: Surface, op: Kernel) -> bool:
    if op.kind != table.kind or table.precision not in (None, op.precision, SAME_SPEED.get(op.precision or "")):
        return False
    if op_form(op) != table.form:
        return False
    if table.form == "product":
        return (op.scaled, op.vector_flops is not None) == (table.scaled, table.dequantised)
    return True


def _place(axis: SurfaceAxis, position: Scalar) -> tuple[Array, Array]:
    """The cell that `position`, clamped to the axis, is in, and where in it from 0 to 1."""
    position = jnp.clip(jnp.asarray(position), axis.low, axis.high)
    # Buckets are of equal width in log2, so that the position's logarithm gives the bucket without a search.
    bucket = (jnp.log2(position * (1.0 / axis.low)) * axis.buckets_per_octave).astype(jnp.int32)
    cell = _taken(axis.cells, jnp.clip(bucket, 0, len(axis.cells) - 1), jnp.int32)
    # A bucket holds a few borders at most: as many comparisons find the cell.
    for _ in range(BORDERS):
        passed = position >= _taken(axis.upper, cell, position.dtype)
        cell = jnp.minimum(cell + passed.astype(jnp.int32), len(axis.lower) - 1)
    octaves = jnp.log2(position / _taken(axis.lower, cell, position.dtype))
    return cell, jnp.clip(octaves / _taken(axis.octaves, cell, position.dtype), 0.0, 1.0)


def _taken(numbers: Any, index: Array, dtype: Any) -> Array:
    """`numbers[index]`, which is known to exist."""
    return taken(jnp.asarray(numbers, dtype), index)


def _nearest(table: Surface, shape: dict[str, Scalar]) -> Array:
    """Index of the table that is nearest in its labels, shape (), int32."""
    if len(table.labels) <= 1:
        return jnp.int32(0)
    apart = _apart(table, shape)
    weights = jnp.asarray([LABELS[table.form][name] for name in table.names], apart.dtype)[None, :]
    # Weighted least squares in octaves of the labels.
    return jnp.argmin(jnp.sum(weights * apart**2, axis=-1), axis=-1).astype(jnp.int32)


def _apart(table: Surface, shape: dict[str, Scalar]) -> Array:
    """Octaves between every table's labels and the op's, shape [tables, labels]."""
    own = [jnp.log2(jnp.maximum(jnp.asarray(shape[name], float), _SMALLEST)) for name in table.names]
    return stacked(own)[..., None, :] - jnp.asarray(table.labels, float)

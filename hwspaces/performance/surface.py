"""Files of measured kernels: tables of times over shapes, as grids or as lists of shapes."""

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hwspaces.files.document import require_file
from hwspaces.files.output import replacing

VERSION = 2
"""Of the format; attribute `jaxroof_surface_version` of a file."""

READ = (1, 2)
"""Versions that are read: 1 has grids alone."""

LARGEST = 2**30
"""B of a file that is read."""

BEYOND = 1e30
"""What no size and no time reaches."""

LIST = "shape"
"""Dimension of a table that is a list."""

MOST_NUMBERS = 10**8
"""Numbers of one variable: compressed files are small on the disk alone."""

AXES = {
    "linear": ("m", "n", "k"),
    "experts": ("m", "matrices", "n", "k"),
    "expert_layer": ("tokens", "m", "matrices", "hidden", "inner"),
    "prefill_attention": ("sequences", "queries"),
    "decode_attention": ("sequences", "keys"),
    "prefill_scores": ("sequences", "queries", "keys"),
    "decode_scores": ("sequences", "queries", "keys"),
    "elementwise": ("bytes",),
    "copy": ("bytes",),
}
"""Kind of a table -> its axes, in the order of the dimensions of its times. `experts` are single grouped products,
`expert_layer` both of a layer with what is between them. A copy is no op of a step: it is kept for whoever looks at the
file."""

PAST = "keys"
"""Axis that a table of prompts may have beside its own: cached and new tokens of one sequence; without it nothing is
cached."""

ATTENTION_LABELS = ("head_dim", "heads", "kv_heads", "kv_bytes")
"""Labels that a table of attention must have, of one device. `kv_bytes` is B per cached element."""

SCORE_LABELS = ("heads", "head_dim", "kv_bytes")
"""Labels that a table of an indexer's scores must have."""

FLAGS = ("scaled", "dequantised", "quantised", "latent")
"""Labels that are 0 (where missing) or 1: a scale per block of operands; weights converted inside the product; the
time includes the kernel that quantises the activations; keys are latent vectors whose first elements are the values."""

_PRODUCT_LABELS = ("weight_bytes", "copies", "scaled", "dequantised", "quantised")
_FURTHER = ("value_dim", "selected", "copies", "latent")

LABELS = {
    "linear": _PRODUCT_LABELS,
    "experts": _PRODUCT_LABELS,
    "expert_layer": (*_PRODUCT_LABELS, "up_projections"),
    "prefill_attention": (*ATTENTION_LABELS, *_FURTHER),
    "decode_attention": (*ATTENTION_LABELS, *_FURTHER),
    "prefill_scores": SCORE_LABELS,
    "decode_scores": SCORE_LABELS,
    "elementwise": (),
    "copy": (),
}
"""Kind of a table -> labels that it may have. `weight_bytes` is B per weight; missing: that of the precision.
`copies` says how many copies of its weights or cache the benchmark reads in turn, so that 1 finds in L2 what fits
there; missing: nothing is in L2. `value_dim` is the width of a value; missing: that of a key. `selected` is how many
keys a query attends to at most; missing: all."""

NEEDED = {
    **dict.fromkeys(("prefill_attention", "decode_attention"), ATTENTION_LABELS),
    **dict.fromkeys(("prefill_scores", "decode_scores"), SCORE_LABELS),
}
"""Kind of a table -> labels that it must have."""

BANDWIDTHS = ("sequential_bandwidth", "strided_bandwidth", "gather_bandwidth", "copy_bandwidth")
"""Measured rates of device memory in B/s that a file may hold beside its tables."""

MEANINGS = {
    "m": "rows of one matrix",
    "matrices": "weight matrices that have rows",
    "tokens": "tokens of the layer",
    "hidden": "width of the layer",
    "inner": "width of one expert on one device",
    "n": "outputs",
    "k": "inputs",
    "sequences": "sequences",
    "queries": "new tokens of one sequence",
    "keys": "cached and new tokens of one sequence",
    "bytes": "bytes read and written",
}
"""What an axis counts."""


@dataclasses.dataclass(frozen=True)
class SurfaceTable:
    """Measured times of one kernel over a rectilinear grid of shapes, or of a list of shapes."""

    name: str  # of the group in the file
    kind: str  # a key of `AXES`
    precision: str  # of the products: a key of `Hardware.matrix`; of elementwise kernels: of their elements
    axes: dict[str, np.ndarray]  # increasing positions in plain units, in the order of the dimensions of `seconds`
    seconds: np.ndarray  # one run of the kernel, its launch inside a graph included; not a number: not measured
    labels: dict[str, float]  # the numbers that hold for the whole table, by their names in `LABELS`
    listed: bool = False  # a list: axes and `seconds` have one number per shape, shape [shapes] each

    @property
    def measured(self) -> np.ndarray:
        """Which of the times were measured."""
        return ~np.isnan(self.seconds)


def table_rows(table: SurfaceTable) -> dict[str, np.ndarray]:
    """Position along every axis and labels of every measured time, shape [measured times] each."""
    grids = list(table.axes.values()) if table.listed else np.meshgrid(*table.axes.values(), indexing="ij")
    measured = table.measured
    own = {name: grid[measured].astype(float) for name, grid in zip(table.axes, grids, strict=True)}
    count = int(measured.sum())
    return own | {name: np.full(count, value) for name, value in table.labels.items()}


@dataclasses.dataclass(frozen=True)
class SurfaceFile:
    """Everything that a file holds."""

    tables: tuple[SurfaceTable, ...]
    provenance: dict[str, str]  # device, driver, versions, date, command, source, ...
    bandwidths: dict[str, float]  # B/s by a name of `BANDWIDTHS`


def write_surfaces(
    path: str | os.PathLike[str],
    tables: Sequence[SurfaceTable],
    provenance: Mapping[str, str],
    bandwidths: Mapping[str, float] | None = None,
    force: bool = False,
    inputs: Iterable[str] = (),
) -> None:
    """Write `tables` to the netCDF file `path`, one group each; it appears under its name only when it is whole.

    Raises:
      ValueError: one line: a table is not what `checked` allows, two have one name, a bandwidth is unknown or not
        positive; the file must not or cannot be written, as `hwspaces.files.output` says. It is not one of `inputs`,
        nor, without `force`, one that jaxroof did not write.
    """
    import netCDF4

    # All tables are checked before a file is begun.
    named = {table.name: checked(table, str(path)) for table in tables}
    if len(named) < len(tables):
        raise ValueError(f"{path}: two tables have one name among {', '.join(table.name for table in tables)}")
    rates = {name: _bandwidth(name, value, str(path)) for name, value in (bandwidths or {}).items()}
    with replacing(path, ("surfaces",), inputs, force) as temporary, netCDF4.Dataset(temporary, "w") as file:
        file.setncatts({"Conventions": "CF-1.11", **{key: str(value) for key, value in provenance.items()}})
        # By this attribute the file is known again, and other versions of the form are refused.
        file.setncattr("jaxroof_surface_version", np.int32(VERSION))
        for name, value in rates.items():
            variable = file.createVariable(name, "f8", ())
            variable.units, variable.long_name = "byte s-1", name.replace("_", " ")
            variable[...] = value
        for table in named.values():
            _write_table(file.createGroup(table.name), table)


def read_surfaces(path: str | os.PathLike[str]) -> SurfaceFile:
    """The tables, provenance and bandwidths of the file `path`.

    Raises:
      ValueError: one line: there is no such file, it is not netCDF, it is not of this version of the format, or a
        group in it is not a table.
    """
    import netCDF4

    require_file(path, LARGEST)
    try:
        file = netCDF4.Dataset(path, "r")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not a netCDF file: {' '.join(str(error).split())}") from None
    with file:
        try:
            return _content(file, str(path))
        except (RuntimeError, AttributeError, OSError, UnicodeError) as error:  # how the library calls what is damaged
            raise ValueError(f"{path}: damaged: {' '.join(str(error).split())}") from None


def _content(file: Any, where: str) -> SurfaceFile:
    _require_version(file, where)
    texts = {key: str(file.getncattr(key)) for key in file.ncattrs()}
    own = ("jaxroof_surface_version", "Conventions")
    rates = {}
    for name, variable in file.variables.items():
        # Variables beside the tables are bandwidths: one number each.
        if variable.shape or variable.dtype is str or variable.dtype.kind not in "fiu":
            raise ValueError(f"{where}: {name} is not one number")
        rates[name] = _bandwidth(name, float(_filled(variable, where)), where)
    return SurfaceFile(
        tables=tuple(_table(name, group, where) for name, group in file.groups.items()),
        provenance={key: value for key, value in texts.items() if key not in own},
        bandwidths=rates,
    )


def checked(table: SurfaceTable, where: str) -> SurfaceTable:
    """The same table with float64 arrays.

    Args:
      table: to check.
      where: file, for messages.

    Raises:
      ValueError: one line that names file, table, what is wrong and what is allowed: kind, axes, labels, positions
        that do not increase, a time that is not positive, no time at all.
    """
    where = f"{where}: {table.name}"
    if not table.name or "/" in table.name:
        raise ValueError(f"{where}: {table.name!r} must be a name without /")
    if table.kind not in AXES:
        raise ValueError(f"{where}: kind = {table.kind!r} must be one of {', '.join(AXES)}")
    wanted = AXES[table.kind]
    if tuple(table.axes) != wanted and not (table.kind == "prefill_attention" and tuple(table.axes) == (*wanted, PAST)):
        raise ValueError(f"{where}: axes {', '.join(table.axes)} must be {', '.join(wanted)} in this order")
    axes = {name: np.asarray(positions, float) for name, positions in table.axes.items()}
    for name, positions in axes.items():
        # Comparisons with NaN are false, so that it is refused with the others.
        if positions.ndim != 1 or not positions.size or not np.all(positions < BEYOND) or positions.min() <= 0:
            raise ValueError(f"{where}: {name} must be a row of positive numbers below {BEYOND:g}")
        if not table.listed and np.any(np.diff(positions) <= 0):
            raise ValueError(f"{where}: {name} must increase from one position to the next")
    seconds = np.asarray(table.seconds, float)
    lengths = tuple(map(len, axes.values()))
    if (seconds.shape != lengths) if not table.listed else any(seconds.shape != (length,) for length in lengths):
        raise ValueError(f"{where}: times have shape {seconds.shape}, the axes {lengths}")
    # NaN is a shape that was not measured; every other time in s is positive and finite.
    wrong = ~(np.isnan(seconds) | ((seconds > 0) & (seconds < BEYOND)))
    if np.isnan(seconds).all():
        raise ValueError(f"{where}: none of its times was measured")
    if wrong.any():
        # The first one is enough to find what is wrong with the file.
        first = np.unravel_index(int(np.argmax(wrong)), seconds.shape) * (len(axes) if table.listed else 1)
        place = ", ".join(f"{name} {positions[i]:g}" for i, (name, positions) in zip(first, axes.items(), strict=True))
        count = f"{int(wrong.sum())} of {wrong.size} times"
        raise ValueError(f"{where}: {count} are missing or not positive, the first at {place}: {seconds[first]:g}")
    return dataclasses.replace(table, axes=axes, seconds=seconds, labels=_labels(table, where))


def _labels(table: SurfaceTable, where: str) -> dict[str, float]:
    allowed = LABELS[table.kind]
    needed = NEEDED.get(table.kind, ())
    for name in needed:
        if name not in table.labels:
            raise ValueError(f"{where}: label {name} is missing; needed are {', '.join(needed)}")
    for name, value in table.labels.items():
        if name not in allowed:
            raise ValueError(f"{where}: label {name} is not known; known: {', '.join(allowed) or 'none'}")
        if name in FLAGS and value not in (0, 1):
            raise ValueError(f"{where}: {name} = {value!r} must be 0 or 1")
        if name not in FLAGS and not (np.isfinite(value) and value > 0):
            raise ValueError(f"{where}: {name} = {value!r} must be a positive number")
    return {name: float(value) for name, value in table.labels.items()}


def _bandwidth(name: str, value: float, where: str) -> float:
    if name not in BANDWIDTHS:
        raise ValueError(f"{where}: {name} is not known; known: {', '.join(BANDWIDTHS)}")
    if not (np.isfinite(value) and value > 0):
        raise ValueError(f"{where}: {name} = {value!r} must be a positive number of B/s")
    return float(value)


def _require_version(file: Any, where: str) -> None:
    if "jaxroof_surface_version" not in file.ncattrs():
        raise ValueError(f"{where}: not a file of measured kernels: it has no attribute jaxroof_surface_version")
    version = file.getncattr("jaxroof_surface_version")
    if version not in READ:
        raise ValueError(
            f"{where}: its format has version {version}, this jaxroof reads {' and '.join(map(str, READ))}: "
            "write it again with `jaxroof surface import`, or measure again"
        )


def _write_table(group: Any, table: SurfaceTable) -> None:
    listed = {"listed": np.int32(1)} if table.listed else {}
    group.setncatts({"kind": table.kind, "precision": table.precision, **table.labels, **listed})
    if table.listed:
        group.createDimension(LIST, len(table.seconds))
    for name, positions in table.axes.items():
        if not table.listed:
            group.createDimension(name, len(positions))
        variable = group.createVariable(name, "f8", (LIST if table.listed else name,), zlib=table.listed)
        variable.units, variable.long_name = "byte" if name == "bytes" else "1", MEANINGS[name]
        variable[:] = positions
    dimensions = (LIST,) if table.listed else tuple(table.axes)
    variable = group.createVariable("time", "f8", dimensions, zlib=True, fill_value=np.nan)
    variable.units, variable.long_name = "s", "measured time of one run"
    variable[...] = table.seconds


def _table(name: str, group: Any, where: str) -> SurfaceTable:
    attributes = {key: group.getncattr(key) for key in group.ncattrs()}
    for key in ("kind", "precision"):
        if not isinstance(attributes.get(key), str):
            raise ValueError(f"{where}: {name}: attribute {key} is missing")
    if "time" not in group.variables:
        raise ValueError(f"{where}: {name}: variable time is missing")
    time = group.variables["time"]
    # Every dimension of the times needs its positions; a list has one of every shape.
    listed = bool(attributes.pop("listed", 0))
    names = [name for name in group.variables if name != "time"] if listed else list(time.dimensions)
    for dimension in names:
        if dimension not in group.variables:
            raise ValueError(f"{where}: {name}: coordinate {dimension} is missing")
    # All other attributes are labels, which are numbers.
    kind, precision = attributes.pop("kind"), attributes.pop("precision")
    for key, value in attributes.items():
        if not isinstance(value, int | float | np.number):
            raise ValueError(f"{where}: {name}: {key} = {value!r} is not a number")
    table = SurfaceTable(
        name=name,
        kind=kind,
        precision=precision,
        axes={axis: _filled(group.variables[axis], where) for axis in names},
        seconds=_filled(time, where),
        labels={key: float(value) for key, value in attributes.items()},
        listed=listed,
    )
    return checked(table, where)


def _filled(variable: Any, where: str) -> np.ndarray:
    """Numbers of a variable, not a number where it has none."""
    if variable.size > MOST_NUMBERS or variable.dtype is str or getattr(variable.dtype, "kind", "") not in "fiu":
        raise ValueError(f"{where}: {variable.name} must hold numbers, at most {MOST_NUMBERS:,}")
    # The library masks what was never written.
    return np.ma.filled(np.ma.asarray(variable[...], float), np.nan)

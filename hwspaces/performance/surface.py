"""Ops at the positions of a table of measured kernels."""

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hwspaces.files.document import require_file
from hwspaces.files.output import replacing
from jaxroof.batch import Decode, Prefill
from jaxroof.deployment import Deployment
from jaxroof.layers.attention import Attention, decode_attention, prefill_attention
from jaxroof.layers.linear import OPERAND_BYTES, Matrix, projection
from jaxroof.model import WeightFormat
from jaxroof.op import Kernel

VERSION = 1
"""Of the format; attribute `jaxroof_surface_version` of a file."""

LARGEST = 2**30
"""B of a file that is read."""

BEYOND = 1e30
"""What no size and no time reaches."""

MOST_NUMBERS = 10**8
"""Numbers of one variable: compressed files are small on the disk alone."""

AXES = {
    "linear": ("m", "n", "k"),
    "prefill_attention": ("sequences", "queries"),
    "decode_attention": ("sequences", "keys"),
    "elementwise": ("bytes",),
    "copy": ("bytes",),
}
"""Kind of a table -> its axes, in the order of the dimensions of its times. A copy is no op of a step: it is kept for
whoever looks at the file."""

ATTENTION_LABELS = ("head_dim", "heads", "kv_heads", "kv_bytes")
"""Labels that a table of attention must have, of one device. `kv_bytes` is B per cached element."""

FLAGS = ("scaled", "dequantised", "quantised")
"""Labels that are 0 (where missing) or 1: a scale per block of operands; weights converted inside the product; the
time includes the kernel that quantises the activations."""

LABELS = {
    "linear": ("weight_bytes", "copies", *FLAGS),
    "prefill_attention": (*ATTENTION_LABELS, "copies"),
    "decode_attention": (*ATTENTION_LABELS, "copies"),
    "elementwise": (),
    "copy": (),
}
"""Kind of a table -> labels that it may have. `weight_bytes` is B per weight; missing: that of the precision.
`copies` says how many copies of its weights or cache the benchmark reads in turn, so that 1 finds in L2 what fits
there; missing: nothing is in L2."""

BANDWIDTHS = ("sequential_bandwidth", "strided_bandwidth", "gather_bandwidth", "copy_bandwidth")
"""Measured rates of device memory in B/s that a file may hold beside its tables."""

MEANINGS = {
    "m": "rows of the product",
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
    """Measured times of one kernel over a rectilinear grid of shapes."""

    name: str  # of the group in the file
    kind: str  # a key of `AXES`
    precision: str  # of the products: a key of `Hardware.matrix`; of elementwise kernels: of their elements
    axes: dict[str, np.ndarray]  # increasing positions in plain units, in the order of the dimensions of `seconds`
    seconds: np.ndarray  # one run of the kernel, its launch inside a graph included; not a number: not measured
    labels: dict[str, float]  # the numbers that hold for the whole table, by their names in `LABELS`


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
    if tuple(table.axes) != AXES[table.kind]:
        raise ValueError(f"{where}: axes {', '.join(table.axes)} must be {', '.join(AXES[table.kind])} in this order")
    axes = {name: np.asarray(positions, float) for name, positions in table.axes.items()}
    for name, positions in axes.items():
        # Comparisons with NaN are false, so that it is refused with the others.
        if positions.ndim != 1 or not positions.size or not np.all(positions < BEYOND) or positions.min() <= 0:
            raise ValueError(f"{where}: {name} must be a row of positive numbers below {BEYOND:g}")
        if np.any(np.diff(positions) <= 0):
            raise ValueError(f"{where}: {name} must increase from one position to the next")
    seconds = np.asarray(table.seconds, float)
    if seconds.shape != tuple(map(len, axes.values())):
        raise ValueError(f"{where}: times have shape {seconds.shape}, the axes {tuple(map(len, axes.values()))}")
    # NaN is a shape that was not measured; every other time in s is positive and finite.
    wrong = ~(np.isnan(seconds) | ((seconds > 0) & (seconds < BEYOND)))
    if np.isnan(seconds).all():
        raise ValueError(f"{where}: none of its times was measured")
    if wrong.any():
        # The first one is enough to find what is wrong with the file.
        first = np.unravel_index(int(np.argmax(wrong)), seconds.shape)
        place = ", ".join(f"{name} {positions[i]:g}" for i, (name, positions) in zip(first, axes.items(), strict=True))
        count = f"{int(wrong.sum())} of {wrong.size} times"
        raise ValueError(f"{where}: {count} are missing or not positive, the first at {place}: {seconds[first]:g}")
    return dataclasses.replace(table, axes=axes, seconds=seconds, labels=_labels(table, where))


def _labels(table: SurfaceTable, where: str) -> dict[str, float]:
    allowed = LABELS[table.kind]
    for name in ATTENTION_LABELS:
        if name in allowed and name not in table.labels:
            raise ValueError(f"{where}: label {name} is missing; needed are {', '.join(ATTENTION_LABELS)}")
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
    if version != VERSION:
        raise ValueError(
            f"{where}: its format has version {version}, this jaxroof reads {VERSION}: "
            "write it again with `jaxroof surface import`, or measure again"
        )


def _write_table(group: Any, table: SurfaceTable) -> None:
    group.setncatts({"kind": table.kind, "precision": table.precision, **table.labels})
    for name, positions in table.axes.items():
        group.createDimension(name, len(positions))
        variable = group.createVariable(name, "f8", (name,))
        variable.units, variable.long_name = "byte" if name == "bytes" else "1", MEANINGS[name]
        variable[:] = positions
    variable = group.createVariable("time", "f8", tuple(table.axes), zlib=True, fill_value=np.nan)
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
    # Every dimension of the times needs its positions.
    for dimension in time.dimensions:
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
        axes={axis: _filled(group.variables[axis], where) for axis in time.dimensions},
        seconds=_filled(time, where),
        labels={key: float(value) for key, value in attributes.items()},
    )
    return checked(table, where)


def _filled(variable: Any, where: str) -> np.ndarray:
    """Numbers of a variable, not a number where it has none."""
    if variable.size > MOST_NUMBERS or variable.dtype is str or getattr(variable.dtype, "kind", "") not in "fiu":
        raise ValueError(f"{where}: {variable.name} must hold numbers, at most {MOST_NUMBERS:,}")
    # The library masks what was never written.
    return np.ma.filled(np.ma.asarray(variable[...], float), np.nan)


ACTIVATION_BYTES = 2.0
"""B per activation element between kernels."""


def node_ops(table: SurfaceTable, row: Mapping[str, Any]) -> tuple[Kernel, ...]:
    """The op at one position of `table`, after the one that quantises its activations where the time includes it.

    Args:
      table: only its kind, precision and which labels it has are looked at.
      row: position along every axis, and the table's labels, float scalars.

    Raises:
      ValueError: the precision of a product is not known.
    """
    if table.kind == "elementwise":
        return (Kernel(kind="elementwise", count=1.0, kernels=1.0, bytes=row["bytes"]),)
    if table.precision not in OPERAND_BYTES:
        raise ValueError(f"precision = {table.precision!r} must be one of {', '.join(OPERAND_BYTES)}")
    if table.kind == "linear":
        return _product(table, row)
    op = _attention(table, row)
    # So many bytes pass through the caches before one copy is read again.
    reuse = row["copies"] * op.bytes if "copies" in table.labels else None
    return (dataclasses.replace(op, reuse_bytes=reuse),)


def _product(table: SurfaceTable, row: Mapping[str, Any]) -> tuple[Kernel, ...]:
    flags = {name: bool(table.labels.get(name)) for name in FLAGS}
    size = row["weight_bytes"] if "weight_bytes" in table.labels else OPERAND_BYTES[table.precision]
    weights = WeightFormat(
        bytes=size, compute=table.precision, scaled=flags["scaled"], dequantised=flags["dequantised"]
    )
    # The op that a model's layer would have, so that measured and predicted times are of the same work.
    ops = projection("product", row["m"], Matrix(row["k"], row["n"], weights), ACTIVATION_BYTES, 1.0)
    product = ops.pop("product")
    if "copies" in table.labels:
        product = dataclasses.replace(product, reuse_bytes=row["copies"] * row["k"] * row["n"] * size)
    # What is left of the ops quantises activations, which the time includes or not.
    return (*(ops.values() if flags["quantised"] else ()), product)


def _attention(table: SurfaceTable, row: Mapping[str, Any]) -> Kernel:
    # Projections are no part of the kernel: their format changes nothing.
    weights = WeightFormat(bytes=2.0, compute="bf16")
    attention = Attention(
        heads=row["heads"],
        kv_heads=row["kv_heads"],
        head_dim=row["head_dim"],
        value_dim=row["head_dim"],
        window=None,
        qkv=weights,
        output=weights,
    )
    deployment = Deployment(kv_bytes=row["kv_bytes"], attention_compute=table.precision)
    sequences = row["sequences"]
    if table.kind == "decode_attention":
        # Contexts and prompts are counted in tokens of all sequences together.
        decode = Decode(sequences=sequences, context=sequences * row["keys"])
        ops = decode_attention(attention, deployment, decode, 1.0)
    else:
        prefill = Prefill(sequences=sequences, tokens=sequences * row["queries"], past=0.0)
        ops = prefill_attention(attention, deployment, prefill, 1.0)
    op = ops[table.kind]
    assert isinstance(op, Kernel)  # one device: no keys are exchanged
    return op

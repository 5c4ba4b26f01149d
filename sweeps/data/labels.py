"""Units and names of the variables and coordinates of a sweep's dataset, for people.

What declares them is imported on use: most who import this write numbers.
"""

import functools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hwspaces import formatted
from hwspaces.quantities.units import nearest

if TYPE_CHECKING:
    import xarray as xr

_MATRIX = "dense matrix peak, "


def known(name: str, names: Iterable[str], what: str) -> str:
    """`name` when it is among `names`; else ValueError in one line with the nearest of them."""
    if name not in names:
        raise ValueError(f"there is no {what} {name}{nearest(name, names)}")
    return name


def axes(dataset: "xr.Dataset") -> tuple[str, ...]:
    """Names of everything that was varied: axes of a grid, or the columns that a sample drew."""
    if is_sample(dataset):
        return tuple(str(name) for name in dataset.coords if name != "point" and dataset[name].dims == ("point",))
    return tuple(str(dim) for dim in dataset.dims if dim in dataset.coords and not is_op_dimension(str(dim)))


def is_sample(dataset: "xr.Dataset") -> bool:
    """True for a sample: one `point` dimension, whose coordinates are what was drawn."""
    return "point" in dataset.dims


def is_op_dimension(dim: str) -> bool:
    """True for the dimension of a breakdown."""
    return dim == "op" or dim.endswith("_op")


def is_text(array: "xr.DataArray") -> bool:
    """True for names rather than numbers."""
    return array.dtype.kind not in "fiub"


def unit(dataset: "xr.Dataset", name: str) -> str:
    """SI unit of a variable or coordinate, as `hwspaces.quantities.units` writes it; "1" for numbers without, "" for
    text.
    """
    from sweeps.ask.leaves import leaf_unit
    from sweeps.ask.names import variable

    if name in dataset.data_vars:
        return variable(name).unit
    if is_text(dataset[name]):
        return ""
    # Units in files are spelled as UDUNITS does. Leaves have their own; others are translated where that is
    # unambiguous.
    written = dataset[name].attrs.get("units", "1")
    path = _path(dataset[name].attrs.get("long_name", ""))
    return leaf_unit(path) if path else _si_units().get(written, written)


def title(dataset: "xr.Dataset", name: str) -> str:
    """Short name of a variable or coordinate: its long name up to the first comma or colon."""
    long_name = dataset[name].attrs.get("long_name", name)
    if long_name.startswith(_MATRIX):
        return f"matrix peak at {long_name.removeprefix(_MATRIX)}"
    if name in dataset.coords:
        return long_name
    return long_name.partition(": ")[0].partition(", ")[0]


def text(dataset: "xr.Dataset", name: str, value: Any, digits: int = 3) -> str:
    """One value of a variable or coordinate with its unit: "3.35 TB/s"."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    return amount(float(value), unit(dataset, name), digits)


def amount(value: float, unit: str, digits: int = 3) -> str:
    """A number with its unit, where that is not said in words."""
    return number(value, digits) if unit in ("1", "", "1/s", "1/J") else formatted(value, unit, digits)


def number(value: float, digits: int = 3) -> str:
    """A number without unit: thousands separated, never in powers of ten between 0.001 and 10^15."""
    # Beyond 10^15 separated thousands would show digits that a float64 hardly has.
    if value and not 1e-3 <= abs(value) < 1e15:
        return f"{value:.{digits}g}"
    as_integer = abs(value) >= 10 ** (digits - 1) or value == int(value)
    return f"{value:,.0f}" if as_integer else f"{value:.{digits}g}"


def words(metric: str) -> str:
    """The meaning of a variable of ours up to the first comma or colon: "time to first token"."""
    from sweeps.ask.names import variable

    return variable(metric).long_name.partition(":")[0].partition(",")[0]


def short(dataset: "xr.Dataset", name: str) -> str:
    """An axis in one to four words: what it is, without what it is counted per; else its name."""
    words = title(dataset, name)
    plain = words.partition(" per ")[0]
    return plain if " that " not in words and plain.count(" ") <= 3 and name != "tp" else name


@functools.cache
def _si_units() -> Mapping[str, str]:
    """Our units by how UDUNITS writes them, where only one of ours is written so."""
    from sweeps.ask.names import UDUNITS

    # Several SI units are written 1 or s-1, so that these cannot be translated back.
    return {udunits: unit for unit, udunits in UDUNITS.items() if udunits not in ("1", "s-1")}


def _path(long_name: str) -> str | None:
    """The leaf that `long_name` describes, where it is one of a fixed set."""
    from sweeps.ask.leaves import leaf_long_name, leaves

    if long_name.startswith(_MATRIX):
        path = f"hardware.matrix.{long_name.removeprefix(_MATRIX)}"
        return path if leaf_long_name(path) == long_name else None
    return next((path for path, declared in leaves().items() if declared.meaning == long_name), None)

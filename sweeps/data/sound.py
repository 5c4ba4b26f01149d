"""Soundness of a netCDF file before anything of it is read: types, and no more values than it can hold."""

import math
import os
from typing import Any

import netCDF4

MOST_INFLATED = 1_100
"""Times its own size that a file's values may take: what zlib can do, and a little."""

UNSUSPICIOUS_BYTES = 1 << 28
"""B of values that are believed of a file of any size."""

MOST_VARIABLES = 2_000
"""Variables of a file."""

MOST_LABELS, MOST_TEXTS = 5 * 10**7, 10**6
"""Labels along an axis, and those of them that are names."""

LONGEST_TEXT = 2**20
"""Characters of an attribute of a variable."""

TEXT_BYTES = 64
"""B that an object takes for a short text."""


class NotSound(ValueError):
    """A netCDF file of types that are not read, or that claims more than it can hold."""


def require_sound(file: netCDF4.Dataset, size: int, where: str | os.PathLike[str]) -> None:
    """`NotSound` for a file that would fill the memory or that has what no dataset of ours has.

    Labels are read as soon as a file is opened: this is asked first.

    Args:
      file: opened, nothing of it read.
      size: B of it.
      where: its name, for messages.
    """
    if len(file.variables) > MOST_VARIABLES:
        raise NotSound(f"{where} has {len(file.variables):,} variables; at most {MOST_VARIABLES:,} are read")
    for name, each in file.variables.items():
        # Text is a variable-length type too, and one that is read.
        own = isinstance(each.datatype, netCDF4.VLType | netCDF4.CompoundType | netCDF4.EnumType)
        if own and each.dtype is not str:
            raise NotSound(f"{where}: {name} is of a type of its own, {each.datatype.name}; numbers and text are read")
        for label in each.ncattrs():
            words = each.getncattr(label)
            if isinstance(words, str) and len(words) > LONGEST_TEXT:
                raise NotSound(f"{where}: {label} of {name} has {len(words):,} characters; at most {LONGEST_TEXT:,}")
    claimed = sum(map(_claimed_bytes, file.variables.values()))
    # zlib shrinks data by a factor of about 1,030 at most (zlib.net, technical details).
    if claimed > max(UNSUSPICIOUS_BYTES, MOST_INFLATED * size):
        raise NotSound(
            f"{where} has {size:,} bytes and claims {claimed:,} bytes of values, more than any packing allows: "
            "it is damaged, or made to fill the memory"
        )
    # Labels are read into memory as soon as the file is opened, so that they have limits of their own.
    for name, each in file.variables.items():
        if name in each.dimensions and each.size > (MOST_TEXTS if _is_text(each) else MOST_LABELS):
            raise NotSound(f"{where}: {name} has {each.size:,} labels, more than are read")


def _is_text(variable: Any) -> bool:
    return variable.dtype is str or variable.dtype.kind == "S"


def _claimed_bytes(variable: Any) -> int:
    """B that the values of a variable would take in memory, as far as the file's header says.

    A text is an object of its own, and where none is written it is a copy of the one that stands for missing ones.
    """
    if variable.dtype is str:
        missing = variable.getncattr("_FillValue") if "_FillValue" in variable.ncattrs() else ""
        return math.prod(variable.shape) * (TEXT_BYTES + len(missing))
    return math.prod(variable.shape) * variable.dtype.itemsize

"""Hulls of evidence: their tables in efficiency files, and the hull of ops that were measured on some devices."""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from hwspaces.units import KEY_UNITS, from_key, nearest, positive
from jaxroof.efficiency.hull import FEATURES, Hull, Range
from jaxroof.hardware import Hardware
from jaxroof.layers.linear import OPERAND_BYTES
from jaxroof.numerics.arrays import eager
from jaxroof.op import Kernel

SUFFIXES = {"clock": "GHz", "core_l2": "MB", "link_bandwidth": "GBps"}
"""Feature -> unit that ends its key in a file; the others have none."""

LARGEST_GROWTH = 10.0
"""Of the standard deviation per octave: more would be a factor of thousands."""

DIGITS = 3
"""Of the ends of a range; they are rounded outwards."""


def hull(table: Any, where: str) -> Hull:
    """The hull that a table of an efficiency file describes.

    Args:
      table: feature with its unit -> [least, largest]; `precisions`, `compiled`, and `growth` per octave.
      where: what the message of an error begins with.

    Raises:
      ValueError: one line that names the key, the value and what is allowed.
    """
    if not isinstance(table, Mapping):
        raise ValueError(f"{where} = {table!r} is not a table of ranges")
    rest = dict(table)
    growth, precisions, compiled = rest.pop("growth", 0.0), rest.pop("precisions", []), rest.pop("compiled", False)
    if not isinstance(compiled, bool):
        raise ValueError(f"{where}: compiled = {compiled!r} must be true or false")
    if isinstance(growth, bool) or not isinstance(growth, int | float) or not 0.0 <= growth <= LARGEST_GROWTH:
        raise ValueError(f"{where}: growth = {growth!r} must be a number from 0 to {LARGEST_GROWTH:g}")
    if not isinstance(precisions, list):
        raise ValueError(f"{where}: precisions = {precisions!r} is not a list")
    for precision in precisions:
        if not isinstance(precision, str) or precision not in OPERAND_BYTES:
            raise ValueError(f"{where}: precisions: {precision!r} is not known{nearest(str(precision), OPERAND_BYTES)}")
    ranges = tuple(_range(key, value, where) for key, value in rest.items())
    names = [one.feature for one in ranges]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{where}: {name} is given twice")
    return Hull(ranges=ranges, precisions=tuple(precisions), compiled=compiled, growth=float(growth))


def _range(key: str, value: Any, where: str) -> Range:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"{where}: {key} = {value!r} must be [least, largest]")
    if key in FEATURES and key not in SUFFIXES:
        name = key
        low, high = (positive(end, f"{where}: {key}") for end in value)
    elif key.rpartition("_")[0] in SUFFIXES:
        units = {plain: FEATURES[plain].unit for plain in SUFFIXES}
        (name, low), (_, high) = (from_key(key, end, where, units) for end in value)
    else:
        raise ValueError(f"{where}: {key} is not known{nearest(key, map(_key, FEATURES))}")
    if low > high:
        raise ValueError(f"{where}: {key} = {value!r}: the least is more than the largest")
    return Range(name, low, high)


def hull_lines(found: Hull, prefix: str = "") -> list[str]:
    """Lines of an efficiency file that `hull` reads, each after `prefix`."""
    lines = [f"{prefix}hull.growth = {found.growth:.3g}"] if found.growth else []
    lines += [f"{prefix}hull.compiled = true"] if found.compiled else []
    if found.precisions:
        lines.append(f"{prefix}hull.precisions = {json.dumps(list(found.precisions))}")
    for one in found.ranges:
        size = KEY_UNITS[SUFFIXES[one.feature]][FEATURES[one.feature].unit] if one.feature in SUFFIXES else 1.0
        ends = ", ".join(f"{end / size:.{DIGITS + 2}g}" for end in (one.low, one.high))
        lines.append(f"{prefix}hull.{_key(one.feature)} = [{ends}]")
    return lines


def _key(feature: str) -> str:
    return f"{feature}_{SUFFIXES[feature]}" if feature in SUFFIXES else feature


def hull_of(measured: Iterable[tuple[Kernel, Hardware]], growth: float = 0.0, shapes: bool = True) -> Hull:
    """The hull of some ops, each on a device.

    Args:
      measured: ops, quantities of shape () or columns of many.
      growth: standard deviation of log errors per octave outside.
      shapes: whether ranges of shapes count too, not of devices alone.
    """
    ends: dict[str, list[float]] = {}
    precisions, classes = set(), set()
    for op, hardware in measured:
        precisions.add(op.precision)
        classes.add(float(hardware.cores.compiled))
        for name, feature in FEATURES.items():
            with eager():
                value = feature.value(op, hardware) if feature.device or shapes else None
            positive_values = np.asarray([] if value is None else value)
            positive_values = positive_values[positive_values > 0.0]
            if positive_values.size:
                ends.setdefault(name, []).extend((float(positive_values.min()), float(positive_values.max())))
    ranges = [Range(name, _outward(min(own), math.floor), _outward(max(own), math.ceil)) for name, own in ends.items()]
    known = tuple(sorted(precision for precision in precisions if precision is not None))
    return Hull(ranges=tuple(ranges), precisions=known, compiled=classes == {1.0}, growth=growth)


def _outward(number: float, rounded: Callable[[float], int]) -> float:
    """`DIGITS` digits of a number, rounded down or up, unless it has no more of them."""
    unit = 10.0 ** (math.floor(math.log10(number)) - DIGITS + 1)
    exact = number / unit
    return float(f"{(round(exact) if abs(exact - round(exact)) < 1e-6 else rounded(exact)) * unit:.{DIGITS}g}")

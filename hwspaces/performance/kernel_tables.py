"""Hulls of evidence: their tables in efficiency files, and the hull of ops that were measured on some devices."""

import dataclasses
import functools
import json
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hwspaces.accelerators.technology_tables import texts
from hwspaces.files import document
from hwspaces.quantities.units import KEY_UNITS, from_key, is_zero, nearest, positive
from jaxroof.efficiency import Kernels
from jaxroof.efficiency.hull import FEATURES, FittedRange, Hull
from jaxroof.efficiency.kernels import MODELS
from jaxroof.efficiency.timing import Constants
from jaxroof.hardware import Hardware
from jaxroof.layers.linear import OPERAND_BYTES
from jaxroof.numerics.arrays import eager
from jaxroof.numerics.struct import Declaration, declaration, declarations, kinds
from jaxroof.op import Kernel

SUFFIXES = {"clock": "GHz", "core_l2": "MB", "link_bandwidth": "GBps"}
"""Feature -> unit that ends its key in a file; the others have none."""

LARGEST_GROWTH = 10.0
"""Of the standard deviation of log errors: more would be a factor of thousands."""

DIGITS = 3
"""Of the ends of a range; they are rounded outwards."""


def hull(table: Any, where: str) -> Hull:
    """The hull that a table of an efficiency file describes.

    Args:
      table: feature with its unit -> [least, largest]; `precisions`, `compiled`, and `growth`.
      where: what the message of an error begins with.

    Raises:
      ValueError: one line that names the key, the value and what is allowed.
    """
    if not isinstance(table, Mapping):
        raise ValueError(f"{where} = {table!r} is not a table of ranges")
    rest = dict(table)
    # All other keys are names of features, whose values are ranges.
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
    # Two keys may name one feature in different units.
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{where}: {name} is given twice")
    return Hull(ranges=ranges, precisions=tuple(precisions), compiled=compiled, growth=float(growth))


def _range(key: str, value: Any, where: str) -> FittedRange:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"{where}: {key} = {value!r} must be [least, largest]")
    if key in FEATURES and key not in SUFFIXES:
        name = key
        low, high = (positive(end, f"{where}: {key}") for end in value)
    elif key.rpartition("_")[0] in SUFFIXES:
        # Features with a dimension say their unit at the end of the key.
        units = {plain: FEATURES[plain].unit for plain in SUFFIXES}
        (name, low), (_, high) = (from_key(key, end, where, units) for end in value)
    else:
        raise ValueError(f"{where}: {key} is not known{nearest(key, map(_key, FEATURES))}")
    if low > high:
        raise ValueError(f"{where}: {key} = {value!r}: the least is more than the largest")
    return FittedRange(name, low, high)


def hull_lines(hull: Hull, prefix: str = "") -> list[str]:
    """Lines of an efficiency file that `hull` reads, each after `prefix`."""
    lines = [f"{prefix}hull.growth = {hull.growth:.3g}"] if hull.growth else []
    lines += [f"{prefix}hull.compiled = true"] if hull.compiled else []
    if hull.precisions:
        lines.append(f"{prefix}hull.precisions = {json.dumps(list(hull.precisions))}")
    for one in hull.ranges:
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
      growth: standard deviation of log errors far outside, `Hull.growth`.
      shapes: whether ranges of shapes count too, not of devices alone.
    """
    ends: dict[str, list[float]] = {}
    precisions, classes = set(), set()
    for op, hardware in measured:
        precisions.add(op.precision)
        classes.add(float(hardware.cores.compiled))
        for name, feature in FEATURES.items():
            # NumPy's arithmetic: these are numbers of measurements, also where JAX traces around them.
            with eager():
                value = feature.value(op, hardware) if feature.device or shapes else None
            positive_values = np.asarray([] if value is None else value)
            # Distances from a hull are in octaves, which 0 has none of: it says that an op lacks the feature.
            positive_values = positive_values[positive_values > 0.0]
            if positive_values.size:
                ends.setdefault(name, []).extend((float(positive_values.min()), float(positive_values.max())))
    ranges = [
        FittedRange(name, _outward(min(own), math.floor), _outward(max(own), math.ceil)) for name, own in ends.items()
    ]
    # Kernels without products have no precision.
    known = tuple(sorted(precision for precision in precisions if precision is not None))
    return Hull(ranges=tuple(ranges), precisions=known, compiled=classes == {1.0}, growth=growth)


def _outward(number: float, rounded: Callable[[float], int]) -> float:
    """`DIGITS` digits of a number, rounded down or up, unless it has no more of them."""
    unit = 10.0 ** (math.floor(math.log10(number)) - DIGITS + 1)
    exact = number / unit
    # A number that has no more digits stays, though division may put it a little off.
    return float(f"{(round(exact) if abs(exact - round(exact)) < 1e-6 else rounded(exact)) * unit:.{DIGITS}g}")


# Tables of an efficiency file that describe kernels: the model that prices each class, and its constants.


FORMAT = 1
"""Version of the schema of kernel tables: it counts up whenever a constant changes its meaning."""

CLASSES = tuple(field.name for field in dataclasses.fields(Kernels))

STRUCTS = {struct.__name__.removesuffix("Kernel").lower(): struct for struct in MODELS}
"""Name of a kernel model in a file -> its struct."""


def kernel_table(table: Mapping[str, Any], where: str) -> tuple[Kernels, dict[str, str]]:
    """The models of one kind's kernels, and the source of every constant by dotted path below the kind.

    Args:
      table: class of kernels -> `model`, its constants, `spread`, `source` and `sources`.
      where: what the message of an error begins with.

    Raises:
      ValueError: one line that names the key, the value and what is allowed.
    """
    for key in table:
        if key not in CLASSES:
            raise ValueError(f"{where}: {key} is not a class of kernels{nearest(key, CLASSES)}")
    # Other classes are exceptions from it.
    if "wide" not in table:
        raise ValueError(f"{where}: table wide is missing; every kind needs it")
    models, sources = dict[str, Any](), dict[str, str]()
    for name, inner in table.items():
        models[name], own = _model(inner, f"{where}.{name}")
        sources |= {f"{name}.{field}": source for field, source in own.items()}
    return Kernels(**models), sources


def constant_sources(table: Mapping[str, Any], struct: type, where: str, default: str) -> dict[str, str]:
    """Source of every constant of a `struct`: what the `sources` of its table say, its `source`, or `default`."""
    default = table.get("source", default)
    if not isinstance(default, str):
        raise ValueError(f"{where}: source = {default!r} is not text")
    # A hull is computed from the measurements: it is no constant and cites nothing.
    fields = [field.name for field in dataclasses.fields(struct) if field.name != "hull"]
    own = texts(table.get("sources", {}), f"{where}.sources")
    for key, source in own.items():
        if key not in fields:
            raise ValueError(f"{where}.sources: {key} = {source!r}: no such constant{nearest(key, fields)}")
    return {key: own.get(key, default) for key in fields}


def required_format(tables: Mapping[str, Any], file: str) -> None:
    """Refuses kernel tables of another version of the schema."""
    version = tables.get("format")
    if version != FORMAT:
        raise ValueError(
            f"{file}: format = {version!r}, and this version of jaxroof reads kernel constants of format {FORMAT}; "
            "refit them with the command that the file's refit names, or install the version that wrote them"
        )


def _model(table: Any, where: str) -> tuple[Any, dict[str, str]]:
    if not isinstance(table, Mapping):
        raise ValueError(f"{where} = {table!r} is not a table")
    name = table.get("model")
    if not isinstance(name, str) or name not in STRUCTS:
        raise ValueError(f"{where}: model = {name!r} is not known{nearest(str(name), STRUCTS)}")
    struct = STRUCTS[name]
    model = constants(struct, {key: value for key, value in table.items() if key != "model"}, where)
    return model, constant_sources(table, struct, where, f"given in {where}")


# Constants of one struct: names, units and ranges are those that its fields declare.


CITED = ("source", "sources")
"""Keys of a table of constants that say where they are from."""


def constants(kind: type, table: Any, where: str) -> Any:
    """The struct of constants that a table of an efficiency file describes.

    Args:
      kind: struct whose fields declare unit and range of every constant.
      table: constant -> its number, in the declared unit or in that at the end of its key: `launch_time_us = 2.5`. A
        time other than 0 says its unit. Structs inside have tables inside, and so have constants of a class of cores.
      where: what the message of an error begins with: the file and the table.

    Raises:
      ValueError: one line that names the key, the value and what is allowed.
    """
    values = _values(kind, table, where)
    # Constants without a default must be there, whatever others the table has.
    for field in dataclasses.fields(kind):
        if field.name not in values and field.default is dataclasses.MISSING:
            raise ValueError(f"{where}: {field.name}{written_unit(declaration(kind, field.name))[0]} is missing")
    return kind(**values)


def written_unit(declared: Declaration | None) -> tuple[str, float]:
    """How the key of a constant ends where a file is written, and how many of the unit are in one of the declared."""
    if declared is None or declared.unit != "s":
        return "", 1.0
    return ("_ms", 1e3) if declared.most > MINUTE else ("_us", 1e6)


MINUTE = 60.0
"""s that a time may last at most which files hold in us; one that may last longer stands there in ms."""


def _values(kind: type, table: Any, where: str) -> dict[str, Any]:
    """What a table gives of a struct, by field."""
    if not isinstance(table, Mapping):
        raise ValueError(f"{where} = {table!r} is not a table")
    fields, inner = {field.name: field for field in dataclasses.fields(kind)}, kinds(kind)
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key in CITED:
            continue
        if key in inner:
            # A part that is a struct is a table inside this one; a hull has a form of its own.
            own: Any = (
                hull(value, f"{where}.{key}") if inner[key] is Hull else constants(inner[key], value, f"{where}.{key}")
            )
            name = key
        elif key in fields and fields[key].type == (Constants | None):
            # Constants of a class of cores are any of the same struct's, the others being those above.
            name, own = key, _values(kind, value, f"{where}.{key}")
        else:
            name, own = _number(kind, key, value, where)
        # Keys that differ in their unit alone are one constant.
        if name in values:
            raise ValueError(f"{where}: {key} = {value!r}: {name} is given twice")
        values[name] = own
    return values


@functools.cache
def own_numbers(kind: type) -> Mapping[str, Declaration]:
    """Declarations of a struct's own constants, those of structs inside left out."""
    return {path: declared for path, declared in declarations(kind).items() if "." not in path}


def _number(kind: type, key: str, value: Any, where: str) -> tuple[str, float]:
    """The name of a constant, and its number in the declared unit."""
    known = own_numbers(kind)
    zero, place = is_zero(value) and not isinstance(value, str), f"{where}: {key}"
    # Only times have a unit in their key, and 0 needs none.
    if key in known and (known[key].unit != "s" or zero):
        name, number = key, 0.0 if zero else positive(value, place)
    else:
        units = {name: declared.unit for name, declared in known.items()}
        name, number = from_key(key, 1.0 if zero else value, where, units)
    declared = known[name]
    if zero and declared.zero:
        return name, 0.0
    if zero or not declared.allows(number):
        unit = f" {declared.unit}" if declared.unit != "1" and declared.range else ""
        raise ValueError(f"{place} = {value!r} must be {declared.range or 'a positive finite number'}{unit}")
    return name, number


# Tables of an efficiency file whole: over those of its `base`, and each over the table that its `like` names.


FILES = Path(__file__).parents[1] / "efficiencies"


def shipped_names() -> list[str]:
    """Names of the shipped files."""
    return sorted(path.stem for path in FILES.glob("*.toml"))


def shipped(name: str) -> str:
    """The path of a shipped file as messages and datasets name it."""
    return f"hwspaces/efficiencies/{name}.toml"


@functools.cache
def _as_it_stands(name: str) -> Mapping[str, Any]:
    return document.toml(FILES / f"{name}.toml")


@functools.cache
def shipped_tables(name: str) -> Mapping[str, Any]:
    """The whole tables of a shipped file."""
    return whole(_as_it_stands(name), shipped(name))


def whole(tables: Mapping[str, Any], file: str) -> Mapping[str, Any]:
    """The tables of a file with what they inherit; false leaves a table or key out.

    Args:
      tables: of the file as it stands. `base = "NAME"`: over the tables of that shipped file. `like = "linear"` or
        `like = "linear.wide"` in a table: over that table of the same file.
      file: what the message of an error begins with.

    Raises:
      ValueError: one line, for a base that is not shipped or has one itself, a table that is not there or is like
        another itself, or false for what there is not below.
    """
    if "base" in tables:
        names, base = shipped_names(), tables["base"]
        if not isinstance(base, str) or base not in names:
            raise ValueError(f"{file}: base = {base!r} is no shipped file{nearest(str(base), names)}")
        # One level of bases keeps it plain where a constant is from.
        if "base" in _as_it_stands(base):
            raise ValueError(f"{file}: base = {base!r} has a base of its own")
        # Words about the base, such as its engine, date and errors, are not true of this file.
        inherited = {
            key: one for key, one in shipped_tables(base).items() if isinstance(one, Mapping) or key == "format"
        }
        tables = _over(inherited, {key: one for key, one in tables.items() if key != "base"}, file, "the base")
    return {key: _alike(value, tables, f"{file}: {key}") for key, value in tables.items()}


def at(tables: Mapping[str, Any], path: str) -> Any:
    """What stands at a dotted path of tables; an empty table where there is nothing."""
    for name in path.split("."):
        tables = tables.get(name, {}) if isinstance(tables, Mapping) else {}
    return tables


def _alike(table: Any, tables: Mapping[str, Any], where: str) -> Any:
    """A table and those inside over what their `like` names."""
    if not isinstance(table, Mapping):
        return table
    if "like" in table:
        like = table["like"]
        other = at(tables, like) if isinstance(like, str) else {}
        if not isinstance(other, Mapping) or not other:
            raise ValueError(f'{where}: like = {like!r} is no table of this file, such as "linear"')
        # A chain would depend on which table is resolved first.
        if "like" in other:
            raise ValueError(f"{where}: like = {like!r}, which is like another table itself")
        own = {key: value for key, value in table.items() if key != "like"}
        return _over(other, own, where, like)
    return {key: _alike(value, tables, f"{where}.{key}") for key, value in table.items()}


def _over(below: Mapping[str, Any], own: Mapping[str, Any], where: str, whose: str) -> dict[str, Any]:
    """One table over another, keys of tables inside them too."""
    merged = dict(below)
    for key, value in own.items():
        if value is False:
            if key not in below:
                raise ValueError(f"{where}: {key} = false, which {whose} does not have")
            del merged[key]
        # A table with a `like` stands over another table than the one here.
        elif isinstance(value, Mapping) and isinstance(below.get(key), Mapping) and "like" not in value:
            merged[key] = _over(below[key], value, f"{where}: {key}", whose)
        else:
            merged[key] = value
    return merged

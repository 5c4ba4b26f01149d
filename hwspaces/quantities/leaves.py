"""Figures of an accelerator by dotted path: unit and range of each, and the structs that they make."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from hwspaces.quantities.units import is_zero, nearest, quantity
from jaxroof.hardware import Hardware
from jaxroof.numerics.struct import (
    NO_DEFAULT,
    Declaration,
    declaration,
    declarations,
    kinds,
    optional_parts,
    required,
    several_parts,
)

PRECISIONS = ("bf16", "fp16", "fp8", "fp6", "fp4", "int8", "int4", "tf32", "fp32")
"""Precisions that a matrix unit may have a peak for."""


def units(kind: type) -> dict[str, str]:
    """SI unit of every number of a struct, by dotted path; `*` stands for a precision."""
    return {path: leaf.unit for path, leaf in declarations(kind).items() if not leaf.structure}


def leaf(path: str) -> Declaration:
    """What the leaf of `Hardware` at `path` is, with or without a leading `hardware.`.

    Raises:
      ValueError: one line with the nearest known paths when there is no such leaf.
    """
    plain = path.removeprefix("hardware.")
    declared = declaration(Hardware, plain)
    if declared is None or declared.structure:
        raise ValueError(f"{path} is not a figure of the hardware{nearest(plain, units(Hardware))}")
    return declared


def leaf_unit(path: str) -> str:
    """The SI unit of a leaf of `Hardware`, by dotted path; ValueError as `leaf`."""
    return leaf(path).unit


def leaf_quantity(text_or_number: str | int | float, path: str, where: str) -> float:
    """The figure of a leaf of `Hardware` in its SI unit; ValueError of one line as `leaf` and `declared_quantity`."""
    return declared_quantity(text_or_number, leaf(path), where)


def declared_quantity(value: Any, declared: Declaration, where: str) -> float:
    """`value` in the SI unit and within the range of a declaration; ValueError begins with `where`."""
    if declared.codes:
        return _code(value, declared.codes, where)
    # `quantity` takes positive numbers alone, so that a zero that is allowed is told before.
    if declared.zero and is_zero(value, declared.unit):
        return 0.0
    number = quantity(value, declared.unit, where)
    if declared.counts and number != math.floor(number):
        raise ValueError(f"{where} = {value!r} must be a whole number")
    if not declared.allows(number):
        raise ValueError(f"{where} = {value!r} must be {declared.range}")
    return number


def struct_of(kind: type, figures: Mapping[str, float], texts: Mapping[str, str], prefix: str = "") -> Any:
    """The struct that figures and texts by dotted path describe; None where one is missing that it cannot be without.

    A struct in it is None where that one is incomplete. A figure that is missing has its default, or is None.

    Args:
      prefix: of the struct's paths: "memory.l2.".
    """
    if any(f"{prefix}{path}" not in figures for path in required(kind)):
        return None
    inner, optional, several = kinds(kind), optional_parts(kind), several_parts(kind)
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        path = f"{prefix}{field.name}"
        declared = declarations(kind).get(field.name)
        # Nothing of a part that need not be there: None, rather than an incomplete struct.
        if field.name in optional and not any(known.startswith(f"{path}.") for known in figures):
            values[field.name] = None
        elif field.name in inner:
            values[field.name] = struct_of(inner[field.name], figures, texts, f"{path}.")
        elif field.name in several:
            names = sorted(
                {known[len(path) + 1 :].partition(".")[0] for known in figures if known.startswith(f"{path}.")}
            )
            parts = {name: struct_of(several[field.name], figures, texts, f"{path}.{name}.") for name in names}
            values[field.name] = {name: part for name, part in parts.items() if part is not None} or None
        elif f"{field.name}.*" in declarations(kind):
            # One key per known precision, always in the same order, so that equal devices have equal structure.
            by_precision = {key: figures[f"{path}.{key}"] for key in PRECISIONS if f"{path}.{key}" in figures}
            values[field.name] = by_precision if by_precision or field.default is not None else None
        elif declared is not None:
            default = None if declared.default is NO_DEFAULT else declared.default
            values[field.name] = (texts if declared.structure else figures).get(path, default)
    return kind(**values)


def _code(value: Any, words: tuple[str, ...], where: str) -> float:
    """The code of a word, in which dashes may stand for underscores, or the code itself."""
    if isinstance(value, str) and value.replace("-", "_") in words:
        return float(words.index(value.replace("-", "_")))
    try:
        # The figures of an entry hold the code already, which a user may write too.
        code = float(value)
    except (TypeError, ValueError):
        code = -1.0
    if code not in range(len(words)):
        known = " or ".join(words) if len(words) == 2 else f"one of {', '.join(words)}"
        raise ValueError(f"{where} = {value!r} must be {known}")
    return code

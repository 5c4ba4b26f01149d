"""Dimensions of the two sides of a condition: seconds with seconds, bytes with bytes."""

import ast
import re
from collections.abc import Mapping, Sequence

from hwspaces.quantities.units import TEXT_UNITS

Dimension = Mapping[str, int] | None
"""Powers of base units, such as {"B": 1, "s": -1}; None: not known, or that of a plain number, which fits all."""

_BASES: dict[str, dict[str, int]] = {name: {name: 1} for name in ("s", "B", "FLOP", "J", "m", "USD", "clock", "core")}
_BASES |= {"W": {"J": 1, "s": -1}, "Hz": {"s": -1}, "1": {}, "flag": {}}
_WORD = re.compile(r"([A-Za-z]+|1)([2-9]?)")


def dimension(unit: str) -> Dimension:
    """The dimension of an SI unit as `hwspaces.quantities.units` writes it; None for any other text."""
    found: dict[str, int] = {}
    for i, part in enumerate(unit.split("/")):
        for word in part.split() or [""]:
            match = _WORD.fullmatch(word)
            if match is None or match[1] not in _BASES:
                return None
            sign = int(match[2] or 1) * (1 if i == 0 else -1)
            found = _product(found, _BASES[match[1]], sign)
    return found


def amount(number: str, unit: str) -> tuple[float, str]:
    """A number with a unit in SI units, and the SI unit; ValueError in one line where there is no such unit."""
    for si, spelled in TEXT_UNITS.items():
        if unit and unit in spelled:
            return float(number) * spelled[unit], si
    raise ValueError(f"--where: {number[:40]} {unit[:40]} has no unit that is known; leave it out to give SI units")


def require_same(node: ast.AST, units: Mapping[str, str], words: Mapping[str, str]) -> Dimension:
    """The dimension of an expression.

    Args:
      node: the expression, which is one that conditions allow.
      units: SI unit of every name; "" for text, "flag" for yes or no.
      words: how a name is written in the condition, where that differs: `40 ms`.

    Returns:
      None for text, truth values and plain numbers. A plain number that multiplies something with a unit has none.

    Raises:
      ValueError: one line that names both sides and their units, where seconds are compared with bytes or added.
    """
    if isinstance(node, ast.Name):
        return dimension(units[node.id])
    if isinstance(node, ast.UnaryOp):
        found = require_same(node.operand, units, words)
        return None if isinstance(node.op, ast.Not) else found
    if isinstance(node, ast.BinOp):
        left, right = (require_same(side, units, words) for side in (node.left, node.right))
        if isinstance(node.op, ast.Mult | ast.Div):
            sign = 1 if isinstance(node.op, ast.Mult) else -1
            if not (left or right) and None in (left, right):
                return None
            unknown = any(_names_unknown(side, units) for side in (node.left, node.right))
            return None if unknown else _product(left or {}, right or {}, sign)
        _require_equal([(node.left, left), (node.right, right)], units, words)
        return right if left is None else left
    sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
    parts = sides or (node.values if isinstance(node, ast.BoolOp) else [])
    found = [(part, require_same(part, units, words)) for part in parts]
    if sides:
        _require_equal(found, units, words)
    return None


def _names_unknown(node: ast.AST, units: Mapping[str, str]) -> bool:
    """Whether something in an expression has a unit that is not known."""
    return any(isinstance(part, ast.Name) and dimension(units[part.id]) is None for part in ast.walk(node))


def _require_equal(
    sides: Sequence[tuple[ast.AST, Dimension]], units: Mapping[str, str], words: Mapping[str, str]
) -> None:
    known = [(node, found) for node, found in sides if found is not None]
    for node, found in known[1:]:
        if found != known[0][1]:
            first, other = (_said(side, units, words) for side in (known[0], (node, found)))
            raise ValueError(f"--where: {first} and {other} cannot be compared or added")


def _said(side: tuple[ast.AST, Dimension], units: Mapping[str, str], words: Mapping[str, str]) -> str:
    """An expression with its unit, in words."""
    node, found = side
    text = re.sub(r"\w+", lambda match: words.get(match[0], match[0]), ast.unparse(node))
    unit = units[node.id] if isinstance(node, ast.Name) else _unit(found)
    return f"{text} (without unit)" if not found else f"{text} (in {unit})"


def _unit(found: Dimension) -> str:
    return " ".join(base if power == 1 else f"{base}{power}" for base, power in sorted((found or {}).items()))


def _product(left: Mapping[str, int], right: Mapping[str, int], sign: int) -> dict[str, int]:
    powers = {base: left.get(base, 0) + sign * right.get(base, 0) for base in (*left, *right)}
    return {base: power for base, power in powers.items() if power}

"""A condition in words, such as "tpot < 40 ms and feasible", as a function of columns. Nothing in it is executed."""

import ast
import functools
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hwspaces.quantities.units import TEXT_UNITS, nearest

Dimension = Mapping[str, int] | None
"""Powers of base units, such as {"B": 1, "s": -1}; None: not known, or that of a plain number, which fits all."""

_BASES: dict[str, dict[str, int]] = {name: {name: 1} for name in ("s", "B", "FLOP", "J", "m", "USD", "clock", "core")}
_BASES |= {"W": {"J": 1, "s": -1}, "Hz": {"s": -1}, "1": {}, "flag": {}}
_WORD = re.compile(r"([A-Za-z]+|1)([2-9]?)")


def dimension(unit: str) -> Dimension:
    """The dimension of an SI unit as `hwspaces.quantities.units` writes it; None for any other text."""
    powers: dict[str, int] = {}
    # Words behind a slash are in the denominator.
    for i, part in enumerate(unit.split("/")):
        for word in part.split() or [""]:
            match = _WORD.fullmatch(word)
            if match is None or match[1] not in _BASES:
                return None
            sign = int(match[2] or 1) * (1 if i == 0 else -1)
            powers = _product(powers, _BASES[match[1]], sign)
    return powers


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
        inner_dimensions = require_same(node.operand, units, words)
        return None if isinstance(node.op, ast.Not) else inner_dimensions
    # Products and quotients add and subtract powers; sums need sides of one dimension.
    if isinstance(node, ast.BinOp):
        left, right = (require_same(side, units, words) for side in (node.left, node.right))
        if isinstance(node.op, ast.Mult | ast.Div):
            sign = 1 if isinstance(node.op, ast.Mult) else -1
            # Nothing to compare: a plain number with another one, or with what has no dimension.
            if not (left or right) and None in (left, right):
                return None
            unknown = any(_names_unknown(side, units) for side in (node.left, node.right))
            return None if unknown else _product(left or {}, right or {}, sign)
        _require_equal([(node.left, left), (node.right, right)], units, words)
        return right if left is None else left
    # A comparison needs sides of one dimension; and, or, not take truth values, which have none.
    sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
    parts = sides or (node.values if isinstance(node, ast.BoolOp) else [])
    inner_dimensions = [(part, require_same(part, units, words)) for part in parts]
    if sides:
        _require_equal(inner_dimensions, units, words)
    return None


def _names_unknown(node: ast.AST, units: Mapping[str, str]) -> bool:
    """Whether something in an expression has a unit that is not known."""
    return any(isinstance(part, ast.Name) and dimension(units[part.id]) is None for part in ast.walk(node))


def _require_equal(
    sides: Sequence[tuple[ast.AST, Dimension]], units: Mapping[str, str], words: Mapping[str, str]
) -> None:
    # Plain numbers and text fit everything.
    known = [(node, powers) for node, powers in sides if powers is not None]
    for node, powers in known[1:]:
        if powers != known[0][1]:
            first, other = (_said(side, units, words) for side in (known[0], (node, powers)))
            raise ValueError(f"--where: {first} and {other} cannot be compared or added")


def _said(side: tuple[ast.AST, Dimension], units: Mapping[str, str], words: Mapping[str, str]) -> str:
    """An expression with its unit, in words."""
    node, powers = side
    # Amounts are shown as the user wrote them, not by the names that stand for them.
    text = re.sub(r"\w+", lambda match: words.get(match[0], match[0]), ast.unparse(node))
    unit = units[node.id] if isinstance(node, ast.Name) else _unit(powers)
    return f"{text} (without unit)" if not powers else f"{text} (in {unit})"


def _unit(dimension: Dimension) -> str:
    return " ".join(base if power == 1 else f"{base}{power}" for base, power in sorted((dimension or {}).items()))


def _product(left: Mapping[str, int], right: Mapping[str, int], sign: int) -> dict[str, int]:
    powers = {base: left.get(base, 0) + sign * right.get(base, 0) for base in (*left, *right)}
    return {base: power for base, power in powers.items() if power}


LONGEST = 10_000
"""Characters of a condition."""

DEEPEST = 50
"""Levels of brackets in a condition."""

_COMPARISONS: dict[type, Callable[..., Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}

_ARITHMETIC: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}

_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)

_AMOUNT = re.compile(
    r"(?<![\w.\"'])((?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?)(?![eE][-+]?\d)"
    r"\s*+([A-Za-zµ][A-Za-z/µ]*+2?)(?![\w(])"
)
"""A number with a unit behind it; it is read without going back over its digits."""

_AMOUNT_NAME = "amount__"
"""How the names begin under which amounts with a unit stand in the expression."""

_WORDS = ("and", "or", "not", "in", "is", "if", "else")
"""What is no unit behind a number."""


class Condition:
    """A condition on the variables and axes of a sweep.

    Args:
      text: names, numbers with or without units, quoted names; < <= > >= == !=, and, or, not, + - * /, brackets.
      units: SI units of everything that it may name, by name; "" for text.

    Attributes:
      names: what it reads.

    Raises:
      ValueError: one line, for what is not such a condition, a name that there is not, or a wrong unit.
    """

    def __init__(self, text: str, units: Mapping[str, str]):
        if len(text) > LONGEST:
            raise ValueError(f"--where has {len(text):,} characters; at most {LONGEST:,} are read")
        self.text = text
        # The names that stand for amounts are refused in a condition itself.
        if _AMOUNT_NAME in text:
            raise ValueError(f"--where: there is no {_AMOUNT_NAME} here")
        # With names in place of amounts such as 40 ms, Python's grammar parses the rest.
        plain, self._amounts = _named_amounts(text)
        units = {**units, **{name: unit for name, (_, unit, _) in self._amounts.items()}}
        try:
            tree = ast.parse(plain.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise ValueError(f"--where {text!r} is not a condition such as 'tpot < 40e-3 and feasible'") from None
        # Only nodes of the grammar above pass, and nothing is ever evaluated as Python.
        try:
            names = dict.fromkeys(_checked(tree, text, units, 0))
        except RecursionError:  # of lists in lists, which are not allowed, as they are shown
            raise ValueError(f"--where {text[:60]!r} ... has more than {DEEPEST} levels of brackets") from None
        self.names = tuple(name for name in names if name not in self._amounts)
        require_same(tree, units, {name: words for name, (_, _, words) in self._amounts.items()})
        # A number alone would hold wherever it is not 0.
        if _is_amount(tree, units):
            raise ValueError(f"--where {text!r} is a number, not a condition such as 'tpot < 40e-3 and feasible'")
        self._tree = tree

    def __call__(self, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        """True where the condition holds, of the shape that `columns` have together."""
        # Divisions by 0 give infinities or NaN, silently.
        with np.errstate(all="ignore"):
            amounts = {name: value for name, (value, _, _) in self._amounts.items()}
            known: dict[str, Any] = {**columns, **amounts}
            return np.asarray(_value(self._tree, known)).astype(bool)


def _named_amounts(text: str) -> tuple[str, dict[str, tuple[float, str, str]]]:
    """The text with a name for every amount that has a unit; by name, its SI value, SI unit and words.

    What is quoted stays as it is.
    """
    amounts: dict[str, tuple[float, str, str]] = {}

    def named(match: re.Match[str]) -> str:
        if match[2] in _WORDS:
            return match[0]
        name = f"{_AMOUNT_NAME}{len(amounts)}"
        amounts[name] = (*amount(match[1], match[2]), f"{match[1][:40]} {match[2][:40]}")
        return name

    # Odd parts are quoted texts.
    parts = re.split(r"(\"[^\"]*\"|'[^']*')", text)
    return "".join(part if i % 2 else _AMOUNT.sub(named, part) for i, part in enumerate(parts)), amounts


def _checked(node: ast.AST, text: str, units: Mapping[str, str], depth: int) -> Iterable[str]:
    """Names that an expression reads; ValueError for anything that it must not be."""
    if depth > DEEPEST:
        raise ValueError(f"--where {text!r} has more than {DEEPEST} levels of brackets")
    if isinstance(node, ast.Name):
        if node.id not in units:
            raise ValueError(f"--where: there is no {node.id} here{nearest(node.id, units)}")
        yield node.id
    elif isinstance(node, ast.Constant):
        if not isinstance(node.value, bool | int | float | str):
            raise ValueError(f"--where: {node.value!r} must be a number or a quoted name")
        # Beyond int64 NumPy would fall back to Python objects.
        if isinstance(node.value, int) and abs(node.value) > 1 << 62:
            raise ValueError("--where: a number is beyond 64 bits")
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from _checked(value, text, units, depth + 1)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield from _checked(node.operand, text, units, depth + 1)
    elif isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        # Names take part in no arithmetic, and below in no order: they are equal to another or not.
        for value in (node.left, node.right):
            if _is_text(value, units):
                raise ValueError(f"--where: {ast.unparse(value)} is a name, which cannot be calculated with")
            yield from _checked(value, text, units, depth + 1)
    elif isinstance(node, ast.Compare) and all(type(op) in _COMPARISONS for op in node.ops):
        sides = [node.left, *node.comparators]
        for value in sides:
            yield from _checked(value, text, units, depth + 1)
        kinds = {_is_text(value, units) for value in sides}
        if len(kinds) > 1 or (kinds == {True} and any(isinstance(op, _ORDERS) for op in node.ops)):
            raise ValueError(f"--where: {ast.unparse(node)} compares names; they are equal (==) or not (!=) to a name")
    else:
        raise ValueError(f"--where: {ast.unparse(node)} is not allowed; names, numbers, comparisons, and, or, not are")


def _is_text(node: ast.AST, units: Mapping[str, str]) -> bool:
    if isinstance(node, ast.Name):
        return units.get(node.id) == ""
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_amount(node: ast.AST, units: Mapping[str, str]) -> bool:
    """True for what is a number and no condition."""
    if isinstance(node, ast.Name):
        return units[node.id] != "flag"
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub)
    return isinstance(node, ast.BinOp | ast.Constant) and not (
        isinstance(node, ast.Constant) and isinstance(node.value, bool)
    )


def _value(node: ast.AST, columns: Mapping[str, np.ndarray]) -> Any:
    if isinstance(node, ast.Name):
        return columns[node.id]
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.BoolOp):
        # Truth values of whole columns, element by element.
        values = [np.asarray(_value(value, columns)).astype(bool) for value in node.values]
        return functools.reduce(np.logical_and if isinstance(node.op, ast.And) else np.logical_or, values)
    if isinstance(node, ast.UnaryOp):
        value = np.asarray(_value(node.operand, columns))
        return ~value.astype(bool) if isinstance(node.op, ast.Not) else -value.astype(float)
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left, columns), _value(node.right, columns)
        return _ARITHMETIC[type(node.op)](np.asarray(left, float), np.asarray(right, float))
    assert isinstance(node, ast.Compare)  # `_checked` lets nothing else through
    # A chain such as a < b < c holds where every pair of neighbours does, as in Python.
    sides = [_value(side, columns) for side in (node.left, *node.comparators)]
    pairs = zip(node.ops, sides[:-1], sides[1:], strict=True)
    return functools.reduce(np.logical_and, (_COMPARISONS[type(op)](left, right) for op, left, right in pairs))

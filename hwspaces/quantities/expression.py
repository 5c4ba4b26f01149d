"""Expressions of figures, such as `cores.count * cores.clock * 4096`: their names, their unit and their value."""

import ast
import dataclasses
import functools
import math
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from hwspaces.quantities.units import TEXT_UNITS, nearest, quantity
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import ceiling, maximum, minimum
from jaxroof.numerics.struct import given

LONGEST = 1_000
"""Characters of an expression."""

DEEPEST = 40
"""Operations inside each other."""

Dimension = Mapping[str, Fraction]
"""Base unit -> its power, without powers of 0: {"m": 2} of an area."""

# Energy is a base unit here, so that power is J/s; areas are the only powers with a symbol of their own.
_DERIVED = {"W": {"J": 1, "s": -1}, "Hz": {"s": -1}, "m2": {"m": 2}}
_PLAIN: Dimension = {}


@dataclasses.dataclass(frozen=True)
class Function:
    """A function that an expression may call by its name."""

    compute: Callable[..., Any]
    unit: str | None = None  # SI unit of its value; None: that of its arguments
    arguments: tuple[str, ...] | None = None  # SI units of its arguments; None: one or more of one unit
    reads: tuple[str, ...] = ()  # beginnings of the paths that it reads beside its arguments; it is given the tree


def _smallest(*terms: Any) -> Any:
    return minimum(*terms)


def _largest(*terms: Any) -> Any:
    return maximum(*terms)


FUNCTIONS: dict[str, Function] = {
    "min": Function(_smallest),
    "max": Function(_largest),
    "ceil": Function(ceiling, "1", ("1",)),
    "exp": Function(lambda x: jnp.exp(x), "1", ("1",)),
    "log": Function(lambda x: jnp.log(x), "1", ("1",)),
}
"""Functions of numbers alone. Minimum, maximum and ceiling have the gradients of `jaxroof.numerics.smooth`."""

_OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda one, other: one + other,
    ast.Sub: lambda one, other: one - other,
    ast.Mult: lambda one, other: one * other,
    ast.Div: lambda one, other: one / other,
}


class Expression:
    """A checked expression.

    Args:
      text: names with dots, numbers, texts with a unit ('700 W'), + - * / **, parentheses and functions.
      unit_of: SI unit of a name; ValueError for a name that is not known.
      functions: beside `FUNCTIONS`, by name.
      where: what the message of an error begins with.
      unit: SI unit that its value must be in.

    Attributes:
      names: in it, each once.
      reads: beginnings of the paths that its functions read.

    Raises:
      ValueError: one line: it is no expression, a name or function is not known, or units do not agree.
    """

    def __init__(
        self, text: str, unit_of: Callable[[str], str], functions: Mapping[str, Function], where: str, unit: str
    ):
        self.text, self._functions, self._where = text, {**FUNCTIONS, **functions}, where
        if len(text) > LONGEST:
            raise ValueError(f"{where}: the expression has {len(text):,} characters; at most {LONGEST:,} are read")
        try:
            # Python's grammar is that of the expressions. Nothing is run: nodes that are not known below are refused.
            self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise ValueError(f"{where} = {text!r} is not an expression such as cores.count * cores.clock") from None
        self.names: tuple[str, ...] = ()
        self.reads: tuple[str, ...] = ()
        self._unit_of = unit_of
        # One walk checks all nodes, and notes names and what functions read.
        actual = self._dimension(self._tree, DEEPEST)
        wanted = dimension(unit)
        if actual != wanted:
            raise ValueError(f"{where} = {text!r} is in {_text(actual)}; it must be in {_text(wanted)}")

    def value(self, number: Callable[[str], Any], tree: Any) -> Any:
        """Its value in the SI unit, shape of the numbers broadcast.

        Args:
          number: the number of a name.
          tree: what functions that read a whole tree are given.
        """
        return self._value(self._tree, number, tree)

    def _value(self, node: ast.AST, number: Callable[[str], Any], tree: Any) -> Any:
        if isinstance(node, ast.Constant):
            return _literal(node.value)[0]
        if isinstance(node, ast.Name | ast.Attribute):
            return number(given(_dotted(node), "name of a number"))
        if isinstance(node, ast.UnaryOp):
            value = self._value(node.operand, number, tree)
            return -value if isinstance(node.op, ast.USub) else value
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            function = self._functions[node.func.id]
            arguments = [self._value(one, number, tree) for one in node.args]
            # Functions of a device are given the device itself, besides their arguments.
            return function.compute(*([tree] if function.reads else []), *arguments)
        assert isinstance(node, ast.BinOp)
        left = self._value(node.left, number, tree)
        if isinstance(node.op, ast.Pow):
            return left ** self._value(node.right, number, tree)
        return _OPERATIONS[type(node.op)](left, self._value(node.right, number, tree))

    def _dimension(self, node: ast.AST, depth: int) -> Dimension:
        """The dimension of a part; ValueError where there is none."""
        # Bounds the recursion, whatever a file holds.
        if depth == 0:
            raise ValueError(f"{self._where}: the expression has more than {DEEPEST} operations inside each other")
        if isinstance(node, ast.Constant):
            return self._checked(_literal, node.value)[1]
        if isinstance(node, ast.Name | ast.Attribute):
            name = _dotted(node)
            if name is not None:
                self.names = tuple(dict.fromkeys((*self.names, name)))
                return dimension(self._checked(self._unit_of, name))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            return self._dimension(node.operand, depth - 1)
        if isinstance(node, ast.Call):
            return self._called(node, depth - 1)
        if isinstance(node, ast.BinOp) and (isinstance(node.op, ast.Pow) or type(node.op) in _OPERATIONS):
            return self._combined(node, depth - 1)
        shown = ast.unparse(node)
        raise ValueError(f"{self._where}: {shown!r} is not known; an expression has names, numbers, + - * / ** and ()")

    def _combined(self, node: ast.BinOp, depth: int) -> Dimension:
        left, right = self._dimension(node.left, depth), self._dimension(node.right, depth)
        if isinstance(node.op, ast.Mult):
            return _times(left, right, 1)
        if isinstance(node.op, ast.Div):
            return _times(left, right, -1)
        if isinstance(node.op, ast.Pow):
            return self._power(node, left, right)
        if left != right:
            shown = ast.unparse(node)
            raise ValueError(f"{self._where}: {shown!r} adds {_text(left)} and {_text(right)}")
        return left

    def _power(self, node: ast.BinOp, left: Dimension, right: Dimension) -> Dimension:
        """The dimension of a power: of a number with a unit to a constant one only."""
        if right != _PLAIN:
            raise ValueError(
                f"{self._where}: the exponent of {ast.unparse(node)!r} is in {_text(right)}; it must be plain"
            )
        # A plain number may have any plain exponent, computed ones included.
        if left == _PLAIN:
            return _PLAIN
        try:
            # Exact, so that the units of two square roots cancel when they are multiplied.
            exponent = Fraction(str(ast.literal_eval(node.right)))
        except ValueError:
            shown = ast.unparse(node)
            raise ValueError(
                f"{self._where}: the exponent of {shown!r} must be a number: its base has a unit"
            ) from None
        return {name: power * exponent for name, power in left.items() if exponent}

    def _called(self, node: ast.Call, depth: int) -> Dimension:
        name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
        function = self._functions.get(name)
        if function is None or node.keywords:
            raise ValueError(f"{self._where}: the function {name} is not known{nearest(name, self._functions)}")
        given = [self._dimension(argument, depth) for argument in node.args]
        self.reads += function.reads
        if function.arguments is not None and len(given) != len(function.arguments):
            raise ValueError(f"{self._where}: {name} has {len(given)} arguments; it takes {len(function.arguments)}")
        if function.arguments is None and not given:
            raise ValueError(f"{self._where}: {name} has no arguments; give at least one")
        # Functions that declare no arguments, such as min and max, take any number of one unit.
        wanted = given[:1] * len(given) if function.arguments is None else [*map(dimension, function.arguments)]
        for own, right in zip(given, wanted, strict=True):
            if own != right:
                raise ValueError(
                    f"{self._where}: {ast.unparse(node)!r} is given {_text(own)} in place of {_text(right)}"
                )
        return given[0] if function.unit is None else dimension(function.unit)

    def _checked(self, function: Callable[[Any], Any], value: Any) -> Any:
        """`function(value)`, with this expression named in its error."""
        try:
            return function(value)
        except ValueError as error:
            raise ValueError(f"{self._where} = {self.text!r}: {error}") from None


@functools.cache
def dimension(unit: str) -> Dimension:
    """Base units of an SI unit as `hwspaces.quantities.units` writes it: of "m2 s/B" {m: 2, s: 1, B: -1}."""
    powers: Dimension = {}
    # Units behind a slash, the first or a later one, have negative powers.
    for place, part in enumerate(unit.split("/")):
        for symbol in part.split():
            if symbol != "1":
                powers = _times(
                    powers, {k: Fraction(v) for k, v in _DERIVED.get(symbol, {symbol: 1}).items()}, 1 - 2 * (place > 0)
                )
    return powers


def _times(one: Dimension, other: Dimension, sign: int) -> Dimension:
    powers = {name: one.get(name, Fraction()) + sign * other.get(name, Fraction()) for name in {**one, **other}}
    return {name: power for name, power in powers.items() if power}


def _text(dimension: Dimension) -> str:
    """A dimension in words: "FLOP/s"."""
    above = [_symbol(name, power) for name, power in dimension.items() if power > 0]
    below = [_symbol(name, -power) for name, power in dimension.items() if power < 0]
    return (" ".join(above) or "1") + "".join(f"/{symbol}" for symbol in below) if dimension else "plain numbers"


def _symbol(name: str, power: Fraction) -> str:
    return name if power == 1 else f"{name}{power}"


def _dotted(node: ast.AST) -> str | None:
    """`a.b.c` of names and attributes; None for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        around = _dotted(node.value)
        return around and f"{around}.{node.attr}"
    return None


@functools.cache
def _literal(value: Any) -> tuple[float, Dimension]:
    """A number, or the quantity that a text such as '700 W' says, and its dimension."""
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value), _PLAIN
    if isinstance(value, str):
        symbol = re.sub(r"^\s*[-+\d._]+(?:[eE][-+]?\d+)?\s*", "", value).strip()
        # The symbol tells the unit: symbols of two units, such as GHz, have the same dimension in both.
        for unit, texts in TEXT_UNITS.items():
            if symbol and symbol in texts:
                return quantity(value, unit, repr(value)), dimension(unit)
        raise ValueError(f"{value!r} is no number with a unit, such as '700 W'")
    raise ValueError(f"{value!r} is not a finite number")

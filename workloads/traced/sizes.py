"""Numbers of dimensions: whole numbers, and expressions of the symbols of `jax.export.symbolic_shape`."""

import ast
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

from jaxroof.numerics.smooth import ceiling, maximum, minimum
from jaxroof.numerics.struct import Scalar

Dim = Any
"""One dimension: a whole number, or an expression of symbols."""

Shape = tuple[Dim, ...]
"""Dimensions of an array, or the factors of a product."""


class Sizes:
    """The numbers that dimensions have where symbols have these values: numbers, columns of them, or tracers of JAX.

    Args:
      values: of every symbol, by its name.
    """

    def __init__(self, values: Mapping[str, Scalar]):
        self._values = dict(values)
        self._known: dict[Any, Scalar] = {}

    def number(self, dim: Dim) -> Scalar:
        """One dimension as a float. Differentiable; a floor has the mean slope of its steps."""
        if isinstance(dim, int | float):
            return float(dim)
        text = str(dim)
        # Text of an expression as its key: equal expressions of one trace are one entry.
        if text not in self._known:
            self._known[text] = _expression(text)(self._values)
        return self._known[text]

    def elements(self, shape: Shape) -> Scalar:
        """Product of dimensions, 1 of none."""
        key = shape_key(shape)
        if key not in self._known:
            # Known factors first: what is left is a product of symbols.
            constant = math.prod(float(dim) for dim in shape if isinstance(dim, int | float))
            symbols = [self.number(dim) for dim in shape if not isinstance(dim, int | float)]
            self._known[key] = math.prod(symbols, start=constant)
        return self._known[key]


def shape_key(shape: Shape) -> tuple[Any, ...]:
    """The same for shapes with the same dimensions."""
    return tuple(dim if isinstance(dim, int | float) else str(dim) for dim in shape)


def is_one(dim: Dim) -> bool:
    """Whether a dimension is 1 whatever the symbols are."""
    return isinstance(dim, int | float) and dim == 1


def symbols_of(shape: Shape) -> set[str]:
    """Names of the symbols in a shape."""
    texts = (str(dim) for dim in shape if not isinstance(dim, int | float))
    return {node.id for text in texts for node in ast.walk(_parsed(text)) if isinstance(node, ast.Name)} - set(_CALLS)


def _parsed(text: str) -> ast.Expression:
    # JAX writes powers as ^.
    return ast.parse(text.replace("^", "**"), mode="eval")


@functools.cache
def _expression(text: str) -> Callable[[Mapping[str, Scalar]], Scalar]:
    """A dimension, as JAX writes it, as a function of its symbols."""
    return _compiled(_parsed(text).body, text)


def _compiled(node: ast.expr, text: str) -> Callable[[Mapping[str, Scalar]], Scalar]:
    match node:
        case ast.Constant(value=int() as value):
            return lambda values: float(value)
        case ast.Name(id=name):
            return lambda values: values[name]
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            negated = _compiled(inner, text)
            return lambda values: -negated(values)
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
            function, one, other = _OPERATORS[type(operator)], _compiled(left, text), _compiled(right, text)
            return lambda values: function(one(values), other(values))
        case ast.Call(func=ast.Name(id=name), args=args) if name in _CALLS:
            inner_ones = [_compiled(arg, text) for arg in args]
            return lambda values: _CALLS[name](*(one(values) for one in inner_ones))
    raise ValueError(f"the dimension {text} is no sum, product, floordiv, mod, max or min of symbols")


def _floordiv(one: Scalar, other: Scalar) -> Scalar:
    # floor(a / b) = -ceil(-a / b): the ceiling's smooth slope serves both.
    return -ceiling(-one / other)


_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda one, other: one + other,
    ast.Sub: lambda one, other: one - other,
    ast.Mult: lambda one, other: one * other,
    ast.Pow: lambda one, other: one**other,
}

_CALLS: dict[str, Callable[..., Any]] = {
    "floordiv": _floordiv,
    "mod": lambda one, other: one - other * _floordiv(one, other),
    "max": maximum,
    "min": minimum,
}

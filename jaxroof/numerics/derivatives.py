"""Dual numbers: a number, or a column of them, with its derivatives in several directions, for NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np

from jaxroof.numerics.arrays import Carrying, eager
from jaxroof.numerics.tree import leaves, mapped


class Dual(Carrying):
    """A number whose derivatives follow it through every formula: forward mode, in all directions at once.

    The rules are those of JAX: a maximum of two equal numbers has half of each slope, steps have none, and a function
    with a rule of its own (`jaxroof.numerics.arrays.sloped`) keeps it.

    Args:
      value: the number, shape [...].
      tangent: its derivatives, a shape that broadcasts to [..., directions].
    """

    def __init__(self, value: Any, tangent: Any):
        self.value, self.tangent = value, tangent

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        if method != "__call__" or named:
            raise TypeError(f"dual numbers have no {ufunc.__name__}.{method}")
        values = [_value(one) for one in inputs]
        result = ufunc(*values)
        if ufunc.__name__ in WITHOUT_SLOPE:
            return result
        slopes = SLOPES.get(ufunc.__name__)
        if slopes is None:
            raise TypeError(f"dual numbers have no rule for {ufunc.__name__}")
        # Chain rule: sum over arguments of slope times tangent, in all directions at once.
        tangent = 0.0
        for one, slope in zip(inputs, slopes, strict=True):
            if type(one) is Dual:
                tangent = tangent + _up(slope(result, *values)) * one.tangent
        return Dual(result, tangent)

    def __array_function__(self, function: Any, types: Any, inputs: Any, named: Any) -> Any:
        if function.__name__ in WITHOUT_SLOPE:
            return function(*mapped(_value, tuple(inputs)), **named)
        rule = FUNCTIONS.get(function.__name__)
        if rule is None:
            raise TypeError(f"dual numbers have no rule for {function.__name__}")
        return rule(*inputs, **named)

    def follow(self, rule: Callable[..., Any], constant: Any, arguments: tuple[Any, ...]) -> "Dual":
        """The result of a function of some dual numbers that has a rule of its own."""
        # Values get an axis for the directions, so that rules broadcast over it.
        primals = mapped(lambda one: _up(_value(one)), arguments)
        value, tangent = rule(constant, primals, mapped(_tangent, arguments))
        flat = np.ndim(value) and any(np.ndim(_value(one)) for one in leaves(arguments))
        return Dual(value[..., 0] if flat else value, tangent)

    def __getitem__(self, place: Any) -> "Dual":
        return Dual(np.asarray(self.value)[place], _full(self)[place])

    def astype(self, dtype: Any) -> Any:
        """Itself as a float; a plain number of any other type."""
        return self if np.dtype(dtype).kind == "f" else np.asarray(self.value, dtype)[()]

    def reshape(self, *shape: Any) -> "Dual":
        """Of another shape."""
        full = _full(self)
        return Dual(np.reshape(self.value, shape), full.reshape(*np.reshape(self.value, shape).shape, full.shape[-1]))


def _value(one: Any) -> Any:
    return one.value if type(one) is Dual else one


def _tangent(one: Any) -> Any:
    return one.tangent if type(one) is Dual else 0.0


def _up(value: Any) -> Any:
    """A number in the shape that multiplies tangents."""
    return value[..., None] if np.ndim(value) else value


def _full(one: Any) -> np.ndarray:
    """Tangents in the whole shape."""
    tangent = np.asarray(_tangent(one))
    return np.broadcast_to(tangent, (*np.shape(_value(one)), tangent.shape[-1] if tangent.ndim else 1))


def _equal_tangents(numbers: Any) -> list[np.ndarray]:
    full = [_full(one) for one in numbers]
    directions = max(each.shape[-1] for each in full)
    return [np.broadcast_to(each, (*each.shape[:-1], directions)) for each in full]


def _where(condition: Any, one: Any, other: Any) -> Dual:
    value = np.where(condition, _value(one), _value(other))[()]
    # A condition selects value and tangent alike; it has no derivative itself.
    return Dual(value, np.where(_up(condition), _tangent(one), _tangent(other)))


def _stack(numbers: Any, axis: int = 0) -> Dual:
    place = axis - 1 if axis < 0 else axis
    value = np.stack([_value(one) for one in numbers], axis=axis)
    return Dual(value, np.stack(_equal_tangents(numbers), axis=place))


def _broadcast_arrays(*numbers: Any) -> tuple[Any, ...]:
    values = np.broadcast_arrays(*map(_value, numbers))
    return tuple(
        Dual(value, one.tangent) if type(one) is Dual else value for value, one in zip(values, numbers, strict=True)
    )


def _sum(number: Dual, axis: int | None = None) -> Dual:
    places = tuple(range(number.ndim)) if axis is None else axis % number.ndim
    return Dual(np.sum(number.value, axis=axis), np.sum(_full(number), axis=places))


def _clip(number: Any, low: Any, high: Any) -> Any:
    return np.minimum(np.maximum(number, low), high)


def _half(first: Any, second: Any) -> Any:
    """1 where the first decides, a half where both do, 0 elsewhere."""
    # Subgradient at a tie: half of each slope, as JAX takes it.
    return np.where(first > second, 1.0, np.where(first == second, 0.5, 0.0))[()]


def _one(result: Any, *values: Any) -> float:
    return 1.0


SLOPES: dict[str, tuple[Callable[..., Any], ...]] = {
    "add": (_one, _one),
    "subtract": (_one, lambda r, x, y: -1.0),
    "multiply": (lambda r, x, y: y, lambda r, x, y: x),
    "divide": (lambda r, x, y: 1.0 / y, lambda r, x, y: -r / y),
    "negative": (lambda r, x: -1.0,),
    "positive": (_one,),
    "reciprocal": (lambda r, x: -r * r,),
    "power": (lambda r, x, y: y * x ** (y - 1.0), lambda r, x, y: np.log(x) * r),
    "square": (lambda r, x: 2.0 * x,),
    "sqrt": (lambda r, x: 0.5 / r,),
    "exp": (lambda r, x: r,),
    "exp2": (lambda r, x: np.log(2.0) * r,),
    "expm1": (lambda r, x: r + 1.0,),
    "log": (lambda r, x: 1.0 / x,),
    "log2": (lambda r, x: 1.0 / (np.log(2.0) * x),),
    "log1p": (lambda r, x: 1.0 / (1.0 + x),),
    "absolute": (lambda r, x: np.sign(x),),
    "maximum": (lambda r, x, y: _half(x, y), lambda r, x, y: _half(y, x)),
    "minimum": (lambda r, x, y: _half(y, x), lambda r, x, y: _half(x, y)),
    "remainder": (_one, lambda r, x, y: -np.floor(x / y)),
}
"""By NumPy's name, the derivative in every argument, of the result and the arguments."""

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "where": _where,
    "stack": _stack,
    "broadcast_arrays": _broadcast_arrays,
    "sum": _sum,
    "clip": _clip,
    "atleast_1d": lambda number: Dual(np.atleast_1d(number.value), number.tangent),
    "zeros_like": lambda number: np.zeros_like(number.value),
    "ones_like": lambda number: np.ones_like(number.value),
}
"""By NumPy's name, functions that are no ufuncs."""

WITHOUT_SLOPE = frozenset(
    ("greater", "greater_equal", "less", "less_equal", "equal", "not_equal", "isfinite", "isnan", "isinf", "signbit")
    + ("floor", "ceil", "rint", "trunc", "sign", "floor_divide", "logical_and", "logical_or", "logical_not")
    + ("bitwise_and", "bitwise_or", "argmax", "argmin", "argsort", "any", "all", "shape", "ndim", "round", "around")
)
"""NumPy's names of functions that are constant between their steps."""


# Dependence of the outputs of a function on its inputs, found by running it once on marked numbers.


def output_dependence(function: Callable[..., Any], arguments: tuple[Any, ...], marks: tuple[Any, ...]) -> Any:
    """For every output of `function(*arguments)`, the union of the marks of the inputs that it depends on.

    Args:
      function: of numbers, made of `jnp` of `jaxroof.numerics.arrays` alone.
      arguments: numbers to run it on; of numbers that are being traced, an `example`.
      marks: as `arguments`, with a frozenset in place of every leaf.

    Returns:
      The function's output tree with a frozenset in place of every leaf: a superset of the true dependence only where
      an operation ignores an operand. Both sides of a condition count.
    """
    return mapped(_marks, marked(function, arguments, marks))


def marked(function: Callable[..., Any], arguments: tuple[Any, ...], marks: tuple[Any, ...]) -> Any:
    """What `function` returns of marked arguments; numbers in it that depend on none of them need not be `Marked`."""
    # Run once on marked numbers: what the result is marked with is what it depends on.
    with eager():
        return function(*mapped(lambda mark, leaf: Marked(np.asarray(leaf), mark), marks, arguments))


_NONE: frozenset[Any] = frozenset()


class Marked(Carrying):
    """A number or an array with marks: whatever NumPy makes of it has them too.

    Args:
      value: the number.
      marks: of it.
    """

    def __init__(self, value: Any, marks: frozenset[Any]):
        self.value, self.marks = value, marks

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        if method != "__call__" or named:
            return _applied(getattr(ufunc, method), inputs, named)
        # Without looking into trees: ufuncs are called most.
        marks, values = _NONE, []
        for one in inputs:  # of the functions that are called most, without looking into trees
            if type(one) is Marked:
                marks = one.marks if marks is _NONE else marks | one.marks
                values.append(one.value)
            else:
                values.append(one)
        return Marked(ufunc(*values), marks)

    def __array_function__(self, function: Any, types: Any, inputs: Any, named: Any) -> Any:
        return _applied(function, inputs, named)

    def __getitem__(self, place: Any) -> "Marked":
        return _applied(lambda value, place: np.asarray(value)[place], (self, place), {})

    def __len__(self) -> int:
        return len(self.value)

    def entries(self, table: Any) -> "Marked":
        """Entries of `table` at these positions."""
        return Marked(np.take(table, self.value), self.marks)

    def astype(self, dtype: Any) -> "Marked":
        """With numbers of another type."""
        return Marked(np.asarray(self.value, dtype), self.marks)

    def reshape(self, *shape: Any) -> "Marked":
        """Of another shape."""
        return Marked(np.reshape(self.value, shape), self.marks)


def example(tree: Any) -> Any:
    """Ones in place of the leaves of a tree, which may be traced numbers, or no more than shapes."""
    return mapped(lambda leaf: np.ones(leaf.shape) if hasattr(leaf, "shape") else 1.0, tree)


def _marks(output: Any) -> frozenset[Any]:
    return output.marks if isinstance(output, Marked) else frozenset()


def _applied(function: Callable[..., Any], inputs: Any, named: Any) -> Any:
    """`function` of the values, with the marks of all of them."""
    everything = leaves((inputs, named))
    marks = frozenset().union(*(_marks(one) for one in everything))

    def value(one: Any) -> Any:
        return one.value if isinstance(one, Marked) else one

    inputs, named = mapped(value, tuple(inputs)), {name: mapped(value, one) for name, one in named.items()}
    result = function(*inputs, **named)
    return tuple(Marked(one, marks) for one in result) if isinstance(result, tuple) else Marked(result, marks)

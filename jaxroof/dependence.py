"""Dependence of the outputs of a function on its inputs, found by running it once on marked numbers."""

from collections.abc import Callable
from typing import Any

import numpy as np

from jaxroof.arrays import Carrying, eager
from jaxroof.tree import leaves, mapped


def output_dependence(function: Callable, arguments: tuple, marks: tuple) -> Any:
    """For every output of `function(*arguments)`, the union of the marks of the inputs that it depends on.

    Args:
      function: of numbers, made of `jnp` of `jaxroof.arrays` alone.
      arguments: numbers to run it on; of numbers that are being traced, an `example`.
      marks: as `arguments`, with a frozenset in place of every leaf.

    Returns:
      The function's output tree with a frozenset in place of every leaf: a superset of the true dependence only where
      an operation ignores an operand. Both sides of a condition count.
    """
    return mapped(_marks, marked(function, arguments, marks))


def marked(function: Callable, arguments: tuple, marks: tuple) -> Any:
    """What `function` returns of marked arguments; numbers in it that depend on none of them need not be `Marked`."""
    with eager():
        return function(*mapped(lambda mark, leaf: Marked(np.asarray(leaf), mark), marks, arguments))


_NONE: frozenset = frozenset()


class Marked(Carrying):
    """A number or an array with marks: whatever NumPy makes of it has them too.

    Args:
      value: the number.
      marks: of it.
    """

    def __init__(self, value: Any, marks: frozenset):
        self.value, self.marks = value, marks

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        if method != "__call__" or named:
            return _applied(getattr(ufunc, method), inputs, named)
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

    def astype(self, dtype: Any) -> "Marked":
        """With numbers of another type."""
        return Marked(np.asarray(self.value, dtype), self.marks)

    def reshape(self, *shape: Any) -> "Marked":
        """Of another shape."""
        return Marked(np.reshape(self.value, shape), self.marks)


def example(tree: Any) -> Any:
    """Ones in place of the leaves of a tree, which may be traced numbers, or no more than shapes."""
    return mapped(lambda leaf: np.ones(leaf.shape) if hasattr(leaf, "shape") else 1.0, tree)


def _marks(output: Any) -> frozenset:
    return output.marks if isinstance(output, Marked) else frozenset()


def _applied(function: Callable, inputs: Any, named: Any) -> Any:
    """`function` of the values, with the marks of all of them."""
    everything = leaves((inputs, named))
    marks = frozenset().union(*(_marks(one) for one in everything))

    def value(one: Any) -> Any:
        return one.value if isinstance(one, Marked) else one

    inputs, named = mapped(value, tuple(inputs)), {name: mapped(value, one) for name, one in named.items()}
    result = function(*inputs, **named)
    return tuple(Marked(one, marks) for one in result) if isinstance(result, tuple) else Marked(result, marks)

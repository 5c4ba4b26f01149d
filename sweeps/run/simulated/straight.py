"""Operations of a JAX function in a row: functions whose rows are the same share a compiled program."""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxroof.numerics.arrays import jax
from sweeps.run.program_calls import called

ADDRESS = re.compile(r"0x[0-9a-f]+")

Operand = int | Any
"""The number of a value, or a constant as JAX's `Literal`."""


class Line(NamedTuple):
    """One operation: what it makes of its operands has numbers of its own."""

    equation: Any
    operands: tuple[Operand, ...]
    results: tuple[int, ...]


class Straight:
    """A function without derivatives of its own: lines that its outputs need, in order.

    Args:
      function: pure, of two trees of numbers.
      given, asked: its arguments; shapes and types of their leaves count.

    Attributes:
      used: places of the leaves of `given` that are read.

    Two of them are equal where they do the same with what they read, whatever else is in `given`.
    """

    def __init__(self, function: Callable[[Any, Any], Any], given: Any, asked: Any):
        closed = jax.make_jaxpr(function)(given, asked)
        number = len(jax.tree.leaves(given))
        self._lines: list[Line] = []
        self._constants: dict[int, Any] = {}
        self._count = 0
        inputs = [self._number() for _ in closed.jaxpr.invars]
        outputs = self._opened(closed.jaxpr, closed.consts, inputs)
        self._lines, read = _needed(self._lines, outputs)
        self.used = tuple(place for place in range(number) if inputs[place] in read)
        places = [*self.used, *range(number, len(inputs))]
        self._inputs, self._outputs = [inputs[place] for place in places], outputs
        self._constants = {name: value for name, value in self._constants.items() if name in read}
        self._key = self._text([closed.in_avals[place] for place in places])

    def __call__(self, used: Sequence[Any], asked: Sequence[Any]) -> list[Any]:
        """Leaves of what the function returns, from the leaves at the places `used` and all of `asked`."""
        known = {**self._constants, **dict(zip(self._inputs, [*used, *asked], strict=True))}

        def value(operand: Operand) -> Any:
            return known[operand] if isinstance(operand, int) else operand.val

        for line in self._lines:
            primitive = line.equation.primitive
            results = primitive.bind(*map(value, line.operands), **line.equation.params)
            known |= zip(line.results, results if primitive.multiple_results else [results], strict=True)
        return [value(output) for output in self._outputs]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Straight) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def _number(self) -> int:
        self._count += 1
        return self._count

    def _opened(self, jaxpr: Any, constants: Sequence[Any], inputs: Sequence[Operand]) -> list[Operand]:
        """Add the lines of a program; operands that are its outputs."""
        names: dict[Any, Operand] = dict(zip(jaxpr.invars, inputs, strict=True))
        for variable, value in zip(jaxpr.constvars, constants, strict=True):
            names[variable] = self._number()
            self._constants[names[variable]] = value

        def operand(atom: Any) -> Operand:
            return atom if hasattr(atom, "val") else names[atom]

        for equation in jaxpr.eqns:
            operands = [operand(atom) for atom in equation.invars]
            call = called(equation)
            if call is not None:
                results = self._opened(*call, operands)
            else:
                results = [self._number() for _ in equation.outvars]
                self._lines.append(Line(equation, tuple(operands), tuple(results)))
            names |= zip(equation.outvars, results, strict=True)
        return [operand(atom) for atom in jaxpr.outvars]

    def _text(self, shapes: Sequence[Any]) -> str:
        """Everything that decides what is computed, with numbers in the order in which values are made."""
        place = {number: f"i{at}" for at, number in enumerate(self._inputs)}
        for number, value in self._constants.items():
            array = np.asarray(value)
            place[number] = f"c{array.dtype}{array.shape}{array.tobytes().hex()}"

        def text(operand: Operand) -> str:
            return place[operand] if isinstance(operand, int) else f"{operand.val!r}:{operand.aval}"

        lines = [" ".join(map(str, shapes))]
        for line in self._lines:
            operands = " ".join(map(text, line.operands))
            for result in line.results:
                place[result] = str(len(place))
            made = " ".join(str(variable.aval) for variable in line.equation.outvars)
            lines.append(f"{made} {line.equation.primitive.name} {operands} {line.equation.params}")
        lines.append(" ".join(map(text, self._outputs)))
        # Addresses are of functions that were made anew for this trace, for derivatives that nobody asks for.
        return ADDRESS.sub("", "\n".join(lines))


def _needed(lines: Sequence[Line], outputs: Sequence[Operand]) -> tuple[list[Line], set[Operand]]:
    """Lines that outputs need, in order, and all values that these and the outputs read."""
    read = {output for output in outputs if isinstance(output, int)}
    kept = []
    for line in reversed(lines):
        if not read.isdisjoint(line.results):
            kept.append(line)
            read |= {operand for operand in line.operands if isinstance(operand, int)}
    return kept[::-1], read

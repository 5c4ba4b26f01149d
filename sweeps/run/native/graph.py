"""A JAX function of one point as a graph of scalar operations: calls opened, arrays apart, nothing twice."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxroof.numerics.arrays import jax
from sweeps.run.program_calls import called

UNARY = ("neg", "abs", "sqrt", "exp", "log", "floor", "ceil", "round", "not")
BINARY = ("add", "sub", "mul", "div", "rem", "pow", "max", "min", "and", "or", "xor", "lt", "le", "eq", "ne")
COMMUTATIVE = frozenset({"add", "mul", "max", "min", "and", "or", "xor", "eq", "ne"})
COMPARED = frozenset({"lt", "le", "eq", "ne"})
SWAPPED = {"gt": "lt", "ge": "le"}

FOLDED: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "rem": np.fmod, "pow": np.power,
    "max": np.maximum, "min": np.minimum, "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor,
    "lt": np.less, "le": np.less_equal, "eq": np.equal, "ne": np.not_equal, "neg": np.negative, "abs": np.abs,
    "sqrt": np.sqrt, "exp": np.exp, "log": np.log, "floor": np.floor, "ceil": np.ceil, "round": np.rint,
    "not": np.logical_not,
    "select": lambda chosen, no, yes: np.where(chosen, yes, no),
}  # fmt: skip


class Unsupported(ValueError):
    """A function has an operation that a graph has no node for."""


class Graph:
    """Scalar operations in the order in which they were found; an operation is named by its number.

    Attributes:
      operations: what each does: a name of `FOLDED`, "number", "input", "float" or "whole" (conversions).
      arguments: numbers of the operations that it is made of; of a number its value, of an input its own number.
      kinds: "f", "i" or "b" for what it gives: a float, a whole number, a truth value.
      types: NumPy's types of the kinds.
    """

    def __init__(self, dtype: np.dtype):
        self.dtype = dtype
        self.types = {"f": dtype, "i": np.dtype("int32"), "b": np.dtype(bool)}
        self.operations: list[str] = []
        self.arguments: list[tuple[Any, ...]] = []
        self.kinds: list[str] = []
        # Operations by what they are made of, so that a common subexpression becomes one node.
        self._known: dict[tuple[Any, ...], int] = {}

    def input(self) -> int:
        """A new float from outside."""
        return self._made("input", (len(self.operations),), "f")

    def number(self, value: Any) -> int:
        """A constant."""
        kind = np.result_type(value).kind
        if kind == "f":
            # Floats are known by their bits in the graph's precision, so that 0.0 and -0.0 stay apart.
            value = self.dtype.type(value)
            return self._made("number", (value.tobytes(), value), "f")
        value = bool(value) if kind == "b" else int(value)
        return self._made("number", (value, value), "b" if kind == "b" else "i")

    def value(self, node: int) -> Any:
        """The value of a constant; None of anything else."""
        return self.arguments[node][1] if self.operations[node] == "number" else None

    def apply(self, operation: str, *nodes: int) -> int:
        """An operation on nodes: an earlier one that is the same, a constant, or one of its own arguments if it can."""
        if operation in SWAPPED:
            operation, nodes = SWAPPED[operation], nodes[::-1]
        # Overflow and division by zero give infinities and NaN here as they would in compiled code.
        if all(self.operations[node] == "number" for node in nodes):
            with np.errstate(all="ignore"):
                return self._constant(operation, nodes)
        short = self._shortened(operation, nodes)
        if short is not None:
            return short
        # Arguments in one order, so that a + b and b + a are the same node.
        if operation in COMMUTATIVE:
            nodes = tuple(sorted(nodes))
        # A selection's first argument is a condition: the last one tells the kind of the result.
        kind = "b" if operation in COMPARED else self.kinds[nodes[-1]]
        return self._made(operation, nodes, kind)

    def converted(self, node: int, kind: str) -> int:
        """A node as a float, a whole number (towards zero) or a truth value."""
        own = self.kinds[node]
        if own == kind:
            return node
        value = self.value(node)
        if value is not None:
            return self.number({"f": float, "i": int, "b": bool}[kind](value))
        if kind == "b":
            return self.apply("ne", node, self.number(self.dtype.type(0) if own == "f" else 0))
        return self._made({"f": "float", "i": "whole"}[kind], (node,), kind)

    def _constant(self, operation: str, nodes: tuple[int, ...]) -> int:
        values = [self.value(node) for node in nodes]
        # NumPy divides whole numbers into floats; `int` truncates these as LLVM's division does.
        result = FOLDED[operation](*values)
        is_integer = self.kinds[nodes[-1]] == "i" and operation not in COMPARED
        return self.number(int(result) if is_integer else result)

    def _shortened(self, operation: str, nodes: tuple[int, ...]) -> int | None:
        """A node that is there already and has the same value, NaN and infinities included."""
        first, last = nodes[0], nodes[-1]
        low, high = self.value(first), self.value(last)
        # Rules have to hold for NaN and infinities, so that 0 * x, for one, is left as it is.
        match operation:
            case "add" if high is not None and high == 0:
                return first
            case "add" if low is not None and low == 0:
                return last
            case "sub" if high is not None and high == 0:
                return first
            case "mul" | "div" if high is not None and high == 1:
                return first
            case "mul" if low is not None and low == 1:
                return last
            case "max" | "min" | "and" | "or" if first == last:
                return first
            case "and" if low is not None or high is not None:
                return (last if low else first) if low is not None else (first if high else last)
            case "or" if low is not None or high is not None:
                return (first if low else last) if low is not None else (last if high else first)
            case "select" if low is not None:
                # As in JAX's `select_n`, the value for false comes before that for true.
                return nodes[2] if low else nodes[1]
            case "select" if nodes[1] == nodes[2]:
                return nodes[1]
        return None

    def _made(self, operation: str, arguments: tuple[Any, ...], kind: str) -> int:
        # A float constant equals itself by its bits, even where it is NaN.
        key = (operation, kind, arguments[0]) if operation == "number" else (operation, arguments)
        if key not in self._known:
            self._known[key] = len(self.operations)
            self.operations.append(operation)
            self.arguments.append(arguments)
            self.kinds.append(kind)
        return self._known[key]


Value = int | np.ndarray
"""A scalar's node, or the nodes of an array."""


def opened(graph: Graph, function: Callable[..., Any], shapes: Any, inputs: Any) -> tuple[Any, Any]:
    """Nodes of what `function` returns of trees of scalars, and the shapes and types of the same.

    Args:
      shapes: arguments of `function`, of which the types alone count.
      inputs: as `shapes`, with a node in place of every leaf.

    Raises:
      Unsupported: the function has an operation that no node stands for.
    """
    # JAX traces the function with abstract scalars: no value is computed.
    closed, result = jax.make_jaxpr(function, return_shape=True)(*shapes)
    constants = [_constants(graph, const) for const in closed.consts]
    nodes = _evaluated(graph, closed.jaxpr, constants, jax.tree.leaves(inputs))
    return jax.tree.unflatten(jax.tree.structure(result), nodes), result


def _evaluated(graph: Graph, jaxpr: Any, constants: Sequence[Value], inputs: Sequence[Value]) -> list[Value]:
    """Nodes of the outputs of a traced function."""
    known: dict[Any, Value] = dict(zip(jaxpr.constvars, constants, strict=True))
    known |= zip(jaxpr.invars, inputs, strict=True)

    def read(atom: Any) -> Value:
        return _constants(graph, atom.val) if hasattr(atom, "val") else known[atom]  # literals are not hashable

    for equation in jaxpr.eqns:
        outputs = _applied(graph, equation, [read(atom) for atom in equation.invars])
        known |= zip(equation.outvars, outputs, strict=True)
    return [read(atom) for atom in jaxpr.outvars]


def _constants(graph: Graph, value: Any) -> Value:
    values = np.asarray(value)
    if not values.ndim:
        return graph.number(values[()])
    return np.array([graph.number(one) for one in values.reshape(-1)], int).reshape(values.shape)


def _applied(graph: Graph, equation: Any, values: list[Value]) -> list[Value]:
    """Nodes of one traced operation."""
    name, params = equation.primitive.name, equation.params
    call = called(equation)
    if call is not None:
        return _evaluated(graph, call[0], [_constants(graph, const) for const in call[1]], values)
    if name == "unstack":
        return [_scalar(part) for part in np.moveaxis(np.asarray(values[0]), params["axis"], 0)]
    if name in _OF_ARRAYS:
        return [_OF_ARRAYS[name](graph, params, *values)]
    if name in _OF_SCALARS:
        return [elementwise(lambda *nodes: _OF_SCALARS[name](graph, params, *nodes), values)]
    if name in UNARY or name in BINARY or name in SWAPPED:
        return [elementwise(lambda *nodes: graph.apply(name, *nodes), values)]
    # The caller falls back to another compiler, or reports which operation is unknown.
    raise Unsupported(f"{name} of {', '.join(str(atom.aval) for atom in equation.invars)}")


def total(graph: Graph, values: Sequence[Value]) -> Value:
    """Sum of floats, from left to right."""
    partial_sum = values[0]
    for value in values[1:]:
        partial_sum = elementwise(lambda *nodes: graph.apply("add", *nodes), [partial_sum, value])
    return partial_sum


def elementwise(function: Callable[..., int], values: list[Value]) -> Value:
    """A function of nodes for all places of values that broadcast against each other."""
    if all(isinstance(value, int) for value in values):
        return function(*values)
    # Arrays are unrolled: one node for each element of the broadcast shape.
    spread = np.broadcast_arrays(*values)
    rows = zip(*(one.reshape(-1).tolist() for one in spread), strict=True)
    return np.array([function(*row) for row in rows], int).reshape(spread[0].shape)


def _power(graph: Graph, node: int, exponent: int) -> int:
    # x^-n = 1 / x^n.
    if exponent < 0:
        return graph.apply("div", _float(graph, 1), _power(graph, node, -exponent))
    # Exponentiation by squaring: a factor for every bit of the exponent that is set.
    power = _float(graph, 1)
    while exponent:  # squares of squares
        if exponent % 2:
            power = graph.apply("mul", power, node)
        exponent //= 2
        node = graph.apply("mul", node, node) if exponent else node
    return power


def _kind(dtype: Any) -> str:
    return {"f": "f", "b": "b"}.get(np.dtype(dtype).kind, "i")


def _float(graph: Graph, value: float) -> int:
    return graph.number(graph.dtype.type(value))


def _log1p(graph: Graph, _: dict[str, Any], node: int) -> int:
    """log(1 + x), to rounding for small x too (Kahan, HP-15C Advanced Functions Handbook, 1982)."""
    one = _float(graph, 1)
    over = graph.apply("add", one, node)
    # With u = fl(1 + x), log(1 + x) = log(u) * x / (u - 1): the rounding of u cancels.
    corrected = graph.apply("div", node, graph.apply("sub", over, one))
    result = graph.apply("mul", graph.apply("log", over), corrected)
    # Where u is infinite the quotient would be NaN, and u itself is the result.
    finite = graph.apply("lt", over, _float(graph, math.inf))
    result = graph.apply("select", finite, over, result)
    # Where 1 + x rounds to 1, log(1 + x) is x to rounding.
    return graph.apply("select", graph.apply("eq", over, one), result, node)


def _expm1(graph: Graph, _: dict[str, Any], node: int) -> int:
    """exp(x) - 1, to rounding for small x too (the same source)."""
    one = _float(graph, 1)
    power = graph.apply("exp", node)
    # With u = fl(exp(x)), exp(x) - 1 = (u - 1) * x / log(u).
    less = graph.apply("sub", power, one)
    result = graph.apply("mul", less, graph.apply("div", node, graph.apply("log", power)))
    # Far from 0 nothing is lost in the difference, and log(power) may be infinite.
    near = graph.apply("lt", graph.apply("abs", node), one)
    result = graph.apply("select", near, less, result)
    return graph.apply("select", graph.apply("eq", power, one), result, node)


def _tanh(graph: Graph, params: dict[str, Any], node: int) -> int:
    most = _float(graph, 20)  # where tanh is 1 in any precision
    # Beyond the limit exp(2 x) might overflow.
    within = graph.apply("max", graph.apply("min", node, most), graph.apply("neg", most))
    # tanh(x) = (exp(2 x) - 1) / (exp(2 x) + 1).
    less = _expm1(graph, params, graph.apply("add", within, within))
    return graph.apply("div", less, graph.apply("add", less, _float(graph, 2)))


def _sign(graph: Graph, _: dict[str, Any], node: int) -> int:
    minus, zero, plus = (graph.converted(graph.number(value), graph.kinds[node]) for value in (-1, 0, 1))
    # Neither zero nor NaN is above or below zero: both are returned as they are.
    below = graph.apply("select", graph.apply("lt", node, zero), node, minus)
    return graph.apply("select", graph.apply("lt", zero, node), below, plus)


_OF_SCALARS: dict[str, Callable[..., int]] = {
    "square": lambda graph, _, node: graph.apply("mul", node, node),
    "integer_pow": lambda graph, params, node: _power(graph, node, params["y"]),
    "rsqrt": lambda graph, _, node: graph.apply("div", _float(graph, 1), graph.apply("sqrt", node)),
    "select_n": lambda graph, _, chosen, no, yes: graph.apply("select", chosen, no, yes),
    "clamp": lambda graph, _, low, node, high: graph.apply("min", graph.apply("max", node, low), high),
    "convert_element_type": lambda graph, params, node: graph.converted(node, _kind(params["new_dtype"])),
    "is_finite": lambda graph, _, node: graph.apply("lt", graph.apply("abs", node), _float(graph, math.inf)),
    "logistic": lambda graph, _, node: graph.apply(
        "div", _float(graph, 1), graph.apply("add", _float(graph, 1), graph.apply("exp", graph.apply("neg", node)))
    ),
    "log2": lambda graph, _, node: graph.apply("div", graph.apply("log", node), _float(graph, math.log(2.0))),
    "one_minus_square": lambda graph, _, node: graph.apply(
        "mul", graph.apply("sub", _float(graph, 1), node), graph.apply("add", _float(graph, 1), node)
    ),
    "log1p": _log1p,
    "expm1": _expm1,
    "tanh": _tanh,
    "sign": _sign,
    "add_any": lambda graph, _, left, right: graph.apply("add", left, right),
    "copy": lambda graph, _, node: node,
}
"""Operations that are made of others, by name: of the graph, the operation's parameters and its arguments."""


def _scalar(values: np.ndarray) -> Value:
    return values if values.ndim else int(values)


def _broadcast(graph: Graph, params: dict[str, Any], values: Value, *_: Any) -> Value:
    shape, places = params["shape"], params["broadcast_dimensions"]
    # Size 1 wherever the operand has no dimension of its own, then NumPy's broadcasting.
    spread = np.ones(len(shape), int)
    spread[list(places)] = np.shape(values)
    return _scalar(np.broadcast_to(np.reshape(values, spread), shape))


def _reduced(operation: str) -> Callable[..., Value]:
    def of(graph: Graph, params: dict[str, Any], values: np.ndarray) -> Value:
        # The reduced axes go first and become rows, which are combined in order.
        rows = np.moveaxis(values, params["axes"], tuple(range(len(params["axes"]))))
        rows = rows.reshape(-1, *(n for i, n in enumerate(values.shape) if i not in params["axes"]))
        reduced = rows[0]
        for row in rows[1:]:
            reduced = elementwise(lambda *nodes: graph.apply(operation, *nodes), [reduced, row])
        return _scalar(np.asarray(reduced))

    return of


def _place(better: str) -> Callable[..., Value]:
    """The first place of the largest or smallest value along one axis."""

    def of_row(graph: Graph, row: list[int]) -> int:
        best, place = row[0], graph.number(0)
        for i, node in enumerate(row[1:], start=1):
            # A strict comparison keeps the first of equal values, as NumPy's argmax does.
            chosen = graph.apply(better, best, node)
            best = graph.apply("select", chosen, best, node)
            place = graph.apply("select", chosen, place, graph.number(i))
        return place

    def of(graph: Graph, params: dict[str, Any], values: np.ndarray) -> Value:
        rows = np.moveaxis(values, params["axes"][0], -1)
        flat = [of_row(graph, row.tolist()) for row in rows.reshape(-1, rows.shape[-1])]
        return _scalar(np.array(flat, int).reshape(rows.shape[:-1]))

    return of


def _padded(graph: Graph, params: dict[str, Any], values: Value, filling: Value) -> Value:
    """An array in a larger one of one value, its entries apart where the configuration says so; cut where negative."""
    values, config = np.asarray(values), params["padding_config"]
    sides = list(zip(values.shape, config, strict=True))
    shape = [low + high + size + max(size - 1, 0) * between for size, (low, high, between) in sides]
    places = [low + np.arange(size) * (between + 1) for size, (low, _, between) in sides]
    inside = [(0 <= place) & (place < size) for place, size in zip(places, shape, strict=True)]
    padded = np.full(shape, filling, int)
    padded[np.ix_(*(place[kept] for place, kept in zip(places, inside, strict=True)))] = values[np.ix_(*inside)]
    return padded


_OF_ARRAYS: dict[str, Callable[..., Value]] = {
    "broadcast_in_dim": _broadcast,
    "iota": lambda graph, params: _constants(
        graph, np.indices(params["shape"])[params["dimension"]].astype(params["dtype"])
    ),
    "reshape": lambda graph, params, values: _scalar(np.reshape(values, params["new_sizes"])),
    "squeeze": lambda graph, params, values: _scalar(np.squeeze(values, params["dimensions"])),
    "expand_dims": lambda graph, params, values: _scalar(np.expand_dims(values, params["dimensions"])),
    "transpose": lambda graph, params, values: _scalar(np.transpose(values, params["permutation"])),
    "rev": lambda graph, params, values: np.flip(values, params["dimensions"]),
    "stack": lambda graph, params, *values: np.stack([np.asarray(value) for value in values], params["axis"]),
    "concatenate": lambda graph, params, *values: np.concatenate(values, params["dimension"]),
    "pad": _padded,
    "slice": lambda graph, params, values: values[
        tuple(map(slice, params["start_indices"], params["limit_indices"], params["strides"] or [1] * values.ndim))
    ],
    "reduce_sum": _reduced("add"),
    "reduce_max": _reduced("max"),
    "reduce_min": _reduced("min"),
    "reduce_and": _reduced("and"),
    "reduce_or": _reduced("or"),
    "argmax": _place("lt"),
    "argmin": _place("gt"),
}
"""Operations on arrays, by name: of the graph, the operation's parameters and its arguments."""

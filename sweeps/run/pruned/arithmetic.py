"""Arithmetic of intervals on nodes of a graph: a rule for every operation, with the roundings of compiled programs."""

import dataclasses
import math
from collections.abc import Callable, Iterable

import numpy as np

from sweeps.run.native.graph import Graph

PRODUCT, QUOTIENT, LIBRARY = 1, 3, 64
"""Units in the last place by which results are widened. Rounding never turns the order of two numbers, so that a sum of
bounds bounds the sum; but a program may leave a product unrounded that it adds, or make a quotient a product with a
reciprocal, and functions of the mathematical library are not exact to the last place."""

TINY = 1e-37
"""Added where a result may be so small that its last digits are lost: more than the smallest normal float32."""

SMALL, LARGE = 1e-30, 1e37
"""Between them, neither digits are lost nor is a number infinite in float32."""

WHOLE = float(1 << 24)
"""Whole numbers up to here are exact in float32."""


@dataclasses.dataclass(frozen=True)
class Range:
    """What is known of a value over a whole sweep."""

    low: float
    high: float
    unknown: bool = False  # may be NaN
    minus: bool = False  # may be -0.0
    whole: bool = False  # a whole number, where it is a number

    @property
    def finite(self) -> bool:
        """Whether no value is infinite, or near to it."""
        return -LARGE < self.low and self.high < LARGE

    @property
    def zero(self) -> bool:
        """Whether a value may be 0."""
        return self.low <= 0.0 <= self.high

    @property
    def exact(self) -> bool:
        """Whether each value is a whole number that is exact in float32."""
        return self.whole and not self.unknown and -WHOLE <= self.low and self.high <= WHOLE


ANY = Range(-math.inf, math.inf, unknown=True, minus=True)
TRUTH = Range(0.0, 1.0, whole=True)

Pair = tuple[int, int]
"""Nodes of a lower and an upper bound; of a truth value, whether it is true everywhere, and whether it is somewhere."""


class Arithmetic:
    """Operations on bounds, as nodes of a graph of their own.

    Attributes:
      graph: of the bounds.
      missing: operations without a rule, whose results are taken to be anything.
    """

    def __init__(self, dtype: np.dtype):
        self.graph = Graph(dtype)
        self.missing: set[str] = set()

    def anything(self, kind: str) -> tuple[Pair, Range]:
        """Bounds of what nothing is known of."""
        if kind == "b":
            return (self.graph.number(False), self.graph.number(True)), TRUTH
        return (self.number(-math.inf), self.number(math.inf)), ANY

    def number(self, value: float) -> int:
        """A constant in the graph's type of floats."""
        return self.graph.number(self.graph.dtype.type(value))

    def op(self, operation: str, *nodes: int) -> int:
        """An operation on nodes of bounds."""
        return self.graph.apply(operation, *nodes)

    def known(self, node: int, instead: float, risky: bool) -> int:
        """A bound, or `instead` where it came out as NaN."""
        if not risky:
            return node
        return self.op("select", self.op("eq", node, node), self.number(instead), node)

    def extreme(self, operation: str, nodes: Iterable[int]) -> int:
        """The least or largest of some nodes."""
        first, *others = dict.fromkeys(nodes)
        for node in others:
            first = self.op(operation, first, node)
        return first

    def product(self, x: Pair, y: Pair, xs: Range, ys: Range, operation: str) -> Pair:
        """Bounds of a product, or of a quotient by what is not 0 inside: those of its corners.

        A quotient is largest at the smallest divisor, so that its divisor's bounds are given in turned order.
        """
        risky = not (xs.finite and ys.finite) or (operation == "div" and ys.zero)
        if xs.low >= 0.0 and ys.low >= 0.0:
            low, high = self.op(operation, x[0], y[0]), self.op(operation, x[1], y[1])
            return self.known(low, 0.0, risky), self.known(high, math.inf, risky)
        # Of a factor that is not negative only its sign at each end decides which end of the other is worst.
        lows = [(x[0], y[0]), (x[1], y[0])] if xs.low >= 0.0 and operation == "mul" else None
        highs = [(x[0], y[1]), (x[1], y[1])] if lows else None
        corners = [(a, b) for a in dict.fromkeys(x) for b in dict.fromkeys(y)]
        low = self.extreme("min", (self.op(operation, *each) for each in lows or corners))
        high = self.extreme("max", (self.op(operation, *each) for each in highs or corners))
        return self.known(low, -math.inf, risky), self.known(high, math.inf, risky)

    def widened(self, pair: Pair, found: Range, roundings: int) -> Pair:
        """Bounds with the roundings of the program and of their own taken in."""
        if not roundings:
            return pair
        share = roundings * float(np.finfo(self.graph.dtype).eps)
        less, more = self.number(1.0 - share), self.number(1.0 + share)
        low, high = pair
        risky = not found.finite
        if found.low > SMALL:
            return self.op("mul", low, less), self.op("mul", high, more)
        tiny = self.number(TINY)
        if found.low >= 0.0:
            # What is not negative stays so however it is rounded.
            low = self.op("max", self.op("sub", self.op("mul", low, less), tiny), self.number(0.0))
            return low, self.op("add", self.op("mul", high, more), tiny)
        part = self.number(share)
        reach = [self.op("add", self.op("mul", self.op("abs", bound), part), tiny) for bound in pair]
        low, high = self.op("sub", low, reach[0]), self.op("add", high, reach[1])
        return self.known(low, -math.inf, risky), self.known(high, math.inf, risky)


@dataclasses.dataclass(frozen=True)
class Case:
    """An operation, and what is known of its arguments."""

    operation: str
    divides: bool  # whether a program computes the quotient as one
    pairs: list[Pair]
    ranges: list[Range]


Result = tuple[Pair, Range, int]
"""Bounds, a range, and the roundings to widen the bounds by."""

Rule = Callable[[Arithmetic, Case], Result]


def _about(low: float, high: float, **known: bool) -> Range:
    """A range with the roundings of any program taken in."""
    if math.isnan(low):
        low = -math.inf
    if math.isnan(high):
        high = math.inf
    share = 1e-4  # more than any operation's widening in float32
    low = (low - abs(low) * share) - TINY if not low >= 0.0 else low * (1.0 - share) - (TINY if low < SMALL else 0.0)
    return Range(low, high + abs(high) * share + TINY, **known)


def _not_negative(found: Range) -> Range:
    return dataclasses.replace(found, low=max(found.low, 0.0))


def _times(a: float, b: float) -> float:
    return 0.0 if a == 0.0 or b == 0.0 else a * b


def _sum(self: Arithmetic, case: Case) -> Result:
    (al, ah), (bl, bh) = case.pairs
    a, b = case.ranges
    risky = not (a.finite and b.finite)
    low, high = self.op("add", al, bl), self.op("add", ah, bh)
    pair = self.known(low, -math.inf, risky), self.known(high, math.inf, risky)
    opposite = (a.high >= LARGE and b.low <= -LARGE) or (a.low <= -LARGE and b.high >= LARGE)
    unknown = a.unknown or b.unknown or opposite
    if a.exact and b.exact and -WHOLE <= a.low + b.low and a.high + b.high <= WHOLE:
        return pair, Range(a.low + b.low, a.high + b.high, minus=a.minus and b.minus, whole=True), 0
    found = _about(a.low + b.low, a.high + b.high, unknown=unknown, minus=a.minus and b.minus)
    return pair, _not_negative(found) if a.low >= 0.0 and b.low >= 0.0 else found, 0


def _negated(pair: Pair, known: Range, self: Arithmetic) -> tuple[Pair, Range]:
    turned = self.op("neg", pair[1]), self.op("neg", pair[0])
    return turned, dataclasses.replace(known, low=-known.high, high=-known.low, minus=known.zero)


def _difference(self: Arithmetic, case: Case) -> Result:
    (al, ah), (bl, bh) = case.pairs
    a, b = case.ranges
    risky = not (a.finite and b.finite)
    low, high = self.op("sub", al, bh), self.op("sub", ah, bl)
    pair = self.known(low, -math.inf, risky), self.known(high, math.inf, risky)
    alike = (a.high >= LARGE and b.high >= LARGE) or (a.low <= -LARGE and b.low <= -LARGE)
    if a.exact and b.exact and -WHOLE <= a.low - b.high and a.high - b.low <= WHOLE:
        return pair, Range(a.low - b.high, a.high - b.low, minus=a.minus, whole=True), 0
    found = _about(a.low - b.high, a.high - b.low, unknown=a.unknown or b.unknown or alike, minus=a.minus)
    return pair, found, 0


def _product(self: Arithmetic, case: Case) -> Result:
    (first, second), (a, b) = case.pairs, case.ranges
    if a.low < 0.0 <= b.low:  # the factor that is not negative first
        first, second, a, b = second, first, b, a
    pair = self.product(first, second, a, b, "mul")
    corners = [_times(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    unknown = a.unknown or b.unknown or (a.zero and not b.finite) or (b.zero and not a.finite)
    minus = a.minus or b.minus or a.low < 0.0 or b.low < 0.0
    if a.exact and b.exact and max(map(abs, corners)) <= WHOLE:
        return pair, Range(min(corners), max(corners), minus=minus, whole=True), 0
    found = _about(min(corners), max(corners), unknown=unknown, minus=minus)
    return pair, _not_negative(found) if a.low >= 0.0 and b.low >= 0.0 else found, PRODUCT


def _quotient(self: Arithmetic, case: Case) -> Result:
    x, y = case.pairs
    a, b = case.ranges
    if b.high < 0.0:
        (x, a), (y, b) = _negated(x, a, self), _negated(y, b, self)
    unknown = a.unknown or b.unknown or (a.zero and b.zero) or not (a.finite or b.finite)
    # Dividing by what may be -0.0, or of either sign, gives anything where 0 is inside.
    if b.low < 0.0 or (b.zero and b.minus):
        inside = self.op("and", self.op("le", y[0], self.number(0.0)), self.op("le", self.number(0.0), y[1]))
        low, high = self.product(x, y, ANY, ANY, "div")
        low = self.op("select", inside, low, self.number(-math.inf))
        high = self.op("select", inside, high, self.number(math.inf))
        return (low, high), dataclasses.replace(ANY, unknown=unknown), QUOTIENT
    # The divisor is positive, or 0 without a sign: the larger it is, the nearer to 0 the quotient.
    pair = self.product(x, (y[1], y[0]), a, b, "div")
    ends = [
        end / divisor if divisor else math.copysign(math.inf, end)
        for end in (a.low, a.high)
        for divisor in (b.low, b.high)
    ]
    ends = [0.0 if math.isnan(end) else end for end in ends]
    found = _about(min(ends), max(ends), unknown=unknown, minus=a.low < 0.0 or a.minus)
    if b.zero and a.low < 0.0:
        found = dataclasses.replace(found, low=-math.inf)
    if b.zero:
        found = dataclasses.replace(found, high=math.inf)
    return pair, _not_negative(found) if a.low >= 0.0 else found, 0 if case.divides else QUOTIENT


def _extreme(self: Arithmetic, case: Case) -> Result:
    choose = max if case.operation == "max" else min
    a, b = case.ranges
    pair = (
        self.op(case.operation, case.pairs[0][0], case.pairs[1][0]),
        self.op(case.operation, case.pairs[0][1], case.pairs[1][1]),
    )
    found = Range(
        choose(a.low, b.low), choose(a.high, b.high), a.unknown or b.unknown, a.minus or b.minus, a.whole and b.whole
    )
    return pair, found, 0


def _negative(self: Arithmetic, case: Case) -> Result:
    return *_negated(case.pairs[0], case.ranges[0], self), 0


def _absolute(self: Arithmetic, case: Case) -> Result:
    (low, high), known = case.pairs[0], case.ranges[0]
    found = Range(0.0, max(abs(known.low), abs(known.high)), known.unknown, whole=known.whole)
    if known.low >= 0.0:
        return (low, high), dataclasses.replace(found, low=known.low, minus=known.minus), 0
    turned, zero = self.op("neg", high), self.number(0.0)
    least = self.extreme("max", (low, turned, zero))
    return (least, self.op("max", self.op("neg", low), high)), found, 0


def _rounded(function: Callable[[float], float]) -> Rule:
    def rule(self: Arithmetic, case: Case) -> Result:
        (low, high), known = case.pairs[0], case.ranges[0]
        ends = [function(end) if math.isfinite(end) else end for end in (known.low, known.high)]
        found = Range(ends[0], ends[1], known.unknown, minus=known.minus or known.low < 0.0, whole=known.finite)
        return (self.op(case.operation, low), self.op(case.operation, high)), found, 0

    return rule


def _root(self: Arithmetic, case: Case) -> Result:
    (low, high), known = case.pairs[0], case.ranges[0]
    if known.low < 0.0:
        low, high = (self.op("max", bound, self.number(0.0)) for bound in (low, high))
    found = _about(math.sqrt(max(known.low, 0.0)), math.sqrt(max(known.high, 0.0)), minus=known.minus)
    found = dataclasses.replace(found, unknown=known.unknown or known.low < 0.0)
    return (self.op("sqrt", low), self.op("sqrt", high)), _not_negative(found), PRODUCT


def _exponential(self: Arithmetic, case: Case) -> Result:
    (low, high), known = case.pairs[0], case.ranges[0]
    ends = [math.exp(min(end, 700.0)) if end < 700.0 else math.inf for end in (known.low, known.high)]
    found = _not_negative(_about(ends[0], ends[1], unknown=known.unknown))
    return (self.op("exp", low), self.op("exp", high)), found, LIBRARY


def _logarithm(self: Arithmetic, case: Case) -> Result:
    (low, high), known = case.pairs[0], case.ranges[0]
    if known.low < 0.0:
        low, high = (self.op("max", bound, self.number(0.0)) for bound in (low, high))
    ends = [math.log(end) if end > 0.0 else -math.inf for end in (known.low, known.high)]
    found = _about(ends[0], ends[1], unknown=known.unknown or known.low < 0.0, minus=True)
    return (self.op("log", low), self.op("log", high)), found, LIBRARY


def _power(self: Arithmetic, case: Case) -> Result:
    x, y = case.pairs
    a, b = case.ranges
    # Of a positive base a power is monotone in base and exponent, so that its extremes are at corners.
    if not (a.low > 0.0 and a.finite and b.finite) or a.unknown or b.unknown:
        self.missing.add("pow")
        return *self.anything("f"), 0
    corners = [self.op("pow", base, exponent) for base in dict.fromkeys(x) for exponent in dict.fromkeys(y)]
    try:
        ends = [base**exponent for base in (a.low, a.high) for exponent in (b.low, b.high)]
    except OverflowError:
        ends = [0.0, math.inf]
    found = _not_negative(_about(min(ends), max(ends)))
    return (self.extreme("min", corners), self.extreme("max", corners)), found, LIBRARY


RULES: dict[str, Rule] = {
    "add": _sum,
    "sub": _difference,
    "mul": _product,
    "div": _quotient,
    "max": _extreme,
    "min": _extreme,
    "neg": _negative,
    "abs": _absolute,
    "floor": _rounded(math.floor),
    "ceil": _rounded(math.ceil),
    "round": _rounded(round),
    "sqrt": _root,
    "exp": _exponential,
    "log": _logarithm,
    "pow": _power,
}
WHOLE_RULES = frozenset({"add", "sub", "mul", "max", "min", "neg", "abs"})

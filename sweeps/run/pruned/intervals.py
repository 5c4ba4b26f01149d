"""Intervals through a graph of scalar operations: a second graph, whose outputs bound those of the first over a box.

Every operation is replaced by what bounds it (Moore, Interval Analysis, 1966). Where the first graph rounds, or may be
compiled with other roundings, bounds are widened by more than that: they hold for the numbers that a program gives.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from sweeps.run.native.graph import COMPARED, Graph
from sweeps.run.native.nests import exact

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


class Intervals:
    """A graph of bounds of another graph.

    Args:
      source: the graph.
      given: of nodes that are known, their ranges over the whole sweep: each becomes two inputs.
      wanted: nodes to bound.

    Attributes:
      graph: of the bounds, in the same type of floats.
      inputs: nodes of the lower and upper bound of every node that is given and used.
      ranges: of every node that is made of these, over the whole sweep.
      missing: operations without a rule, whose results are taken to be anything.
    """

    def __init__(self, source: Graph, given: Mapping[int, Range], wanted: Iterable[int]):
        self.source, self.graph = source, Graph(source.dtype)
        self.inputs: dict[int, Pair] = {}
        self.ranges: dict[int, Range] = {}
        self.missing: set[str] = set()
        self._given, self._pairs = given, dict[int, Pair]()
        # A quotient that a rounding is made of is computed as one: others may become products.
        needed = _made_of(source, given, wanted)
        self._quotients = exact(source, needed)
        for node in needed:
            self._pairs[node], self.ranges[node] = self._bounded(node)

    def pair(self, node: int) -> Pair:
        """The bounds of a node."""
        return self._pairs[node]

    def _bounded(self, node: int) -> tuple[Pair, Range]:
        operation, arguments, kind = self.source.operations[node], self.source.arguments[node], self.source.kinds[node]
        if node in self._given:
            known = self._given[node]
            low, high = self.graph.input(), self.graph.input()
            self.inputs[node] = low, high
            if kind == "b":
                return (self.graph.converted(low, "b"), self.graph.converted(high, "b")), known
            return (low, high), known
        if operation == "number":
            return self._number(self.source.value(node), kind)
        if operation == "input":
            raise ValueError("an input that nothing is known of")
        pairs, ranges = [self._pairs[a] for a in arguments], [self.ranges[a] for a in arguments]
        if operation == "select":
            return self._selected(kind, *self._told(arguments, pairs, ranges))
        if operation in COMPARED:
            return self._compared(operation, self.source.kinds[arguments[0]], pairs, ranges), TRUTH
        if operation in ("and", "or", "xor", "not"):
            return self._truth(operation, pairs), TRUTH
        if operation in ("float", "whole"):
            return self._converted(operation, self.source.kinds[arguments[0]], pairs[0], ranges[0])
        rule = _RULES.get(operation)
        # Whole numbers of type int are followed as floats, which are exact while they are small.
        small = all(r.exact for r in ranges)
        if rule is None or (kind == "i" and not (operation in _WHOLE_RULES and small)):
            self.missing.add(operation)
            return self._anything(kind)
        pair, found, roundings = rule(self, node, pairs, ranges)
        if kind == "i" and not found.exact:
            return self._anything(kind)
        return self._widened(pair, found, 0 if kind == "i" else roundings), found

    def _number(self, value: float, kind: str) -> tuple[Pair, Range]:
        if kind == "b":
            node = self.graph.number(bool(value))
            return (node, node), TRUTH
        number = float(value)
        if math.isnan(number) or (kind == "i" and abs(number) > WHOLE):
            return self._anything(kind)
        node = self._float(number)
        minus = number == 0 and math.copysign(1.0, number) < 0
        return (node, node), Range(number, number, minus=minus, whole=number.is_integer())

    def _anything(self, kind: str) -> tuple[Pair, Range]:
        if kind == "b":
            return (self.graph.number(False), self.graph.number(True)), TRUTH
        return (self._float(-math.inf), self._float(math.inf)), ANY

    def _float(self, value: float) -> int:
        return self.graph.number(self.graph.dtype.type(value))

    def op(self, operation: str, *nodes: int) -> int:
        """An operation on nodes of bounds."""
        return self.graph.apply(operation, *nodes)

    def known(self, node: int, instead: float, risky: bool) -> int:
        """A bound, or `instead` where it came out as NaN."""
        if not risky:
            return node
        return self.op("select", self.op("eq", node, node), self._float(instead), node)

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

    def _widened(self, pair: Pair, found: Range, roundings: int) -> Pair:
        """Bounds with the roundings of the program and of their own taken in."""
        if not roundings:
            return pair
        share = roundings * float(np.finfo(self.graph.dtype).eps)
        less, more = self._float(1.0 - share), self._float(1.0 + share)
        low, high = pair
        risky = not found.finite
        if found.low > SMALL:
            return self.op("mul", low, less), self.op("mul", high, more)
        tiny = self._float(TINY)
        if found.low >= 0.0:
            # What is not negative stays so however it is rounded.
            low = self.op("max", self.op("sub", self.op("mul", low, less), tiny), self._float(0.0))
            return low, self.op("add", self.op("mul", high, more), tiny)
        part = self._float(share)
        reach = [self.op("add", self.op("mul", self.op("abs", bound), part), tiny) for bound in pair]
        low, high = self.op("sub", low, reach[0]), self.op("add", high, reach[1])
        return self.known(low, -math.inf, risky), self.known(high, math.inf, risky)

    def _told(
        self, arguments: tuple[int, ...], pairs: list[Pair], ranges: list[Range]
    ) -> tuple[list[Pair], list[Range]]:
        """Bounds of what a selection chooses from, with what its condition says of it.

        So a guard such as "x where x > 0, else 1" gives what is above 0.
        """
        condition, pairs, ranges = arguments[0], list(pairs), list(ranges)
        if self.source.operations[condition] not in ("lt", "le"):
            return pairs, ranges
        left, right = self.source.arguments[condition]
        if self.source.kinds[left] != "f" or not all(self._there(side) for side in (left, right)):
            return pairs, ranges
        # Where it is chosen for true, left < right (or <=), and for false right <= left (or <).
        strict = self.source.operations[condition] == "lt"
        for place, small, large, apart in ((2, left, right, strict), (1, right, left, not strict)):
            for chosen, other, end in ((large, small, 0), (small, large, 1)):
                if arguments[place] == chosen:
                    known, limit = ranges[place], self.ranges[other]
                    bound, reach = (limit.low, 1.0) if end == 0 else (limit.high, -1.0)
                    if apart and math.isfinite(bound):
                        whole = known.exact and float(bound).is_integer()
                        bound = bound + reach if whole else math.nextafter(bound, math.inf * reach)
                    pairs[place], ranges[place] = self._clipped(pairs[place], known, self._pairs[other], bound, end)
        return pairs, ranges

    def _there(self, node: int) -> bool:
        """Whether a node has bounds, and is a number everywhere."""
        if node not in self._pairs and (node in self._given or self.source.operations[node] == "number"):
            self._pairs[node], self.ranges[node] = self._bounded(node)
        return node in self._pairs and not self.ranges[node].unknown

    def _clipped(self, pair: Pair, known: Range, other: Pair, bound: float, end: int) -> tuple[Pair, Range]:
        """A value that is above another's lower bound, or below its upper one, and beyond `bound` anywhere."""
        operation = "min" if end else "max"
        limits = self._float(bound), other[end]
        clipped = self.op(operation, self.op(operation, pair[end], limits[0]), limits[1])
        if end:
            return (pair[0], clipped), dataclasses.replace(known, high=min(known.high, bound))
        # Above 0 there is no -0.0.
        minus = known.minus and bound <= 0.0
        return (clipped, pair[1]), dataclasses.replace(known, low=max(known.low, bound), minus=minus)

    def _selected(self, kind: str, pairs: list[Pair], ranges: list[Range]) -> tuple[Pair, Range]:
        (sure, possible), no, yes = pairs
        both = ("and", "or") if kind == "b" else ("min", "max")
        bounds = []
        for end in (0, 1):
            # Where it is not known which one is chosen, either may be.
            either = self.op(both[end], no[end], yes[end])
            bounds.append(self.op("select", sure, self.op("select", possible, no[end], either), yes[end]))
        one, other = ranges[1:]
        found = Range(
            min(one.low, other.low),
            max(one.high, other.high),
            one.unknown or other.unknown,
            one.minus or other.minus,
            one.whole and other.whole,
        )
        return (bounds[0], bounds[1]), found

    def _compared(self, operation: str, kind: str, pairs: list[Pair], ranges: list[Range]) -> Pair:
        (al, ah), (bl, bh) = pairs
        never, always = self.graph.number(False), self.graph.number(True)
        unknown = any(r.unknown for r in ranges)
        if operation in ("lt", "le"):
            # A comparison with NaN is false.
            return never if unknown else self.op(operation, ah, bl), self.op(operation, al, bh)
        if kind == "b":
            same = self._same_truth(pairs)
        else:
            equal = self.op("and", self.op("eq", al, bh), self.op("eq", ah, bl))
            meet = self.op("and", self.op("le", al, bh), self.op("le", bl, ah))
            same = (never if unknown else equal), meet
        if operation == "eq":
            return same
        return self.op("not", same[1]), always if unknown else self.op("not", same[0])

    def _same_truth(self, pairs: list[Pair]) -> Pair:
        (al, ah), (bl, bh) = pairs
        no_a, no_b = (self.op("not", ah), self.op("not", al)), (self.op("not", bh), self.op("not", bl))
        first, last = (
            self.op("or", self.op("and", a, b), self.op("and", c, d))
            for a, b, c, d in ((al, bl, no_a[0], no_b[0]), (ah, bh, no_a[1], no_b[1]))
        )
        return first, last

    def _truth(self, operation: str, pairs: list[Pair]) -> Pair:
        if operation == "not":
            return self.op("not", pairs[0][1]), self.op("not", pairs[0][0])
        if operation == "xor":
            same = self._same_truth(pairs)
            return self.op("not", same[1]), self.op("not", same[0])
        return self.op(operation, pairs[0][0], pairs[1][0]), self.op(operation, pairs[0][1], pairs[1][1])

    def _converted(self, operation: str, kind: str, pair: Pair, known: Range) -> tuple[Pair, Range]:
        if kind == "b":
            zero, one = self._float(0.0), self._float(1.0)
            return (self.op("select", pair[0], zero, one), self.op("select", pair[1], zero, one)), TRUTH
        if operation == "float":
            return pair, known
        # Towards zero; of numbers that may be negative it is not known which way that is.
        if known.unknown or known.low < 0.0 or known.high > WHOLE:
            self.missing.add(operation)
            return self._anything("i")
        found = Range(math.floor(known.low), math.floor(known.high), whole=True)
        return (self.op("floor", pair[0]), self.op("floor", pair[1])), found

    def quotient(self, node: int) -> bool:
        """Whether a quotient is computed as one."""
        return node in self._quotients


Rule = Callable[[Intervals, int, list[Pair], list[Range]], tuple[Pair, Range, int]]
"""Of the node, the bounds and ranges of its arguments: its bounds, its range, and the roundings to widen by."""


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


def _sum(self: Intervals, _: int, pairs: list[Pair], ranges: list[Range]) -> tuple[Pair, Range, int]:
    (al, ah), (bl, bh) = pairs
    a, b = ranges
    risky = not (a.finite and b.finite)
    low, high = self.op("add", al, bl), self.op("add", ah, bh)
    pair = self.known(low, -math.inf, risky), self.known(high, math.inf, risky)
    opposite = (a.high >= LARGE and b.low <= -LARGE) or (a.low <= -LARGE and b.high >= LARGE)
    unknown = a.unknown or b.unknown or opposite
    if a.exact and b.exact and -WHOLE <= a.low + b.low and a.high + b.high <= WHOLE:
        return pair, Range(a.low + b.low, a.high + b.high, minus=a.minus and b.minus, whole=True), 0
    found = _about(a.low + b.low, a.high + b.high, unknown=unknown, minus=a.minus and b.minus)
    return pair, _not_negative(found) if a.low >= 0.0 and b.low >= 0.0 else found, 0


def _negated(pair: Pair, known: Range, self: Intervals) -> tuple[Pair, Range]:
    turned = self.op("neg", pair[1]), self.op("neg", pair[0])
    return turned, dataclasses.replace(known, low=-known.high, high=-known.low, minus=known.zero)


def _difference(self: Intervals, node: int, pairs: list[Pair], ranges: list[Range]) -> tuple[Pair, Range, int]:
    (al, ah), (bl, bh) = pairs
    a, b = ranges
    risky = not (a.finite and b.finite)
    low, high = self.op("sub", al, bh), self.op("sub", ah, bl)
    pair = self.known(low, -math.inf, risky), self.known(high, math.inf, risky)
    alike = (a.high >= LARGE and b.high >= LARGE) or (a.low <= -LARGE and b.low <= -LARGE)
    if a.exact and b.exact and -WHOLE <= a.low - b.high and a.high - b.low <= WHOLE:
        return pair, Range(a.low - b.high, a.high - b.low, minus=a.minus, whole=True), 0
    found = _about(a.low - b.high, a.high - b.low, unknown=a.unknown or b.unknown or alike, minus=a.minus)
    return pair, found, 0


def _product(self: Intervals, _: int, pairs: list[Pair], ranges: list[Range]) -> tuple[Pair, Range, int]:
    a, b = ranges
    if a.low < 0.0 <= b.low:  # the factor that is not negative first
        pairs, a, b = pairs[::-1], b, a
    pair = self.product(pairs[0], pairs[1], a, b, "mul")
    corners = [_times(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    unknown = a.unknown or b.unknown or (a.zero and not b.finite) or (b.zero and not a.finite)
    minus = a.minus or b.minus or a.low < 0.0 or b.low < 0.0
    if a.exact and b.exact and max(map(abs, corners)) <= WHOLE:
        return pair, Range(min(corners), max(corners), minus=minus, whole=True), 0
    found = _about(min(corners), max(corners), unknown=unknown, minus=minus)
    return pair, _not_negative(found) if a.low >= 0.0 and b.low >= 0.0 else found, PRODUCT


def _quotient(self: Intervals, node: int, pairs: list[Pair], ranges: list[Range]) -> tuple[Pair, Range, int]:
    x, y = pairs
    a, b = ranges
    if b.high < 0.0:
        (x, a), (y, b) = _negated(x, a, self), _negated(y, b, self)
    unknown = a.unknown or b.unknown or (a.zero and b.zero) or not (a.finite or b.finite)
    # Dividing by what may be -0.0, or of either sign, gives anything where 0 is inside.
    if b.low < 0.0 or (b.zero and b.minus):
        inside = self.op("and", self.op("le", y[0], self._float(0.0)), self.op("le", self._float(0.0), y[1]))
        low, high = self.product(x, y, ANY, ANY, "div")
        low = self.op("select", inside, low, self._float(-math.inf))
        high = self.op("select", inside, high, self._float(math.inf))
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
    return pair, _not_negative(found) if a.low >= 0.0 else found, 0 if self.quotient(node) else QUOTIENT


def _extreme(self: Intervals, node: int, pairs: list[Pair], ranges: list[Range]) -> tuple[Pair, Range, int]:
    operation = self.source.operations[node]
    choose = max if operation == "max" else min
    a, b = ranges
    pair = self.op(operation, pairs[0][0], pairs[1][0]), self.op(operation, pairs[0][1], pairs[1][1])
    found = Range(
        choose(a.low, b.low), choose(a.high, b.high), a.unknown or b.unknown, a.minus or b.minus, a.whole and b.whole
    )
    return pair, found, 0


def _negative(self: Intervals, _: int, pairs: list[Pair], ranges: list[Range]) -> tuple[Pair, Range, int]:
    return *_negated(pairs[0], ranges[0], self), 0


def _absolute(self: Intervals, _: int, pairs: list[Pair], ranges: list[Range]) -> tuple[Pair, Range, int]:
    (low, high), known = pairs[0], ranges[0]
    found = Range(0.0, max(abs(known.low), abs(known.high)), known.unknown, whole=known.whole)
    if known.low >= 0.0:
        return (low, high), dataclasses.replace(found, low=known.low, minus=known.minus), 0
    turned, zero = self.op("neg", high), self._float(0.0)
    least = self.extreme("max", (low, turned, zero))
    return (least, self.op("max", self.op("neg", low), high)), found, 0


def _rounded(function: Callable[[float], float]) -> Rule:
    def rule(self: Intervals, node: int, pairs: list[Pair], ranges: list[Range]) -> tuple[Pair, Range, int]:
        (low, high), known = pairs[0], ranges[0]
        operation = self.source.operations[node]
        ends = [function(end) if math.isfinite(end) else end for end in (known.low, known.high)]
        found = Range(ends[0], ends[1], known.unknown, minus=known.minus or known.low < 0.0, whole=known.finite)
        return (self.op(operation, low), self.op(operation, high)), found, 0

    return rule


def _root(self: Intervals, _: int, pairs: list[Pair], ranges: list[Range]) -> tuple[Pair, Range, int]:
    (low, high), known = pairs[0], ranges[0]
    if known.low < 0.0:
        low, high = (self.op("max", bound, self._float(0.0)) for bound in (low, high))
    found = _about(math.sqrt(max(known.low, 0.0)), math.sqrt(max(known.high, 0.0)), minus=known.minus)
    found = dataclasses.replace(found, unknown=known.unknown or known.low < 0.0)
    return (self.op("sqrt", low), self.op("sqrt", high)), _not_negative(found), PRODUCT


def _exponential(self: Intervals, _: int, pairs: list[Pair], ranges: list[Range]) -> tuple[Pair, Range, int]:
    (low, high), known = pairs[0], ranges[0]
    ends = [math.exp(min(end, 700.0)) if end < 700.0 else math.inf for end in (known.low, known.high)]
    found = _not_negative(_about(ends[0], ends[1], unknown=known.unknown))
    return (self.op("exp", low), self.op("exp", high)), found, LIBRARY


def _logarithm(self: Intervals, _: int, pairs: list[Pair], ranges: list[Range]) -> tuple[Pair, Range, int]:
    (low, high), known = pairs[0], ranges[0]
    if known.low < 0.0:
        low, high = (self.op("max", bound, self._float(0.0)) for bound in (low, high))
    ends = [math.log(end) if end > 0.0 else -math.inf for end in (known.low, known.high)]
    found = _about(ends[0], ends[1], unknown=known.unknown or known.low < 0.0, minus=True)
    return (self.op("log", low), self.op("log", high)), found, LIBRARY


def _power(self: Intervals, _: int, pairs: list[Pair], ranges: list[Range]) -> tuple[Pair, Range, int]:
    x, y = pairs
    a, b = ranges
    # Of a positive base a power is monotone in base and exponent, so that its extremes are at corners.
    if not (a.low > 0.0 and a.finite and b.finite) or a.unknown or b.unknown:
        self.missing.add("pow")
        return *self._anything("f"), 0
    corners = [self.op("pow", base, exponent) for base in dict.fromkeys(x) for exponent in dict.fromkeys(y)]
    try:
        ends = [base**exponent for base in (a.low, a.high) for exponent in (b.low, b.high)]
    except OverflowError:
        ends = [0.0, math.inf]
    found = _not_negative(_about(min(ends), max(ends)))
    return (self.extreme("min", corners), self.extreme("max", corners)), found, LIBRARY


_RULES: dict[str, Rule] = {
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
_WHOLE_RULES = frozenset({"add", "sub", "mul", "max", "min", "neg", "abs"})


def _made_of(graph: Graph, given: Mapping[int, Range], wanted: Iterable[int]) -> list[int]:
    """All nodes that some are made of, down to those that are given, each after its arguments."""
    seen: set[int] = set()
    left = list(wanted)
    while left:
        node = left.pop()
        if node in seen:
            continue
        seen.add(node)
        if node not in given and graph.operations[node] not in ("number", "input"):
            left += graph.arguments[node]
    # Nodes are numbered as they are made, arguments first.
    return sorted(seen)

"""Intervals through a graph of scalar operations: a second graph, whose outputs bound those of the first over a box.

Every operation is replaced by what bounds it (Moore, Interval Analysis, 1966). Where the first graph rounds, or may be
compiled with other roundings, bounds are widened by more than that: they hold for the numbers that a program gives.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping

from sweeps.run.native.graph import COMPARED, Graph
from sweeps.run.native.nests import exact
from sweeps.run.pruned.arithmetic import RULES, TRUTH, WHOLE, WHOLE_RULES, Arithmetic, Case, Pair, Range


class Intervals(Arithmetic):
    """A graph of bounds of another graph.

    Args:
      source: the graph.
      given: of nodes that are known, their ranges over the whole sweep: each becomes two inputs.
      wanted: nodes to bound.

    Attributes:
      inputs: nodes of the lower and upper bound of every node that is given and used.
      ranges: of every node that is made of these, over the whole sweep.
    """

    def __init__(self, source: Graph, given: Mapping[int, Range], wanted: Iterable[int]):
        super().__init__(source.dtype)
        self.source = source
        self.inputs: dict[int, Pair] = {}
        self.ranges: dict[int, Range] = {}
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
            return self._constant(self.source.value(node), kind)
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
        rule = RULES.get(operation)
        # Whole numbers of type int are followed as floats, which are exact while they are small.
        small = all(r.exact for r in ranges)
        if rule is None or (kind == "i" and not (operation in WHOLE_RULES and small)):
            self.missing.add(operation)
            return self.anything(kind)
        pair, found, roundings = rule(self, Case(operation, node in self._quotients, pairs, ranges))
        if kind == "i" and not found.exact:
            return self.anything(kind)
        return self.widened(pair, found, 0 if kind == "i" else roundings), found

    def _constant(self, value: float, kind: str) -> tuple[Pair, Range]:
        if kind == "b":
            node = self.graph.number(bool(value))
            return (node, node), TRUTH
        number = float(value)
        if math.isnan(number) or (kind == "i" and abs(number) > WHOLE):
            return self.anything(kind)
        node = self.number(number)
        minus = number == 0 and math.copysign(1.0, number) < 0
        return (node, node), Range(number, number, minus=minus, whole=number.is_integer())

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
        limits = self.number(bound), other[end]
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
            zero, one = self.number(0.0), self.number(1.0)
            return (self.op("select", pair[0], zero, one), self.op("select", pair[1], zero, one)), TRUTH
        if operation == "float":
            return pair, known
        # Towards zero; of numbers that may be negative it is not known which way that is.
        if known.unknown or known.low < 0.0 or known.high > WHOLE:
            self.missing.add(operation)
            return self.anything("i")
        found = Range(math.floor(known.low), math.floor(known.high), whole=True)
        return (self.op("floor", pair[0]), self.op("floor", pair[1])), found


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

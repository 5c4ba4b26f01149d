"""Shapes to time within a budget: complete grids of powers of two, from coarse to fine."""

import itertools
import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

Shape = dict[str, int]

COARSE, FINE = 16.0, 2.0
"""Ratios between neighbouring positions: of the first grid at most, and of the last one at least."""

FIRST_SHARE = 0.6
"""Of the budget that the first grid may take by estimate; the rest goes to refinements."""


class Span(NamedTuple):
    """Positions that one axis may take: powers of two from `low` to `high`, at least up to `enough`."""

    low: int
    high: int
    enough: int


class BenchSpace(NamedTuple):
    """Shapes of one table."""

    spans: dict[str, Span]
    amounts: Callable[[Mapping[str, float]], tuple[float, float]]  # FLOP and B of a shape
    bytes: Callable[[Mapping[str, float]], float]  # B of device memory that timing a shape takes
    limit: float  # B that it may take


class Cell(NamedTuple):
    """One timed shape."""

    seconds: float  # of one call
    spread: float
    wall: float  # s that timing it took


class Grid(NamedTuple):
    """Times over all combinations of positions."""

    axes: dict[str, list[int]]
    cells: dict[tuple[int, ...], Cell]  # by positions in the order of `axes`; holds shapes of abandoned grids too

    @property
    def seconds(self) -> np.ndarray:
        """Times of one call in s, shape of the axes."""
        sizes = tuple(len(positions) for positions in self.axes.values())
        return np.array([self.cells[key].seconds for key in itertools.product(*self.axes.values())]).reshape(sizes)

    @property
    def spread(self) -> float:
        """Median over shapes of the spread of their repeats."""
        return float(np.median([self.cells[key].spread for key in itertools.product(*self.axes.values())]))


Measure = Callable[[Shape, float], Cell]
"""Times a shape, given about how many s it takes; 0 where nothing is known."""


def timed_grid(space: BenchSpace, measure: Measure, budget: float, clock: Callable[[], float]) -> Grid:
    """The finest complete grid that the budget allows.

    Two probes say what a shape costs. The range of the axes shrinks until the coarse grid is affordable; it is then
    refined one position at a time, each for all combinations of the others, at the widest gap first. A refinement
    that the deadline cuts short is left out, so that the grid is complete.

    Args:
      space: what may be timed.
      measure: times one shape.
      budget: s.
      clock: s since any time.
    """
    start = clock()
    known: dict[tuple[int, ...], Cell] = {}
    names = list(space.spans)

    def time_all(keys: list[tuple[int, ...]], deadline: float) -> bool:
        # Small shapes first: larger ones are estimated from them.
        for key in sorted(keys, key=lambda key: sum(map(math.log, key))):
            if key not in known:
                if clock() > deadline:
                    return False
                expected = call_time(key, space, known) if known else 0.0
                known[key] = measure(dict(zip(names, key, strict=True)), expected)
        return True

    # Two probes whose times every estimate starts from.
    low = tuple(span.low for span in space.spans.values())
    middle = tuple(_middle(span.low, span.enough) for span in space.spans.values())
    time_all([low, middle], math.inf)
    # The coarse grid is timed whatever it takes: without it there is no table.
    axes = _affordable(space, known, FIRST_SHARE * budget - (clock() - start))
    time_all(list(itertools.product(*axes.values())), math.inf)
    while True:
        left = start + budget - clock()
        # One more position at a time, as long as all of its shapes fit into the time that is left.
        finer = _refined(axes, space, known, left)
        if finer is None or not time_all(list(itertools.product(*finer.values())), start + budget):
            return Grid(axes, known)
        axes = finer


def positions(low: int, high: int, ratio: float = COARSE) -> list[int]:
    """Powers of two (times `low`) from `low` to `high`, at most `ratio` apart."""
    # The slack keeps a range that is an exact power of the ratio from taking one more step.
    steps = max(1, math.ceil(math.log2(high / low) / math.log2(ratio) - 1e-9))
    exponents = [round(math.log2(high / low) * step / steps) for step in range(steps + 1)]
    return sorted({low * 2**exponent for exponent in exponents})


def call_time(key: tuple[int, ...], space: BenchSpace, known: Mapping[tuple[int, ...], Cell]) -> float:
    """s that one call takes: what the nearest timed shape took, in proportion to its work."""
    # Nearest in octaves, all axes together.
    near = min(known, key=lambda other: sum(abs(math.log(a / b)) for a, b in zip(key, other, strict=True)))
    names = list(space.spans)
    here, there = (space.amounts(dict(zip(names, k, strict=True))) for k in (key, near))
    # In proportion to FLOP or bytes, whichever grows more.
    return known[near].seconds * max([a / b for a, b in zip(here, there, strict=True) if b > 0.0], default=1.0)


def wall_time(key: tuple[int, ...], space: BenchSpace, known: Mapping[tuple[int, ...], Cell]) -> float:
    """s that timing a shape takes: compilation and set-up as for the others, and the calls of a long kernel."""
    overhead = float(np.median([max(0.0, cell.wall - RUNS * cell.seconds) for cell in known.values()]))
    return overhead + RUNS * call_time(key, space, known)


RUNS = 6
"""Calls per shape of a long kernel: one or two to warm up, three samples, and what the estimate is off."""


def _affordable(space: BenchSpace, known: Mapping[tuple[int, ...], Cell], budget: float) -> dict[str, list[int]]:
    """The axes of the first grid: the widest that fits the memory and, unless that leaves too little, the budget."""
    highs = {name: span.high for name, span in space.spans.items()}
    while True:
        axes = {name: positions(span.low, highs[name]) for name, span in space.spans.items()}
        keys = [key for key in itertools.product(*axes.values()) if key not in known]
        cost = sum(wall_time(key, space, known) for key in keys)
        fits = space.bytes(highs) <= space.limit
        # By how much each axis reaches beyond what is enough, relative to its whole reach. Where the memory is too
        # small, axes may shrink below that.
        spare = {
            name: math.log(highs[name] / span.enough) / max(1.0, math.log(span.high / span.enough))
            for name, span in space.spans.items()
            if highs[name] > (span.enough if fits else 2 * span.low)
        }
        if (fits and cost <= budget) or not spare:
            return axes
        cut = max(spare, key=lambda name: spare[name])
        highs[cut] //= 2


def _refined(
    axes: Mapping[str, list[int]], space: BenchSpace, known: Mapping[tuple[int, ...], Cell], left: float
) -> dict[str, list[int]] | None:
    """The axes with one more position in the widest gap that can be afforded; None where there is none."""
    # Width of every gap that may still be halved, and the position in its middle.
    gaps = [
        (high / low, _middle(low, high), name)
        for name, values in axes.items()
        for low, high in itertools.pairwise(values)
        if high / low > FINE
    ]
    for _, position, name in sorted(gaps, key=lambda gap: -gap[0]):
        finer = {**axes, name: sorted({*axes[name], position})}
        keys = [key for key in itertools.product(*finer.values()) if key not in known]
        if sum(wall_time(key, space, known) for key in keys) <= left:
            return finer
    return None


def _middle(low: int, high: int) -> int:
    return low * 2 ** (int(math.log2(high / low)) // 2)

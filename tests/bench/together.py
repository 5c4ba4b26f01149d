"""Simulations of several searches that run together: in full chunks of one program, and no simulation twice."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import jax
import numpy as np

from jaxroof.jobs import Scenario
from jaxroof.scheduler import Size
from sweeps.run.precision import precision
from sweeps.run.simulated import grid
from sweeps.studies.compare import simulate

WIDTH = 32
"""Simulations of one call."""


def together(searches: Sequence[Callable[[], Any]], size: Size) -> list[Any]:
    """What every search returns. Each runs in a thread; a round of simulations begins when all of them wait for one.

    The result of a simulation does not depend on those beside it, nor on a `size` that is larger than it needs.

    Args:
      searches: which call `sweeps.studies.compare.simulate.outcomes`.
      size: of every simulation.
    """
    rounds = _Rounds(len(searches))
    sized = mock.patch.object(grid, "size_for", lambda *_: size)
    with precision("float64"), sized, mock.patch.object(simulate, "outcomes", rounds.outcomes):
        with ThreadPoolExecutor(len(searches)) as pool:
            running = [pool.submit(rounds.until_end, search) for search in searches]
            return [one.result() for one in running]


class _Rounds:
    """Points that threads wait for, and the figures of all points so far."""

    def __init__(self, searches: int):
        self.working, self.waiting = searches, 0  # threads
        self.wanted: dict[Any, Scenario] = {}
        self.known: dict[Any, dict[str, float]] = {}
        self.among: Sequence[Scenario] = ()  # of the first round: all rounds then share programs
        self.error: BaseException | None = None
        self.turn = threading.Condition()

    def until_end(self, search: Callable[[], Any]) -> Any:
        try:
            return search()
        finally:
            with self.turn:
                self.working -= 1
                self._go_on()

    def outcomes(self, points: Sequence[Scenario], *_: Any) -> grid.Metrics:
        """As `sweeps.run.simulated.grid.outcomes`."""
        keys = [_key(point) for point in points]
        with self.turn:
            new = {key: point for key, point in zip(keys, points, strict=True) if key not in self.known}
            if new:
                self.wanted |= new
                self.working -= 1
                self.waiting += 1
                self._go_on()
            while self.error is None and any(key not in self.known for key in new):
                self.turn.wait()
            if self.error is not None:
                raise self.error
        rows = [self.known[key] for key in keys]
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}

    def _go_on(self) -> None:
        """Simulate where nobody works any more."""
        if self.working or not self.wanted:
            return
        ordered = sorted(self.wanted.items(), key=lambda pair: _length(pair[1]))
        keys, points = zip(*ordered, strict=True)  # like ones together: a chunk takes as long as its longest
        self.wanted, self.working, self.waiting = {}, self.waiting, 0
        self.among = self.among or points
        try:
            found = grid.outcomes(points, lambda done: None, WIDTH, self.among)
            for i, key in enumerate(keys):
                self.known[key] = {name: float(values[i]) for name, values in found.items()}
        except BaseException as error:
            self.error = error
        self.turn.notify_all()


def _length(point: Scenario) -> float:
    """Tokens of an answer, mean."""
    return float(np.mean(point.workload.traffic.osl))


def _key(point: Scenario) -> tuple:
    """What tells a point from all others of one model and one file of constants."""
    parts = point.hardware, point.deployment, point.efficiency.host, point.workload
    return tuple(_numbers(parts))


def _numbers(parts: Any) -> Iterator[Any]:
    leaves, structure = jax.tree.flatten(parts)
    yield structure
    for leaf in leaves:
        yield np.asarray(leaf, float).tobytes()

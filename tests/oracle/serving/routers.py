"""Routers: the engine to which a request goes, by what is seen of the engines when it is delivered."""

from collections.abc import Callable
from typing import NamedTuple

ROUTERS = ("round_robin", "random", "session", "least_requests", "least_tokens", "prefix", "slo", "power_of_two")

SESSIONS = 1_000_003
"""Added to a node's number, so that a session's hash is not that of a request."""


class View(NamedTuple):
    """One engine at the time of a delivery."""

    requests: int  # delivered and not ended there
    tokens: int  # of their prompts
    queued: int  # of the prompts of those that were never admitted
    hit: int  # tokens of the new prompt in its prefix cache
    weight: float  # relative speed
    pace: float  # s per prompt token


class Router:
    """One router, and how many requests it has routed."""

    def __init__(self, name: str, seed: int, weights: tuple[float, float]):
        assert name in ROUTERS
        self.name, self.seed, self.weights, self.routed = name, seed, weights, 0

    def choice(self, index: int, isl: int, nodes: tuple[int, ...], views: list[View]) -> int:
        """Which of the engines a request goes to.

        Args:
          index: number of the request.
          isl: its prompt tokens.
          nodes: its path in the prefix tree, -1 where there is none.
          views: of the engines.
        """
        turn = self.routed
        self.routed += 1
        if self.name == "round_robin":
            return turn % len(views)
        if self.name == "random":
            return hashed(index, self.seed) % len(views)
        if self.name == "session":
            path = [node for node in nodes if node >= 0]
            return hashed(path[-1] + SESSIONS if path else index, self.seed) % len(views)
        if self.name == "least_requests":
            return least(views, lambda view: view.requests / view.weight)
        if self.name == "least_tokens":
            return least(views, lambda view: view.tokens / view.weight)
        if self.name == "slo":
            return least(views, lambda view: expected(view, isl))
        if self.name == "power_of_two":
            return two(views, hashed(index, self.seed))
        prefix, load = self.weights
        most = max(1.0, *(view.requests / view.weight for view in views))
        return least(views, lambda view: -(prefix * view.hit / isl - load * (view.requests / view.weight / most)))


def expected(view: View, isl: int) -> float:
    """s until an engine is done with a prompt, by the prompt tokens that wait there."""
    return (view.queued + isl - view.hit) * view.pace


def least(views: list[View], cost: Callable[[View], float]) -> int:
    """The engine of the least cost, the first one of equals."""
    costs = [cost(view) for view in views]
    return costs.index(min(costs))


def two(views: list[View], number: int) -> int:
    """Of two engines that a number stands for, different ones where there are several, the less loaded one."""
    first, rest = number % len(views), number // len(views)
    picks = {first, (first + 1 + rest % max(len(views) - 1, 1)) % len(views)}
    return min(picks, key=lambda engine: (views[engine].requests / views[engine].weight, engine))


def hashed(key: int, seed: int) -> int:
    """A number of 32 bits that looks random."""
    x = (key * 2_654_435_761 + seed * 40_503 + 1) % 2**32
    x ^= x >> 16
    x = x * 0x45D9F3B % 2**32
    return x ^ x >> 16

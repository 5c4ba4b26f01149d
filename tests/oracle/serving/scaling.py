"""Replicas that start and stop while a service runs, by a rule that is evaluated at fixed intervals."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

SIGNALS = ("queue", "queue_tokens", "rate", "ttft")


@dataclasses.dataclass(frozen=True)
class Rule:
    """When replicas start and stop."""

    signal: str
    target: float  # load per replica: requests, tokens, requests/s or s
    least: int
    most: int
    every: float  # s between two evaluations
    start: float  # s until a replica takes requests
    idle: float  # s for which fewer are enough before replicas stop


class Scaling:
    """The replicas that are on, those in front, and the evaluations so far."""

    def __init__(self, rule: Rule, engines: Sequence[Any], first_tokens: Callable[[float, float], list[float]]):
        """The first `least` replicas are on.

        Args:
          engines: of the service.
          first_tokens: TTFT in s of the first tokens from one time on until before another one.
        """
        self.rule, self.engines, self.first_tokens = rule, engines, first_tokens
        self.number = rule.least
        self.ready = [0.0 if i < rule.least else math.inf for i in range(len(engines))]
        self.last, self.came = 0.0, 0  # the last evaluation, and requests since
        self.low: list[int] = []  # numbers that were wanted at evaluations in a row, all fewer than there are
        self.numbers: list[int] = []  # after every evaluation

    @property
    def next(self) -> float:
        return (len(self.numbers) + 1) * self.rule.every

    def takes(self, engine: int, time: float) -> bool:
        return self.ready[engine] <= time

    def evaluate(self) -> None:
        rule, time = self.rule, self.next
        wanted = max(rule.least, min(math.ceil(self.load(time) / rule.target), rule.most))
        before = self.number
        if wanted >= before:
            self.number, self.low = wanted, []
        else:
            self.low.append(wanted)
            if len(self.low) * rule.every >= rule.idle:
                self.number, self.low = max(self.low), []
        for i, engine in enumerate(self.engines):
            if i >= self.number:
                self.ready[i] = math.inf
            elif i >= before:
                if engine.sequences():
                    self.ready[i] = time
                else:
                    self.ready[i] = time + rule.start
                    engine.restart()
        self.numbers.append(self.number)
        self.last, self.came = time, 0

    def load(self, time: float) -> float:
        """What the replicas have to carry, in units of the target."""
        rule, on = self.rule, self.engines[: self.number]
        if rule.signal == "queue":
            return sum(len(engine.waiting) for engine in on)
        if rule.signal == "queue_tokens":
            return sum(job.isl for engine in on for job in engine.waiting)
        if rule.signal == "rate":
            return self.came / rule.every
        waits = self.first_tokens(self.last, time)
        if waits:
            return sum(ready <= time for ready in self.ready) * (sum(waits) / len(waits))
        return self.number * rule.target if any(engine.waiting for engine in on) else 0.0

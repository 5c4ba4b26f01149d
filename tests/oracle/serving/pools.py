"""Hand-overs: caches of prompts on their way from an engine of prefill to one of decode."""

import dataclasses
import math

from tests.oracle.serving.engine import Engine
from tests.oracle.serving.jobs import Job, Request, job


@dataclasses.dataclass(eq=False)
class HandOver:
    """A sequence that two engines work on, one after the other."""

    source: Engine
    target: Engine
    prompt: Job  # in the source
    rest: Job  # in the target
    step_time: float  # s of the step in which its prompt became complete


class Transfers:
    """The links of all engines: each sends or receives one cache at a time."""

    def __init__(self, rates: dict[Engine, float], latency: float, layers: int):
        self.rates, self.latency, self.layers = rates, latency, layers
        self.busy = dict.fromkeys(rates, -math.inf)  # s until which a link is
        self.under_way: dict[Job, HandOver] = {}

    def hand_over(self, request: Request, prompt: Job, source: Engine, target: Engine) -> Job:
        """The sequence that joins the queue of the other engine, when the prompt is complete."""
        rest = job(request, target.policy)
        rest.path, rest.produced, rest.left = (), 1, request.osl - 1
        last = source.steps[-1]
        self.under_way[rest] = HandOver(source, target, prompt, rest, last.end - last.start)
        return rest

    def arrival(self, rest: Job, now: float) -> float:
        """The s at which a cache is there that is sent as soon as both links are free."""
        over = self.under_way.pop(rest)
        ends = (over.source, over.target)
        start = max(now, *(self.busy[end] for end in ends))
        time = self.latency + rest.isl / min(self.rates[end] for end in ends)
        ready = start + time
        if self.layers:  # those computed before the last one have been sent during the step
            ready = max(start + time / self.layers, ready - over.step_time)
        for end in ends:
            self.busy[end] = ready
        over.prompt.ready = ready  # it leaves the source then
        over.source.wake(ready)
        return ready

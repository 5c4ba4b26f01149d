"""One engine and its clients, without a service around it."""

import math
from collections.abc import Callable
from typing import Any

from jaxroof.batch import STATUSES, Encode
from tests.oracle.serving.drafts import Drafts
from tests.oracle.serving.engine import Engine
from tests.oracle.serving.jobs import REFUSED, Job, Outcome, job, listed


def serve(
    price: Callable[..., tuple[float, float]],
    requests: Any,
    policy: Any,
    blocks: int,
    clients: int = 0,
    think=0.0,
    images: Encode | None = None,
    drafts: Drafts | None = None,
) -> Outcome:
    """Serves all requests.

    Args:
      price: device and host s of a step: price(batch, rows=None), rows being those of padded matrix multiplies.
      requests: arrays `arrival`, `isl`, `osl`, and `group`, `shared`, `keep` or None.
      policy: a `jaxroof.batch.Policy` of plain numbers.
      blocks: of the KV cache.
      clients: of a closed loop; 0: an open loop.
      think: s between an answer and its client's next request.
      images: of every request; None: there are none.
      drafts: of every decode step; None: there are none.
    """
    jobs = [job(request, policy) for request in listed(requests)]
    return Alone(Engine(price, policy, int(blocks), images, drafts=drafts), jobs, int(clients), float(think)).run()


class Alone:
    """An engine, the requests that arrive there, and their clients."""

    def __init__(self, engine: Engine, jobs: list[Job], clients: int, think: float):
        self.engine, self.jobs, self.clients, self.think = engine, jobs, clients, think
        for each in jobs:
            if not engine.can_hold(each.total):
                each.status, each.arrival = REFUSED, math.nan
        self.line = [each for each in jobs if each.status != REFUSED]  # those that arrive, in order
        self.arrived = self.completions = self.jumps = 0
        if clients:
            for each in self.line[clients:]:
                each.arrival = math.inf

    def run(self) -> Outcome:
        """Instants, each with the step that follows it, until there is nothing left to do."""
        engine = self.engine
        while True:
            for _ in engine.complete():
                self.completed()
            self.arrive()
            engine.work()
            if engine.next == math.inf:
                assert engine.head() is None, "an idle engine admits whoever waits"
                if self.arrived == len(self.line) or self.line[self.arrived].arrival == math.inf:
                    return self.outcome()
                engine.next = self.line[self.arrived].arrival
                self.jumps += 1
            engine.clock = engine.next

    def completed(self) -> None:
        """A client of a closed loop thinks about what comes next."""
        following = self.clients + self.completions
        self.completions += 1
        if self.clients and following < len(self.line):
            self.line[following].arrival = self.engine.clock + self.think

    def arrive(self) -> None:
        while self.arrived < len(self.line) and self.line[self.arrived].arrival <= self.engine.clock:
            each = self.line[self.arrived]
            self.arrived += 1
            if not self.engine.queued(each):
                self.completed()

    def outcome(self) -> Outcome:
        """What became of the sequences; a request that was never sent did not arrive."""
        for each in self.jobs:
            each.arrival = each.arrival if each.arrival < math.inf else math.nan
        names = ("arrival", "admitted", "first_token", "finish", "status", "preemptions", "cached")
        columns = {name: [getattr(each, name) for each in self.jobs] for name in names}
        became = {name: columns["status"].count(index) for index, name in enumerate(STATUSES)}
        counts = self.engine.counts | {"jumps": self.jumps} | became
        return Outcome(**columns, steps=self.engine.steps, counts=counts)

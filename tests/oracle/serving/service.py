"""A service of several engines: events in their order, one after the other."""

import dataclasses
import heapq
import math
from collections.abc import Callable, Sequence
from typing import Any

from jaxroof.batch import STATUSES
from tests.oracle.serving.drafts import Drafts
from tests.oracle.serving.engine import DECODE, PREFILL, Engine
from tests.oracle.serving.jobs import FINISHED, REFUSED, REJECTED, UNFINISHED, Job, Request, Step, job, listed
from tests.oracle.serving.pools import Transfers
from tests.oracle.serving.routers import Router, View, expected
from tests.oracle.serving.scaling import Rule, Scaling
from tests.oracle.serving.tiers import Level, Tier, Tiers


@dataclasses.dataclass
class Server:
    """One engine of a service."""

    policy: Any  # a `jaxroof.batch.Policy` of plain numbers, or alike
    blocks: int  # of the KV cache
    price: Callable[..., tuple[float, float]]  # device and host s of a step: price(batch, rows=None)
    role: str = "whole"  # or prefill, decode
    weight: float = 1.0  # relative speed, for routers
    pace: float = 0.0  # s per prompt token, for the router slo
    rate: float = math.inf  # tokens/s of KV cache that it sends or receives
    tiers: Sequence[Level] = ()  # below its own cache; as many in all engines
    drafts: Drafts | None = None


@dataclasses.dataclass
class Service:
    """Engines, the requests that they serve, and the way of a request to an engine."""

    requests: Any  # arrays: `tests.oracle.serving.jobs.Requests`
    engines: Sequence[Server]
    router: str = "round_robin"
    weights: tuple[float, float] = (1.0, 1.0)  # of hits and load, for the router prefix
    decode_router: str = "round_robin"
    seed: int = 0
    delay: float = 0.0  # s between sending and delivery
    transfer_latency: float = 0.0  # s
    layers: int = 0  # of the model, where a cache is sent layer by layer; 0: it is sent whole
    overlap: float = 0.0  # of loads from tiers with compute, 0 .. 1
    tiers_known: bool = False  # to routers
    admission: Sequence[float] | None = None  # s of expected TTFT above which every request is rejected
    scaling: Rule | None = None  # without pools; None: all engines take requests all the time
    encoders: Sequence[float] = ()  # s of a request's images at every worker that encodes alone; none: there are none
    encoder_transfer: float = 0.0  # s that their vectors are on their way


@dataclasses.dataclass
class ServiceOutcome:
    """What became of the requests, a number each, and of the engines; times in s, NaN where it did not come to that."""

    arrival: list[float]  # sent
    engine: list[int]  # to which it was routed; -1: never sent
    decode_engine: list[int]  # to which it was handed over, or -1
    admitted: list[float]
    first_token: list[float]
    finish: list[float]
    status: list[int]
    preemptions: list[int]
    cached: list[int]  # tokens found in the prefix cache of the first engine, or in tiers below it
    loaded: list[list[int]]  # tokens of them from every tier
    steps: list[list[Step]]  # of every engine
    engine_counts: list[dict[str, int]]
    counts: dict[str, int]  # of all
    replicas: list[int]  # that are on after every evaluation of the rule for them


@dataclasses.dataclass
class Record:
    """One request, and where it is."""

    request: Request
    sent: float = math.nan
    status: int = UNFINISHED
    answered: float = math.nan
    encoded: bool = False
    engines: list[int] = dataclasses.field(default_factory=list)
    jobs: list[Job] = dataclasses.field(default_factory=list)


def serve_service(service: Service) -> ServiceOutcome:
    """Serves all requests."""
    return Events(service).run()


class Events:
    """The engines, the deliveries to come, and the rules by which one event follows the other."""

    def __init__(self, service: Service):
        self.service = service
        self.engines = [
            Engine(each.price, each.policy, each.blocks, role=each.role, drafts=each.drafts) for each in service.engines
        ]
        common: dict[int, Tier] = {}
        for engine, each in zip(self.engines, service.engines, strict=True):
            engine.tiers = Tiers(each.tiers, common)
            engine.overlap, engine.tiers_known = service.overlap, service.tiers_known
        self.fronts = [i for i, engine in enumerate(self.engines) if engine.role != DECODE]
        self.decodes = [i for i, engine in enumerate(self.engines) if engine.role == DECODE]
        self.router = Router(service.router, service.seed, service.weights)
        self.decode_router = Router(service.decode_router, service.seed, service.weights)
        rates = {engine: each.rate for engine, each in zip(self.engines, service.engines, strict=True)}
        self.transfers = Transfers(rates, service.transfer_latency, service.layers)
        for engine in self.engines:
            engine.arrival = self.transfers.arrival
        self.records = [Record(request) for request in listed(service.requests)]
        self.deliveries: list[tuple[float, int]] = []  # time and request, a heap
        self.handed_over = self.encoded = 0
        self.free = [0.0 for _ in service.encoders]  # s from which on every encoder is
        rule = service.scaling
        self.scaling = None if rule is None else Scaling(rule, self.engines, self.first_tokens)
        for record in self.records:
            if record.request.after < 0:
                self.send(record, record.request.arrival)

    def run(self) -> ServiceOutcome:
        """Deliveries before the next instant of any engine, then that instant, until there is nothing left to do."""
        while True:
            engine = min(self.engines, key=lambda engine: engine.next)  # the first one of equals
            coming = min(engine.next, self.deliveries[0][0] if self.deliveries else math.inf)
            if self.scaling is not None and self.scaling.next <= coming < math.inf:
                self.scaling.evaluate()
            elif self.deliveries and self.deliveries[0][0] < engine.next:
                self.deliver()
            elif engine.next < math.inf:
                self.instant(engine)
            else:
                return self.outcome()

    def instant(self, engine: Engine) -> None:
        """What one engine does between two of its steps; complete prompts are handed over in the order of requests."""
        engine.clock = engine.next
        for each in sorted(engine.complete(), key=lambda each: each.index):
            if each.more:
                self.hand_over(engine, each)
            else:
                self.answer(self.records[each.index], FINISHED, engine.clock)
        while self.deliveries and self.deliveries[0][0] <= engine.clock:
            self.deliver()
        engine.join()
        engine.work()

    # Requests.

    def send(self, record: Record, time: float) -> None:
        record.sent = time
        heapq.heappush(self.deliveries, (time + self.service.delay, record.request.index))

    def deliver(self) -> None:
        """The earliest delivery: to an engine, or refused or rejected there."""
        time, index = heapq.heappop(self.deliveries)
        record = self.records[index]
        request = record.request
        if self.free and not record.encoded:
            self.encode(record, time)
            return
        fronts = self.fronts
        if self.scaling is not None:
            fronts = [i for i in fronts if self.scaling.takes(i, time)]
            self.scaling.came += 1
        found = self.routed(self.router, request, fronts)
        engine = self.engines[found]
        each = job(request, engine.policy)
        if engine.role == PREFILL:  # which works on it as if its first token were the last
            each.osl, each.left, each.more, each.keep = 1, 1, request.osl - 1, min(request.keep, request.isl)
        record.engines.append(found)
        record.jobs.append(each)
        nowhere = engine.role == PREFILL and request.osl > 1 and not self.able(request)
        if not engine.can_hold(each.total) or nowhere:
            self.answer(record, REFUSED, time)
        elif self.late(found, request) or not engine.queued(each):
            self.answer(record, REJECTED, time)
        else:
            engine.wake(time)

    def encode(self, record: Record, time: float) -> None:
        """A request's images at the worker that is free first; then its vectors go to the router with it."""
        worker = min(range(len(self.free)), key=lambda i: self.free[i])
        self.free[worker] = max(time, self.free[worker]) + self.service.encoders[worker]
        record.encoded = True
        self.encoded += 1
        heapq.heappush(self.deliveries, (self.free[worker] + self.service.encoder_transfer, record.request.index))

    def answer(self, record: Record, status: int, time: float) -> None:
        """The end of a request; those that wait for it are sent after their pause."""
        record.status, record.answered = status, time
        for other in self.records:
            if other.request.after == record.request.index:
                self.send(other, time + other.request.pause)

    def hand_over(self, source: Engine, prompt: Job) -> None:
        """A complete prompt goes on in an engine of decode, whose queue it joins; its cache stays until it is sent."""
        record = self.records[prompt.index]
        found = self.routed(self.decode_router, record.request, self.able(record.request))
        target = self.engines[found]
        rest = self.transfers.hand_over(record.request, prompt, source, target)
        record.engines.append(found)
        record.jobs.append(rest)
        target.waiting.append(rest)
        target.wake(source.clock)
        self.handed_over += 1

    def able(self, request: Request) -> list[int]:
        """Engines of decode that have room for a request."""
        return [i for i in self.decodes if self.engines[i].can_hold(request.isl + request.osl)]

    def routed(self, router: Router, request: Request, engines: list[int]) -> int:
        views = [self.view(i, request) for i in engines]
        return engines[router.choice(request.index, request.isl, request.nodes, views)]

    def view(self, i: int, request: Request) -> View:
        engine, server = self.engines[i], self.service.engines[i]
        there = engine.sequences()
        hit = 0 if engine.role == DECODE else engine.hit(job(request, engine.policy))
        tokens, queued = sum(each.isl for each in there), sum(each.isl for each in engine.waiting)
        return View(len(there), tokens, queued, hit, server.weight, server.pace)

    def late(self, i: int, request: Request) -> bool:
        """Whether the first token of a request would come too late from an engine."""
        limits = self.service.admission
        return limits is not None and expected(self.view(i, request), request.isl) > limits[request.index]

    def first_tokens(self, begin: float, end: float) -> list[float]:
        """TTFT of the first tokens from one time on until before another one."""
        waits = [(record.jobs[-1].first_token, record.sent) for record in self.records if record.jobs]
        return [time - sent for time, sent in waits if begin <= time < end]

    # What became of them.

    def outcome(self) -> ServiceOutcome:
        columns: dict[str, list] = {field.name: [] for field in dataclasses.fields(ServiceOutcome)[:10]}
        for record in self.records:
            first, last = (record.jobs[0], record.jobs[-1]) if record.jobs else (None, None)
            columns["arrival"].append(record.sent)
            columns["engine"].append(record.engines[0] if record.engines else -1)
            columns["decode_engine"].append(record.engines[1] if len(record.engines) > 1 else -1)
            columns["admitted"].append(first.admitted if first else math.nan)
            columns["first_token"].append(last.first_token if last else math.nan)
            columns["finish"].append(record.answered if record.status == FINISHED else math.nan)
            columns["status"].append(record.status)
            columns["preemptions"].append(sum(each.preemptions for each in record.jobs))
            columns["cached"].append(first.cached if first else 0)
            columns["loaded"].append(first.loaded if first else [])
        each_count = [engine.counts for engine in self.engines]
        counts = {name: sum(counts[name] for counts in each_count) for name in each_count[0] if name != "parked"}
        for name, role in (("parked", PREFILL), ("coming", DECODE)):
            counts[name] = max((engine.counts["parked"] for engine in self.engines if engine.role == role), default=0)
        counts["handed_over"], counts["encoded"] = self.handed_over, self.encoded
        for name in ("loaded", "tier_evicted"):
            counts[name] = sum(engine.tiers.counts[name] for engine in self.engines)
        counts |= {name: columns["status"].count(index) for index, name in enumerate(STATUSES)}
        steps = [engine.steps for engine in self.engines]
        replicas = [] if self.scaling is None else self.scaling.numbers
        return ServiceOutcome(**columns, steps=steps, engine_counts=each_count, counts=counts, replicas=replicas)

"""An engine's work on requests over time: slow, one engine step after the other, and right by definition.

Plain Python, with nothing approximated: every block of the cache and every token is counted, and what is counted is
checked against the closed forms that a fast simulator would use. `q` is the number of decode steps so far.
"""

import math
from collections.abc import Callable
from typing import Any

from jaxroof.batch import ORDERS, Batch, Decode, Encode, Prefill
from tests.oracle.jobs import FINISHED, REFUSED, REJECTED, Group, Job, Outcome, Place, Step, jobs, outcome

MIXED, _, DECODE_FIRST, STATIC = range(len(ORDERS))


def serve(
    price: Callable[..., tuple[float, float]],
    requests: Any,
    policy: Any,
    blocks: int,
    clients: int = 0,
    think=0.0,
    images: Encode | None = None,
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
    """
    return Engine(price, requests, policy, int(blocks), int(clients), float(think), images).run()


class Engine:
    """The state between two steps, and the rules by which it changes."""

    def __init__(self, price, requests, policy, blocks: int, clients: int, think: float, images: Encode | None):
        self.images = images
        self.price, self.policy, self.blocks, self.clients, self.think = price, policy, blocks, clients, think
        self.order, self.size = int(policy.order), int(policy.block_size)
        self.budget, self.most = int(policy.token_budget), int(policy.max_sequences)
        self.mixed = self.order == MIXED
        self.jobs = jobs(requests, bool(policy.prefix_caching))
        self.groups = {job.group: Group() for job in self.jobs if job.group >= 0}
        self.clock, self.q, self.free = 0.0, 0, blocks
        self.running: list[Job] = []
        self.partial: Job | None = None  # the prompt that is not complete; it stays the head if its blocks are taken
        self.preempted: list[Job] = []
        self.waiting: list[Job] = []
        self.gate, self.padded, self.padded_context, self.moved = False, 0, 0, 0
        self.admissions = self.events = self.completions = 0
        self.steps: list[Step] = []
        names = ("preempted", "preempted_partial", "evicted", "swapped_in", "jumps", "over", "shortened")
        self.counts = dict.fromkeys(names, 0)
        for job in self.jobs:
            if self.ceil(job.total) > blocks:
                job.status, job.arrival = REFUSED, math.nan
        self.line = [job for job in self.jobs if job.status != REFUSED]  # those that arrive, in order
        self.arrived = 0  # how many of them have
        if clients:
            for job in self.line[clients:]:
                job.arrival = math.inf

    def run(self) -> Outcome:
        """Instants, each with the step that follows it, until there is nothing left to do."""
        while True:
            self.complete()
            self.arrive()
            self.prompts: list[tuple[int, int]] = []  # tokens in the cache, and worked on in the coming step
            self.prompt_tokens = 0  # the latter together
            self.begun = 0  # prompts of which they are the first ones
            self.ready: list[Job] = []  # whose prompts become complete
            if not (self.mixed and self.make_room()):
                self.admit()
            if self.prompts or self.running:
                if not self.prompts and not self.mixed:
                    self.make_room()
                self.step()
                continue
            assert self.head() is None, "an idle engine admits whoever waits"
            if self.arrived == len(self.line) or self.line[self.arrived].arrival == math.inf:
                return outcome(self.jobs, self.steps, self.counts)
            self.clock = self.line[self.arrived].arrival
            self.counts["jumps"] += 1

    # 1. Completions and arrivals.

    def complete(self) -> None:
        for job in sorted((job for job in self.running if job.end <= self.q), key=lambda job: job.number):
            assert job.produced == job.osl, "as many tokens as were asked for"
            held = self.ceil(job.total) if self.policy.reserve else self.ceil(job.total - 1)
            assert job.own == held - job.chained, "blocks of a finished sequence"
            self.running.remove(job)
            self.free += job.own
            if job.group >= 0:
                growth = max(job.keep // self.size - self.groups[job.group].chain, 0)
                self.groups[job.group].chain += growth
                self.free -= growth
            self.released(job)
            self.evict()
            job.status, job.finish = FINISHED, self.clock
            if self.order == STATIC:
                self.padded += 1
                self.padded_context += job.total
            self.completed()
        if not self.running:
            self.gate = True
            if self.partial is None:
                self.padded = self.padded_context = 0

    def completed(self) -> None:
        """A client of a closed loop thinks about what comes next."""
        following = self.clients + self.completions
        self.completions += 1
        if self.clients and following < len(self.line):
            self.line[following].arrival = self.clock + self.think

    def arrive(self) -> None:
        while self.arrived < len(self.line) and self.line[self.arrived].arrival <= self.clock:
            job = self.line[self.arrived]
            self.arrived += 1
            if len(self.waiting) >= self.policy.max_waiting:
                job.status = REJECTED
                self.completed()
            else:
                self.waiting.append(job)

    # 2. Blocks of decoding sequences.

    def context(self, job: Job) -> int:
        """Tokens that it attends to in the decode step that starts at q, the new one included."""
        return job.total - job.end + self.q

    def begins_block(self, context: int) -> bool:
        return not self.policy.reserve and context % self.size == 1 % self.size

    def need(self) -> int:
        """Blocks that the next decode step begins."""
        return sum(self.begins_block(self.context(job)) for job in self.running)

    def evictable(self) -> int:
        return sum(group.chain for group in self.groups.values() if group.refs == 0)

    def make_room(self) -> bool:
        """Preempts sequences until the others have their blocks; whether there were any."""
        any_preempted = False
        while self.need() > self.free + self.evictable():
            if self.partial is not None and self.partial.holds:
                self.preempt(self.partial)
            elif len(self.running) > 1:
                self.preempt(max(self.running, key=lambda job: job.number))
            else:
                self.shorten(self.running[0].group, self.running[0].chained)
                break
            any_preempted = True
        return any_preempted

    def preempt(self, job: Job) -> None:
        """A running sequence goes on later with the tokens it has; a partial prompt starts again, still the head."""
        cached = job.target if job is self.partial else self.context(job) - 1
        assert job.own == self.ceil(cached) - job.chained, "blocks of what is in the cache"
        if job is not self.partial:
            self.running.remove(job)
            self.preempted.append(job)
            job.left = job.end - self.q
            assert job.left == job.osl - job.produced
            self.moved += cached if self.policy.swap else 0
        self.free += job.own
        self.released(job)
        job.preemptions += 1
        self.counts["preempted_partial" if job is self.partial else "preempted"] += 1

    def shorten(self, group: int, chained: int) -> None:
        """A sequence that is alone does without the blocks that only others of its group would use."""
        if group >= 0:
            lost = max(self.groups[group].chain - chained, 0)
            self.groups[group].chain -= lost
            self.free += lost
            self.counts["shortened"] += lost

    def released(self, job: Job) -> None:
        job.own, job.holds = 0, False
        if job.group >= 0:
            self.groups[job.group].refs -= 1
            self.touched(job)

    def touched(self, job: Job) -> None:
        self.groups[job.group].last = self.events
        self.events += 1

    def evict(self) -> None:
        """Idle prefixes make up for blocks that are missing, the one that was touched first before the others."""
        while self.free < 0:
            idle = [group for group in self.groups.values() if group.refs == 0 and group.chain > 0]
            if not idle:
                return
            group = min(idle, key=lambda group: group.last)
            lost = min(group.chain, -self.free)
            group.chain -= lost
            self.free += lost
            self.counts["evicted"] += lost

    # 3. Admissions.

    def head(self) -> Job | None:
        if self.partial is not None:
            return self.partial
        if self.preempted:
            return min(self.preempted, key=lambda job: job.number)
        if self.policy.queue == "shortest_first":
            return min(self.waiting, key=lambda job: (job.isl, job.index), default=None)
        return self.waiting[0] if self.waiting else None

    def admit(self) -> None:
        """Heads of the queue, one after the other, until there is one that cannot be admitted."""
        if self.order in (DECODE_FIRST, STATIC) and not self.gate:
            return
        while (job := self.head()) is not None:
            if self.policy.swap and job in self.preempted:
                place = self.place(job, job.total - job.left - 1)  # the newest token is not in the cache yet
                now = 1 if self.mixed and self.begins_block(place.target + 1) else 0
                if not self.fits(place, now):
                    return
                self.take(job, place)
                job.end = self.q + job.left
                assert self.context(job) == place.target + 1
                self.running.append(job)
                self.moved += place.target
                self.counts["swapped_in"] += 1
                continue
            place = None if job.holds else self.place(job, job.total - job.left)
            if place is not None and not self.fits(place):
                return
            chunk = self.chunk(job.target - job.past if place is None else place.target - place.hit * self.size)
            if chunk < 1:
                return
            if place is not None:
                self.take(job, place)
                self.begun += 1
            self.prompts.append((job.past, chunk))
            self.prompt_tokens += chunk
            job.past += chunk
            if job.past < job.target:
                self.partial = job
                return
            self.partial = None
            self.ready.append(job)
            job.end = self.q + (1 if self.mixed else 0) + job.left - 1

    def place(self, job: Job, target: int) -> Place:
        """What a sequence takes of the cache for `target` tokens."""
        hit = chained = growth = 0
        if job.group >= 0:
            chain = self.groups[job.group].chain
            hit = min(chain, job.shared // self.size, (target - 1) // self.size)
            chained = max(hit, min(job.keep, job.isl) // self.size)
            growth = max(chained - chain, 0)
        own = self.ceil(job.total if self.policy.reserve else target) - chained
        return Place(job.group, target, hit, chained, own, growth)

    def fits(self, place: Place, now: int = 0) -> bool:
        """Whether there is a slot and room for one more sequence, with `now` blocks for its decoding in this step."""
        if len(self.running) + len(self.prompts) + 1 > self.most:
            return False
        room = self.free + self.evictable() - (self.need() if self.mixed else 0)
        if place.group >= 0 and self.groups[place.group].refs == 0:
            room -= self.groups[place.group].chain
        if self.running or self.prompts:
            room -= self.policy.watermark * self.blocks
        elif place.own + place.growth + now > room:
            self.shorten(place.group, place.chained)
            return True
        return place.own + place.growth + now <= room

    def chunk(self, remaining: int) -> int:
        """Tokens of a prompt that this step works on."""
        left = self.budget - (len(self.running) if self.mixed else 0) - self.prompt_tokens
        if self.policy.chunked:
            return min(remaining, left)
        return remaining if remaining <= left or not self.prompts else 0

    def take(self, job: Job, place: Place) -> None:
        """The sequence gets its blocks."""
        if job in self.waiting:
            self.waiting.remove(job)
            job.admitted, job.cached = self.clock, place.hit * self.size
        elif job in self.preempted:
            self.preempted.remove(job)
        job.number = self.admissions
        self.admissions += 1
        job.holds, job.target, job.past = True, place.target, place.hit * self.size
        job.chained, job.own = place.chained, place.own
        self.free -= place.own + place.growth
        if job.group >= 0:
            group = self.groups[job.group]
            group.refs += 1
            group.chain += place.growth
            self.touched(job)
        self.evict()

    # 4. The step.

    def step(self) -> None:
        self.gate = self.gate and bool(self.prompts)
        decoding = list(self.running) if self.mixed or not self.prompts else []
        for job in decoding:
            begun = int(self.begins_block(self.context(job)))
            job.own += begun
            self.free -= begun
        self.evict()
        batch, rows = self.batch(decoding)
        self.check()
        device, host = self.price(batch) if rows is None else self.price(batch, rows=rows)
        time = device + host
        start, self.clock = self.clock, self.clock + (time + self.policy.swap_time * self.moved)
        self.moved = 0
        used, logits = self.blocks - self.free, int(batch.logits)
        self.steps.append(Step(start, self.clock, self.prompt_tokens, len(decoding), logits, used))
        if decoding or self.mixed:
            self.q += 1
        for job in (*decoding, *self.ready):
            job.produced += 1
            if math.isnan(job.first_token):
                job.first_token = self.clock
        self.running += self.ready

    def batch(self, decoding: list[Job]) -> tuple[Batch, float | None]:
        """What the step works on, and the rows to which its matrix multiplies are padded."""
        prefill, decode, rows = None, None, None
        if self.prompts:
            sequences = self.prompt_tokens**2 / sum(chunk**2 for _, chunk in self.prompts)
            past = sequences * (sum(chunk * past for past, chunk in self.prompts) / self.prompt_tokens)
            prefill = Prefill(sequences=sequences, tokens=float(self.prompt_tokens), past=past)
        padded, tokens = (0, 0) if self.prompts else (self.padded, self.padded_context)
        n = len(decoding) + padded
        if n:
            context = sum(self.context(job) for job in decoding) + tokens
            decode = Decode(sequences=float(n), context=float(context))
        if not self.prompts and self.policy.graph_step > 0 and n <= self.policy.graph_limit:
            multiple = self.policy.graph_step
            rows = float((0, 1, 2, 4, 4)[n] if n <= 4 else math.ceil(n / multiple) * multiple)
        encode = None
        if self.images is not None:
            encode = Encode(sequences=self.begun * self.images.sequences, tokens=self.begun * self.images.tokens)
        return Batch(prefill=prefill, decode=decode, logits=float(n + len(self.ready)), encode=encode), rows

    def check(self) -> None:
        """What holds during every step."""
        holders = [*self.running, *self.ready, *([self.partial] if self.partial and self.partial.holds else [])]
        assert len(set(holders)) == len(holders) and all(job.holds and job.own >= 0 for job in holders)
        chains = sum(group.chain for group in self.groups.values())
        assert self.free + sum(job.own for job in holders) + chains == self.blocks, "every block is somewhere"
        assert self.free >= 0 or self.over(holders), "no more blocks than there are"
        self.counts["over"] += self.free < 0
        for index, group in self.groups.items():
            members = [job for job in holders if job.group == index]
            assert group.refs == len(members) and all(job.chained <= group.chain for job in members)
        assert len(holders) <= self.most and (self.prompts or self.running)

    def over(self, holders: list[Job]) -> bool:
        """Whether a sequence that is alone goes on beside a chain of its group that is longer than what it shares."""
        (job, *others) = holders
        return not others and job.group >= 0 and job.chained < self.groups[job.group].chain

    def ceil(self, tokens: int) -> int:
        """Blocks of so many tokens."""
        return -(-tokens // self.size)

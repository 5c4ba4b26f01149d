"""An engine's work on requests over time, one instant and one step after the other.

An instant has parts, in this order: completions, deliveries of new requests, joins of sequences from another engine,
room for those that decode, admissions, and the step that follows. Plain Python, with nothing approximated: every block
of the cache and every token is counted. `q` is the number of decode steps so far.
"""

import dataclasses
import math
from collections.abc import Callable

from jaxroof.batch import ORDERS, Batch, Decode, Encode, Prefill
from tests.oracle.serving.drafts import Drafts
from tests.oracle.serving.jobs import FINISHED, REJECTED, Job, Place, Step
from tests.oracle.serving.tiers import Tiers
from tests.oracle.serving.tree import Path, Tree, held, present

MIXED, _, DECODE_FIRST, STATIC = range(len(ORDERS))

WHOLE, PREFILL, DECODE = "whole", "prefill", "decode"
"""Roles of an engine: both of the others; prompts, with the first token; the tokens after it."""


class Engine:
    """The state between two steps, and the rules by which it changes."""

    def __init__(
        self,
        price,
        policy,
        blocks: int,
        images: Encode | None = None,
        role: str = WHOLE,
        drafts: Drafts | None = None,
    ):
        self.drafts = drafts
        self.price, self.policy, self.blocks, self.images, self.role = price, policy, blocks, images, role
        self.order, self.size = int(policy.order), int(policy.block_size)
        limits = policy.max_sequences, policy.decode_sequences if role == DECODE else math.inf
        self.budget, self.most = int(policy.token_budget), int(min(limits))
        self.mixed = self.order == MIXED
        self.tree = Tree()
        self.picture: dict[int, int] = {}  # blocks of its nodes, as routers know them
        self.tiers = Tiers((), {})
        self.overlap, self.tiers_known = 0.0, False  # of loads with compute; to routers
        self.clock, self.q, self.free = 0.0, 0, blocks
        self.next = math.inf  # s, its next instant
        self.idle = True  # no step is under way
        self.running: list[Job] = []
        self.partial: Job | None = None  # the prompt that is not complete; it stays the head if its blocks are taken
        self.preempted: list[Job] = []
        self.waiting: list[Job] = []
        self.parked: list[Job] = []  # cache that is sent away (prefill), or on its way here (decode)
        self.arrival: Callable[[Job, float], float]  # s at which a cache that is sent for now is here (decode)
        self.gate, self.padded, self.padded_context, self.moved = False, 0, 0, 0
        self.loading = 0.0  # s of loads from tiers in the coming step
        self.admissions = 0
        self.steps: list[Step] = []
        names = ("preempted", "preempted_partial", "evicted", "swapped_in", "shortened", "parked", "right")
        self.counts = dict.fromkeys(names, 0)
        self.prompts: list[tuple[int, int]] = []  # tokens in the cache, and worked on in the coming step
        self.prompt_tokens = 0  # the latter together
        self.begun = 0  # prompts of which they are the first ones
        self.ready: list[Job] = []  # whose prompts become complete

    # 1. Completions.

    def complete(self) -> list[Job]:
        """Sequences that end at this instant, in order of admission, or are parked until their cache has gone."""
        self.tiers.catch_up()
        due = sorted((job for job in self.running if job.end <= self.q), key=lambda job: job.number)
        for job in due:
            assert job.produced == job.osl, "as many tokens as were asked for"
            self.running.remove(job)
            if self.order == STATIC:
                self.padded += 1
                self.padded_context += job.total
            if job.more:
                self.parked.append(job)
                self.counts["parked"] = max(self.counts["parked"], len(self.parked))
            else:
                self.leave(job)
                job.status, job.finish = FINISHED, self.clock
        if not self.running:
            self.gate = True
            if self.partial is None:
                self.padded = self.padded_context = 0
        if due:
            self.changed()
        return due

    def leave(self, job: Job) -> None:
        """A sequence leaves to the prefix tree what later ones begin with."""
        needed = self.ceil(job.total if self.policy.reserve else job.total - 1)
        assert job.own == needed - job.chained, "blocks of a finished sequence"
        self.free += job.own - self.tree.end(job.path, job.chained, job.keep // self.size)
        job.own, job.holds = 0, False
        self.tiers.used(self.tree, job.path, max(job.chained, job.keep // self.size))
        self.evict()

    # 2. Deliveries and joins.

    def can_hold(self, tokens: int) -> bool:
        return self.ceil(tokens) <= self.blocks

    def queued(self, job: Job) -> bool:
        """Whether a request may wait here; else it is rejected."""
        if len(self.waiting) >= self.policy.max_waiting:
            job.status = REJECTED
            return False
        self.waiting.append(job)
        return True

    def wake(self, time: float) -> None:
        """An idle engine has its next instant at `time` if it had none earlier."""
        if self.idle:
            self.next = min(self.next, time)

    def restart(self) -> None:
        """An engine that starts has nothing in its cache; tiers below it keep what they have."""
        self.free += self.tree.blocks()
        self.tree.nodes, self.picture = {}, {}

    def join(self) -> None:
        """Sequences whose cache has come decode, those whose cache has gone leave, in order of admission."""
        over = [job for job in self.parked if job.ready <= self.clock]
        for job in sorted(over, key=lambda job: job.number):
            self.parked.remove(job)
            (self.decode if self.role == DECODE else self.leave)(job)

    def decode(self, job: Job) -> None:
        """A sequence whose cache holds all but its newest token decodes from the next step on."""
        job.end = self.q + job.left
        assert self.context(job) == job.target + 1
        self.running.append(job)

    def sequences(self) -> list[Job]:
        """All that were delivered and have not ended here."""
        parked = self.parked if self.role == DECODE else []
        partial = [] if self.partial is None else [self.partial]
        return [*self.waiting, *partial, *self.preempted, *parked, *self.running]

    def hit(self, job: Job) -> int:
        """Tokens of a prompt in the prefix cache, as of the last time at which the set of its sequences changed."""
        chains = self.tiers.known(job.path, self.picture) if self.tiers_known else self.picture
        return min(present(job.path, chains), job.shared // self.size, (job.isl - 1) // self.size) * self.size

    def changed(self) -> None:
        """Routers learn what is in the cache."""
        self.picture = {index: node.chain for index, node in self.tree.nodes.items()}
        self.tiers.changed()

    # 3. Work.

    def work(self) -> None:
        """Room, admissions, and the step; without one the engine waits for a transfer, or for nothing."""
        self.prompts, self.prompt_tokens, self.begun, self.ready = [], 0, 0, []
        number, changes = self.admissions, sum(self.counts.values())
        if not (self.mixed and self.make_room()):
            self.admit()
        if not self.prompts and not self.mixed:
            self.make_room()
        if (number, changes) != (self.admissions, sum(self.counts.values())):
            self.changed()
        self.idle = not (self.prompts or self.running)
        if self.idle:
            self.next = min((job.ready for job in self.parked), default=math.inf)
        else:
            self.next = self.clock + self.step()

    # 4. Blocks of decoding sequences.

    def context(self, job: Job) -> int:
        """Tokens that it attends to in the decode step that starts at q, the new one included."""
        return job.total - job.end + self.q

    def drafted(self, sequences: int) -> int:
        """Tokens drafted per sequence in a step in which so many decode."""
        return 0 if self.drafts is None else self.drafts.made(sequences)

    def drafted_for(self, job: Job, drafted: int) -> int:
        """Of tokens that are drafted per sequence those that are for this one, which looks them up or not."""
        return drafted if not drafted or self.drafts.found(job.index, job.produced) else 0

    def ahead(self, job: Job, drafted: int) -> int:
        """Blocks that it lacks for what the next decode step may write."""
        written = min(self.context(job) + self.drafted_for(job, drafted), job.total - 1)
        return max(self.ceil(written) - job.own - job.chained, 0)

    def need(self) -> int:
        """Blocks that the next decode step begins."""
        drafted = self.drafted(len(self.running))
        return sum(self.ahead(job, drafted) for job in self.running)

    def make_room(self) -> bool:
        """Preempts sequences until the others have their blocks; whether there were any."""
        any_preempted = False
        while self.need() > self.free + self.tree.idle():
            if self.partial is not None and self.partial.holds:
                self.preempt(self.partial)
            elif len(self.running) > 1 or self.parked:
                self.preempt(max(self.running, key=lambda job: job.number))
            else:
                self.shorten(self.running[0].path, self.running[0].chained)
                break
            any_preempted = True
        return any_preempted

    def preempt(self, job: Job) -> None:
        """A running sequence goes on later with the tokens it has; a partial prompt starts again, still the head."""
        cached = job.target if job is self.partial else self.context(job) - 1
        # Blocks for drafts that were wrong.
        kept = 0 if self.drafts is None else max(self.drafts.tokens, *(most for _, most in self.drafts.lengths), 0)
        least, most = (self.ceil(tokens) - job.chained for tokens in (cached, min(cached + kept, job.total)))
        assert job.own == least or least < job.own <= most, "blocks of what is in the cache"
        if job is not self.partial:
            self.running.remove(job)
            self.preempted.append(job)
            job.left = job.end - self.q
            assert job.left == job.osl - job.produced
            self.moved += cached if self.policy.swap else 0
        self.free += job.own
        job.own, job.holds = 0, False
        self.tree.release(job.path, job.chained)
        job.preemptions += 1
        self.counts["preempted_partial" if job is self.partial else "preempted"] += 1

    def shorten(self, path: Path, chained: int) -> None:
        """A sequence that is alone does without the blocks that only others would use of its path."""
        lost = self.tree.shorten(path, chained)
        self.free += lost
        self.counts["shortened"] += lost

    def evict(self, late: bool = False) -> None:
        """Idle prefixes make up for blocks that are missing; in a step they reach the tiers at its end."""
        while self.free < 0 and (gone := self.tree.evict_one(-self.free)):
            self.free += gone.blocks
            self.counts["evicted"] += gone.blocks
            (self.tiers.late.append if late else lambda each: self.tiers.evicted(*each))(gone[:3])

    # 5. Admissions.

    def head(self) -> Job | None:
        if self.partial is not None:
            return self.partial
        if self.preempted:
            return min(self.preempted, key=lambda job: job.number)
        if self.policy.queue == "shortest_first":
            return min(self.waiting, key=lambda job: job.isl, default=None)  # of equal ones the first
        if self.policy.queue == "priority":
            return min(self.waiting, key=lambda job: job.priority, default=None)
        return self.waiting[0] if self.waiting else None

    def admit(self) -> None:
        """Heads of the queue, one after the other, until there is one that cannot be admitted."""
        if self.order in (DECODE_FIRST, STATIC) and not self.gate:
            return
        while (job := self.head()) is not None:
            if self.policy.swap and job in self.preempted:
                place = self.place(job, job.total - job.left - 1)  # the newest token is not in the cache yet
                now = self.ceil(min(place.target + 1 + self.drafted(len(self.running) + 1), job.total - 1))
                now = max(now - place.own - place.chained, 0) if self.mixed else 0
                if not self.fits(place, now):
                    return
                self.take(job, place._replace(loads=()))
                self.decode(job)
                self.moved += place.target
                self.counts["swapped_in"] += 1
                continue
            if self.role == DECODE and job in self.waiting:
                place = self.place(job, job.isl)
                if not self.fits(place):
                    return
                self.take(job, place)
                job.ready = job.first_token = self.arrival(job, self.clock)
                self.parked.append(job)
                self.counts["parked"] = max(self.counts["parked"], len(self.parked))
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
        hit = chained = 0
        loads: tuple[int, ...] = ()
        if job.path:
            most = min(job.shared // self.size, (target - 1) // self.size)
            hit, loads = self.tiers.loads(self.tree, job.path, most)
            chained = max(hit, min(job.keep, job.isl) // self.size)
        own = self.ceil(job.total if self.policy.reserve else target) - chained
        return Place(job.path, target, hit, chained, own, self.tree.growth(job.path, chained), loads)

    def fits(self, place: Place, now: int = 0) -> bool:
        """Whether there is a slot and room for one more sequence, with `now` blocks for its decoding in this step."""
        if len(self.running) + len(self.prompts) + len(self.parked) + 1 > self.most:
            return False
        room = self.free + self.tree.idle() - (self.need() if self.mixed else 0)
        room -= self.tree.idle_of(place.path, place.chained)
        if self.running or self.prompts or self.parked:
            room -= self.policy.watermark * self.blocks
        elif place.own + place.growth + now > room:
            self.shorten(place.path, place.chained)
            return True
        return place.own + place.growth + now <= room

    def chunk(self, remaining: int) -> int:
        """Tokens of a prompt that this step works on."""
        decoding = self.running if self.mixed else []
        drafted = self.drafted(len(decoding))
        left = self.budget - sum(1 + self.drafted_for(each, drafted) for each in decoding) - self.prompt_tokens
        if self.policy.chunked:
            return min(remaining, left)
        return remaining if remaining <= left or not self.prompts else 0

    def take(self, job: Job, place: Place) -> None:
        """The sequence gets its blocks."""
        if job in self.waiting:
            self.waiting.remove(job)
            job.admitted, job.cached = self.clock, place.hit * self.size
            job.loaded = [blocks * self.size for blocks in place.loads]
        elif job in self.preempted:
            self.preempted.remove(job)
        job.number = self.admissions
        self.admissions += 1
        job.holds, job.target, job.past = True, place.target, place.hit * self.size
        job.chained, job.own = place.chained, place.own
        self.free -= place.own + place.growth
        self.tree.grow(job.path, job.chained)
        self.tree.hold(job.path, job.chained)
        if place.loads:
            self.loading += self.tiers.time(place.loads, self.size)
            self.tiers.counts["loaded"] += sum(place.loads)
        self.tiers.used(self.tree, job.path, job.chained)
        self.evict()

    # 6. The step.

    def step(self) -> float:
        """Its duration in s."""
        self.gate = self.gate and bool(self.prompts)
        decoding = list(self.running) if self.mixed or not self.prompts else []
        drafted = self.drafted(len(decoding))
        made = {job: self.drafted_for(job, drafted) for job in decoding}
        for job in decoding:
            begun = self.ahead(job, drafted)
            job.own += begun
            self.free -= begun
        self.evict(late=True)
        batch, rows = self.batch(decoding, sum(made.values()) / max(len(decoding), 1))
        self.check()
        device, host = self.price(batch) if rows is None else self.price(batch, rows=rows)
        time = (device + host) + self.policy.swap_time * self.moved
        time += self.loading - self.overlap * min(device + host, self.loading)
        self.moved, self.loading = 0, 0.0
        used, logits = self.blocks - self.free, int(batch.logits)
        end = self.clock + time
        self.steps.append(Step(self.clock, end, self.prompt_tokens, len(decoding), logits, used))
        contexts = {job: self.context(job) for job in decoding}
        if decoding or self.mixed:
            self.q += 1
        for job in decoding if self.drafts is not None else []:
            right = self.drafts.right(made[job], job.index, job.produced, len(decoding), contexts[job])
            right = min(right, job.osl - job.produced - 1)
            job.produced += right
            job.end -= right
            self.counts["right"] += right
        for job in (*decoding, *self.ready):
            job.produced += 1
            if math.isnan(job.first_token):
                job.first_token = end
        self.running += self.ready
        return time

    def batch(self, decoding: list[Job], drafted: float) -> tuple[Batch, float | None]:
        """What the step works on, and the rows to which its matrix multiplies are padded.

        Args:
          drafted: tokens per decoding sequence, mean.
        """
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
            if self.drafts is not None:
                decode = dataclasses.replace(decode, drafted=float(drafted))
        if not self.prompts and self.policy.graph_step > 0 and n <= self.policy.graph_limit:
            multiple = self.policy.graph_step
            rows = float((0, 1, 2, 4, 4)[n] if n <= 4 else math.ceil(n / multiple) * multiple)
        encode = None
        if self.images is not None:
            encode = Encode(sequences=self.begun * self.images.sequences, tokens=self.begun * self.images.tokens)
        return Batch(prefill=prefill, decode=decode, logits=float(n + len(self.ready)), encode=encode), rows

    def check(self) -> None:
        """What holds during every step."""
        holders = [*self.running, *self.ready, *self.parked]
        holders += [self.partial] if self.partial and self.partial.holds else []
        assert len(set(holders)) == len(holders) and all(job.holds and job.own >= 0 for job in holders)
        assert self.free + sum(job.own for job in holders) + self.tree.blocks() == self.blocks, "blocks are somewhere"
        assert self.free >= 0, "no more blocks than there are"
        outside = [*self.waiting, *self.preempted]
        assert not any(job.holds for job in outside) and len({*holders, *outside}) == len(holders) + len(outside)
        refs = dict.fromkeys(self.tree.nodes, 0)
        for job in holders:
            for part in held(job.path, job.chained):
                refs[part.node] += 1
            assert self.tree.growth(job.path, job.chained) == 0, "blocks of its path"
        assert refs == {index: node.refs for index, node in self.tree.nodes.items()}
        assert len(holders) <= self.most and (self.prompts or self.running)

    def ceil(self, tokens: int) -> int:
        """Blocks of so many tokens."""
        return -(-tokens // self.size)

"""Causes of the times in a simulated service: every time is an earlier one and a duration, as the record says.

An engine's instant comes after its steps, or when a request or a cache comes that wakes it; a request comes when it was
sent, or after an answer or a prompt that it waited for; a cache arrives after the links were free. Which is which are
decisions of the scheduler and have no derivative. So derivatives of all times are a sparse linear system, with a
triangle as its matrix, in those of the durations.

Where something comes while an engine works, it is the number of steps until then that a faster engine changes. There
the end of the step is tied to what came, a share of the step after it, and the steps that the clock has lost or gained
are counted: `AHEAD`. What ends after a number of steps ends by so many steps earlier.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from jaxroof.batch import Traffic
from jaxroof.numerics.arrays import eager
from jaxroof.numerics.struct import given
from jaxroof.scheduler.outcomes import first, last
from jaxroof.scheduler.service.outcomes import next_instants
from jaxroof.scheduler.service.record import Happening
from jaxroof.scheduler.service.service import ServiceRun

COMES, BEGINS, CLOCK, READY, AHEAD = range(5)
"""Times of an iteration: its delivery, the beginning of its part of an instant, its clock when it is over, the arrival
of the cache that it sent for; and the steps that its engine has gained, which is a number."""

TIMES = 5

SAME = 1e-12
"""Relative difference of two times that are one."""

FIELDS = ("arrival", "admitted", "first_token", "finish")
"""Times of a request."""


class Durations(NamedTuple):
    """Numbers that durations are multiplied by, or derivatives by them; of several metrics with an axis before these.

    Of an engine's steps and of the cache that an iteration sends for, shape [iterations]; of the delay of requests and
    of all times at which requests are sent, shape ().
    """

    steps: np.ndarray
    transfers: np.ndarray
    delay: np.ndarray
    arrivals: np.ndarray


class Causes:
    """The linear system of a service's times.

    Args:
      run: the service at its end.
      records: of all its iterations.
      traffic: its requests.
      ties: whether a faster engine makes more steps until something comes; False: as many as it made, which is the
        derivative of these very times, and says nothing of faster engines.

    Attributes:
      steps: iterations at which steps end, int.
      planned: of every one of them the iteration that planned them.
      transfers: iterations that sent for a cache.
      spent: of every one of them the place in `steps` of the one that completed the prompt; -1: it is not known.
      unknown: instants of which no cause was found.
    """

    def __init__(self, run: ServiceRun, records: Happening, traffic: Traffic, ties: bool = True):
        self._records, self._traffic = records, traffic
        self._count = len(records.engine)
        self._requests = len(np.asarray(traffic.isl))
        self._clock = np.asarray(records.high) + np.asarray(records.low)
        self._rows: list[np.ndarray] = []
        self._columns: list[np.ndarray] = []
        self._factors: list[np.ndarray] = []
        self._durations: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # nodes, columns, factors
        self._before()
        self._known()
        self._deliveries(run)
        self._transfers(run)
        self._instants()
        self._clocks(ties)
        self._finish()

    # 1. What an iteration follows.

    def _before(self) -> None:
        """The iteration of the same engine before every one, and those at which its last steps ended."""
        engine = np.asarray(self._records.engine)
        order = np.argsort(engine, kind="stable")
        same = np.concatenate([[False], (engine[order][1:] == engine[order][:-1])]) & (engine[order] >= 0)
        self._previous = np.full(self._count, -1)
        self._previous[order[same]] = order[np.flatnonzero(same) - 1]
        self._began = np.asarray(self._records.began) > 0
        works = self._began & (np.asarray(self._records.steps) > 0) & (self._previous >= 0)
        self.steps = np.flatnonzero(works)
        self.planned = self._previous[self.steps]
        # The last iteration of the same engine at which steps ended: the latest place so far, in the order of engines.
        places = np.where(works[order], np.arange(self._count), -1)
        starts = np.where(same, -1, np.arange(self._count))
        latest = np.maximum.accumulate(places)
        inside = latest >= np.maximum.accumulate(starts)
        self._ended = np.full(self._count, -1)
        self._ended[order] = np.where(inside & (latest >= 0), order[np.maximum(latest, 0)], -1)
        # And the first iteration of its instant.
        begins = np.maximum.accumulate(np.where(self._began[order] | ~same, np.arange(self._count), 0))
        self._instant = np.empty(self._count, int)
        self._instant[order] = order[begins]

    def _known(self) -> None:
        """Iterations at which things happened to every request; -1: they never did."""
        records = self._records
        self._came, self._admitted = self._first(records.delivered), self._first(records.admitted)
        self._over, self._handed = self._first(records.ended), self._first(records.handed)
        self._accepted, self._produced = self._first(records.accepted), self._first(records.produced)
        self._complete = np.maximum(self._last(records.produced), self._last(records.accepted))

    def _first(self, events: np.ndarray) -> np.ndarray:
        with eager():
            found = np.asarray(first(np.asarray(events, int), self._requests))
        return np.where(found < self._count, found, -1)

    def _last(self, events: np.ndarray) -> np.ndarray:
        with eager():
            return np.asarray(last(np.asarray(events, int), self._requests))

    # 2. Causes of every kind of time.

    def _because(self, kind: int, places: np.ndarray, cause: np.ndarray, factor: np.ndarray | float = 1.0) -> None:
        """Times of this kind contain others."""
        self._rows.append(TIMES * places + kind)
        self._columns.append(cause)
        self._factors.append(np.broadcast_to(np.asarray(factor, float), np.shape(places)))

    def _lasts(self, kind: int, places: np.ndarray, column: np.ndarray | int, factor: np.ndarray | float = 1.0) -> None:
        """Times of this kind contain durations."""
        nodes = TIMES * places + kind
        self._durations.append((nodes, np.broadcast_to(column, nodes.shape), np.broadcast_to(factor, nodes.shape)))

    def _deliveries(self, run: ServiceRun) -> None:
        """Requests come when they are sent; after an answer; when a client has all answers of a conversation; or from
        the engine that has computed their prompt.
        """
        request = np.asarray(self._records.delivered)
        places = np.flatnonzero(request >= 0)
        request = request[places]
        handed = (places > self._came[request]) & (self._handed[request] >= 0)
        self._because(COMES, places[handed], TIMES * self._handed[request[handed]] + BEGINS)
        places, request = places[~handed], request[~handed]
        self._lasts(COMES, places, self._delay)
        cause = self._answers(run)[request]
        waits = cause >= 0
        self._because(COMES, places[waits], cause[waits])
        sent = np.asarray(self._traffic.arrival, float)[request[~waits]]
        self._lasts(COMES, places[~waits], self._delay + 1, sent)

    def _answers(self, run: ServiceRun) -> np.ndarray:
        """The time of the answer that every request waits for; -1: it waits for none, shape [requests]."""
        records = self._records
        # A refused request is answered when it comes.
        answered = np.where(self._over >= 0, TIMES * self._over + BEGINS, TIMES * self._came + COMES)
        cause = np.full(self._requests, -1)
        if self._traffic.after is not None:
            after = np.asarray(self._traffic.after).astype(int)
            cause = np.where(after >= 0, answered[np.maximum(after, 0)], -1)
        clients = run.state.clients
        if clients is None:
            return cause
        # Conversations that do not begin by themselves begin one after the other, as others end.
        turned = (np.asarray(records.delivered) >= 0) & ((records.refused > 0) | (records.rejected > 0))
        closes = np.asarray(clients.closes)
        ends = []
        for events, kind in ((np.where(turned, records.delivered, -1), COMES), (records.ended, BEGINS)):
            at = np.flatnonzero(np.asarray(events) >= 0)
            at = at[closes[np.asarray(events)[at]]]
            ends.append(TIMES * at + kind)
        ends = np.sort(np.concatenate(ends))
        conversations = int(clients.conversations)
        begun = min(int(float(self._traffic.clients or 0.0)), conversations)
        later = np.asarray(clients.opens)[begun:conversations][: len(ends)]
        cause[later] = ends[: len(later)]
        return cause

    def _transfers(self, run: ServiceRun) -> None:
        """A cache arrives after it was sent for and the links of both engines were free."""
        self.transfers = np.flatnonzero(np.asarray(self._records.accepted) >= 0)
        request = np.asarray(self._records.accepted)[self.transfers]
        self.sender = np.asarray(self._records.engine)[self._handed[request]]
        self.receiver = np.asarray(self._records.engine)[self.transfers]
        following = np.concatenate([self._following(), [-1]])
        completes = following[self._produced[request]] if len(request) else request
        self.spent = np.where(completes >= 0, np.searchsorted(self.steps, np.maximum(completes, 0)), -1)
        high, ready = np.asarray(self._records.high), np.asarray(self._records.ready)
        busy: dict[int, int] = {}
        causes = np.empty(len(request), int)
        for place, (at, *ends) in enumerate(zip(self.transfers, self.sender, self.receiver, strict=True)):
            # The latest of the engine's clock and of the caches that the two engines' links carried last.
            before = [busy[end] for end in ends if end in busy]
            latest = max(before, key=lambda k: ready[k], default=-1)
            causes[place] = TIMES * latest + READY if latest >= 0 and ready[latest] > high[at] else TIMES * at + CLOCK
            busy |= dict.fromkeys(ends, int(at))
        self._because(READY, self.transfers, causes)
        self._lasts(READY, self.transfers, len(self.steps) + np.arange(len(self.transfers)))

    @property
    def _delay(self) -> int:
        """Column of the delay of requests, before that of their times."""
        return len(self.steps) + int(np.sum(np.asarray(self._records.accepted) >= 0))

    def _following(self) -> np.ndarray:
        """The iteration at which the next instant of every one's engine begins; -1: there is none."""
        with eager():
            following = np.asarray(next_instants(self._records))
        return np.where(following < self._count, following, -1)

    def _instants(self) -> None:
        """An instant begins when the steps before it end, or with what woke its engine; its iterations follow on."""
        there = np.asarray(self._records.engine) >= 0
        goes_on = np.flatnonzero(there & ~self._began & (self._previous >= 0))
        self._because(BEGINS, goes_on, TIMES * self._previous[goes_on] + CLOCK)
        self._because(BEGINS, self.steps, TIMES * self._previous[self.steps] + CLOCK)
        self._lasts(BEGINS, self.steps, np.arange(len(self.steps)))
        woken = np.flatnonzero(there & self._began)
        woken = np.setdiff1d(woken, self.steps, assume_unique=True)
        cause = self._wakes(woken)
        self.unknown = int(np.sum(cause < 0))
        self._because(BEGINS, woken[cause >= 0], cause[cause >= 0])

    def _wakes(self, places: np.ndarray) -> np.ndarray:
        """What woke an engine: the first request that came to it since, or else a cache; -1: not known."""
        records, engine = self._records, np.asarray(self._records.engine)[places]
        clock, cause = self._clock[places], np.full(len(places), -1)
        came = np.flatnonzero((records.delivered >= 0) & ~(records.refused > 0) & ~(records.rejected > 0))
        key = np.asarray(records.to)[came].astype(np.int64) * (self._count + 1) + came
        order = np.argsort(key)
        came, key = came[order], key[order]
        at = np.searchsorted(key, engine.astype(np.int64) * (self._count + 1) + self._previous[places] + 1)
        candidate = np.append(came, 0)[at]
        same = (at < len(came)) & (np.asarray(records.to)[candidate] == engine) & _same(records.came[candidate], clock)
        cause[same] = TIMES * candidate[same] + COMES
        if len(self.transfers):
            ready = np.asarray(records.ready)[self.transfers]
            order = np.argsort(ready, kind="stable")
            # Several may arrive at one time: those of this engine are looked for among a few.
            at = np.searchsorted(ready[order], clock * (1.0 - SAME))
            for more in range(4):
                place = order[np.minimum(at + more, len(order) - 1)]
                own = (self.sender[place] == engine) | (self.receiver[place] == engine)
                found = (cause < 0) & own & _same(ready[place], clock)
                cause[found] = TIMES * self.transfers[place[found]] + READY
        return cause

    def _clocks(self, ties: bool) -> None:
        """Clocks, tied to what came in the last step; elsewhere they stay what they are."""
        records = self._records
        there = np.flatnonzero(np.asarray(records.engine) >= 0)
        trace = given(records.trace, "trace")
        cause, waited = np.full(self._count, -1), np.full(self._count, np.inf)
        # A prompt, one whose cache is sent for, and a cache that has arrived.
        fresh = np.where(np.asarray(trace.fresh) > 0, records.admitted, -1)
        again = self._last(records.delivered)
        for events, at, kind, times in (
            (fresh, self._came, COMES, records.came),
            (records.accepted, again, COMES, records.came),
            (np.asarray(trace.joined).astype(int), self._accepted, READY, records.ready),
        ):
            places = np.flatnonzero(np.asarray(events) >= 0)
            before = at[np.asarray(events)[places]]
            cause[places], waited[places] = TIMES * before + kind, self._clock[places] - np.asarray(times)[before]
        pace = np.asarray(records.pace)
        tied = there[(cause[there] >= 0) & (waited[there] >= 0.0) & (waited[there] <= pace[there])]
        tied = tied[ties & (pace[tied] > 0.0) & (self._ended[tied] >= 0)]
        # The first one of every instant counts.
        _, earliest = np.unique(self._instant[tied], return_index=True)
        tied = tied[np.sort(earliest)]
        free = np.setdiff1d(there, tied, assume_unique=True)
        self._because(CLOCK, free, TIMES * free + BEGINS)
        # The end of the step is what came, and a share of the step: the mean of those that ended here.
        self._because(CLOCK, tied, cause[tied])
        ended = self._ended[tied]
        number = np.asarray(records.steps)[ended]
        self._lasts(CLOCK, tied, np.searchsorted(self.steps, ended), waited[tied] / pace[tied] / number)
        # Steps that the clock has lost or gained.
        self._because(AHEAD, tied, TIMES * tied + CLOCK, 1.0 / pace[tied])
        self._because(AHEAD, tied, TIMES * tied + BEGINS, -1.0 / pace[tied])
        before = there[self._previous[there] >= 0]
        self._because(AHEAD, before, TIMES * self._previous[before] + AHEAD)

    def loaded(self, records: Happening) -> np.ndarray:
        """Tokens that come from every tier for every one of `steps`, shape [steps, tiers]."""
        # The first end of steps after what was loaded for them, of the same engine.
        engine = np.asarray(records.engine)
        tokens = np.stack([np.asarray(part, float) for part in records.loaded], axis=1)
        order = np.lexsort((self.steps, engine[self.steps]))
        key = engine[self.steps][order].astype(np.int64) * self._count + self.steps[order]
        found = np.zeros((len(self.steps), tokens.shape[1]))
        at = np.flatnonzero(np.any(tokens > 0.0, axis=1))
        place = np.searchsorted(key, engine[at].astype(np.int64) * self._count + at, side="right")
        inside = place < len(order)
        np.add.at(found, order[place[inside]], tokens[at[inside]])
        return found

    # 3. The system, and requests' times in it.

    def _finish(self) -> None:
        size = TIMES * self._count
        rows, columns, factors = (np.concatenate(parts) for parts in (self._rows, self._columns, self._factors))
        within = sparse.csc_matrix((factors, (rows, columns)), (size, size))
        self._factored = splu(
            sparse.identity(size, format="csc") - within,
            permc_spec="NATURAL",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )
        nodes, columns, factors = (np.concatenate(parts) for parts in zip(*self._durations, strict=True))
        self._lasting = sparse.csr_matrix((factors, (nodes, columns)), (size, self._delay + 2))
        self._of_requests = {name: self._times_of(name) for name in FIELDS}

    def _times_of(self, name: str) -> sparse.csr_matrix:
        """A time of every request in those of the system."""

        def some(known: np.ndarray, kind: int, factor: np.ndarray | float = 1.0) -> sparse.csr_matrix:
            requests = np.flatnonzero(known >= 0)
            values = np.broadcast_to(np.asarray(factor, float), known.shape)[requests]
            shape = self._requests, TIMES * self._count
            return sparse.csr_matrix((values, (requests, TIMES * known[requests] + kind)), shape)

        if name == "arrival":
            return some(self._came, COMES)
        if name == "admitted":
            return some(self._admitted, CLOCK)
        if name == "first_token":
            following = np.concatenate([self._following(), [-1]])
            alone = np.where(self._accepted >= 0, -1, following[self._produced])
            return some(self._accepted, READY) + some(alone, BEGINS)
        # What ends after a number of steps ends earlier by those that the clock has gained since it began.
        pace = np.asarray(self._records.pace)[self._over]
        since = np.where(self._over >= 0, self._complete, -1)
        return some(self._over, CLOCK) - some(self._over, AHEAD, pace) + some(since, AHEAD, pace)

    def backwards(self, of_requests: dict[str, np.ndarray], of_steps: np.ndarray) -> Durations:
        """Derivatives by durations of what has these derivatives by times.

        Args:
          of_requests: by times of requests, of the names in `FIELDS`, shape [metrics, requests].
          of_steps: by durations of steps, in the order of `steps`, shape [metrics, steps].
        """
        nodes = sum(self._of_requests[name].T @ np.asarray(slopes).T for name, slopes in of_requests.items())
        causes = self._factored.solve(np.ascontiguousarray(nodes), trans="T")
        found = (self._lasting.T @ causes).T
        # Requests were sent before they came.
        found[:, self._delay] -= np.sum(of_requests["arrival"], axis=1)
        steps, delay = len(self.steps), self._delay
        return Durations(found[:, :steps] + of_steps, found[:, steps:delay], found[:, delay], found[:, delay + 1])


def _same(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.abs(np.asarray(one) - other) <= SAME * np.maximum(np.abs(other), 1.0)

"""Agenda of deliveries: when every request comes to a router next, and which one is first."""

import math
from typing import NamedTuple

from jaxroof.numerics.arrays import entry, jax, jnp
from jaxroof.numerics.struct import Array
from jaxroof.scheduler.service.packing import apart
from jaxroof.scheduler.state import Clock, plus, whole


class Agenda(NamedTuple):
    """Times of deliveries: of every request the next one, or the last that it had."""

    due: Clock  # shape [requests]
    times: Array  # s in rows, infinite where none is due, shape [rows, width]
    least: Array  # s, the least of every row, shape [rows]

    def first(self) -> tuple[Array, Array]:
        """The request that is delivered first, of those at the same time the one with the lowest number; its time."""
        row = jnp.argmin(self.least)
        column = jnp.argmin(self.times[row])
        request = (row * self.times.shape[1] + column).astype(jnp.int32)
        return jnp.minimum(request, self.due.high.shape[0] - 1), jnp.min(self.least)

    def at(self, request: Array) -> Clock:
        """Time of a request's delivery, the last one if it has been."""
        return apart(lambda: Clock(*(entry(part, request) for part in self.due)), request >= 0)

    def planned(self, request: Array, time: Clock, happens: Array) -> "Agenda":
        """The agenda with a delivery of this request at `time`, if it `happens`."""
        place = jnp.where(happens, request, self.due.high.shape[0])
        due = Clock(*(part.at[place].set(new, mode="drop") for part, new in zip(self.due, time, strict=True)))
        return self._replace(due=due)._written(request, time.high, happens)

    def done(self, request: Array) -> "Agenda":
        """The agenda after a request's delivery."""
        return self._written(request, jnp.asarray(jnp.inf), jnp.asarray(True))

    def _written(self, request: Array, time: Array, happens: Array) -> "Agenda":
        width = self.times.shape[1]
        row, column = request // width, jnp.mod(request, width)
        here = (jnp.arange(width, dtype=jnp.int32) == column) & happens
        times = jnp.where(here, jax.lax.stop_gradient(time), self.times[row])
        return self._replace(times=self.times.at[row].set(times), least=self.least.at[row].set(jnp.min(times)))


def agenda(due: Array) -> Agenda:
    """The agenda of requests that are due at these s, infinite: not yet, shape [requests]."""
    count = due.shape[0]
    width = max(math.isqrt(max(count - 1, 0)) + 1, 1)
    rows = -(-count // width)
    times = jnp.full(rows * width, jnp.inf).at[:count].set(jax.lax.stop_gradient(due)).reshape(rows, width)
    return Agenda(Clock(due, jnp.zeros_like(due)), times, jnp.min(times, axis=1))


class Turns(NamedTuple):
    """Requests that are sent when others are answered, shapes [requests]; int32, -1: none."""

    follower: Array  # the first request that waits for its answer
    sibling: Array  # the next one that waits for the same answer
    pause: Array  # s between that answer and this request


def followed(agenda: Agenda, turns: Turns | None, most: int, request: Array, time: Clock, happens: Array) -> Agenda:
    """The agenda after a request was answered: those that waited for it, `most` at most, are sent after pauses."""
    if turns is None:
        return agenda
    child = entry(turns.follower, request)
    for _ in range(most):
        sends = happens & (child >= 0)
        inside = jnp.maximum(child, 0)
        then = plus(time, entry(turns.pause, inside))
        agenda = agenda.planned(inside, then, sends)
        child = jnp.where(sends, entry(turns.sibling, inside), -1)
    return agenda


class Clients(NamedTuple):
    """A closed loop: who has all answers of a conversation begins the next one that nobody has begun."""

    opens: Array  # first requests of conversations, in their order, shape [requests]
    closes: Array  # bool: whether a request is the last of its conversation, shape [requests]
    conversations: Array  # number of them
    begun: Array  # of them
    think: Array  # s between the end of one and the next


def begun_by(
    agenda: Agenda, clients: Clients | None, request: Array, time: Clock, happens: Array
) -> tuple[Agenda, Clients | None]:
    """The agenda after a request was answered that is the last of its conversation, and the clients' state."""
    if clients is None:
        return agenda, None
    ends = happens & entry(clients.closes, request)
    more = ends & (clients.begun < clients.conversations)
    opened = entry(clients.opens, jnp.minimum(clients.begun, clients.opens.shape[0] - 1))
    agenda = agenda.planned(opened, plus(time, clients.think), more)
    return agenda, clients._replace(begun=clients.begun + whole(more))

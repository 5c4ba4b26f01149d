"""Fixed shapes of a simulated service: services that have one room share a compiled program."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxroof.batch import Policy, Traffic
from jaxroof.scheduler import Size
from jaxroof.scheduler.service.service import Shape
from sweeps.run.simulated.routes import Routes
from sweeps.run.simulated.simulation import size_for

FEW = 20_000
"""Requests to engines of 64 slots that end before their program would be optimised: 1 to 3 s, and 60 us for each."""

TOGETHER = 32
"""Decode steps with drafts that an iteration makes at most."""

PIECE = 0.5
"""Iterations per request between two looks at how far a service is: what is left of the last piece is idle."""

LONGEST_PIECE = 200_000
"""Iterations between two looks at how far a service is, at most: of each the record takes some 100 B."""


class Room(NamedTuple):
    """Room for a service, or for the largest of several."""

    shape: Shape
    size: Size  # of every engine; of its steps are prices
    requests: int
    short: bool  # whether all that is simulated in it ends before its program would be optimised


def room_of(traffic: Traffic, policy: Policy, engines: int, pools: bool, routes: Routes) -> Room:
    """The room of one service that is simulated once.

    Args:
      policy: of all its engines, or leaves of shape [kinds].
      engines: number of them.
    """
    requests, size = len(traffic.isl), size_for(traffic, policy)
    if routes.scaling is None or engines == 1:
        # Beside them stand some without a cache, which get no requests: services of like size share a program, and of
        # one engine alone XLA makes no kernel.
        engines = max(1 << (engines - 1).bit_length(), 2) if engines <= 16 else -(-engines // 16) * 16
    nodes = _nodes(traffic) if np.any(policy.prefix_caching) else 0
    shape = Shape(
        engines=engines,
        slots=size.slots,
        iterations=min(max(int(PIECE * (requests + _evaluations(routes, traffic))), 256), LONGEST_PIECE),
        block=size.block,
        nodes=nodes,
        turns=_most_followers(traffic),
        pools=pools,
        together=TOGETHER,
        tiers=routes.tiers.capacity.shape[1] if nodes and routes.tiers is not None else 0,
    )
    return Room(shape, size, requests, _weight(requests, size) <= FEW)


def common_room(rooms: Sequence[Room], times: int) -> Room:
    """Room for every one of some services with pools, each simulated so many times: of all dimensions the largest."""

    def largest(parts: Sequence[Any]) -> Any:
        names = [field.name for field in dataclasses.fields(parts[0])]
        return dataclasses.replace(parts[0], **{name: max(getattr(part, name) for part in parts) for name in names})

    shape, size = largest([room.shape for room in rooms]), largest([room.size for room in rooms])
    requests = max(room.requests for room in rooms)
    work = times * sum(_weight(room.requests, size) for room in rooms)
    return Room(shape, size, requests, work <= FEW)


def _weight(requests: int, size: Size) -> float:
    """Requests to engines of 64 slots that take as long."""
    return requests * max(size.slots / 64, 1.0)


def _evaluations(routes: Routes, traffic: Traffic) -> int:
    """Evaluations of the rule for replicas until the last request comes that is known; some after it."""
    if routes.scaling is None:
        return 0
    times = np.asarray(traffic.arrival)[np.isfinite(traffic.arrival)]
    return int(1.25 * np.max(times, initial=0.0) / float(routes.scaling.every))


def _nodes(traffic: Traffic) -> int:
    """Nodes of the requests' prefix tree, rounded up so that like ones share a program; 0: they share nothing."""
    known = traffic.group if traffic.path is None else traffic.path
    if known is None:
        return 0
    return -(-int(np.max(known) + 1) // 16) * 16


def _most_followers(traffic: Traffic) -> int:
    """Requests that wait for the same answer, at most."""
    if traffic.after is None:
        return 0
    after = np.asarray(traffic.after)
    waits = after[after >= 0].astype(np.int64)
    return int(np.max(np.bincount(waits))) if len(waits) else 0

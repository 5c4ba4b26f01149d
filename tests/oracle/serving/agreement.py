"""Agreement of both simulators of services, mechanism by mechanism: `python -m tests.oracle.serving.agreement`."""

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from sweeps.run.precision import precision
from tests.jaxroof.test_service import ENGINES, difference, simulated
from tests.oracle.serving.random_services import case
from tests.oracle.serving.routers import ROUTERS
from tests.oracle.serving.service import Service, ServiceOutcome, serve_service
from tests.oracle.serving.tiers import EVICTIONS

OF_ALL = ((0, 0, False, 0), (1, 0, False, 0), (0, 4, False, 0), (1, 4, False, 0), (0, 4, True, 0), (1, 4, True, 2))
MIXTURES = [(pools, *mixture) for mixture in OF_ALL for pools in (False, True)]
"""Pools or none; tiers or none, three without pools and two with them; tokens that are drafted at most; whether they
have tables, lengths and look-ups; workers that encode alone."""


class Compared(NamedTuple):
    """One service in both simulators."""

    service: Service
    outcome: ServiceOutcome
    difference: float  # the largest relative one of a time; infinite: a request is served otherwise


MECHANISMS: dict[str, Callable[[Compared], bool]] = {
    **{f"router {name}": lambda each, name=name: each.service.router == name for name in ROUTERS},
    "requests wait for answers": lambda each: any(request >= 0 for request in each.service.requests.after),
    "prefix tree": lambda each: any(nodes[0] >= 0 for nodes in each.service.requests.nodes),
    "prefix tree of several levels": lambda each: any(max(nodes[1:], default=-1) >= 0 for nodes in _paths(each)),
    "cached prefixes are evicted": lambda each: each.outcome.counts["evicted"] > 0,
    **{
        f"queue {name}": lambda each, name=name: any(engine.policy.queue == name for engine in each.service.engines)
        for name in ("fcfs", "shortest_first", "priority")
    },
    "sequences are preempted": lambda each: each.outcome.counts["preempted"] > 0,
    "sequences are swapped": lambda each: each.outcome.counts["swapped_in"] > 0,
    "requests are refused": lambda each: each.outcome.counts["refused"] > 0,
    "requests are rejected": lambda each: each.outcome.counts["rejected"] > 0,
    "prompts are handed over": lambda each: each.outcome.counts["handed_over"] > 0,
    "blocks are loaded from tiers": lambda each: each.outcome.counts["loaded"] > 0,
    **{
        f"tiers evict by {name}": lambda each, name=name: (
            each.outcome.counts["tier_evicted"] > 0
            and any(level.eviction == name for engine in each.service.engines for level in engine.tiers)
        )
        for name in EVICTIONS
    },
    "drafted tokens are right": lambda each: each.outcome.counts["right"] > 0,
    "right by a table of acceptance": lambda each: _drafts(each, lambda own: own.table is not None),
    "right by lengths of the batch": lambda each: _drafts(each, lambda own: len({n for _, n in own.lengths}) > 1),
    "right of look-ups": lambda each: _drafts(each, lambda own: own.match < 1.0),
    "images are encoded elsewhere": lambda each: each.outcome.counts["encoded"] > 0,
}
"""Mechanisms, and whether one is at work in a service."""


def _paths(each: Compared) -> list[list[int]]:
    return list(each.service.requests.nodes)


def _drafts(each: Compared, holds: Callable[[Any], bool]) -> bool:
    """Whether drafts are right in an engine of which this holds."""
    pairs = zip(each.service.engines, each.outcome.engine_counts, strict=True)
    return any(counts["right"] > 0 and holds(server.drafts) for server, counts in pairs)


def compared(number: int, pools: bool, tiers: int, drafts: int, ways: bool, encoders: int) -> Iterator[Compared]:
    """Services of one mixture in both simulators."""
    words = {"pools": pools, "tiers": tiers, "drafts": drafts, "ways": ways, "encoders": encoders}
    services = [case(seed, engines=ENGINES, **words) for seed in range(number)]
    for seed, (service, found) in enumerate(zip(services, simulated(services, pools, tiers), strict=True)):
        label = f"case {seed}, {', '.join(f'{name} {value}' for name, value in words.items())}"
        try:
            far = difference(service, found, label)
        except AssertionError as error:
            print(f"{label}: {error}", file=sys.stderr, flush=True)
            far = math.inf
        yield Compared(service, serve_service(service), far)


def main() -> None:
    """A line for every mixture, then one for every mechanism: services, and the largest relative difference of a time.

    Where a request has another engine, status, number of preemptions or of cached tokens, what differs is written to
    stderr, the difference is infinite, and the exit status is 1.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.serving.agreement", description=__doc__)
    parser.add_argument("-n", type=int, default=200, help="random services of every mixture (default 200)")
    number = parser.parse_args().n
    everything: list[Compared] = []
    print(f"{'mixture':56} services  largest difference")
    with precision("float64"):
        for pools, tiered, drafts, ways, encoders in MIXTURES:
            tiers = tiered * (2 if pools else 3)
            found = list(compared(number, pools, tiers, drafts, ways, encoders))
            everything += found
            more = f" in all ways, {encoders} encoders" if ways else ""
            _print(f"{'pools' if pools else 'no pools'}, {tiers} tiers, up to {drafts} drafts{more}", found)
    print(f"\n{'mechanism':56} services  largest difference")
    for name, works in MECHANISMS.items():
        _print(name, [each for each in everything if works(each)])
    _print("all", everything)
    raise SystemExit(any(each.difference == math.inf for each in everything))


def _print(name: str, found: list[Compared]) -> None:
    print(
        f"{name:56} {len(found):8} {max((each.difference for each in found), default=float('nan')):19.1e}", flush=True
    )


if __name__ == "__main__":
    main()

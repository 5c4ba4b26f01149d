"""Time of collectives over tiers of links: every algorithm that could run, and the cheapest."""

from jaxroof.collectives.algorithms import UNAVAILABLE
from jaxroof.collectives.choice import ALGORITHMS, LIBRARIES, collective_algorithm, collective_time, collective_times

__all__ = [
    "ALGORITHMS",
    "LIBRARIES",
    "UNAVAILABLE",
    "collective_algorithm",
    "collective_time",
    "collective_times",
]

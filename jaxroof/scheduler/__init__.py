"""A serving engine over time: continuous batching as fixed-shape iterations of one compiled loop."""

from jaxroof.scheduler.outcomes import served
from jaxroof.scheduler.simulate import Size, begin, cache_blocks, front_delay, proceed, remaining, simulate

__all__ = ["Size", "begin", "cache_blocks", "front_delay", "proceed", "remaining", "served", "simulate"]

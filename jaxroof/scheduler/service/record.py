"""Record of one iteration of a service, and of what its steps were priced for."""

from typing import NamedTuple

from jaxroof.numerics.struct import Array
from jaxroof.scheduler.advance import Work


class Happening(NamedTuple):
    """Record of one iteration; ids are -1 where there was none."""

    high: Array  # the engine's clock, s
    low: Array
    came: Array  # s at which `delivered` came
    ready: Array  # s at which the cache of `accepted` has arrived
    pace: Array  # s of one of its last steps
    ahead: Array  # as of `State`
    engine: Array  # whose instant it is
    began: Array  # bool: it is the first iteration of the instant
    steps: Array  # that the engine has made before it
    decoding: Array  # sequences in them
    prompt: Array  # tokens in them
    blocks: Array  # in use
    running: Array
    ended: Array  # request that was answered
    handed: Array  # request whose prompt is complete and that goes on elsewhere
    admitted: Array  # request that got its first work, with `hit` tokens of its prompt in the cache
    hit: Array
    produced: Array  # request whose prompt is complete with the coming step
    preempted: Array
    accepted: Array  # request that has found room for its cache
    delivered: Array  # request that came, to engine `to`
    to: Array
    refused: Array  # bool: it is too long
    rejected: Array  # bool: the queue was full, or its first token would come too late
    loaded: tuple[Array, ...]  # tokens of `hit` that come from every tier
    right: Array | None = None  # drafts in `steps` that were right; None: nothing is drafted
    replicas: Array | None = None  # that are on after an evaluation, -1: there was none; None: all are
    encoded: Array | None = None  # request that came to a worker which encodes alone, at `came`; None: there are none
    trace: "Trace | None" = None  # None: `Shape.traced` is not set


class Trace(NamedTuple):
    """What a derivative of an iteration's times needs beside them."""

    work: Work  # of its next steps
    swapped: Array  # s for which cache moves to or from host memory before them
    loading: Array  # s of cache from tiers for them
    fresh: Array  # bool: no prompt had work yet at this instant
    joined: Array  # request whose cache has arrived and that decodes from here on; -1: none


FLOATS = 6
"""The first fields of `Happening` are floats, those after them whole numbers."""

OTHERS = 5
"""The last fields, which are no numbers, or not always there."""

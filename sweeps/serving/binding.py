"""Limit on the requests that a simulated engine runs at once: the KV cache, or the policy's sequences."""

import dataclasses
import math

import numpy as np

from sweeps.serving.run import Simulation, waiting

WORDS = {"kv_cache": "KV cache", "max_sequences": "max_sequences"}
"""Resource -> its name in a sentence."""


@dataclasses.dataclass(frozen=True)
class Binding:
    """The resource that binds, and how many of the requests that are there it lets run."""

    resource: str  # a key of WORDS
    running: int  # requests that ran at once
    wanted: int  # requests that were there at once
    preemptions: int

    @property
    def text(self) -> str:
        """The sentence: "KV cache binds: 5 of 16 requests run at once"."""
        more = f", and {self.preemptions:,} lost their cache" if self.preemptions else ""
        return f"{WORDS[self.resource]} binds: {self.running:,} of {self.wanted:,} requests run at once{more}"


def binding(found: Simulation) -> Binding | None:
    """The resource that keeps requests waiting; None where all that were there ran at once.

    The cache binds where it was too full for another request of mean length while some waited, or where running
    requests lost theirs; the policy where so many sequences ran as it allows. Requests that wait for their turn in a
    step are kept by neither.
    """
    line, policy, stream = found.timeline, found.policy, found.replica.stream
    if not len(line.end):
        return None
    there = line.running + waiting(found)
    most, wanted = int(np.max(line.running)), int(np.max(there))
    preemptions = int(found.metrics["preemptions"])
    if preemptions:
        usual = float(np.average(line.running, weights=line.duration))
        return Binding("kv_cache", max(min(round(usual), wanted), 1), max(wanted, most), preemptions)
    if most >= wanted:
        return None
    if most >= float(policy.max_sequences):
        return Binding("max_sequences", most, wanted, 0)
    tokens = np.mean(stream.isl) + (np.mean(stream.osl) if policy.reserve else 1.0)
    needed = math.ceil(tokens / float(policy.block_size))
    full = np.max(line.blocks) + needed > found.blocks * (1.0 - float(policy.watermark))
    return Binding("kv_cache", most, wanted, 0) if full else None

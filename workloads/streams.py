"""Request streams: when requests arrive, how long they are, and which of them begin alike."""

import dataclasses

import numpy as np

ALONE = -1
"""Group of a request whose prompt begins like no other's."""


@dataclasses.dataclass(frozen=True, eq=False)
class Stream:
    """Requests in the order of their arrival. Arrays of shape [requests].

    Requests of one group begin alike: `shared` tokens of a request's prompt are the beginning of what an earlier
    request of its group had as prompt and output, so a prefix cache can have them. A system prompt is a group whose
    members all share its length; the turns of a conversation are a group whose `shared` grows.
    """

    name: str
    arrival: np.ndarray  # s, non-decreasing, first one 0 or later, float64
    isl: np.ndarray  # prompt tokens, at least 1, float64
    osl: np.ndarray  # output tokens, at least 1, float64
    group: np.ndarray  # int32, 0 .. groups - 1 in the order of first appearance, or ALONE
    shared: np.ndarray  # prompt tokens that an earlier request of the group began with, 0 .. isl, float64
    source: str  # file, or the words that describe the distributions and their seed
    notes: tuple[str, ...] = ()  # what was left out or assumed

    def __len__(self) -> int:
        return len(self.arrival)

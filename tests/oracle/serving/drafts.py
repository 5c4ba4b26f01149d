"""Drafted tokens of the plain simulator: how many a sequence keeps in a step, and the cache that it needs for them."""

import bisect
import math
from typing import NamedTuple

MATCH = 0x27D4EB2F
"""What the seed of the number for a look-up is larger by."""


class Table(NamedTuple):
    """Acceptance that was measured at some batches and contexts."""

    sequences: list[float]
    contexts: list[float]
    right: list[list[list[float]]]  # by sequences, context and position

    def chances(self, sequences: int, context: int) -> list[float]:
        """Of every position, linear between the four measurements around it."""
        i, down = _around(self.sequences, sequences)
        j, along = _around(self.contexts, context)
        corners = [
            [self.right[min(i + up, len(self.sequences) - 1)][min(j + on, len(self.contexts) - 1)] for on in (0, 1)]
            for up in (0, 1)
        ]
        rows = [[(1 - down) * a + down * b for a, b in zip(*pair, strict=True)] for pair in zip(*corners, strict=True)]
        return [(1 - along) * a + along * b for a, b in zip(*rows, strict=True)]


def _around(nodes: list[float], place: float) -> tuple[int, float]:
    """The node at or below a place, the first at least, and the share of the way to the next."""
    i = max(bisect.bisect_right(nodes, place) - 1, 0)
    if i == len(nodes) - 1 or place <= nodes[0]:
        return i, 0.0
    return i, (place - nodes[i]) / (nodes[i + 1] - nodes[i])


class Drafts(NamedTuple):
    """What an engine drafts."""

    tokens: int  # per sequence and step
    acceptance: tuple[float, ...]  # of every position, given that those before it are right
    limit: float = math.inf  # decoding sequences beyond which nothing is drafted
    seed: int = 0
    table: Table | None = None  # in place of `acceptance`
    lengths: tuple[tuple[float, int], ...] = ()  # sequences from which on so many are drafted, in place of `tokens`
    match: float = 1.0  # probability that there are drafts for a sequence

    def made(self, sequences: int) -> int:
        """Tokens drafted per sequence in a step in which so many decode."""
        if sequences > self.limit:
            return 0
        if not self.lengths:
            return self.tokens
        return max(((start, tokens) for start, tokens in self.lengths if start <= sequences), default=(0, 0))[1]

    def found(self, request: int, produced: int) -> bool:
        """Whether there are any for a request after its first `produced` tokens."""
        return self.match >= 1.0 or uniform(self.seed + MATCH, request, produced) < self.match

    def right(self, drafted: int, request: int, produced: int, sequences: int, context: int) -> int:
        """Of `drafted` tokens those that are right, after a request's first `produced` tokens.

        Args:
          sequences: that decode.
          context: tokens of this one, with the new one.
        """
        number, reached, right = uniform(self.seed, request, produced), 1.0, 0
        chances = self.acceptance if self.table is None else self.table.chances(sequences, context)
        for chance in chances[:drafted]:
            reached *= chance
            right += number < reached
        return right


def uniform(seed: int, request: int, produced: int) -> float:
    """A number in [0, 1) that looks random."""
    of_request = mixed(seed + 0x9E3779B9 * (request + 1))
    return (mixed(of_request + 0x9E3779B9 * produced) >> 8) / 2**24


def mixed(key: int) -> int:
    """A number of 32 bits that looks random: the end of MurmurHash3."""
    key %= 2**32
    key = (key ^ key >> 16) * 0x85EBCA6B % 2**32
    key = (key ^ key >> 13) * 0xC2B2AE35 % 2**32
    return key ^ key >> 16

"""Drafted tokens of the plain simulator: how many a sequence keeps in a step, and the cache that it needs for them."""

import math
from typing import NamedTuple


class Drafts(NamedTuple):
    """What an engine drafts."""

    tokens: int  # per sequence and step
    acceptance: tuple[float, ...]  # of every position, given that those before it are right
    limit: float = math.inf  # decoding sequences beyond which nothing is drafted
    seed: int = 0

    def made(self, sequences: int) -> int:
        """Tokens drafted per sequence in a step in which so many decode."""
        return self.tokens if sequences <= self.limit else 0

    def right(self, drafted: int, request: int, produced: int) -> int:
        """Of `drafted` tokens those that are right, after a request's first `produced` tokens."""
        number, reached, right = uniform(self.seed, request, produced), 1.0, 0
        for chance in self.acceptance[:drafted]:
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

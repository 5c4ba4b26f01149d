"""Prompts with a common beginning: system prompts of many requests, and conversations of several turns."""

import dataclasses
import re

import numpy as np

from workloads.kinds import Range, nearest, number
from workloads.lengths import Lengths, parse_lengths
from workloads.stream import ALONE, MOST_REQUESTS, numbered

_GROUPS = Range(1, 1_000_000, whole=True)
_EXPONENT = Range(0, 10)
_THINK = Range(0, 1e7)

MOST_TURNS = 10_000
"""Turns of one conversation."""


@dataclasses.dataclass(frozen=True)
class Prefixes:
    """System prompts: `groups` texts before prompts, the k-th most popular with probability ~ k^-zipf."""

    groups: int
    tokens: Lengths  # of each text, drawn once; they come before a request's own prompt, and lengthen it
    zipf: float = 0.0  # 0: all alike

    @property
    def text(self) -> str:
        """The words for it, which `parse_prefixes` reads where `tokens` is a number or a range."""
        return f"groups={self.groups},tokens={self.tokens.text},zipf={self.zipf:.12g}"

    def drawn(self, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Group and tokens of the text before each of `count` prompts. int64 and float64, shape [count] each."""
        weight = np.cumsum(np.arange(1.0, self.groups + 1.0) ** -self.zipf)
        lengths = self.tokens.drawn(rng, self.groups)
        group = np.searchsorted(weight, rng.random(count) * weight[-1], side="right").clip(max=self.groups - 1)
        return group, lengths[group]


@dataclasses.dataclass(frozen=True)
class Sessions:
    """Conversations: every turn's prompt is all that was said before, with that turn's new tokens after it.

    The next turn arrives an exponential time of mean `think` after the turn before it arrived: how long the answer
    takes is not known here, so `think` has to include it.
    """

    turns: Lengths  # requests of a conversation
    think: float  # s between arrivals of turns, mean

    @property
    def text(self) -> str:
        """The words for it, which `parse_sessions` reads where `turns` is a number or a range."""
        return f"turns={self.turns.text},think={self.think:.12g}"


def parse_prefixes(text: "str | Prefixes | None") -> Prefixes | None:
    """System prompts from "groups=10,tokens=1000,zipf=1"; tokens may be a range, 500..2000. None stays None."""
    if text is None or isinstance(text, Prefixes):
        return text
    words = _words(text, ("groups", "tokens"), {"zipf": "0"}, "groups=10,tokens=1000,zipf=1")
    groups = number(words["groups"], "groups", _GROUPS, text)
    return Prefixes(int(groups), parse_lengths(words["tokens"]), number(words["zipf"], "zipf", _EXPONENT, text))


def parse_sessions(text: "str | Sessions | None") -> Sessions | None:
    """Conversations from "turns=4,think=30"; turns may be a range, 2..8. None stays None."""
    if text is None or isinstance(text, Sessions):
        return text
    words = _words(text, ("turns", "think"), {}, "turns=2..8,think=30")
    turns = parse_lengths(words["turns"])
    if max(turns.values.values()) > MOST_TURNS:
        raise ValueError(f"{text!r}: turns is {words['turns']}; a conversation has at most {MOST_TURNS}")
    return Sessions(turns, number(words["think"], "think", _THINK, text))


def shared_prefixes(key: np.ndarray, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`group` and `shared` of requests whose prompts begin with the text of their key.

    Args:
      key: which text, in the order of arrival, negative for none; shape [requests].
      tokens: how long it is; shape [requests].

    Returns:
      As of a `Stream`: the first request with a text shares nothing. Shape [requests] each.
    """
    group = numbered(key)
    _, first = np.unique(group, return_index=True)
    shared = np.where(group == ALONE, 0.0, tokens)
    shared[first] = 0.0
    return group, shared


def turns_of(
    sessions: Sessions, rng: np.random.Generator, starts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arrival in s, conversation and index of the turn of every turn of conversations that start at `starts`.

    Sorted by conversation, then turn; shape [turns] each. ValueError where they are too many.
    """
    counts = sessions.turns.drawn(rng, len(starts)).astype(np.int64)
    if counts.sum() > MOST_REQUESTS:
        raise ValueError(f"{len(starts)} conversations have {counts.sum()} turns; at most {MOST_REQUESTS} are allowed")
    session = np.repeat(np.arange(len(starts)), counts)
    turn = np.arange(len(session)) - np.repeat(np.cumsum(counts) - counts, counts)
    gaps = rng.exponential(sessions.think, size=len(session)) if sessions.think else np.zeros(len(session))
    passed = np.cumsum(np.where(turn == 0, 0.0, gaps))
    arrival = starts[session] + passed - passed[np.cumsum(counts) - counts][session]
    return arrival, session, turn


def accumulated(session: np.ndarray, turn: np.ndarray, new: np.ndarray, osl: np.ndarray) -> np.ndarray:
    """Tokens that were said in a conversation before each turn's new ones; 0 for a first turn. Shape [turns].

    Args:
      session, turn: as of `turns_of`, in its order.
      new: tokens that a turn adds to its prompt.
      osl: tokens of its answer.
    """
    said = np.cumsum(new + osl) - (new + osl)
    return said - said[turn == 0][session]


def _words(text: str, needed: tuple[str, ...], defaults: dict[str, str], example: str) -> dict[str, str]:
    known, words = (*needed, *defaults), {}
    for item in re.sub(r"\s+", "", text).lower().split(","):
        key, equals, value = item.partition("=")
        if not equals or not value:
            raise ValueError(f"{text!r}: {item!r} is not NAME=VALUE; such as {example}")
        if key not in known:
            raise ValueError(f"{text!r}: {key!r} is not known{nearest(key, known)}")
        if key in words:
            raise ValueError(f"{text!r}: {key} is given twice")
        words[key] = value
    missing = [key for key in needed if key not in words]
    if missing:
        raise ValueError(f"{text!r}: {missing[0]} is missing; such as {example}")
    return {**defaults, **words}

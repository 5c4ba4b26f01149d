"""Conversations and agents: turns, tool calls and sub-agents, in words and drawn with a seed."""

import dataclasses
from typing import NamedTuple

import numpy as np

from jaxroof.numerics.struct import given
from workloads.streams.kinds import Range, number, words_of
from workloads.streams.lengths import KINDS, RANGES, Lengths, parse_lengths
from workloads.streams.stream import LARGEST_TOKENS, MOST_REQUESTS, NONE

MOST_TURNS = 10_000
"""Turns of one conversation."""

TOOL_TIME = "lognormal:p50=0.3,p90=13.6,max=600"
"""s that a tool takes where nobody says. The maximum is ours."""

TOOL_TOKENS = "lognormal:p50=800,p90=4000"
"""Tokens that a tool's output adds to the prompt where nobody says."""

BRANCH_TURNS = "1..3"
"""Requests of a sub-agent where nobody says; ours."""

AGENT_THINK = 120.0
"""s from an answer to the user's next turn, mean, where there are tools and nobody says."""

# Source: TraceLab (Zhu et al., arXiv:2606.30560; github.com/uw-syfi/TraceLab, artifacts/), 357,161 requests of coding
# agents. Tools: p50 0.3 s, p90 13.6 s. New tokens of a request that has 32 thousand or more before them: p50 710 to
# 954, p90 3,100 to 8,300. Waits for the user: p50 1.4 min, as of an exponential distribution of mean 121 s.

_NEEDED = ("turns", "think")
_OPTIONAL = ("wait", "tools", "tool_time", "tool_tokens", "branches", "branch_turns")
_EXAMPLE = "turns=2..8,think=30"
_THINK = Range(0, 1e7)
_SECONDS = dict.fromkeys(("tokens", "std"), Range(0, 1e4)) | dict.fromkeys(
    ("low", "high", "mean", "p50", "p90", "p95", "p99", "max"), Range(1e-3, 1e4)
)
_TIMES = {key: KINDS[key] for key in ("fixed", "uniform", "normal", "lognormal", "pareto")}


@dataclasses.dataclass(frozen=True)
class Times:
    """A distribution of times in s, to the millisecond."""

    of: Lengths  # its words, with s in place of tokens

    @property
    def text(self) -> str:
        """The words for it, which `parse_times` reads."""
        return self.of.text

    def drawn(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """`count` times in s. float64, shape [count]."""
        # Drawn as whole milliseconds: a length of tokens is whole.
        scaled = {key: 1e3 * value if key in _SECONDS else value for key, value in self.of.values.items()}
        return 1e-3 * Lengths(self.of.kind, scaled).drawn(rng, count)


@dataclasses.dataclass(frozen=True)
class Sessions:
    """Conversations: every turn's prompt is all that was said before, with that turn's new tokens after it.

    turns         turns of the user
    think         s from an answer to the next turn, mean of an exponential distribution
    wait          whether a turn waits for the answer before it. Otherwise it comes `think` after the turn before it
                  arrived, whatever its answer takes, so that `think` has to include that. By default requests wait
                  where there are tools or branches
    tools         tool calls of a turn: each one is a further request, `tool_time` after the answer before it, whose
                  prompt has the tool's output, `tool_tokens`, too
    branches      sub-agents that a turn starts with its first answer: each begins with the conversation so far and a
                  new prompt, and goes on alone for `branch_turns` requests, each but the first with a tool's output
    """

    turns: Lengths
    think: float
    wait: bool | None = None  # None: as tools and branches say
    tools: Lengths | None = None
    tool_time: Times | None = None
    tool_tokens: Lengths | None = None
    branches: Lengths | None = None
    branch_turns: Lengths | None = None

    @property
    def waits(self) -> bool:
        """Whether requests wait for answers."""
        return self.wait if self.wait is not None else self.tools is not None or self.branches is not None

    @property
    def text(self) -> str:
        """The words for it, which `parse_sessions` reads."""
        words = [f"turns={self.turns.text}", f"think={self.think:.12g}"]
        words += [] if self.wait is None else [f"wait={int(self.wait)}"]
        for name in _OPTIONAL[1:]:
            value = getattr(self, name)
            words += [] if value is None else [f"{name}={value.text}"]
        return ",".join(words)


class Turns(NamedTuple):
    """Requests of conversations, thread by thread: first those with the users, then those of sub-agents.

    Arrays of shape [requests], or of [threads] where they say so.
    """

    arrival: np.ndarray  # s, by plan: as if answers took no time
    thread: np.ndarray  # a conversation with its user has its own number, sub-agents have those after
    first: np.ndarray  # bool: of its thread
    after: np.ndarray  # request whose answer it follows, a position in these arrays, or NONE
    pause: np.ndarray  # s between the two
    tool: np.ndarray  # bool: what is new in its prompt is a tool's output
    session: np.ndarray  # conversation of each thread, shape [threads]


def parse_times(text: str, name: str) -> Times:
    """The distribution of times in s that `text` describes: "2", "1..5", "lognormal:p50=0.3,p90=13.6".

    Raises:
      ValueError: one line that names the word and what is allowed.
    """
    try:
        return Times(parse_lengths(text, _TIMES, RANGES | _SECONDS))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def parse_sessions(text: "str | Sessions | None") -> Sessions | None:
    """Conversations from "turns=4,think=30"; turns may be a distribution, 2..8. None stays None.

    "turns=5,tools=0..3" are agents: what is not said of tools, sub-agents and users is as published traces have it.

    Raises:
      ValueError: one line that names the word, its value and what is allowed.
    """
    if text is None or isinstance(text, Sessions):
        return text
    words = words_of(text, (*_NEEDED, *_OPTIONAL), _EXAMPLE)
    agents = "tools" in words or "branches" in words
    for key in _NEEDED[: 1 if agents else 2]:
        if key not in words:
            raise ValueError(f"{text!r}: {key} is missing; such as {_EXAMPLE}")
    for key, of in (("tool_time", agents), ("tool_tokens", agents), ("branch_turns", "branches" in words)):
        if key in words and not of:
            raise ValueError(
                f"{text!r}: {key} cannot be given without {'tools' if key != 'branch_turns' else 'branches'}"
            )
    turns = _few(text, "turns", words["turns"], 1)
    think = number(words["think"], "think", _THINK, text) if "think" in words else AGENT_THINK
    wait = bool(number(words["wait"], "wait", Range(0, 1, whole=True), text)) if "wait" in words else None
    if not agents:
        return Sessions(turns, think, wait)
    branches = _few(text, "branches", words["branches"], 0) if "branches" in words else None
    return Sessions(
        turns,
        think,
        wait,
        _few(text, "tools", words["tools"], 0) if "tools" in words else None,
        parse_times(words.get("tool_time", TOOL_TIME), "tool_time"),
        _few(text, "tool_tokens", words.get("tool_tokens", TOOL_TOKENS), 1, LARGEST_TOKENS),
        branches,
        None if branches is None else _few(text, "branch_turns", words.get("branch_turns", BRANCH_TURNS), 1),
    )


def single(starts: np.ndarray) -> Turns:
    """Requests that are no conversations, and arrive at `starts`, in s."""
    places = np.arange(len(starts))
    alone, new = np.ones(len(starts), bool), np.zeros(len(starts), bool)
    return Turns(starts, places, alone, np.full(len(starts), NONE), np.zeros(len(starts)), new, places)


def turns_of(sessions: Sessions, rng: np.random.Generator, starts: np.ndarray) -> Turns:
    """Requests of conversations that start at `starts`, in s.

    Raises:
      ValueError: one line, where they are too many.
    """
    counts = sessions.turns.drawn(rng, len(starts)).astype(np.int64)
    turns = _few_enough(counts, len(starts))
    gaps = rng.exponential(sessions.think, size=turns) if sessions.think else np.zeros(turns)
    # A turn's requests: the user's, and one for every tool call.
    calls = np.zeros(turns, np.int64) if sessions.tools is None else sessions.tools.drawn(rng, turns).astype(np.int64)
    _few_enough(1 + calls, len(starts))
    session, turn = np.repeat(np.arange(len(starts)), counts), _within(counts)
    of_turn, step = np.repeat(np.arange(turns), 1 + calls), _within(1 + calls)
    thread, tool = session[of_turn], step > 0
    pause = gaps[of_turn]
    if sessions.tool_time is not None:
        pause = np.where(tool, sessions.tool_time.drawn(rng, len(pause)), pause)
    first = ~tool & (turn[of_turn] == 0)
    after = np.where(first, NONE, np.arange(len(first)) - 1)
    arrival, pause = _planned(starts, thread, first, pause)
    found = Turns(arrival, thread, first, after, pause, tool, np.arange(len(starts)))
    return found if sessions.branches is None else _with_branches(sessions, rng, found, np.flatnonzero(~tool))


def accumulated(turns: Turns, new: np.ndarray, osl: np.ndarray) -> np.ndarray:
    """Tokens that were said before each request's new ones; 0 for the first of a conversation. Shape [requests].

    Args:
      turns: the requests.
      new: tokens that a request adds to its prompt.
      osl: tokens of its answer.
    """
    said = np.cumsum(new + osl) - (new + osl)
    said = said - said[turns.first][turns.thread]
    # A sub-agent begins with all that was said when its turn was answered.
    begins = turns.after[turns.first]
    before = np.where(begins == NONE, 0.0, (said + new + osl)[begins])
    return said + before[turns.thread]


def whole_sessions(turns: Turns, requests: int) -> np.ndarray:
    """The first `requests` of all, conversation by conversation. Bool, shape [requests of all]."""
    session = turns.session[turns.thread]
    chosen = np.zeros(len(session), bool)
    # Within a conversation by plan, so that what a request waits for is among them.
    chosen[np.lexsort((np.arange(len(session)), turns.arrival, session))[:requests]] = True
    return chosen


def _with_branches(sessions: Sessions, rng: np.random.Generator, turns: Turns, users: np.ndarray) -> Turns:
    """The requests with those of sub-agents after them.

    Args:
      sessions: with branches.
      rng: the generator.
      turns: requests of the conversations with their users.
      users: which of them are the first of a turn.
    """
    started = given(sessions.branches, "branches of the conversations").drawn(rng, len(users)).astype(np.int64)
    _few_enough(started, len(turns.session))
    begins = np.repeat(users, started)
    lengths = given(sessions.branch_turns, "their lengths").drawn(rng, len(begins)).astype(np.int64)
    count = _few_enough(lengths, len(turns.session))
    branch, step = np.repeat(np.arange(len(begins)), lengths), _within(lengths)
    first, tool = step == 0, step > 0
    pause = np.zeros(count)
    if sessions.tool_time is not None:
        pause = np.where(tool, sessions.tool_time.drawn(rng, count), 0.0)
    arrival, pause = _planned(turns.arrival[begins], branch, first, pause)
    # Rounding must not put a sub-agent before the request that starts it.
    arrival = np.maximum(arrival, turns.arrival[begins][branch])
    after = np.where(first, begins[branch], len(turns.thread) + np.arange(count) - 1)
    more = Turns(
        arrival,
        branch + len(turns.session),
        first,
        after,
        pause,
        tool,
        turns.session[turns.thread[begins]],
    )
    return Turns(*(np.concatenate(pair) for pair in zip(turns, more, strict=True)))


def _planned(
    starts: np.ndarray, thread: np.ndarray, first: np.ndarray, pause: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Arrivals in s of the requests of threads that start at `starts`, and their pauses: 0 for the first of each."""
    pause = np.where(first, 0.0, pause)
    # One running sum over all threads, less its value where each of them starts.
    passed = np.cumsum(pause)
    return starts[thread] + passed - passed[first][thread], pause


def _within(counts: np.ndarray) -> np.ndarray:
    """Position of each one within its group, of groups of `counts` one after the other."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


def _few_enough(counts: np.ndarray, conversations: int) -> int:
    """Their sum; ValueError where there are too many requests."""
    total = int(counts.sum())
    if total > MOST_REQUESTS:
        raise ValueError(f"{conversations} conversations have {total} turns; at most {MOST_REQUESTS} are allowed")
    return total


def _few(text: str, name: str, words: str, least: int, most: int = MOST_TURNS) -> Lengths:
    """A distribution of whole numbers from `least` on: of turns, tool calls, sub-agents or tokens."""
    ranges = RANGES | dict.fromkeys(("tokens", "low", "high"), Range(least, LARGEST_TOKENS, whole=True))
    try:
        found = parse_lengths(words, KINDS, ranges)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if max(found.values.values()) > most:
        raise ValueError(f"{text!r}: {name} is {words}; it must be at most {most}")
    return found

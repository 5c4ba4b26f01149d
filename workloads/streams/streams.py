"""Request streams: made from distributions and a seed, scaled to a rate, or cut."""

import dataclasses
import math
from typing import Any

import numpy as np

from workloads.streams.arrivals import Arrivals, parse_arrivals
from workloads.streams.lengths import Lengths, Prefixes, parse_lengths, parse_prefixes, shared_prefixes
from workloads.streams.sessions import Sessions, Turns, accumulated, parse_sessions, single, turns_of, whole_sessions
from workloads.streams.stream import LARGEST_TOKENS, MOST_REQUESTS, NONE, Stream, numbered, part
from workloads.streams.tree import ALONE, branches


def generated(
    arrivals: str | float | Arrivals,
    isl: str | float | Lengths,
    osl: str | float | Lengths,
    *,
    requests: int | None = None,
    duration: float | None = None,
    prefixes: str | Prefixes | None = None,
    sessions: str | Sessions | None = None,
    seed: int = 0,
    name: str = "generated",
) -> Stream:
    """Requests drawn from distributions. The same arguments give the same stream.

    Args:
      arrivals: when requests arrive, or conversations start where there are `sessions`: "poisson:8".
      isl: prompt tokens: "1024", "lognormal:mean=1024,sigma=0.8". What a system prompt or the turns before add to a
        prompt comes on top.
      osl: output tokens.
      requests: how many, turns counted; None: as many as arrive within `duration`.
      duration: s; requests that arrive later are cut away. One of the two is needed, unless `arrivals` ends.
      prefixes: system prompts: "groups=10,tokens=1000,zipf=1".
      sessions: conversations: "turns=4,think=30", or agents: "turns=5,tools=0..3".
      seed: of NumPy's PCG64.
      name: of the stream.

    Raises:
      ValueError: one line that names the argument, its value and what is allowed.
    """
    arrivals, isl, osl = parse_arrivals(arrivals), _named("isl", isl), _named("osl", osl)
    prefixes, sessions = parse_prefixes(prefixes), parse_sessions(sessions)
    _check(requests, duration, seed)
    # One generator, in a fixed order of draws: arrivals, turns, lengths, system prompts.
    rng = np.random.Generator(np.random.PCG64(seed))

    # When requests arrive; of conversations, which one each belongs to and which request it follows.
    starts = arrivals.drawn(rng, requests, duration)
    turns = single(starts) if sessions is None else turns_of(sessions, rng, starts)
    count = len(turns.arrival)
    if not count:
        raise ValueError(f"{arrivals.text}: no request arrives within {duration:g} s")
    if count > MOST_REQUESTS:
        raise ValueError(f"{count} requests; at most {MOST_REQUESTS} are allowed")

    # A prompt is the system prompt, what was said before, and what is new: a user's words or a tool's output.
    new, outputs = isl.drawn(rng, count), osl.drawn(rng, count)
    text, tokens = np.full(len(starts), -1), np.zeros(len(starts))
    if prefixes is not None:
        text, tokens = prefixes.drawn(rng, len(starts))
    if sessions is not None and sessions.tool_tokens is not None:
        new = np.where(turns.tool, sessions.tool_tokens.drawn(rng, count), new)
    before = tokens[turns.session[turns.thread]] + accumulated(turns, new, outputs)
    if (before + new).max() > LARGEST_TOKENS:
        raise ValueError(f"a prompt grows to {(before + new).max():.0f} tokens; at most {LARGEST_TOKENS} are allowed")

    # In the order of arrival, without what is later than `duration` or beyond `requests`.
    order = np.argsort(turns.arrival, kind="stable")
    if duration is not None:
        order = order[turns.arrival[order] < duration]
    waits = sessions is not None and sessions.waits
    if waits and arrivals.kind == "once" and requests is not None:
        # All conversations are there from the start: as many of them as have that number of requests.
        order = order[whole_sessions(turns, requests)[order]]
    # As many conversations start as requests are wanted, so their turns are cut to that number.
    order = order[:requests]
    return Stream(
        name,
        turns.arrival[order],
        (before + new)[order],
        outputs[order],
        source=_source(arrivals, isl, osl, prefixes, sessions, requests, duration, seed),
        **_beginnings(turns, order, text, tokens, before, before + new + outputs),
        **(_waits(turns, order) if waits else {}),
    )


def _beginnings(
    turns: Turns, order: np.ndarray, text: np.ndarray, tokens: np.ndarray, before: np.ndarray, ends: np.ndarray
) -> dict[str, Any]:
    """Groups of requests, and what they share: a system prompt, and all that was said before.

    Args:
      turns: the requests.
      order: those of the stream, in its order.
      text, tokens: system prompt of each conversation, -1: none, and its length; shape [conversations].
      before: tokens of the prompt before what is new, of all requests.
      ends: tokens of prompt and output, likewise.
    """
    conversations, threads = len(text), len(turns.session)
    thread = turns.thread[order]
    key, length = text[turns.session[thread]], tokens[turns.session[thread]]
    # The first request of a conversation shares its system prompt, where another one came before; later ones share all.
    group, shared = shared_prefixes(key, length)
    shared = np.where(turns.first[order] & (turns.after[order] == NONE), shared, before[order])
    # Without a conversation of several requests system prompts are all, without these conversations are.
    if len(turns.thread) == conversations:
        return {"group": group, "shared": shared}
    if threads == conversations and (text < 0).all():
        return {"group": numbered(thread), "shared": shared}
    # Nodes are system prompts, the conversations below them, and sub-agents below these.
    texts = int(text.max()) + 1
    parent = np.concatenate([np.full(texts, -1), text, turns.session[conversations:] + texts])
    base = np.concatenate([np.zeros(texts), tokens, before[turns.first][conversations:]])
    found = branches(thread + texts, parent, base, shared, ends[order])
    columns = {"parent": found.parent, "base": found.base, "along": found.along}
    return {"group": found.group, "shared": found.shared, **columns}


def _waits(turns: Turns, order: np.ndarray) -> dict[str, Any]:
    """What requests wait for, by their places in `order`, and their pauses."""
    place = np.full(len(turns.thread) + 1, NONE, np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    after = place[turns.after[order]]
    return {"after": after, "pause": turns.pause[order]} if (after != NONE).any() else {}


def mean_rate(stream: Stream) -> float:
    """Requests per s between the first and the last arrival; infinite where all arrive at once, nan for one request."""
    if len(stream) < 2:
        return math.nan
    # n requests have n - 1 intervals between them.
    span = float(stream.arrival[-1] - stream.arrival[0])
    return (len(stream) - 1) / span if span > 0.0 else math.inf


def with_rate(stream: Stream, rate: float) -> Stream:
    """The stream with its times stretched or shrunk so that its mean rate is `rate` requests per s.

    Pauses between an answer and the request that waits for it stay: they are of users and tools.

    Raises:
      ValueError: one line: a rate that is no positive number, or a stream without a mean rate.
    """
    if not math.isfinite(rate) or rate <= 0.0:
        raise ValueError(f"rate is {rate:g}; it must be a positive number of requests per s")
    now = mean_rate(stream)
    if not math.isfinite(now):
        raise ValueError(f"{stream.name}: its {len(stream)} requests arrive at one time, so it has no rate to scale")
    arrival = stream.arrival * (now / rate)
    note = f"times scaled by {now / rate:.4g}, from a mean rate of {now:.4g} to {rate:.4g} requests per s"
    return dataclasses.replace(stream, arrival=arrival, notes=(*stream.notes, note))


def first(stream: Stream, requests: int) -> Stream:
    """The first requests of a stream; what they wait for is among them.

    Raises:
      ValueError: one line, unless `requests` is from 1 to the stream's number.
    """
    if requests != int(requests) or not 1 <= requests <= len(stream):
        raise ValueError(f"first {requests} requests: {stream.name} has {len(stream)}; ask for 1 to {len(stream)}")
    requests = int(requests)
    if requests == len(stream):
        return stream
    note = f"the first {requests} of {len(stream)} requests"
    # Groups that branch off from others are made anew: of some of them there may be one request left.
    if stream.parent is not None:
        return dataclasses.replace(part(stream, slice(requests)), notes=(*stream.notes, note))
    names = ("arrival", "isl", "osl", "group", "shared", "kind", "along", "after", "pause", "priority")
    columns: dict[str, Any] = {
        name: None if getattr(stream, name) is None else getattr(stream, name)[:requests] for name in names
    }
    return dataclasses.replace(stream, **columns, notes=(*stream.notes, note))


def _named(name: str, text: str | float | Lengths) -> Lengths:
    try:
        return parse_lengths(text)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _check(requests: int | None, duration: float | None, seed: int) -> None:
    if requests is not None and (requests != int(requests) or not 1 <= requests <= MOST_REQUESTS):
        raise ValueError(f"requests is {requests}; it must be a whole number from 1 to {MOST_REQUESTS}")
    if duration is not None and not 0.0 < duration <= 1e9:
        raise ValueError(f"duration is {duration:g}; it must be above 0 and at most 1e9 s")
    if seed != int(seed) or not 0 <= seed < 2**63:
        raise ValueError(f"seed is {seed}; it must be a whole number of at least 0")


def _source(
    arrivals: Arrivals,
    isl: Lengths,
    osl: Lengths,
    prefixes: Prefixes | None,
    sessions: Sessions | None,
    requests: int | None,
    duration: float | None,
    seed: int,
) -> str:
    words = [f"arrivals {arrivals.text}", f"isl {isl.text}", f"osl {osl.text}"]
    words += [f"prefixes {prefixes.text}"] if prefixes else []
    words += [f"sessions {sessions.text}"] if sessions else []
    words += [f"{requests} requests"] if requests is not None else []
    words += [f"{duration:g} s"] if duration is not None else []
    return "; ".join([*words, f"seed {seed}"])


# Request stream in numbers: rate, burstiness, lengths, and the tokens that a prefix cache could reuse.


@dataclasses.dataclass(frozen=True)
class LengthSummary:
    """Lengths of prompts or of outputs, in tokens."""

    mean: float
    p50: float
    p90: float
    p99: float
    max: float
    total: float


@dataclasses.dataclass(frozen=True)
class Summary:
    """A stream in numbers; nan where too few requests say nothing."""

    requests: int
    duration: float  # s from the first to the last arrival
    rate: float  # requests per s, mean; inf where all arrive at once
    burstiness: float  # coefficient of variation of the intervals between arrivals; 1: as Poisson, 0: even
    isl: LengthSummary
    osl: LengthSummary
    cacheable: float  # share of prompt tokens that an earlier request began with
    groups: int  # of requests that begin alike, those not counted that branch off from others
    branches: int  # groups that branch off from others
    grouped: float  # share of requests in groups
    waiting: float  # share of requests that wait for an answer
    pause: float  # s between an answer and the request that waits for it, mean; nan where none waits


def summary(stream: Stream) -> Summary:
    """The numbers of a stream of at least one request."""
    gaps = np.diff(stream.arrival)
    mean = float(gaps.mean()) if len(gaps) > 1 else 0.0
    branching = 0 if stream.parent is None else int((stream.parent >= 0).sum())
    waiting = np.zeros(len(stream), bool) if stream.after is None else stream.after != NONE
    return Summary(
        requests=len(stream),
        duration=float(stream.arrival[-1] - stream.arrival[0]),
        rate=mean_rate(stream),
        # Rounded, as intervals of an even stream differ in their last bits.
        burstiness=round(float(gaps.std()) / mean, 12) if mean > 0.0 else math.nan,
        isl=_lengths(stream.isl),
        osl=_lengths(stream.osl),
        cacheable=float(stream.shared.sum() / stream.isl.sum()),
        groups=int(stream.group.max()) + 1 - branching,
        branches=branching,
        grouped=float((stream.group != ALONE).mean()),
        waiting=float(waiting.mean()),
        pause=float(stream.pause[waiting].mean()) if stream.pause is not None and waiting.any() else math.nan,
    )


def _lengths(tokens: np.ndarray) -> LengthSummary:
    p50, p90, p99 = (float(value) for value in np.percentile(tokens, [50, 90, 99]))
    return LengthSummary(float(tokens.mean()), p50, p90, p99, float(tokens.max()), float(tokens.sum()))

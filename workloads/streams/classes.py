"""Classes of requests that share one stream: each with its share, its lengths and limits of its own."""

import dataclasses
import functools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hwspaces.files import document
from jaxroof.numerics.struct import given
from workloads.streams.arrivals import Arrivals, parse_arrivals
from workloads.streams.kinds import nearest
from workloads.streams.lengths import Lengths, Prefixes, parse_lengths, parse_prefixes
from workloads.streams.stream import MOST_REQUESTS, Stream, alone, numbered
from workloads.streams.streams import generated

KEYS = ("share", "rate", "arrivals", "isl", "osl", "prefixes", "slo", "priority")
"""Keys of a class; isl, osl and one of the first three are needed, a share in all classes or in none."""

WHEN = KEYS[:3]
"""Keys that say how many requests of a class come, and when."""

NEEDED = "share, isl and osl"
"""What a class has at least, in words."""

MOST_CLASSES = 20
"""Classes of one stream."""

MOST_PRIORITY = 1_000_000
"""Largest priority of a class, and the smallest with a sign."""

ROUNDED = 1e-3
"""By how much the shares may miss 1: thirds are written 0.333."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


@dataclasses.dataclass(frozen=True)
class RequestClass:
    """One class of requests."""

    name: str
    share: float  # of the requests; those of all classes sum to 1. With arrivals of their own: of the requests per s
    isl: Lengths  # prompt tokens; those of a system prompt come on top
    osl: Lengths
    prefixes: Prefixes | None = None
    slo: str | Mapping[str, Any] | None = None  # what it has to keep in place of the question's limits, as given
    arrivals: Arrivals | None = None  # of its own; None: all classes come together
    priority: int | None = None  # of its requests, lower goes first; None: 0 where another class has one

    @property
    def text(self) -> str:
        """It in words: "70 % chat (isl 1024, osl 256)"."""
        words = f"isl {self.isl.text}, osl {self.osl.text}"
        words += f", prefixes {self.prefixes.text}" if self.prefixes else ""
        words += f", arrivals {self.arrivals.text}" if self.arrivals else ""
        return f"{100.0 * self.share:.4g} % {self.name} ({words})"


def classes_of(path: str) -> tuple[RequestClass, ...]:
    """The classes that a TOML file describes, a table each, in their order.

    Raises:
      ValueError: one line that names the file, the class, the key, its value and what is allowed.
    """
    tables = document.toml(path)
    if not tables:
        raise ValueError(f"{path}: it has no classes; a class is a table with {NEEDED}")
    if len(tables) > MOST_CLASSES:
        raise ValueError(f"{path}: {len(tables)} classes; at most {MOST_CLASSES} are allowed")
    classes = tuple(_class(path, name, table) for name, table in tables.items())
    total = math.fsum(one.share for one in classes)
    own = [one.name for one in classes if one.arrivals is not None]
    if own:
        others = [one.name for one in classes if one.arrivals is None]
        if others:
            raise ValueError(f"{path}: {others[0]}: rate is missing: {own[0]} has arrivals of its own, so all have to")
        return tuple(dataclasses.replace(one, share=one.share / total) for one in classes)
    if abs(total - 1.0) > ROUNDED:
        shares = " + ".join(f"{one.share:g} ({one.name})" for one in classes)
        raise ValueError(f"{path}: share: {shares} = {total:.6g}; the shares of all classes must sum to 1")
    # Shares that were rounded are scaled to sum to exactly 1.
    return tuple(dataclasses.replace(one, share=one.share / total) for one in classes)


def mixed(
    arrivals: str | float | Arrivals,
    classes: Sequence[RequestClass],
    *,
    requests: int | None = None,
    duration: float | None = None,
    seed: int = 0,
    name: str = "mixed",
) -> Stream:
    """Requests of several classes. The same arguments give the same stream.

    Of all requests each class has its share, to a whole number, in random order: as independent Poisson streams have
    whose numbers are the expected ones. A class draws its requests from a seed of its own, so they do not depend on
    the other classes; classes share no system prompts.

    Args:
      arrivals: of all classes together, as `workloads.streams.streams.generated` takes them.
      requests, duration: likewise.
      seed: of NumPy's SeedSequence, from which each class has one.

    Raises:
      ValueError: one line that names the argument, its value and what is allowed; a class without any request.
    """
    arrivals = parse_arrivals(arrivals)
    if seed != int(seed) or not 0 <= seed < 2**63:
        raise ValueError(f"seed is {seed}; it must be a whole number of at least 0")
    # The first seed is for the arrivals and the order of classes, the others for the requests of one class each.
    own, *seeds = np.random.SeedSequence(seed).spawn(1 + len(classes))
    rng = np.random.Generator(np.random.PCG64(own))
    arrival = _times(arrivals, rng, requests, duration)
    # Rounded cumulative shares: the numbers of the classes add up to all requests.
    ends = np.rint(len(arrival) * np.cumsum([one.share for one in classes])).astype(int)
    kind = rng.permutation(np.repeat(np.arange(len(classes), dtype=np.int32), np.diff(ends, prepend=0)))
    words = [f"arrivals {arrivals.text}", *(one.text for one in classes)]
    return _stream(classes, seeds, arrival, kind, name, [*words, *_counts(requests, duration), f"seed {seed}"])


def together(
    classes: Sequence[RequestClass],
    *,
    requests: int | None = None,
    duration: float | None = None,
    seed: int = 0,
    name: str = "together",
) -> Stream:
    """Requests of several classes that come independently, each at its own times. The same arguments give the same one.

    Args:
      classes: all with arrivals.
      requests: the first ones of all of them together; None: as many as come.
      duration, seed: as of `mixed`.

    Raises:
      ValueError: as of `mixed`.
    """
    own, *seeds = np.random.SeedSequence(seed).spawn(1 + len(classes))
    times = []
    for one, seeded in zip(classes, own.spawn(len(classes)), strict=True):
        arrivals = given(one.arrivals, "arrivals of a class")
        ends = arrivals.kind == "stages" or duration is not None
        rng = np.random.Generator(np.random.PCG64(seeded))
        times.append(_times(arrivals, rng, None if ends else requests, duration))
    arrival = np.concatenate(times)
    kind = np.repeat(np.arange(len(classes), dtype=np.int32), [len(each) for each in times])
    # Of equal times those of the first class come first.
    order = np.argsort(arrival, kind="stable")[:requests]
    words = [*(one.text for one in classes), *_counts(requests, duration), f"seed {seed}"]
    return _stream(classes, seeds, arrival[order], kind[order], name, words)


def _times(arrivals: Arrivals, rng: np.random.Generator, requests: int | None, duration: float | None) -> np.ndarray:
    """Arrival times in s."""
    arrival = arrivals.drawn(rng, requests, duration)
    arrival = arrival if duration is None else arrival[arrival < duration]
    if len(arrival) > MOST_REQUESTS:
        raise ValueError(f"{len(arrival)} requests; at most {MOST_REQUESTS} are allowed")
    return arrival


def _counts(requests: int | None, duration: float | None) -> list[str]:
    """How many requests there are, in words."""
    words = [f"{requests} requests"] if requests is not None else []
    return words + ([f"{duration:g} s"] if duration is not None else [])


def _stream(
    classes: Sequence[RequestClass],
    seeds: Sequence[np.random.SeedSequence],
    arrival: np.ndarray,
    kind: np.ndarray,
    name: str,
    words: Sequence[str],
) -> Stream:
    """Requests of these classes at these times.

    Args:
      seeds: of every class.
      kind: class of every request.
      words: what they are drawn from.
    """
    # The k-th request of a class is the k-th of its own stream; groups are numbered anew over all classes.
    isl, osl = np.ones(len(arrival)), np.ones(len(arrival))
    group, shared = alone(len(arrival))
    groups = 0
    for position, (one, seeded) in enumerate(zip(classes, seeds, strict=True)):
        where = kind == position
        if not where.any():
            few = f"{len(arrival):,} request{'s' * (len(arrival) != 1)}"
            part = f"share = {one.share:g}" if one.arrivals is None else one.arrivals.text
            raise ValueError(f"{name}: {one.name}: {part} is none of {few}; give more requests")
        # `generated` takes seeds below 2^63, hence the shift by one bit.
        own_seed = int(seeded.generate_state(1, np.uint64)[0] >> 1)
        drawn = generated("once", one.isl, one.osl, requests=int(where.sum()), prefixes=one.prefixes, seed=own_seed)
        isl[where], osl[where], shared[where] = drawn.isl, drawn.osl, drawn.shared
        group[where] = np.where(drawn.group < 0, drawn.group, drawn.group + groups)
        groups += int(drawn.group.max()) + 1
    priority = None
    if any(one.priority is not None for one in classes):
        priority = np.array([float(one.priority or 0) for one in classes])[kind]
    return Stream(name, arrival, isl, osl, numbered(group), shared, "; ".join(words), kind=kind, priority=priority)


def _class(path: str, name: str, table: Any) -> RequestClass:
    where = f"{path}: {name}"
    if not _NAME.fullmatch(name):
        raise ValueError(f"{path}: the class {name!r} must be letters, digits, - and _, a letter first")
    if not isinstance(table, Mapping):
        raise ValueError(f"{where} = {table!r} must be a table: the class [{name}] with {NEEDED}")
    # Unknown keys come first: a misspelt key would otherwise be reported as a missing one.
    for key in table:
        if key not in KEYS:
            raise ValueError(f"{where}: there is no key {key}{nearest(key, KEYS)}")
    ways = [key for key in WHEN if key in table]
    if len(ways) > 1:
        raise ValueError(f"{where}: {ways[0]} and {ways[1]} both say how many requests come: give one")
    for key in (*(() if ways else ("share",)), "isl", "osl"):
        if key not in table:
            raise ValueError(f"{where}: {key} is missing")
    slo = table.get("slo")
    if slo is not None and (not isinstance(slo, str | Mapping) or not slo):
        raise ValueError(f"{where}: slo = {slo!r} must be a text such as ttft=1s,tpot=30ms, or a table of such limits")
    priority = table.get("priority")
    whole = isinstance(priority, int) and not isinstance(priority, bool)
    if priority is not None and not (whole and abs(priority) <= MOST_PRIORITY):
        raise ValueError(f"{where}: priority = {priority!r} must be a whole number; lower ones go first")
    read = functools.partial(_read, where, table)
    arrivals = None if ways[0] == "share" else read(ways[0], parse_arrivals, (int, float, str))
    if arrivals is not None and arrivals.kind == "once":
        raise ValueError(f"{where}: {ways[0]} = 'once' has no rate; the classes of a file come over time")
    return RequestClass(
        name,
        _share(where, table) if arrivals is None else arrivals.mean_rate,
        read("isl", parse_lengths, (int, float, str)),
        read("osl", parse_lengths, (int, float, str)),
        read("prefixes", parse_prefixes, (str,)) if "prefixes" in table else None,
        slo,
        arrivals,
        priority,
    )


def _share(where: str, table: Mapping[str, Any]) -> float:
    """The share of a class."""
    share = table["share"]
    # bool is a subclass of int, and no share.
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0.0 < share <= 1.0:
        raise ValueError(f"{where}: share = {share!r} must be a number above 0 and at most 1")
    return float(share)


def _read(where: str, table: Mapping[str, Any], key: str, parse: Any, kinds: tuple[type, ...]) -> Any:
    """The value of a key as `parse` reads it."""
    value = table[key]
    if isinstance(value, bool) or not isinstance(value, kinds):
        allowed = "a text" if kinds == (str,) else "a number or a text"
        raise ValueError(f"{where}: {key} = {value!r} must be {allowed}")
    try:
        return parse(value)
    except ValueError as error:
        raise ValueError(f"{where}: {key}: {error}") from None

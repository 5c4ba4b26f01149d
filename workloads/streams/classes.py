"""Classes of requests that share one stream: each with its share, its lengths and limits of its own."""

import dataclasses
import functools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hwspaces.files import document
from workloads.streams.arrivals import Arrivals, parse_arrivals
from workloads.streams.kinds import nearest
from workloads.streams.lengths import Lengths, Prefixes, parse_lengths, parse_prefixes
from workloads.streams.stream import MOST_REQUESTS, Stream, alone, numbered
from workloads.streams.streams import generated

KEYS = ("share", "isl", "osl", "prefixes", "slo", "priority")
"""Keys of a class; the first three are needed."""

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
    share: float  # of the requests; those of all classes sum to 1
    isl: Lengths  # prompt tokens; those of a system prompt come on top
    osl: Lengths
    prefixes: Prefixes | None = None
    slo: str | Mapping[str, Any] | None = None  # what it has to keep in place of the question's limits, as given
    priority: int | None = None  # of its requests, lower goes first; None: 0 where another class has one

    @property
    def text(self) -> str:
        """It in words: "70 % chat (isl 1024, osl 256)"."""
        words = f"isl {self.isl.text}, osl {self.osl.text}"
        words += f", prefixes {self.prefixes.text}" if self.prefixes else ""
        return f"{100.0 * self.share:.4g} % {self.name} ({words})"


def classes_of(path: str) -> tuple[RequestClass, ...]:
    """The classes that a TOML file describes, a table each, in their order.

    Raises:
      ValueError: one line that names the file, the class, the key, its value and what is allowed.
    """
    tables = document.toml(path)
    if not tables:
        raise ValueError(f"{path}: it has no classes; a class is a table with {', '.join(KEYS[:3])}")
    if len(tables) > MOST_CLASSES:
        raise ValueError(f"{path}: {len(tables)} classes; at most {MOST_CLASSES} are allowed")
    classes = tuple(_class(path, name, table) for name, table in tables.items())
    total = math.fsum(one.share for one in classes)
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
    arrival = arrivals.drawn(rng, requests, duration)
    arrival = arrival if duration is None else arrival[arrival < duration]
    if len(arrival) > MOST_REQUESTS:
        raise ValueError(f"{len(arrival)} requests; at most {MOST_REQUESTS} are allowed")
    # Rounded cumulative shares: the numbers of the classes add up to all requests.
    ends = np.rint(len(arrival) * np.cumsum([one.share for one in classes])).astype(int)
    kind = rng.permutation(np.repeat(np.arange(len(classes), dtype=np.int32), np.diff(ends, prepend=0)))

    # The k-th request of a class is the k-th of its own stream; groups are numbered anew over all classes.
    isl, osl = np.ones(len(arrival)), np.ones(len(arrival))
    group, shared = alone(len(arrival))
    groups = 0
    for position, (one, seeded) in enumerate(zip(classes, seeds, strict=True)):
        where = kind == position
        if not where.any():
            few = f"{len(arrival):,} request{'s' * (len(arrival) != 1)}"
            raise ValueError(f"{name}: {one.name}: share = {one.share:g} is none of {few}; give more requests")
        # `generated` takes seeds below 2^63, hence the shift by one bit.
        own_seed = int(seeded.generate_state(1, np.uint64)[0] >> 1)
        drawn = generated("once", one.isl, one.osl, requests=int(where.sum()), prefixes=one.prefixes, seed=own_seed)
        isl[where], osl[where], shared[where] = drawn.isl, drawn.osl, drawn.shared
        group[where] = np.where(drawn.group < 0, drawn.group, drawn.group + groups)
        groups += int(drawn.group.max()) + 1
    words = [f"arrivals {arrivals.text}", *(one.text for one in classes)]
    words += [f"{requests} requests"] if requests is not None else []
    words += [f"{duration:g} s"] if duration is not None else []
    source = "; ".join([*words, f"seed {seed}"])
    priority = None
    if any(one.priority is not None for one in classes):
        priority = np.array([float(one.priority or 0) for one in classes])[kind]
    return Stream(name, arrival, isl, osl, numbered(group), shared, source, kind=kind, priority=priority)


def _class(path: str, name: str, table: Any) -> RequestClass:
    where = f"{path}: {name}"
    if not _NAME.fullmatch(name):
        raise ValueError(f"{path}: the class {name!r} must be letters, digits, - and _, a letter first")
    if not isinstance(table, Mapping):
        raise ValueError(f"{where} = {table!r} must be a table: the class [{name}] with {', '.join(KEYS[:3])}")
    # Unknown keys come first: a misspelt key would otherwise be reported as a missing one.
    for key in table:
        if key not in KEYS:
            raise ValueError(f"{where}: there is no key {key}{nearest(key, KEYS)}")
    for key in KEYS[:3]:
        if key not in table:
            raise ValueError(f"{where}: {key} is missing")
    share = table["share"]
    # bool is a subclass of int, and no share.
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0.0 < share <= 1.0:
        raise ValueError(f"{where}: share = {share!r} must be a number above 0 and at most 1")
    slo = table.get("slo")
    if slo is not None and (not isinstance(slo, str | Mapping) or not slo):
        raise ValueError(f"{where}: slo = {slo!r} must be a text such as ttft=1s,tpot=30ms, or a table of such limits")
    priority = table.get("priority")
    whole = isinstance(priority, int) and not isinstance(priority, bool)
    if priority is not None and not (whole and abs(priority) <= MOST_PRIORITY):
        raise ValueError(f"{where}: priority = {priority!r} must be a whole number; lower ones go first")
    read = functools.partial(_read, where, table)
    return RequestClass(
        name,
        float(share),
        read("isl", parse_lengths, (int, float, str)),
        read("osl", parse_lengths, (int, float, str)),
        read("prefixes", parse_prefixes, (str,)) if "prefixes" in table else None,
        slo,
        priority,
    )


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

"""A service-level objective from what a user writes: limits on latencies that a request has to keep."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from hwspaces import formatted, quantity
from hwspaces.units import nearest
from jaxroof.serving import Objective

LIMITS = tuple(field.name for field in dataclasses.fields(Objective))
"""Latencies of a request that can be limited."""

WORDS = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "E2E"}


def parse_slo(text: str | Mapping[str, Any] | None) -> Objective:
    """The objective that "ttft=500ms,tpot=40ms,e2e=10s" describes; None and "" limit nothing.

    Args:
      text: pairs of a latency and its limit with a unit, or the same as a dictionary, where numbers are in s.

    Raises:
      ValueError: one line, for a name that is no latency, one given twice, or a value that is no positive time.
    """
    if text is None:
        return Objective()
    pairs = list(text.items()) if isinstance(text, Mapping) else [_pair(part) for part in text.split(",") if text]
    found: dict[str, float] = {}
    for name, value in pairs:
        if name not in LIMITS:
            raise ValueError(f"slo: there is no limit {name}{nearest(name, LIMITS)}; known: {', '.join(LIMITS)}")
        if name in found:
            raise ValueError(f"slo: {name} is given twice")
        found[name] = quantity(value, "s", f"slo {name}")
    return Objective(**found)


def slo_text(objective: Objective) -> str:
    """The objective for people: "TTFT <= 500 ms, TPOT <= 40 ms"; "none" where nothing is limited."""
    limits = {name: float(getattr(objective, name)) for name in LIMITS}
    known = [f"{WORDS[name]} <= {formatted(value, 's')}" for name, value in limits.items() if value != float("inf")]
    return ", ".join(known) or "none"


def _pair(part: str) -> tuple[str, str]:
    name, equals, value = (word.strip() for word in part.partition("="))
    if not (name and equals and value):
        raise ValueError(f"slo {part.strip()!r} must be LATENCY=TIME, such as ttft=500ms")
    return name, value

"""A service-level objective from a user's text: limits on latencies that a request has to keep."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from hwspaces import formatted, quantity
from hwspaces.quantities.units import nearest
from jaxroof.jobs.serve import LATENCIES, PERCENTILES, Objective
from sweeps.ask.words import SHARE as SHARE

LIMITS = tuple(field.name for field in dataclasses.fields(Objective))
"""Latencies of a request that can be limited."""

METRICS = tuple(f"{name}_{of}" for name in LATENCIES for of in ("mean", *(f"p{p}" for p in PERCENTILES)))
"""Figures of a whole run that can be limited beside: ttft_p99, tpot_mean, ..."""

WORDS = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "E2E"}


def parse_slo(text: str | Mapping[str, Any] | None) -> Objective:
    """The objective that "ttft=500ms,tpot=40ms,e2e=10s" describes; None and "" limit nothing.

    Args:
      text: pairs of a latency and its limit with a unit, or the same as a dictionary, where numbers are in s.

    Raises:
      ValueError: one line, for a name that is no latency, one given twice, or a value that is no positive time.
    """
    return Objective(**_times(text, LIMITS))


@dataclasses.dataclass(frozen=True)
class Target:
    """Limits that a run has to keep: a share of good requests, and limits on its percentiles and means."""

    objective: Objective = Objective()
    share: float = SHARE  # of all requests, refused and rejected ones too
    limits: Mapping[str, float] = dataclasses.field(default_factory=dict)  # figure of the run -> s
    classes: Mapping[str, "Target"] = dataclasses.field(default_factory=dict)  # of every class, in place of the others

    @property
    def text(self) -> str:
        """It in words: "TTFT <= 500 ms, TPOT <= 40 ms for 95 % of the requests; TTFT p99 <= 1 s"."""
        # Where there are classes, each has a target in place of the common one.
        if self.classes:
            return "; ".join(f"{name}: {target.text}" for name, target in self.classes.items())
        parts = [f"{slo_text(self.objective)} for {100 * self.share:g} % of the requests"]
        # Without limits a request counts as good once it is answered.
        if self.objective == Objective():
            parts = [f"{100 * self.share:g} % of the requests answered"]
        parts += [f"{figure_text(name)} <= {formatted(value, 's')}" for name, value in self.limits.items()]
        return "; ".join(parts)


def parse_target(text: str | Mapping[str, Any] | None, share: Any = SHARE) -> Target:
    """The target that "ttft=500ms,tpot=40ms,ttft_p99=1s" describes: limits of requests, and of figures of the run.

    Args:
      text: as `parse_slo` takes it, with names such as ttft_p99 and tpot_mean beside.
      share: of the requests that have to keep the limits of requests, above 0 and at most 1; "95%" too.

    Raises:
      ValueError: one line that names what is wrong, its value and what is allowed.
    """
    seconds = _times(text, (*LIMITS, *METRICS))
    if not seconds:
        raise ValueError("slo is missing: what has to be kept, such as ttft=500ms,tpot=40ms or ttft_p99=1s")
    part = quantity(share, "1", "share")
    # A share is a fraction: "95%" has become 0.95 here.
    if part > 1.0:
        raise ValueError(f"share = {share!r} must be above 0 and at most 1")
    objective = Objective(**{name: value for name, value in seconds.items() if name in LIMITS})
    return Target(objective, part, {name: value for name, value in seconds.items() if name not in LIMITS})


def figure_text(name: str) -> str:
    """A figure of a run for people: "TTFT p99"."""
    # The part behind the last underscore is a percentile or the mean.
    latency, _, of = name.rpartition("_")
    return f"{WORDS.get(latency, latency.upper() if latency == 'itl' else latency)} {of}"


def _times(text: str | Mapping[str, Any] | None, names: tuple[str, ...]) -> dict[str, float]:
    return limits_of(None if text == "" else text, dict.fromkeys(names, "s"), "limit", "LATENCY=TIME")


def limits_of(text: str | Mapping[str, Any] | None, units: Mapping[str, str], what: str, pair: str) -> dict[str, float]:
    """Limits in SI units, by name, of "ttft=500ms,tpot=40ms" or the same as a dictionary.

    Args:
      units: SI unit of every name that can be limited.
      what: a name is one of, and `pair`: what a text has; for errors.

    Raises:
      ValueError: one line, for a name that there is not, one given twice, or a value with a wrong unit.
    """
    if text is None:
        return {}
    if not isinstance(text, str | Mapping):
        raise ValueError(f"slo = {text!r} must be a text such as ttft=500ms,tpot=40ms, or a table of such limits")
    parts = text.items() if isinstance(text, Mapping) else [_pair(part, pair) for part in text.split(",")]
    # SI units from here on, whatever units the text has.
    limit_by_name: dict[str, float] = {}
    for name, value in parts:
        if name not in units:
            raise ValueError(f"slo: there is no {what} {name}{nearest(name, units)}")
        if name in limit_by_name:
            raise ValueError(f"slo: {name} is given twice")
        limit_by_name[name] = quantity(value, units[name], f"slo {name}")
    return limit_by_name


def slo_text(objective: Objective) -> str:
    """The objective for people: "TTFT <= 500 ms, TPOT <= 40 ms"; "none" where nothing is limited."""
    return ", ".join(f"{WORDS[name]} <= {formatted(value, 's')}" for name, value in limits(objective).items()) or "none"


def limits(objective: Objective) -> dict[str, float]:
    """What is limited, in s, by latency."""
    values = {name: float(getattr(objective, name)) for name in LIMITS}
    return {name: value for name, value in values.items() if math.isfinite(value)}


def _pair(part: str, pair: str) -> tuple[str, str]:
    name, equals, value = (word.strip() for word in part.partition("="))
    if not (name and equals and value):
        raise ValueError(f"slo {part.strip()!r} must be {pair}, such as ttft=500ms")
    return name, value

"""Arrival processes of requests, in words or as objects, drawn with a seed."""

import dataclasses
import math
import re
from collections.abc import Mapping

import numpy as np

from workloads.streams.kinds import Kind, Range, number, parsed, shown
from workloads.streams.stream import MOST_REQUESTS

MOST_RATE = 1e6
"""Largest rate of a stream, in requests per second."""

_RATE = Range(1e-9, MOST_RATE)
_SECONDS = Range(0, 1e9, above=True)

RANGES = {
    "rate": _RATE,
    "cv": Range(0, 100),
    "seconds": _SECONDS,
    "on": _SECONDS,
    "off": Range(0, 1e9),
}
"""Parameter -> what it may be; rates in requests per s, times in s."""

KINDS = {
    "poisson": Kind(("rate",), (), "poisson:8, or 8"),
    "constant": Kind(("rate",), (), "constant:8"),
    "interval": Kind(("seconds",), (), "interval:0.125"),
    "gamma": Kind(("rate", "cv"), (), "gamma:rate=8,cv=3"),
    "once": Kind((), (), "once"),
    "onoff": Kind(("rate", "on", "off"), ("cv",), "onoff:rate=20,on=10,off=50"),
    "stages": Kind((), ("cv",), "stages:8x60,16x30"),
}
"""Every kind of arrivals, and what it takes."""

_EVEN = 1e-6
"""A coefficient of variation that no one can tell from a smaller one; below it, gamma's parameters overflow."""

_STAGE = re.compile(r"([^x=]+)x([^x=]+)")


@dataclasses.dataclass(frozen=True)
class Arrivals:
    """A process of arrivals.

    poisson   `rate` requests per s, intervals exponential
    constant  `rate` requests per s, evenly, the first at 0
    interval  one request every `seconds`, the first at 0
    gamma     `rate` requests per s, intervals gamma-distributed with coefficient of variation `cv`; vLLM's
              `--burstiness` is 1 / cv^2
    once      all at 0
    onoff     `rate` for `on` s, then none for `off` s, and again
    stages    "8x60,16x30": 8 requests per s for 60 s, then 16 per s for 30 s, then no more

    onoff and stages are Poisson within their times, or of the `cv` that is given: a renewal process of mean interval
    1 whose clock runs as fast as the rate is. Where the number of requests is given, and no end, the intervals between
    them are stretched so that their mean is exactly 1: the rate is the one that was asked for, whatever the seed.

    Source: benchmarks of engines send requests so: vllm/benchmarks/serve.py, `get_request`.
    """

    kind: str
    values: Mapping[str, float]
    stages: tuple[tuple[float, float], ...] = ()  # rate, seconds

    @property
    def text(self) -> str:
        """The words for it, which `parse_arrivals` reads."""
        if self.kind != "stages":
            return shown(self.kind, self.values)
        items = [f"{rate:.12g}x{seconds:.12g}" for rate, seconds in self.stages]
        return f"stages:{','.join([*items, *(f'{key}={value:.12g}' for key, value in self.values.items())])}"

    @property
    def mean_rate(self) -> float:
        """Requests per s on average, of stages over all of them; infinite where all arrive at once."""
        if self.kind == "stages":
            return sum(rate * seconds for rate, seconds in self.stages) / sum(seconds for _, seconds in self.stages)
        if self.kind in ("once", "interval"):
            return math.inf if self.kind == "once" else 1.0 / self.values["seconds"]
        values = self.values
        part = values["on"] / (values["on"] + values["off"]) if self.kind == "onoff" else 1.0
        return values["rate"] * part

    def drawn(self, rng: np.random.Generator, requests: int | None, duration: float | None) -> np.ndarray:
        """Arrival times in s, non-decreasing.

        Args:
          rng: the generator.
          requests: how many; None: as many as fit.
          duration: s, only arrivals before it; None: no end. `stages` end by themselves.

        Returns:
          float64, shape [requests], or as many as arrive before `duration`.

        Raises:
          ValueError: one line: neither is given, stages end before `requests` arrived, or too many requests.
        """
        if self.kind == "once":
            if requests is None:
                raise ValueError("once: all requests arrive at 0, so their number must be given")
            return np.zeros(requests)
        # The end in expected requests, on the clock whose mean interval is 1.
        end = math.inf if duration is None else self._clock(duration)
        if self.kind == "stages":
            end = min(end, sum(rate * seconds for rate, seconds in self.stages))
        if requests is None and math.isinf(end):
            raise ValueError(f"{self.text}: the number of requests or a duration must be given")
        # The expected number of requests is checked before any of them is drawn.
        most = end if requests is None else min(end, requests)
        if most > MOST_REQUESTS:
            raise ValueError(f"{self.text}: about {most:.3g} requests; at most {MOST_REQUESTS} are allowed")
        clock = self._events(rng, requests, end)
        if requests is not None and len(clock) < requests and duration is None:
            raise ValueError(f"{self.text}: ends after {len(clock)} requests, before the {requests} that are asked for")
        return self._time(clock)

    def _events(self, rng: np.random.Generator, requests: int | None, end: float) -> np.ndarray:
        """Arrivals on the clock on which the mean interval is 1, those before `end`."""
        cv = 0.0 if self.kind in ("constant", "interval") else self.values.get("cv", 1.0)
        if cv == 0.0:
            if requests is not None and math.isinf(end):
                return np.arange(requests, dtype=float)
            return np.arange(min(requests or math.inf, math.ceil(end)), dtype=float)
        # A gamma distribution of shape 1 / cv^2 and scale cv^2 has mean 1 and coefficient of variation cv.
        shape = max(cv, _EVEN) ** -2.0
        parts, last, count = [], 0.0, 0
        while last < end and (requests is None or count < requests):
            ahead = end - last if requests is None else min(end - last, requests - count)
            # With 5 % more intervals than expected one draw mostly suffices; at most 2^22, which is 32 MiB, at a time.
            draw = int(min(max(1.05 * ahead, 64), 1 << 22))
            gaps = rng.exponential(size=draw) if cv == 1.0 else rng.gamma(shape, 1.0 / shape, size=draw)
            parts.append(last + np.cumsum(gaps))
            last, count = float(parts[-1][-1]), count + draw
            if count > 2 * MOST_REQUESTS:
                raise ValueError(f"{self.text}: more than {MOST_REQUESTS} requests")
        clock = np.concatenate(parts) if parts else np.zeros(0)
        clock = clock[clock < end][:requests]
        # With an end the times stay as drawn: how many requests arrive before it is random.
        if math.isinf(end) and len(clock) > 1:
            clock = clock * ((len(clock) - 1) / (clock[-1] - clock[0]))
        return clock

    def _clock(self, time: float) -> float:
        """Requests that are expected before `time`."""
        v = self.values
        if self.kind == "interval":
            return time / v["seconds"]
        if self.kind == "onoff":
            # Every whole cycle has `on` seconds of requests; of the one that has begun, at most `on` seconds count.
            cycles, rest = divmod(time, v["on"] + v["off"])
            return v["rate"] * (cycles * v["on"] + min(rest, v["on"]))
        if self.kind == "stages":
            times, clocks = self._knots()
            return float(np.interp(time, times, clocks))
        return time * v["rate"]

    def _time(self, clock: np.ndarray) -> np.ndarray:
        """Time by which so many requests are expected: the inverse of `_clock`."""
        v = self.values
        if self.kind == "interval":
            return clock * v["seconds"]
        if self.kind == "onoff":
            # A cycle has rate * on requests, and takes on + off seconds.
            cycles, rest = np.divmod(clock, v["rate"] * v["on"])
            return cycles * (v["on"] + v["off"]) + rest / v["rate"]
        if self.kind == "stages":
            times, clocks = self._knots()
            return np.interp(clock, clocks, times)
        return clock / v["rate"]

    def _knots(self) -> tuple[np.ndarray, np.ndarray]:
        # The clock is linear within a stage: knots at the ends of stages, in seconds and in expected requests.
        rates, seconds = (np.array(column) for column in zip(*self.stages, strict=True))
        return np.append(0.0, np.cumsum(seconds)), np.append(0.0, np.cumsum(rates * seconds))


def parse_arrivals(text: "str | int | float | Arrivals") -> Arrivals:
    """The arrivals that `text` describes: "8", "poisson:8", "gamma:rate=8,cv=3", "stages:8x60,16x30".

    Raises:
      ValueError: one line that names the word, what is known or allowed, and the nearest.
    """
    if isinstance(text, Arrivals):
        return text
    plain = re.sub(r"\s+", "", str(text)).lower()
    name, _, rest = plain.partition(":")
    if name == "stages":
        return _staged(str(text), rest)
    return Arrivals(*parsed(str(text), KINDS, "poisson", RANGES))


def _staged(text: str, rest: str) -> Arrivals:
    """The arrivals of "8x60,16x30,cv=2"."""
    stages, named = [], []
    for item in rest.split(","):
        if "=" in item:
            named.append(item)
            continue
        pair = _STAGE.fullmatch(item)
        if pair is None:
            raise ValueError(f"{text!r}: {item!r} is not a stage; write requests per s x s; such as 8x60")
        rate = number(pair[1], "the rate of a stage", Range(0, 1e6), text)
        stages.append((rate, number(pair[2], "the time of a stage", _SECONDS, text)))
    if not any(rate >= _RATE.low for rate, _ in stages):
        raise ValueError(f"{text!r}: no stage has requests; such as {KINDS['stages'].example}")
    # What is named beside the stages is checked as the parameters of any other kind.
    _, values = parsed(f"stages:{','.join(named)}" if named else "stages", KINDS, "poisson", RANGES)
    return Arrivals("stages", values, tuple(stages))

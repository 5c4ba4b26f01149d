"""Request stream in numbers: rate, burstiness, lengths, and the tokens that a prefix cache could reuse."""

import dataclasses
import math

import numpy as np

from workloads.stream import ALONE, Stream
from workloads.streams import mean_rate


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
    groups: int  # of requests that begin alike
    grouped: float  # share of requests in groups


def summary(stream: Stream) -> Summary:
    """The numbers of a stream of at least one request."""
    gaps = np.diff(stream.arrival)
    mean = float(gaps.mean()) if len(gaps) > 1 else 0.0
    return Summary(
        requests=len(stream),
        duration=float(stream.arrival[-1] - stream.arrival[0]),
        rate=mean_rate(stream),
        burstiness=round(float(gaps.std()) / mean, 12) if mean > 0.0 else math.nan,
        isl=_lengths(stream.isl),
        osl=_lengths(stream.osl),
        cacheable=float(stream.shared.sum() / stream.isl.sum()),
        groups=int(stream.group.max()) + 1,
        grouped=float((stream.group != ALONE).mean()),
    )


def _lengths(tokens: np.ndarray) -> LengthSummary:
    p50, p90, p99 = (float(value) for value in np.percentile(tokens, [50, 90, 99]))
    return LengthSummary(float(tokens.mean()), p50, p90, p99, float(tokens.max()), float(tokens.sum()))

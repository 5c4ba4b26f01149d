"""Measurements of a benchmark: latencies per request, and the load that its client aimed at."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from workloads.stream import Stream


@dataclasses.dataclass(frozen=True, eq=False)
class Measured:
    """One run of a serving benchmark: its requests and what was measured of them. Times in s.

    Arrays of shape [requests] in the order of `stream`; nan where the file does not say.
    """

    stream: Stream
    ttft: np.ndarray  # s from sending a request to its first output token
    e2e: np.ndarray  # s from sending a request to its last output token
    itl: np.ndarray  # s, mean time between output tokens, without the first: vLLM's TPOT; nan for one output token
    concurrency: float | None  # requests that the client had under way at most; None: as many as arrive
    rate: float | None  # requests per s that the client aimed at, inf: all at once; None: the file does not say
    duration: float  # s that the run took, nan where the file does not say
    summary: Mapping[str, float]  # what the file itself sums up, in s: mean_ttft, p99_itl ...


def mean_gap(ttft: np.ndarray, e2e: np.ndarray, osl: np.ndarray) -> np.ndarray:
    """Mean time between output tokens in s, (e2e - ttft) / (osl - 1); nan for one output token. Shape [requests]."""
    return np.where(osl > 1.0, (e2e - ttft) / np.maximum(osl - 1.0, 1.0), np.nan)

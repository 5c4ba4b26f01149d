"""A simulator's input from a measured run: traffic, latencies to meet, and requests that are held out."""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from jaxroof.batch import Traffic
from jaxroof.jobs import Scenario
from jaxroof.jobs.serve import Service
from sweeps.ask.cases import Case
from sweeps.run.simulated.policies import chosen_policy
from workloads.streams.stream import Stream, traffic
from workloads.traces import Measured

LEAST_REQUESTS = 100
"""Requests with measured latencies below which a run says too little."""

BLOCKS = 20
"""Blocks of consecutive requests that a run is divided into."""

HELD_OUT = 4
"""Every fourth block is held out: its requests saw batches that no training request was part of, but for its ends."""

METRICS = ("ttft", "tpot", "e2e")


@dataclasses.dataclass(frozen=True, eq=False)
class MeasuredRun:
    """One measured run. Arrays of shape [requests] in the order of sending; latencies in s, NaN where there is none."""

    name: str
    stream: Stream
    traffic: Traffic
    latencies: dict[str, np.ndarray]  # by `METRICS`: TTFT, TPOT without the first token, E2E
    held_out: np.ndarray  # True for requests that only validate
    notes: tuple[str, ...]

    @property
    def mean_lengths(self) -> dict[str, str]:
        """Mean tokens of prompts and outputs, as the flags of a batch take them."""
        return {name: f"{max(round(getattr(self.stream, name).mean()), 1)}" for name in ("isl", "osl")}

    @property
    def clients(self) -> int | None:
        """Clients of a closed loop; None: an open one."""
        return None if self.traffic.clients is None else int(self.traffic.clients)


def serving_of(case: Case, run: MeasuredRun, settings: Mapping[str, str]) -> Scenario:
    """A deployment's simulation under a run's requests.

    Args:
      case: of the deployment.
      settings: numbers of the engine's scheduler in place of its own, by name.
    """
    policy = chosen_policy(case.engine.words, settings)
    return dataclasses.replace(case.scenario, workload=Service(traffic=run.traffic, policy=policy))


def measured_run(measured: Measured) -> MeasuredRun:
    """A run from what a benchmark measured.

    The loop is closed where the client held a number of requests under way without aiming at a rate; then the
    simulated requests are sent when earlier ones end, in the order in which they were sent. Otherwise they arrive
    when they were sent.

    Raises:
      ValueError: one line: fewer than `LEAST_REQUESTS` requests have latencies.
    """
    stream = measured.stream
    # A time of 0 stands for one that was not measured.
    ttft, e2e = (np.where(times > 0.0, times, np.nan) for times in (measured.ttft, measured.e2e))
    # Time per output token needs a token after the first.
    tpot = np.where((stream.osl > 1.0) & (measured.itl > 0.0), measured.itl, np.nan)
    known = int(np.sum(np.isfinite(ttft) & np.isfinite(e2e)))
    if known < LEAST_REQUESTS:
        has = f"{known} requests with TTFT and E2E latency"
        # Benchmarks write totals alone unless they are asked for every request.
        how = "" if known else "; vllm bench serve --save-detailed and SGLang's --output-details write them"
        raise ValueError(f"{stream.source}: it has {has}; a calibration needs at least {LEAST_REQUESTS}{how}")
    clients = _clients(measured)
    return MeasuredRun(
        name=stream.name,
        stream=stream,
        traffic=traffic(stream, clients=clients),
        latencies={"ttft": ttft, "tpot": tpot, "e2e": e2e},
        held_out=held_out(len(stream)),
        notes=stream.notes,
    )


def held_out(requests: int) -> np.ndarray:
    """True for every fourth of `BLOCKS` blocks of consecutive requests, shape [requests]."""
    # Number of the block that each request is in, from 0 to BLOCKS - 1.
    block = np.arange(requests) * BLOCKS // requests
    return block % HELD_OUT == HELD_OUT - 1


def _clients(measured: Measured) -> int | None:
    # A client that aims at a rate is an open loop, whatever its limit on requests under way.
    aims = measured.rate is not None and math.isfinite(measured.rate)
    if measured.concurrency is None or not math.isfinite(measured.concurrency) or aims:
        return None
    return int(min(measured.concurrency, len(measured.stream)))

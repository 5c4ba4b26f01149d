"""Results of GuideLLM: a JSON report of benchmarks, each with its requests."""

import math

import numpy as np

from workloads.streams.stream import LARGEST_TOKENS, Stream
from workloads.traces.documents import TraceRecord, chosen, json_object, run_of
from workloads.traces.rows import Measured, ReadOptions, Rows, checked, mean_gap

_STATISTICS = {"mean": "mean", "median": "median", "std_dev": "std"}
_METRICS = {"time_to_first_token_ms": ("ttft", 1e3), "inter_token_latency_ms": ("itl", 1e3)}
_METRICS |= {"request_latency": ("e2e", 1.0)}
"""Metric of the report -> its name here, and how many of its unit are a second."""


def read(path: str, options: ReadOptions) -> Stream:
    """The stream of a benchmark's successful requests."""
    return measured(path, options).stream


def measured(path: str, options: ReadOptions) -> Measured:
    """Measurements of a benchmark. A report of several needs "FILE#2" for its second.

    Requests that failed or were cut off are left out and counted, and the rest ordered by when they started. `itl` is
    `inter_token_latency_ms`, or (e2e - ttft) / (osl - 1) where it is null. `time_per_output_token_ms` is not used: it
    includes the time to the first token.

    Source: vllm-project/guidellm: src/guidellm/schemas/request_stats.py (`GenerativeRequestStats`: request_latency in
    s) and benchmark/schemas/; up to 0.3 src/guidellm/benchmark/benchmark.py (`start_time`, `args.strategy`).
    """
    file, number = run_of(path)
    benchmarks = json_object(file).tables("benchmarks")
    run = benchmarks[chosen(benchmarks, number, file, "benchmark")]
    requests = run.table("requests")
    records = requests.tables("successful")
    if not records:
        raise ValueError(f"{run.place}: no request was successful")
    isl, osl = (
        np.array([one.count(key, 0, LARGEST_TOKENS) for one in records], float)
        for key in ("prompt_tokens", "output_tokens")
    )
    start = np.array([_start(one) for one in records])
    names = ("request_start_time", "prompt_tokens", "output_tokens")
    rows = Rows(path, lambda row: records[row].place, names, start, 1.0, isl, osl)
    ordered = checked(rows, ReadOptions(sort=True, drop=options.drop))
    columns = ("time_to_first_token_ms", "request_latency", "inter_token_latency_ms")
    ttft, e2e, stated = (np.array([_optional(records[row], key) for row in ordered.rows]) for key in columns)
    ttft, stated = ttft / 1e3, stated / 1e3
    # Where the report has no time between tokens it follows from the other two; a single token has none.
    itl = np.where(np.isnan(stated), mean_gap(ttft, e2e, ordered.osl), np.where(ordered.osl > 1.0, stated, np.nan))
    stream = ordered.stream(path, _left_out(run, requests, len(records)))
    rate, concurrency = _strategy(run)
    duration = run.number("duration") if "duration" in run else math.nan
    return Measured(stream, ttft, e2e, itl, concurrency, rate, duration, _summary(run))


def _start(one: TraceRecord) -> float:
    """Time at which a request was sent, s since 1970."""
    # Versions of the report have the time of sending under other names and in other places.
    for key in ("request_start_time", "start_time"):
        if key in one:
            return one.number(key)
    timings = one.table("info").table("timings") if "info" in one else one
    return timings.number("request_start")


def _optional(one: TraceRecord, key: str) -> float:
    return one.number(key) if key in one else math.nan


def _left_out(run: TraceRecord, requests: TraceRecord, successful: int) -> tuple[str, ...]:
    counts = [(len(requests.items(key)), key) for key in ("errored", "incomplete") if key in requests]
    notes = [f"{count} {key} requests left out" for count, key in counts if count]
    # The totals stand beside the requests or among the metrics.
    totals = next((run.table(key) for key in ("request_totals",) if key in run), None)
    if totals is None and "metrics" in run and "request_totals" in run.table("metrics"):
        totals = run.table("metrics").table("request_totals")
    # A report may hold only some of its successful requests.
    if totals is not None and "successful" in totals and totals.count("successful") > successful:
        notes.append(f"the file holds {successful} of {totals.count('successful')} successful requests")
    return tuple(notes)


def _strategy(run: TraceRecord) -> tuple[float | None, float | None]:
    """Requests per s that the client aimed at, and its limit of requests under way."""
    owner = next((run.table(key) for key in ("config", "args") if key in run), None)
    if owner is None or "strategy" not in owner:
        return None, None
    strategy = owner.table("strategy")
    kind = strategy.text("type_") if "type_" in strategy else ""
    limit = next((strategy.number(key, 1) for key in ("streams", "max_concurrency") if key in strategy), None)
    # Synchronous: the next request is sent when the one before it is answered.
    if kind == "synchronous":
        return None, 1.0
    if kind == "throughput":
        return math.inf, limit
    return strategy.number("rate") if "rate" in strategy else None, limit


def _summary(run: TraceRecord) -> dict[str, float]:
    """The report's summary of successful requests, in s."""
    metrics = run.table("metrics") if "metrics" in run else run
    statistics: dict[str, float] = {}
    # `unit` is how many of the metric's units are a second: times of tokens are in ms, of whole requests in s.
    for key, (name, unit) in _METRICS.items():
        if key not in metrics or "successful" not in metrics.table(key):
            continue
        part = metrics.table(key).table("successful")
        statistics |= {
            f"{short}_{name}": part.number(word) / unit for word, short in _STATISTICS.items() if word in part
        }
        if "percentiles" in part:
            percentiles = part.table("percentiles")
            statistics |= {
                f"{word}_{name}": percentiles.number(word) / unit for word in ("p90", "p99") if word in percentiles
            }
    return statistics

"""Results of vLLM's and SGLang's serving benchmarks, which have one form: lists per request, or totals alone."""

import dataclasses
import itertools
import math
import re
from typing import Any

import numpy as np

from workloads.streams.stream import LARGEST_TOKENS, MOST_REQUESTS, Stream, alone
from workloads.traces.documents import TraceRecord, chosen, json_lines, json_object, run_of, shown
from workloads.traces.rows import Measured, ReadOptions, Rows, checked, mean_gap, stream_name

_SUMMARY = re.compile(r"(mean|median|std|p\d+(?:\.\d+)?)_(ttft|tpot|itl|e2el|e2e_latency)_ms")


def read(path: str, options: ReadOptions) -> Stream:
    """The stream of a run's requests."""
    return measured(path, options).stream


def measured(path: str, options: ReadOptions) -> Measured:
    """Measurements of a run. A file of several runs, one per line, needs "FILE#2" for its second.

    `vllm bench serve --save-detailed` keeps input_lens, output_lens, start_times (since 2025), ttfts, itls in s, and
    errors; `--output-details` of SGLang's `bench_serving` keeps the same without start_times. End-to-end latency is
    ttft plus the sum of itls: it is not saved. An infinite `request_rate` is written as Infinity; "trace" means that
    requests followed a trace's times.

    Requests are in the order in which they were sent, where `start_times` says when; failed ones are left out and
    counted. Without `start_times` the arrivals are an assumption that `stream.notes` says. Without the lists (saved
    without details) every request has the mean lengths, and only `summary` is measured.

    Source: vllm-project/vllm, vllm/benchmarks/serve.py (`benchmark`, `main_async`); sgl-project/sglang,
    python/sglang/bench_serving.py (`benchmark`).
    """
    run = _run(*run_of(path))
    rate, concurrency = _rate(run), run.number("max_concurrency", 1) if "max_concurrency" in run else None
    duration = run.number("duration") if "duration" in run else math.nan
    # Means and percentiles that the file states, from ms to s, with one name for `e2el` and `e2e_latency`.
    summary = {}
    for key in run.values:
        words = _SUMMARY.fullmatch(key)
        if words and key in run:
            summary[f"{words[1]}_{words[2].replace('e2el', 'e2e').removesuffix('_latency')}"] = run.number(key) / 1e3
    if "input_lens" in run:
        stream, ttft, e2e = _detailed(run, path, options, rate, concurrency)
    else:
        stream = _totals(run, path, rate, concurrency)
        ttft = e2e = np.full(len(stream), np.nan)
    return Measured(stream, ttft, e2e, mean_gap(ttft, e2e, stream.osl), concurrency, rate, duration, summary)


def _run(file: str, run: int | None) -> TraceRecord:
    """The object of the run that is asked for, of a file of one JSON object or of one per line."""
    lines = json_lines(file)
    # One object over several lines fails at its first line, and is then read as a whole.
    try:
        runs = [record for _, record in itertools.islice(lines, 1)]
    except ValueError:
        runs, lines = [json_object(file)], iter(())  # one object over several lines
    runs += [record for _, record in lines]
    return runs[chosen(runs, run, file, "run")]


def _detailed(
    run: TraceRecord, path: str, options: ReadOptions, rate: float | None, concurrency: float | None
) -> tuple[Stream, np.ndarray, np.ndarray]:
    isl = run.numbers("input_lens")
    count = len(isl)
    osl, ttft = run.numbers("output_lens", count), run.numbers("ttfts", count)
    gaps = _sums(run.items("itls", count), run)
    errors = run.items("errors", count) if "errors" in run else [""] * count
    # Without output tokens a request counts as failed, whether the client noted an error or not.
    failed = np.array([bool(error) for error in errors], bool) | (osl == 0)
    if failed.all():
        raise ValueError(f"{run.place}: none of its {count} requests has output tokens")
    known = "start_times" in run
    # Without times of sending, the order of the file is that of arrival.
    start = run.numbers("start_times", count, -math.inf) if known else np.zeros(count)
    names = ("start_times", "input_lens", "output_lens")
    rows = Rows(path, lambda row: f"{run.place}: request {row}", names, start, 1.0, isl, osl)
    requests = checked(rows, ReadOptions(sort=True), ~failed)
    notes = (f"{failed.sum()} of {count} requests failed and are left out",) if failed.any() else ()
    stream = requests.stream(path, notes)
    if not known:
        stream = _assumed(stream, run, rate, concurrency)
    # End-to-end latency: the time to the first token, and all times between tokens.
    return stream, ttft[requests.rows], (ttft + gaps)[requests.rows]


def _totals(run: TraceRecord, path: str, rate: float | None, concurrency: float | None) -> Stream:
    count = run.count("completed", 1, MOST_REQUESTS)
    # At least one token per request, so that the mean is one token or more.
    isl, osl = (
        np.full(count, run.number(f"total_{side}_tokens", count, count * LARGEST_TOKENS) / count)
        for side in ("input", "output")
    )
    note = "the file holds totals alone: every request has the mean prompt and output"
    stream = Stream(stream_name(path), np.zeros(count), isl, osl, *alone(count), path, (note,))
    return _assumed(stream, run, rate, concurrency)


def _assumed(stream: Stream, run: TraceRecord, rate: float | None, concurrency: float | None) -> Stream:
    """The stream with arrivals that the client's settings suggest."""
    if rate is None:
        raise ValueError(f"{run.place}: when requests were sent is not in the file: it has no start_times and no rate")
    # An infinite rate means that the client sent everything at once.
    if math.isinf(rate):
        arrival = np.zeros(len(stream))
        limit = f", of which {concurrency:g} were sent at a time" if concurrency else ""
        note = f"when requests were sent is not in the file: all arrive at 0{limit}"
    else:
        arrival = np.arange(len(stream)) / rate
        note = f"when requests were sent is not in the file: they arrive evenly at the client's {rate:g} per s"
    return dataclasses.replace(stream, arrival=arrival, notes=(*stream.notes, note))


def _rate(run: TraceRecord) -> float | None:
    """Requests per s, inf for all at once, None where the client followed a trace or the file does not say."""
    value = run.values.get("request_rate")
    if value is None or value == "trace":
        return None
    if value == "inf" or value == math.inf:
        return math.inf
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 1e9:
        raise run.error("request_rate", "a positive number of requests per s, or inf")
    return float(value)


def _sums(lists: list[Any], run: TraceRecord) -> np.ndarray:
    """Sum of each request's times between tokens in s, shape [requests]."""
    sums = np.zeros(len(lists))
    for request, gaps in enumerate(lists):
        if not isinstance(gaps, list):
            raise ValueError(f"{run.place}: itls[{request}] is {shown(gaps)}; it must be a list")
        sums[request] = TraceRecord(f"{run.place}: itls", {str(request): gaps}).numbers(str(request)).sum()
    return sums

"""Results of SGLang's `bench_serving`: JSON lines, one object per run."""

from workloads.stream import Stream
from workloads.traces.bench_result import measured_result
from workloads.traces.documents import run_of
from workloads.traces.measured import Measured
from workloads.traces.rows import Options
from workloads.traces.vllm import one_run


def read(path: str, options: Options) -> Stream:
    """The stream of a run's requests."""
    return measured(path, options).stream


def measured(path: str, options: Options) -> Measured:
    """Measurements of a run. Every run appends a line, so a file of several needs "FILE#2".

    `--output-details` keeps input_lens, output_lens, ttfts and itls in s, and errors; when requests were sent is not
    kept. An infinite `request_rate` is written as Infinity; "trace" means that requests followed a trace's times.

    Source: sgl-project/sglang, python/sglang/bench_serving.py (`benchmark`).
    """
    file, run = run_of(path)
    return measured_result(one_run(file, run), path, options)

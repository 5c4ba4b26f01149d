"""Results of `vllm bench serve --save-result` and `--save-detailed`: a JSON object per run."""

import itertools

from workloads.stream import Stream
from workloads.traces.bench_result import measured_result
from workloads.traces.documents import Record, chosen, json_lines, json_object, run_of
from workloads.traces.measured import Measured
from workloads.traces.rows import Options


def read(path: str, options: Options) -> Stream:
    """The stream of a run's requests."""
    return measured(path, options).stream


def measured(path: str, options: Options) -> Measured:
    """Measurements of a run. A file of several runs (`--append-result`, one per line) needs "FILE#2".

    `--save-detailed` keeps input_lens, output_lens, start_times (since 2025), ttfts, itls in s, and errors;
    without it they are taken out and totals remain. End-to-end latency is ttft plus the sum of itls: it is not saved.

    Source: vllm-project/vllm, vllm/benchmarks/serve.py (`benchmark`, `main_async`).
    """
    file, run = run_of(path)
    return measured_result(one_run(file, run), path, options)


def one_run(file: str, run: int | None) -> Record:
    """The object of the run that is asked for, of a file of one JSON object or of one per line."""
    lines = json_lines(file)
    try:
        runs = [record for _, record in itertools.islice(lines, 1)]
    except ValueError:
        runs, lines = [json_object(file)], iter(())  # one object over several lines
    runs += [record for _, record in lines]
    return runs[chosen(runs, run, file, "run")]

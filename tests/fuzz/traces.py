"""Loaders of traces and of benchmarks' results."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from tests import trace_files as files
from tests.fuzz.documents import Csv, Json, Lines, Words
from tests.fuzz.sensible import require_sensible
from tests.fuzz.target import Target, in_file

PERF = (
    "load:\n  type: constant\n  stages:\n  - rate: 2\n    duration: 3\n"
    "data:\n  type: random\n  input_distribution: {min: 10, max: 100, mean: 50, std: 10, total_count: 20}\n"
    "  output_distribution: {min: 10, max: 100, mean: 50, std: 10, total_count: 20}\n"
)


def targets() -> list[Target]:
    """What reads traces."""
    tables = [files.AZURE_2023, files.AZURE_2024, files.VIDUR, files.SPLITWISE, files.BURST, files.BURST_3]
    header = {"own.yaml": files.BLIS_HEADER.encode()}
    return [
        Target("trace_csv", in_file("own.csv", _read("auto")), _texts(*tables), Csv),
        Target("trace_blis", in_file("own.csv", _read("blis"), header), _texts(files.BLIS), Csv),
        Target("trace_mooncake", in_file("own.jsonl", _read("auto")), _texts(files.MOONCAKE, files.TURNS), Lines),
        Target("trace_agents", in_file("own.jsonl", _read("auto")), _texts(files.CALLS, files.STEPS), Lines),
        Target(
            "trace_bench",
            in_file("own.json", _read("auto")),
            _texts(*map(json.dumps, (files.VLLM, files.SGLANG, files.GUIDE))),
            Json,
            ("request_rate", "hash_ids", "benchmarks", "completed", "input_lens"),
        ),
        Target("trace_yaml", in_file("own.yaml", _read("inference-perf")), _texts(PERF, files.BLIS_HEADER), Words),
        Target("measured", in_file("own.json", _measured), _texts(json.dumps(_many())), Json),
    ]


def _many() -> dict[str, Any]:
    """A run of enough requests to calibrate to."""
    lists = {key: value * 60 for key, value in files.VLLM.items() if isinstance(value, list)}
    return {**files.VLLM, **lists, "num_prompts": 180, "completed": 120}


def _texts(*texts: str) -> Callable[[], list[bytes]]:
    return lambda: [text.encode() for text in texts]


def _read(format: str) -> Callable[[str], Any]:
    def read(path: str) -> None:
        from workloads.traces import read_trace

        found = read_trace(path, format)
        if not len(found):
            raise AssertionError("a stream without requests")
        require_sensible([found.arrival, found.isl, found.osl, found.shared], beyond=1e15)
        if (found.isl < 1).any() or (np.diff(found.arrival) < 0).any():
            raise AssertionError("requests that cannot be")

    return read


def _measured(path: str) -> None:
    from sweeps.serving.calibration.measured_run import measured_run
    from workloads.traces import read_measured

    found = read_measured(path)
    for times in (found.ttft, found.e2e, found.itl):
        known = times[~np.isnan(times)]
        require_sensible(known, beyond=1e300)
    measured_run(found)

"""Detection of a trace's format, by its name and its first line or object."""

import re
import shlex
from collections.abc import Collection, Container, Iterable, Mapping
from pathlib import Path

from workloads.streams.kinds import nearest
from workloads.traces import (
    azure,
    bench_result,
    blis,
    burstgpt,
    columns,
    guidellm,
    inference_perf,
    llmservingsim,
    mooncake,
    servegen,
    sharegpt,
    splitwise,
    tracelab,
)
from workloads.traces.documents import TraceRecord, json_lines, json_object, run_of, starts_list, yaml_object
from workloads.traces.table import header_of

FORMATS = {
    "azure": azure,  # CSV with TIMESTAMP, ContextTokens, GeneratedTokens
    "splitwise": splitwise,  # CSV of Splitwise or Vidur: arrived_at, num_prefill_tokens, num_decode_tokens
    "mooncake": mooncake,  # JSON lines with timestamp, input_length, output_length, perhaps hash_ids
    "burstgpt": burstgpt,  # CSV with Timestamp, Request tokens, Response tokens
    "servegen": servegen,  # chunk-N-trace.csv with chunk-N-dataset.json, or a folder of them
    "blis": blis,  # CSV of a BLIS TraceV2 with its YAML header beside it
    "vllm": bench_result,  # JSON of vllm bench serve --save-result
    "sglang": bench_result,  # JSON lines of SGLang's bench_serving
    "guidellm": guidellm,  # JSON report of GuideLLM
    "inference-perf": inference_perf,  # YAML config of inference-perf
    "sharegpt": sharegpt,  # JSON or JSON lines of conversations
    "llmservingsim": llmservingsim,  # JSON lines of LLMServingSim: input_toks, output_toks, perhaps sub_requests
    "tracelab": tracelab,  # JSON lines of TraceLab: input_tokens_total, prefix_tokens, timing_events
    "columns": columns,  # any CSV, JSON lines or JSON list, with columns arrival=...,prompt=...,output=...
}
"""Every format: its module, with `read(path, options)` and perhaps `measured(path, options)`; how it looks beside."""

_SGLANG = ("sharegpt_output_len", "random_range_ratio", "total_output_tokens_retokenized")
_BENCH = ("completed", "total_input_tokens", "request_throughput")


def format_of(path: str, name: str = "auto", measured: bool = False) -> str:
    """The format that `name` says, or that the file has.

    Args:
      path: the file, or the folder of ServeGen's data.
      name: a key of `FORMATS`, or "auto".
      measured: latencies are wanted, which other columns would not have.

    Raises:
      ValueError: one line: an unknown name, a file that is missing, or one that looks like none of the formats.
    """
    if name != "auto":
        if name not in FORMATS:
            raise ValueError(f"format {name} is not known{nearest(name, ['auto', *FORMATS])}")
        return name
    # A `#2` at the end is the number of a run, unless a file is really called so.
    file = path if Path(path).exists() else run_of(path)[0]
    location = Path(file)
    if not location.exists():
        raise ValueError(f"{file}: no such file")
    # Only ServeGen's data come as a folder, and its files have fixed names.
    if location.is_dir() or servegen.TRACE.fullmatch(location.name):
        return "servegen"
    ending = location.suffix.lower()
    format_name, names = _of_ending(file, ending)
    if format_name is None:
        raise ValueError(f"{file}: {_unknown(names, ending, measured)}")
    return format_name


_YAML, _OBJECTS = (".yaml", ".yml"), (".json", ".jsonl", ".ndjson", ".yaml", ".yml")
"""Endings of files of YAML, and of those that hold keys."""


def latencies() -> str:
    """Names of formats that hold latencies."""
    return ", ".join(key for key, module in FORMATS.items() if hasattr(module, "measured"))


def _unknown(names: list[str], ending: str, measured: bool) -> str:
    """What to do with a file of these keys or columns, which no format has."""
    if not names:
        return "it is empty, or no CSV and no JSON"
    separator = "tabs" if ending == ".tsv" else next((sign for sign in ";|" if sign in names[0]), None)
    if len(names) == 1 and separator is not None:
        return f"its columns are separated by {separator}; a CSV of commas is read"
    kinds = "keys" if ending in _OBJECTS else "columns"
    how = f"name its format, one of {', '.join(FORMATS)}"
    if measured:
        how = f"a benchmark's results are wanted, with the latencies of every request: {latencies()}"
    elif ending not in _YAML:
        how = f"name them, --columns {shlex.quote(columns.proposed(names))}, or its --format"
    return f"no known format of traces has its {kinds}, {_listed(names)}; {how}"


def _of_ending(file: str, ending: str) -> tuple[str | None, list[str]]:
    """The format, and the keys or columns that the file has."""
    if ending in _YAML:
        config = yaml_object(file)
        names = {"blis": ("trace_version",), "inference-perf": ("load", "stages", "shared_prefix")}
        return _first(names, config), [*config.values]
    if ending in _OBJECTS:
        # A list, which its first character tells, is one of conversations, or of objects whose keys have to be named.
        if starts_list(file):
            return "sharegpt", []
        record = _first_object(file)
        return _of_object(record), [*columns.names_of(record.values)]
    header = header_of(file)
    known = {
        "azure": azure.COLUMNS[:1],
        "splitwise": (splitwise.VIDUR[1], splitwise.SPLITWISE[0]),
        "burstgpt": burstgpt.COLUMNS[1:2],
        "blis": blis.COLUMNS[:1],
    }
    return _first(known, header), [*header]


def _first(names: Mapping[str, Collection[str]], there: Container[str] | TraceRecord) -> str | None:
    """The first key of which one name is there."""
    return next((key for key, known in names.items() if any(name in there for name in known)), None)


def _of_object(record: TraceRecord) -> str | None:
    if "hash_ids" in record or "input_length" in record:
        return "mooncake"
    if llmservingsim.CALLS in record or llmservingsim.COLUMNS[1] in record:
        return "llmservingsim"
    if tracelab.COLUMNS[1] in record and tracelab.PREFIX in record:
        return "tracelab"
    if sharegpt.is_conversation(record.values):
        return "sharegpt"
    if "benchmarks" in record:
        return "guidellm"
    # SGLang's results have most of vLLM's keys too, so its own keys are looked for first.
    if any(key in record.values for key in _SGLANG):
        return "sglang"
    return "vllm" if any(key in record for key in _BENCH) else None


def _first_object(file: str) -> TraceRecord:
    """The first line's object, or the whole file's."""
    # JSON lines have an object on the first line; an object over several lines fails there.
    try:
        return next(json_lines(file))[1]
    except (ValueError, StopIteration):
        return json_object(file)


def _listed(names: Iterable[object]) -> str:
    words = [re.sub(r"\s+", " ", str(name))[:40] for name in names]
    return ", ".join(words[:8]) + (f" and {len(words) - 8} more" if len(words) > 8 else "") if words else "empty"

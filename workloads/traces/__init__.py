"""Traces in other tools' formats: requests, and a benchmark's measurements of them."""

from typing import Any

from workloads.streams.stream import Stream
from workloads.traces.detection import FORMATS, format_of, latencies
from workloads.traces.mooncake import LARGEST_BLOCK
from workloads.traces.rows import UNITS, Measured, ReadOptions

__all__ = ["FORMATS", "Measured", "format_of", "read_measured", "read_trace"]


def read_trace(
    path: str,
    format: str = "auto",
    *,
    sort: bool = False,
    drop: bool = False,
    seed: int = 0,
    span: tuple[float, float] | None = None,
    block_tokens: int | None = None,
    time_unit: str | None = None,
    columns: str | None = None,
) -> Stream:
    """The requests of a trace file, each row checked; times count from the first request.

    Args:
      path: a file, or ServeGen's folder; "FILE#2" is the second run of a file of benchmark results.
      format: a key of `FORMATS`; "auto": as the file looks.
      sort: put rows in order that are not, instead of refusing them.
      drop: leave out, and count in the notes, rows with 0 prompt or output tokens, instead of refusing them.
      seed: of formats that describe a workload: servegen, inference-perf.
      span: (from, to) in s, the part of a ServeGen workload.
      block_tokens: prompt tokens that one of mooncake's hashes stands for; None: as the number of them says.
      time_unit: s, ms, us or ns, of times that are numbers; None: as the format has them.
      columns: "arrival=ts,prompt=prompt_tokens,output=answer_tokens": a CSV, JSON lines or a JSON list with these.

    Raises:
      ValueError: one line that names file, row (as an editor counts lines), column, value and what is allowed. Files
        are at most 2 GiB (one JSON value: 512 MiB; YAML: 64 KiB) and 50 million requests.
    """
    # Named columns are a format of their own: where they are given, nothing is detected.
    module = FORMATS["columns" if columns and format == "auto" else format_of(str(path), format)]
    return module.read(str(path), _options(path, module, sort, drop, seed, span, block_tokens, time_unit, columns))


def read_measured(path: str, format: str = "auto", *, sort: bool = False, drop: bool = False) -> Measured:
    """The requests of a benchmark's result file with their measured latencies; arguments as of `read_trace`.

    Raises:
      ValueError: as `read_trace`, and for a format that holds no measurements.
    """
    name = format_of(str(path), format, measured=True)
    module = FORMATS[name]
    # Modules of formats that only list requests have no function `measured`.
    if not hasattr(module, "measured"):
        raise ValueError(f"{path}: a {name} file holds no latencies; those of {latencies()} do")
    return module.measured(str(path), ReadOptions(sort, drop))


def _options(
    path: str,
    module: Any,
    sort: bool,
    drop: bool,
    seed: int,
    span: tuple[float, float] | None,
    block_tokens: int | None,
    time_unit: str | None,
    columns: str | None,
) -> ReadOptions:
    if seed != int(seed) or not 0 <= seed < 2**63:
        raise ValueError(f"seed is {seed}; it must be a whole number of at least 0")
    # Each option belongs to one or two formats; any other would ignore it without a word.
    if span is not None and module is not FORMATS["servegen"]:
        raise ValueError(f"{path}: span picks a part of a servegen workload only")
    if span is not None and not 0.0 <= span[0] < span[1]:
        raise ValueError(f"span is {span[0]:g} to {span[1]:g} s; it must go from 0 or later to a later time")
    mooncake, named = FORMATS["mooncake"], FORMATS["columns"]
    if block_tokens is not None and module is not mooncake:
        raise ValueError(f"{path}: block_tokens is of mooncake's hashes only")
    if block_tokens is not None and not 1 <= block_tokens <= LARGEST_BLOCK:
        raise ValueError(f"block_tokens is {block_tokens}; it must be a whole number from 1 to {LARGEST_BLOCK}")
    if time_unit is not None and module not in (mooncake, named):
        raise ValueError(f"{path}: time_unit is of mooncake's times and of named columns only")
    if time_unit is not None and time_unit not in UNITS:
        raise ValueError(f"time_unit is {time_unit!r}; it must be {', '.join(UNITS)}")
    if columns and module is not named:
        raise ValueError(f"{path}: columns name those of a file of no known format: give no format, or columns")
    return ReadOptions(sort, drop, int(seed), span, block_tokens, time_unit, columns)

"""Requests of the simulators Splitwise and Vidur: a CSV of arrivals in seconds and token counts."""

from workloads.streams.stream import Stream
from workloads.traces.rows import ReadOptions, checked, listed
from workloads.traces.table import COUNT, NUMBER, header_of, table

VIDUR = ("arrived_at", "num_prefill_tokens", "num_decode_tokens")
SPLITWISE = ("arrival_timestamp", "prompt_size", "token_size")


def read(path: str, options: ReadOptions) -> Stream:
    """The stream of Vidur's or Splitwise's columns; times count from the first request.

    Source: Vidur, data/processed_traces (`arrived_at,num_prefill_tokens,num_decode_tokens`); Splitwise,
    splitwise-sim/generate_trace.py (`request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,
    token_size`).
    """
    # The two tools have other names for the same three columns.
    names = SPLITWISE if SPLITWISE[0] in header_of(path) else VIDUR
    trace = table(path, dict(zip(names, (NUMBER, COUNT, COUNT), strict=True)))
    return checked(listed(trace, names, 1.0), options).stream(path, trace.unused())

"""Requests of the simulators Splitwise and Vidur: a CSV of arrivals in seconds and token counts."""

from workloads.stream import Stream, alone
from workloads.traces.rows import Options, Rows, checked
from workloads.traces.table import COUNT, NUMBER, header_of, table

VIDUR = ("arrived_at", "num_prefill_tokens", "num_decode_tokens")
SPLITWISE = ("arrival_timestamp", "prompt_size", "token_size")


def read(path: str, options: Options) -> Stream:
    """The stream of Vidur's or Splitwise's columns; times count from the first request.

    Source: Vidur, data/processed_traces (`arrived_at,num_prefill_tokens,num_decode_tokens`); Splitwise,
    splitwise-sim/generate_trace.py (`request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,
    token_size`).
    """
    names = SPLITWISE if SPLITWISE[0] in header_of(path) else VIDUR
    found = table(path, dict(zip(names, (NUMBER, COUNT, COUNT), strict=True)))
    time, isl, osl = (found.columns[name] for name in names)
    kept = checked(Rows(path, found.place, names, time, 1.0, isl, osl), options)
    return kept.stream(path, *alone(len(kept.rows)), notes=found.unused())

"""A request stream in numbers, as text and JSON."""

import dataclasses
import math
from typing import Any


def record(stream: Any, numbers: Any) -> dict[str, Any]:
    """A stream's numbers for machines; those of branches and of turns that wait only where there are some."""
    about = {"name": stream.name, "source": stream.source}
    absent = {"branches": not numbers.branches, "waiting": not numbers.waiting, "pause": not numbers.waiting}
    there = {name: value for name, value in dataclasses.asdict(numbers).items() if not absent.get(name)}
    return {**about, **there, "notes": list(stream.notes)}


def show(stream: Any, numbers: Any) -> None:
    """Print a stream's numbers."""
    from sweeps.answers.tables import console, percent, table
    from sweeps.ask.text import escaped
    from sweeps.data.labels import number
    from workloads.streams.stream import span_text

    out = console()
    out.print(f"{escaped(stream.name, breaks=True)}: {numbers.requests:,} requests in {span_text(numbers.duration)}")
    out.print(escaped(f"source  {stream.source}", breaks=True))
    out.print()
    columns = ("mean", "p50", "p90", "p99", "max", "total")
    lengths_table = table("tokens", *columns, numbers=columns)
    for name, lengths in (("prompt", numbers.isl), ("output", numbers.osl)):
        lengths_table.add_row(name, *(number(getattr(lengths, column), 3) for column in columns))
    out.print(lengths_table)
    # Requests that all come at once have an infinite rate; too few requests have none.
    rate = "all at once" if math.isinf(numbers.rate) else f"{number(numbers.rate)} requests/s"
    out.print(f"mean rate     {'-' if math.isnan(numbers.rate) else rate}")
    burstiness = "-" if math.isnan(numbers.burstiness) else number(numbers.burstiness)
    # Coefficient of variation of the times between arrivals, which is 1 for a Poisson process.
    out.print(f"burstiness    {burstiness} (standard deviation over mean of the times between arrivals; Poisson: 1)")
    # Prompt tokens that repeat a prefix of an earlier request, and the groups that share prefixes.
    cached = f"{percent(numbers.cacheable)} of the prompt tokens"
    groups = f"{numbers.groups:,} groups with {percent(numbers.grouped)} of the requests"
    more = f", from which {numbers.branches:,} groups branch off" if numbers.branches else ""
    out.print(f"prefix cache  could have {cached}, in {groups}{more}")
    if numbers.waiting:
        pause = f"{span_text(numbers.pause)} after it on average"
        out.print(f"turns         {percent(numbers.waiting)} of the requests wait for an answer, and come {pause}")
    for note in stream.notes:
        out.print(f"note          {note}")

"""Text of a sweep's plan: what it will take."""

import os
import shutil
from typing import Any

from sweeps.answers.answer import say
from sweeps.ask.text import escaped, rate_text


def print_forecast(found: Any, output: str | None) -> None:
    """Print what a sweep will take.

    Args:
      found: a `sweeps.run.shards.forecast.Forecast`.
      output: where the sweep would be written; None where that is not said.
    """
    from sweeps.answers.tables import size

    say(escaped(found.title, breaks=True))
    sides = " x ".join(f"{points:,} {name}" for name, points in found.axes.items()) or "no axes"
    say(f"points     {found.points:,}: {sides}")
    names = ", ".join(found.variables[:6]) + (", ..." if len(found.variables) > 6 else "")
    say(f"variables  {len(found.variables)}: {names}")
    if found.keep:
        say(f"kept       {', '.join(found.keep)}")
    packed = f"about {size(found.bytes)}; {size(found.raw_bytes)} of values before anything is kept or packed"
    say(f"disk       {size(found.raw_bytes) if found.bytes == found.raw_bytes else packed}")
    say(f"files      {found.shards:,}, of {found.shard_points:,} points at most")
    of = f"{found.processes:,} {'process' if found.processes == 1 else 'processes'}"
    say(f"rate       {rate_text(found.points_per_second)} points/s on this machine in {of}, with writing")
    machines = "a machine" if found.machines == 1 else f"{found.machines:,} machines"
    say(f"time       {_duration(found.hours)} on {machines} such as this; {found.machine_hours:,.3g} machine-hours")
    if found.usd is None:
        say("price      not known: --machine-price USD of a machine's hour")
    else:
        say(f"price      {found.usd:,.3g} USD at {found.usd_per_machine_hour:,g} USD per machine-hour")
    say(
        f"note       rate and disk are those of {found.sample_points:,} points ({size(found.sample_bytes)}) that were "
        "computed now; a machine's start comes on top"
    )
    free = _free(output)
    if free is not None and free < found.bytes:
        say(f"note       {output} has {size(free)} free, which is too little")


def _duration(hours: float) -> str:
    """A time in the unit that suits it."""
    for unit, length in (("days", 24.0), ("hours", 1.0), ("minutes", 1 / 60)):
        if hours >= 2 * length:
            return f"{hours / length:,.3g} {unit}"
    return f"{hours * 3600:,.3g} s"


def _free(output: str | None) -> float | None:
    """B that are free where a sweep would be written; None where that is not known."""
    if output is None or "://" in output:
        return None
    try:
        return shutil.disk_usage(os.path.dirname(os.path.abspath(output.rstrip("/")))).free
    except OSError:
        return None

"""Offered load of a simulated engine: which requests come, and when."""

import dataclasses

from jaxroof.field import number, option, text


@dataclasses.dataclass(frozen=True, kw_only=True)
class OfferedLoad:
    """Requests as a user writes them: names, numbers in SI units, or text with units.

    One of: a `trace`; an open loop of `rate` or `arrivals` with `isl` and `osl`; a closed loop of `concurrency`
    clients with `isl` and `osl` or with the lengths of a `trace`.
    """

    trace: str | None = text("file of requests", default=None)
    format: str | None = text("format of the trace", "None: as it looks", default=None)
    sort: bool = option("put rows of the trace in order that are not, instead of refusing them", default=False)
    drop: bool = option("leave out rows of the trace without tokens, instead of refusing them", default=False)
    rate: float | str | None = number(
        "1/s", "requests sent per second", "to all replicas; with a trace its times are scaled to it", default=None
    )
    arrivals: str | None = text(
        "arrivals of requests", 'in place of `rate`: "gamma:rate=8,cv=3", "stages:8x60,16x30"', default=None
    )
    concurrency: int | str | None = number(
        "1", "clients with a request under way", "of a closed loop, of all replicas", whole=True, default=None
    )
    think: float | str = number("s", "time between an answer and its client's next request", zero=True, default=0.0)
    isl: float | str | None = number(
        "1", "prompt tokens per request", '1024, "lognormal:mean=1024,sigma=0.8"', whole=True, default=None
    )
    osl: float | str | None = number("1", "output tokens per request", whole=True, default=None)
    requests: int | str | None = number(
        "1", "requests of the simulation", "or the first ones of a trace", whole=True, default=None
    )
    duration: float | str | None = number("s", "time in which requests arrive", default=None)
    prefixes: str | None = text("system prompts that requests share", '"groups=10,tokens=1000,zipf=1"', default=None)
    sessions: str | None = text("conversations that requests are turns of", '"turns=2..8,think=30"', default=None)
    seed: int | str = number("1", "seed of the requests that are drawn", zero=True, whole=True, default=0)


LOAD = tuple(field.name for field in dataclasses.fields(OfferedLoad))
"""What says which requests come, by name."""

"""Offered load of a simulated engine: which requests come, and when."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from jaxroof.numerics.struct import count, number, option, share, text


@dataclasses.dataclass(frozen=True, kw_only=True)
class OfferedLoad:
    """Requests as a user writes them: names, numbers in SI units, or text with units.

    One of: a `trace`; an open loop of `rate` or `arrivals` with `isl` and `osl`, or with the classes of a `traffic`
    file; a closed loop of `concurrency` clients with these, or with the lengths of a `trace`. With `sessions` a rate
    counts conversations that start, and a client holds one conversation at a time.
    """

    trace: str | None = text(
        "file of requests",
        "a trace or a benchmark's results (jaxroof trace)",
        condition=True,
        default=None,
        flag="FILE",
    )
    format: str | None = text(
        "format of the trace", "azure, mooncake, vllm ...; none: as it looks", default=None, flag="NAME"
    )
    sort: bool = option("put the trace's rows in order, instead of refusing them", default=False)
    drop: bool = option("leave out the trace's rows without tokens, instead of refusing them", default=False)
    columns: str | None = text(
        "columns of a trace of no known format",
        "what it calls arrival, prompt and output tokens: arrival=ts,prompt=prompt_tokens,output=answer_tokens",
        default=None,
        flag="NAME=COLUMN,..",
    )
    time_unit: str | None = text(
        "unit of the trace's times", "s, ms, us or ns; none: as the format has them", default=None, flag="UNIT"
    )
    trace_block_tokens: int | str | None = count(
        "prompt tokens per hash of the trace",
        "of mooncake's format; none: as the number of hashes says, 512 or 16 ...",
        default=None,
        flag="N",
    )
    traffic: str | None = text(
        "file of classes of requests",
        "a table of each: share or rate, isl, osl, prefixes, slo; chat is one of the distribution",
        condition=True,
        default=None,
        flag="FILE",
    )
    rate: float | str | None = number(
        "1/s",
        "requests sent per second",
        "to all replicas, as a Poisson stream; with sessions it counts conversations that start, each of several "
        "requests; scales the times of a trace",
        condition=True,
        default=None,
        flag="R",
    )
    arrivals: str | None = text(
        "arrivals of requests",
        "in place of a rate: gamma:rate=8,cv=3, stages:8x60,16x30",
        condition=True,
        default=None,
        flag="TEXT",
    )
    concurrency: int | str | None = count(
        "clients with a request under way",
        "each sends when its last request ended; with sessions each holds one; of all replicas",
        condition=True,
        default=None,
        flag="N",
    )
    think: float | str = number(
        "s",
        "time between an answer and its client's next request",
        "with sessions its next conversation",
        zero=True,
        condition=True,
        default=0.0,
        flag="TIME",
    )
    isl: float | str | None = count(
        "prompt tokens per request", "1024, lognormal:mean=1024,sigma=0.8", condition=True, default=None, flag="TEXT"
    )
    osl: float | str | None = count("output tokens per request", condition=True, default=None, flag="TEXT")
    requests: int | str | None = count(
        "requests of the simulation",
        "1000 where nothing says otherwise; of a trace the first ones",
        default=None,
        flag="N",
    )
    duration: float | str | None = number(
        "s", "time in which requests arrive", "in place of their number", default=None, flag="TIME"
    )
    image: str | None = text(
        "size in pixels of the images in every request",
        "1036x1036; several as 1036x1036,640x480, or given again; their tokens come to those of the prompt",
        condition=True,
        default=None,
        flag="WxH,..",
    )
    images: int | str | None = count(
        "images of every such size in every request", "none: 1", condition=True, default=None, flag="N"
    )
    prefixes: str | None = text(
        "system prompts that requests share", "groups=10,tokens=1000,zipf=1", condition=True, default=None, flag="TEXT"
    )
    hit_rate: float | str | None = share(
        "share of every prompt that the prefix cache has",
        "as if all prompts began alike; the first one fills the cache",
        open=True,
        condition=True,
        default=None,
        flag="SHARE",
    )
    sessions: str | None = text(
        "conversations or agents that requests are turns of",
        "turns=2..8,think=30; turns=5,tools=0..3",
        condition=True,
        default=None,
        flag="TEXT",
    )
    seed: int | str = count("seed of the requests that are drawn", zero=True, condition=True, default=0, flag="N")


LOAD = tuple(field.name for field in dataclasses.fields(OfferedLoad))
"""What says which requests come, by name."""

# A sort is left out: rows that were put in order are no other load.
COMPARED = tuple(name for name in LOAD if name not in ("rate", "concurrency", "think", "sort"))
"""Those of a comparison, which finds the rate itself; what it is sorted by is no trace."""


# Figures of work without output: prompts that are answered with one token, or with a vector.


THOUSAND = 1e3
"""Requests that a price is of."""

OF_OUTPUT = ("tpot", "itl", "decode_", "tokens_per_second", "run_tokens_per_second", "tokens_per_joule", "energy_delay")
"""Beginnings of the names of figures that are of output tokens alone."""

PER_MILLION, OF_PROMPTS = "_per_million_tokens", "_per_million_prompt_tokens"
"""Endings of figures of output tokens, and of the same figures of prompt tokens."""


def without_output(metrics: Mapping[str, Any], prompt: float) -> dict[str, Any]:
    """Metrics of requests of one output token each, those of output tokens in terms of requests and of prompt tokens.

    Args:
      metrics: of a job or a simulation.
      prompt: tokens of a prompt, mean.
    """
    # Latencies per token and rates of output tokens mean nothing where an answer is one token or a vector.
    figures = {name: value for name, value in metrics.items() if not name.startswith(OF_OUTPUT)}
    # One output per request: output tokens per second are requests per second.
    if "tokens_per_second" in metrics and "requests_per_second" not in metrics:
        figures["requests_per_second"] = metrics["tokens_per_second"]
        figures["prompt_tokens_per_second"] = metrics["tokens_per_second"] * prompt
    for name in metrics:
        # A price of 1e6 output tokens is one of 1e6 requests, each of `prompt` tokens.
        if name.endswith(PER_MILLION):
            figures[name.removesuffix(PER_MILLION) + OF_PROMPTS] = figures.pop(name) / prompt
    if "usd_per_million_tokens" in metrics:
        figures["usd_per_thousand_requests"] = metrics["usd_per_million_tokens"] / THOUSAND
    # One output token per request, so that energy per token is energy per request, J.
    if "joules_per_token" in metrics:
        figures["joules_per_request"] = figures.pop("joules_per_token")
    return figures


def prompt_metric(name: str) -> str:
    """The name under which `without_output` has a figure; "requests_per_second" for one of output alone."""
    if name.endswith(PER_MILLION):
        return name.removesuffix(PER_MILLION) + OF_PROMPTS
    if name == "joules_per_token":
        return "joules_per_request"
    return "requests_per_second" if name.startswith(OF_OUTPUT) else name

"""`jaxroof trace`: statistics of a request stream, of a trace file or drawn from distributions."""

import argparse
import math
import re
from typing import Any

from sweeps.answers.answer import say
from sweeps.answers.to_json import print_json
from sweeps.cli.common import given
from sweeps.cli.outputs import picture_argument, write

REQUESTS = 1000
"""Requests that are drawn where neither their number nor a duration is given."""

OF_FILES = ("format", "sort", "drop", "span", "columns", "time_unit", "block_tokens")
OF_DISTRIBUTIONS = ("isl", "osl", "requests", "duration", "prefixes", "sessions")
"""Flags that go with a file, or without one."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    parser.add_argument("file", nargs="?", metavar="FILE", help="a trace or a benchmark's results; FILE#2: its run 2")
    what = "arrivals: 8 (requests, or conversations, per s), gamma:rate=8,cv=3, stages:8x60,16x30; scales a FILE's"
    parser.add_argument("--rate", metavar="TEXT", help=what)
    parser.add_argument("--first", metavar="N", help="only the first N requests")
    parser.add_argument("--seed", metavar="N", default="0", help="of what is drawn (default 0)")
    parser.add_argument("--json", action="store_true", help="one JSON object with SI numbers instead of text")
    picture_argument(parser, "a .png or .svg to draw", "-o", "--output")
    files = parser.add_argument_group("of a file")
    what = "auto (default), azure, splitwise, mooncake, burstgpt, servegen, blis, vllm, sglang, guidellm, "
    files.add_argument(
        "--format", metavar="NAME", help=what + "inference-perf, sharegpt, llmservingsim, tracelab or columns"
    )
    what = "of a CSV or JSON lines of any names: arrival=ts,prompt=prompt_tokens,output=answer_tokens"
    files.add_argument("--columns", metavar="NAME=COLUMN,..", help=what)
    files.add_argument("--time-unit", metavar="UNIT", help="s, ms, us or ns (default: as the format has them)")
    what = "prompt tokens per hash (default: as the number of hashes says: 512, 16 ...)"
    files.add_argument("--block-tokens", metavar="N", help=what)
    files.add_argument("--sort", action="store_true", help="put rows in order that are not, instead of refusing them")
    files.add_argument("--drop", action="store_true", help="leave out, and count, rows without tokens")
    files.add_argument("--span", metavar="A..B", help="seconds A to B of ServeGen's data")
    drawn = parser.add_argument_group("without a file")
    what = "prompt tokens: 1024, uniform:128..2048, lognormal:p50=700,p99=8000"
    drawn.add_argument("--isl", metavar="TEXT", help=what)
    drawn.add_argument("--osl", metavar="TEXT", help="output tokens")
    drawn.add_argument("--requests", metavar="N", help=f"how many (default {REQUESTS}, unless --duration or stages)")
    drawn.add_argument("--duration", metavar="S", help="seconds, as many requests as arrive within them")
    drawn.add_argument("--prefixes", metavar="TEXT", help="system prompts: groups=10,tokens=1000,zipf=1")
    drawn.add_argument("--sessions", metavar="TEXT", help="conversations: turns=2..8,think=30; or turns=5,tools=0..3")


def run(options: argparse.Namespace) -> None:
    """Describe the stream, and draw it."""
    from sweeps.answers.trace import record, show
    from workloads.streams.streams import summary

    stream = _stream(options)
    numbers = summary(stream)
    if options.output:
        from sweeps.show.trace import trace

        write(options, "output", lambda: trace(stream))
    if options.json:
        return print_json(record(stream, numbers))
    show(stream, numbers)
    if options.output:
        say(f"picture  {options.output}")


def _stream(options: argparse.Namespace) -> Any:
    """The stream that the flags describe."""
    from workloads.streams.streams import first, generated, with_rate
    from workloads.traces import read_trace

    # Lengths and numbers of requests come from a file or from flags, but not from both.
    if foreign := given(options, OF_DISTRIBUTIONS if options.file else OF_FILES):
        why = f"{options.file} says what requests are" if options.file else "it needs a FILE"
        raise ValueError(f"{foreign[0]} cannot be given: {why}")
    seed = _whole("--seed", options.seed)
    if options.file:
        # How to read the file; numbers among these are checked here, and words where they are used.
        words: dict[str, Any] = {name: getattr(options, name) for name in ("sort", "drop", "columns", "time_unit")}
        words["span"] = _span(options.span)
        words["block_tokens"] = None if options.block_tokens is None else _whole("--block-tokens", options.block_tokens)
        stream = read_trace(options.file, options.format or "auto", seed=seed, **words)
        # A rate rescales the file's arrivals, and keeps their pattern.
        if options.rate:
            stream = with_rate(stream, _number("--rate", options.rate))
    else:
        if missing := [flag for flag in ("rate", "isl", "osl") if not getattr(options, flag)]:
            raise ValueError(f"--{missing[0]} is missing; or give a FILE")
        duration = None if options.duration is None else _number("--duration", options.duration)
        # A duration or stages say how many requests arrive, so that no number is needed.
        usual = None if duration is not None or options.rate.strip().lower().startswith("stages") else REQUESTS
        requests = usual if options.requests is None else _whole("--requests", options.requests)
        words = {"requests": requests, "duration": duration, "prefixes": options.prefixes, "sessions": options.sessions}
        stream = generated(options.rate, options.isl, options.osl, **words, seed=seed)
    return stream if options.first is None else first(stream, _whole("--first", options.first))


def _number(flag: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    # The comparison also refuses not a number, which stands for text that is none.
    if not 0.0 < value < math.inf:
        raise ValueError(f"{flag} is {text}; it must be a positive number")
    return value


def _whole(flag: str, text: str) -> int:
    # At most eighteen digits: any such number fits into 64 bits.
    if not re.fullmatch(r"\d{1,18}", text):
        raise ValueError(f"{flag} is {text}; it must be a whole number of at least 0")
    return int(text)


def _span(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    # Two numbers of seconds, without sign or exponent.
    match = re.fullmatch(r"(\d+\.?\d*)\.\.(\d+\.?\d*)", text)
    if match is None:
        raise ValueError(f"--span is {text}; it must be two numbers of seconds such as 0..3600")
    return float(match[1]), float(match[2])

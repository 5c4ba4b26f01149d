"""The `jaxroof` command: one module per verb, imported only when its verb is called."""

import argparse
import contextlib
import importlib
import os
import sys

VERBS = {
    "step": "one engine step: a table of its ops with time, share, work and what binds each",
    "collective": "an all-reduce or another collective: time and bus bandwidth by algorithm and message size",
    "request": "a static batch of requests: TTFT, TPOT, E2E latency, throughput, what fits",
    "train": "one iteration of training: time, MFU, messages, memory, cost; or the best layouts of many devices",
    "serve": "a request stream on a simulated engine: latency percentiles, goodput, queueing, use of the cache",
    "disaggregate": "prefill and decode on pools of their own: TTFT, TPOT, rates that match, the best split",
    "colocate": "two models on the same devices, in turns or side by side: latencies of each, alone and together",
    "scenario": "the suite of training and inference scenarios, each beside hand-worked values",
    "compare": "which accelerators, how many and which parallelism serve a model best: a ranking",
    "capacity": "the largest load at which each of many accelerators keeps an objective, and latency against load",
    "sensitivity": "which numbers matter and by how much: elasticities of every metric, at a point or over a sweep",
    "sweep": "a grid or sample of points from a TOML spec, into a netCDF file or a folder of shards",
    "status": "how far a folder of shards is, and whether it is whole",
    "query": "the points of a sweep that keep a condition, best first",
    "merge": "a folder of shards as one netCDF file",
    "optimize": "the best hardware, deployment and workload numbers under constraints, by gradients",
    "plot": "a picture of a sweep's netCDF file, or of one step's roofline",
    "bench": "measured kernels of the device that JAX sees, as surfaces that predict others",
    "hardware": "the accelerators of the catalogue",
    "models": "the models of the catalogue",
    "trace": "a request stream, from a trace file or distributions: rate, burstiness, lengths, shared prefixes",
    "calibrate": "an engine's overheads from one measured run of a server, or whether calibrated ones still hold",
    "surface": "kernels as a user measured them: tables from a benchmark's files, or what a file holds",
    "validate": "predictions against measured data",
}
"""Every verb and what it answers. Verb `x` lives in `sweeps.cli.x` as `arguments(parser)` and `run(options)`."""

LONGEST_LINE = 2000
"""Characters of an error that are shown: what a file says may be in it."""

WRONG, INTERRUPTED, BROKEN_PIPE = 2, 130, 141
"""Exit statuses beside 0: bad input, and the two of a shell for a signal (128 + its number)."""


def main(words: list[str] | None = None) -> int:
    """Run one verb; returns the exit status: 0, or one of the above after a line on stderr that says what is wrong."""
    words = sys.argv[1:] if words is None else words
    title = f"jaxroof {words[0]}" if words and words[0] in VERBS else "jaxroof"
    try:
        _run(words)
        sys.stdout.flush()
    except BrokenPipeError:
        with contextlib.suppress(OSError, ValueError):  # what is still buffered must not fail again at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except (ValueError, OSError) as error:
        print(f"{title}: {_one_line(error)}", file=sys.stderr)
        return WRONG
    except KeyboardInterrupt:
        print(f"{title}: interrupted; nothing was written", file=sys.stderr)
        return INTERRUPTED
    return 0


def _run(words: list[str]) -> None:
    about = "Time, memory and cost of LLM inference on any hardware. `jaxroof VERB --help` says what a verb takes."
    parser = Parser(prog="jaxroof", description=about, allow_abbrev=False)
    parser.add_argument("--version", action="store_true", help="print the version and stop")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    if words and not words[0].startswith("-") and words[0] not in VERBS:
        raise ValueError(f"there is no verb {words[0]}{_nearest(words[0], VERBS)}")
    for verb, summary in VERBS.items():
        description = f"{summary[0].upper()}{summary[1:]}."
        subparser = verbs.add_parser(verb, help=summary, description=description, allow_abbrev=False)
        if words and verb == words[0]:
            module, flags = importlib.import_module(f"sweeps.cli.{verb}"), subparser
            module.arguments(subparser)
    options, unknown = parser.parse_known_args(words)
    if unknown:
        known = flags.flags() if options.verb else parser.flags()
        near = _nearest(unknown[0], known) if unknown[0].startswith("-") else ""
        raise ValueError(f"{unknown[0]} is not an argument here{near}")
    if options.version:
        from jaxroof.version import VERSION

        print(VERSION)
    elif options.verb is None:
        parser.print_help()
    else:
        from sweeps.cli.outputs import require_outputs

        require_outputs(options)
        module.run(options)


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, and that takes a flag once unless it is declared to append."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.register("action", None, _Once)
        self.register("action", "store", _Once)

    def error(self, message: str) -> None:
        raise ValueError(message)

    def flags(self) -> list[str]:
        """Every flag that it knows."""
        return [flag for action in self._actions for flag in action.option_strings]


class _Once(argparse.Action):
    """Stores the value of a flag; a second one would silently replace it, so it is refused."""

    def __call__(self, parser, namespace, values, option_string=None):
        given = namespace.__dict__.setdefault("_given", set())
        if option_string is not None and self.dest in given:
            raise argparse.ArgumentError(self, "given twice")
        given.add(self.dest)
        setattr(namespace, self.dest, values)


def _nearest(word: str, known) -> str:
    import difflib

    close = difflib.get_close_matches(word, list(known), n=2, cutoff=0.5)
    return f"; did you mean {' or '.join(close)}?" if close else f"; known: {', '.join(known)}"


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    text = " ".join(str(error).split())
    return text if len(text) <= LONGEST_LINE else f"{text[: LONGEST_LINE - 4]} ..."

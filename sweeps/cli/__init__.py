"""The `jaxroof` command: one module per verb, imported only when its verb is called."""

import argparse
import importlib
import sys

VERBS = {
    "step": "one engine step: a table of its ops with time, share, work and what binds each",
    "request": "a static batch of requests: TTFT, TPOT, E2E latency, throughput, what fits",
    "sweep": "a grid or sample of points from a TOML spec, into a netCDF file",
    "plot": "a picture of a sweep's netCDF file, or of one step's roofline",
    "hardware": "the accelerators of the catalogue",
    "models": "the models of the catalogue",
    "validate": "predictions against measured data",
}
"""Every verb and what it answers. Verb `x` lives in `sweeps.cli.x` as `arguments(parser)` and `run(options)`."""


def main(words: list[str] | None = None) -> int:
    """Run one verb; returns the exit status: 0, or 2 after one line on stderr that says what is wrong."""
    words = sys.argv[1:] if words is None else words
    parser = argparse.ArgumentParser(prog="jaxroof", description=__doc__.partition(":")[0] + ".")
    parser.add_argument("--version", action="store_true", help="print the version and stop")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    for verb, summary in VERBS.items():
        subparser = verbs.add_parser(verb, help=summary, description=summary[0].upper() + summary[1:] + ".")
        if words and verb == words[0]:
            module = importlib.import_module(f"sweeps.cli.{verb}")
            module.arguments(subparser)
    options = parser.parse_args(words)
    if options.version:
        from jaxroof.version import VERSION

        print(VERSION)
        return 0
    if options.verb is None:
        parser.print_help()
        return 0
    try:
        module.run(options)
    except (ValueError, OSError) as error:
        print(f"jaxroof {options.verb}: {_one_line(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"jaxroof {options.verb}: interrupted; nothing was written", file=sys.stderr)
        return 130
    return 0


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split())

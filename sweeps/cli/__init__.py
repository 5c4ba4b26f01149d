"""The `jaxroof` command: one module per verb, imported only when its verb is called."""

import os
import sys

from jaxroof.public import jax_on_use
from sweeps.cli import stopping
from sweeps.cli.verbs import VERBS

COLLECTIONS = 200_000, 20, 100
"""Thresholds of Python's collector of cycles: tracing makes many objects and few cycles, and a tenth of the time was
spent looking for them."""


def main(words: list[str] | None = None) -> int:
    """Run one verb: 0, or another status of `sweeps.cli.faults` after a line on stderr that says what is wrong.

    Args:
      words: of the command line, for a caller who goes on afterwards. None: those of this process, which then ends
        here, at a signal as at the end of the verb, without the interpreter's own shutdown: threads may still be inside
        compiled code.

    Raises:
      Exception: with `words`, where the fault is the program's own.
    """
    # Words from a caller: the exit status is returned, and the caller's process goes on.
    if words is not None:
        return _status(words)
    # The status of a failure stands until a verb has ended: an exit from here on must not look like success.
    status = 1
    try:
        status = _process()
    finally:
        os._exit(status)


def _process() -> int:
    """The status of a process that has no other purpose."""
    words = sys.argv[1:]
    for number in range(3):  # a file that takes the place of a closed stream would get what is printed
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is taken, so that each closed one of the streams 0, 1 and 2 is replaced in turn.
            os.open(os.devnull, os.O_RDWR)
    try:
        stopping.name(_title(words))
        stopping.begin()
        import gc

        gc.set_threshold(*COLLECTIONS)
        return _status(words)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except BaseException as error:
        from sweeps.cli import faults

        return faults.defect(error, _title(words))


def _status(words: list[str]) -> int:
    from sweeps.cli import environment, faults, printing

    # Both streams escape what they print while the verb runs, and are the caller's own again afterwards.
    title, streams = _title(words), (sys.stdout, sys.stderr)
    stopping.name(title)
    try:
        sys.stdout, sys.stderr = printing.printed(*streams)
        environment.require_streams(*streams)
        from sweeps.cli import parser

        # Most answers are given without JAX, whose import would take longer than they do.
        with jax_on_use():
            helped = parser.run(words)
        sys.stdout.flush()
    except BaseException as error:
        return faults.status(error, title)
    finally:
        printing.flushed(sys.stdout, sys.stderr)
        sys.stdout, sys.stderr = streams
    # A help ends as argparse ends it, but only after what it printed has been written out.
    if helped is not None:
        raise helped
    return 0


def _title(words: list[str]) -> str:
    return f"jaxroof {words[0]}" if words and words[0] in VERBS else "jaxroof"

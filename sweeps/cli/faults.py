"""The line and the exit status of a command that fails."""

import os
import signal
import sys

from hwspaces.files.document import Problems
from sweeps.ask.text import escaped
from sweeps.cli import environment, stopping
from sweeps.cli.printing import Unprintable

DEFECT, WRONG, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141
"""Exit statuses beside 0: a defect of the program, bad input or surroundings that do not allow it, and those of a shell
for a signal (128 + its number)."""

LONGEST_LINE = 2000
"""Characters of an error that are shown: what a file says may be in it."""

TRACEBACK = "JAXROOF_TRACEBACK"
"""Variable of the environment that has every error say where in the program it was raised."""

PACKAGES = ("jaxroof", "hwspaces", "workloads", "sweeps")
"""Folders of this distribution's code."""


def status(error: BaseException, title: str) -> int:
    """Say what is wrong, and the exit status.

    Args:
      error: what a verb raised.
      title: how the line begins: "jaxroof step".

    Raises:
      BaseException: `error` itself, where it is neither bad input nor a matter of the surroundings.
    """
    # The reader of a pipe has ended, as `head` does: this is no error, and nobody reads a line on it.
    if isinstance(error, Unprintable) and isinstance(error.cause, BrokenPipeError):
        return BROKEN_PIPE
    if isinstance(error, KeyboardInterrupt):
        print(stopping.line(signal.SIGINT), file=sys.stderr)
        return INTERRUPTED
    # The surroundings are asked first: a lack of memory may come as any class of error.
    words = environment.explained(error)
    if words is None and isinstance(error, ValueError | OSError | Unprintable):
        words = one_line(error)
    # Neither bad input nor the surroundings: a defect, which the caller reports.
    if words is None:
        raise error
    _print_traceback(error)
    print(f"{title}: {_listed(error) or words}", file=sys.stderr)
    return WRONG


def defect(error: BaseException, title: str) -> int:
    """Say that the program is wrong, and where it can be seen, and the exit status."""
    _print_traceback(error)
    what = escaped(f"{type(error).__name__}: {one_line(error)}", breaks=True)
    words = f"{title}: a defect of jaxroof: {what[:400]} ({_place(error)}); {TRACEBACK}=1 shows the traceback to report"
    # Written to the file descriptor: the stream object itself may be what has failed.
    try:
        os.write(2, f"{words}\n".encode(errors="backslashreplace"))
    except OSError:
        pass  # nobody listens
    return DEFECT


def one_line(error: BaseException) -> str:
    """Text of an error, in one line that is not too long."""
    # The system's words with the file's name, without Python's number of the error.
    if isinstance(error, OSError) and error.filename is not None:
        return escaped(f"{os.fsdecode(error.filename)}: {error.strerror}", breaks=True)
    text = " ".join(str(error).split())
    return text if len(text) <= LONGEST_LINE else f"{text[: LONGEST_LINE - 4]} ..."


def _listed(error: BaseException) -> str | None:
    """Everything that is wrong with a file, a line each; None of an error that has one line."""
    if not isinstance(error, Problems) or error.count == 1:
        return None
    lines = [text if len(text) <= LONGEST_LINE else f"{text[: LONGEST_LINE - 4]} ..." for text in error.lines]
    return "\n  ".join([f"{error.where}: {error.count} problems", *lines])


def _place(error: BaseException) -> str:
    """The last line of this distribution that an error passed."""
    # Traceback paths are shortened to those inside of the distribution.
    root, place = os.path.abspath(__file__).removesuffix(os.path.join("sweeps", "cli", "faults.py")), ""
    at = error.__traceback__
    # From the outermost call inwards: the last match is where the error passed this code.
    while at is not None:
        path = at.tb_frame.f_code.co_filename
        if path.startswith(root) and path.removeprefix(root).split(os.sep)[0] in PACKAGES:
            place = f"{path.removeprefix(root)}, line {at.tb_lineno}"
        at = at.tb_next
    return place


def _print_traceback(error: BaseException) -> None:
    if os.environ.get(TRACEBACK):
        import traceback

        traceback.print_exception(error)

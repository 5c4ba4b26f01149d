"""The end of a process at Ctrl-C, SIGTERM or a lost terminal: prompt, and with one line.

A thread waits for the signal, takes away files that are not whole and ends the process. Nothing is raised in the main
thread: it may be inside compiled code, or in a callback that swallows what is raised. Until `begin` has been called,
the system and Python decide what a signal does: nothing is imported before that takes time, `signal` with its
enumerations neither.
"""

import _signal
import _thread
import os
import sys

from sweeps.ask.text import escaped

TYPE_CHECKING = False  # of `typing`, which takes longer to import than all of this

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

SIGNALS = {getattr(_signal, name): name for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(_signal, name)}
"""Number and name of the signals that end a process."""

SHELL = 128
"""What a shell adds to the number of a signal for an exit status: 130 after SIGINT, 143 after SIGTERM."""

LONGEST_SECONDS = 1.0
"""s after which a stopped process ends without more ado, where a disk or a terminal does not answer."""

TERMINAL = "\r\x1b[2K\x1b[?25h"
"""Takes away a progress bar that is drawn on a terminal, and shows the cursor that it has hidden."""

_said: "dict[str, Any]" = {"title": "jaxroof", "words": None}


def begin() -> None:
    """Let every signal of `SIGNALS` end this process from now on, unless its parent wants it ignored."""
    if os.name != "posix":
        return
    # The interpreter writes each signal's number into this pipe, which a thread reads.
    reading, writing = os.pipe()
    # A full pipe must not block the handler: one signal is enough.
    os.set_blocking(writing, False)
    _signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in SIGNALS:
        # A parent that ignores a signal, such as nohup, wants it ignored here as well.
        if _signal.getsignal(number) != _signal.SIG_IGN:  # nohup, or a job in the background of a script
            _signal.signal(number, _noted)
    _thread.start_new_thread(_wait, (reading,))


def name(title: str) -> None:
    """Note what runs from now on, and how the line about it begins: "jaxroof step"."""
    # A new command: words about the previous one no longer hold.
    _said.update(title=title, words=None)
    _of_files("begun")


def say(words: "Callable[[str, str], str] | None") -> None:
    """Have the line be `words(title, name of the signal)` in place of one that says which files were written."""
    _said["words"] = words


def line(number: int) -> str:
    """The line about a signal: what was stopped, and what is there of it."""
    signal = SIGNALS[number]
    # A verb with a line of its own, such as a sweep that can be continued, replaces the usual one.
    if _said["words"] is not None:
        return _said["words"](_said["title"], signal)
    done = _of_files("finished") or ()
    what = f"after {', '.join(done)} {'were' if len(done) > 1 else 'was'} written" if done else "nothing was written"
    return f"{_said['title']}: stopped by {signal}{' ' if done else '; '}{escaped(what, breaks=True)}"


def _of_files(question: str) -> "tuple[str, ...] | None":
    """Answer of a function of `hwspaces.files.interrupted`; None where it is not loaded: no file has been begun."""
    function = getattr(sys.modules.get("hwspaces.files.interrupted"), question, None)
    return None if function is None else function()


def _noted(number: int, frame: object) -> None:
    """The signal is in the pipe already: the interpreter writes it there for signals that have a handler in Python."""


def _wait(reading: int) -> None:
    # Other signals may have handlers of their own and are passed over.
    while (number := os.read(reading, 1)[0]) not in SIGNALS:
        pass
    _end(number)


def _end(number: int) -> None:
    """End now: the interpreter is not shut down, since threads may be inside compiled code that it would unload."""
    try:
        # A second thread ends the process if any of the following blocks.
        _thread.start_new_thread(_end_later, (SHELL + number,))
        _end_children()
        # A bar is on stderr, and is removed only from a terminal.
        start = TERMINAL if os.isatty(2) else ""
        os.write(2, f"{start}{line(number)}\n".encode(errors="backslashreplace"))
    finally:
        try:
            _of_files("removed")  # the last thing: until the process has ended, its other threads go on
        finally:
            os._exit(SHELL + number)


def _end_later(status: int) -> None:
    import time

    time.sleep(LONGEST_SECONDS)
    os._exit(status)


def _end_children() -> None:
    """Kill processes that were started here: workers of Dask."""
    processes = sys.modules.get("multiprocessing")
    for child in processes.active_children() if processes and hasattr(processes, "active_children") else ():
        child.kill()

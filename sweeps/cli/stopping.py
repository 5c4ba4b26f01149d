"""How a long run ends at Ctrl-C or SIGTERM: soon, with one line, whatever it is at."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

STOPPED = 130
"""Exit status after Ctrl-C or SIGTERM."""

GRACE_SECONDS = 1.3
"""s in which a run ends by itself; compiled code, and libraries that close connections, may take longer."""

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def stoppable(words: Callable[[], str]) -> Iterator[None]:
    """End the process with `STOPPED` and a line on stderr, at once where the block does not end by itself.

    The block sees `KeyboardInterrupt`, once. A thread waits for the signal beside it: Python's own handlers run only
    when compiled code returns.

    Args:
      words: the line, when it comes to that.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ended, (reading, writing) = threading.Event(), os.pipe()
    os.set_blocking(writing, False)

    def watch() -> None:
        while (number := os.read(reading, 1)) and number[0] not in SIGNALS:
            pass
        os.close(reading)
        if number and not ended.wait(GRACE_SECONDS):
            _end(words())

    before = {number: signal.signal(number, _interrupt) for number in SIGNALS}
    wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=watch, name="stopping", daemon=True).start()
    try:
        yield
    except KeyboardInterrupt:
        ended.set()
        _end(words())
    finally:
        signal.set_wakeup_fd(wakeup)
        ended.set()
        os.close(writing)
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: Any) -> None:
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)  # what closes files is not interrupted again
    raise KeyboardInterrupt


def _end(words: str) -> None:
    """End now: nothing that still computes is waited for, and no other handler gets a chance to wait."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    with contextlib.suppress(OSError):
        os.write(2, f"{words}\n".encode())
    os._exit(STOPPED)

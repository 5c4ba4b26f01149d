"""One hostile file: how it is made, who reads it, and what that may take."""

import contextlib
import dataclasses
import pathlib
import resource
import time
from collections.abc import Callable
from typing import Any

from tests.fuzz.target import Hang, limited

SECONDS = 2.0
"""s of this process that reading a file may take."""

HUNG = 120.0
"""s after which a file counts as one that is waited for in vain; the machine may be busy with something else."""

GROWTH = 1 << 30
"""B by which the memory may grow."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A file, and its reader."""

    name: str
    loader: str
    file: str
    make: Callable[[pathlib.Path], Any]
    read: Callable[[str], Any]  # returns, or raises ValueError
    refused: bool  # whether it has to be refused


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of reading a file."""

    seconds: float
    bytes: int  # of memory, at most, beyond those before
    line: str  # the error, or "read"
    wrong: str  # what should not be; "" where nothing


def outcome(case: Case, folder: pathlib.Path) -> Outcome:
    """Make a file in an empty folder and read it."""
    path = folder / case.file
    case.make(path)
    before, began = _resident("VmRSS"), time.process_time()
    _forget_peak()
    wrong = ""
    try:
        with limited(HUNG):
            case.read(str(path))
        line = "read"
        wrong = "it should be refused" if case.refused else ""
    except ValueError as error:
        line = str(error)
        wrong = "" if line.strip() and len(line.splitlines()) == 1 else "not one line"
    except (Exception, Hang) as error:
        line = wrong = f"{type(error).__name__}: {error}"
    seconds, grown = time.process_time() - began, max(0, _resident("VmHWM") - before)
    wrong = wrong or (f"{seconds:.1f} s" if seconds > SECONDS else "") or (f"{grown:,} B" if grown > GROWTH else "")
    return Outcome(seconds, grown, line.replace(str(folder) + "/", ""), wrong)


def _resident(key: str) -> int:
    """B of memory of this process, now or at most."""
    for row in pathlib.Path("/proc/self/status").read_text().splitlines():
        if row.startswith(key):
            return int(row.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _forget_peak() -> None:
    """Have the system note the largest use of memory anew; where it does not, that of the whole process is taken."""
    with contextlib.suppress(OSError):
        pathlib.Path("/proc/self/clear_refs").write_text("5")

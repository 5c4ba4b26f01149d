"""Cores that a process may use."""

import os

VARIABLE = "NPROC"
"""Environment variable that limits a process to so many cores; XLA's programs heed it too."""


def cores() -> int:
    """Cores of this process: those that the system schedules it on, and at most `NPROC` of the environment."""
    # Containers and batch systems give a process a part of the machine, which `os.cpu_count` does not know.
    known = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get(VARIABLE, "")
    return max(1, min(known, int(limit))) if limit.isdecimal() else known


def share(processes: int) -> int:
    """Cores of each of so many processes on this machine, 1 at least."""
    return max(1, cores() // processes)

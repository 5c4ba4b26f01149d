"""Compilation of programs that run for milliseconds, in tests: without care, which takes three quarters of the time."""

import os

from jaxroof.numerics.xla_options import LIGHT, QUICK, flags


def quick_compilation() -> None:
    """Flags in XLA_FLAGS, before JAX begins to compile; processes that are started afterwards inherit them.

    What programs compute is the same but for rounding; benchmarks, and what users run, are compiled with care. So are
    simulations of this process: those of tests end in milliseconds.
    """
    LIGHT.wanted.update(QUICK.wanted)
    given = os.environ.get("XLA_FLAGS", "")
    if not any(name in given for name in QUICK.wanted):
        os.environ["XLA_FLAGS"] = f"{flags(QUICK.wanted)} {given}".strip()

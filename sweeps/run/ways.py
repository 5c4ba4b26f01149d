"""Ways to evaluate points: how many a compiled call takes, and how XLA compiles it; the one place that decides."""

import dataclasses
import os
from typing import Any

from jaxroof.numerics.xla_options import QUICKLY

SHORT, SIMULATION = 30_000, 100
"""Requests of simulations, and requests that a simulation counts as beside its own, up to which their loops are
compiled with `QUICK`, and what comes before and after them not at all: programs would take two seconds more, and spare
50 us per request."""

MOST_EAGER = 1 << 20
"""Points up to which NumPy answers before a program is compiled."""

MOST_EAGER_BESIDE_LOOPS = 3 << 17
"""The same where LLVM is there, which compiles in a fraction of XLA's time: 10 us per point on NumPy are then 4 s, and
tracing and compiling takes 3 s."""

LONGEST_EAGER = 1 << 17
"""The same along one axis, as in a sample: its points share no terms, and each costs as much as 16 of a grid."""

BESIDE_DEVICE = 4
"""Times fewer points that NumPy answers where programs run on a GPU or TPU: a call of that many costs it next to
nothing, so that what is compared with NumPy's seconds is the compilation alone."""

MANY_SLOPES = 1 << 16
"""Points from which the gradient in all numbers at once is worth its compilation."""

FEW_SLOPES = 1 << 18
"""Points from which the same is worth it for however few numbers: 70 us per point on NumPy are then 18 s."""

DIRECTIONS = 4
"""Numbers per metric from which the gradient in all of them at once costs less than one after the other."""


@dataclasses.dataclass(frozen=True)
class Way:
    """How points of one structure are evaluated."""

    compiled: bool = True  # False: on NumPy, in columns
    lanes: int | None = None  # points of one call, the last call filled up; None: all of them
    at_most: bool = False  # fewer points than `lanes` are one call of their number
    constants: bool = False  # the base's numbers are constants of the program, which then serves for this base alone
    loops: bool = False  # as loops of machine code, where LLVM is there: `sweeps.run.native`
    threads: int = 1  # calls at once
    options: tuple[tuple[str, Any], ...] = ()  # of XLA, by name


EAGERLY = Way(compiled=False, lanes=1 << 13)
"""On NumPy, in columns whose intermediate numbers stay in a cache: no compilation, for up to about a million points."""

SLOPES = Way(compiled=False, lanes=1 << 8)
"""Gradients in all numbers at once on NumPy, whose dual numbers have an entry per number: small columns."""

ALL_SLOPES = Way(lanes=1 << 14, constants=True, loops=True, threads=os.cpu_count() or 1)
"""Gradients in all numbers at once: runs fast."""


def designs(gradients: bool) -> Way:
    """Designs of an optimiser: loops of machine code compile in a fifth of the time of XLA's programs.

    Where there are none, calls of one length keep the number of programs small.
    """
    return Way(lanes=64 if gradients else 4096, constants=True, loops=True, options=tuple(QUICKLY.items()))


def slopes(points: int, numbers: int, metrics: int) -> Way:
    """The gradients of `metrics` in `numbers` at `points` of one structure: what costs less, compilation included."""
    many = points >= (MANY_SLOPES if numbers > DIRECTIONS * metrics else FEW_SLOPES)
    return ALL_SLOPES if many and _backend() == "cpu" else SLOPES


def _backend() -> str:
    from jaxroof.numerics.arrays import jax

    return jax.default_backend()

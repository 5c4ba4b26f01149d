"""Ways to evaluate points: how many a compiled call takes, and how XLA compiles it; the one place that decides."""

import dataclasses
import os
from typing import Any

import jax

QUICK = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
"""XLA's options for programs that run for milliseconds: LLVM's optimisation would take longer than all the rest, and
the newer emitters of fused loops twice as long as the older ones."""

QUICKLY = {"xla_cpu_use_fusion_emitters": False}
"""XLA's options for programs of gradients on a CPU: they compile in half the time and run a little slower."""

FEW = 32
"""Points that are evaluated one by one, in less time than it takes to compile a program for them."""

MANY_SLOPES = 1 << 16
"""Points from which the gradient in all numbers at once is worth its compilation."""

DIRECTIONS = 4
"""Numbers per metric from which the gradient in all of them at once costs less than one after the other."""


@dataclasses.dataclass(frozen=True)
class Way:
    """How points of one structure are evaluated."""

    compiled: bool = True  # False: op by op, point by point; what is compiled then is one op, shared by all questions
    lanes: int | None = None  # points of one call, the last call filled up; None: all of them
    at_most: bool = False  # fewer points than `lanes` are one call of their number
    constants: bool = False  # the base's numbers are constants of the program, which then serves for this base alone
    tiles: bool = False  # in tiles that stay in the first cache: `sweeps.run.tiles`
    threads: int = 1  # calls at once
    options: tuple[tuple[str, Any], ...] = ()  # of XLA, by name


ONE_BY_ONE = Way(compiled=False)
"""Tens of points, of which each structure would take longer to compile than to run; a point takes 0.1 to 0.3 s."""

AT_ONCE = Way()
"""Some thousand points in many structures: one call per structure."""

LAYOUTS = Way(lanes=1 << 14)
"""Layouts of a training run: one program whatever their number."""

CURVE = Way(constants=True)
"""A handful of points of one structure that are evaluated once."""

ONE_SLOPE = Way(options=tuple(QUICK.items()))
"""The gradient in one number at one point: a program that runs for milliseconds."""

SLOPES = Way(lanes=1 << 14, at_most=True, constants=True, options=tuple(QUICK.items()))
"""Gradients in one number after the other: compiles fast. Buffers of a call stay in a cache of some MB per op."""

ALL_SLOPES = Way(lanes=1 << 14, constants=True, tiles=True, threads=os.cpu_count() or 1)
"""Gradients in all numbers at once: runs fast."""


def designs(gradients: bool) -> Way:
    """Designs of an optimiser, of which each call of one length keeps the number of programs small."""
    options = tuple(QUICKLY.items()) if jax.default_backend() == "cpu" else ()
    return Way(lanes=64 if gradients else 4096, constants=True, options=options)


def slopes(points: int, numbers: int, metrics: int) -> Way:
    """The gradients of `metrics` in `numbers` at `points` of one structure: what costs less, compilation included."""
    many = points >= MANY_SLOPES and numbers > DIRECTIONS * metrics and jax.default_backend() == "cpu"
    return ALL_SLOPES if many else SLOPES

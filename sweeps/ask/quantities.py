"""One number of a deployment or a workload from what a user writes, and what it may be: whole, zero, at most 1."""

import math
from typing import Any, NamedTuple

import numpy as np

from hwspaces.leaves import leaf_quantity
from hwspaces.units import is_zero, quantity
from jaxroof.colocation import SHARINGS
from jaxroof.deployment import DEGREES
from jaxroof.training.schedules import SCHEDULES
from jaxroof.training.training import RECOMPUTES

MAY_BE_ZERO = (
    "workload.cached",
    "workload.past",
    "workload.acceptance",
    "workload.layerwise",
    "workload.delay",
    "deployment.reserved_cores",
    "deployment.reserve_bytes",
    "deployment.drafts",
    *(f"workload.{name}" for name in ("zero", "overlap", "dropout")),
    "workload.offload",
    "deployment.offloaded",
    "deployment.prefetched",
)
"""Leaves for which zero is a sensible number; every other one is above zero."""

COUNTS = frozenset(
    (
        *(f"deployment.{name}" for name in (*DEGREES, "drafts", "block_tokens", "max_batched_tokens")),
        *(f"workload.{name}" for name in ("batch", "isl", "osl", "cached", "encoder_tokens", "prompts", "lanes")),
        *(f"workload.{name}" for name in ("prefills", "prefill", "past", "decode", "context")),
        *(f"workload.{name}" for name in ("global_batch", "micro_batch", "seq", "virtual_stages", "zero")),
        *(f"workload.{name}" for name in ("concurrency", "requests", "seed")),
        *(f"policy.{name}" for name in ("token_budget", "max_sequences", "block_size", "max_waiting")),
        *("policy.graph_step", "policy.graph_limit"),
    )
)
"""Leaves that count something: whole numbers, of which an axis takes the nearest ones.

Counts of hardware are not among them: a design's cores vary continuously.
"""


class Limit(NamedTuple):
    """What a number may be beside positive."""

    least: float
    most: float
    words: str
    open: bool = False  # `most` itself is not allowed


_SHARE, _PART = Limit(0.0, 1.0, "at most 1"), Limit(0.0, 1.0, "above 0 and below 1", open=True)
_REST = Limit(0.0, 1.0, "from 0 to below 1", open=True)
LIMITS = {
    "deployment.imbalance": Limit(1.0, math.inf, "at least 1: the busiest device over the mean of all"),
    "deployment.alike": Limit(0.0, 1.0, "above 0 and at most 1"),
    "deployment.memory_utilization": Limit(0.0, 1.0, "above 0 and at most 1"),
    "deployment.prefetched": _SHARE,
    **dict.fromkeys(("deployment.reserved_cores", "deployment.offloaded"), _REST),
    **dict.fromkeys(("workload.cores", "workload.cache"), _PART),
    **dict.fromkeys((f"workload.{name}" for name in ("overlap", "dropout", "offload")), _SHARE),
    "workload.acceptance": Limit(0.0, 1.0, "a probability: at most 1"),
    "workload.zero": Limit(0.0, 3.0, "0, 1, 2 or 3"),
}
"""Leaf -> its limit."""


CODES = {"workload.sharing": SHARINGS, "workload.schedule": SCHEDULES, "workload.recompute": RECOMPUTES}
"""Leaf -> the words whose places are its codes."""

SWITCHES = ("workload.layerwise",)
"""Leaves that are 0 or 1."""


def quantity_or_zero(value: Any, unit: str, path: str) -> float:
    """`value` of the leaf at `path` in the SI unit `unit`; ValueError names the path, the value and what is allowed."""
    plain = plain_path(path)
    if plain in CODES:
        return _code(value, path)
    if plain in MAY_BE_ZERO and is_zero(value, unit):
        return 0.0
    if plain.startswith("hardware."):
        return leaf_quantity(value, plain, path)
    number = quantity(value, unit, path)
    if plain in COUNTS and number != math.floor(number):
        raise ValueError(f"{path} = {value!r} must be a whole number")
    limit = LIMITS.get(plain)
    if limit is not None and not (limit.least <= number <= limit.most and not (limit.open and number == limit.most)):
        raise ValueError(f"{path} = {value!r} must be {limit.words}")
    if plain in SWITCHES and number != 1.0:
        raise ValueError(f"{path} = {value!r} must be 0 or 1")
    return number


def along_range(path: str, numbers: np.ndarray) -> np.ndarray:
    """Numbers that a range gives the leaf at `path`: of a count the nearest whole ones."""
    return np.round(numbers) if plain_path(path) in COUNTS else numbers


def plain_path(path: str) -> str:
    """The path of a leaf without the pool or the neighbour that it is of."""
    path = path.removeprefix("prefill.")
    if path.startswith("neighbour."):
        return path.removeprefix("neighbour.").replace("requests.", "workload.", 1)
    return path


def _code(value: Any, path: str) -> float:
    """The code of a word of `CODES`, in which dashes may stand for underscores, or the code itself."""
    words = CODES[plain_path(path)]
    if isinstance(value, str) and value.replace("-", "_") in words:
        return float(words.index(value.replace("-", "_")))
    try:
        code = float(value)
    except (TypeError, ValueError):
        code = -1.0
    if code not in range(len(words)):
        known = " or ".join(words) if len(words) == 2 else f"one of {', '.join(words)}"
        raise ValueError(f"{path} = {value!r} must be {known}")
    return code

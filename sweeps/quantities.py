"""One number from what a user writes, where zero may be a sensible one, or a word stand for it."""

from typing import Any

from hwspaces.units import leaf_quantity, quantity
from jaxroof.colocation import SHARINGS
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
"""Leaves for which zero is a sensible number."""


CODES = {"workload.sharing": SHARINGS, "workload.schedule": SCHEDULES, "workload.recompute": RECOMPUTES}
"""Leaf -> the words whose places are its codes."""

PARTS = ("workload.cores", "workload.cache")
"""Leaves that leave a part for somebody else."""

SWITCHES = ("workload.layerwise",)
"""Leaves that are 0 or 1."""


def quantity_or_zero(value: Any, unit: str, path: str) -> float:
    """`value` of the leaf at `path` in the SI unit `unit`; ValueError names the path, the value and what is allowed."""
    if path in CODES:
        return _code(value, path)
    if path in MAY_BE_ZERO and value in (0, "0") and not isinstance(value, bool):
        return 0.0
    if path.startswith("hardware."):
        return leaf_quantity(value, path, path)
    number = quantity(value, unit, path)
    if path in PARTS and not number < 1.0:
        raise ValueError(f"{path} = {value!r} must be above 0 and below 1")
    if path in SWITCHES and number != 1.0:
        raise ValueError(f"{path} = {value!r} must be 0 or 1")
    return number


def _code(value: Any, path: str) -> float:
    """The code of a word of `CODES`, in which dashes may stand for underscores, or the code itself."""
    words = CODES[path]
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

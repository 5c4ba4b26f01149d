"""One number from what a user writes, where zero may be a sensible one."""

from typing import Any

from hwspaces.units import leaf_quantity, quantity

MAY_BE_ZERO = (
    "workload.cached",
    "workload.past",
    "workload.acceptance",
    "deployment.reserved_cores",
    "deployment.reserve_bytes",
    "deployment.drafts",
    *(f"workload.{name}" for name in ("zero", "recompute", "schedule", "overlap", "dropout")),
    "workload.offload",
)
"""Leaves for which zero is a sensible number."""


def quantity_or_zero(value: Any, unit: str, path: str) -> float:
    """`value` of the leaf at `path` in the SI unit `unit`; ValueError names the path, the value and what is allowed."""
    if path in MAY_BE_ZERO and value in (0, "0") and not isinstance(value, bool):
        return 0.0
    if path.startswith("hardware."):
        return leaf_quantity(value, path, path)
    return quantity(value, unit, path)
